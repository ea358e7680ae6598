"""A datacenter that is cut off for longer than the grace: nobody goes on alone on either side, and all go on when it is back."""
import pathlib
import time
import unittest

from disturbed import Disturbed
from ranks_test import JOB

TWO_RANKS = (JOB.format(connections=1).replace("nodes = 2", "nodes = 1").replace("pipeline = 4", "pipeline = 2")
             .replace("steps = 3", "steps = 60") + '\n[checkpoint]\ndirectory = "checkpoints"\nevery = 4\n')


class Partition(Disturbed):
    def epochs(self):
        journal = self.folder / "run" / "journal"
        return journal.read_text().count('"begun"') if journal.exists() else 0

    def newest(self):
        return max(path.parent.name for path in self.folder.glob("checkpoints/step-*/manifest.json"))

    def test_nobody_goes_on_alone(self):
        islands = self.start(TWO_RANKS, "--keep-state", "--grace", "3s")
        before = self.workers()
        self.assertEqual(set(before), {0, 1})
        with self.cut(islands):
            self.wait(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in before.values()),
                      "a worker goes on alone")
            self.wait(lambda: self.epochs() >= 2, "the launcher does not try again")
            written = self.newest()
            time.sleep(3)  # whoever worked alone would get somewhere
            self.assertEqual(self.newest(), written, "a part went on alone")
        answer, said = self.finish(islands)
        self.assertGreaterEqual(answer["restarts"], 1)
        self.assertRegex(said, r"rank 1 \(paris\) was lost: .*; starting again after step \d+")
        self.assertEqual(self.newest(), "step-00000060")


if __name__ == "__main__":
    unittest.main()
