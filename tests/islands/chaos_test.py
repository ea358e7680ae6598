"""Random faults, one after the other and on top of each other: every update is made once, and it is known what each kind costs.

A round is a run of its own, with faults drawn from a seed that it prints; `chaos_test.py --minutes 30 --seed 7` goes on
for as long, each round with the next seed. CI has one round. What a fault costs is how much later than without it the
second step after it is done, or the first one after its end where it lasts; what it lasts is part of that.
"""
import collections
import contextlib
import os
import random
import re
import signal
import statistics
import sys
import threading
import time
import unittest
import urllib.request

from disturbed import EMULATED_KERNELS, LIBC, REAL, REAL_KERNELS, Disturbed
from emulator import GUARD_S, LONG


def argument(name, otherwise):
    return float(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else otherwise


MINUTES = argument("--minutes", 10 if LONG else 0)
SEED = int(argument("--seed", time.time_ns() % 1_000_000 if LONG else 1))
METRICS = "127.0.0.1:9109"  # on the launcher's host
LONG_S = 30  # then what was said meanwhile is of interest
NETWORK_NAMESPACE = 0x40000000
JOB = """
[model]
layers = 4
hidden = 64
heads = 4
vocabulary = 256
sequence = 128

[[cluster.datacenter]]
name = "oregon"
device = "{device}"
nodes = {nodes}
[[cluster.datacenter]]
name = "paris"
device = "{device}"
nodes = {nodes}
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "10 ms"
node_pair_limit = "50 Mbps"
connections = 4

[training]
global_batch = 16
micro_batch = 2
precision = "fp32"

[parallelism]
pipeline = {nodes}
data = 2
schedule = "1f1b"

[run]
steps = {steps}

[checkpoint]
directory = "checkpoints"
every = 10
{kernels}
"""


class Watch:
    """When each step was done, by the launcher's metrics. Launchers come and go; a step counts once."""

    def __init__(self, host):
        self.done, self.over = [(time.monotonic(), 0)], False
        self.thread = threading.Thread(target=self.look, args=[host], daemon=True)
        self.thread.start()

    def look(self, host):
        # This thread alone enters the host.
        if LIBC.setns(host.file.fileno(), NETWORK_NAMESPACE) != 0:
            raise OSError("cannot enter the launcher's host")
        while not self.over:
            with contextlib.suppress(OSError):
                page = urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=1).read().decode()
                found = re.search(r"^tombolo_steps_done ([0-9.e+]+)$", page, re.MULTILINE)
                if found and float(found.group(1)) > self.step():
                    self.done.append((time.monotonic(), int(float(found.group(1)))))
            time.sleep(0.03)

    def step(self):
        return self.done[-1][1]

    def iteration(self, last):
        """Seconds per step of the last few."""
        (begin, first), (end, newest) = self.done[-min(last, len(self.done))], self.done[-1]
        return (end - begin) / max(newest - first, 1)

    def since(self, begun, ended):
        """The step before a fault, and the one by which it is over; nothing while there is none."""
        before = max((at, step) for at, step in self.done if at <= begun)
        after = [(at, step) for at, step in self.done if at >= ended and step >= before[1] + 2]
        return (before, after[0]) if after else None

    def end(self):
        self.over = True
        self.thread.join(GUARD_S)


class Chaos(Disturbed):
    """The faults. Each lasts as long as its method, which returns what it disturbed."""

    def alive(self, found):
        self.assertTrue(found, "there is nobody to disturb")
        return found

    def kill_a_worker(self):
        rank = self.chance.choice(sorted(self.alive(self.workers())))
        os.kill(self.workers()[rank], signal.SIGKILL)
        return f"rank {rank}"

    def kill_the_launcher(self):
        os.kill(self.alive(self.launcher()), signal.SIGKILL)
        return "the launcher"

    def stop_a_worker(self):
        rank = self.chance.choice(sorted(self.alive(self.workers())))
        pid = self.workers()[rank]
        os.kill(pid, signal.SIGSTOP)
        self.hold()
        os.kill(pid, signal.SIGCONT)
        return f"rank {rank}"

    def across(self):
        """Two neighbours with the WAN between them, in any order."""
        half = len(self.hosts) // 2
        replica = self.chance.choice([0, 1])
        pair = [half - 2 + replica, half + replica]
        self.chance.shuffle(pair)
        return pair

    def reset_one(self):
        rank, peer = self.across()
        self.hosts[rank].reset(self.chance.choice(self.alive(self.connections(rank, peer))))
        return f"ranks {rank} and {peer}"

    def reset_all(self):
        rank, peer = self.across()
        for connection in self.alive(self.connections(rank, peer)):
            self.hosts[rank].reset(connection)
        return f"ranks {rank} and {peer}"

    def reset_control(self):
        rank = self.chance.choice(sorted(self.hosts))
        for connection in self.alive(self.connections(rank)):
            self.hosts[rank].reset(connection)
        return f"rank {rank}"

    def cut_the_wan(self):
        with self.cut(self.islands):
            self.hold()
        return "the WAN"

    def cut_a_pair(self):
        rank, peer = self.across()
        with self.cut_between(rank, peer):
            self.hold()
        return f"ranks {rank} and {peer}"

    KINDS = {"kill -9 of a worker": kill_a_worker, "kill -9 of the launcher": kill_the_launcher,
             "SIGSTOP of a worker": stop_a_worker, "reset of one connection of four": reset_one,
             "reset of all four": reset_all, "reset of a rank's connection to the launcher": reset_control,
             "the WAN cut": cut_the_wan, "the path between two ranks cut": cut_a_pair}
    TWO = "two of these within a second"

    def hold(self):
        time.sleep(self.chance.uniform(1, 12 if MINUTES else 3))

    def strike(self, kind):
        """(when it began, when it ended); nothing where nobody was there to be disturbed any more."""
        begun = time.monotonic()
        try:
            whom = self.KINDS[kind](self)
        except (OSError, AssertionError):
            return None
        ended = time.monotonic()
        print(f"  step {self.watch.step()}: {kind}, {whom}, for {ended - begun:.1f} s", flush=True)
        return begun, ended

    def wait_for_the_end_of(self, begun, ended):
        self.wait(lambda: self.islands.poll() is not None or self.watch.since(begun, ended), "the run does not go on")
        return self.watch.since(begun, ended)

    def round(self, job, kinds, costs):
        """A run with these faults. Adds (seconds that it lasted, seconds that it cost) to the costs of each kind."""
        self.islands = self.start(job, "--metrics", METRICS)
        self.watch = Watch(self.hosts[0])
        self.addCleanup(self.watch.end)
        self.wait(lambda: len(self.watch.done) > 8 or self.islands.poll() is not None, "no steps are done")
        usual = self.watch.iteration(6)
        struck = 0
        for kind in kinds:
            time.sleep(self.chance.uniform(0, 2 * usual))
            told = len(self.said())
            if self.islands.poll() is not None:
                break
            held = self.strike(kind)
            if not held:
                continue
            if self.chance.random() < 0.2:
                time.sleep(self.chance.random())
                second = self.strike(self.chance.choice(list(self.KINDS)))
                kind, held = (self.TWO, (held[0], second[1])) if second else (kind, held)
            struck += 1
            found = self.wait_for_the_end_of(*held)
            if found:
                (before, first), (after, last) = found
                costs[kind].append((held[1] - held[0], max(after - before - (last - first) * usual, 0)))
                if costs[kind][-1][1] > LONG_S:
                    print(f"that cost {costs[kind][-1][1]:.0f} s:\n{self.said()[told:]}", flush=True)
        answer, said = self.finish(self.islands)
        self.watch.end()
        return struck, answer, said

    def storm(self, ranks, steps, device, kernels):
        job = JOB.format(nodes=ranks // 2, device=device, steps=steps, kernels=kernels)
        whole = job.replace("10 ms", "0 ms").replace('"4 ms"', '"1 us"').replace('"8 ms"', '"1 us"')
        costs, rounds, struck = collections.defaultdict(list), 0, 0
        end = time.monotonic() + 60 * MINUTES
        with self.undisturbed(whole):
            pass
        while rounds == 0 or time.monotonic() < end:
            print(f"seed {SEED + rounds}", flush=True)
            self.chance = random.Random(SEED + rounds)
            kinds = list(self.KINDS) * (2 if MINUTES else 1)
            self.chance.shuffle(kinds)
            with self.subTest(seed=SEED + rounds):
                faults, answer, said = self.round(job, kinds, costs)
                self.assertEqual(answer["steps"], steps, said)
                self.check_same_where_known(steps)
                struck += faults
            self.clear()
            rounds += 1
        self.tell(ranks, rounds, struck, costs)
        self.assertGreaterEqual(struck, 4 * rounds, "the runs were over too soon")

    def check_same_where_known(self, steps):
        """A launcher that is killed takes the losses of its steps along; all others are there."""
        whole, ours = self.losses(self.folder / "whole"), self.losses(self.folder)
        self.assertEqual(ours, {step: whole[step] for step in ours})
        self.assertEqual(steps in ours, steps in whole)
        self.assertEqual(self.last_state(self.folder), self.last_state(self.folder / "whole"), self.said())

    def clear(self):
        for name in ("run", "checkpoints"):
            for path in sorted((self.folder / name).rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()

    def tell(self, ranks, rounds, struck, costs):
        print(f"{ranks} ranks, {rounds} rounds, {struck} faults; seconds: lasted (median), cost (median, worst)")
        for kind in [*self.KINDS, self.TWO]:
            if costs[kind]:
                lasted, cost = zip(*costs[kind])
                print(f"| {kind} | {len(cost)} | {statistics.median(lasted):.1f} | {statistics.median(cost):.1f} "
                      f"| {max(cost):.1f} |")

    def test_eight_emulated_ranks(self):
        self.storm(8, 120 if MINUTES else 70, "emulated:a100-80g", EMULATED_KERNELS)

    @unittest.skipUnless(REAL and MINUTES, "eight ranks that compute take minutes; --long, with LibTorch")
    def test_four_ranks_that_compute(self):
        self.storm(4, 60, "cpu", REAL_KERNELS)


if __name__ == "__main__":
    for name in ("--minutes", "--seed"):
        if name in sys.argv:
            at = sys.argv.index(name)
            del sys.argv[at:at + 2]
    unittest.main()
