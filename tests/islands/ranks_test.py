"""Ranks on the hosts of islands: every worker where its node is, the WAN left to the emulator, however they are started."""
import json
import os
import shutil
import unittest

from emulator import BUILD, PROGRAM, Case

JOB = """
[model]
layers = 4
hidden = 64
heads = 4
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
one_way_latency = "20 ms"
node_pair_limit = "1 Gbps"
connections = {connections}

[training]
global_batch = 8
micro_batch = 2

[parallelism]
pipeline = 4
schedule = "1f1b"

[stage_times]
forward = "4 ms"
backward = "8 ms"

[run]
steps = 3
"""
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith(("OMPI_", "PMIX_", "SLURM_", "TORCHELASTIC_"))}


class Ranks(Case):
    def train(self, *before, job=JOB.format(connections=1), options=()):
        """The command inside, of this job; what it left behind stands in the test's folder."""
        path = self.folder / "job.toml"
        path.write_text(job)
        return self.run_islands(job, *before, BUILD / "tombolo", "train", path, "--out", self.folder / "run",
                                options=options, cwd=self.folder, env=ENVIRONMENT)

    def check_wan(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        entries = [json.loads(line) for line in (self.folder / "run" / "trace.jsonl").read_text().splitlines()[1:]]
        sends = [entry for entry in entries if "SEND" in entry.get("action", "")]
        # 3 steps x 4 microbatches x 3 boundaries x 2 directions. No packet is faster than its WAN; those of a
        # datacenter are not held up by it.
        self.assertEqual(len(sends), 3 * 4 * 3 * 2)
        for entry in sends:
            crosses = {entry["rank"], entry["peer"]} == {1, 2}
            if crosses:
                self.assertGreaterEqual(entry["end_ns"] - entry["start_ns"], 20_000_000)
        inside = sorted(entry["end_ns"] - entry["start_ns"] for entry in sends
                        if {entry["rank"], entry["peer"]} != {1, 2})
        self.assertLess(inside[len(inside) // 2], 20_000_000)
        self.assertEqual(sorted(path.name for path in (self.folder / "run").iterdir()),
                         ["plan.json", "predicted.jsonl", "trace.jsonl"])

    def test_tombolo_train(self):
        self.check_wan(self.train())

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed (package openmpi-bin)")
    def test_mpirun_on_one_host(self):
        self.check_wan(self.train("mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4"))

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed (package openmpi-bin)")
    def test_mpirun_on_all_hosts(self):
        self.check_wan(self.train("mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", f"{PROGRAM} exec",
                                  "--host", "oregon-0,oregon-1,paris-0,paris-1", "-n", "4"))

    def test_sixteen_connections(self):
        self.check_wan(self.train(job=JOB.format(connections=16)))

    def test_what_the_islands_cannot_give_is_refused(self):
        for done, words in [(self.train(job=JOB.format(connections=17)), "at most 16 per pair of ranks"),
                            (self.train(options=("--byte-scale", "2")), "byte_scale = 2, the Plan has 1")]:
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
