"""Operators of a layer measured here, alone and together, and strands planned by what was measured. How long anything
takes, and so what can be measured, is the machine's: these tests say what is in the answers, whatever it is."""
import csv
import unittest

from program import TWO_EMULATED, Case, needs_torch
from shards_test import BACKWARD, FORWARD, MIXTURE, sharded
from training_test import tiny

CLASSES = [["attention", "local"], ["attention-backward", "local"], ["product", "local"], ["elementwise", "local"], ["local", "local"]]


class Overlap(Case):
    def profiled(self, job, *more):
        return self.json("profile", job, "--overlap", "--out", "overlap.csv", "--seconds", "0.1", *more)

    def rows(self):
        lines = (line for line in (self.folder / "overlap.csv").read_text().splitlines() if not line.startswith("#"))
        return list(csv.DictReader(lines))

    def planned(self, job, *more):
        """Strands, whether they are worth it or not."""
        done = self.tombolo("strand", job, *more)
        self.assertIn(done.returncode, (0, 3), done.stderr)
        if done.returncode == 3:
            self.assertIn("strands are not worth it", done.stderr)
        return done.stdout

    @needs_torch
    def test_strands_are_planned_by_what_was_measured(self):
        job = self.write("job.toml", sharded(tiny(1), "tensor = 2, sequence_parallel = true"))
        answer = self.profiled(job)
        self.assertEqual(answer["provenance"], "measured")
        self.assertGreaterEqual(answer["repeats"], 15)
        self.assertEqual([each["name"] for each in answer["operators"]], FORWARD + BACKWARD)
        self.assertEqual([each["classes"] for each in answer["pairs"]], CLASSES)
        for each in answer["operators"]:
            low, high = each["us_between"]
            self.assertTrue(0 < low <= each["us"] <= high, each)
        for each in answer["pairs"]:
            null = max(abs(end) for end in each["null_us_between"])
            low, high = each["saved_us_between"]
            self.assertEqual(each["measurable"], abs(each["saved_us"]) > null and not low <= 0 <= high, each)
        # The file has all operators, and the pairs that could be measured: no others.
        rows = self.rows()
        alone = {row["first"]: float(row["first_us"]) for row in rows if not row["second"]}
        self.assertEqual(alone, {each["name"]: each["us"] for each in answer["operators"]})
        self.assertEqual([[row["first"], row["second"]] for row in rows if row["second"]],
                         [each["classes"] for each in answer["pairs"] if each["measurable"]])
        # Every time in the plan is a measured one.
        text = self.planned(job, "--profile", "overlap.csv")
        self.assertIn("14 + 18 operators", text)
        self.assertIn("the profile, and where it says nothing one after the other", text)
        self.assertNotIn("roofline", text)
        self.assertIn("roofline", self.planned(job))

    @needs_torch
    def test_the_terminal_shows_medians_and_the_null(self):
        job = self.write("job.toml", sharded(tiny(1), "tensor = 2"))
        text = self.ok("profile", job, "--overlap", "--seconds", "0.1")
        for words in ("measured on", "the model on 2 shards", "19 cases of 20", "null up to", "AR1, bAR2", "overlap profile: overlap.csv, 28 operators"):
            self.assertIn(words, text)
        names = [row["first"] for row in self.rows() if not row["second"]]
        self.assertIn("AR1", names)
        self.assertNotIn("AG1", names)
        self.planned(job, "--profile", "overlap.csv", "--layers", "2")

    @needs_torch
    def test_layers_of_experts_are_refused(self):
        job = self.write("job.toml", sharded(tiny(1, model=MIXTURE), "tensor = 2"))
        done = self.tombolo("profile", job, "--overlap")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("a layer of experts is not measured operator by operator yet", done.stderr)
        self.assertFalse((self.folder / "overlap.csv").exists())

    def test_where_nothing_overlaps(self):
        self.refused(3, ["nothing to overlap", "tensor = 1", "try tensor = 2"], "profile", self.write("whole.toml", tiny(1)), "--overlap")
        self.refused(2, ["context = 2", "try context = 1"], "profile",
                     self.write("context.toml", sharded(tiny(1), "tensor = 2, context = 2")), "--overlap")
        self.refused(2, ['device = "emulated:a100-80g"', 'try device = "cpu"'], "profile", self.write("emulated.toml", TWO_EMULATED), "--overlap")
        self.assertFalse((self.folder / "overlap.csv").exists())


if __name__ == "__main__":
    unittest.main()
