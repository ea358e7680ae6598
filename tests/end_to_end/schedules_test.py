"""Schedules with several stages per rank, with backwards in halves, and found ones: predicted, performed, and trained."""
import json
import unittest

from program import TWO_EMULATED, Case, needs_torch
from training_test import tiny


def over_two(schedule, chunks=2, steps=2):
    """Two emulated ranks; the default model has four layers, so that each of four stages has one."""
    return (TWO_EMULATED.replace('"1f1b"', f'"{schedule}"\nvirtual_stages = {chunks}')
            .replace("steps = 4", f"steps = {steps}"))


class Performed(Case):
    def work(self, name, iteration):
        """What was done in an iteration, without when."""
        key = lambda e: (e["action"], e["lane"], e["rank"], e.get("peer", -1), e.get("bytes", 0))
        lines = [json.loads(line) for line in (self.folder / "run" / name).read_text().splitlines()]
        return sorted(key(e) for e in lines if e.get("iteration") == iteration and "action" in e
                      and not e["action"].endswith("U"))

    def expect_as_predicted(self, job):
        self.assertEqual(self.json("train", job, "--out", "run")["steps"], 2)
        predicted = self.work("predicted.jsonl", 1)
        for iteration in [1, 2]:
            self.assertEqual(self.work("trace.jsonl", iteration), predicted)
        return predicted

    def test_two_ranks_with_four_stages(self):
        for schedule in ["interleaved", "zb-v"]:
            actions = [e[0] for e in self.expect_as_predicted(self.write("job.toml", over_two(schedule)))]
            self.assertIn("3F0", actions, schedule)
            self.assertEqual("2W3" in actions, schedule == "zb-v")

    def test_a_schedule_that_was_found(self):
        job = self.write("job.toml", over_two("1f1b", chunks=1))
        found = self.json("simulate", job, "--policy", "best", "--out-plan", "plan.json")
        given = json.loads((self.folder / "plan.json").read_text())["given"]
        self.assertEqual(len(given["ranks"]), 2)
        actions = [e[0] for e in self.expect_as_predicted("plan.json")]
        self.assertEqual(sorted(a for a in actions if "SEND" not in a),
                         sorted(word for text in given["ranks"] for word in text.split() if "RECV" not in word))
        self.assertGreater(found["iteration_ns"], 0)

    def test_a_schedule_that_was_found_for_a_shared_wan(self):
        # Two pipelines in a cell; what one sends over the WAN the ranks of both carry.
        job = (over_two("1f1b", chunks=1).replace('device = "emulated:a100-80g"',
                                                  'device = "emulated:a100-80g"\nnodes = 2\ndevices_per_node = 1')
               .replace("pipeline = 2", 'pipeline = 2\ndata = 2\nsharing = "temporal"')
               .replace('backward = "8 ms"', 'backward = "8 ms"\ntransfer = "12 ms"'))
        found = self.json("simulate", self.write("job.toml", job), "--policy", "best", "--out-plan", "plan.json")
        given = json.loads((self.folder / "plan.json").read_text())["given"]
        self.assertTrue(given["links"], found["policy"])
        self.expect_as_predicted("plan.json")

    def test_a_checkpoint_goes_on_under_another_schedule(self):
        more = '[checkpoint]\ndirectory = "checkpoints"\nevery = 2\n'
        self.ok("train", self.write("job.toml", over_two("zb-v") + more), "--out", "run")
        shards = sorted(p.name.split(".")[0] for p in self.folder.glob("checkpoints/step-00000002/*.safetensors"))
        self.assertEqual(shards, ["rank-0", "rank-1"])
        answer = self.json("train", self.write("job.toml", over_two("1f1b", chunks=1, steps=4) + more), "--out", "on",
                           "--resume")
        self.assertEqual(answer["steps"], 4)


class Trained(Case):
    @needs_torch
    def test_with_two_stages_per_rank_and_backwards_in_halves(self):
        def losses(job, out, *more):
            self.ok("train", self.write(f"{out}.toml", job), "--out", out, *more)
            return self.records(self.folder / out / "trace.jsonl", "loss")

        one = losses(tiny(1, steps=10), "one")
        for schedule, chunks in [("interleaved", 2), ("zb-h1", 1), ("zb-v", 2)]:
            named = f'schedule = "{schedule}"\nvirtual_stages = {chunks}'
            other = losses(tiny(2, schedule, steps=10).replace(f'schedule = "{schedule}"', named), schedule)
            self.assertEqual(one.keys(), other.keys())
            for step in one:
                self.assertLess(abs(one[step] - other[step]) / one[step], 1e-4, f"{schedule}, step {step}")


if __name__ == "__main__":
    unittest.main()
