"""Paths and connections that break and heal: the run waits, starts nothing again, and its losses are those of any other run."""
import re
import time
import unittest

from disturbed import Disturbed, three_ranks, two_labs
from emulator import LONG

SILENT = r"rank (\d) \(\w+\) has heard nothing from rank (\d) \(\w+\) for (?:[5-9]|10) s; both reach the (?:launcher|coordinator)"


class Healing(Disturbed):
    STEPS = 30

    def check_healed(self, islands):
        """Nothing was started again, and nothing is missing. Returns what was said."""
        answer, said = self.finish(islands)
        self.assertEqual((answer["steps"], answer["restarts"]), (self.STEPS, 0), said)
        self.assertNotIn("starting again", said)
        self.check_same(self.STEPS)
        return said

    def test_connections_are_reset(self):
        """One of four, again and again; at last all four at a time."""
        job = three_ranks(self.STEPS)
        with self.undisturbed(job):
            islands = self.start(job)
            before = self.workers()
            for i in range(5):
                # Whichever end it is, and whichever of the four.
                rank, peer = (1, 2) if i % 2 else (2, 1)
                there = self.connections(rank, peer)
                self.assertEqual(len(there), 4, self.said())
                lost = [there[i]] if i < 4 else there
                for connection in lost:
                    self.reset(rank, connection)
                self.wait(lambda: len(self.connections(rank, peer)) == 4, "not all connections come back")
                self.assertEqual(set(there) - set(self.connections(rank, peer)), set(lost))
            self.assertEqual(self.workers(), before)
            said = self.check_healed(islands)
        self.assertGreaterEqual(len(re.findall(r"connection \d of 4 to rank [12] is back", said)), 8, said)

    def test_connections_are_reset_while_gradients_cross(self):
        """Replicas in two datacenters: of groups that are on their way nothing is lost, and nothing is added twice."""
        job = two_labs(self.STEPS)
        with self.undisturbed(job):
            islands = self.start(job)
            for i in range(3):
                there = self.connections(0, 1)
                self.assertEqual(len(there), 4, self.said())
                for connection in there if i == 2 else there[i:i + 1]:
                    self.reset(i % 2, connection if i % 2 == 0 else connection[::-1])
                self.wait(lambda: len(self.connections(0, 1)) == 4, "not all connections come back")
            with self.cut(islands):
                time.sleep(5)
            self.check_healed(islands)

    def test_paths_are_cut(self):
        """That between two workers alone, which the launcher names; then that between two datacenters."""
        job = three_ranks(self.STEPS)
        with self.undisturbed(job):
            islands = self.start(job)
            with self.cut_between(1, 2):
                begun = time.monotonic()
                self.wait(lambda: re.search(SILENT, self.said()), "nobody says who hears nothing")
                print(f"named {time.monotonic() - begun:.1f} s after the cut")
            for seconds in (5, 40) if LONG else (5,):
                with self.cut(islands):
                    time.sleep(seconds)
            said = self.check_healed(islands)
        # The launcher's own paths to the others carried on.
        self.assertLessEqual(set(re.findall(SILENT, said)), {("1", "2"), ("2", "1")}, said)

    @unittest.skipUnless(LONG, "waits until a link is given up, and for calls in vain; --long")
    def test_a_path_between_two_workers_that_stays_cut_is_gone_around(self):
        """Longer than the grace: an epoch, in which the two meet on the launcher's host."""
        job = three_ranks(self.STEPS)
        with self.undisturbed(job):
            islands = self.start(job, "--grace", "10s", "--keep-state")
            with self.cut_between(1, 2):
                answer, said = self.finish(islands)
            self.assertEqual(answer["restarts"], 1, said)
            self.assertIn("their link goes through this host", said)
            self.check_same(self.STEPS)


if __name__ == "__main__":
    unittest.main()
