"""A line that gets slower while two datacenters train: the density follows it, and replicas stay equal."""
import json
import unittest

from emulator import BUILD, Case
from ranks_test import ENVIRONMENT

# Passes of 120 ms, and updates of 2.1 MB if all numbers were sent: at 4 Mbps about 2 % of them take as long, at 1 Mbps half a
# per cent.
JOB = """
[model]
layers = 4
hidden = 144
heads = 4
vocabulary = 64
sequence = 16
[[cluster.datacenter]]
name = "oregon"
device = "emulated:a100-80g"
[[cluster.datacenter]]
name = "paris"
device = "emulated:a100-80g"
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "5 ms"
node_pair_limit = "4 Mbps"
rate_trace = "{trace}"
[training]
global_batch = 2
precision = "fp32"
[parallelism]
pipeline = 1
data = 2
datacenter_per_replica = ["oregon", "paris"]
[stage_times]
forward = "40 ms"
backward = "80 ms"
[exchange]
mode = "sparse"
density = "auto"
[run]
steps = 140
compare_replicas_every = 20
"""
FAST_S, SLOW_S = 12, 1000


class Density(Case):
    def test_follows_a_line_that_gets_slower(self):
        trace = self.write(f"time_s,rate_mbps\n0,4\n{FAST_S},1\n{FAST_S + SLOW_S},4\n", "wan.csv")
        job = JOB.format(trace=trace)
        path = self.write(job, "job.toml")
        done = self.run_islands(job, BUILD / "tombolo", "train", path, "--out", self.folder / "run", "--json", cwd=self.folder,
                                env=ENVIRONMENT)
        self.assertEqual(done.returncode, 0, done.stderr)
        density = json.loads(done.stdout)["density"]
        changes = density["changes"]
        self.assertTrue(changes, done.stderr)
        highest = max([density["first"]] + [each["density"] for each in changes])
        self.assertLess(density["last"], 0.6 * highest, changes)
        for each in changes:
            self.assertTrue(0.002 <= each["density"] <= 0.05, each)
            self.assertIn("from iteration {first_iteration} on: ".format(**each) + each["reason"], done.stderr)
        # What went down names a line of about 1 Mbps, with the protocol's own bytes.
        before = [density["first"]] + [each["density"] for each in changes]
        down = [each for each, was in zip(changes, before) if each["density"] < was]
        self.assertLess(down[-1]["line_bytes_per_s"] * 8, 2e6, changes)
        # All ranks used the same in the same iteration, but for some that heard of it late, over the line that is slow.
        records = [json.loads(line) for line in (self.folder / "run" / "trace.jsonl").read_text().splitlines()[1:]]
        used = {rank: {r["iteration"]: r["value"] for r in records if r.get("record") == "density" and r["rank"] == rank}
                for rank in (0, 1)}
        self.assertEqual(len(used[0]), 140)
        self.assertLess(sum(used[0][i] != used[1][i] for i in used[0]), 14, used)
        self.assertEqual(used[0][1], density["first"])
        if changes[-1]["first_iteration"] <= 130:  # else it may have been heard too late
            self.assertEqual(used[0][140], density["last"])


if __name__ == "__main__":
    unittest.main()
