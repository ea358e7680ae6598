"""One job, started by `tombolo train`, mpirun, torchrun and srun: the same losses; and what goes wrong on the way."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

import slurm
from ports import free_ports
from program import BUILD, GUARD_S, TORCH, TWO_EMULATED, Case, with_torch_too
from training_test import tiny

FOUR_EMULATED = TWO_EMULATED.replace('emulated:a100-80g"', 'emulated:a100-80g"\nnodes = 2').replace("pipeline = 2", "pipeline = 4")
LONG_RUN = FOUR_EMULATED.replace("steps = 4", "steps = 100000")
# Of an outer launcher, should one run these tests.
FOREIGN = re.compile("^(OMPI_|PMIX_|SLURM_|TORCHELASTIC_|MASTER_|RANK$|WORLD_SIZE$|LOCAL_RANK$|TOMBOLO_TOKEN$)")
TOKEN = "00112233445566778899aabbccddeeff"


def clean_environment(**more):
    kept = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)}
    return dict(kept, **{name: str(value) for name, value in more.items()})


def needs(program, package):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed (package {package})")


class Launched(Case):
    """Ranks as processes that a launcher starts, or this test in its place."""

    def setUp(self):
        super().setUp()
        self.port = free_ports(2)  # torchrun takes one, its ranks meet at the next
        self.write("job.toml", FOUR_EMULATED)

    def train(self, out="run", *arguments):
        return [str(BUILD / "tombolo"), "train", "job.toml", "--out", out, *map(str, arguments)]

    def meet(self):
        return ["--rendezvous", f"127.0.0.1:{self.port}"]

    def mpirun(self, ranks, *command):
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), *command]

    def torchrun(self, ranks, *command):
        # Debian 12's torchrun, with Python 3.11, wants something to be redirected.
        return ["torchrun", "--no_python", "--nproc_per_node", str(ranks), "--master_port", str(self.port),
                "--redirects", "2", "--tee", "2", "--log_dir", str(self.folder / "logs"), *command]

    def skip_if_torchrun_is_broken(self, err):
        if "PyTorch was build without libuv support" in err:  # Debian 13
            self.skipTest("this torchrun starts nothing: its PyTorch is built without libuv")

    def start(self, command, **environment):
        process = subprocess.Popen(command, cwd=self.folder, env=clean_environment(**environment),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def start_ranks(self, ranks, size, *arguments, **environment):
        return [self.start(self.train("run", *self.meet(), *arguments), RANK=rank, WORLD_SIZE=size, **environment)
                for rank in ranks]

    def end(self, process):
        """(exit code, stdout, stderr)"""
        out, err = process.communicate(timeout=GUARD_S)
        return process.returncode, out, err

    def workers(self):
        """{rank: pid} of what works for this test's folder."""
        found = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
                here = os.readlink(entry / "cwd") == str(self.folder)
                ended = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
            except OSError:
                continue
            if here and not ended and "--rank" in words:
                found[int(words[words.index("--rank") + 1])] = int(entry.name)
        return found

    def wait(self, is_there, what):
        guard = time.monotonic() + GUARD_S
        while not is_there():
            self.assertLess(time.monotonic(), guard, what)
            time.sleep(0.02)

    def check_nothing_is_left(self, out="run"):
        self.wait(lambda: not self.workers(), "a worker was left behind")
        left = sorted(path.name for path in self.folder.glob(f"{out}/*"))
        self.assertFalse([name for name in left if "token" in name or "rank" in name or "tmp" in name], left)


@with_torch_too
class SameLosses(Launched):
    """Where there is no LibTorch nothing is computed; then the same actions with the same bytes."""

    def setUp(self):
        super().setUp()
        self.ranks = 4
        if TORCH:
            self.ranks = 2
            self.write("job.toml", tiny(2, steps=12))

    def happened(self, out):
        self.check_nothing_is_left(out)
        trace = self.folder / out / "trace.jsonl"
        losses = self.records(trace, "loss")
        if TORCH:
            self.assertEqual(len(losses), 12)
            return losses
        entries = [json.loads(line) for line in trace.read_text().splitlines()[1:]]
        return sorted(json.dumps({key: value for key, value in entry.items() if not key.endswith("_ns")},
                                 sort_keys=True) for entry in entries if "record" not in entry)

    def check_same(self, command, **environment):
        self.ok(*self.train("alone")[1:], env=clean_environment())
        code, out, err = self.end(self.start(command, **environment))
        self.skip_if_torchrun_is_broken(err)
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["steps"], 12 if TORCH else 4, "rank 0 answers, and nobody else")
        self.assertEqual(self.happened("run"), self.happened("alone"))

    @needs("mpirun", "openmpi-bin")
    def test_mpirun(self):
        self.check_same(self.mpirun(self.ranks, *self.train("run", "--json", *self.meet())))

    @needs("torchrun", "python3-torch")
    def test_torchrun(self):
        self.check_same(self.torchrun(self.ranks, *self.train("run", "--json")))

    @needs("mpirun", "openmpi-bin")
    @needs("torchrun", "python3-torch")
    def test_torchrun_inside_mpirun(self):
        self.check_same(self.mpirun(1, *self.torchrun(self.ranks, *self.train("run", "--json"))))

    def test_srun(self):
        why_not = slurm.missing()
        if why_not:
            self.skipTest(why_not)
        cluster = slurm.Slurm()
        self.addCleanup(cluster.stop)
        why_not = cluster.start()
        if why_not:
            self.skipTest(f"Slurm does not start here: {why_not}")
        self.check_same(["srun", "--overcommit", "-n", str(self.ranks), *self.train("run", "--json", *self.meet())],
                        SLURM_CONF=cluster.environment["SLURM_CONF"])
        # One task is no launcher: tombolo starts all ranks itself.
        self.check_same(["srun", "-n", "1", *self.train("run", "--json")], SLURM_CONF=cluster.environment["SLURM_CONF"])

    def test_numbers_by_hand(self):
        # One token for all, in the environment: then there is no file. In the other case an old file lies there.
        for environment in ({"TOMBOLO_TOKEN": TOKEN}, {}):
            stale = self.folder / "run" / "rendezvous-token"
            if not environment:
                stale.write_text(TOKEN)
                stale.chmod(0o600)
            processes = self.start_ranks(reversed(range(self.ranks)), self.ranks, **environment)
            ends = [self.end(process) for process in processes]
            for code, _, err in ends:
                self.assertEqual(code, 0, err)
                self.assertNotIn(TOKEN, err)
            for _, out, err in ends[:-1]:
                self.assertEqual((out, err), ("", ""), "only rank 0 speaks")
            self.check_nothing_is_left()


class Mistakes(Launched):
    def check_said_once(self, ends, words):
        said = [err for _, _, err in ends if words in err]
        self.assertEqual(len(said), 1, [err for _, _, err in ends])
        for code, _, err in ends:
            self.assertNotEqual(code, 0, err)
        self.check_nothing_is_left()

    def test_two_ranks_with_one_number(self):
        processes = self.start_ranks([0, 1, 1], 4)
        self.check_said_once([self.end(process) for process in processes], "two processes say they are rank 1 of 4")

    def test_a_missing_rank(self):
        processes = self.start_ranks([0, 1, 2], 4, "--join-timeout", 10)
        self.check_said_once([self.end(process) for process in processes],
                             "did not come within 10 s: 3 of 4 are here")

    def test_no_rank_0(self):
        process = self.start_ranks([1], 4, "--join-timeout", 1)[0]
        self.check_said_once([self.end(process)], f"the launcher did not answer at 127.0.0.1:{self.port} within 1 s")

    def test_two_runs_at_one_port(self):
        first = self.start_ranks([0], 4, "--join-timeout", 60)[0]
        token = self.folder / "run" / "rendezvous-token"
        self.wait(token.exists, "no token")
        self.assertEqual(token.stat().st_mode & 0o777, 0o600)
        before = token.read_text()
        code, _, err = self.end(self.start_ranks([0], 4)[0])
        self.assertEqual(code, 2)
        self.assertIn(f"port {self.port} on 127.0.0.1 is taken", err)
        self.assertEqual(token.read_text(), before, "the first run's token stays")
        first.send_signal(signal.SIGTERM)
        code, _, err = self.end(first)
        self.assertNotEqual(code, 0)
        self.assertIn("interrupted", err)
        self.assertNotIn(before, err)
        self.check_nothing_is_left()

    def start_apart(self, jobs, *arguments):
        """Two ranks, each with a folder and a job file of its own."""
        processes = []
        for rank, job in enumerate(jobs):
            here = self.folder / f"host-{rank}"
            here.mkdir()
            (here / "job.toml").write_text(job)
            processes.append(subprocess.Popen(self.train("run", *self.meet(), *arguments), cwd=here, stdin=subprocess.DEVNULL,
                                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                              env=clean_environment(RANK=rank, WORLD_SIZE=2, TOMBOLO_TOKEN=TOKEN)))
            self.addCleanup(lambda process=processes[-1]: process.poll() is None and process.kill())
        return processes

    def test_jobs_that_differ_between_ranks(self):
        other = TWO_EMULATED.replace("steps = 4", "steps = 9")
        ends = [self.end(process) for process in self.start_apart([TWO_EMULATED, other])]
        self.assertEqual([code for code, _, _ in ends], [2, 2], ends)
        self.assertIn("rank 1 (paris): run.steps = 9 in this rank's own job, and 4 in the launcher's", ends[0][2])
        self.assertFalse((self.folder / "host-0" / "run" / "trace.jsonl").exists())

    def test_a_launcher_chooses_no_folder_of_another_host(self):
        chosen = self.folder / "chosen"
        job = TWO_EMULATED + f'\n[checkpoint]\ndirectory = "{chosen}"\nevery = 2\n'
        ends = [self.end(process) for process in self.start_apart([job, TWO_EMULATED])]
        self.assertEqual([code for code, _, _ in ends], [2, 2], ends)
        self.assertIn(f'the launcher\'s job has [checkpoint] directory = "{chosen}", and on this host neither the job nor '
                      "--checkpoints names a folder", ends[0][2])
        self.assertFalse(list(chosen.glob("step-*/rank-1*")))

    def test_each_host_names_its_folder_of_checkpoints(self):
        jobs = [TWO_EMULATED + f'\n[checkpoint]\ndirectory = "{where}"\nevery = 2\n' for where in ("here", "there")]
        for process in self.start_apart(jobs):
            code, _, err = self.end(process)
            self.assertEqual(code, 0, err)
        self.assertEqual([len(list(self.folder.glob(f"host-{rank}/*/step-00000004/rank-{rank}.*"))) for rank in (0, 1)], [1, 1])
        self.assertTrue((self.folder / "host-1" / "there").is_dir())

    def test_another_host(self):
        process = self.start(self.train("run", "--rendezvous", "192.0.2.1:4000"), RANK=0, WORLD_SIZE=4)
        code, _, err = self.end(process)
        self.assertEqual(code, 2)
        self.assertIn("192.0.2.1 is not on this host", err)

    @needs("mpirun", "openmpi-bin")
    def test_more_ranks_than_the_plan_has(self):
        code, out, err = self.end(self.start(self.mpirun(3, *self.train())))
        self.assertNotEqual(code, 0)
        self.assertIn("Open MPI started 3 ranks, and the Plan has 4", err)
        self.assertIn("mpirun -n 4", err)
        self.assertEqual(out, "")
        self.check_nothing_is_left()

    @needs("mpirun", "openmpi-bin")
    def test_numbers_that_contradict_each_other(self):
        code, _, err = self.end(self.start(self.mpirun(4, *self.train()), RANK=0, WORLD_SIZE=4))
        self.assertNotEqual(code, 0)
        self.assertIn("RANK = 0 contradicts OMPI_COMM_WORLD_RANK = 1", err)
        self.assertIn("unset RANK WORLD_SIZE", err)
        self.wait(lambda: not self.workers(), "a worker was left behind")  # rank 0 may have been killed outright


class Trouble(Launched):
    def setUp(self):
        super().setUp()
        self.write("job.toml", LONG_RUN)

    def wait_until_it_runs(self, process):
        """All ranks are there when the token is gone again."""
        token = self.folder / "run" / "rendezvous-token"
        self.wait(lambda: (len(self.workers()) == 4 and not token.exists()) or process.poll() is not None,
                  "the ranks do not find each other")
        if process.poll() is not None:
            err = process.stderr.read()
            self.skip_if_torchrun_is_broken(err)
            self.fail(err)

    def test_a_killed_rank_is_named_and_all_end(self):
        for victim in (0, 2):
            processes = self.start_ranks(range(4), 4)
            self.wait_until_it_runs(processes[0])
            os.kill(self.workers()[victim], signal.SIGKILL)
            ends = [self.end(process) for process in processes]
            self.assertEqual(ends[0][0], 1)
            self.assertRegex(ends[0][2], rf"rank {victim} \(\w+\) was lost")
            for rank in (1, 2, 3):
                self.assertNotEqual(ends[rank][0], 0)
                self.assertEqual(ends[rank][2], "", "rank 0 says it for all")
            self.check_nothing_is_left()

    def test_a_killed_coordinator_takes_all_along(self):
        processes = self.start_ranks(range(4), 4)
        self.wait_until_it_runs(processes[0])
        processes[0].kill()
        for process in processes:
            code, _, err = self.end(process)
            self.assertNotEqual(code, 0)
        self.assertIn("the launcher went away", err)
        self.wait(lambda: not self.workers(), "a worker was left behind")

    def interrupt(self, command, number):
        """Standard error; mpirun drops what is said after its interrupt."""
        launcher = self.start(command)
        self.wait_until_it_runs(launcher)
        launcher.send_signal(number)
        code, _, err = self.end(launcher)
        self.assertNotEqual(code, 0)
        self.check_nothing_is_left()
        return err

    @needs("mpirun", "openmpi-bin")
    def test_interrupt_of_mpirun(self):
        self.interrupt(self.mpirun(4, *self.train("run", *self.meet())), signal.SIGINT)

    @needs("torchrun", "python3-torch")
    def test_end_of_torchrun(self):
        self.assertIn("interrupted after step", self.interrupt(self.torchrun(4, *self.train()), signal.SIGTERM))

    @needs("mpirun", "openmpi-bin")
    def test_a_killed_rank_of_mpirun(self):
        launcher = self.start(self.mpirun(4, *self.train("run", *self.meet())))
        self.wait_until_it_runs(launcher)
        os.kill(self.workers()[3], signal.SIGKILL)
        code, _, err = self.end(launcher)
        self.assertNotEqual(code, 0, err)
        self.check_nothing_is_left()


if __name__ == "__main__":
    unittest.main()
