"""A run across hosts that do not know they are emulated: TLS between them, and clocks that differ by a day."""
import json
import os
import random
import shutil
import subprocess
import unittest

from emulator import BUILD, PROGRAM, Case
from ranks_test import ENVIRONMENT, JOB

# Each rank is on a host of its own. The second host's monotonic clock is a day ahead.
SCRIPT = """
set -e
{tombolo} init --directory first --name oregon
{tombolo} init --directory first --issue paris --to second
export WORLD_SIZE=4
failed=0
other() {{
  {islands} exec $2 env -u TOMBOLO_ISLANDS RANK=$1 $3 {tombolo} train job.toml --rendezvous $address:29511 {words_there}
}}
address=$(ip -4 -o addr show scope global | awk '{{split($4, a, "/"); print a[1]; exit}}')
other 1 oregon-1 "" &
other 2 paris-0 "unshare --time --monotonic 86400 --fork" &
other 3 paris-1 "" &
env -u TOMBOLO_ISLANDS RANK=0 {tombolo} train job.toml --rendezvous $address:29511 {words_here} || failed=$?
wait
exit $failed
"""

REAL = """
[model]
layers = 4
hidden = 32
heads = 4
kv_heads = 2
ffn = 64
vocabulary = 256
sequence = 32
{cluster}
[training]
global_batch = 8
micro_batch = 2
precision = "fp32"
[optimizer]
learning_rate = 3e-3
warmup_steps = 5
clip_norm = 0.5
[parallelism]
pipeline = {stages}
data = {stages}
{where}
[data]
text = "text.txt"
[run]
steps = 30
seed = 3
compare_replicas_every = 1
"""
DATACENTER = """
[[cluster.datacenter]]
name = "{}"
device = "cpu"
nodes = {}
"""
WAN = """
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "5 ms"
node_pair_limit = "1 Gbps"
"""


def clocks_can_differ():
    if not shutil.which("unshare"):
        return False
    done = subprocess.run(["unshare", "--time", "--monotonic", "86400", "--fork", "true"], capture_output=True, check=False)
    return done.returncode == 0


class SecureHosts(Case):
    def train(self, here, there):
        (self.folder / "job.toml").write_text(JOB.format(connections=4))
        script = SCRIPT.format(tombolo=BUILD / "tombolo", islands=PROGRAM, words_here=here, words_there=there)
        return self.run_islands(JOB.format(connections=4), "sh", "-c", script, cwd=self.folder, env=ENVIRONMENT)

    @unittest.skipUnless(clocks_can_differ(), "this user or kernel makes no time namespaces")
    def test_a_run_across_hosts(self):
        done = self.train("--credentials first", "--credentials second")
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        self.assertIn("3 steps", done.stdout)
        entries = [json.loads(line) for line in (self.folder / "run" / "trace.jsonl").read_text().splitlines()[1:]]
        sends = [entry for entry in entries if "SEND" in entry.get("action", "")]
        # 3 steps x 4 microbatches x 3 boundaries x 2 directions; nothing lies a day away.
        self.assertEqual(len(sends), 3 * 4 * 3 * 2)
        for entry in entries:
            if "end_ns" in entry:
                self.assertLess(abs(entry["end_ns"]), 60_000_000_000)

    # Nothing of Gloo's leaves a host: replicas sum their gradients over the links of the run.
    @unittest.skipUnless(os.environ.get("TOMBOLO_TORCH") == "1", "needs a worker built with LibTorch")
    def test_replicas_on_several_hosts_train_as_one_process(self):
        self.train_as_one_process("")

    # Each datacenter has a whole pipeline, and only gradients cross the WAN.
    @unittest.skipUnless(os.environ.get("TOMBOLO_TORCH") == "1", "needs a worker built with LibTorch")
    def test_pipelines_in_two_datacenters_train_as_one_process(self):
        self.train_as_one_process('datacenter_per_replica = ["oregon", "paris"]')
        lines = [json.loads(line) for line in (self.folder / "run" / "trace.jsonl").read_text().splitlines()]
        places = {label["rank"]: label["datacenter"] for label in lines[0]["ranks"]}
        self.assertEqual(places, {0: "oregon", 1: "paris", 2: "oregon", 3: "paris"})
        for line in lines:
            if "SEND" in line.get("action", ""):
                self.assertEqual(places[line["rank"]], places[line["peer"]], "an activation crossed the WAN")

    def train_as_one_process(self, where):
        words = random.Random(5)
        (self.folder / "text.txt").write_text("".join(words.choice(["tide ", "sand ", "rope ", "bar\n"]) for _ in range(6000)))
        one = REAL.format(cluster=DATACENTER.format("oregon", 1), stages=1, where="")
        (self.folder / "one.toml").write_text(one)
        done = subprocess.run([BUILD / "tombolo", "train", "one.toml", "--out", "one"], cwd=self.folder, capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.folder / "job.toml").write_text(
            REAL.format(cluster=DATACENTER.format("oregon", 2) + DATACENTER.format("paris", 2) + WAN, stages=2,
                        where=where))
        script = SCRIPT.format(tombolo=BUILD / "tombolo", islands=PROGRAM, words_here="--credentials first",
                               words_there="--credentials second")
        done = self.run_islands(JOB.format(connections=4), "sh", "-c", script, cwd=self.folder, env=ENVIRONMENT)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        wanted, ours = self.records("one", "loss"), self.records("run", "loss")
        self.assertEqual(sorted(ours), list(range(1, 31)))
        worst = max(abs(ours[step] / loss - 1) for step, loss in wanted.items())
        print(f"30 losses on 4 hosts: off by {worst:.1e} at most")
        self.assertLess(worst, 1e-4)
        self.assertLess(wanted[30], wanted[1] - 0.5, "nothing was learned")
        norms = self.records("run", "gradient_norm")
        for step, norm in self.records("one", "gradient_norm").items():
            self.assertAlmostEqual(norms[step] / norm, 1, delta=1e-3)

    def records(self, out, name):
        lines = [json.loads(line) for line in (self.folder / out / "trace.jsonl").read_text().splitlines()]
        return {line["iteration"]: line["value"] for line in lines if line.get("record") == name}

    def test_without_certificates_nothing_leaves_the_host(self):
        done = self.train("--join-timeout 3", "--join-timeout 3")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("tombolo init", done.stderr)


if __name__ == "__main__":
    unittest.main()
