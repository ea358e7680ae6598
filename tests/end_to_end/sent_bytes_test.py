"""Emulated runs send what the ledger says: every byte of dense sums and local steps, of sparse updates as many blocks."""
import collections
import json
import unittest

from program import Case
from textbook import Count

# Two pipelines of one stage in each of two datacenters; 1.9 M numbers in groups of over 1 MiB, which halves divide.
JOB = """
[model]
layers = 4
hidden = 192
heads = 4
ffn = 768
vocabulary = 256
sequence = 64
[[cluster.datacenter]]
name = "oregon"
device = "emulated:a100-80g"
nodes = 2
[[cluster.datacenter]]
name = "paris"
device = "emulated:a100-80g"
nodes = 2
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "2 ms"
node_pair_limit = "1 Gbps"
[training]
global_batch = 8
precision = "{precision}"
[parallelism]
pipeline = 1
data = 4
datacenter_per_replica = ["oregon", "oregon", "paris", "paris"]
[stage_times]
forward = "1 ms"
backward = "2 ms"
[exchange]
mode = {exchange}
[run]
steps = {steps}
"""
HEADER, NUMBERS, BLOCK = 24, 16, 33  # of an update; of a block; bytes of a block in bf16 with a number of one byte


class SentBytes(Case):
    def performed(self, exchange, steps, precision="bf16"):
        """The Plan, and [(rank, peer, iteration, bytes)] of the messages with gradients and updates of a run."""
        job = self.write("job.toml", JOB.format(exchange=exchange, steps=steps, precision=precision))
        self.assertEqual(self.json("train", job, "--out", "run")["steps"], steps)
        plan = json.loads((self.folder / "run" / "plan.json").read_text())
        self.assertEqual(plan["run"]["byte_scale"], 1)
        entries = map(json.loads, (self.folder / "run" / "trace.jsonl").read_text().splitlines())
        return plan, [(e["rank"], e["peer"], e["iteration"], e["bytes"]) for e in entries
                      if e.get("lane") == "link" and "REDUCE_GRAD" in e["action"]]

    def sums(self, messages, iterations):
        pairs = collections.Counter()
        for rank, peer, iteration, size in messages:
            if iteration in iterations:
                pairs[rank, peer] += size
        return {pair: size / len(iterations) for pair, size in pairs.items()}

    def test_dense_sums_to_the_byte(self):
        for precision in "bf16", "fp32":
            with self.subTest(precision=precision):
                plan, messages = self.performed('"dense"', 3, precision)
                counted, sent = Count(plan), collections.Counter()
                for (a, b), size in self.sums(messages, range(1, 4)).items():
                    sent[(a, b) if counted.place(a) == counted.place(b) else counted.place(a)] += size
                wanted = collections.Counter()
                for (a, b), size in counted.between["gradients"].items():
                    wanted[(a, b) if isinstance(b, int) else b[1]] += size
                self.assertEqual(sent, wanted)

    def test_local_steps_to_the_byte(self):
        plan, messages = self.performed('"local"\nsteps = 2', 4)
        counted = Count(plan)
        wanted = counted.between["gradients"] + counted.between["outer_steps"]
        self.assertEqual(self.sums(messages, range(1, 5)), dict(wanted))

    def blocks_of(self, plan, density):
        """Of each group, those that are sent."""
        return [max(1, round(-(-numbers // NUMBERS) * density)) for numbers in Count(plan).groups(plan["stages"][0]["slice"])]

    def expect_blocks(self, plan, messages, wanted, density, turns):
        """Of a tenth of the blocks hardly two that are sent have 127 or more between them: a number is a byte."""
        updates = collections.Counter(size for rank, peer, _, size in messages if (rank < 2) != (peer < 2))
        blocks = collections.Counter({HEADER + BLOCK * each: 0 for each in self.blocks_of(plan, density)})
        for each in self.blocks_of(plan, density):
            blocks[HEADER + BLOCK * each] += 2 * turns
        self.assertEqual(collections.Counter((size - HEADER) // BLOCK for size in updates.elements()),
                         collections.Counter((size - HEADER) // BLOCK for size in blocks.elements()))
        sent = self.sums(messages, range(1, 5))
        self.assertEqual(set(sent), set(wanted))
        for pair, size in wanted.items():
            self.assertLessEqual(abs(sent[pair] - size), 0.01 * size, pair)

    def test_sparse_updates_to_the_block(self):
        plan, messages = self.performed('"sparse"\ndensity = 0.1\nstaleness = 1', 4)
        self.expect_blocks(plan, messages, Count(plan).between["gradients"], 0.1, turns=4)

    def test_sparse_local_steps_to_the_block(self):
        plan, messages = self.performed('"sparse-local"\ndensity = 0.1\nsteps = 2', 4)
        counted = Count(plan)
        self.expect_blocks(plan, messages, counted.between["gradients"] + counted.between["outer_steps"], 0.1, turns=2)


if __name__ == "__main__":
    unittest.main()
