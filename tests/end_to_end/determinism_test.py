"""The same job twice: identical Plan, Graph, predicted Trace and fingerprint, byte for byte."""
import unittest

from program import ROOT, Case

EXAMPLES = ["toy", "emulated-row", "two-datacenters"]


class Determinism(Case):
    def twice(self, *arguments):
        """The bytes that two runs write to --out."""
        written = []
        for name in ["first", "second"]:
            self.ok(*arguments, "--out", self.folder / name)
            written.append((self.folder / name).read_bytes())
        return written

    def test_plan_graph_schedule_and_trace(self):
        for example in EXAMPLES:
            job = ROOT / "examples" / example / "job.toml"
            for what in [["convert", job, "--to", "plan"], ["convert", job, "--to", "graph"],
                         ["convert", job, "--to", "schedule"], ["simulate", job, "--iterations", 3]]:
                first, second = self.twice(*what)
                self.assertEqual(first, second, what)
                self.assertGreater(len(first), 100)

    def test_fingerprint_and_answer(self):
        for example in EXAMPLES:
            job = ROOT / "examples" / example / "job.toml"
            first, second = (self.json("simulate", job) for _ in range(2))
            for answer in (first, second):
                self.assertGreaterEqual(answer.pop("wall_s"), 0)
            self.assertEqual(first, second)
            self.assertRegex(first["fingerprint"], "^[0-9a-f]{16}$")

    def test_a_plan_predicts_what_its_job_predicts(self):
        job = ROOT / "examples" / "emulated-row" / "job.toml"
        self.ok("convert", job, "--to", "plan", "--out", "plan.json")
        from_job, from_plan = self.json("simulate", job), self.json("simulate", "plan.json")
        for key in ["iteration_ns", "fingerprint", "breakdown", "plan_digest"]:
            self.assertEqual(from_job[key], from_plan[key])

    def test_toy_by_hand(self):
        # GPipe, stages 0 and 1 in west, 2 in east; F = 1, B = 2, WAN 2 ms, inside 0. The link is the
        # bottleneck of both halves (it takes 2 per microbatch):
        #   forwards  3 x 1 + 2 + 3 x max(1, 2) = 11;  backwards 3 x 2 + 2 + 3 x max(2, 2) = 14
        answer = self.json("simulate", ROOT / "examples" / "toy" / "job.toml")
        self.assertEqual(answer["iteration_ns"], 25_000_000)
        # Three stages compute 4 x 3 ms each.
        self.assertEqual(answer["breakdown"]["compute_ns"], 36_000_000)


if __name__ == "__main__":
    unittest.main()
