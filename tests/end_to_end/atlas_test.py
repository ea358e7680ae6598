"""Atlas: cells of the paper's testbed are performed as predicted, and a relay that dies is named and recovered from."""
import json
import os
import shutil
import signal
import unittest

import faults_test
from program import TWO_EMULATED, Case, needs_torch, with_torch_too
from training_test import replicated, tiny

# Atlas' layout at a size for two cores: 4 stages x 3 pipelines in 3 datacenters, one stage's replicas on three
# nodes of one datacenter, 10 ms one way. Law times of an A100; bytes divided by 4000, for the sanitizers make each of them dear.
CELL = """
[model]
layers = 8
hidden = 2048
heads = 16
vocabulary = 51200
sequence = 4096

[[cluster.datacenter]]
name = "oregon"
device = "emulated:a100-80g"
nodes = 6
scale_out = {{ bandwidth = "100 Gbps", latency = "5 us" }}
[[cluster.datacenter]]
name = "iowa"
device = "emulated:a100-80g"
nodes = 3
scale_out = {{ bandwidth = "100 Gbps", latency = "5 us" }}
[[cluster.datacenter]]
name = "virginia"
device = "emulated:a100-80g"
nodes = 3
scale_out = {{ bandwidth = "100 Gbps", latency = "5 us" }}
[[cluster.wan]]
between = ["oregon", "iowa"]
one_way_latency = "{latency} ms"
node_pair_limit = "5 Gbps"
[[cluster.wan]]
between = ["iowa", "virginia"]
one_way_latency = "{latency} ms"
node_pair_limit = "5 Gbps"

[training]
global_batch = {batch}
micro_batch = 1
recompute = "full"

[parallelism]
pipeline = 4
data = 3
schedule = "{schedule}"

[run]
steps = 3
byte_scale = 4000
"""


@with_torch_too
class Cells(Case):
    """Order and content hold on any machine; the figure does where the run itself says that it was not too busy."""

    def lines(self, path):
        return [json.loads(line) for line in (self.folder / path).read_text().splitlines()]

    def cell(self, schedule, microbatches=4, latency=10, places=None):
        job = CELL.format(schedule=schedule, batch=3 * microbatches, latency=latency)
        if places:
            link = '[[cluster.wan]]\nbetween = ["oregon", "virginia"]\none_way_latency = "10 ms"\nnode_pair_limit = "5 Gbps"\n'
            job = (job.replace("nodes = 6", "nodes = 8").replace("pipeline = 4", f"pipeline = 4\n{places}")
                   .replace("[training]", link + "[training]"))
        job = self.write("job.toml", job)
        answer = self.json("train", job, "--out", "run")
        self.assertEqual((answer["steps"], answer["provenance"], answer["byte_scale"]), (3, "emulated", 4000))
        predicted = [e for e in self.lines("run/predicted.jsonl") if e.get("iteration") == 1 and "action" in e]
        for iteration in [1, 2, 3]:
            happened = [e for e in self.lines("run/trace.jsonl") if e.get("iteration") == iteration and "action" in e]
            self.same_work(predicted, happened)
            for rank in range(12):
                computed = lambda events: [e["action"] for e in events if e["lane"] == "compute" and e["rank"] == rank
                                           and not e["action"].endswith("U")]
                self.assertEqual(computed(happened), computed(predicted), f"rank {rank}")
            if schedule == "atlas":
                self.same_order_on_the_wan(predicted, happened, (1, 2) if places else (0, 1, 2))
        machine, error = answer["machine"], answer["iteration_error"]
        if places:  # sums between datacenters overlap the next iteration: later ones take longer
            end = lambda events: max(e["end_ns"] for e in events) - min(e["start_ns"] for e in events)
            first = [e for e in self.lines("run/trace.jsonl") if e.get("iteration") == 1 and "action" in e]
            error = end(first) / end(predicted) - 1
        print(f"{schedule}: error {error:+.3f}, {machine}")
        if machine["too_busy"]:
            print("the machine was too busy for this figure to mean anything")
        else:
            self.assertLess(abs(error), 0.10)

    # Interval by interval; sizes of messages and sums are divided by byte_scale, to the nearest byte.
    def same_work(self, predicted, happened):
        key = lambda e: (e["action"], e["lane"], e["rank"], e.get("peer", -1))
        updates = lambda events: sorted(key(e) for e in events if not e["action"].endswith("U"))
        self.assertEqual(updates(happened), updates(predicted))
        sizes = lambda events: sorted((key(e), e.get("bytes", 0)) for e in events if not e["action"].endswith("U"))
        for (event, size), (_, whole) in zip(sizes(happened), sizes(predicted)):
            in_parts = event[0].endswith("REDUCE_GRAD")  # each a whole number of elements
            self.assertAlmostEqual(size, whole / 4000, delta=4 if in_parts else 1, msg=event)

    # One transfer of those that share at a time owns a boundary in a direction, in the order of the schedule.
    def same_order_on_the_wan(self, predicted, happened, pipelines):
        for sender, receiver in [(1, 2), (2, 1), (2, 3), (3, 2)]:
            order = lambda events: [(e["rank"], e["action"]) for e in sorted(events, key=lambda e: e["start_ns"])
                                    if e["lane"] == "link" and e["rank"] // 3 == sender and e["peer"] // 3 == receiver
                                    and e["rank"] % 3 in pipelines and not e["action"].endswith("REDUCE_GRAD")]
            self.assertEqual(order(happened), order(predicted))
            self.assertGreater(len(order(happened)), 0)

    def test_gpipe(self):
        self.cell("gpipe")

    def test_1f1b(self):
        self.cell("1f1b")

    def test_varuna(self):
        self.cell("varuna")

    def test_atlas(self):
        self.cell("atlas")

    def test_atlas_16_microbatches(self):
        self.cell("atlas", microbatches=16)

    def test_two_pipelines_of_three(self):
        # Pipeline 0 stays in oregon; 1 and 2 cross together, and share.
        self.cell("atlas", places='datacenter_per_stage = ["oregon", "oregon", ["oregon", "iowa", "iowa"], '
                                  '["oregon", "virginia", "virginia"]]')

    def test_atlas_40_ms(self):
        self.cell("atlas", latency=40)


# Atlas' own testbed, 4-4-4: pipelines 1 and 2 cross the first boundary together, 0 and 1 the last; 0 and 2 cross the middle
# alone, from other datacenters.
TESTBED = CELL.format(schedule="atlas", batch=12, latency=10).replace("nodes = 6", "nodes = 4").replace("nodes = 3", "nodes = 4")
TESTBED = TESTBED.replace("emulated:", "").replace("layers = 8", "layers = 4").replace("[training]", """
[[cluster.wan]]
between = ["oregon", "virginia"]
one_way_latency = "10 ms"
node_pair_limit = "5 Gbps"
[training]""").replace("pipeline = 4", """pipeline = 4
datacenter_per_stage = ["oregon", ["oregon", "iowa", "iowa"], ["iowa", "iowa", "virginia"], "virginia"]""")


class Testbed(Case):
    def test_sharing_in_time_is_faster(self):
        for discipline in ("greedy", "released", "strict"):
            taken = {}
            for sharing in ("spatial", "temporal"):
                keys = f'data = 3\nsharing = "{sharing}"\ndiscipline = "{discipline}"'
                job = self.write("job.toml", TESTBED.replace("data = 3", keys))
                taken[sharing] = self.json("simulate", job, "--check")["iteration_ns"]
            print(f"{discipline}: {taken}")
            self.assertLess(taken["temporal"], 0.97 * taken["spatial"], discipline)

    def test_it_is_drawn_and_counted(self):
        job = self.write("temporal.toml", TESTBED)
        drawn = self.ok("simulate", job, "--ascii")
        for link in ("oregon -> iowa, pipelines 1 2 |", "iowa -> oregon, pipelines 1 2 |",
                     "iowa -> virginia, pipelines 0 1 |", "virginia -> iowa, pipelines 0 1 |"):
            self.assertIn(link, drawn)
        self.assertEqual(drawn[drawn.index("links shared in time"):].count("of pipeline |"), 4)
        spatial = self.write("spatial.toml", TESTBED.replace("data = 3", 'data = 3\nsharing = "spatial"'))
        self.assertEqual(self.json("traffic", job), self.json("traffic", spatial))
        simulated = self.json("simulate", job)["iteration_ns"]
        self.assertAlmostEqual(self.json("estimate", job)["simulated_s"] * 1e9, simulated, delta=10)


# 2 stages x 3 pipelines that share the WAN; every rank carries a third of every message.
SHARED = (TWO_EMULATED.replace('device = "emulated:a100-80g"', 'device = "emulated:a100-80g"\nnodes = 3')
          .replace("global_batch = 8", "global_batch = 24").replace("pipeline = 2", "pipeline = 2\ndata = 3")
          .replace("steps = 4", "steps = 60").replace('"1f1b"', '"atlas"') + """
[checkpoint]
directory = "checkpoints"
every = 2
""")


class DeadRelay(Case):
    start = faults_test.Killed.start

    def test_it_is_named(self):
        for victim in [1, 4]:  # one that sends activations, one that receives them
            launcher, pids = self.start(SHARED.replace("steps = 60", "steps = 100000"), workers=6)
            os.kill(pids[victim], signal.SIGKILL)
            _, message = launcher.communicate(timeout=10)
            self.assertEqual(launcher.returncode, 1, message)
            self.assertRegex(message, rf"rank {victim}.* was lost")
            self.assertFalse([pid for pid in pids if faults_test.alive(pid)])
            shutil.rmtree(self.folder / "checkpoints")

    def test_the_run_goes_on_from_the_checkpoint(self):
        launcher, pids = self.start(SHARED, "--json", workers=6, restarts=1)
        os.kill(pids[2], signal.SIGKILL)
        answer, message = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 0, message)
        answer = json.loads(answer)
        self.assertEqual((answer["restarts"], answer["steps"]), (1, 60))

    @needs_torch
    def test_losses_are_those_of_an_undisturbed_run(self):
        job = replicated(tiny(2, steps=40, every=10)).replace('"1f1b"', '"atlas"')
        self.ok("train", self.write("job.toml", job), "--out", "whole")
        shutil.rmtree(self.folder / "checkpoints")
        launcher, pids = self.start(job, "--json", workers=4, restarts=3)
        os.kill(pids[1], signal.SIGKILL)
        answer, message = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 0, message)
        self.assertEqual(json.loads(answer)["restarts"], 1)
        whole, disturbed = (self.records(self.folder / f"{run}/trace.jsonl", "loss") for run in ["whole", "run"])
        self.assertIn(40, disturbed)
        self.assertEqual(disturbed, {i: whole[i] for i in disturbed})


class RealTraining(Case):
    @needs_torch
    def test_four_stages_over_two_datacenters_equal_one_process(self):
        # Two pipelines that share the WAN in time: the losses are those of one process.
        eight = (replicated(tiny(4, "atlas", steps=10)).replace("devices_per_node = 2", "devices_per_node = 4")
                 .replace("pipeline = 4", "pipeline = 4\ndata = 2"))
        losses = {}
        for name, job in [("one", tiny(1, steps=10)), ("eight", eight)]:
            self.ok("train", self.write(f"{name}.toml", job), "--out", name)
            losses[name] = self.records(self.folder / name / "trace.jsonl", "loss")
        self.assertEqual(sorted(losses["eight"]), list(range(1, 11)))
        for step, loss in losses["one"].items():
            self.assertLess(abs(losses["eight"][step] - loss) / loss, 1e-4, f"step {step}")


if __name__ == "__main__":
    unittest.main()
