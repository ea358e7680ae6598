"""density = "auto": a run changes the share of gradients that it sends, and replicas keep the same bits."""
import json
import os
import signal
import subprocess
import time
import unittest

from program import BUILD, GUARD_S, Case, needs_torch
from recovery_test import children
from replicas_test import in_datacenters
from training_test import pipelines_apart, tiny

# On loopback messages are too short to tell a rate, so the density rises: from the lowest to the highest.
RISES = 'mode = "sparse"\ndensity = 0.002\ndensity_range = [0.002, 0.02]'


class Density(Case):
    def used(self, trace, rank):
        out = {}
        for line in (self.folder / trace).read_text().splitlines():
            entry = json.loads(line)
            if entry.get("record") == "density" and entry["rank"] == rank:
                out[entry["iteration"]] = entry["value"]
        return out

    def test_a_plan_says_the_first_density_and_its_range(self):
        job = in_datacenters(["oregon", "paris"], 'mode = "sparse"\ndensity = "auto"', 4)
        self.ok("train", self.write("job.toml", job), "--out", "run")
        exchange = json.loads((self.folder / "run" / "plan.json").read_text())["exchange"]
        self.assertEqual(exchange["density_range"], [0.002, 0.05])
        self.assertEqual(self.used("run/trace.jsonl", 0)[1], exchange["density"])
        # The Plan is a job that says the same.
        of_plan, of_job = self.json("simulate", "run/plan.json"), self.json("simulate", "job.toml")
        self.assertEqual(of_plan["fingerprint"], of_job["fingerprint"])
        self.assertEqual(of_plan["plan_digest"], of_job["plan_digest"])

    def test_the_trace_says_why(self):
        # Iterations so long that what a busy machine is late is no wait for the line.
        job = in_datacenters(["oregon", "paris"], RISES, 20)
        self.write("job.toml", job.replace('"1 ms"', '"100 ms"').replace('"2 ms"\n[exch', '"200 ms"\n[exch'))
        for _ in range(5):
            changes = {each["reason"]: each for each in self.json("train", "job.toml", "--out", "run")["density"]["changes"]}
            if changes:
                break
        self.assertTrue(changes)
        lines = [json.loads(line) for line in (self.folder / "run" / "trace.jsonl").read_text().splitlines()]
        told = [each for each in lines if "reason" in each]
        self.assertTrue(told)
        for each in told:
            change = changes[each["reason"]]
            self.assertEqual([each["record"], each["rank"], each["value"]], ["density", 0, change["density"]])
            self.assertGreaterEqual(each["iteration"], change["first_iteration"])  # more where the rank heard late
        # Each once, and where the density changes alone.
        self.assertEqual(len(told), len({each["reason"] for each in told}))
        used = self.used("run/trace.jsonl", 0)
        self.assertLessEqual({each["iteration"] for each in told}, {i for i in used if i > 1 and used[i] != used[i - 1]})
        self.ok("report", "run/trace.jsonl", "--out", "report.html")

    @needs_torch
    def test_real_training_keeps_replicas_equal(self):
        job = pipelines_apart(tiny(2, steps=40)).replace("steps = 40", "steps = 40\ncompare_replicas_every = 1")
        job = job.replace("[optimizer]\n", "[optimizer]\nbeta1 = 0.0\n")
        job += '\n[exchange]\nmode = "sparse"\ndensity = 0.05\ndensity_range = [0.02, 0.4]\n'
        self.write("job.toml", job)
        # When a real computation waits is up to the machine: a run that changed nothing proves nothing.
        for _ in range(5):
            answer = self.json("train", "job.toml", "--out", "run")
            if answer["density"]["changes"]:
                break
        self.assertTrue(answer["density"]["changes"], answer["density"])
        self.assertEqual(answer["density"]["first"], 0.05)
        self.assertLess(answer["final_loss"], answer["first_loss"])
        used = self.used("run/trace.jsonl", 0)
        self.assertEqual(used[1], 0.05)
        if answer["density"]["changes"][-1]["first_iteration"] <= 30:  # else it may have been heard too late
            self.assertEqual(used[40], answer["density"]["last"])

    def test_the_density_in_use_survives_a_loss(self):
        # Iterations so long that what a busy machine is late is no wait for the line.
        job = in_datacenters(["oregon", "paris"], RISES, 20)
        self.write("job.toml", job.replace('"1 ms"', '"100 ms"').replace('"2 ms"\n[exch', '"200 ms"\n[exch'))
        errors = open(self.folder / "errors", "w")
        self.addCleanup(errors.close)
        launcher = subprocess.Popen([BUILD / "tombolo", "train", "job.toml", "--out", "run", "--json"], cwd=self.folder,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        guard = time.monotonic() + GUARD_S
        while "density 0.002 -> " not in (self.folder / "errors").read_text():
            self.assertIsNone(launcher.poll())
            self.assertLess(time.monotonic(), guard, "the density was not changed")
            time.sleep(0.01)
        status = json.loads(self.ok("status", "--out", "run", "--json"))
        self.assertGreaterEqual(status["density"]["changes"], 1)
        self.assertIn("density", status["density"]["reason"])
        worker = [pid for child in children(launcher.pid) for pid in children(child)][1]
        os.kill(worker, signal.SIGKILL)
        answer = json.loads(launcher.communicate(timeout=GUARD_S)[0])
        self.assertEqual(answer["restarts"], 1)
        used = self.used("run/trace.jsonl", 0)
        self.assertGreater(used[min(used)], 0.002)  # of the epoch behind the loss
        self.assertFalse((self.folder / "run" / "journal-density.json").exists())


if __name__ == "__main__":
    unittest.main()
