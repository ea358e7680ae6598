"""Families of config.json that are counted: predicted by every command, and trained where they are computed."""
import json
import unittest

from exports_test import CLUSTER, CONFIGS, PARALLELISMS
from program import Case

COMPUTED = {"llama31", "attention_bias", "phi3", "olmo2", "smollm3", "gemma", "gemma2"}


class Families(Case):
    def job(self, name, parallelism):
        self.write("config.json", json.dumps(CONFIGS[name]))
        return self.write("job.toml", '[model]\nconfig = "config.json"\n' + CLUSTER.format(precision="bf16", recompute="none")
                          + parallelism)

    def test_are_planned_and_simulated(self):
        for name in CONFIGS:
            with self.subTest(name):
                self.ok("plan", self.job(name, ""), "--out", "plan.json")
                planned = self.json("simulate", "plan.json")["iteration_ns"] * 1e-9
                self.assertAlmostEqual(self.json("estimate", "plan.json")["iteration_s"] / planned, 1, delta=0.5)
                self.ok("traffic", "plan.json")

    def test_stages_need_not_hold_whole_turns(self):
        """Layers of three kinds over stages of unlike ones."""
        for name in ("llama4_text", "qwen3_next"):
            with self.subTest(name):
                job = self.job(name, "[parallelism]\npipeline = 8\ntensor = 1\ndata = 8\n")
                self.assertGreater(self.json("simulate", job)["iteration_ns"], 0)
                self.ok("traffic", job)

    def test_train_refuses_by_name_what_it_does_not_compute(self):
        words = {"pythia": "parallel_residual = true", "gemma3_text": "window_rope_theta = 10000", "phi": "parallel_residual = true",
                 "glm4_moe": "experts.score_bias = true", "qwen3_next": "linear_attention.every = 4", "llama4_text": "experts.per_token = 1"}
        self.assertEqual(set(words), set(CONFIGS) - COMPUTED)
        for name, word in words.items():
            with self.subTest(name):
                job = self.job(name, "[parallelism]\n" + PARALLELISMS["data"].replace("data = 64", "data = 1"))
                text = job.read_text().replace('device = "h100-80g"\nnodes = 8\ndevices_per_node = 8', 'device = "cpu"')
                job.write_text(text.replace('precision = "bf16"', 'precision = "fp32"') + "\n[run]\nsteps = 1\n")
                self.refused(2, [f"model.{word}: such models can be predicted, not trained yet"], "train", job, "--out", "run")
                self.assertFalse((self.folder / "run").exists())


if __name__ == "__main__":
    unittest.main()
