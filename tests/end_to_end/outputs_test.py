"""Where a command writes: files, links, FIFOs, devices, and where it may not."""
import os
import re
import stat
import threading
import unittest

from program import ROOT, Case

EXAMPLES = ROOT / "examples"
TOY = EXAMPLES / "toy" / "job.toml"
STRANDS = EXAMPLES / "strands"
RAILS = EXAMPLES / "rail-only" / "table4-175b.toml"

# Each with one option that names a file to write, last. (plan --out and sweep --out read the kind of file from its ending;
# they write through the same function.)
COMMANDS = {
    "simulate": ["simulate", TOY, "--out"],
    "simulate's Plan": ["simulate", TOY, "--out-plan"],
    "convert": ["convert", TOY, "--to", "schedule", "--out"],
    "traffic's table": ["traffic", RAILS, "--csv"],
    "traffic's page": ["traffic", RAILS, "--report"],
    "strand": ["strand", STRANDS / "llama-25b.toml", "--report"],
    "astra": ["astra", "--job", EXAMPLES / "shakespeare" / "job.toml", "--trace"],
    "sweep's page": ["sweep", TOY, "--vary", "training.global_batch=4,8", "--report"],
    "report": ["report", "trace.jsonl", "--out"],
}


def but_names(written, folder):
    """What was written, without the name under which: a trace says its command."""
    return re.sub(re.escape(str(folder).encode()) + rb"/\w+", b"OUTPUT", written)


class Outputs(Case):
    def setUp(self):
        super().setUp()
        self.ok("simulate", TOY, "--out", "trace.jsonl")

    def each_command(self):
        """(its words, a folder for what it writes, what it writes into a file that is not there yet)"""
        for name, words in COMMANDS.items():
            folder = self.folder / name.replace(" ", "-").replace("'", "")
            folder.mkdir()
            self.ok(*words, folder / "new")
            yield words, folder, but_names((folder / "new").read_bytes(), folder)

    def check_same(self, written, folder, got):
        self.assertTrue(but_names(got, folder) == written, f"{folder.name}: {len(got)} bytes differ from those of a new file")

    def device(self, path, major, minor):
        """A node of our own that is like one of /dev, which no test touches."""
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
            os.close(os.open(path, os.O_WRONLY))
        except PermissionError:
            self.skipTest("devices cannot be made or opened here")

    def test_a_file_is_replaced_and_keeps_its_mode(self):
        for words, folder, written in self.each_command():
            there = folder / "there"
            there.write_text("old")
            there.chmod(0o600)
            inode = there.stat().st_ino
            self.ok(*words, there)
            self.check_same(written, folder, there.read_bytes())
            self.assertEqual(stat.S_IMODE(there.stat().st_mode), 0o600)
            self.assertNotEqual(there.stat().st_ino, inode)
            self.assertEqual({path.name for path in folder.iterdir()}, {"new", "there"})

    def test_a_link_is_followed_and_stays(self):
        for words, folder, written in self.each_command():
            (folder / "real").write_text("old")
            for link, target in (("link", "real"), ("dangling", "created")):
                (folder / link).symlink_to(target)
                self.ok(*words, folder / link)
                self.assertTrue((folder / link).is_symlink())
                self.check_same(written, folder, (folder / target).read_bytes())

    def test_a_fifo_hands_it_on(self):
        for words, folder, written in self.each_command():
            fifo = folder / "fifo"
            os.mkfifo(fifo)
            got = []
            reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()), daemon=True)
            reader.start()
            self.ok(*words, fifo)
            reader.join()
            self.check_same(written, folder, *got)
            self.assertTrue(fifo.is_fifo())

    def test_a_device_is_written_and_stays(self):
        self.device(self.folder / "null", 1, 3)
        for words, folder, _ in self.each_command():
            self.device(folder / "null", 1, 3)
            self.ok(*words, folder / "null")
            self.assertTrue((folder / "null").is_char_device())

    def test_a_full_device_is_said(self):
        self.device(self.folder / "full", 1, 7)
        for words, folder, _ in self.each_command():
            full = folder / "full"
            self.device(full, 1, 7)
            for path in (full, folder / "link"):
                if path != full:
                    path.symlink_to("full")
                done = self.tombolo(*words, path)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{path}: cannot write it: No space left on device\n  try freeing space", done.stderr)
                self.assertTrue(full.is_char_device())
            self.assertEqual({path.name for path in folder.iterdir()}, {"new", "full", "link"})

    def test_a_folder_without_permission_is_said(self):
        # Root may write everywhere; "nobody" may not.
        nobody = {"user": 65534} if os.geteuid() == 0 else {}
        self.folder.chmod(0o755)
        if nobody and self.tombolo("--version", **nobody).returncode != 0:
            self.skipTest("another user cannot run the program here")
        for words, folder, written in self.each_command():
            folder.chmod(0o555)
            self.addCleanup(folder.chmod, 0o755)
            for name in ("new", "another"):
                done = self.tombolo(*words, folder / name, **nobody)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{folder / name}: cannot create it: Permission denied\n  try a path that this user may use",
                              done.stderr)
            self.check_same(written, folder, (folder / "new").read_bytes())


if __name__ == "__main__":
    unittest.main()
