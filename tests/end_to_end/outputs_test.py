"""Where a command writes: files, links, FIFOs, devices, and where it may not."""
import functools
import json
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

VARIED = ["sweep", TOY, "--vary", "training.global_batch=4,8"]
SHAKESPEARE = ["astra", "--job", EXAMPLES / "shakespeare" / "job.toml"]
TOKENIZE = ["tokenize", "tokenizer.json", "text.txt", "--format", "nanogpt"]

# Each with one option that names a file to write, last; then how its name must end, and what the command adds to it.
COMMANDS = {
    "simulate": (["simulate", TOY, "--out"], "", ""),
    "simulate's Plan": (["simulate", TOY, "--out-plan"], "", ""),
    "plan's Plan": (["plan", "small.toml", "--threads", "1", "--out"], ".json", ""),
    "plan's job": (["plan", "small.toml", "--threads", "1", "--out"], ".toml", ""),
    "plan's page": (["plan", "small.toml", "--threads", "1", "--report"], "", ""),
    "select's page": (["select", EXAMPLES / "atlas" / "select.toml", "--report"], "", ""),
    "estimate's page": (["estimate", RAILS, "--report"], "", ""),
    "fabric's page": (["fabric", "--gpus", "1024", "--report"], "", ""),
    "convert": (["convert", TOY, "--to", "schedule", "--out"], "", ""),
    "convert's Graph": (["convert", "one.toml", "--to", "chakra", "--out"], "", ".0.et"),
    "traffic's table": (["traffic", RAILS, "--csv"], "", ""),
    "traffic's page": (["traffic", RAILS, "--report"], "", ""),
    "strand": (["strand", STRANDS / "llama-25b.toml", "--report"], "", ""),
    "astra": ([*SHAKESPEARE, "--trace"], "", ""),
    "astra's page": ([*SHAKESPEARE, "--report"], "", ""),
    "sweep's rows": ([*VARIED, "--out"], ".csv", ""),
    "sweep's lines": ([*VARIED, "--out"], ".jsonl", ""),
    "sweep's page": ([*VARIED, "--report"], "", ""),
    "tokenize": ([*TOKENIZE, "--out"], "", ".bin"),
    "report": (["report", "trace.jsonl", "--out"], "", ""),
}

SMALL = """
[model]
preset = "byte-3m"
[[cluster.datacenter]]
name = "one"
device = "h100-80g"
nodes = 1
devices_per_node = {devices}
[training]
global_batch = 8
micro_batch = 1
precision = "bf16"
"""


def but_names(written, folder):
    """What was written, without the name under which: a trace says its command."""
    return re.sub(re.escape(str(folder).encode()) + rb"/\w+", b"OUTPUT", written)


class Output:
    """What one command writes, into a folder of its own."""

    def __init__(self, case, name):
        self.case = case
        self.words, self.ending, self.added = COMMANDS[name]
        self.folder = case.folder / re.sub(r"\W+", "-", name)
        self.folder.mkdir()
        case.ok(*self.words, self.option("new"))
        self.written = but_names(self.file("new").read_bytes(), self.folder)

    def option(self, name):
        return self.folder / (name + self.ending)

    def file(self, name):
        return self.folder / (name + self.ending + self.added)

    def ok(self, name):
        self.case.ok(*self.words, self.option(name))

    def tombolo(self, name, **options):
        return self.case.tombolo(*self.words, self.option(name), **options)

    def check_same(self, got):
        self.case.assertTrue(but_names(got, self.folder) == self.written,
                             f"{self.folder.name}: {len(got)} bytes differ from those of a new file")

    def check_holds(self, *names):
        self.case.assertEqual({path.name for path in self.folder.iterdir()}, {self.file(name).name for name in names})


def of_each_command(test):
    @functools.wraps(test)
    def of_all(self):
        for name in COMMANDS:
            with self.subTest(name):
                test(self, Output(self, name))
    return of_all


class Outputs(Case):
    def setUp(self):
        super().setUp()
        self.ok("simulate", TOY, "--out", "trace.jsonl")
        self.write("small.toml", SMALL.format(devices=4))
        self.write("one.toml", SMALL.format(devices=1) + "[parallelism]\npipeline = 1\n")
        self.write("text.txt", "The tide comes in over the sand.\n" * 9)
        letters = {chr(byte): byte - 33 for byte in range(33, 127)} | {"\u0120": 94, "\u010a": 95}
        self.write("tokenizer.json", json.dumps(
            {"model": {"type": "BPE", "vocab": letters, "merges": []}, "added_tokens": [],
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}}))

    def device(self, path, major, minor):
        """A node of our own that is like one of /dev, which no test touches."""
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
            os.close(os.open(path, os.O_WRONLY))
        except PermissionError:
            self.skipTest("devices cannot be made or opened here")

    @of_each_command
    def test_a_file_is_replaced_and_keeps_its_mode(self, output):
        there = output.file("there")
        there.write_text("old")
        there.chmod(0o600)
        inode = there.stat().st_ino
        output.ok("there")
        output.check_same(there.read_bytes())
        self.assertEqual(stat.S_IMODE(there.stat().st_mode), 0o600)
        self.assertNotEqual(there.stat().st_ino, inode)
        output.check_holds("new", "there")

    @of_each_command
    def test_a_link_is_followed_and_stays(self, output):
        output.file("real").write_text("old")
        for link, target in (("link", "real"), ("dangling", "created")):
            output.file(link).symlink_to(output.file(target).name)
            output.ok(link)
            self.assertTrue(output.file(link).is_symlink())
            output.check_same(output.file(target).read_bytes())

    @of_each_command
    def test_a_fifo_hands_it_on(self, output):
        fifo = output.file("fifo")
        os.mkfifo(fifo)
        got = []
        reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()), daemon=True)
        reader.start()
        output.ok("fifo")
        reader.join()
        output.check_same(*got)
        self.assertTrue(fifo.is_fifo())

    @of_each_command
    def test_a_device_is_written_and_stays(self, output):
        self.device(output.file("null"), 1, 3)
        output.ok("null")
        self.assertTrue(output.file("null").is_char_device())

    @of_each_command
    def test_a_full_device_is_said(self, output):
        full = output.file("full")
        self.device(full, 1, 7)
        output.file("link").symlink_to(full.name)
        for name in ("full", "link"):
            done = output.tombolo(name)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{output.file(name)}: cannot write it: No space left on device\n  try freeing space", done.stderr)
            self.assertTrue(full.is_char_device())
        output.check_holds("new", "full", "link")

    @of_each_command
    def test_a_folder_without_permission_is_said(self, output):
        # Root may write everywhere; "nobody" may not.
        nobody = {"user": 65534} if os.geteuid() == 0 else {}
        self.folder.chmod(0o755)
        if nobody and self.tombolo("--version", **nobody).returncode != 0:
            self.skipTest("another user cannot run the program here")
        output.folder.chmod(0o555)
        self.addCleanup(output.folder.chmod, 0o755)
        for name in ("new", "another"):
            done = output.tombolo(name, **nobody)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"{output.file(name)}: cannot create it: Permission denied\n  try a path that this user may use",
                          done.stderr)
        output.check_same(output.file("new").read_bytes())


if __name__ == "__main__":
    unittest.main()
