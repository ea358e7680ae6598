"""What `tombolo plan` writes, every other command takes; and what two of them say of one plan is the same number."""
import json
import os
import re
import unittest

from program import ROOT, Case

EXAMPLE = ROOT / "examples" / "planning" / "llama3-70b" / "job.toml"

ONE_CLUSTER = """
[model]
preset = "{preset}"
[[cluster.datacenter]]
name = "oregon"
device = "h100-80g"
nodes = {nodes}
devices_per_node = 8
scale_up = {{ domain = 8, bandwidth = "450 GBps" }}
scale_out = {{ bandwidth = "400 Gbps" }}
price = "2.50 USD/device-hour"
[training]
global_batch = 64
{training}
[parallelism]
"""

UNLIKE = """
[model]
preset = "gpt2"
[[cluster.datacenter]]
name = "lab"
device = "v100-16g"
[[cluster.datacenter]]
name = "cloud"
device = "a100-40g"
[[cluster.wan]]
between = ["lab", "cloud"]
one_way_latency = "1 ms"
node_pair_limit = "100 Gbps"
[training]
global_batch = 24
micro_batch = 2
precision = "fp16"
[parallelism]
pipeline = 1
data = 2
datacenter_per_replica = ["lab", "cloud"]
microbatches_per_replica = "auto"
"""

# Where nodes have one accelerator here and four there, tensor parallelism differs.
SEVERAL = """
[model]
layers = 12
hidden = 4096
heads = 32
vocabulary = 51200
sequence = 2048
[[cluster.datacenter]]
name = "here"
device = "a100-80g"
nodes = {here}
devices_per_node = {per_node}
scale_up = {{ domain = {per_node}, bandwidth = "300 GBps" }}
price = "2.00 USD/device-hour"
[[cluster.datacenter]]
name = "there"
device = "{there}"
devices_per_node = 4
scale_up = {{ domain = 4, bandwidth = "300 GBps" }}
price = "3.00 USD/device-hour"
[[cluster.wan]]
between = ["here", "there"]
one_way_latency = "1 ms"
node_pair_limit = "100 Gbps"
price = "0.02 USD/GB"
[training]
global_batch = 64
[parallelism]
"""

NETWORK = """
topology: [ Ring ]
npus_count: [ {} ]
bandwidth: [ 50.0 ]
latency: [ 500.0 ]
"""


class OneTruth(Case):
    def planned(self, job):
        """The plan.json and job.toml of a job, and what was printed of them."""
        printed = self.json("plan", job, "--out", "plan.json")["best"]
        self.ok("plan", job, "--out", "best.toml")
        return printed

    def same_figures(self, printed, file):
        """The closed form of `plan` is that of `estimate`, and what it simulated is what `simulate` says."""
        estimated = self.json("estimate", file)
        self.assertAlmostEqual(estimated["iteration_s"] / printed["closed_form_s"], 1, places=9)
        self.assertEqual(estimated["simulated_s"], printed["simulated_s"])
        self.assertEqual(printed["iteration_s"], printed["simulated_s"])
        self.assertAlmostEqual(estimated["memory"]["total_bytes"] / printed["memory_bytes"], 1, places=9)
        longer = printed["iteration_s"] / estimated["iteration_s"]
        egress = estimated.get("egress_usd") or 0
        self.assertAlmostEqual(((estimated["cost_usd"] - egress) * longer + egress) / printed["cost_usd"], 1, places=9)
        self.assertAlmostEqual(estimated["mfu"] / longer / printed["mfu"], 1, places=9)
        self.assertEqual(estimated["devices"], printed["devices"])
        self.assertTrue(estimated["memory"]["fits"])
        swept = self.json("sweep", file, "--ask", "estimate", "--vary", "run.seed=1")["rows"][0]
        for key in "iteration_s", "cost_usd", "mfu", "devices":
            self.assertAlmostEqual(swept[key] / estimated[key], 1, places=9)
        return estimated

    def reported(self, simulated, devices):
        """The cards of a page have the very figures that `simulate` answers."""
        self.ok("report", "predicted.jsonl", "--out", "page.html")
        with open(os.path.join(self.folder, "page.html"), encoding="utf-8") as page:
            data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read(), re.S).group(1))
        figures = data["traces"][0]["figures"]
        for ours, theirs in (("tokens_per_s", "tokens_per_s"), ("mfu", "mfu"), ("cost_usd", "cost_usd"), ("memory_peak_bytes", "peak_memory_bytes")):
            self.assertEqual(figures[ours], simulated[theirs], ours)
        self.assertEqual(figures["devices"], devices)

    def check(self, job, network=False, exports=True, graphs=True):
        printed = self.planned(job)
        several = len(printed["placement"]) > 1 or "tensor_per_stage" in printed["parallelism"]
        for file in "plan.json", "best.toml":
            with self.subTest(file=file):
                estimated = self.same_figures(printed, file)
                self.assertIn("predicted iteration", self.ok("estimate", file))
                simulated = self.json("simulate", file, "--check", "--out", "predicted.jsonl")
                self.reported(simulated, printed["devices"])
                self.assertEqual(simulated["violations"], [])
                self.assertAlmostEqual(simulated["iteration_ns"] * 1e-9, printed["iteration_s"], places=9)
                for ours, theirs in (("tokens_per_s", "throughput"), ("mfu", "mfu"), ("cost_usd", "cost_usd")):
                    self.assertAlmostEqual(simulated[ours] / printed[theirs], 1, places=9)
                self.assertAlmostEqual(simulated["peak_memory_bytes"] / printed["memory_bytes"], 1, delta=0.01)
                swept = self.json("sweep", file, "--vary", "run.seed=1")["rows"][0]
                self.assertAlmostEqual(swept["iteration_s"] * 1e9, simulated["iteration_ns"], delta=1)
                self.assertEqual(swept["devices"], printed["devices"])
                self.assertEqual(self.json("traffic", file)["gpus"], printed["devices"])
                self.ok("traffic", file)
                self.ok("convert", file, "--to", "graph", "--out", "graph.json")
                self.ok("convert", file, "--to", "schedule", "--out", "schedule.csv")
                self.exports(file, exports)
                self.graphs(file, printed, network, graphs)
        self.assertEqual(self.ok("convert", "best.toml", "--to", "plan").count("\n"),
                         self.ok("convert", "plan.json", "--to", "plan").count("\n"))
        # A search starts from the setting, whatever was decided.
        chosen = self.json("select", "plan.json")["chosen_row"]
        self.assertGreater(chosen["total_s"], 0)
        self.assertEqual(self.json("sweep", "plan.json", "--ask", "select", "--vary", "run.seed=1")["ok"], 1)
        again = self.json("sweep", "plan.json", "--ask", "plan", "--vary", "run.seed=1")["rows"][0]
        # It has more to choose from; but it simulates the closed form's winner alone.
        self.assertLessEqual(again["iteration_s"], printed["iteration_s"] * 1.1)
        self.refused(2, ["plan.json: a Plan has decided its parallelism", "tombolo estimate plan.json"], "plan",
                     "plan.json")
        return printed, estimated, several

    def exports(self, file, possible):
        for to, words in ("megatron", "--pipeline-model-parallel-size"), ("torchtitan", "[parallelism]"):
            if possible:
                self.assertIn(words, self.ok("convert", file, "--to", to))
            else:
                self.refused(2, [file, "datacenters", "try"], "convert", file, "--to", to)

    def graphs(self, file, printed, network, possible):
        """For ASTRA-sim: as files, and simulated without them."""
        if not possible:
            self.refused(2, [file, "tensor_per_stage", "try"], "convert", file, "--to", "chakra", "--out", "w")
            self.refused(2, [file, "tensor_per_stage", "try"], "astra", "--job", file)
            return
        self.ok("convert", file, "--to", "chakra", "--out", "w", "--granularity", "stage")
        self.assertEqual(len(list(self.folder.glob("w.*.et"))), printed["devices"])
        for old in self.folder.glob("w.*"):
            old.unlink()
        astra = ["astra", "--job", file, "--granularity", "stage"]
        if network:
            self.refused(2, ["a network is made of one", "--network-configuration"], *astra)
            astra += ["--network-configuration", self.write("network.yml", NETWORK.format(printed["devices"]))]
        self.assertGreater(self.json(*astra)["finish_ns"], 0)

    def one(self, parallelism, **options):
        options = {"preset": "llama3-8b", "nodes": 2, "training": ""} | options
        return self.write("job.toml", ONE_CLUSTER.format(**options) + parallelism)

    def test_one_cluster(self):
        self.check(self.one(""))

    def test_zero(self):
        printed, _, _ = self.check(self.one("data = 16\nzero = 3\n"))
        self.assertEqual(printed["parallelism"]["zero"], 3)

    def test_virtual_stages(self):
        printed, _, _ = self.check(self.one("pipeline = 4\nvirtual_stages = 2\n"))
        self.assertEqual(printed["parallelism"]["virtual_stages"], 2)

    def test_experts(self):
        printed, _, _ = self.check(self.one("expert = 4\n", preset="mixtral-8x7b", nodes=8,
                                            training='micro_batch = 1\nrecompute = "full"'))
        self.assertEqual(printed["parallelism"]["expert"], 4)

    def test_several_clusters(self):
        job = self.write("job.toml", SEVERAL.format(here=1, per_node=4, there="a100-80g") + "pipeline = 2\ntensor = 4\n")
        printed, estimated, _ = self.check(job, network=True, exports=False)
        self.assertEqual([row["datacenter"] for row in estimated["placement"]],
                         [row["datacenter"] for row in printed["placement"]])
        self.assertEqual(len({row["datacenter"] for row in printed["placement"]}), 2)
        self.assertEqual(estimated["placement"], printed["placement"])
        self.assertEqual(estimated["parts"], printed["parts"])
        self.assertIn("there", self.ok("estimate", "plan.json"))
        # Bytes that cross the WAN are those that are paid for.
        wan = self.json("traffic", "plan.json")["by_kind"]["pipeline"]["by_reach"]["other_datacenter"]["bytes"]
        self.assertAlmostEqual(wan * 0.02e-9, estimated["egress_usd"], places=6)

    def test_unlike_tensor_degrees(self):
        job = self.write("job.toml", SEVERAL.format(here=2, per_node=1, there="a100-40g") + "pipeline = 3\ndata = 1\n")
        printed, estimated, _ = self.check(job, exports=False, graphs=False)
        degrees = printed["parallelism"]["tensor_per_stage"]
        self.assertEqual(len(set(degrees)), 2, "the test wants a plan with unlike degrees")
        self.assertEqual(estimated["parallelism"]["tensor_per_stage"], degrees)
        self.refused(2, ["plan.json", "datacenters", "rail-only"], "estimate", "plan.json", "--law", "rail-only")

    def test_a_schedule_that_was_found(self):
        job = self.write("job.toml", SEVERAL.format(here=1, per_node=4, there="a100-80g") +
                         "pipeline = 2\ntensor = 1\ndata = 2\n")
        self.ok("simulate", job, "--policy", "best", "--out-plan", "found.json")
        if "given" not in json.loads((self.folder / "found.json").read_text()):
            self.skipTest("a schedule with a name won")
        self.refused(2, ["found.json: given", "--policy best"], "sweep", "found.json", "--vary", "run.seed=1")
        self.assertIn("left out: the schedule", self.ok("traffic", "found.json"))

    def test_replicas_on_unlike_devices(self):
        job = self.write("job.toml", UNLIKE)
        def seconds(file):
            return self.json("simulate", file)["iteration_ns"] * 1e-9

        simulated = seconds(job)
        self.ok("simulate", job, "--out-plan", "plan.json")
        plan = json.loads((self.folder / "plan.json").read_text())
        # An A100 takes 41.7 ms for what a V100 takes 58.9 ms for.
        self.assertEqual(plan["parallelism"]["microbatches_per_replica"], [5, 7])
        self.assertEqual([other["datacenter"] for other in plan["stages"][0]["elsewhere"]], ["cloud"])
        self.assertEqual(seconds("plan.json"), simulated)
        estimated = self.json("estimate", job)
        self.assertEqual(estimated["simulated_s"], simulated)
        self.assertEqual([row["device"] for row in estimated["placement"]], ["v100-16g", "a100-40g"])
        self.assertEqual([row["devices"] for row in estimated["placement"]], [1, 1])
        row = self.json("sweep", job, "--vary", "parallelism.microbatches_per_replica=auto")["rows"][0]
        self.assertEqual(row["iteration_s"], simulated)
        # Other numbers take longer: the slowest pipeline waits for nobody.
        for numbers in ("[6, 6]", "[4, 8]"):
            other = self.write("other.toml", UNLIKE.replace('"auto"', numbers))
            self.assertGreater(seconds(other), simulated)
        self.assertEqual(self.json("traffic", job)["bytes"], self.json("traffic", "plan.json")["bytes"])
        # Whichever is named first.
        turned = self.write("turned.toml", UNLIKE.replace('["lab", "cloud"]\nmicro', '["cloud", "lab"]\nmicro'))
        self.assertAlmostEqual(seconds(turned), simulated, places=6)
        self.refused(3, ["memory", "v100-16g"], "simulate",
                     self.write("full.toml", UNLIKE.replace("micro_batch = 2", "micro_batch = 24")
                                .replace("global_batch = 24", "global_batch = 288")))

    def test_what_takes_pipelines_all_alike_says_so(self):
        job = self.write("job.toml", UNLIKE.replace('"auto"', "[10, 14]").replace("global_batch = 24", "global_batch = 48"))
        for command in ["plan"], ["select"]:
            self.refused(2, ["microbatches_per_replica is given, and a search takes pipelines that do all the same"],
                         *command, job)
        of_one = self.write("alike.toml", UNLIKE.replace('microbatches_per_replica = "auto"\n', ""))
        self.refused(2, ["replicas of a stage work on different devices", "a schedule by its name"],
                     "simulate", of_one, "--policy", "best")
        network = self.write("network.yml", NETWORK.format(2))
        self.assertIn("left out: different devices of replicas",
                      self.tombolo("astra", "--job", of_one, "--network-configuration", network).stderr)
        together = self.write("together.toml", ONE_CLUSTER.format(preset="gpt-22b", nodes=2, training="")
                              + "tensor = 8\npipeline = 1\ndata = 2\nmicrobatches_per_replica = [24, 40]\n")
        estimated = self.json("estimate", together, "--law", "rail-only")
        self.assertIn("left out: microbatches_per_replica; every pipeline is counted with the mean", estimated["notes"])
        self.assertIn("32 microbatches of 1", self.ok("estimate", together, "--law", "rail-only"))

    def test_nodes_of_one_device_share_no_fast_fabric(self):
        nodes = ONE_CLUSTER.replace("devices_per_node = 8\n", "").format(preset="llama3-8b", nodes=2, training="")
        nodes = nodes.replace("[[cluster", "layers = 8\nsequence = 2048\n[[cluster")
        spelled = nodes.replace("domain = 8", "domain = 1")
        silent = nodes.replace('scale_up = { domain = 8, bandwidth = "450 GBps" }\n', "")
        explicit = "pipeline = 1\ndata = 2\n"
        answers = []
        for text in (spelled, silent):
            job = self.write("job.toml", text + explicit)
            answers.append([
                self.json("estimate", job)["iteration_s"],
                self.json("traffic", job)["by_kind"]["data"]["by_reach"],
                self.json("astra", "--job", job)["finish_ns"],
                [row["iteration_s"] for row in self.json("sweep", job, "--ask", "estimate", "--vary", "run.seed=1")["rows"]],
                self.json("plan", self.write("open.toml", text))["why_not"],
            ])
            self.assertEqual(answers[-1][1]["domain"]["bytes"], 0)
        self.assertEqual(*answers)

    def test_other_json_is_refused(self):
        self.write("other.json", '{"rows": []}')
        for command in (["estimate"], ["traffic"], ["select"], ["astra", "--job"], ["sweep", "--vary", "run.seed=1"],
                        ["convert", "--to", "megatron"], ["plan"]):
            self.refused(2, ["other.json", "tombolo_plan"], *command, "other.json")


if __name__ == "__main__":
    unittest.main()
