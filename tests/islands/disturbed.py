"""Runs on emulated islands that a test disturbs: it finds their processes and connections, and compares how they end.

Whoever is disturbed and whoever is not do the same work, so they end with the same losses and the same last checkpoint,
bit by bit. With LibTorch the devices compute; without it they are emulated, there is no loss, and the checkpoint says
how many updates each layer has seen.
"""
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from emulator import BUILD, GUARD_S, PROGRAM, ROOT, Case
from ranks_test import ENVIRONMENT

LIBC = ctypes.CDLL(None)
DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
REAL = os.environ.get("TOMBOLO_TORCH", "0") == "1"
REAL_KERNELS = f"""
[data]
text = "{ROOT / 'LICENSE'}"
"""
EMULATED_KERNELS = """
[stage_times]
forward = "4 ms"
backward = "8 ms"
"""
# A message of 64 KiB occupies the WAN for a quarter of each iteration's passes, so that whatever cuts it hits one.
THREE_RANKS = """
[model]
layers = 3
hidden = 64
heads = 4
vocabulary = 256
sequence = 128

[[cluster.datacenter]]
name = "oregon"
device = "{device}"
nodes = 2
[[cluster.datacenter]]
name = "paris"
device = "{device}"
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "10 ms"
node_pair_limit = "20 Mbps"
connections = 4

[training]
global_batch = 8
micro_batch = 2
precision = "fp32"

[parallelism]
pipeline = 3
schedule = "1f1b"

[run]
steps = {steps}

[checkpoint]
directory = "checkpoints"
every = 10
{kernels}
"""


# Four groups of gradients in each of two datacenters, 6.8 MB together, which take 0.3 s: the next iteration begins meanwhile.
TWO_LABS = """
[model]
layers = 4
hidden = 192
heads = 4
ffn = 512
vocabulary = 256
sequence = 16

[[cluster.datacenter]]
name = "oregon"
device = "{device}"
[[cluster.datacenter]]
name = "paris"
device = "{device}"
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "10 ms"
node_pair_limit = "200 Mbps"
connections = 4

[training]
global_batch = 4
micro_batch = 2
precision = "fp32"

[parallelism]
pipeline = 1
data = 2
datacenter_per_replica = ["oregon", "paris"]

[run]
steps = {steps}
compare_replicas_every = {compare_every}

[checkpoint]
directory = "checkpoints"
every = 10
{kernels}
"""


def two_labs(steps, compare_every=10):
    """A replica in each of two datacenters: nothing but gradients goes across, over four connections."""
    return TWO_LABS.format(steps=steps, device="cpu" if REAL else "emulated:a100-80g", compare_every=compare_every,
                           kernels=REAL_KERNELS if REAL else EMULATED_KERNELS)


def three_ranks(steps):
    """Two in oregon, the launcher's host first, and one in paris; four connections across."""
    return THREE_RANKS.format(steps=steps, device="cpu" if REAL else "emulated:a100-80g",
                              kernels=REAL_KERNELS if REAL else EMULATED_KERNELS)


def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


class Host:
    """Where a process works; it can be entered as long as the test holds it, whoever of its processes is gone."""

    def __init__(self, pid):
        self.file = open(f"/proc/{pid}/ns/net")
        shown = self.run("ip", "-4", "-o", "address", "show", "scope", "global")
        self.address = re.search(r"inet ([0-9.]+)/", shown).group(1)

    def run(self, *command):
        """The output of a command there, which must succeed."""
        place = f"/proc/{os.getpid()}/fd/{self.file.fileno()}"
        done = subprocess.run(["nsenter", f"--net={place}", *map(str, command)], capture_output=True, text=True,
                              timeout=GUARD_S, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise OSError(f"{command}: {done.stderr.strip()}")
        return done.stdout

    def sockets(self, pid):
        """The (local, remote) ends of a process' TCP connections."""
        lines = self.run("ss", "-Htnp", "state", "established").splitlines()
        return [tuple(line.split()[2:4]) for line in lines if f"pid={pid}," in line]

    def reset(self, connection):
        """The kernel drops this end of a connection at once, and resets the other."""
        self.run("ss", "-K", "-tn", "src", connection[0], "dst", connection[1])


class Disturbed(Case):
    def ours(self):
        """{process: the words of its command line} of all that work in this test's folder."""
        found = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "cwd") == str(self.folder):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
        return found

    def workers(self):
        """{rank: process}"""
        return {int(words[words.index("--rank") + 1]): pid for pid, words in self.ours().items() if "--rank" in words}

    def launcher(self):
        """The process that the supervisor started, which is the command that islands started; nothing between two."""
        trains = {pid for pid, words in self.ours().items() if words[0].endswith("/tombolo") and "train" in words}
        with contextlib.suppress(OSError):
            for pid in trains:
                if parent(pid) in trains:
                    return pid
        return None

    def said(self):
        return (self.folder / "errors").read_text()

    def wait(self, is_there, what):
        guard = time.monotonic() + GUARD_S
        while not is_there():
            self.assertLess(time.monotonic(), guard, f"{what}\n{self.said()}")
            time.sleep(0.02)

    def start(self, job, *words):
        """A run that has written its first checkpoint."""
        path = self.write(job, "job.toml")
        with open(self.folder / "errors", "w") as errors:
            islands = subprocess.Popen([PROGRAM, "run", path, "--", BUILD / "tombolo", "train", path, "--out",
                                        self.folder / "run", "--json", *words],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                                       cwd=self.folder, env=ENVIRONMENT,
                                       # Stopped in our own session it could have us hung up on, and it would outlive us.
                                       start_new_session=True,
                                       preexec_fn=lambda: LIBC.prctl(DEATH_SIGNAL, signal.SIGKILL))
        self.addCleanup(lambda: islands.poll() is None and islands.kill())
        self.wait(lambda: islands.poll() is not None or list(self.folder.glob("checkpoints/step-*/manifest.json")),
                  "no checkpoint")
        self.assertIsNone(islands.poll(), self.said())
        self.hosts = {rank: Host(pid) for rank, pid in self.workers().items()}
        for host in self.hosts.values():
            self.addCleanup(host.file.close)
        return islands

    def finish(self, islands):
        """What it answered, and what it said to people."""
        try:
            answer, _ = islands.communicate(timeout=GUARD_S)
        except subprocess.TimeoutExpired:
            self.fail(f"the run does not end\n{self.said()}")
        self.assertEqual(islands.returncode, 0, self.said())
        return json.loads(answer), self.said()

    @contextlib.contextmanager
    def undisturbed(self, job):
        """Another run of the same job beside what follows, on this host alone."""
        folder = self.folder / "whole"
        folder.mkdir()
        (folder / "job.toml").write_text(job)
        with open(folder / "errors", "w") as errors:
            whole = subprocess.Popen([BUILD / "tombolo", "train", "job.toml", "--out", "run"], cwd=folder, env=ENVIRONMENT,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors)
        self.whole = whole
        try:
            yield
            self.assertEqual(whole.wait(GUARD_S), 0, (folder / "errors").read_text())
        finally:
            whole.kill()
            whole.wait()

    def losses(self, folder):
        """{iteration: loss}"""
        entries = map(json.loads, (folder / "run" / "trace.jsonl").read_text().splitlines())
        return {entry["iteration"]: entry["value"] for entry in entries if entry.get("record") == "loss"}

    def last_state(self, folder):
        """The last checkpoint's name, and what each of its files holds."""
        last = max(folder.glob("checkpoints/step-*/manifest.json")).parent
        return last.name, {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in last.glob("*.safetensors")}

    def check_same(self, steps):
        """As the undisturbed run: losses of all steps, and the last state."""
        self.whole.wait(GUARD_S)  # it may be the slower one
        whole = self.losses(self.folder / "whole")
        self.assertEqual(len(whole), steps if REAL else 0)
        self.assertEqual(self.losses(self.folder), whole)
        self.assertEqual(self.last_state(self.folder), self.last_state(self.folder / "whole"))

    @contextlib.contextmanager
    def cut(self, islands):
        """The emulator forwards nothing: a cut that says nothing to anybody."""
        children = pathlib.Path(f"/proc/{islands.pid}/task/{islands.pid}/children").read_text().split()
        emulator = [islands.pid, *map(int, children)]
        for pid in emulator:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in emulator:
                os.kill(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def cut_between(self, one, other):
        """The hosts of two ranks drop what comes from each other; everybody else reaches both."""
        rules = []
        for here, there in [(one, other), (other, one)]:
            host = self.hosts[here]
            # The table of this host's own addresses comes first, so that a rule can come before it.
            if not host.run("ip", "rule", "show", "pref", "10"):
                host.run("ip", "rule", "add", "pref", "10", "lookup", "local")
                host.run("ip", "rule", "del", "pref", "0")
            rules.append((host, ["pref", "5", "from", self.hosts[there].address, "blackhole"]))
        try:
            for host, rule in rules:
                host.run("ip", "rule", "add", *rule)
            yield
        finally:
            for host, rule in rules:
                host.run("ip", "rule", "del", *rule)

    def connections(self, rank, peer=None):
        """The (local, remote) ends, as this rank has them, of its TCP connections to the other one, or to the launcher."""
        mine, theirs = self.workers().get(rank), self.launcher() if peer is None else self.workers().get(peer)
        there = {local for local, _ in self.hosts[peer or 0].sockets(theirs)}
        return [(local, remote) for local, remote in self.hosts[rank].sockets(mine) if remote in there]

    def reset(self, rank, connection):
        self.hosts[rank].reset(connection)
        if connection in self.hosts[rank].sockets(self.workers().get(rank)):
            self.skipTest("this kernel ends no connection for ss -K (CONFIG_INET_DIAG_DESTROY)")
