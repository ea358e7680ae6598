"""What `tombolo plan` writes, performed by emulated devices: tensor, context and expert parallelism, virtual stages, ZeRO."""
import json
import os
import signal
import subprocess
import time
import unittest

from launchers_test import clean_environment, needs
from ports import free_ports
from program import BUILD, GUARD_S, Case
from recovery_test import children

CLUSTER = """
[[cluster.datacenter]]
name = "here"
device = "emulated:{device}"
nodes = {nodes}
devices_per_node = 8
scale_up = {{ domain = 8, bandwidth = "450 GBps", latency = "1 us" }}
scale_out = {{ bandwidth = "400 Gbps", latency = "5 us" }}
"""
MODEL = '[model]\npreset = "{}"\nsequence = {}\n'
TRAINING = '[training]\nglobal_batch = {}\nprecision = "bf16"\n'
RUN = "[run]\nsteps = {}\nbyte_scale = {}\n"


def open_job(preset, nodes, parallelism, batch=32, sequence=2048, device="h100-80g", steps=2, scale=1000):
    return (MODEL.format(preset, sequence) + CLUSTER.format(device=device, nodes=nodes) + TRAINING.format(batch) +
            f"[parallelism]\n{parallelism}\n" + RUN.format(steps, scale))


# A name, a job, and degrees that its best layout must have.
PLANS = [
    ("dense", open_job("llama3-8b", 1, "tensor = 4\npipeline = 2\nzero = 0"), {"tensor": 4, "pipeline": 2}),
    ("tensor", open_job("llama3-70b", 4, "tensor = 8\nzero = 1", sequence=1024), {"tensor": 8}),
    ("experts", open_job("mixtral-8x7b", 4, "expert = 8\npipeline = 4", sequence=1024), {"expert": 8, "pipeline": 4}),
    ("context", open_job("llama3-8b", 1, "context = 2\ntensor = 2\nzero = 0"), {"context": 2}),
    ("virtual stages", open_job("gpt2", 1, "pipeline = 4\nvirtual_stages = 3\nzero = 1", batch=64), {"virtual_stages": 3}),
    ("zero 2", open_job("gpt2", 1, "pipeline = 1\nzero = 2", batch=64, scale=8), {"zero": 2}),
    ("zero 3", open_job("llama2-7b", 1, "tensor = 2\nzero = 3", batch=16), {"zero": 3}),
]

# Explicit: two positions of four shards, two pipelines; an iteration of 0.3 s.
JOB = """
[model]
layers = 8
hidden = 512
heads = 8
ffn = 2048
vocabulary = 8192
sequence = 512
""" + CLUSTER.format(device="h100-80g", nodes=2) + """
[training]
global_batch = 32
micro_batch = 1
precision = "bf16"
[parallelism]
tensor = 4
pipeline = 2
data = 2
zero = 1
[run]
steps = {steps}
byte_scale = 8
[checkpoint]
directory = "checkpoints"
every = 2
"""


# Four pipelines of two positions with two shards each, two in each of two datacenters.
APART = """
[model]
layers = 4
hidden = 192
heads = 4
ffn = 768
vocabulary = 256
sequence = 64
""" + "".join(CLUSTER.format(device="a100-80g", nodes=1).replace('"here"', f'"{name}"') for name in ("lab", "cloud")) + """
[[cluster.wan]]
between = ["lab", "cloud"]
one_way_latency = "2 ms"
node_pair_limit = "1 Gbps"
[training]
global_batch = 8
precision = "bf16"
stack = "STACK"
[parallelism]
tensor = 2
pipeline = 2
data = 4
zero = ZERO
datacenter_per_replica = ["lab", "lab", "cloud", "cloud"]
[exchange]
mode = MODE
[run]
steps = 4
"""


def sent(path, steps):
    """By sender, receiver and action without numbers, what crossed links."""
    found = {}
    for line in path.read_text().splitlines():
        e = json.loads(line)
        if e.get("lane") == "link" and 0 < e["iteration"] <= steps:
            key = (e["rank"], e["peer"], e["action"].strip("0123456789"))
            found[key] = found.get(key, 0) + e["bytes"]
    return found


def intervals(path, iteration):
    """How often what happens in an iteration."""
    found = {}
    for line in path.read_text().splitlines():
        e = json.loads(line)
        if "action" in e and e["iteration"] == iteration:
            key = (e["rank"], e.get("peer", -1), e["lane"], e["action"], e.get("part", 0))
            found[key] = found.get(key, 0) + 1
    return found


class PerformedPlans(Case):
    def train(self, job, *arguments):
        return self.json("train", self.write("job.toml", job), "--out", "run", *arguments)

    def test_what_plan_writes(self):
        for name, job, degrees in PLANS:
            with self.subTest(plan=name):
                written = f"{name.replace(' ', '-')}.json"
                best = self.json("plan", self.write("open.toml", job), "--out", written)["best"]["parallelism"]
                self.assertEqual({key: best[key] for key in degrees}, degrees)
                out = self.folder / f"run-{name}"
                performed = self.json("train", written, "--out", out)
                self.assertEqual((performed["steps"], performed["provenance"]), (2, "emulated"))
                self.ok("simulate", out / "plan.json", "--iterations", 2, "--out", "predicted.jsonl")
                self.assertEqual(intervals(out / "trace.jsonl", 2), intervals(self.folder / "predicted.jsonl", 2))
                self.ok("compare", "predicted.jsonl", out / "trace.jsonl")

    def test_a_killed_rank_comes_back(self):
        self.write("job.toml", JOB.replace("{steps}", "12"))
        with subprocess.Popen([BUILD / "tombolo", "train", "job.toml", "--out", "run", "--json", "--restarts", "2"], cwd=self.folder,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            until = time.monotonic() + GUARD_S
            while not list(self.folder.glob("checkpoints/step-*/manifest.json")) and time.monotonic() < until:
                time.sleep(0.01)
            workers = [worker for launcher in children(process.pid) for worker in children(launcher)]
            if workers:
                os.kill(workers[-1], signal.SIGKILL)
            out, errors = process.communicate(timeout=GUARD_S)
        self.assertEqual(len(workers), 4, "a process for each rank, with all its shards")
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(json.loads(out)["steps"], 12)
        self.assertIn("rank 3", errors)

    def test_resumed_with_other_shards(self):
        self.train(JOB.replace("{steps}", "4"))
        other = JOB.replace("tensor = 4", "tensor = 8").replace("data = 2", "data = 1").replace("zero = 1", "zero = 3")
        self.json("train", self.write("other.toml", other.replace("{steps}", "6")), "--out", "other", "--resume")
        self.assertTrue((self.folder / "checkpoints" / "step-00000006").exists())

    def test_a_profile_is_of_all_shards(self):
        """Stages wait as the law says, and that is what a profile measures: both predict the same iteration."""
        job = self.write("job.toml", JOB.replace("{steps}", "4"))
        by_law = self.json("simulate", job)["iteration_ns"]
        off = []
        for _ in range(10):  # on a busy machine waits end late
            self.ok("profile", job, "--out", "hardware.json", "--seconds", "1 s")
            measured = self.json("simulate", job, "--hardware", "hardware.json")["iteration_ns"]
            off.append(measured / by_law - 1)
            self.assertGreater(off[-1], -0.01, "waits do not end early")
            if off[-1] < 0.2:
                return
        self.fail(f"off by {off}")

    def test_bytes_between_datacenters_are_those_of_all_shards(self):
        for mode, zero, stack, off in [('"dense"', 0, "tombolo", 0), ('"dense"', 1, "tombolo", 0), ('"dense"', 1, "megatron", 0),
                                       ('"local"\nsteps = 2', 0, "tombolo", 1e-4), ('"sparse"\ndensity = 0.1', 0, "tombolo", 0.02)]:
            with self.subTest(mode=mode, zero=zero, stack=stack):
                self.assertEqual(self.train(APART.replace("MODE", mode).replace("ZERO", str(zero)).replace("STACK", stack))["steps"], 4)
                self.ok("simulate", "run/plan.json", "--iterations", 4, "--out", "predicted.jsonl")
                predicted, performed = sent(self.folder / "predicted.jsonl", 4), sent(self.folder / "run" / "trace.jsonl", 4)
                self.assertEqual(set(predicted), set(performed))
                for key, size in predicted.items():
                    self.assertLessEqual(abs(performed[key] - size), off * size, key)

    @needs("mpirun", "openmpi-bin")
    def test_mpirun(self):
        job = self.write("job.toml", JOB.replace("{steps}", "4"))
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4", BUILD / "tombolo", "train", job, "--out", "run",
                               "--json", "--rendezvous", f"127.0.0.1:{free_ports()}"], cwd=self.folder, env=clean_environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=GUARD_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["steps"], 4)


if __name__ == "__main__":
    unittest.main()
