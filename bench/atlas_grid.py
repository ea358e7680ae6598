#!/usr/bin/env python3
"""Predicted against emulated iteration time on Atlas' testbed: every cell of latency x micro-batches x
schedule, in emulated islands (kernel TCP over an emulated WAN), each run twice.

    bench/atlas_grid.py [--build build/release] [--latencies 10,40] [--microbatches 4,16]
                        [--schedules gpipe,1f1b] [--runs 2] [--steps 4] [--set key=value]... [--no-islands]

Prints a table and ends with exit code 1 where a cell is off by more than 10 % on a machine that was not
too busy. Takes about ten minutes; needs what tools/islands needs. --no-islands: the pacing shim on
loopback instead of the emulated WAN, which needs no privileges.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BAND = 0.10


def numbers(text):
    return [int(word) for word in text.split(",")]


def write_job(folder, latency, microbatches, schedule, steps, settings):
    """examples/atlas/gpt-a.toml with the cell's figures, next to its cluster."""
    with open(f"{ROOT}/examples/atlas/gpt-a.toml") as file:
        job = file.read()
    with open(f"{ROOT}/examples/atlas/three-dc.toml") as file:
        cluster = file.read()

    def replace(text, key, value):
        out, count = re.subn(rf"(?m)^{key} = \S+( ms\")?", f"{key} = {value}", text)
        if count == 0:
            sys.exit(f"atlas_grid: no {key} in the example")
        return out

    pipelines = int(re.search(r"(?m)^data = (\d+)", job).group(1))
    job = replace(job, "global_batch", microbatches * pipelines)
    job = replace(job, "schedule", f'"{schedule}"')
    job = replace(job, "steps", steps)
    for setting in settings:
        key, value = setting.split("=", 1)
        job = replace(job, key, value)
    cluster = replace(cluster, "one_way_latency", f'"{latency} ms"')
    path = f"{folder}/gpt-a-{schedule}-{latency}ms-m{microbatches}.toml"
    with open(path, "w") as file:
        file.write(job)
    with open(f"{folder}/three-dc.toml", "w") as file:
        file.write(cluster)
    return path


def train(arguments, job, folder):
    command = [f"{arguments.build}/tombolo", "train", job, "--json", "--out", folder]
    if not arguments.no_islands:
        command = [f"{ROOT}/tools/islands", job, "--"] + command
    environment = dict(os.environ, TOMBOLO_BUILD=arguments.build)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{ROOT}/build/release")
    parser.add_argument("--latencies", type=numbers, default=[10, 40])
    parser.add_argument("--microbatches", type=numbers, default=[4, 16])
    parser.add_argument("--schedules", type=lambda text: text.split(","), default=["gpipe", "1f1b"])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--no-islands", action="store_true")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)

    where = "pacing shim on loopback" if arguments.no_islands else "emulated islands, kernel TCP"
    print(f"GPT-A, 4 stages x 3 pipelines, 3 datacenters; emulated A100s; {where}; {arguments.steps} steps, "
          "median without the first")
    print("| one way | micro-batches | schedule | predicted | " +
          " | ".join(f"emulated, run {run + 1} | error" for run in range(arguments.runs)) + " | machine |")
    print("|---" * (5 + 2 * arguments.runs) + "|")
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        for latency in arguments.latencies:
            for microbatches in arguments.microbatches:
                for schedule in arguments.schedules:
                    job = write_job(folder, latency, microbatches, schedule, arguments.steps, arguments.settings)
                    cells, busy = [], False
                    for run in range(arguments.runs):
                        out = train(arguments, job, f"{folder}/out-{run}")
                        predicted, emulated = out["predicted_iteration_s"], out["iteration_s"]
                        error = predicted / emulated - 1
                        machine = out.get("machine", {})
                        busy = busy or bool(machine.get("too_busy"))
                        missed += abs(error) > BAND and not busy
                        cells.append(f"{emulated:.3f} s | {error:+.1%}")
                    print(f"| {latency} ms | {microbatches} | {schedule} | {predicted:.3f} s | " +
                          " | ".join(cells) + f" | {'too busy' if busy else 'fine'} |", flush=True)
    if missed:
        print(f"{missed} runs are off by more than {BAND:.0%}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
