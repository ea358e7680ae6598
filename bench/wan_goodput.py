#!/usr/bin/env python3
"""Goodput of one link against `iperf3 -P 8` over the same emulated paths, in one run; and how long an
urgent message takes while 50 MB are queued, against a queue without urgency.

    bench/wan_goodput.py [--build build/release] [--connections 1,8,16] [--congestion-controls cubic,bbr]
                         [--paths clean,lossy,far,fat] [--seconds 5] [--warmup 3] [--runs 3] [--skip-urgency]
                         [--tls | --spliced]

A number of connections may be "auto": the link chooses, and explores while it is measured.

With --tls only this: the goodput of a link with TLS 1.3 against one without, on the clean path, taking turns. With
--spliced the same of a link between ranks that cannot be called, through the coordinator's door on the receiver's host.

Contenders take turns and run as SCHED_FIFO where that is allowed, below the emulator, so that a busy machine is
as busy for one as for the other. Kernel buffers allow 64 MB and more on
both sides (islands' settings, printed by tools/wanem), windows are not bounded, the bottleneck's queue is one
round trip of its rate and drops at its tail. Each figure is the median of the runs, of payload after the warm-up.
Needs what tools/islands needs, and iperf3; ends with exit code 77 where something is missing. A row says "busy"
where the emulator came more than 2 ms late (p99): then measure again on an idle machine.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SKIPPED = 77
LATENESS_MAX_MS = 2

# Name: rate, one way in ms, loss. Round trips are twice as long.
PATHS = {
    "clean": ("1 Gbps", 30, 0.0),
    "lossy": ("1 Gbps", 30, 0.0001),
    "far": ("500 Mbps", 50, 0.001),
    "fat": ("5 Gbps", 20, 0.0),
}
URGENT_PATH = ("100 Mbps", 30, 0.0)

CLUSTER = """
[[datacenter]]
name = "oregon"
device = "emulated:a100-80g"
[[datacenter]]
name = "paris"
device = "emulated:a100-80g"
[[wan]]
between = ["oregon", "paris"]
one_way_latency = "{} ms"
node_pair_limit = "{}"
loss = {}
{}
"""


def before_others():
    """How long a contender waits for a core is not what is asked."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except OSError:
        pass


class Islands:
    """Two hosts and the path between them; commands run on the first one."""

    def __init__(self, build, path, queue=""):
        rate, one_way, loss = path
        self.build = build
        self.cluster = CLUSTER.format(one_way, rate, loss, queue)
        self.late_ms = 0.0

    def run(self, *command):
        with tempfile.TemporaryDirectory() as folder:
            cluster, counters = pathlib.Path(folder, "cluster.toml"), pathlib.Path(folder, "counters.json")
            cluster.write_text(self.cluster)
            done = subprocess.run(
                [self.build / "tombolo-islands", "run", cluster, "--counters", counters, "--", *map(str, command)],
                capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, preexec_fn=before_others)
            if done.returncode == 2 and not done.stdout:
                print(f"skipped: {' '.join(done.stderr.split())}", file=sys.stderr)
                sys.exit(SKIPPED)
            if done.returncode != 0:
                sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
            links = json.loads(counters.read_text())["links"]
            self.late_ms = max([self.late_ms] + [link["lateness_p99_ns"] / 1e6 for link in links])
            return json.loads(done.stdout)

    def busy(self):
        return f"busy ({self.late_ms:.0f} ms)" if self.late_ms > LATENESS_MAX_MS else "fine"


def iperf_mbps(islands, control, seconds, warmup):
    script = (f"tombolo-islands exec paris-0 iperf3 -s -1 -D >/dev/null; sleep 0.5; "
              f"iperf3 -c paris-0 -P 8 -C {control} -t {seconds} -O {warmup} -J")
    out = islands.run("sh", "-c", f"PATH={islands.build}:$PATH; {script}")
    return out["end"]["sum_received"]["bits_per_second"] / 1e6


def link_mbps(islands, connections, control, seconds, warmup, *words):
    return islands.run(islands.build / "link_bench", "goodput", "--connections", connections, "--seconds", seconds,
                       "--warmup", warmup, "--congestion-control", control, *words)["payload_mbps"]


def goodput(arguments):
    names = [f"{n} conn." for n in arguments.connections]
    print(f"\nPayload in Mbps over {arguments.seconds} s after {arguments.warmup} s, median of {arguments.runs}; "
          "in brackets the ratio to iperf3")
    print("| path | congestion control | iperf3 -P 8 | " + " | ".join(names) + " | emulator |")
    print("|---" * (4 + len(names)) + "|")
    for name in arguments.paths:
        rate, one_way, loss = PATHS[name]
        for control in arguments.congestion_controls:
            islands = Islands(arguments.build, PATHS[name])
            rivals, ours = [], {n: [] for n in arguments.connections}
            for _ in range(arguments.runs):
                rivals.append(iperf_mbps(islands, control, arguments.seconds, arguments.warmup))
                for n in arguments.connections:
                    ours[n].append(link_mbps(islands, n, control, arguments.seconds, arguments.warmup))
            rival = statistics.median(rivals)
            cells = [f"{statistics.median(values):.0f} ({statistics.median(values) / rival:.2f})"
                     for values in ours.values()]
            print(f"| {rate}, {2 * one_way} ms, loss {loss:.2%} | {control} | {rival:.0f} | " + " | ".join(cells) +
                  f" | {islands.busy()} |", flush=True)


def compare(arguments, option, name):
    rate, one_way, _ = PATHS["clean"]
    print(f"\nPayload in Mbps over {arguments.seconds} s after {arguments.warmup} s, median of {arguments.runs}; "
          f"{rate}, RTT {2 * one_way} ms")
    print(f"| congestion control | connections | plain TCP | {name} | ratio | emulator |")
    print("|---" * 6 + "|")
    for control in arguments.congestion_controls:
        for n in arguments.connections:
            islands = Islands(arguments.build, PATHS["clean"])
            figures = {(): [], (option,): []}
            for _ in range(arguments.runs):
                for words, values in figures.items():
                    values.append(link_mbps(islands, n, control, arguments.seconds, arguments.warmup, *words))
            plain, other = (statistics.median(values) for values in figures.values())
            print(f"| {control} | {n} | {plain:.0f} | {other:.0f} | {other / plain:.3f} | {islands.busy()} |", flush=True)


def urgency(arguments):
    rate, one_way, _ = URGENT_PATH
    print(f"\n64 KiB, urgent, every 100 ms while 50 MB are queued; {rate}, RTT {2 * one_way} ms: from send() to the "
          "last byte; warm connections")
    print("| queue before the bottleneck | congestion control | connections | order | median | p95 | p95 - RTT | emulator |")
    print("|---" * 8 + "|")
    # A deep queue of one round trip (750 KB), and a shallow one that holds 10 ms of the rate.
    for title, queue in (("one round trip", ""), ("10 ms", 'queue = "125 KB"')):
        for control in arguments.congestion_controls:
            for connections, fifo in [(n, False) for n in arguments.connections] + [(8, True)]:
                islands = Islands(arguments.build, URGENT_PATH, queue)
                words = ["--fifo", "--rounds", 1] if fifo else ["--rounds", arguments.runs]
                out = islands.run(islands.build / "link_bench", "urgency", "--connections", connections,
                                  "--congestion-control", control, *words)
                print(f"| {title} | {control} | {connections} | {'first in, first out' if fifo else 'by urgency'} | "
                      f"{out['median_ms']:.0f} ms | {out['p95_ms']:.0f} ms | {out['p95_ms'] - 2 * one_way:+.0f} ms | "
                      f"{islands.busy()} |", flush=True)


def main():
    def words(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--connections", type=lambda text: [n if n == "auto" else int(n) for n in words(text)], default=[1, 8, 16])
    parser.add_argument("--congestion-controls", type=words, default=["cubic", "bbr"])
    parser.add_argument("--paths", type=words, default=list(PATHS))
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--skip-urgency", action="store_true")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--spliced", action="store_true")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    for program in ("link_bench", "tombolo-islands"):
        if not (arguments.build / program).exists():
            sys.exit(f"{arguments.build / program} is not built: cmake --build {arguments.build} --target {program}")
    if not shutil.which("iperf3"):
        print("skipped: iperf3 is not installed (package iperf3)", file=sys.stderr)
        sys.exit(SKIPPED)
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as file:
        known = file.read().split()
    arguments.congestion_controls = [name for name in arguments.congestion_controls if name in known]
    if arguments.tls:
        return compare(arguments, "--tls", "TLS 1.3")
    if arguments.spliced:
        return compare(arguments, "--spliced", "through the coordinator")
    if arguments.paths != [""]:
        goodput(arguments)
    if not arguments.skip_urgency:
        urgency(arguments)


if __name__ == "__main__":
    main()
