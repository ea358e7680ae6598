"""Replicas on different devices: the batch is divided by speed, and what was divided is performed."""
import collections
import json
import unittest

from program import Case

# Four whole models, one on a device whose passes take 2.03 times as long; what is bound by memory is as fast.
JOB = """
[model]
layers = 4
hidden = 2048
heads = 16
vocabulary = 1024
sequence = 1024
[training]
global_batch = 112
micro_batch = 4
precision = "bf16"
[parallelism]
tensor = 1
pipeline = 1
data = 4
datacenter_per_replica = ["fast", "fast", "fast", "slow"]
microbatches_per_replica = SHARES
[[cluster.datacenter]]
name = "fast"
device = { name = "fast", kind = "emulated", peak = "100 TFLOPS", memory = "40 GB", memory_bandwidth = "1000 GBps" }
nodes = 3
devices_per_node = 1
scale_out = { bandwidth = "200 Gbps", latency = "5 us" }
[[cluster.datacenter]]
name = "slow"
device = { name = "slow", kind = "emulated", peak = "47 TFLOPS", memory = "40 GB", memory_bandwidth = "1000 GBps" }
devices_per_node = 1
scale_out = { bandwidth = "200 Gbps", latency = "5 us" }
[[cluster.wan]]
between = ["fast", "slow"]
one_way_latency = "1 ms"
node_pair_limit = "100 Gbps"
[run]
steps = 2
byte_scale = 1000
"""


class UnlikeDevices(Case):
    def period(self, shares):
        return self.json("simulate", self.write("job.toml", JOB.replace("SHARES", shares)))["iteration_ns"]

    def test_the_slower_one_gets_fewer_microbatches(self):
        equal, divided = self.period("[7, 7, 7, 7]"), self.period('"auto"')
        self.assertEqual(divided, self.period("[8, 8, 8, 4]"))
        # Seven microbatches of the slow device, and eight of the others: 7 x 2.03 / 8 = 1.78, but for what comes once.
        self.assertGreater(equal / divided, 1.7)
        self.assertLess(equal / divided, 1.78)
        for shares in ["[9, 8, 8, 3]", "[8, 8, 7, 5]"]:
            self.assertGreater(self.period(shares), divided)

        self.ok("train", self.write("job.toml", JOB.replace("SHARES", '"auto"')), "--out", "run")
        passes = collections.defaultdict(set)
        for line in (self.folder / "run" / "trace.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if entry.get("iteration") == 2 and entry.get("lane") == "compute" and "F" in entry["action"]:
                passes[entry["rank"]].add(entry["action"])
        self.assertEqual({rank: len(each) for rank, each in passes.items()}, {0: 8, 1: 8, 2: 8, 3: 4})

    def test_a_profile_of_one_host_is_not_taken_for_all(self):
        job = self.write("job.toml", JOB.replace("SHARES", '"auto"'))
        self.refused(2, ['"fast" and "slow"', "tombolo roofline"], "profile", job)
        alike = JOB.replace("SHARES", '"auto"').replace('name = "slow", kind', 'name = "fast", kind')
        self.refused(2, ['"fast" and "fast"'], "profile", self.write("alike.toml", alike))


if __name__ == "__main__":
    unittest.main()
