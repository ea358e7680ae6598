"""Pipelines side by side, emulated: they do what was predicted, agree, and survive a resume with another number of
them."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from program import BUILD, GUARD_S, ROOT, TWO_EMULATED, Case

# 2 stages x 3 replicas; times are imagined, so is that of the sum.
SIX = (TWO_EMULATED.replace('device = "emulated:a100-80g"', 'device = "emulated:a100-80g"\ndevices_per_node = 3')
       .replace("global_batch = 8", "global_batch = 12").replace("pipeline = 2", "pipeline = 2\ndata = 3")
       .replace('backward = "8 ms"', 'backward = "8 ms"\nreduce = "3 ms"'))
# A pipeline of one stage in each of so many datacenters, all within 2 ms of each other.
PLACES = ["oregon", "paris", "tokyo"]


def in_datacenters(names, exchange, steps):
    job = TWO_EMULATED[:TWO_EMULATED.index("[[cluster.datacenter]]")].replace("hidden = 64", "hidden = 192")
    job += "".join(f'[[cluster.datacenter]]\nname = "{each}"\ndevice = "emulated:a100-80g"\n' for each in names)
    job += "".join(f'[[cluster.wan]]\nbetween = ["{a}", "{b}"]\none_way_latency = "2 ms"\nnode_pair_limit = "1 Gbps"\n'
                   for i, a in enumerate(names) for b in names[i + 1:])
    where = ", ".join(f'"{each}"' for each in names)
    return job + f"""[training]
global_batch = 12
micro_batch = 2
[parallelism]
pipeline = 1
data = {len(names)}
datacenter_per_replica = [{where}]
[stage_times]
forward = "1 ms"
backward = "2 ms"
[exchange]
{exchange}
[run]
steps = {steps}
"""


CHECKPOINTS = """
[checkpoint]
directory = "checkpoints"
every = 2
"""


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Replicas(Case):
    def lines(self, path):
        return [json.loads(line) for line in (self.folder / path).read_text().splitlines()]

    def test_six_ranks_do_what_was_predicted(self):
        answer = self.json("train", self.write("job.toml", SIX), "--out", "run")
        self.assertEqual(answer["steps"], 4)
        # Two microbatches of each pipeline; the same work, interval by interval.
        key = lambda e: (e["action"], e["lane"], e["rank"], e.get("peer", -1), e.get("bytes", 0))
        predicted = sorted(key(e) for e in self.lines("run/predicted.jsonl")
                           if e.get("iteration") == 1 and "action" in e and not e["action"].endswith("U"))
        self.assertEqual(len([e for e in predicted if e[1] == "collective"]), 6)
        for iteration in range(1, 5):
            happened = sorted(key(e) for e in self.lines("run/trace.jsonl") if e.get("iteration") == iteration
                              and "action" in e and not e["action"].endswith("U"))
            self.assertEqual(happened, predicted)
        # All replicas of a stage leave the sum after the last one came.
        for stage in [0, 1]:
            sums = [e for e in self.lines("run/trace.jsonl") if e.get("action") == f"{stage}REDUCE_GRAD"]
            for iteration in range(1, 5):
                mine = [e for e in sums if e["iteration"] == iteration]
                self.assertGreaterEqual(min(e["end_ns"] for e in mine), max(e["start_ns"] for e in mine))

    def test_a_killed_replica_is_named(self):
        self.write("job.toml", SIX.replace("steps = 4", "steps = 100000") + CHECKPOINTS)
        launcher = subprocess.Popen([BUILD / "tombolo", "train", "job.toml", "--out", "run", "--restarts", "0"], cwd=self.folder,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    text=True)
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        guard = time.monotonic() + GUARD_S
        while not list(self.folder.glob("checkpoints/step-*/manifest.json")):
            self.assertIsNone(launcher.poll())
            self.assertLess(time.monotonic(), guard, "no checkpoint was written")
            time.sleep(0.02)
        workers = {}
        for task in pathlib.Path(f"/proc/{launcher.pid}/task").glob("*/children"):
            for pid in map(int, task.read_text().split()):
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                workers[int(command[command.index("--rank") + 1])] = pid
        self.assertEqual(sorted(workers), list(range(6)))
        os.kill(workers[4], signal.SIGKILL)
        _, message = launcher.communicate(timeout=10)
        self.assertEqual(launcher.returncode, 1, message)
        self.assertRegex(message, r"rank 4 \(paris\) was lost")
        self.assertFalse([pid for pid in workers.values() if alive(pid)])

    def test_sparse_updates_hide_a_thin_line(self):
        example = (ROOT / "examples" / "thin-lines" / "two-labs.toml").read_text()
        answer = self.json("train", self.write("job.toml", example), "--out", "run")
        self.assertEqual(answer["steps"], 8)
        self.assertGreater(answer["fresh_share"], 0)
        self.assertLessEqual(answer["fresh_share"], 1)
        self.assertLess(answer["predicted_iteration_s"], 1)  # with all gradients 13 s

    def test_a_run_goes_on_with_another_number_of_pipelines(self):
        self.ok("train", self.write("job.toml", SIX + CHECKPOINTS), "--out", "run")
        shards = sorted(p.name.split(".")[0] for p in self.folder.glob("checkpoints/step-00000004/*.safetensors"))
        self.assertEqual(shards, ["rank-0", "rank-3"])  # replica 0 of each stage
        for data, steps in [(2, 6), (1, 8), (3, 10)]:
            job = SIX.replace("data = 3", f"data = {data}").replace("steps = 4", f"steps = {steps}")
            answer = self.json("train", self.write("job.toml", job + CHECKPOINTS), "--out", f"run-{data}", "--resume")
            self.assertEqual(answer["steps"], steps)

    def test_a_run_goes_on_with_another_number_of_datacenters(self):
        for mode in ['mode = "sparse"\ndensity = 0.05', 'mode = "local"\nsteps = 6\nfragments = 2\ndelay = 2',
                     'mode = "sparse-local"\nsteps = 4\ndensity = 0.1']:
            steps = 4
            self.ok("train", self.write("job.toml", in_datacenters(PLACES, mode, steps) + CHECKPOINTS), "--out", "run")
            for names in [PLACES[:2], PLACES, [PLACES[2], PLACES[0]], PLACES[:1]]:
                steps += 4
                with self.subTest(mode=mode, datacenters=names):
                    job = in_datacenters(names, mode if len(names) > 1 else 'mode = "dense"', steps)
                    answer = self.json("train", self.write("job.toml", job + CHECKPOINTS), "--out", f"run-{steps}", "--resume")
                    self.assertEqual(answer["steps"], steps)
            shutil.rmtree(self.folder / "checkpoints")
            shutil.rmtree(self.folder / "run")
            for each in self.folder.glob("run-*"):
                shutil.rmtree(each)

    def test_bytes_are_scaled_only_where_nothing_is_computed(self):
        job = SIX.replace("steps = 4", "steps = 4\nbyte_scale = 8")
        self.ok("train", self.write("job.toml", job), "--out", "run")
        self.assertEqual(self.lines("run/trace.jsonl")[0]["byte_scale"], 8)
        real = job.replace('"emulated:a100-80g"', '"cpu"')
        self.refused(2, ["byte_scale = 8", 'computes on "cpu"'], "train", self.write("job.toml", real), "--out", "no")


if __name__ == "__main__":
    unittest.main()
