"""Ranks that nobody can call: the other side calls them, or the coordinator splices two calls."""
import json
import subprocess
import time
import unittest

from launchers_test import LONG_RUN, TOKEN, Launched
from program import BUILD, GUARD_S, TORCH, TWO_EMULATED
from training_test import tiny


class Unreachable(Launched):
    def links(self, process):
        """The status once all ranks have reported their links, which they do every second."""
        deadline = time.monotonic() + GUARD_S
        while time.monotonic() < deadline:
            done = subprocess.run([str(BUILD / "tombolo"), "status", "--json"], cwd=self.folder, capture_output=True,
                                  text=True, timeout=GUARD_S)
            links = json.loads(done.stdout)["links"] if done.returncode == 0 else []
            if len(links) == 6:
                return {(link["rank"], link["peer"]): link["through"] for link in links}
            self.assertIsNone(process.poll(), "the run ended early")
            time.sleep(0.2)
        self.fail("not all links were reported")

    def test_two_neighbours_meet_at_the_coordinator_and_status_says_so(self):
        self.write("job.toml", LONG_RUN)
        ranks = self.start_ranks([0, 3], 4, TOMBOLO_TOKEN=TOKEN)
        ranks += self.start_ranks([1, 2], 4, "--no-inbound", TOMBOLO_TOKEN=TOKEN)
        through = self.links(ranks[0])
        self.assertEqual(through, {(0, 1): "", (1, 0): "", (2, 3): "", (3, 2): "", (1, 2): "coordinator",
                                   (2, 1): "coordinator"})
        text = self.ok("status", "--once")
        self.assertEqual(text.count("through the coordinator: neither rank can be called"), 2, text)
        ranks[0].terminate()
        _, _, err = self.end(ranks[0])
        self.assertIn("because neither of the two can be called: 1 and 2\n", err)
        for process in ranks[1:]:
            self.end(process)
        self.check_nothing_is_left()

    def test_with_tls_through_the_coordinator(self):
        self.write("job.toml", TWO_EMULATED)
        self.ok("init", "--directory", "first", "--name", "oregon")
        self.assertIn("4 steps", self.ok("train", "job.toml", "--out", "run", "--credentials", "first", "--no-inbound"))

    @unittest.skipUnless(TORCH, "built without LibTorch")
    def test_the_losses_are_those_of_an_undisturbed_run(self):
        losses = []
        for out, more in [("direct", []), ("spliced", ["--no-inbound"])]:
            self.ok("train", self.write(f"{out}.toml", tiny(2, steps=5)), "--out", out, *more)
            losses.append(self.records(self.folder / out / "trace.jsonl", "loss"))
        self.assertEqual(len(losses[0]), 5)
        self.assertEqual(losses[0], losses[1])


if __name__ == "__main__":
    unittest.main()
