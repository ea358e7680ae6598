"""Workers, the launcher and all at once are killed at random: the run goes on without a person and ends with the same bits."""
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import unittest

from faults_test import alive
from launchers_test import clean_environment
from ports import free_ports
from program import BUILD, GUARD_S, TWO_EMULATED, Case, needs_torch
from training_test import pipelines_apart, replicated, tiny

LONG = "--long" in sys.argv or bool(os.environ.get("TOMBOLO_LONG"))
SLOW_S = 30 if LONG else 6  # a forward pass; whoever is stopped in it ends after three seconds
JOIN_S = 60 if LONG else 6
CHECKPOINTS = '\n[checkpoint]\ndirectory = "checkpoints"\nevery = {every}\n'


def four_emulated(steps, every):
    """Two stages, each twice."""
    job = TWO_EMULATED.replace("pipeline = 2", "pipeline = 2\ndata = 2").replace("steps = 4", f"steps = {steps}")
    job = job.replace('device = "emulated:a100-80g"', 'device = "emulated:a100-80g"\ndevices_per_node = 2')
    return job + CHECKPOINTS.format(every=every)


def two_slow_replicas(steps):
    """One stage, twice; a forward pass so long that whoever is stopped is in the middle of one."""
    job = TWO_EMULATED.replace("pipeline = 2", "pipeline = 1\ndata = 2").replace("steps = 4", f"steps = {steps}")
    job = job.replace("global_batch = 8", "global_batch = 4").replace('forward = "4 ms"', f'forward = "{SLOW_S} s"')
    return job.replace('device = "emulated:a100-80g"', 'device = "emulated:a100-80g"\ndevices_per_node = 2')


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Recovery(Case):
    def start(self, job, *arguments, **options):
        self.write("job.toml", job)
        errors = open(self.folder / "errors", "w")
        process = subprocess.Popen([BUILD / "tombolo", "train", "job.toml", "--out", "run", "--json", *arguments],
                                   cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=errors, text=True, **options)
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
        self.kill_in(replicated)

    @needs_torch
    def test_random_kills_where_replicas_lie_apart(self):
        self.kill_in(pipelines_apart)

    @needs_torch
    def test_random_kills_with_sparse_updates(self):
        # Without staleness ranks go on from kept states, with it from a checkpoint; residuals come along.
        for how in ['staleness = 0', 'freshness = "fixed"']:
            with self.subTest(how):
                self.kill_in(lambda job: pipelines_apart(job) + f'\n[exchange]\nmode = "sparse"\ndensity = 0.05\n{how}\n')
                shutil.rmtree(self.folder / "checkpoints")
                shutil.rmtree(self.folder / "run")
                shutil.rmtree(self.folder / "once")

    @needs_torch
    def test_random_kills_with_local_steps(self):
        # From a checkpoint: residuals, momenta and what had arrived and not been used come along.
        for how in ['mode = "local"\nsteps = 7', 'mode = "local"\nsteps = 6\nfragments = 2\ndelay = 4\nvalues = "int4"',
                    'mode = "sparse-local"\nsteps = 4\ndensity = 0.1']:
            with self.subTest(how):
                self.kill_in(lambda job: pipelines_apart(job) + f'\n[exchange]\n{how}\n')
                shutil.rmtree(self.folder / "checkpoints")
                shutil.rmtree(self.folder / "run")
                shutil.rmtree(self.folder / "once")

    def kill_in(self, layout):
        steps = 400 if LONG else 40
        job = layout(tiny(2, steps=steps, every=10))
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
        process = self.start(job, "--grace", "3s")
        self.runs(process)
        self.wait(lambda: self.said("step 1/60 "), "no step is done")
        workers = self.workers(process)
        process.kill()  # the supervisor; its launcher goes with it, and the workers leave their states
        process.communicate()
        self.wait(lambda: not any(alive(pid) for pid in workers), "a worker outlived its launcher")
        self.assertTrue(list((self.folder / "run" / "kept").glob("epoch-1/step-*")))
        answer, errors = self.finish(self.start(job, "--grace", "3s"))
        self.assertRegex(errors, r"the launcher of this run was killed; starting again after step \d+")
        self.assertEqual(answer["steps"], 60)
        self.assertEqual(self.state(), whole)

    def said(self, words):
        return words in (self.folder / "errors").read_text()

    def test_the_launcher_is_suspended_while_its_ranks_call(self):
        """Ranks give up a call after 5 s and call anew; the launcher then hears all of their calls at once."""
        process = self.start(TWO_EMULATED, "--restarts", "2")
        self.wait(lambda: self.workers(process) or process.poll() is not None, "no worker comes")
        launcher = self.launcher(process)
        os.kill(launcher, signal.SIGSTOP)
        time.sleep(12)
        os.kill(launcher, signal.SIGCONT)
        answer, errors = self.finish(process)
        self.assertEqual((answer["steps"], answer["restarts"]), (4, 0), errors)

    def test_the_launcher_is_killed_during_a_long_kernel(self):
        process = self.start(two_slow_replicas(2))
        self.wait(lambda: self.said("step 1/2 "), "no step is done")
        os.kill(self.launcher(process), signal.SIGKILL)
        answer, errors = self.finish(process)
        self.assertIn("the launcher of this run was killed; starting again after step 1", errors)
        self.assertEqual(answer["steps"], 2)

    def test_the_launcher_is_killed_before_its_workers_know_it(self):
        """They are being loaded: nobody waits until they have called in vain for a minute."""
        process = self.start(four_emulated(4, 1000))
        self.runs(process)
        os.kill(self.launcher(process), signal.SIGKILL)
        answer, errors = self.finish(process)
        self.assertIn("it is started again", errors)
        self.assertNotIn("the launcher did not answer", errors)
        self.assertEqual(answer["steps"], 4)

    def test_a_worker_whose_launcher_is_gone_already(self):
        began = time.monotonic()
        worker = subprocess.run([BUILD / "tombolo-worker", "run", "--rank", "0", "--ranks", "1", "--launcher", "127.0.0.1:1",
                                 "--join-timeout", "600", "--child", "1"], capture_output=True, timeout=GUARD_S,
                                env=clean_environment(TOMBOLO_TOKEN="0" * 32))
        self.assertEqual(worker.returncode, -signal.SIGKILL, f"{worker.stderr} after {time.monotonic() - began:.0f} s")

    def test_two_runs_in_one_folder(self):
        process = self.start(four_emulated(100000, 1000))
        self.runs(process)
        self.refused(2, ["another run works in this folder"], "train", "job.toml", "--out", "run")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=GUARD_S)
        self.assertIn("interrupted after step", (self.folder / "errors").read_text())
        self.assertFalse((self.folder / "run" / "journal").exists())

    def test_two_runs_with_one_folder_of_checkpoints(self):
        """Also where the second one would begin, or go on from what the first one has so far."""
        process = self.start(four_emulated(100000, 2))
        self.runs(process)
        for more in [], ["--resume"], ["--restarts", "0"]:
            message = self.refused(2, ["checkpoints: another run (", "/run) writes its checkpoints here", "--checkpoints"],
                                   "train", "job.toml", "--out", "other", *more)
            self.assertEqual(message.count("another run"), 1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=GUARD_S)
        self.assertIn("interrupted after step", (self.folder / "errors").read_text())
        self.assertFalse((self.folder / "checkpoints" / "lock").exists())

    def damage(self, step, rank):
        """A bit of this rank's shard of that step is another one; its path."""
        shard, = self.folder.glob(f"checkpoints/step-{step:08}/rank-{rank}.*")
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
        return shard.relative_to(self.folder)

    def test_a_damaged_checkpoint_gives_way_to_the_older_one(self):
        whole = self.undisturbed(four_emulated(20, 4))
        self.write("job.toml", four_emulated(12, 4))
        self.ok("train", "job.toml", "--out", "run")
        damaged = self.damage(12, 2)
        job = four_emulated(20, 4)
        self.write("job.toml", job)
        self.refused(2, [f"{damaged}: the shard is damaged", "try an older checkpoint"], "train", "job.toml", "--out", "run",
                     "--resume", "--restarts", "0")
        answer, errors = self.finish(self.start(job, "--resume"))
        self.assertRegex(errors, rf"{damaged}: the shard is damaged: .*; starting again after step 8, from the older "
                                 r"checkpoint checkpoints/step-00000008\n")
        self.assertEqual((answer["steps"], answer["restarts"]), (20, 0))
        self.assertEqual(self.state(), whole)

    def test_a_run_that_goes_on_by_itself_passes_over_a_damaged_checkpoint(self):
        job = four_emulated(60, 5).replace("[checkpoint]", "[checkpoint]\nkeep = 4")
        whole = self.undisturbed(job)
        process = self.start(job, "--no-keep-state", "--grace", "3s")
        there = lambda: sorted(self.folder.glob("checkpoints/step-*/manifest.json"))
        self.wait(lambda: len(there()) >= 3, "no checkpoints come")
        workers = self.workers(process)
        process.kill()
        process.communicate()
        self.wait(lambda: not any(alive(pid) for pid in workers), "a worker outlived its launcher")
        older, newer, newest = [int(path.parent.name[5:]) for path in there()[-3:]]
        (self.folder / f"checkpoints/step-{newest:08}/manifest.json").write_text("{")
        self.damage(newer, 0)
        answer, errors = self.finish(self.start(job, "--no-keep-state", "--grace", "3s"))
        self.assertIn(f"continuing from the older checkpoint checkpoints/step-{newer:08}\n", errors)
        self.assertIn(f"starting again after step {older}, from the older checkpoint checkpoints/step-{older:08}\n", errors)
        self.assertEqual(self.state(), whole)

    def test_a_supervisor_that_starts_no_launcher_again_says_so(self):
        process = self.start(two_slow_replicas(2).replace(f'forward = "{SLOW_S} s"', 'forward = "600 s"'), "--restarts", "1")
        self.runs(process, 2)
        first = self.launcher(process)
        os.kill(first, signal.SIGKILL)
        self.wait(lambda: self.launcher(process) not in (None, first) and self.workers(process), "it is not started again")
        os.kill(self.launcher(process), signal.SIGKILL)
        process.communicate(timeout=GUARD_S)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.assertIn("the launcher was killed by signal 9 (Killed), 2 times in a row without a new step between; "
                      "--restarts 1 allows no more. The same command resumes the run\n",
                      (self.folder / "errors").read_text())

    def check_hung_up(self, process):
        process.communicate(timeout=GUARD_S)
        self.assertEqual(process.returncode, 1)
        self.wait(lambda: not self.working, "a worker was left behind")
        self.assertFalse((self.folder / "run" / "journal").exists(), "nobody has to wait for it")

    @property
    def working(self):
        return [pid for pid in self.seen if alive(pid)]

    def test_a_terminal_that_closes_ends_the_run_in_order(self):
        self.write("job.toml", four_emulated(100000, 1000))
        self.write("errors", "")
        here, terminal = pty.openpty()

        def take_the_terminal():
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

        process = subprocess.Popen([BUILD / "tombolo", "train", "job.toml", "--out", "run"], cwd=self.folder, stdin=terminal,
                                   stdout=terminal, stderr=terminal, preexec_fn=take_the_terminal)
        self.addCleanup(self.end, process)
        os.close(terminal)
        self.runs(process)
        self.seen = self.workers(process)
        os.close(here)
        self.check_hung_up(process)

    def test_a_hangup_of_the_whole_group_is_an_interrupt(self):
        """As a shell sends it to all processes of a job when it ends."""
        process = self.start(four_emulated(100000, 1000), start_new_session=True)
        self.runs(process)
        self.seen = self.workers(process)
        os.killpg(process.pid, signal.SIGHUP)
        self.check_hung_up(process)
        self.assertIn("interrupted after step", (self.folder / "errors").read_text())

    def test_a_folder_that_is_not_ours_stays(self):
        (self.folder / "kept").mkdir()
        (self.folder / "kept" / "thesis.txt").write_text("mine")
        self.write("job.toml", four_emulated(2, 1000))
        self.ok("train", "job.toml", "--out", ".")
        self.assertEqual((self.folder / "kept" / "thesis.txt").read_text(), "mine")


class Gateway:
    """Passes on what comes to its port, and resets all connections when it is told to, as a gateway does that forgets."""

    def __init__(self, to):
        self.to, self.calls, self.lock = to, [], threading.Lock()
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                here, _ = self.door.accept()
            except OSError:
                return  # closed
            try:
                there = socket.create_connection(("127.0.0.1", self.to))
            except OSError:  # nobody listens yet
                here.close()
                continue
            with self.lock:
                self.calls.append((here, there))
            for pair in ((here, there), (there, here)):
                threading.Thread(target=self.pass_on, args=pair, daemon=True).start()

    @staticmethod
    def pass_on(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # reset

    def reset_all(self):
        """How many there were, those that had ended too."""
        with self.lock:
            calls, self.calls = self.calls, []
        for each in [end for call in calls for end in call]:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                each.shutdown(socket.SHUT_RD)  # its thread lets go of it
            except OSError:
                pass
            each.close()
        return len(calls)

    def close(self):
        self.door.close()
        self.reset_all()


class StartedOneByOne(Recovery):
    """Ranks that somebody started on their hosts, with --restarts, and a spare beside them."""

    environment = {}  # of all of them

    def start_all(self, job, spares, missing=(), words=(), ranks=4, restarts=5):
        self.write("job.toml", job)
        self.ranks = ranks
        self.port = port = free_ports(2)
        self.command = [BUILD / "tombolo", "train", "job.toml", "--out", "run", "--restarts", str(restarts),
                        "--rendezvous", f"127.0.0.1:{port}", *words]
        return [self.start_rank(rank) for rank in range(ranks + spares) if rank not in missing]

    def start_rank(self, rank, through=None):
        """`through`: the port at which it calls the launcher, in place of its own."""
        place = {"RANK": rank, "WORLD_SIZE": self.ranks} if rank < self.ranks else {}
        here = clean_environment(**place, **self.environment)
        more = ["--json"] if rank == 0 else ["--spare"] if rank >= self.ranks else []
        with open(self.folder / "errors", "a") as errors:
            command = [f"127.0.0.1:{through}" if through and word == f"127.0.0.1:{self.port}" else word for word in self.command]
            process = subprocess.Popen(command + more, cwd=self.folder, env=here, stdin=subprocess.DEVNULL,
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
        self.wait_for_a_checkpoint()  # a spare that is only on its way to the seat may find it taken
        self.assertTrue(self.workers_of(ranks[-1]), "no spare sits there")
        late = self.start_rank(2)
        answer, errors = self.finish(ranks[0])
        self.assertIn("links that go through this host", errors)
        self.assertEqual((answer["steps"], self.state()), (60, whole), errors)
        for process in [*ranks[1:], late]:
            self.assertEqual(process.wait(timeout=GUARD_S), 0, errors)
        self.assertIn("rank 2: the run is over; another process was this rank", (self.folder / "errors").read_text())

    @unittest.skipUnless(LONG, "waits until the leases of a lost launcher are over; --long")
    def test_the_launcher_is_killed(self):
        job = four_emulated(400, 5)
        whole = self.undisturbed(job)
        ranks = self.start_all(job, spares=0, words=["--grace", "3s"])
        self.wait_for_a_checkpoint()
        os.kill(children(ranks[0].pid)[0], signal.SIGKILL)
        answer, errors = self.finish(ranks[0])
        self.assertIn("the launcher was killed", errors)
        self.assertEqual((answer["steps"], self.state()), (400, whole), errors)
        for process in ranks[1:]:
            self.assertEqual(process.wait(timeout=GUARD_S), 0, errors)

    def test_resets_of_the_connections_to_the_launcher_cost_nothing(self):
        job = four_emulated(100, 20)
        whole = self.undisturbed(job)
        self.start_all(job, spares=0, missing=range(4))
        proxy = Gateway(self.port)
        self.addCleanup(proxy.close)
        ranks = [self.start_rank(0)] + [self.start_rank(rank, through=proxy.port) for rank in range(1, 4)]
        self.wait_for_a_checkpoint()
        self.assertGreaterEqual(proxy.reset_all(), 3, "nobody goes through it")
        time.sleep(0.5)
        self.assertGreaterEqual(proxy.reset_all(), 3, "they did not call again")
        answer, errors = self.finish(ranks[0])
        self.assertEqual((answer["steps"], answer["restarts"]), (100, 0), errors)
        self.assertEqual(self.state(), whole, errors)
        self.assertRegex(errors, r"connection 1 of 1 to the launcher is back; it was lost for ")
        for process in ranks[1:]:
            self.assertEqual(process.wait(timeout=GUARD_S), 0, errors)

    def test_a_rank_in_a_long_kernel_comes_again(self):
        ranks = self.start_all(two_slow_replicas(2), spares=0, ranks=2)
        self.wait(lambda: self.said("step 1/2 "), "no step is done")
        launcher = children(ranks[0].pid)[0]
        os.kill(children(launcher)[0], signal.SIGKILL)  # the worker of rank 0
        answer, errors = self.finish(ranks[0])
        self.assertIn("ended in the middle of a computation", errors)
        self.assertRegex(errors, r"rank 0 \(oregon\) was lost: .*; starting again after step 1")
        self.assertEqual((answer["steps"], answer["restarts"]), (2, 1))
        self.assertEqual(ranks[1].wait(timeout=GUARD_S), 0, errors)

    def test_a_host_that_is_away_for_longer_than_the_join_timeout(self):
        job = four_emulated(60, 5)
        whole = self.undisturbed(job)
        ranks = self.start_all(job, spares=0, words=["--join-timeout", str(JOIN_S)], restarts=3)
        self.wait_for_a_checkpoint()
        for pid in [ranks[2].pid, *self.workers_of(ranks[2])]:
            os.kill(pid, signal.SIGKILL)
        back = time.monotonic() + 1.5 * JOIN_S
        away = f"rank 2 (paris) did not come within {JOIN_S} s: 3 of 4 are here; waiting for all again"
        self.wait(lambda: self.said(away), "nobody misses rank 2")
        time.sleep(max(back - time.monotonic(), 0))
        late = self.start_rank(2)
        answer, errors = self.finish(ranks[0])
        self.assertNotIn("rank 0 (oregon) was lost", errors)
        self.assertRegex(errors, r"rank 2 \(paris\) was lost: .*; starting again after step \d+")
        self.assertEqual((answer["steps"], self.state()), (60, whole), errors)
        for process in [ranks[1], late, ranks[3]]:
            self.assertEqual(process.wait(timeout=GUARD_S), 0, errors)

    def test_two_ranks_that_cannot_reach_each_other_are_named(self):
        with socket.socket() as taken:  # so that they cannot meet through the launcher's host either
            job = four_emulated(60, 5).replace("data = 2", "data = 1")
            self.write("job.toml", job)
            self.ranks = 2
            self.port = free_ports(2)
            taken.bind(("127.0.0.1", self.port + 1))
            self.command = [BUILD / "tombolo", "train", "job.toml", "--out", "run", "--restarts", "3", "--rendezvous",
                            f"127.0.0.1:{self.port}", "--advertise", "127.0.0.1:1", "--join-timeout", "15"]
            ranks = [self.start_rank(rank) for rank in range(2)]
            ranks[0].communicate(timeout=GUARD_S)
        errors = (self.folder / "errors").read_text()
        self.assertEqual(ranks[0].returncode, 1, errors)
        self.assertIn("rank 0 (oregon) cannot reach rank 1 (paris) at 127.0.0.1:1, nor the other way round", errors)
        self.assertNotEqual(ranks[1].wait(timeout=GUARD_S), 0)

    def test_a_spare_without_a_run(self):
        self.write("job.toml", four_emulated(4, 5))
        self.refused(1, ["no run at 127.0.0.1:29511: no answer for 1 s", "rank 0 with the same --rendezvous"],
                     "train", "job.toml", "--spare", "--join-timeout", "1", env=clean_environment())
        self.refused(2, ["--datacenter lima: the job has no datacenter of that name", "one of oregon, paris"],
                     "train", "job.toml", "--spare", "--datacenter", "lima", env=clean_environment())

    def test_a_spare_shares_no_folder(self):
        job = four_emulated(100, 5)
        whole = self.undisturbed(job)
        self.environment = {"TOMBOLO_TOKEN": "5" * 32}
        ranks = self.start_all(job, spares=0)
        spares = {}
        for place in ["oregon", "paris"]:  # a folder of its own, and the token in the environment
            command = [word if word != "run" else f"{place}/run" for word in self.command]
            command += ["--checkpoints", f"{place}/checkpoints", "--spare", "--datacenter", place]
            spares[place] = subprocess.Popen(command, cwd=self.folder, env=clean_environment(**self.environment),
                                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.addCleanup(self.end, spares[place])
        self.wait_for_a_checkpoint()
        for pid in [ranks[2].pid, *self.workers_of(ranks[2])]:
            os.kill(pid, signal.SIGKILL)
        answer, errors = self.finish(ranks[0])
        self.assertIn("a spare takes the place of rank 2 (paris)", errors)
        self.assertEqual(answer["steps"], 100)
        # The host that came in has the shard of rank 2, the others have the rest.
        last, shards = whole
        there = [*self.folder.glob(f"checkpoints/{last}/*.safetensors"), *self.folder.glob(f"paris/checkpoints/{last}/*.safetensors")]
        self.assertEqual({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in there}, shards, errors)
        self.assertFalse((self.folder / "oregon").exists())
        for process in [ranks[1], ranks[3], *spares.values()]:
            self.assertEqual(process.wait(timeout=GUARD_S), 0, errors)


if __name__ == "__main__":
    unittest.main(argv=[argument for argument in sys.argv if argument != "--long"])
