"""The choice of datacenters, as a person asks for it."""
import unittest

from program import ROOT, Case

EXAMPLE = ROOT / "examples" / "atlas" / "select.toml"


def datacenters(*gpus):
    return "".join(f'[[cluster.datacenter]]\nname = "dc{i}"\ndevice = "a100-80g"\nnodes = {count}\n'
                   for i, count in enumerate(gpus))


def job(gpus, ratio=4, selection=""):
    """P = M = 60 of Atlas' section 6.3; a forward pass is the unit of time."""
    return (datacenters(*gpus) + "[training]\nglobal_batch = 60\n[selection]\npartitions = 60\nmicro_batches = 60\n"
            f"communication_to_compute = {ratio}\n{selection}\n")


MODEL = """
[model]
preset = "llama3-8b"
sequence = 4096
[training]
global_batch = 32
recompute = "selective"
[[cluster.wan]]
between = ["dc0", "dc1"]
one_way_latency = "20 ms"
node_pair_limit = "5 Gbps"
connections = 16
tcp_window = "3 MB"
"""


class Select(Case):
    def select(self, text, *arguments):
        return self.json("select", self.write("job.toml", text), *arguments)

    def chosen(self, answer):
        return next(row for row in answer["rows"] if row["cells"] == answer["chosen"])

    def test_the_answer_has_what_programs_need(self):
        answer = self.json("select", EXAMPLE)
        self.assertLess(answer["wall_s"], 60)
        row = self.chosen(answer)
        for key in ("cells", "pipelines", "partitions", "pipeline_s", "allreduce_s", "total_s", "sequences_per_s"):
            self.assertIn(key, row)
        self.assertEqual(row, answer["chosen_row"])
        self.assertEqual(sum(row["partitions"].values()), 60)
        self.assertEqual(row["pipelines"], 4 * row["cells"])
        self.assertEqual((row["micro_batches"], row["sequences"]), (60, 60 * row["pipelines"]))
        self.assertAlmostEqual(row["sequences_per_s"] * row["total_s"], row["sequences"], places=6)
        self.assertEqual(row["used_gpus"] + row["unused_gpus"], 1800)
        self.assertNotIn("paris", row["partitions"])
        self.assertEqual(max(r["sequences_per_s"] for r in answer["rows"]), row["sequences_per_s"])

    def test_the_integers_of_atlas(self):
        for gpus, at_4, at_2 in (([600], 8, 10), ([600] * 2, 20, 20), ([600] * 3, 28, 30), ([600] * 4, 40, 40),
                                 ([600] * 5, 48, 50), ([600, 500, 400, 300, 200], 32, 32)):
            self.assertEqual(self.chosen(self.select(job(gpus, 4)))["pipelines"], at_4, gpus)
            self.assertEqual(self.chosen(self.select(job(gpus, 2)))["pipelines"], at_2, gpus)

    def test_an_infeasible_row_has_no_time(self):
        answer = self.select(job([600, 240], 2))
        last = answer["rows"][-1]
        self.assertEqual(last["cells"], 7)
        self.assertIsNone(last["total_s"])
        self.assertEqual(last["sequences_per_s"], 0)
        self.assertEqual(answer["chosen"], 6)

    def test_people_read_what_stays_unused_and_what_would_be_better(self):
        printed = self.ok("select", self.write("job.toml", job([600])))
        for text in ("2 DP-cells, 8 pipelines", "120 GPUs stay unused", "beyond algorithm 1: 10 pipelines",
                     "laws: 1f1b-cell"):
            self.assertIn(text, printed)

    def test_orders(self):
        answer = self.json("select", EXAMPLE, "--order", "price")
        self.assertEqual(answer["order"], ["texas", "iowa", "virginia", "oregon"])
        answer = self.json("select", EXAMPLE, "--order", "file")
        self.assertEqual(answer["order"], ["oregon", "iowa", "virginia", "texas"])
        far = "".join(f'[[cluster.wan]]\nbetween = ["dc{a}", "dc{b}"]\none_way_latency = "{ms} ms"\n'
                      f'node_pair_limit = "5 Gbps"\n' for a, b, ms in ((0, 1, 30), (0, 2, 10), (1, 2, 20)))
        answer = self.select(job([600, 500, 100]) + far, "--order", "distance")
        self.assertEqual(answer["order"], ["dc0", "dc2", "dc1"])
        self.refused(2, ["--order cost", "availability, price, distance, file"], "select", EXAMPLE, "--order", "cost")
        self.refused(2, ["order price: dc0 names no price"], "select", self.write("job.toml", job([600])),
                     "--order", "price")

    def test_where_a_datacenter_stands_in_the_file_makes_no_difference(self):
        forth, back = self.select(job([600, 500, 300])), self.select(job([300, 500, 600]))
        self.assertEqual([row["total_s"] for row in forth["rows"]], [row["total_s"] for row in back["rows"]])
        self.assertEqual(forth["chosen"], back["chosen"])
        self.assertEqual(back["order"], ["dc2", "dc1", "dc0"])

    def test_all_is_derived_from_the_model(self):
        answer = self.select(datacenters(64, 32) + MODEL)
        # 4096 tokens x 4096 numbers x 2 bytes over 5 Gbps: 53.7 ms per microbatch and pair of nodes.
        self.assertGreater(answer["communication_to_compute"], 0)
        self.assertGreaterEqual(answer["pipelines_per_cell"], answer["communication_to_compute"] - 1e-9)
        self.assertEqual((answer["global_batch"], answer["micro_batches"]), (32, None))
        for each in answer["rows"]:
            self.assertEqual((each["sequences"], each["micro_batches"]), (32, -(-32 // each["pipelines"])))
        self.assertGreater(answer["partitions"], 1)
        row = self.chosen(answer)
        self.assertGreater(row["allreduce_s"], 0)
        self.assertEqual(answer["allreduce_law"], "ring-all-reduce")

    def test_zero_is_noted(self):
        answer = self.select(datacenters(64, 32) + MODEL + "[parallelism]\nzero = 1\n")
        self.assertIn("left out: zero = 1; a stage is counted with the memory of zero = 0", answer["notes"])

    def test_memory_for_prompts_needs_more_partitions(self):
        prompts = '[prefill]\nmodel = "llama3-8b"\nmemory = "40 GB"\n'
        without, with_prompts = (self.select(datacenters(64, 32) + MODEL + text)["partitions"] for text in ("", prompts))
        self.assertGreater(with_prompts, without)

    def test_residency(self):
        answer = self.select(job([600, 100], 2, 'must = ["dc1"]'))
        self.assertGreaterEqual(self.chosen(answer)["partitions"]["dc1"], 1)
        text = job([600, 100], 2, 'must = ["dc7"]')
        self.refused(2, ['selection.must: there is no datacenter "dc7"'], "select", self.write("job.toml", text))
        text = job([600, 100], 2, 'must = ["dc1"]\nmust_not = ["dc1"]')
        self.refused(2, ["dc1 must and must not take part"], "select", self.write("job.toml", text))
        text = job([600, 3], 4, 'must = ["dc1"]')
        self.refused(3, ["dc1 must take part, but has 3 GPUs for a DP-cell of 4 pipelines"], "select",
                     self.write("job.toml", text))
        text = job([600], 4, 'must_not = ["dc0"]')
        self.refused(3, ["no datacenter is left"], "select", self.write("job.toml", text))

    def test_what_does_not_fit_names_the_tightest_constraint(self):
        self.refused(3, ["one DP-cell of 4 pipelines x 60 partitions does not fit",
                         "room for 50 partitions, 10 too few", "dc0 with 120 GPUs for 30",
                         "pipelines_per_cell = 3"], "select", self.write("job.toml", job([120, 80])))
        text = (datacenters(64, 32) + MODEL).replace("llama3-8b", "llama3.1-405b")
        self.refused(3, ["no number of partitions fits into memory", "126 partitions", "a100-80g"], "select",
                     self.write("job.toml", text))

    def test_what_is_missing_is_named(self):
        text = job([600, 600]).replace("communication_to_compute = 4\n", "")
        self.refused(2, ["selection.communication_to_compute is missing"], "select", self.write("job.toml", text))
        text = job([600]).replace("partitions = 60\n", "")
        self.refused(2, ["selection.partitions is missing"], "select", self.write("job.toml", text))
        text = job([600]).replace("partitions = 60", "partitions = 0")
        self.refused(2, ["selection.partitions = 0: must lie between"], "select", self.write("job.toml", text))


if __name__ == "__main__":
    unittest.main()
