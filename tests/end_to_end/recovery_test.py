"""Workers, the launcher and all at once are killed at random: the run goes on without a person and ends with the same bits."""
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

import slurm
from faults_test import alive
from launchers_test import clean_environment
from program import BUILD, GUARD_S, TWO_EMULATED, Case, needs_torch
from training_test import replicated, tiny

LONG = "--long" in sys.argv or bool(os.environ.get("TOMBOLO_LONG"))
CHECKPOINTS = '\n[checkpoint]\ndirectory = "checkpoints"\nevery = {every}\n'


def four_emulated(steps, every):
    """Two stages, each twice."""
    job = TWO_EMULATED.replace("pipeline = 2", "pipeline = 2\ndata = 2").replace("steps = 4", f"steps = {steps}")
    job = job.replace('device = "emulated:a100-80g"', 'device = "emulated:a100-80g"\ndevices_per_node = 2')
    return job + CHECKPOINTS.format(every=every)


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Recovery(Case):
    def start(self, job, *arguments):
        self.write("job.toml", job)
        errors = open(self.folder / "errors", "w")
        process = subprocess.Popen([BUILD / "tombolo", "train", "job.toml", "--out", "run", "--json", *arguments],
                                   cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=errors, text=True)
        errors.close()
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
            process.communicate()

    def launcher(self, supervisor):
        found = children(supervisor.pid)
        return found[0] if found else None

    def workers(self, supervisor):
        return [pid for launcher in children(supervisor.pid) for pid in children(launcher) if alive(pid)]

    def wait(self, is_there, what):
        guard = time.monotonic() + GUARD_S
        while not is_there():
            self.assertLess(time.monotonic(), guard, f"{what}\n{(self.folder / 'errors').read_text()}")
            time.sleep(0.005)

    def wait_for_a_checkpoint(self):
        """All ranks work."""
        self.wait(lambda: list(self.folder.glob("checkpoints/step-*/manifest.json")), "no checkpoint comes")

    def runs(self, process, ranks=4):
        """All ranks work, or all is over."""
        self.wait(lambda: process.poll() is not None or len(self.workers(process)) == ranks, "the workers do not come")

    def state(self):
        """What the last checkpoint holds, rank by rank."""
        last = sorted(self.folder.glob("checkpoints/step-*/manifest.json"))[-1].parent
        return last.name, {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                           for path in last.glob("*.safetensors")}

    def undisturbed(self, job):
        self.write("job.toml", job)
        self.ok("train", "job.toml", "--out", "whole")
        state = self.state()
        shutil.rmtree(self.folder / "checkpoints")
        return state

    def finish(self, process):
        answer, _ = process.communicate(timeout=GUARD_S)
        errors = (self.folder / "errors").read_text()
        self.assertEqual(process.returncode, 0, errors)
        self.assertFalse([path.name for path in (self.folder / "run").iterdir()
                          if path.name in ("kept", "journal") or "rank" in path.name or "tmp" in path.name])
        return json.loads(answer), errors

    def disturb(self, job, steps, kills, ranks=4):
        whole = self.undisturbed(job)
        chance = random.Random(7)
        process = self.start(job, "--restarts", "20")
        killed = {"worker": 0, "launcher": 0}
        seen, longest = set(), 0.0
        while sum(killed.values()) < kills and process.poll() is None:
            self.runs(process, ranks)
            time.sleep(0.1 + 0.6 * chance.random())  # anywhere, between two starts as well
            whom = "launcher" if chance.random() < 0.25 else "worker"
            found = [self.launcher(process)] if whom == "launcher" else self.workers(process)
            if not found or found[0] is None:
                continue
            victim = chance.choice(found)
            seen.update(found)
            begun = time.monotonic()
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed[whom] += 1
            self.wait(lambda: not alive(victim), "it lives")
            self.runs(process, ranks)
            longest = max(longest, time.monotonic() - begun)
        answer, errors = self.finish(process)
        self.assertEqual(answer["steps"], steps)
        self.assertEqual(self.state(), whole, errors)
        self.assertFalse([pid for pid in seen if alive(pid)], "somebody was left behind")
        print(f"{killed['worker']} workers and {killed['launcher']} launchers killed; at most {longest:.2f} s until all "
              f"ranks were there again", file=sys.stderr)
        return killed

    def test_random_kills(self):
        kills = 100 if LONG else 10
        # About 0.1 s per iteration, and a kill every half second.
        killed = self.disturb(four_emulated(12 * kills, 5), 12 * kills, kills)
        self.assertGreater(sum(killed.values()), kills // 2, "the run was over too soon")

    @needs_torch
    def test_random_kills_of_real_training(self):
        steps = 400 if LONG else 40
        job = replicated(tiny(2, steps=steps, every=10))
        self.write("job.toml", job)
        self.ok("train", "job.toml", "--out", "once")
        losses = self.records(self.folder / "once" / "trace.jsonl", "loss")
        shutil.rmtree(self.folder / "checkpoints")
        self.disturb(job, steps, 20 if LONG else 2)
        disturbed = self.records(self.folder / "run" / "trace.jsonl", "loss")
        self.assertIn(steps, disturbed)
        self.assertEqual(disturbed, {i: losses[i] for i in disturbed})

    def test_all_at_once_and_the_same_command_again(self):
        job = four_emulated(60, 1000)
        whole = self.undisturbed(job)
        process = self.start(job)
        self.runs(process)
        journal = self.folder / "run" / "journal"
        self.wait(lambda: journal.exists() and '"begun"' in journal.read_text(), "no journal")
        time.sleep(1.5)
        workers = self.workers(process)
        process.kill()  # the supervisor; its launcher goes with it, and the workers leave their states
        process.communicate()
        self.wait(lambda: not any(alive(pid) for pid in workers), "a worker outlived its launcher")
        self.assertTrue(list((self.folder / "run" / "kept").glob("epoch-1/step-*")))
        answer, errors = self.finish(self.start(job))
        self.assertRegex(errors, r"the launcher of this run was killed; starting again after step \d+")
        self.assertEqual(answer["steps"], 60)
        self.assertEqual(self.state(), whole)

    def test_two_runs_in_one_folder(self):
        process = self.start(four_emulated(100000, 1000))
        self.runs(process)
        self.refused(2, ["another run works in this folder"], "train", "job.toml", "--out", "run")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=GUARD_S)
        self.assertIn("interrupted after step", (self.folder / "errors").read_text())
        self.assertFalse((self.folder / "run" / "journal").exists())


class StartedOneByOne(Recovery):
    """Ranks that somebody started on their hosts, with --restarts, and a spare beside them."""

    def start_all(self, job, spares, missing=(), words=()):
        self.write("job.toml", job)
        with slurm.socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.command = [BUILD / "tombolo", "train", "job.toml", "--out", "run", "--restarts", "5",
                        "--rendezvous", f"127.0.0.1:{port}", *words]
        return [self.start_rank(rank) for rank in range(4 + spares) if rank not in missing]

    def start_rank(self, rank):
        here = dict(clean_environment(), RANK=str(rank), WORLD_SIZE="4") if rank < 4 else clean_environment()
        more = ["--json"] if rank == 0 else ["--spare"] if rank >= 4 else []
        with open(self.folder / "errors", "a") as errors:
            process = subprocess.Popen(self.command + more, cwd=self.folder, env=here, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL, stderr=errors, text=True)
        self.addCleanup(self.end, process)
        return process

    def workers_of(self, process):
        return [pid for pid in children(process.pid) if alive(pid)]

    def test_a_spare_takes_the_seat_of_a_lost_host(self):
        job = four_emulated(100, 5)
        whole = self.undisturbed(job)
        ranks = self.start_all(job, spares=2)
        self.wait_for_a_checkpoint()
        lost = [ranks[2].pid, *self.workers_of(ranks[2])]  # all that is on its host
        for pid in lost:
            os.kill(pid, signal.SIGKILL)
        self.wait(lambda: any(self.workers_of(spare) for spare in ranks[4:]), "no spare sits there")
        self.wait(lambda: self.workers_of(ranks[1]), "rank 1 does not come again")
        os.kill(self.workers_of(ranks[1])[0], signal.SIGKILL)  # its worker alone: the rank comes again by itself
        answer, errors = self.finish(ranks[0])
        self.assertEqual(answer["steps"], 100)
        self.assertGreaterEqual(answer["restarts"], 1)
        self.assertEqual(self.state(), whole, errors)
        for process in ranks[1:2] + ranks[3:]:
            self.assertEqual(process.wait(timeout=GUARD_S), 0, errors)

    def test_a_spare_takes_the_seat_of_a_host_that_comes_too_late(self):
        job = four_emulated(60, 5)
        whole = self.undisturbed(job)
        # None of them can be called, the spare included.
        ranks = self.start_all(job, spares=1, missing=[2], words=["--join-timeout", "20", "--no-inbound"])
        self.wait(lambda: self.workers_of(ranks[-1]), "no spare sits there")
        late = self.start_rank(2)
        answer, errors = self.finish(ranks[0])
        self.assertIn("links that go through this host", errors)
        self.assertEqual((answer["steps"], self.state()), (60, whole), errors)
        self.end(late)  # it would call for another while
        for process in ranks[1:]:
            self.assertEqual(process.wait(timeout=GUARD_S), 0, errors)

    @unittest.skipUnless(LONG, "waits until the leases of a lost launcher are over; --long")
    def test_the_launcher_is_killed(self):
        job = four_emulated(400, 5)
        whole = self.undisturbed(job)
        ranks = self.start_all(job, spares=0)
        self.wait_for_a_checkpoint()
        os.kill(children(ranks[0].pid)[0], signal.SIGKILL)
        answer, errors = self.finish(ranks[0])
        self.assertIn("the launcher was killed", errors)
        self.assertEqual((answer["steps"], self.state()), (400, whole), errors)
        for process in ranks[1:]:
            self.assertEqual(process.wait(timeout=GUARD_S), 0, errors)

    def test_a_spare_without_a_run(self):
        self.write("job.toml", four_emulated(4, 5))
        self.refused(1, ["run: no run goes on here", "rank 0 with the same --out and --restarts"],
                     "train", "job.toml", "--spare", "--join-timeout", "1", env=clean_environment())


if __name__ == "__main__":
    unittest.main(argv=[argument for argument in sys.argv if argument != "--long"])
