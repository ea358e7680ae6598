"""adaptive_batch: a run changes how many microbatches each pipeline computes, and what all make of the batch stays."""
import json
import os
import signal
import subprocess
import time
import unittest

from program import BUILD, GUARD_S, Case, needs_torch
from recovery_test import children
from training_test import replicated, tiny
from unlike_devices_test import JOB

# Equal parts at first, of which the last device takes twice as long.
ADAPTIVE = JOB.replace("SHARES", "[7, 7, 7, 7]\nadaptive_batch = true")
# The same in a quarter of the time, for runs.
QUICK = ADAPTIVE.replace("micro_batch = 4", "micro_batch = 1").replace("global_batch = 112", "global_batch = 28")


class AdaptiveBatch(Case):
    def used(self, trace):
        """The microbatches of each pipeline, by iteration."""
        out = {}
        for line in (self.folder / trace).read_text().splitlines():
            entry = json.loads(line)
            if entry.get("record") == "microbatches":
                out.setdefault(entry["iteration"], []).append((entry["rank"], entry["value"]))
        return {iteration: [value for _, value in sorted(parts)] for iteration, parts in out.items()}

    def test_the_simulator_divides_as_the_prediction_before_a_run_does(self):
        self.write("job.toml", ADAPTIVE)
        over_time = self.json("simulate", "job.toml", "--iterations", "20")["over_time"]
        self.assertEqual(over_time["microbatches"]["first"], [7, 7, 7, 7])
        self.assertEqual(over_time["microbatches"]["last"], [8, 8, 8, 4])
        self.assertEqual(over_time["microbatches"]["changed"], 1)
        change = over_time["microbatches"]["changes"][0]
        self.assertIn("pipeline 3 takes", change["reason"])
        periods = [each["period_ns"] for each in over_time["iterations"]]
        # 7 x 2.03 / 8, as in unlike_devices_test.
        self.assertGreater(periods[2] / periods[-2], 1.7)
        text = self.ok("simulate", "job.toml", "--iterations", "20")
        self.assertIn("microbatches 7,7,7,7 -> 8,8,8,4 from iteration", text)

    def test_a_run_divides_its_batch_by_what_ranks_report(self):
        self.write("job.toml", QUICK.replace("steps = 2", "steps = 24"))
        answer = self.json("train", "job.toml", "--out", "run")
        self.assertEqual(answer["microbatches"]["first"], [7, 7, 7, 7])
        self.assertGreaterEqual(answer["microbatches"]["changed"], 1, answer["microbatches"])
        last = answer["microbatches"]["last"]
        self.assertEqual(sum(last), 28)
        self.assertLess(last[3], 7)
        plan = json.loads((self.folder / "run" / "plan.json").read_text())["parallelism"]
        self.assertEqual([plan["microbatches_per_replica"], plan["adaptive_batch"]], [[7, 7, 7, 7], True])
        used = self.used("run/trace.jsonl")
        self.assertEqual(used[1], [7, 7, 7, 7])
        self.assertEqual({sum(each) for each in used.values()}, {28})
        first = answer["microbatches"]["changes"][0]
        self.assertEqual(used[first["first_iteration"]], first["microbatches"])
        self.assertEqual(used[first["first_iteration"] - 1], first["before"])
        self.assertFalse((self.folder / "run" / "journal-batch.json").exists())
        self.ok("report", "run/trace.jsonl", "--out", "report.html")

    def test_the_division_in_use_survives_a_loss(self):
        self.write("job.toml", QUICK.replace("steps = 2", "steps = 40"))
        errors = open(self.folder / "errors", "w")
        self.addCleanup(errors.close)
        launcher = subprocess.Popen([BUILD / "tombolo", "train", "job.toml", "--out", "run", "--json"], cwd=self.folder,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        guard = time.monotonic() + GUARD_S
        while "microbatches 7,7,7,7 -> " not in (self.folder / "errors").read_text():
            self.assertIsNone(launcher.poll())
            self.assertLess(time.monotonic(), guard, "the batch was not divided anew")
            time.sleep(0.01)
        division = json.loads(self.ok("status", "--out", "run", "--json"))["microbatches"]
        self.assertLess((division["next"] or division["now"])[3], 7)  # its first iteration may not have begun
        worker = [pid for child in children(launcher.pid) for pid in children(child)][1]
        os.kill(worker, signal.SIGKILL)
        answer = json.loads(launcher.communicate(timeout=GUARD_S)[0])
        self.assertEqual(answer["restarts"], 1)
        used = self.used("run/trace.jsonl")  # of the epoch behind the loss
        self.assertLess(used[min(used)][3], 7)
        self.assertEqual({sum(each) for each in used.values()}, {28})

    @needs_torch
    def test_real_training_may_ask_for_it(self):
        job = replicated(tiny(2, steps=12)).replace("data = 2", "data = 2\nadaptive_batch = true")
        job = job.replace("steps = 12", "steps = 12\ncompare_replicas_every = 1")
        self.write("job.toml", job)
        answer = self.json("train", "job.toml", "--out", "run")
        used = self.used("run/trace.jsonl")
        self.assertEqual(len(used), 12)
        self.assertEqual(len({sum(each) for each in used.values()}), 1)
        self.assertLess(answer["final_loss"], answer["first_loss"])

    def test_what_needs_the_numbers_to_stay_is_refused(self):
        job = self.write("job.toml", ADAPTIVE)
        self.refused(2, ["adaptive_batch = true", 'schedule = "gpipe"', "1f1b"], "simulate",
                     self.write("gpipe.toml", ADAPTIVE.replace("pipeline = 1", 'pipeline = 1\nschedule = "gpipe"')))
        self.refused(2, ["adaptive_batch = true", 'mode = "local"'], "train",
                     self.write("local.toml", ADAPTIVE + '[exchange]\nmode = "local"\n'))
        self.refused(2, ["the batch changes", "--check"], "simulate", job, "--iterations", "4", "--check")


if __name__ == "__main__":
    unittest.main()
