"""Plans performed: emulated everywhere, with real kernels where LibTorch is built in."""
import json
import pathlib
import shutil
import unittest

from program import ROOT, TWO_EMULATED, Case, needs_torch

TEXT = ROOT / "LICENSE"  # English, 11 KB, always there

TINY = """
[model]
layers = 4
hidden = 32
heads = 4
kv_heads = 2
ffn = 64
sequence = 32
{model}
[[cluster.datacenter]]
name = "oregon"
device = "cpu"
[[cluster.datacenter]]
name = "paris"
device = "cpu"
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "1 ms"
node_pair_limit = "1 Gbps"

[training]
global_batch = 8
micro_batch = 2
precision = "fp32"
{training}
[optimizer]
learning_rate = 3e-3
warmup_steps = 3

[parallelism]
pipeline = {pipeline}
schedule = "{schedule}"

[data]
text = "{text}"

[run]
steps = {steps}
evaluate_every = 10

[checkpoint]
directory = "checkpoints"
every = {every}
keep = 3
"""


def tiny(pipeline, schedule="1f1b", steps=30, every=0, model="", training=""):
    return TINY.format(pipeline=pipeline, schedule=schedule, steps=steps, every=every, text=TEXT,
                       model=model, training=training)


def replicated(job):
    """The same with every stage twice: two devices in each datacenter, half of the batch for each pipeline."""
    job = job.replace('device = "cpu"', 'device = "cpu"\ndevices_per_node = 2')
    return job.replace("pipeline = 2", "pipeline = 2\ndata = 2")


def pipelines_apart(job):
    """The same with a whole pipeline in each datacenter: gradients cross the WAN, group by group."""
    return replicated(job).replace("data = 2", 'data = 2\ndatacenter_per_replica = ["oregon", "paris"]')


GPT2 = 'norm = "layernorm"\nactivation = "gelu"\npositions = "learned"\nbias = true\n'


class Emulated(Case):
    def test_two_ranks_write_what_was_predicted(self):
        answer = self.json("train", self.write("job.toml", TWO_EMULATED), "--out", "run")
        self.assertEqual(answer["steps"], 4)
        self.assertEqual(answer["provenance"], "emulated")
        # The same work, interval by interval: what was predicted for one iteration happened in each.
        key = lambda e: (e["action"], e["lane"], e["rank"], e.get("peer", -1), e.get("bytes", 0))
        read = lambda name: [json.loads(line) for line in (self.folder / "run" / name).read_text().splitlines()]
        predicted = sorted(key(e) for e in read("predicted.jsonl") if e.get("iteration") == 1 and "action" in e)
        self.assertGreater(len(predicted), 8)
        for iteration in range(1, 5):
            happened = sorted(key(e) for e in read("trace.jsonl") if e.get("iteration") == iteration and "action" in e)
            self.assertEqual(happened, predicted)

    def test_the_last_gradients_may_take_long(self):
        # The last stage has sent all eight gradients when the first has arrived: seven more, 0.8 s each, are to leave
        # after its last step. That is more than the 5 s for a goodbye.
        job = (TWO_EMULATED.replace('"1f1b"', '"gpipe"').replace("global_batch = 8", "global_batch = 16")
               .replace('backward = "8 ms"', 'backward = "8 ms"\ntransfer = "800 ms"').replace("steps = 4", "steps = 1"))
        self.assertEqual(self.json("train", self.write("job.toml", job), "--out", "run")["steps"], 1)

    def test_compare_report_and_convert_take_both_traces(self):
        self.ok("train", self.write("job.toml", TWO_EMULATED), "--out", "run")
        compared = self.json("compare", "run/predicted.jsonl", "run/trace.jsonl")
        self.assertIn("iteration_error", compared)
        self.assertTrue({"F", "B"} <= {row["kind"] for row in compared["per_kind"]})
        self.ok("report", "run/predicted.jsonl", "run/trace.jsonl", "--out", "report.html")
        page = (self.folder / "report.html").read_text()
        self.assertIn("predicted", page)
        self.assertIn("emulated", page)
        self.assertNotIn("src=\"http", page)
        events = json.loads(self.ok("convert", "run/trace.jsonl", "--to", "perfetto"))["traceEvents"]
        self.assertTrue(any(e.get("name") == "0F0" for e in events))

    def test_the_example_of_four_ranks_in_a_row(self):
        answer = self.json("train", ROOT / "examples" / "emulated-row" / "job.toml", "--out", "run", "--steps", "2")
        self.assertEqual(answer["steps"], 2)
        ranks = json.loads((self.folder / "run" / "trace.jsonl").read_text().split("\n")[0])["ranks"]
        self.assertEqual([r["datacenter"] for r in ranks], ["porto", "lisbon", "faro", "cadiz"])


class Real(Case):
    def losses(self, job, out, *more):
        self.ok("train", self.write(f"{out}.toml", job), "--out", out, *more)
        return self.records(self.folder / out / "trace.jsonl", "loss")

    def assert_close(self, one, other):
        self.assertEqual(one.keys(), other.keys())
        self.assertEqual(len(one), 30)
        for step in one:
            self.assertLess(abs(one[step] - other[step]) / one[step], 1e-4, f"step {step}")
        self.assertLess(one[30], one[1] - 0.5)  # it learns

    def forget_checkpoints_after(self, step):
        """As if the run had been stopped there."""
        kept = []
        for folder in (self.folder / "checkpoints").glob("step-*"):
            if int(folder.name.split("-")[1]) == step:
                kept.append(folder)
            else:
                shutil.rmtree(folder)
        self.assertEqual(len(kept), 1)

    @needs_torch
    def test_two_stages_equal_one_process(self):
        one = self.losses(tiny(1), "one")
        self.assert_close(one, self.losses(tiny(2, "1f1b"), "two"))
        self.assert_close(one, self.losses(tiny(2, "gpipe", training='recompute = "full"'), "gpipe"))

    @needs_torch
    def test_gpt2_two_stages_equal_one_process(self):
        self.assert_close(self.losses(tiny(1, model=GPT2), "one"), self.losses(tiny(2, model=GPT2), "two"))

    @needs_torch
    def test_two_stages_times_two_pipelines_equal_one_process(self):
        # The launcher compares the replicas' weights after every step and ends the run where they differ.
        often = "[run]\ncompare_replicas_every = 1"
        for name, model in [("llama", ""), ("gpt2", GPT2)]:
            one = self.losses(tiny(1, model=model), f"{name}-one")
            four = self.losses(replicated(tiny(2, model=model)).replace("[run]", often), f"{name}-four")
            self.assert_close(one, four)
            evaluations = [self.records(self.folder / f"{name}-{run}" / "trace.jsonl", "evaluation_loss")
                           for run in ["one", "four"]]
            self.assertEqual(sorted(evaluations[1]), [10, 20, 30])
            for step, loss in evaluations[0].items():
                self.assertLess(abs(evaluations[1][step] - loss) / loss, 1e-4, f"evaluation at step {step}")

    @needs_torch
    def test_a_checkpoint_continues_with_other_replicas(self):
        whole = self.losses(replicated(tiny(2, every=10)), "whole")
        self.forget_checkpoints_after(10)
        resumed = self.losses(tiny(2, every=10), "resumed", "--resume")
        self.assertEqual(sorted(resumed), list(range(11, 31)))
        for step, loss in resumed.items():
            self.assertLess(abs(loss - whole[step]) / loss, 1e-4, f"step {step}")

    @needs_torch
    def test_the_example_with_replicas(self):
        answer = self.json("train", ROOT / "examples" / "replicas" / "job.toml", "--out", "run", "--steps", "3")
        self.assertEqual(answer["steps"], 3)
        self.assertEqual(answer["provenance"], "measured")

    @needs_torch
    def test_resume_is_bitwise_equal(self):
        whole = self.losses(tiny(2, steps=30), "whole")
        first = self.losses(tiny(2, steps=30, every=10), "first", "--steps", "30")
        self.assertEqual(first, whole)
        self.forget_checkpoints_after(10)
        resumed = self.losses(tiny(2, steps=30, every=10), "resumed", "--resume")
        self.assertEqual(sorted(resumed), list(range(11, 31)))
        for step, loss in resumed.items():
            self.assertEqual(loss, whole[step], f"step {step}")  # the same double, not merely close

    # What one command writes the next one reads; how far the prediction is off decides nothing here.
    @needs_torch
    def test_roofline_then_predict_then_train(self):
        job = self.write("job.toml", tiny(2, steps=4).replace('device = "cpu"', 'device = "devices/mine.toml"'))
        (self.folder / "devices").mkdir()
        self.refused(2, ['job.toml:', 'device = "devices/mine.toml"', "cannot open it"], "simulate", job)
        answer = self.json("roofline", "--seconds", "0.2", "--hidden", "64", "--ranks", "2", "--out", "devices/mine.toml")
        self.assertEqual([rank["threads"] for rank in answer["ranks"]], [1, 1])
        predicted = self.json("simulate", job)
        self.assertEqual(predicted["cost_source"], "roofline")
        self.ok("train", job, "--out", "run")
        plan = json.loads((self.folder / "run" / "plan.json").read_text())
        self.assertEqual(plan["cluster"]["datacenter"][0]["device"], answer["device"])
        self.refused(2, ["--out mine", "--out mine.toml"], "roofline", "--out", "mine")

    @needs_torch
    def test_profile_then_predict_then_train(self):
        job = self.write("job.toml", tiny(2, steps=4))
        self.ok("profile", job, "--out", "hardware.json", "--seconds", "0.5")
        hardware = json.loads((self.folder / "hardware.json").read_text())
        self.assertEqual([s["slice"]["first_layer"] for s in hardware["stages"]], [0, 2])
        self.assertEqual(self.json("simulate", job, "--hardware", "hardware.json")["cost_source"], "profile")
        answer = self.json("train", job, "--hardware", "hardware.json", "--out", "run")
        self.assertEqual(answer["provenance"], "measured")
        # Whether the machine was too busy is no matter of ours; that all say the same of it is.
        self.assertEqual(answer["too_busy"], answer["machine"]["too_busy"])
        self.assertEqual("too busy for this figure to mean anything" in self.ok("compare", answer["predicted_trace"], answer["trace"]),
                         answer["too_busy"])
        compared = self.json("compare", answer["predicted_trace"], answer["trace"])
        for key in "machine_busy_share", "too_busy":
            self.assertEqual(compared[key], answer[key])
        self.assertGreater(answer["tokens_per_s"], 0)
        self.assertTrue(pathlib.Path(self.folder / answer["trace"]).exists())
        # Measured for this job only.
        other = self.write("other.toml", tiny(1, steps=4))
        self.refused(2, ["another", "tombolo profile"], "simulate", other, "--hardware", "hardware.json")


if __name__ == "__main__":
    unittest.main()
