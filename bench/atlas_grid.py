#!/usr/bin/env python3
"""Atlas' testbed, predicted against emulated: every cell of model x latency x microbatches x schedule x connections, in
emulated islands (kernel TCP over an emulated WAN), beside what the paper's figures 9 and 10 are said to show.

    bench/atlas_grid.py [--build build/release] [--models a,b] [--latencies 10,40] [--microbatches 4,16]
                        [--schedules gpipe,1f1b,varuna,atlas,atlas-greedy] [--connections one,many] [--longest 12] [--runs 1]
                        [--layout ours|papers|figure-2] [--long] [--set key=value]... [--no-islands]

Baselines run with one connection in the paper's window (figure 9) and with as many as fill the node pair's 5 Gbps
(figure 10: 5, 9, 13, 16 at 10, 20, 30, 40 ms); Atlas always with many, its pipelines released one after the other as in
the paper's figure 6, or all at once (atlas-greedy). A cell whose iteration is predicted to take
longer than --longest seconds is only predicted. --long: all four latencies, and nothing is too long.
--layout papers: four nodes in each datacenter, as the paper has it, so that two stages have replicas in two datacenters and their
gradients cross the WAN beside the activations; its boundaries are not shared in time, as only some pipelines cross each.
--layout figure-2: no pipeline; two nodes in each datacenter hold the whole model and sum its gradients, as in the paper's section 3.1.

Prints a table and ends with exit code 1 where a cell is off by more than 10 % on a machine that was not too busy. As it
stands it takes about 11 minutes, with --long 45; needs what tools/islands needs. --no-islands: the
pacing shim on loopback instead of the emulated WAN, which needs no privileges.
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BAND = 0.10
PAIR_BPS, WINDOW_BYTES, CONNECTIONS_MAX = 5e9, 3e6, 16  # examples/atlas/three-dc.toml; what a link can have
# Where the replicas of each stage lie when every datacenter has four nodes.
FIGURE_2_PLACES = '["oregon", "oregon", "iowa", "iowa", "virginia", "virginia"]'
PAPERS_PLACES = '["oregon", ["oregon", "iowa", "iowa"], ["iowa", "iowa", "virginia"], "virginia"]'
# Atlas, section 6.2, in words; the figures' bars are not printed. Megatron's schedule is 1F1B.
PAPER = {"one": {"gpipe": 17, "1f1b": 13, "varuna": 12}, "many": {"gpipe": 1.82, "1f1b": 1.72, "varuna": 1.52}}


def numbers(text):
    return [int(word) for word in text.split(",")]


def words(text):
    return text.split(",")


def connections_at(latency_ms, kind):
    """As the paper does: as many as fill the node pair, from what one of them gets."""
    if kind == "one":
        return 1
    return min(CONNECTIONS_MAX, math.ceil(PAIR_BPS / 8 * 2 * latency_ms / 1000 / WINDOW_BYTES))


def write_job(folder, cell, settings, layout):
    """The model's example with the cell's figures, next to its cluster."""
    model, latency, microbatches, schedule, kind = cell
    with open(f"{ROOT}/examples/atlas/gpt-{model}.toml") as file:
        job = file.read()
    with open(f"{ROOT}/examples/atlas/three-dc.toml") as file:
        cluster = file.read()

    def replace(text, key, value):
        out, count = re.subn(rf"(?m)^{key} = \S+( ms\")?", f"{key} = {value}", text)
        if count == 0:
            sys.exit(f"atlas_grid: no {key} in the example")
        return out

    if layout == "figure-2":
        job = replace(replace(job, "pipeline", 1), "data", 6)
        job = job.replace("[parallelism]\n", f"[parallelism]\ndatacenter_per_replica = {FIGURE_2_PLACES}\n")
        cluster = replace(cluster, "nodes", 2)
    pipelines = int(re.search(r"(?m)^data = (\d+)", job).group(1))
    name = "-".join(map(str, cell))
    job = replace(job, "global_batch", microbatches * pipelines)
    name_of, _, discipline = schedule.partition("-")
    job = re.sub(r"(?m)^discipline = .*\n", "", job)
    job = replace(job, "schedule", f'"{name_of}"' + (f'\ndiscipline = "{discipline}"' if discipline else ""))
    job = replace(job, "file", f'"{name}-cluster.toml"')
    if layout == "papers":
        job = job.replace("[parallelism]\n", f"[parallelism]\ndatacenter_per_stage = {PAPERS_PLACES}\n")
        cluster = replace(cluster, "nodes", 4)
    for setting in settings:
        key, value = setting.split("=", 1)
        job = replace(job, key, value)
    cluster = replace(cluster, "one_way_latency", f'"{latency} ms"')
    cluster = replace(cluster, "connections", connections_at(latency, kind))
    path = f"{folder}/{name}.toml"
    with open(path, "w") as file:
        file.write(job)
    with open(f"{folder}/{name}-cluster.toml", "w") as file:
        file.write(cluster)
    return path


def answer(arguments, command):
    done = subprocess.run(command, capture_output=True, text=True,
                          env=dict(os.environ, TOMBOLO_BUILD=arguments.build))
    if done.returncode == 3:
        return None
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def predict(arguments, job):
    """Seconds, or None where the schedule needs more memory than there is."""
    found = answer(arguments, [f"{arguments.build}/tombolo", "simulate", job, "--json"])
    return found["iteration_ns"] / 1e9 if found else None


def train(arguments, job, folder, steps):
    command = [f"{arguments.build}/tombolo", "train", job, "--json", "--out", folder, "--steps", str(steps)]
    if not arguments.no_islands:
        command = [f"{ROOT}/tools/islands", job, "--"] + command
    return answer(arguments, command)


def measure(arguments, job, folder, predicted):
    """[(seconds, busy)] of the runs; the first iteration of each does not count."""
    steps = 4 if predicted < 1.5 else 3
    out = []
    for run in range(arguments.runs if predicted <= arguments.longest else 0):
        done = train(arguments, job, f"{folder}/out", steps)
        out.append((done["iteration_s"], bool(done.get("machine", {}).get("too_busy"))))
    return out


def beside_the_paper(predicted, emulated):
    """The largest speed-ups of Atlas over each baseline, as the paper states them."""
    print("\nThe largest speed-up of Atlas, the faster of its two rules, always with many connections:\n")
    print("| over | its connections | paper, at most | predicted | emulated |\n|---|---|---|---|---|")

    def largest(times, schedules, kind, latencies=None):
        found = []
        for (model, latency, microbatches, name, connections), value in times.items():
            rules = ["atlas", "atlas-greedy"]
            atlas = [times[c] for c in ((model, latency, microbatches, rule, "many") for rule in rules) if c in times]
            if name in schedules and connections == kind and atlas and (not latencies or latency in latencies):
                found.append((value / min(atlas), f"GPT-{model.upper()}, {latency} ms, {microbatches} microbatches"))
        return "{:.2f} ({})".format(*max(found)) if found else "–"

    for kind, claims in PAPER.items():
        for schedule, claim in claims.items():
            print(f"| {schedule} | {kind} | {claim} | {largest(predicted, [schedule], kind)} | "
                  f"{largest(emulated, [schedule], kind)} |")
    every = list(PAPER["one"])
    print(f"| any of them, at 10 ms | one | 2.68 | {largest(predicted, every, 'one', [10])} | "
          f"{largest(emulated, every, 'one', [10])} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=f"{ROOT}/build/release")
    parser.add_argument("--models", type=words, default=["a", "b"])
    parser.add_argument("--latencies", type=numbers)
    parser.add_argument("--microbatches", type=numbers, default=[4, 16])
    parser.add_argument("--schedules", type=words, default=["gpipe", "1f1b", "varuna", "atlas", "atlas-greedy"])
    parser.add_argument("--connections", type=words, default=["one", "many"])
    parser.add_argument("--longest", type=float, default=12, metavar="SECONDS")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--layout", choices=["ours", "papers", "figure-2"], default="ours")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--no-islands", action="store_true")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    latencies = arguments.latencies or ([10, 20, 30, 40] if arguments.long else [10, 40])
    if arguments.long:
        arguments.longest = math.inf

    where = "pacing shim on loopback" if arguments.no_islands else "emulated islands, kernel TCP"
    shape = {"ours": "4 stages x 3 pipelines, 3 datacenters", "papers": "4 stages x 3 pipelines, 3 datacenters of 4 nodes",
             "figure-2": "6 replicas, 3 datacenters of 2 nodes"}[arguments.layout]
    print(f"{shape}; emulated A100s; {where}; median without the first iteration; bytes "
          "divided by 50 (GPT-A) and 100 (GPT-B)\n")
    print("| model | one way | microbatches | schedule | connections | predicted | emulated | error | machine |")
    print("|---|---|---|---|---|---|---|---|---|")
    cells = [(model, latency, microbatches, schedule, kind) for model in arguments.models for latency in latencies
             for microbatches in arguments.microbatches for kind in arguments.connections
             for schedule in arguments.schedules if not schedule.startswith("atlas") or kind == "many"]
    predicted, emulated, missed = {}, {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for cell in cells:
            model, latency, microbatches, schedule, kind = cell
            job = write_job(folder, cell, arguments.settings, arguments.layout)
            seconds = predict(arguments, job)
            label = f"| GPT-{model.upper()} | {latency} ms | {microbatches} | {schedule} | {connections_at(latency, kind)} |"
            if seconds is None:
                print(f"{label} does not fit in memory | – | – | – |", flush=True)
                continue
            predicted[cell] = seconds
            runs = measure(arguments, job, folder, predicted[cell])
            errors = [predicted[cell] / seconds - 1 for seconds, _ in runs]
            missed += sum(abs(error) > BAND and not busy for error, (_, busy) in zip(errors, runs))
            if runs:
                emulated[cell] = runs[0][0]
            machine = "too busy" if any(busy for _, busy in runs) else "fine" if runs else "–"
            print(f"{label} {predicted[cell]:.3f} s | {', '.join(f'{s:.3f} s' for s, _ in runs) or '–'} | "
                  f"{', '.join(f'{e:+.1%}' for e in errors) or '–'} | {machine} |", flush=True)
    beside_the_paper(predicted, emulated)
    if missed:
        print(f"\n{missed} runs are off by more than {BAND:.0%}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
