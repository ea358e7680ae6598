"""A killed worker, a full disk, the wrong BLAS: one clear message, nothing half-written, nobody left behind."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time
import unittest

from program import BUILD, GUARD_S, TWO_EMULATED, Case, needs_torch
from training_test import replicated, tiny

NETLIB = pathlib.Path("/usr/lib/x86_64-linux-gnu/blas")
LONG_RUN = TWO_EMULATED.replace("steps = 4", "steps = 100000") + """
[checkpoint]
directory = "checkpoints"
every = 2
"""


def worker_pids(parent):
    """Process ids of the workers that this launcher started, or that of this supervisor, by rank."""
    pids = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = stat.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            continue
        if int(fields.split()[1]) == parent:
            pid = int(stat.parent.name)
            pids += [pid] if name == "tombolo-worker" else worker_pids(pid)
    return sorted(pids, key=rank_of)


def rank_of(pid):
    """Process ids are no order: they begin anew some time."""
    words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return int(words[words.index(b"--rank") + 1]) if b"--rank" in words else 0


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Killed(Case):
    def start(self, job, *arguments, workers=2, restarts=0):
        """A launcher in the background that has written its first checkpoint."""
        self.write("job.toml", job)
        launcher = subprocess.Popen([BUILD / "tombolo", "train", "job.toml", "--out", "run", "--restarts",
                                     str(restarts), *arguments],
                                    cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        guard = time.monotonic() + GUARD_S
        while not list(self.folder.glob("checkpoints/step-*/manifest.json")):
            self.assertIsNone(launcher.poll(), launcher.stderr.read() if launcher.poll() is not None else "")
            self.assertLess(time.monotonic(), guard, "no checkpoint was written")
            time.sleep(0.02)
        pids = worker_pids(launcher.pid)
        self.assertEqual(len(pids), workers)
        return launcher, pids

    def test_kill_9_of_each_worker(self):
        for victim in [0, 1]:
            launcher, pids = self.start(LONG_RUN)
            os.kill(pids[victim], signal.SIGKILL)
            _, message = launcher.communicate(timeout=10)
            self.assertEqual(launcher.returncode, 1, message)
            self.assertRegex(message, rf"rank {victim}.* was lost")
            self.assertIn("signal 9", message)
            self.assertFalse([pid for pid in pids if alive(pid)])
            # The last checkpoint is whole: the run goes on from it.
            steps = sorted(self.folder.glob("checkpoints/step-*/manifest.json"))
            last = int(steps[-1].parent.name.split("-")[1])
            resumed = self.json("train", "job.toml", "--out", "again", "--resume", "--steps", last + 2)
            self.assertEqual(resumed["steps"], last + 2)
            self.assertFalse(list(self.folder.glob("run/*.tmp")))
            for path in self.folder.glob("checkpoints/step-*/*"):
                path.unlink()
            for path in self.folder.glob("checkpoints/step-*"):
                path.rmdir()

    @needs_torch
    def test_losses_are_those_of_an_undisturbed_run(self):
        job = self.write("job.toml", tiny(2, steps=200, every=20))
        self.ok("train", job, "--out", "whole")
        shutil.rmtree(self.folder / "checkpoints")
        launcher, pids = self.start(tiny(2, steps=200, every=20), "--json", restarts=3)
        os.kill(pids[1], signal.SIGKILL)
        answer, message = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 0, message)
        self.assertEqual(json.loads(answer)["restarts"], 1)
        self.assertIn("starting again after step", message)
        losses = lambda path: self.records(self.folder / path, "loss")
        whole, disturbed = losses("whole/trace.jsonl"), losses("run/trace.jsonl")
        self.assertIn(200, disturbed)
        self.assertEqual(disturbed, {i: whole[i] for i in disturbed})

    @needs_torch
    def test_kill_9_of_a_replica(self):
        # Its stage's other replica stands in Gloo or on the way there, the other stage waits for messages.
        job = replicated(tiny(2, steps=100000, every=2))
        for victim in [1, 2]:
            launcher, pids = self.start(job, workers=4)
            os.kill(pids[victim], signal.SIGKILL)
            _, message = launcher.communicate(timeout=10)
            self.assertEqual(launcher.returncode, 1, message)
            self.assertRegex(message, rf"rank {victim}.* was lost")
            self.assertIn("signal 9", message)
            self.assertFalse([pid for pid in pids if alive(pid)])
            shutil.rmtree(self.folder / "checkpoints")

    def test_kill_9_of_the_launcher_takes_the_workers_along(self):
        launcher, pids = self.start(LONG_RUN)
        launcher.kill()
        launcher.communicate(timeout=10)
        guard = time.monotonic() + 10
        while any(alive(pid) for pid in pids):
            self.assertLess(time.monotonic(), guard, "a worker outlived its launcher by 10 s")
            time.sleep(0.02)

    def test_interrupt_stops_in_order(self):
        launcher, pids = self.start(LONG_RUN)
        launcher.send_signal(signal.SIGINT)
        _, message = launcher.communicate(timeout=10)
        self.assertNotEqual(launcher.returncode, 0)
        self.assertIn("interrupt", message.lower())
        self.assertFalse([pid for pid in pids if alive(pid)])


class FullDisk(Case):
    def limited(self, limit, words, *arguments):
        return self.refused(2, words, *arguments, preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (limit, limit)))

    def test_simulate_leaves_nothing_behind(self):
        self.write("job.toml", TWO_EMULATED)
        self.limited(1000, ["t.jsonl: cannot write it: File too large", "another folder"],
                     "simulate", "job.toml", "--out", "t.jsonl")
        self.assertEqual([p.name for p in self.folder.iterdir()], ["job.toml"])

    def test_train_says_so_and_leaves_nothing_half_written(self):
        self.write("job.toml", TWO_EMULATED.replace("steps = 4", "steps = 40"))
        # Room for the Plan and the prediction, not for the Trace of 40 iterations.
        self.limited(20_000, ["cannot write it: File too large"], "train", "job.toml", "--out", "run")
        self.assertFalse((self.folder / "run" / "trace.jsonl").exists())
        self.assertFalse(list(self.folder.glob("run/*.tmp")))

    def test_a_really_full_disk(self):
        mount = self.folder / "small"
        mount.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", mount], capture_output=True)
        if made.returncode != 0:
            self.skipTest("needs the right to mount a small file system")
        self.addCleanup(lambda: subprocess.run(["umount", mount]))
        job = self.write("job.toml", TWO_EMULATED)
        self.refused(2, ["No space left on device", "freeing space"], "simulate", job, "--iterations", "100",
                     "--out", mount / "t.jsonl")
        self.assertEqual(list(mount.iterdir()), [])


class Environment(Case):
    @needs_torch
    def test_the_slow_netlib_blas_is_refused(self):
        if not (NETLIB / "libblas.so.3").exists():
            self.skipTest("netlib's BLAS is not installed here")
        environment = dict(os.environ, LD_LIBRARY_PATH=str(NETLIB))
        self.refused(2, ["netlib", "libopenblas0-pthread"], "train", self.write("job.toml", tiny(1, steps=1)),
                     env=environment)

    @needs_torch
    def test_text_that_is_missing_or_too_short(self):
        job = self.write("job.toml", tiny(1, steps=1))
        self.refused(2, ["nowhere.txt", "No such file"], "train", job, "--data", "nowhere.txt")
        self.refused(2, ["short.txt", "bytes"], "train", job, "--data", self.write("short.txt", "too short"))

    def test_a_worker_that_is_missing(self):
        self.refused(2, ["no-worker"], "train", self.write("job.toml", TWO_EMULATED), "--worker", "no-worker")


if __name__ == "__main__":
    unittest.main()
