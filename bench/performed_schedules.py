#!/usr/bin/env python3
"""Every schedule, predicted and then performed by four emulated ranks in two datacenters: real bytes over paced loopback.

    bench/performed_schedules.py [--build build/release] [--steps 12] [--only gpipe,zb-v]

A rank's part of the model takes 10 ms forward and 20 ms backward for a microbatch, of which there are eight; a message
across the WAN occupies it for 4 ms and arrives 5 ms later. Schedules with two stages per rank have them half as long.
With "+pairs" a forward and a backward beside each other take 12.5 ms instead of 15, the forward's result leaves after 10.
"found" is the schedule that `tombolo simulate --policy best` writes into a Plan. Prints a table as in docs/results/performed.md;
ends with exit code 1 where a prediction is off by more than 10 % on a machine that was not too busy. About a minute.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BAND = 0.10
SCHEDULES = ["gpipe", "1f1b", "varuna", "atlas", "zb-h1", "interleaved", "zb-v", "w", "dualpipev", "w+pairs", "dualpipev+pairs", "found"]
PAIRS = 'pair = "12.5 ms"\npair_forward = "10 ms"'
TWO_STAGES = {"interleaved", "zb-v", "w", "dualpipev"}

JOB = """
[[cluster.datacenter]]
name = "oregon"
device = "emulated:a100-80g"
nodes = 2
[[cluster.datacenter]]
name = "paris"
device = "emulated:a100-80g"
nodes = 2
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "5 ms"
node_pair_limit = "5 Gbps"
[training]
global_batch = 8
[parallelism]
pipeline = 4
schedule = "{schedule}"
virtual_stages = {chunks}
[stage_times]
forward = "{forward} ms"
backward = "{backward} ms"
transfer = "4 ms"
latency = "5 ms"
{pairs}
[run]
steps = {steps}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--only", default=",".join(SCHEDULES))
    options = parser.parse_args()
    tombolo = (ROOT / options.build / "tombolo").resolve()

    def answer(folder, *arguments):
        done = subprocess.run([tombolo, *arguments, "--json"], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"tombolo {' '.join(arguments)}: {done.stderr}")
        return json.loads(done.stdout)

    print("| schedule | predicted | performed | error | machine |\n|---|---|---|---|---|")
    missed = False
    for schedule in options.only.split(","):
        law, _, pairs = schedule.partition("+")
        chunks = 2 if law in TWO_STAGES else 1
        with tempfile.TemporaryDirectory(prefix="tombolo-bench-") as folder:
            name = "1f1b" if schedule == "found" else law
            (pathlib.Path(folder) / "job.toml").write_text(
                JOB.format(schedule=name, chunks=chunks, forward=10 / chunks, backward=20 / chunks, steps=options.steps,
                           pairs=PAIRS if pairs else ""))
            plan = "job.toml"
            if schedule == "found":
                plan = "plan.json"
                answer(folder, "simulate", "job.toml", "--policy", "best", "--out-plan", plan)
            machine = answer(folder, "train", plan, "--out", "run")["machine"]
            compared = answer(folder, "compare", "run/predicted.jsonl", "run/trace.jsonl")
        error = compared["iteration_error"]
        busy = machine["too_busy"]
        missed = missed or (abs(error) > BAND and not busy)
        print(f"| `{schedule}` | {compared['predicted_iteration_ns'] * 1e-6:.1f} ms "
              f"| {compared['measured_iteration_ns'] * 1e-6:.1f} ms *emulated* | {100 * error:+.1f} % "
              f"| {'too busy' if busy else 'fine'} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
