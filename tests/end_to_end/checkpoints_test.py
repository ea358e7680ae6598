"""Ranks on hosts that share no folder: each has a working folder of its own, and they meet over TCP alone."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from faults_test import alive
from launchers_test import clean_environment
from ports import free_ports
from program import BUILD, GUARD_S, TWO_EMULATED, Case
from recovery_test import children

CHECKPOINTS = '\n[checkpoint]\ndirectory = "checkpoints"\nevery = 2\n'
TOKEN = "0123456789abcdef0123456789abcdef"


def two(steps):
    return TWO_EMULATED.replace("steps = 4", f"steps = {steps}") + CHECKPOINTS


class Apart(Case):
    def host(self, rank):
        folder = self.folder / f"host-{rank}"
        folder.mkdir(exist_ok=True)
        return folder

    def start(self, job, *arguments, ranks=2, own=(), out=()):
        """One process per rank, each in a folder of its own. own: {rank: more arguments}, out: {rank: its --out}"""
        port = free_ports()
        processes = []
        for rank in range(ranks):
            (self.host(rank) / "job.toml").write_text(job)
            environment = dict(clean_environment(), RANK=str(rank), WORLD_SIZE=str(ranks), TOMBOLO_TOKEN=TOKEN)
            command = [BUILD / "tombolo", "train", "job.toml", "--out", dict(out).get(rank, "run"), "--rendezvous", f"127.0.0.1:{port}",
                       *arguments, *dict(own).get(rank, ()), *(["--json"] if rank == 0 else [])]
            with open(self.host(rank) / "errors", "w") as errors:
                process = subprocess.Popen(command, cwd=self.host(rank), env=environment, stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=errors, text=True)
            self.addCleanup(self.end, process)
            processes.append(process)
        return processes

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def errors(self):
        return "\n".join((folder / "errors").read_text() for folder in sorted(self.folder.glob("host-*")))

    def finish(self, processes):
        answer, _ = processes[0].communicate(timeout=GUARD_S)
        for process in processes:
            self.assertEqual(process.wait(timeout=GUARD_S), 0, self.errors())
        return json.loads(answer)

    def train(self, job, *arguments, **more):
        return self.finish(self.start(job, *arguments, **more))

    def fails(self, code, words, job, *arguments, **more):
        processes = self.start(job, *arguments, **more)
        self.assertEqual(processes[0].wait(timeout=GUARD_S), code, self.errors())
        for process in processes:
            self.assertNotEqual(process.wait(timeout=GUARD_S), 0)
        message = (self.host(0) / "errors").read_text()
        for word in words:
            self.assertIn(word, message)
        return message

    def files(self, rank, step):
        return sorted(path.name for path in (self.host(rank) / "checkpoints" / f"step-{step:08}").iterdir())

    def shard(self, rank, step):
        return next((self.host(rank) / "checkpoints" / f"step-{step:08}").glob(f"rank-{rank}.*"))

    def values(self, name):
        """{rank: value} of a record in the Trace of the launcher's host."""
        found = {}
        for line in (self.host(0) / "run" / "trace.jsonl").read_text().splitlines():
            entry = json.loads(line)
            if entry.get("record") == name:
                found[entry["rank"]] = entry["value"]
        return found


class OwnFolders(Apart):
    def test_each_host_has_its_own_files_and_the_launcher_a_whole_trace(self):
        answer = self.train(two(6))
        self.assertEqual(answer["steps"], 6)
        for rank in [0, 1]:
            self.assertEqual([name.split(".")[0] for name in self.files(rank, 6)], ["manifest", f"rank-{rank}"])
            steps = sorted(path.name for path in (self.host(rank) / "checkpoints").iterdir())
            self.assertEqual(steps, ["step-00000004", "step-00000006"])
        self.assertEqual(sorted(path.name for path in (self.host(0) / "run").iterdir()),
                         ["plan.json", "predicted.jsonl", "trace.jsonl"])
        self.assertEqual(list((self.host(1) / "run").iterdir()), [], "the launcher has a copy of what was there")
        ranks = {json.loads(line).get("rank") for line in (self.host(0) / "run" / "trace.jsonl").read_text().splitlines()}
        self.assertTrue({0, 1} <= ranks, ranks)

    def test_a_rank_reads_its_own_tensors_alone(self):
        self.train(two(4))
        self.assertEqual(self.train(two(8), "--resume")["steps"], 8)
        # Two layers on each rank, eight bytes of state each.
        self.assertEqual(self.values("state_bytes_read"), {0: 16, 1: 16})
        self.assertEqual(self.values("state_bytes_fetched"), {0: 0, 1: 0})

    def test_hosts_that_changed_places_fetch_what_they_lack(self):
        self.train(two(8))
        whole = {rank: self.shard(rank, 8).name for rank in [0, 1]}
        for rank in [0, 1]:
            shutil.rmtree(self.host(rank) / "checkpoints")
        self.train(two(4))
        self.host(0).rename(self.folder / "aside")
        self.host(1).rename(self.folder / "host-0")
        (self.folder / "aside").rename(self.folder / "host-1")
        self.assertEqual(self.train(two(8), "--resume")["steps"], 8)
        self.assertEqual(self.values("state_bytes_read"), {0: 0, 1: 0})
        self.assertEqual(self.values("state_bytes_fetched"), {0: 16, 1: 16})
        self.assertEqual({rank: self.shard(rank, 8).name for rank in [0, 1]}, whole, "the same bytes, by their name")

    def test_two_replicas_of_one_stage_go_on_from_two_stages(self):
        self.train(two(4))
        # Each of two replicas needs all layers, and has half of them.
        one = two(6).replace("pipeline = 2", "pipeline = 1\ndata = 2")
        one = one.replace('device = "emulated:a100-80g"', 'device = "emulated:a100-80g"\ndevices_per_node = 2')
        self.assertEqual(self.train(one, "--resume")["steps"], 6)
        self.assertEqual(self.values("state_bytes_read"), {0: 16, 1: 16})
        self.assertEqual(self.values("state_bytes_fetched"), {0: 16, 1: 16})

    def test_a_host_may_say_another_folder_for_its_checkpoints(self):
        self.train(two(4), own={1: ["--checkpoints", "elsewhere"]})
        self.assertFalse((self.host(1) / "checkpoints").exists())
        self.assertEqual(self.train(two(6), "--resume", own={1: ["--checkpoints", "elsewhere"]})["steps"], 6)
        self.assertTrue((self.host(1) / "elsewhere" / "step-00000006" / "manifest.json").exists())

    def test_a_folder_that_cannot_be_is_named_before_the_first_step(self):
        (self.host(1) / "file").write_text("")
        message = self.fails(2, ["rank 1 (paris)", "file/run: cannot create the folder"], two(4),
                             out={1: "file/run"})
        self.assertNotIn("step 1/", message)


class Damage(Apart):
    """In each case one message says what happened, and the older checkpoint is as good as it was; where the launcher sees the damage, it
    begins there."""

    def older_goes_on(self):
        shutil.rmtree(self.host(0) / "checkpoints" / "step-00000004")  # as the message says
        self.assertEqual(self.train(two(6), "--resume")["steps"], 6)
        self.assertIn("step 3/6", (self.host(0) / "errors").read_text())

    def test_a_missing_shard(self):
        self.train(two(4))
        shard = self.shard(1, 4)
        shard.unlink()
        self.fails(2, [f"{shard.name}: no host has this shard", "or an older checkpoint"], two(6), "--resume")
        self.older_goes_on()

    def test_a_truncated_shard(self):
        self.train(two(4))
        shard = self.shard(1, 4)
        shard.write_bytes(shard.read_bytes()[:-1])
        self.assertEqual(self.train(two(6), "--resume")["steps"], 6)
        said = (self.host(0) / "errors").read_text()
        self.assertIn(f"{shard.name}: on the host of rank 1 the shard is damaged: it has 231 bytes", said)
        self.assertIn("from the older checkpoint checkpoints/step-00000002", said)
        self.assertIn("step 3/6", said)

    def test_a_flipped_byte(self):
        self.train(two(4))
        shard = self.shard(1, 4)
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
        self.fails(2, ["rank 1 (paris)", f"{shard.name}: the shard is damaged: the bytes of the tensor",
                       "try an older checkpoint"], two(6), "--resume")
        self.older_goes_on()

    def test_killed_between_the_shards_and_the_manifest(self):
        self.train(two(4))
        for rank in [0, 1]:
            (self.host(rank) / "checkpoints" / "step-00000004" / "manifest.json").unlink()
        self.assertEqual(self.train(two(6), "--resume")["steps"], 6)
        self.assertIn("step 3/6", (self.host(0) / "errors").read_text())

    def test_killed_when_one_host_had_the_manifest(self):
        self.train(two(4))
        (self.host(1) / "checkpoints" / "step-00000004" / "manifest.json").unlink()
        self.assertEqual(self.train(two(6), "--resume")["steps"], 6)
        self.assertIn("step 5/6", (self.host(0) / "errors").read_text(), "both shards are whole")

    def test_a_disk_that_is_full(self):
        small = self.host(1) / "checkpoints"
        small.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", small], capture_output=True)
        if made.returncode != 0:
            self.skipTest("needs the right to mount a small file system")
        self.addCleanup(lambda: subprocess.run(["umount", small]))
        # Room for two steps with a shard and a manifest of one page each.
        self.fails(2, ["rank 1 (paris)", "No space left on device", "while writing the checkpoint of step 6",
                       "freeing space"], two(10))
        self.assertEqual([path for path in small.glob("*/*") if path.name.endswith(".tmp")], [])
        subprocess.run(["mount", "-o", "remount,size=1m", small], check=True)
        self.assertEqual(self.train(two(10), "--resume")["steps"], 10)
        self.assertIn("step 5/10", (self.host(0) / "errors").read_text())


class Lost(Apart):
    def wait(self, is_there, what):
        guard = time.monotonic() + GUARD_S
        while not is_there():
            self.assertLess(time.monotonic(), guard, f"{what}\n{self.errors()}")
            time.sleep(0.02)

    def kill_a_worker(self, process):
        self.wait(lambda: [pid for pid in children(process.pid) if alive(pid)], "no worker")
        os.kill(children(process.pid)[0], signal.SIGKILL)

    def state(self, ranks):
        return {rank: hashlib.sha256(self.shard(rank, 40).read_bytes()).hexdigest() for rank in ranks}

    def test_a_lost_worker_goes_on_from_its_hosts_checkpoint(self):
        self.train(two(40))
        whole = self.state([0, 1])
        for rank in [0, 1]:
            shutil.rmtree(self.host(rank) / "checkpoints")
        processes = self.start(two(40), "--restarts", "3")
        self.wait(lambda: list(self.host(0).glob("checkpoints/*/manifest.json")), "no checkpoint")
        self.kill_a_worker(processes[1])
        answer = self.finish(processes)
        self.assertEqual((answer["steps"], answer["restarts"]), (40, 1), self.errors())
        self.assertRegex(self.errors(), r"starting again after step \d+")
        self.assertEqual(self.state([0, 1]), whole)

    def test_what_ranks_kept_on_their_own_hosts(self):
        job = (two(160).replace("pipeline = 2", "pipeline = 2\ndata = 2").replace("every = 2", "every = 1000")
               .replace('device = "emulated:a100-80g"', 'device = "emulated:a100-80g"\ndevices_per_node = 2'))
        processes = self.start(job, "--restarts", "3", ranks=4)
        self.wait(lambda: re.search(r"step ([5-9]|\d\d|1[0-4]\d)/160", self.errors()), "nothing goes on")
        self.kill_a_worker(processes[3])
        answer = self.finish(processes)
        self.assertEqual((answer["steps"], answer["restarts"]), (160, 1), self.errors())
        # Its stage's other replica kept it: at most one iteration was done again.
        self.assertRegex(self.errors(), r"starting again after step \d+")
        self.assertFalse(list(self.folder.glob("host-*/run/kept")))


if __name__ == "__main__":
    unittest.main()
