"""tombolo tune: short trainings make a convergence profile, and say which density and batch suit a line."""
import json
import math
import signal
import subprocess
import time
import unittest

from program import BUILD, GUARD_S, ROOT, Case, needs_torch

EXAMPLE = ROOT / "examples" / "thin-lines" / "tune.toml"


def law(density, batch):
    """Samples that a model of our own needs: a power of what is sent, and batches of 16 are best."""
    return density ** -0.25 * (1 + 0.05 * math.log2(batch / 16) ** 2)


def profile(batch_min=4, batch_max=32, density_min=0.002):
    probes = [{"density": density_min ** (i / 6), "batch": batch, "samples_factor": law(density_min ** (i / 6), batch)}
              for i in range(7) for batch in (4, 8, 16, 24, 32)]
    bounds = {"batch_min": batch_min, "batch_max": batch_max, "batch_step": 4, "density_min": density_min}
    return json.dumps({"bounds": bounds, "probes": probes})


def small(steps=30):
    text = EXAMPLE.read_text().replace("../../LICENSE", str(ROOT / "LICENSE")).replace("steps = 600", f"steps = {steps}")
    return text.replace("layers = 4", "layers = 2").replace("hidden = 128", "hidden = 32").replace("ffn = 384", "ffn = 64")


class Tune(Case):
    def test_the_choice_is_what_simulate_says_of_it(self):
        self.write("job.toml", small())
        self.write("profile.json", profile())
        answer = self.json("tune", "job.toml", "--profile", "profile.json", "--rates", "1Mbps,20Mbps,1Gbps")
        self.assertEqual(answer["provenance"], "predicted")
        densities = []
        for line, rate in zip(answer["lines"], ("1 Mbps", "20 Mbps", "1 Gbps")):
            best = line["best"]
            densities.append(best["density"])
            text = small().replace('"20 Mbps"', f'"{rate}"').replace("density = 0.01", f"density = {best['density']!r}")
            self.write("one.toml", text.replace("global_batch = 8", f"global_batch = {best['global_batch']}"))
            self.assertAlmostEqual(self.json("simulate", "one.toml")["iteration_ns"] / 1e9, best["iteration_s"], delta=1e-9)
            self.assertAlmostEqual(best["per_sample_s"], best["iteration_s"] * best["samples_factor"] / best["global_batch"])
            self.assertAlmostEqual(math.log(best["samples_factor"]), math.log(law(best["density"], best["global_batch"])), delta=0.05)
            self.assertLessEqual(best["per_sample_s"], line["as_given"]["per_sample_s"] * 1.0001)
            self.assertEqual((line["as_given"]["density"], line["as_given"]["global_batch"]), (0.01, 8))
        self.assertEqual(densities, sorted(densities))
        self.assertEqual(list(self.folder.glob("tune*")), [])  # nothing was trained

    def test_what_cannot_be_tuned(self):
        self.write("profile.json", profile())
        emulated = small().replace('device = "cpu"', 'device = "emulated:a100-80g"')
        self.refused(2, ["computes no loss", "--profile"], "tune", self.write("emulated.toml", emulated))
        self.ok("tune", "emulated.toml", "--profile", "profile.json")
        local = small().replace('mode = "sparse"\ndensity = 0.01', 'mode = "local"')
        self.refused(2, ['mode = "local"', 'mode = "sparse"'], "tune", self.write("local.toml", local), "--profile", "profile.json")
        home = small().replace("data = 2", "data = 1").replace('datacenter_per_replica = ["lab", "cloud"]', "")
        self.refused(2, ["replicas"], "tune", self.write("home.toml", home), "--profile", "profile.json")
        job = self.write("job.toml", small())
        self.refused(2, ["largest batch, 3", "--batch-max 4"], "tune", job, "--batch-max", "3")
        self.refused(2, ["--probes", "--profile"], "tune", job, "--profile", "profile.json", "--probes", "3")
        self.refused(2, ["--rates 0Mbps", "above 0"], "tune", job, "--profile", "profile.json", "--rates", "0Mbps")
        chunks = self.write("chunks.toml", small().replace('mode = "sparse"', 'mode = "sparse"\nselect = "chunks"'))
        self.refused(2, ["profile.json", 'select = "blocks"'], "tune", chunks, "--profile", "profile.json")
        self.refused(2, ["missing.json"], "tune", job, "--profile", "missing.json")
        self.refused(2, ["broken.json", "probes"], "tune", job, "--profile", self.write("broken.json", '{"bounds": {"batch_min": 4, "batch_max": 8}}'))

    def test_plan_across_counts_steps_by_a_profile(self):
        text = small()
        job = self.write("open.toml", text[:text.index("[parallelism]")] + text[text.index("[data]"):])
        self.write("profile.json", profile())
        factors = {}
        for way in self.json("plan", job, "--across", "--steps-factor", "profile.json")["ways"]:
            factors[way["way"]] = way["steps_factor"]
        by_law = {way["way"]: way["steps_factor"] for way in self.json("plan", job, "--across")["ways"]}
        blocks = next(way for way in factors if "sparse" in way and "chunks" not in way and "local" not in way)
        self.assertAlmostEqual(factors[blocks], law(0.01, 8) / law(1, 8), delta=0.1)
        for way, factor in factors.items():
            if way != blocks:
                self.assertEqual(factor, by_law.get(way, factor), way)
        of_job = job.read_text() + '[exchange]\nmode = "auto"\nconvergence_profile = "{}"\n'
        said = self.write("said.toml", of_job.format("profile.json"))
        counted = lambda *words: {way["way"]: way["steps_factor"] for way in self.json("plan", said, "--across", *words)["ways"]}
        self.assertEqual(counted(), factors)
        self.assertEqual(counted("--steps-factor", "law"), by_law)
        missing = self.write("missing.toml", of_job.format("none.json"))
        self.refused(2, ["missing.toml: exchange.convergence_profile", "none.json"], "plan", missing, "--across")
        self.refused(2, ["--steps-factor", "none.json"], "plan", job, "--across", "--steps-factor", "none.json")
        self.refused(2, ["--steps-factor", "--across"], "plan", job, "--steps-factor", "profile.json")

    @needs_torch
    def test_trainings_are_made_and_gone_on_with(self):
        self.write("job.toml", small())
        words = ("tune", "job.toml", "--probes", "5", "--probe-steps", "8", "--batch-max", "16", "--out", "tune")
        run = subprocess.Popen([BUILD / "tombolo", *words], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        done = self.folder / "tune" / "trainings.json"
        until = time.monotonic() + GUARD_S
        while not done.exists() and time.monotonic() < until and run.poll() is None:
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(GUARD_S), 1)
        before = json.loads(done.read_text())["trainings"]
        self.assertGreaterEqual(len(before), 1)
        self.assertFalse((self.folder / "tune" / "profile.json").exists())

        second = self.tombolo(*words, "--json")
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertIn("training 6 of 6", second.stderr)
        self.assertNotIn("training 1 of 6", second.stderr)
        after = json.loads(done.read_text())["trainings"]
        self.assertEqual(after[:len(before)], before)
        self.assertEqual(len(after), 6)
        # The reference sends all, is never late, and sees twice the samples.
        self.assertEqual([after[0][key] for key in ("density", "staleness", "batch", "steps")], [1, 0, 12, math.ceil(2 * 64 / 12)])
        self.assertEqual(len(after[0]["losses"]), after[0]["steps"])
        for each in after[1:]:
            self.assertEqual((each["staleness"], each["batch"] % 4, each["steps"]), (1, 0, math.ceil(64 / each["batch"])))
        answer = json.loads(second.stdout)
        kept = json.loads((self.folder / "tune" / "profile.json").read_text())
        self.assertEqual(kept, answer["convergence"])
        self.assertEqual(len(kept["probes"]), 5)

        # Of the files alone the same, and another job is not taken for this one.
        self.assertEqual(self.json(*words)["lines"], answer["lines"])
        self.assertEqual(self.json("tune", "job.toml", "--profile", "tune/profile.json")["lines"], answer["lines"])
        self.write("other.toml", small().replace("learning_rate = 2e-3", "learning_rate = 1e-3"))
        self.refused(2, ["trainings of another job", "another --out"], "tune", "other.toml", *words[2:])


if __name__ == "__main__":
    unittest.main()
