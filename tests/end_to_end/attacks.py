"""Random attacks on small runs of this machine: each ends with the bits of an undisturbed run, or with one clear message.

    TOMBOLO_BUILD=build/torch python3 tests/end_to_end/attacks.py --count 500 --seed 1 --parallel 4

An attack is a run of its own, drawn from a seed that its line shows; `--seed 17 --count 1` does it again. Ranks are the launcher's
children, or processes of their own that call it through a proxy. At random instants processes are killed, or stopped for 1 to 20 s;
disks are full for a while (as root: a small file system of its own; else a limit of the size of files); connections are cut, delayed,
their bytes changed; ports get noise, and what was said there before; and files of checkpoints are truncated or changed between a
kill and a resume. What is wrong is printed with the seed: a hang, a state that differs, an end without a message or with several, a
process or a file that is left behind.
"""
import argparse
import concurrent.futures
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from ports import free_ports
from program import BUILD, TWO_EMULATED

LIMIT_S = 240  # of one run, from its last attack on
CLONE_NEWNS = 0x00020000
TOKEN = "00112233445566778899aabbccddeeff"
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("OMPI_", "PMI", "SLURM_", "TOMBOLO_TOKEN"))
               and key not in ("RANK", "WORLD_SIZE")}


class Wrong(Exception):
    """What an attack must not bring about."""


# --- Runs -----------------------------------------------------------------------------------------

def job(shape):
    """Two stages, once or twice each; about 60 ms an iteration."""
    replicas, steps, every = shape
    text = TWO_EMULATED.replace("steps = 4", f"steps = {steps}")
    if replicas == 2:
        text = text.replace("pipeline = 2", "pipeline = 2\ndata = 2")
        text = text.replace('device = "emulated:a100-80g"', 'device = "emulated:a100-80g"\ndevices_per_node = 2')
    return text + f'\n[checkpoint]\ndirectory = "checkpoints"\nevery = {every}\n'


def draw_shape(chance):
    return chance.choice([1, 2]), chance.choice([40, 80]), chance.choice([2, 5])


def state(folder):
    """What the last checkpoint holds, file by file."""
    last = sorted(folder.glob("checkpoints/step-*/manifest.json"))[-1].parent
    return last.name, {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in last.glob("*.safetensors")}


def family(root):
    """A process and all below it."""
    out, left = [], [root]
    while left:
        pid = left.pop()
        out.append(pid)
        with contextlib.suppress(OSError):
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                left += [int(word) for word in (task / "children").read_text().split()]
    return out


def name_of(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", "Z"
    return text.split("(", 1)[1].rsplit(")", 1)[0], text.rsplit(")", 1)[1].split()[0]


def is_alive(pid):
    return name_of(pid)[1] not in "ZX"


def in_own_mounts():
    """Of a child: what it mounts is seen by it and its children alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


class Proxy:
    """Between a rank and its launcher: hands on what it gets, unless it is told otherwise."""

    def __init__(self, to, chance):
        self.to, self.chance = to, chance
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        self.pairs, self.heard = [], []  # heard: the first bytes of each call
        self.held_until, self.changes = 0.0, 0
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.door.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.to), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self.lock:
                self.pairs.append((near, far))
            for source, sink, is_call in ((near, far, True), (far, near, False)):
                threading.Thread(target=self.carry, args=[source, sink, is_call], daemon=True).start()

    def carry(self, source, sink, is_call):
        first = True
        while True:
            try:
                data = source.recv(65536)
                while time.monotonic() < self.held_until:
                    time.sleep(0.02)
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                if first and is_call:
                    self.heard.append(data)
                first = False
                with self.lock:
                    if self.changes > 0:
                        self.changes -= 1
                        at = self.chance.randrange(len(data))
                        data = data[:at] + bytes([data[at] ^ (1 << self.chance.randrange(8))]) + data[at + 1:]
                sink.sendall(data)
            except OSError:
                for end in (source, sink):
                    with contextlib.suppress(OSError):
                        end.close()
                return

    def cut(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.door.close()
        self.cut()


class Run:
    """The processes of one run."""

    def __init__(self, folder, shape, chance, own_ranks, words, small_disk):
        self.folder, self.ranks, self.chance = folder, 2 * shape[0], chance
        self.own_ranks, self.small_disk = own_ranks, small_disk
        self.is_supervised = "0" not in words
        self.proxies, self.processes = [], []
        self.errors = folder / "errors"
        command = [str(BUILD / "tombolo"), "train", "job.toml", "--out", "run", "--json", *words]
        if not own_ranks:
            self.port = None
            self.start(command, {}, "0")
            return
        self.port = free_ports(2)
        for rank in range(self.ranks):
            port = self.port
            if rank > 0:
                self.proxies.append(Proxy(self.port, random.Random(chance.random())))
                port = self.proxies[-1].port
            place = {"RANK": str(rank), "WORLD_SIZE": str(self.ranks), "TOMBOLO_TOKEN": TOKEN}
            self.start(command + ["--rendezvous", f"127.0.0.1:{port}"], place, str(rank))

    def start(self, command, place, name):
        def before():
            os.setsid()
            if self.small_disk == "mount" and name == "0":
                in_own_mounts()
                os.makedirs(self.folder / "checkpoints", exist_ok=True)
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192k", "tombolo-attack", str(self.folder / "checkpoints")], check=True)
            elif self.small_disk == "limit":
                resource.setrlimit(resource.RLIMIT_FSIZE, (3000, resource.RLIM_INFINITY))
        with open(self.errors.with_suffix("." + name), "ab") as errors, open(self.folder / f"answer.{name}", "wb") as answer:
            self.processes.append(subprocess.Popen(command, cwd=self.folder, env={**ENVIRONMENT, **place}, stdin=subprocess.DEVNULL,
                                                   stdout=answer, stderr=errors, preexec_fn=before))

    def all_pids(self):
        return [pid for process in self.processes if process.poll() is None for pid in family(process.pid)]

    def workers(self):
        return [pid for pid in self.all_pids() if name_of(pid)[0] == "tombolo-worker" and is_alive(pid)]

    def launchers(self):
        """The process that leads the run, and not the one that starts it again: nobody starts that."""
        own = family(self.processes[0].pid) if self.processes[0].poll() is None else []
        others = [pid for pid in own if name_of(pid)[0] == "tombolo" and is_alive(pid)]
        return others[1:][-1:] if self.is_supervised else others

    def ports(self):
        """Where processes of this run listen."""
        inodes = set()
        for pid in self.all_pids():
            with contextlib.suppress(OSError):
                for each in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(OSError):
                        target = os.readlink(each)
                        if target.startswith("socket:["):
                            inodes.add(target[8:-1])
        out = []
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                out.append(int(fields[1].split(":")[1], 16))
        return out

    def text(self):
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("errors.*")))

    def end(self):
        for process in self.processes:
            for pid in family(process.pid) if process.poll() is None else []:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
        for proxy in self.proxies:
            proxy.close()


# --- Attacks: each takes a run and a source of chance, and says what it did ---------------------------

def kill_worker(run, chance):
    return kill(chance, run.workers(), "a worker")


def kill_launcher(run, chance):
    return kill(chance, run.launchers(), "the launcher")


def kill(chance, pids, what):
    if not pids:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(chance.choice(pids), signal.SIGKILL)
    return f"{what} is killed"


def stop(run, chance):
    pids = run.launchers() if chance.random() < 0.3 else run.workers()
    if not pids:
        return None
    pid, span = chance.choice(pids), chance.choice([1, 2, 4, 8, 20]) * chance.uniform(0.5, 1)
    what = name_of(pid)[0]
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(span)
        os.kill(pid, signal.SIGCONT)
    return f"a {what} is stopped for {span:.1f} s"


def interrupt(run, chance):
    pids = run.launchers()
    number = chance.choice([signal.SIGTERM, signal.SIGINT])
    if not pids:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(run.processes[0].pid, number)
    return f"the launcher gets {number.name}"


def noise(run, chance):
    ports = run.ports()
    if not ports:
        return None
    said = 0
    for _ in range(chance.randrange(1, 40)):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", chance.choice(ports)), timeout=2) as call:
            head = chance.choice([b"", b"TMBO", b"TMBO\x05\x00\x01\x00", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00"])
            call.sendall(head + chance.randbytes(chance.choice([0, 1, 95, 300, 5000])))
            said += 1
            if chance.random() < 0.5:
                call.settimeout(0.2)
                call.recv(4096)
    return f"{said} calls of noise"


def cut(run, chance):
    if not run.proxies:
        return None
    proxy = chance.choice(run.proxies)
    for _ in range(times := chance.randrange(1, 4)):
        proxy.cut()
        time.sleep(chance.uniform(0, 0.5))
    return f"a rank's connection to the launcher is cut {times} times"


def hold(run, chance):
    if not run.proxies:
        return None
    span = chance.uniform(0.2, 10)
    chance.choice(run.proxies).held_until = time.monotonic() + span
    return f"a rank's connection to the launcher carries nothing for {span:.1f} s"


def change_bytes(run, chance):
    if not run.proxies:
        return None
    proxy = chance.choice(run.proxies)
    proxy.changes += (count := chance.randrange(1, 4))
    return f"{count} bits change on the way"


def replay(run, chance):
    """What a rank said first, again, from a process that is none."""
    heard = [data for proxy in run.proxies for data in proxy.heard]
    if not heard:
        return None
    for _ in range(times := chance.randrange(1, 6)):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", run.port), timeout=2) as call:
            call.sendall(chance.choice(heard))
            call.settimeout(0.3)
            call.recv(4096)
    return f"{times} calls say again what a rank said"


def fill_disk(run, chance):
    """The file system of checkpoints, as the launcher and its workers see it."""
    if run.small_disk != "mount" or run.processes[0].poll() is not None:
        return None
    path = pathlib.Path(f"/proc/{run.processes[0].pid}/root{run.folder}/checkpoints/filler")
    span = chance.uniform(0.1, 4)
    try:
        with open(path, "wb", buffering=0) as filler:
            while filler.write(bytes(4096)) == 4096:
                pass
    except OSError:
        pass
    time.sleep(span)
    with contextlib.suppress(OSError):
        path.unlink()
    return f"the disk is full for {span:.1f} s"


def damage_checkpoint(run, chance):
    """Everything is killed, something of the newest checkpoint is damaged, and a person resumes."""
    run.end()
    steps = sorted(run.folder.glob("checkpoints/step-*/manifest.json"))
    if not steps:
        return "all are killed"
    path = chance.choice(sorted(steps[-1].parent.iterdir()))
    data = path.read_bytes()
    how = chance.choice(["truncated", "changed", "gone", "empty"])
    if how == "truncated":
        path.write_bytes(data[:chance.randrange(len(data))])
    elif how == "changed" and data:
        at = chance.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1:])
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(b"")
    return f"all are killed, and {path.parent.name}/{path.name} is {how}"


ON_CHILDREN = [kill_worker, kill_launcher, stop, interrupt, noise, fill_disk, damage_checkpoint]
ON_OWN_RANKS = [kill_worker, kill_launcher, stop, noise, cut, hold, change_bytes, replay]


# --- One of them, and its outcome --------------------------------------------------------------------

def undisturbed(shape, known={}, lock=threading.Lock()):
    with lock:
        if shape not in known:
            with tempfile.TemporaryDirectory(prefix="tombolo-attack-") as name:
                folder = pathlib.Path(name)
                (folder / "job.toml").write_text(job(shape))
                subprocess.run([BUILD / "tombolo", "train", "job.toml", "--out", "run"], cwd=folder, check=True, capture_output=True,
                               env=ENVIRONMENT)
                known[shape] = state(folder)
        return known[shape]


def wait_until(holds, limit_s):
    guard = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > guard:
            return False
        time.sleep(0.02)
    return True


def await_end(run):
    if not wait_until(lambda: all(process.poll() is not None for process in run.processes), LIMIT_S):
        raise Wrong(f"it still goes on after {LIMIT_S} s: " + ", ".join(name_of(pid)[0] for pid in run.all_pids()))
    return [process.returncode for process in run.processes]


def check_message(run, code, text):
    """An end before the last step: one message, the last one, which names no bug."""
    for word in ("terminate called", "CHECK", "Assertion", "AddressSanitizer", "std::", "core dumped"):
        if word in text:
            raise Wrong(f"the messages have \"{word}\"")
    if code not in (1, 2, 130, 143):
        raise Wrong(f"exit code {code}")
    lines = run.errors.with_suffix(".0").read_text(errors="replace").splitlines()
    last = [line for line in lines if not line.startswith("  ")][-1:]  # while ..., try ... stand below it
    if not last or last[0].startswith(("step ", "predicted ", "metrics: ", "waiting ", "connection ", "refused ")):
        raise Wrong(f"no message says how it ended; the last line is {last}")
    if lines.count(last[0]) > 1:
        raise Wrong(f"how it ended is said {lines.count(last[0])} times")


def attack(seed):
    """What was done and how it ended, and what is wrong with that."""
    chance = random.Random(seed)
    shape = draw_shape(chance)
    own_ranks = chance.random() < 0.5
    restarts = 0 if not own_ranks and chance.random() < 0.2 else 20
    can_mount = os.geteuid() == 0
    small_disk = chance.choice(["", "mount" if can_mount else "limit", ""]) if not own_ranks else ""
    words = ["--restarts", str(restarts), "--grace", "6s", "--join-timeout", "5"]  # so that none waits for long in vain
    if restarts == 0:
        words = words[:2]
    whole = undisturbed(shape)
    did = []
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tombolo-attack-"))
    run = None
    try:
        (folder / "job.toml").write_text(job(shape))
        run = Run(folder, shape, chance, own_ranks, words, small_disk)
        wait_until(lambda: len(run.workers()) >= run.ranks or run.processes[0].poll() is not None, 60)
        for _ in range(chance.randrange(1, 4)):
            time.sleep(chance.uniform(0, 1.5))
            if run.processes[0].poll() is not None:
                break
            done = chance.choice(ON_OWN_RANKS if own_ranks else ON_CHILDREN)(run, chance)
            did += [done] if done else []
            if done and done.startswith("all are killed"):
                run = Run(folder, shape, chance, own_ranks, [*words, "--resume"] if
                          list(folder.glob("checkpoints/step-*/manifest.json")) else words, "")
        codes = await_end(run)
        text = run.text()
        if not wait_until(lambda: not leftovers(folder), 10):
            raise Wrong("processes are left behind: " + ", ".join(leftovers(folder)))
        if codes[0] == 0:
            is_damaged_later = "all steps are done" in text and "killed, and" in " ".join(did)
            if small_disk != "mount" and not is_damaged_later and state(folder) != whole:
                raise Wrong(f"the last state differs: {state(folder)} instead of {whole}")
            answer = json.loads((folder / "answer.0").read_text())
            if answer["steps"] != shape[1]:
                raise Wrong(f"{answer['steps']} steps")
            # Killed behind the last step, it comes again, and calls a launcher that is over for as long as one may take to come.
            is_late = "the launcher did not answer" in text
            if any(codes[1:]) and not is_late:
                raise Wrong(f"exit codes {codes}")
            left = [path.name for path in (folder / "run").iterdir()
                    if path.name in ("kept", "journal") or "rank" in path.name or "tmp" in path.name]
            if left:
                raise Wrong(f"files are left behind: {left}")
            end = "the same bits"
        else:
            # The second of two signals ends a launcher at once, without a word (stop_signals.h).
            is_asked_twice = sum("gets SIG" in each for each in did) > 1 and codes[0] in (-signal.SIGINT, -signal.SIGTERM)
            if not is_asked_twice and (restarts > 0 or "the launcher is killed" not in did):  # nobody starts it again, or says that it was killed
                check_message(run, codes[0], text)
            # Before the first step, or the first checkpoint, a person starts it again.
            is_early = "there was no checkpoint to resume from yet" in text or "did not come within" in text
            if restarts > 0 and not is_early and not any(word in " ".join(did) for word in ("SIG", "disk", "killed, and")):
                raise Wrong(f"it did not continue: exit codes {codes}")
            end = f"exit code {codes[0]}"
        return shape, did, end, None
    except Wrong as wrong:
        return shape, did, "WRONG", f"{wrong}\n{run.text()[-3000:]}"
    except Exception:  # pylint: disable=broad-except
        return shape, did, "WRONG", traceback.format_exc() + (run.text()[-3000:] if run else "")
    finally:
        if run:
            run.end()
        shutil.rmtree(folder, ignore_errors=True)


def leftovers(folder):
    out = []
    for each in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(each / "cwd") == str(folder) and is_alive(int(each.name)):
                out.append(f"{name_of(each.name)[0]} ({each.name})")
    return out


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--count", type=int, default=5)
    words.add_argument("--seed", type=int, default=1, help="of the first one; the others follow")
    words.add_argument("--parallel", type=int, default=1)
    options = words.parse_args()
    ends, wrong = {}, []
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        seeds = range(options.seed, options.seed + options.count)
        for seed, (shape, did, end, why) in zip(seeds, pool.map(attack, seeds)):
            ends[end] = ends.get(end, 0) + 1
            wrong += [seed] if why else []
            print(f"seed {seed}: {2 * shape[0]} ranks; {'; '.join(did) or 'nothing'}: {end}{': ' + why if why else ''}", flush=True)
    print(", ".join(f"{count} with {end}" for end, count in sorted(ends.items())) + f"; wrong: {wrong or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
