#!/usr/bin/env python3
"""Two builds of Tombolo in turns: is the newer one slower, or does it take more memory or CPU time?

    bench/before_after.py OLD NEW [--only loopback,goodput,urgency,control,emulated,training] [--turns 5]
                          [--paths clean,lossy,far,fat] [--seconds 4] [--ranks 1000] [--control-seconds 15] [--json FILE]

OLD and NEW are build folders. Each question is asked of both, --turns times, of the new one first in every second turn; a row
has the medians, in brackets the lowest and the highest, and the ratio of the medians: above 1 the new build is worse, whether
the figure is a time (new / old) or a rate (old / new). Beyond 1.03 it says so, and the exit code is 1.

    loopback   transport_bench: clear text and TLS, CPU seconds per GB of both ends, how late a paced message is
    goodput    link_bench goodput, 8 cubic connections, over the emulated paths of wan_goodput.py
    urgency    link_bench urgency, 4 connections: behind 50 MB in a deep and a short queue, and on an idle link
    control    control_bench: the launcher's share of a core, and its memory, with --ranks over TLS
    emulated   `tombolo train` with four emulated ranks: peak memory of launcher and workers
    training   the same with two ranks that compute, and a checkpoint (needs builds with LibTorch)

Both builds need link_bench and transport_bench from the same sources, for what these print: copy both files into the
older tree before it is built. The emulated paths are made by the newer build for both, and need root and TUN devices.
How busy the machine is counts for both builds alike, but the spread then hides small differences; what moves bytes
runs before other processes (SCHED_FIFO), where that is allowed.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import state_memory
import wan_goodput as wan

WORSE = 1.03
MIB = 2**20
RATE, COST = "rate", "cost"  # more is better, less is better

TRAINED = """
name = "before-after"
[model]
layers = 4
hidden = 256
heads = 4
vocabulary = 256
sequence = 64
[[cluster.datacenter]]
name = "here"
device = "cpu"
nodes = 1
devices_per_node = 2
[training]
global_batch = 4
micro_batch = 1
precision = "fp32"
[parallelism]
pipeline = 2
schedule = "1f1b"
[data]
text = "text.txt"
evaluation_fraction = 0
[run]
steps = 4
seed = 1
[checkpoint]
directory = "checkpoints"
every = 2
"""


def lines_of(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600,
                          preexec_fn=wan.before_others)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def size(count):
    return f"{count // MIB} MiB" if count >= MIB else f"{count // 1024} KiB"


def loopback(build, _):
    figures = {}
    for line in lines_of(build / "transport_bench"):
        if line["bench"] == "unpaced":
            name = f"loopback, messages of {size(line['message_bytes'])}"
            figures[name, "Gbps", RATE] = line["gbps"]
            figures[name, "CPU s/GB", COST] = line["cpu_s_per_gb"]
        elif line["bench"] == "secured":
            name = f"loopback, TLS 1.3, messages of {size(line['message_bytes'])}"
            figures[name, "Gbps", RATE] = line["tls_gbps"]
            figures[name, "CPU s/GB", COST] = line["tls_cpu_s_per_gb"]
        elif line["messages"] == 1:
            law_ms = 1e3 * line["message_bytes"] * 8e-9 / line["rate_gbps"] + line["delay_ms"]
            figures["one message of 1 MB over a paced link, alone", "ms", COST] = law_ms * (1 + line["time_over_law"])
    return figures


def path_name(path):
    rate, one_way, loss = path
    return f"{rate}, {2 * one_way} ms" + (f", {loss:.2%} loss" if loss else "")


def goodput(build, arguments):
    figures = {}
    for name in arguments.paths.split(","):
        measured = wan.Islands(arguments.new, wan.PATHS[name]).run(
            build / "link_bench", "goodput", "--connections", 8, "--seconds", arguments.seconds, "--warmup", 3)
        figures[path_name(wan.PATHS[name]), "Mbps", RATE] = measured["payload_mbps"]
        figures[path_name(wan.PATHS[name]), "CPU s/GB", COST] = measured["cpu_s_per_gb"]
    return figures


def urgency(build, arguments):
    figures = {}
    for name, queue, bulk in (("idle link", "", 0), ("behind 50 MB, a queue of one round trip", "", 50),
                              ("behind 50 MB, a queue of 10 ms", 'queue = "125 KB"', 50)):
        measured = wan.Islands(arguments.new, wan.URGENT_PATH, queue).run(
            build / "link_bench", "urgency", "--connections", 4, "--rounds", 1, "--bulk", bulk)
        for key in ("median", "p95"):
            figures[f"urgent message, {name}, {key}", "ms", COST] = measured[f"{key}_ms"]
    return figures


def memory_of(pid):
    """{what the kernel counts: bytes} of a process; nothing of one that has gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    return {key: int(kib) * 1024 for key, kib in re.findall(r"^(VmHWM|RssAnon):\s+(\d+) kB", status, re.MULTILINE)}


def control(build, arguments, tries=3):
    bench = subprocess.Popen([build / "control_bench", "--ranks", str(arguments.ranks), "--seconds",
                              str(arguments.control_seconds)], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    resident = 0
    while bench.poll() is None:
        launcher = state_memory.tree(bench.pid)[1:2]  # its own children do nothing
        resident = max([resident] + [memory_of(pid).get("VmHWM", 0) for pid in launcher])
        time.sleep(0.2)
    if bench.returncode != 0:  # the port behind the one that was free may be another connection's
        bench.stdout.close()
        return control(build, arguments, tries - 1) if tries > 1 else sys.exit(f"{build / 'control_bench'}: {bench.returncode}")
    measured = json.loads(bench.stdout.read())
    return {(f"launcher of {arguments.ranks} ranks over TLS", "cores", COST): measured["launcher_cores"],
            (f"launcher of {arguments.ranks} ranks over TLS, resident", "MiB", COST): resident / MIB,
            (f"{arguments.ranks} ranks until all are at work", "s", COST): measured["joined_s"]}


def role_of(pid, root):
    """"worker", "launcher", or nothing: the first process of a run only starts its launcher again."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return None
    if words[0].endswith("tombolo-worker"):
        return "worker"
    return "launcher" if words[0].endswith("tombolo") and pid != root else None


def trained(what, build, job, folder):
    """Peaks of a run's processes: of the launcher, and the median of the workers."""
    (folder / "job.toml").write_text(job)
    (folder / "text.txt").write_text("Sand ties the island to the mainland.\n" * 200)
    with open(folder / "said", "w") as said:
        run = subprocess.Popen([build / "tombolo", "train", "job.toml", "--out", "run"], cwd=folder,
                               stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    peaks = {}  # (role, process) -> {what the kernel counts: bytes}
    while run.poll() is None:
        for pid in state_memory.tree(run.pid):
            role = role_of(pid, run.pid)
            if role:
                peak = peaks.setdefault((role, pid), {})
                for key, value in memory_of(pid).items():
                    peak[key] = max(peak.get(key, 0), value)
        time.sleep(0.05)
    if run.returncode != 0:
        sys.exit(f"{build / 'tombolo'} train: {run.returncode}\n{(folder / 'said').read_text()}")
    figures = {}
    for role in ("launcher", "worker"):
        for key, meaning in (("VmHWM", "resident"), ("RssAnon", "of it not of files")):
            values = [peak[key] for (one, _), peak in peaks.items() if one == role and key in peak]
            if not values:
                sys.exit(f"{build / 'tombolo'} train: no {role} was seen")
            figures[f"{what}: {role}, {meaning}", "MiB", COST] = statistics.median(values) / MIB
    return figures


def emulated(build, _):
    job = (wan.ROOT / "examples" / "emulated-row" / "job.toml").read_text()
    with tempfile.TemporaryDirectory(prefix="before-after.") as folder:
        cluster = pathlib.Path(folder, "four-datacenters.toml")
        cluster.write_text((wan.ROOT / "examples" / "emulated-row" / cluster.name).read_text())
        return trained("four emulated ranks", build, job, pathlib.Path(folder))


def training(build, _):
    with tempfile.TemporaryDirectory(prefix="before-after.") as folder:
        return trained("two ranks that compute", build, TRAINED, pathlib.Path(folder))


QUESTIONS = {"loopback": loopback, "goodput": goodput, "urgency": urgency, "control": control, "emulated": emulated,
             "training": training}


def with_spread(values):
    return f"{statistics.median(values):.4g} ({min(values):.4g}–{max(values):.4g})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(QUESTIONS))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--paths", default=",".join(wan.PATHS))
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--control-seconds", type=int, default=15)
    parser.add_argument("--json", type=pathlib.Path, help="every figure of every turn")
    arguments = parser.parse_args()
    arguments.new = arguments.new.resolve()
    for given, known in ((arguments.only, QUESTIONS), (arguments.paths, wan.PATHS)):
        unknown = set(given.split(",")) - set(known)
        if unknown:
            parser.error(f"{', '.join(sorted(unknown))}: there are {', '.join(known)}")
    builds = {"old": arguments.old.resolve(), "new": arguments.new}
    figures = {}  # (what, unit, rate or cost) -> {build: a value of each turn}
    for name in arguments.only.split(","):
        for turn in range(arguments.turns):
            for build, folder in list(builds.items())[::1 if turn % 2 == 0 else -1]:
                begun = time.monotonic()
                for key, value in QUESTIONS[name](folder, arguments).items():
                    figures.setdefault(key, {"old": [], "new": []})[build].append(value)
                print(f"{name}, turn {turn + 1}, {build}: {time.monotonic() - begun:.0f} s, load "
                      f"{os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps([{"what": what, "unit": unit, "better": "more" if kind == RATE else "less", **values}
                                              for (what, unit, kind), values in figures.items()], indent=1))
    print("| what | unit | old | new | ratio, above 1 is worse |\n|---|---|---|---|---|")
    worse = 0
    for (what, unit, kind), values in figures.items():
        old, new = statistics.median(values["old"]), statistics.median(values["new"])
        ratio = old / new if kind == RATE else new / old
        worse += ratio > WORSE
        print(f"| {what} | {unit} | {with_spread(values['old'])} | {with_spread(values['new'])} | "
              f"{f'**{ratio:.3f}**' if ratio > WORSE else f'{ratio:.3f}'} |")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
