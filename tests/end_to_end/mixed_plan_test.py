"""The search over several datacenters and kinds of GPUs, as a person asks for it."""
import unittest

from program import ROOT, Case

FIVE_ZONES = ROOT / "examples" / "planning" / "five-zones-job.toml"

# Two accelerators of unlike speed, 1 ms apart; what the simulator does not know yet is fixed.
TWO_KINDS = """
[model]
layers = 12
hidden = 4096
heads = 32
vocabulary = 51200
sequence = 2048
[[cluster.datacenter]]
name = "slow"
device = "emulated:a100-80g"
[[cluster.datacenter]]
name = "fast"
device = "emulated:h100-80g"
[[cluster.wan]]
between = ["slow", "fast"]
one_way_latency = "1 ms"
node_pair_limit = "100 Gbps"
[training]
global_batch = 64
micro_batch = 1
recompute = "full"
[parallelism]
zero = 0
"""


class MixedPlan(Case):
    def test_640_gpus_of_two_kinds_in_five_zones(self):
        answer = self.json("plan", FIVE_ZONES)
        best = answer["best"]
        self.assertEqual(best, answer["top"][0])
        rows = best["placement"]
        self.assertEqual(sum(row["layers"] for row in rows), 96)
        self.assertEqual(sum(row["devices"] for row in rows), best["devices"])
        self.assertLessEqual(best["devices"], 640)
        self.assertEqual({row["device"] for row in rows}, {"h100-80g", "a100-80g"})
        for row in rows:
            self.assertLessEqual(row["memory_bytes"], row["device_bytes"])
        parts, m = best["parts"], best["parallelism"]["micro_batches"]
        self.assertAlmostEqual(parts["round_trip_s"] + (m - 1) * parts["period_s"] + parts["end_s"],
                               best["closed_form_s"], places=6)
        self.assertLess(abs(best["simulated_s"] / best["closed_form_s"] - 1), 0.02)
        self.assertEqual(best["iteration_s"], best["simulated_s"])
        self.assertTrue(answer["why_not"])
        self.assertEqual(self.json("plan", FIVE_ZONES, "--threads", "1")["best"], best)

    def test_cost_uses_fewer_gpus_and_costs_less(self):
        fast = self.json("plan", FIVE_ZONES)["best"]
        cheap = self.json("plan", FIVE_ZONES, "--objective", "cost")["best"]
        self.assertLess(cheap["cost_usd"], fast["cost_usd"])
        self.assertGreater(cheap["iteration_s"], fast["iteration_s"])

    def test_the_plan_can_be_simulated(self):
        job = self.write("job.toml", TWO_KINDS)
        out = self.folder / "plan.json"
        best = self.json("plan", job, "--out", out)["best"]
        self.assertEqual(len(best["placement"]), 2)
        layers = {row["datacenter"]: row["layers"] for row in best["placement"]}
        self.assertGreater(layers["fast"], layers["slow"])
        simulated = self.json("simulate", out)
        self.assertAlmostEqual(simulated["iteration_ns"] / 1e9, best["iteration_s"], places=9)

    def test_what_has_no_price_costs_null(self):
        prices = ['\nprice = "2 USD/device-hour"', ""]
        one_priced = TWO_KINDS
        for kind in ("a100", "h100"):
            one_priced = one_priced.replace(f'"emulated:{kind}-80g"', f'"emulated:{kind}-80g"' + prices.pop(0))
        for text in (TWO_KINDS, one_priced):
            job = self.write("job.toml", text)
            best = self.json("plan", job, "--out", self.folder / "plan.json")["best"]
            self.assertEqual(len(best["placement"]), 2)
            self.assertIsNone(best["cost_usd"])
            self.assertIsNone(best["egress_usd"])
            printed = self.ok("plan", job)
            self.assertNotIn("for WAN traffic", printed)
            self.assertRegex(printed, r"% +- +2  ")
            estimated = self.json("estimate", self.folder / "plan.json")
            self.assertIsNone(estimated["cost_usd"])
            self.assertIsNone(estimated["egress_usd"])

    def test_what_has_no_meaning_there_is_refused(self):
        for option in (["--all-devices"], ["--export", "megatron"], ["--law", "rail-only"]):
            self.refused(2, ["5 datacenters"], "plan", FIVE_ZONES, *option)


if __name__ == "__main__":
    unittest.main()
