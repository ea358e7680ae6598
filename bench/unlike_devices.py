#!/usr/bin/env python3
"""Two labs of unlike speed: the batch divided by speed beside equal parts of it, trained on CPUs and on emulated devices.

    bench/unlike_devices.py [--build build/release] [--cores 1,0.333] [--data FILE] [--speeds profile|roofline] [--rounds 3]

A, on CPUs: two ranks train a decoder of 3.3 million parameters on bytes of a text (LICENSE), eight microbatches an iteration.
Each is a process of `tombolo train` with RANK; a cgroup holds rank 1 to a third of a core. What the planner knows of them was
measured inside their cgroups by `tombolo profile`, each lab a job of its own, and put into one hardware file; with --speeds
roofline by `tombolo roofline`, a device file each. Four microbatches each and "auto" take turns. An iteration is the median
from start to start after the second one, a ratio the median over pairs of runs. Wanted: at most 0.62 of the time with equal
parts (speeds of 3 to 1 leave 0.50), losses within 1e-4 at every step, and after one step of SGD a gradient within 1e-6 of
that of the whole batch in a single process, as the norm of their difference over its norm.

B, emulated: three devices and one 2.02 times slower, 28 microbatches, seven each and "auto" in turns. Wanted: 1.7 times
shorter, where 8, 8, 8 and 4 leave 1.75.

--cores 0.6,0.2 holds both ranks, and --weight 16 lets them go before other processes: for a machine that is busy. Three
minutes. Exit code 1 where something wanted is missed, 77 where no cgroup can be made.
"""
import argparse
import array
import json
import math
import os
import pathlib
import re
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import ddp_beside
from thin_lines_error import tombolo

SKIPPED = ddp_beside.SKIPPED
RATIO_MAX = 0.62
LOSS_MAX = 1e-4
GRADIENT_MAX = 1e-6
PERIOD_MIN = 1.7
CFS_PERIOD_US = 10_000  # shorter than a microbatch, so that each is slowed down as much as all of them
LABS = ["fast", "slow"]
STEP = 2.0 ** 20  # a learning rate that leaves nothing of the first weights: after one step they are the gradient

MODEL = """
[model]
layers = 4
hidden = 256
heads = 8
ffn = 704
vocabulary = 256
sequence = 256
[data]
text = "{text}"
evaluation_fraction = 0
"""

LAB = """[[cluster.datacenter]]
name = "{name}"
device = {device}
"""

# Replaced by what profile measures.
UNKNOWN = '{{ name = "core of {name}", kind = "cpu", peak = "100 GFLOPS", memory = "4 GiB", memory_bandwidth = "20 GBps" }}'

ACROSS = """
[[cluster.wan]]
between = ["fast", "slow"]
one_way_latency = "1 ms"
node_pair_limit = "10 Gbps"
"""

TRAINING = """
[training]
global_batch = {batch}
micro_batch = 1
precision = "fp32"
[run]
steps = {steps}
"""

ALONE = """
[parallelism]
pipeline = 1
"""

APART = """
[parallelism]
pipeline = 1
data = 2
datacenter_per_replica = ["fast", "slow"]
microbatches_per_replica = {shares}
"""

ONE_STEP = """
[optimizer]
name = "sgd"
momentum = 0
weight_decay = 0
learning_rate = {rate}
learning_rate_min = {rate}
warmup_steps = 0
rule = "constant"
[checkpoint]
directory = "{folder}"
every = 1
"""

EMULATED = """
[model]
layers = 4
hidden = 2048
heads = 16
vocabulary = 1024
sequence = 1024
[training]
global_batch = 112
micro_batch = 4
precision = "bf16"
[parallelism]
tensor = 1
pipeline = 1
data = 4
datacenter_per_replica = ["fast", "fast", "fast", "slow"]
microbatches_per_replica = {shares}
[[cluster.datacenter]]
name = "fast"
device = {{ name = "fast", kind = "emulated", peak = "100 TFLOPS", memory = "40 GB", memory_bandwidth = "1000 GBps" }}
nodes = 3
devices_per_node = 1
scale_out = {{ bandwidth = "200 Gbps", latency = "5 us" }}
[[cluster.datacenter]]
name = "slow"
device = {{ name = "slow", kind = "emulated", peak = "47.35 TFLOPS", memory = "40 GB", memory_bandwidth = "1000 GBps" }}
devices_per_node = 1
scale_out = {{ bandwidth = "200 Gbps", latency = "5 us" }}
[[cluster.wan]]
between = ["fast", "slow"]
one_way_latency = "1 ms"
node_pair_limit = "100 Gbps"
[run]
steps = {steps}
byte_scale = 1000
"""


class Groups:
    """A cgroup for each lab, version 1 or 2, with a share of a core; gone at the end."""

    def __init__(self, cores, weight):
        self.made = []
        refused = []
        for version, parent in self.parents():
            try:
                for lab, share in zip(LABS, cores):
                    self.make(version, parent / f"tombolo-{os.getpid()}-{lab}", share, weight)
                self.version = version
                return
            except OSError as error:
                refused.append(f"{parent}: {error.strerror}")
                self.remove()
        print(f"skipped: no cgroup that holds a rank to a part of a core can be made here ({'; '.join(refused) or 'no controller cpu'}); "
              "run this as root, or by systemd-run with -p Delegate=cpu", file=sys.stderr)
        sys.exit(SKIPPED)

    @staticmethod
    def parents():
        """Where one may be made: below the own one, else at the top."""
        own = {}
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            own.update({name: path for name in controllers.split(",")})
        for line in pathlib.Path("/proc/mounts").read_text().splitlines():
            _, place, kind, options, *_ = line.split()
            if kind == "cgroup" and "cpu" in options.split(","):
                version, path = 1, own.get("cpu", "/")
            elif kind == "cgroup2" and "cpu" in (pathlib.Path(place) / "cgroup.controllers").read_text().split():
                version, path = 2, own.get("", "/")
            else:
                continue
            for parent in dict.fromkeys([pathlib.Path(place + path), pathlib.Path(place)]):
                yield version, parent

    def make(self, version, group, share, weight):
        quota = int(share * CFS_PERIOD_US) if share < 1 else None
        if version == 2:
            (group.parent / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        self.made.append(group)
        if version == 2:
            (group / "cpu.max").write_text(f"{quota or 'max'} {CFS_PERIOD_US}")
            (group / "cpu.weight").write_text(str(100 * weight))
        else:
            (group / "cpu.cfs_period_us").write_text(str(CFS_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota or -1))
            (group / "cpu.shares").write_text(str(1024 * weight))

    def start(self, lab, *command, **options):
        """A process that is in this lab's group before it begins."""
        enter = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', self.made[lab] / "cgroup.procs"]
        return subprocess.Popen([*map(str, [*enter, *command])], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **options)

    def remove(self):
        for group in self.made:
            for _ in range(50):
                try:
                    group.rmdir()
                    break
                except OSError:  # a process that has ended is still in it for a moment
                    time.sleep(0.1)
        self.made = []


def finish(processes):
    """What each printed. If one fails, none of the others is left waiting for it."""
    try:
        said = [process.communicate(timeout=600) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, said):
        if process.returncode != 0:
            sys.exit(f"{' '.join(process.args[4:])}\n{errors}")
    return [answer for answer, _ in said]


class Training:
    """On CPUs: the jobs, what is known of the two labs, and what ran."""

    def __init__(self, build, folder, groups, arguments):
        self.build, self.folder, self.groups, self.arguments = build, folder, groups, arguments
        self.text = (arguments.data or ddp_beside.ROOT / "LICENSE").resolve()
        self.devices = [UNKNOWN.format(name=lab) for lab in LABS]
        self.hardware = []
        self.told = []  # of each lab, seconds per microbatch

    def job(self, name, places, parallelism, steps, extra=""):
        path = self.folder / f"{name}.toml"
        labs = "".join(LAB.format(name=LABS[lab], device=self.devices[lab]) for lab in places)
        path.write_text(MODEL.format(text=self.text) + labs + (ACROSS if len(places) > 1 else "") + parallelism +
                        TRAINING.format(batch=self.arguments.microbatches, steps=steps) + extra)
        return path

    def in_both(self, command):
        return finish([self.groups.start(lab, self.build / "tombolo", *command(lab)) for lab in range(len(LABS))])

    def profile(self):
        """Each lab measures the job as if it were alone, with its own device, and somebody puts the stages into one file."""
        jobs = [self.job(lab, [i], ALONE, 1) for i, lab in enumerate(LABS)]
        files = [self.folder / f"{lab}.json" for lab in LABS]
        self.in_both(lambda lab: ["profile", jobs[lab], "--seconds", self.arguments.seconds, "--out", files[lab]])
        measured = [json.loads(file.read_text()) for file in files]
        both = dict(measured[0], stages=[stage for each in measured for stage in each["stages"]])
        (self.folder / "hardware.json").write_text(json.dumps(both))
        self.hardware = ["--hardware", self.folder / "hardware.json"]

    def roofline(self):
        """Each lab measures its processor, and sends its device file."""
        files = [self.folder / f"{lab}-device.toml" for lab in LABS]
        self.in_both(lambda lab: ["roofline", "--hidden", 256, "--seconds", self.arguments.seconds, "--out", files[lab]])
        self.devices = [f'"{file.name}"' for file in files]

    def known(self, job):
        """The Plan's division, and the times of a microbatch that it is by."""
        tombolo(self.build, "simulate", job, *self.hardware, "--out-plan", self.folder / "plan.json")
        plan = json.loads((self.folder / "plan.json").read_text())
        stage = plan["stages"][0]
        costs = [stage["cost"]] + [other["cost"] for other in stage.get("elsewhere", [])]
        even = self.arguments.microbatches // len(LABS)
        return (plan["parallelism"].get("microbatches_per_replica", [even] * len(LABS)),
                [seconds(cost["forward"]) + seconds(cost["backward"]) for cost in (costs * 2)[:2]])

    def predicted(self, job):
        trace = self.folder / "predicted.jsonl"
        tombolo(self.build, "simulate", job, *self.hardware, "--iterations", 6, "--out", trace)
        return statistics.median(ddp_beside.periods(trace.read_text()))

    def perform(self, job):
        """Of one run: losses by step, and what an iteration took."""
        out = self.folder / f"run-{job.stem}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TOMBOLO_TOKEN=secrets.token_hex(16))
        finish([self.groups.start(lab, self.build / "tombolo", "train", job, *self.hardware, "--out", out, env=dict(shared, RANK=str(lab)))
                for lab in range(len(LABS))])
        trace = (out / "trace.jsonl").read_text()
        return losses(trace), ddp_beside.periods(trace)

    def gradient(self, name, places, parallelism):
        """All of it, after one step from the same weights."""
        folder = self.folder / f"step-{name}"
        job = self.job(name, places, parallelism, 1, ONE_STEP.format(rate=STEP, folder=folder))
        tombolo(self.build, "train", job, *(self.hardware if len(places) > 1 else []), "--out", self.folder / f"run-{name}")
        return weights(folder)


def seconds(text):
    """A Plan's "3.2 ms" or "0.13 s"."""
    number, unit = re.fullmatch(r"(\S+) (\w+)", text).groups()
    return float(number) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}[unit]


def losses(trace):
    entries = (json.loads(line) for line in trace.splitlines() if '"loss"' in line)
    return {entry["iteration"]: entry["value"] for entry in entries if entry.get("record") == "loss"}


def weights(checkpoints):
    """Of one process's checkpoint, by name."""
    step = next(checkpoints.glob("step-*"))
    out = {}
    for shard in json.loads((step / "manifest.json").read_text())["shards"]:
        data = (step / shard["file"]).read_bytes()
        for tensor in shard["tensors"]:
            if tensor["dtype"] == "F32":
                out[tensor["name"]] = array.array("f", data[tensor["offset"]:tensor["offset"] + tensor["bytes"]])
    return out


def difference(gradient, whole):
    """The norm of what two gradients differ by over that of the second one."""
    if gradient.keys() != whole.keys():
        sys.exit(f"other parameters: {gradient.keys() ^ whole.keys()}")
    between = sum((a - b) ** 2 for name in whole for a, b in zip(gradient[name], whole[name]))
    return math.sqrt(between / sum(b * b for values in whole.values() for b in values))


def verdict(holds, wanted):
    return "ok" if holds else f"MISSED (wanted: {wanted})"


def train_on_cpus(build, folder, groups, arguments):
    training = Training(build, folder, groups, arguments)
    even = [arguments.microbatches // 2] * 2
    getattr(training, arguments.speeds)()
    jobs = {"equal": training.job("equal", [0, 1], APART.format(shares=even), arguments.steps),
            "auto": training.job("auto", [0, 1], APART.format(shares='"auto"'), arguments.steps)}
    shares, told = training.known(jobs["auto"])
    print(f"measured by {arguments.speeds}: a microbatch takes {1e3 * told[0]:.0f} and {1e3 * told[1]:.0f} ms, {told[1] / told[0]:.2f} to 1; "
          f"auto: {shares[0]} and {shares[1]}", flush=True)
    predicted = {way: training.predicted(job) for way, job in jobs.items()}
    took, curves = {way: [] for way in jobs}, {way: [] for way in jobs}
    for _ in range(arguments.rounds):
        for way, job in jobs.items():
            curve, periods = training.perform(job)
            took[way].append(statistics.median(periods))
            curves[way].append(curve)
    measured = {way: statistics.median(each) for way, each in took.items()}
    ratios = [auto / equal for auto, equal in zip(took["auto"], took["equal"])]
    ratio = statistics.median(ratios)
    print("| parts | predicted, s | measured, s | rounds, s |\n|---|---|---|---|")
    for way in jobs:
        parts = shares if way == "auto" else even
        print(f"| {parts[0]} and {parts[1]} | {predicted[way]:.3f} ({predicted[way] / measured[way] - 1:+.1%}) | {measured[way]:.3f} | "
              f"{', '.join(f'{each:.3f}' for each in took[way])} |")
    print(f"the time of equal parts: predicted {predicted['auto'] / predicted['equal']:.3f}, measured {ratio:.3f} "
          f"(by round {', '.join(f'{each:.3f}' for each in ratios)}): "
          f"{verdict(ratio <= RATIO_MAX, f'at most {RATIO_MAX}')}")
    apart = max(abs(auto[step] - equal[step]) for auto, equal in zip(curves["auto"], curves["equal"]) for step in equal)
    last = max(curves["equal"][0])
    print(f"losses of {last} steps, {curves['equal'][0][1]:.4f} to {curves['equal'][0][last]:.4f}: measured {apart:.1e} apart at most: "
          f"{verdict(apart <= LOSS_MAX, f'at most {LOSS_MAX:g}')}", flush=True)
    holds = [ratio <= RATIO_MAX, apart <= LOSS_MAX]
    whole = training.gradient("whole", [0], ALONE)
    for way, parts in [("equal", even), ("auto", shares)]:
        apart = difference(training.gradient(f"one-{way}", [0, 1], APART.format(shares=parts)), whole)
        holds.append(apart <= GRADIENT_MAX)
        print(f"gradient of {parts[0]} and {parts[1]} beside that of one process: measured {apart:.1e} of its norm apart: "
              f"{verdict(holds[-1], f'at most {GRADIENT_MAX:g}')}", flush=True)
    return all(holds)


def perform_emulated(build, folder, arguments):
    emulated, predicted = {"[7, 7, 7, 7]": [], '"auto"': []}, {}
    for _ in range(arguments.rounds):
        for shares, periods in emulated.items():
            job = folder / "emulated.toml"
            job.write_text(EMULATED.format(shares=shares, steps=arguments.steps))
            tombolo(build, "train", job, "--out", folder / "run-emulated")
            periods.append(statistics.median(ddp_beside.periods((folder / "run-emulated" / "trace.jsonl").read_text())))
            predicted[shares] = statistics.median(ddp_beside.periods((folder / "run-emulated" / "predicted.jsonl").read_text()))
            plan = json.loads((folder / "run-emulated" / "plan.json").read_text())
    stage = plan["stages"][0]
    slower = [seconds(cost["forward"]) + seconds(cost["backward"]) for cost in (stage["elsewhere"][0]["cost"], stage["cost"])]
    ratio = statistics.median(equal / auto for equal, auto in zip(*emulated.values()))
    print(f"three devices and one {slower[0] / slower[1]:.2f} times slower, 28 microbatches, auto: "
          f"{plan['parallelism']['microbatches_per_replica']}\n| parts | predicted, s | emulated, s | rounds, s |\n|---|---|---|---|")
    for shares, periods in emulated.items():
        middle = statistics.median(periods)
        print(f"| {shares} | {predicted[shares]:.3f} ({predicted[shares] / middle - 1:+.1%}) | {middle:.3f} | "
              f"{', '.join(f'{each:.3f}' for each in periods)} |")
    foreseen = list(predicted.values())
    print(f"shorter than with equal parts: predicted {foreseen[0] / foreseen[1]:.2f} times, emulated {ratio:.2f} times: "
          f"{verdict(ratio >= PERIOD_MIN, f'at least {PERIOD_MIN}')}", flush=True)
    return ratio >= PERIOD_MIN


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ddp_beside.ROOT / "build" / "release")
    parser.add_argument("--cores", default="1,0.333", help="that each rank has; 1: as many as it uses")
    parser.add_argument("--weight", type=int, default=1, help="of each rank beside other processes, which have 1 each")
    parser.add_argument("--speeds", choices=["profile", "roofline"], default="profile", help="what tells the planner of the two labs")
    parser.add_argument("--seconds", type=float, default=5, help="of measuring them")
    parser.add_argument("--data", type=pathlib.Path, help="text; left out: LICENSE")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["cpus", "emulated"])
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    cores = [float(each) for each in arguments.cores.split(",")]
    holds = []
    with tempfile.TemporaryDirectory(prefix="tombolo-bench-") as name:
        folder = pathlib.Path(name)
        if arguments.only != "emulated":
            groups = Groups(cores, arguments.weight)
            try:
                print(f"on CPUs: {cores[0]:g} and {cores[1]:g} cores (cgroup v{groups.version}), weight {arguments.weight}, "
                      f"{arguments.microbatches} microbatches of 256 tokens, {arguments.steps} steps, {arguments.rounds} rounds; load {os.getloadavg()[0]:.1f}", flush=True)
                holds.append(train_on_cpus(build, folder, groups, arguments))
            finally:
                groups.remove()
        if arguments.only != "cpus":
            holds.append(perform_emulated(build, folder, arguments))
    print(f"load at the end: {os.getloadavg()[0]:.1f}")
    sys.exit(0 if all(holds) else 1)


if __name__ == "__main__":
    main()
