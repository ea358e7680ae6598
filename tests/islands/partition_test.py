"""A datacenter that is cut off: nobody goes on alone on either side, and all go on when it is back."""
import os
import pathlib
import signal
import subprocess
import time
import unittest

from emulator import BUILD, GUARD_S, PROGRAM, Case
from ranks_test import ENVIRONMENT, JOB

TWO_RANKS = JOB.format(connections=1).replace("nodes = 2", "nodes = 1").replace("pipeline = 4", "pipeline = 2")


class Partition(Case):
    def epochs(self):
        journal = self.folder / "run" / "journal"
        return journal.read_text().count('"begun"') if journal.exists() else 0

    def wait(self, is_there, what):
        guard = time.monotonic() + GUARD_S
        while not is_there():
            self.assertLess(time.monotonic(), guard, f"{what}\n{(self.folder / 'errors').read_text()}")
            time.sleep(0.02)

    def workers(self):
        """{rank: process} of this test's workers."""
        found = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                if os.readlink(entry / "cwd") != str(self.folder) or "--rank" not in words:
                    continue
                found[int(words[words.index("--rank") + 1])] = int(entry.name)
            except OSError:
                continue
        return found

    def test_nobody_goes_on_alone(self):
        job = TWO_RANKS.replace("steps = 3", "steps = 60") + '\n[checkpoint]\ndirectory = "checkpoints"\nevery = 4\n'
        path = self.write(job, "job.toml")
        errors = open(self.folder / "errors", "w")
        islands = subprocess.Popen([PROGRAM, "run", path, "--", BUILD / "tombolo", "train", path, "--out",
                                    self.folder / "run", "--keep-state"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                                   cwd=self.folder, env=ENVIRONMENT)
        errors.close()
        self.addCleanup(lambda: islands.poll() is None and islands.kill())
        self.wait(lambda: list(self.folder.glob("checkpoints/step-*/manifest.json")), "no checkpoint")
        before = self.workers()
        self.assertEqual(set(before), {0, 1})
        # The emulator forwards nothing: a cut that says nothing to anybody.
        children = pathlib.Path(f"/proc/{islands.pid}/task/{islands.pid}/children").read_text().split()
        emulator = [islands.pid, *map(int, children)]
        for pid in emulator:
            os.kill(pid, signal.SIGSTOP)
        try:
            self.wait(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in before.values()),
                      "a worker goes on alone")
            self.wait(lambda: self.epochs() >= 2, "the launcher does not try again")
            written = self.newest()
            time.sleep(3)  # whoever worked alone would get somewhere
            self.assertEqual(self.newest(), written, "a part went on alone")
        finally:
            for pid in emulator:
                os.kill(pid, signal.SIGCONT)
        islands.communicate(timeout=GUARD_S)
        text = (self.folder / "errors").read_text()
        self.assertEqual(islands.returncode, 0, text)
        self.assertRegex(text, r"rank 1 \(paris\) was lost: .*; starting again after step \d+")
        self.assertEqual(self.newest(), "step-00000060")

    def newest(self):
        return max(path.parent.name for path in self.folder.glob("checkpoints/step-*/manifest.json"))


if __name__ == "__main__":
    unittest.main()
