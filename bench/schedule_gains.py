#!/usr/bin/env python3
"""How much less time the best schedule takes than the best published one, both simulated.

  bench/schedule_gains.py --build build/release            the table of docs/results/schedules.md, misses like hits
  bench/schedule_gains.py --build build/release --group b2 one group of settings
  bench/schedule_gains.py --commands                       the command of every row

A row is one configuration of `tombolo sweep examples/across-datacenters/... --policy best`. Both sides have the same
links, the same memory, and each position the same work. "Unsplit" holds the best whose backwards are in one piece
against the best published one of those.
"""
import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = {2: "two", 3: "three", 4: "four", 5: "five"}
STAGES = 4  # per datacenter, as in the files

# What differs from the files, which hold GPT-B, 20 ms and memory for what 1F1B keeps.
GPT_A = {"stage_times.forward": "12.8 ms", "stage_times.backward": "25.6 ms", "stage_times.transfer": "53.7 ms"}
GROUPS = {
    "b": ("GPT-B, 20 ms, memory for p", {}, 1),
    "b2": ("GPT-B, 20 ms, memory for 2 p", {}, 2),
    "b40": ("GPT-B, 40 ms, memory for 2 p", {"stage_times.latency": "40 ms"}, 2),
    "a": ("GPT-A, 10 ms, memory for p", {**GPT_A, "stage_times.latency": "10 ms"}, 1),
    "a2": ("GPT-A, 40 ms, memory for 2 p", {**GPT_A, "stage_times.latency": "40 ms"}, 2),
}


def command(datacenters, pipelines, batches, changes, memory):
    vary = {"parallelism.data": pipelines, "training.global_batch": ",".join(map(str, batches))}
    if memory != 1:
        vary["stage_times.in_flight"] = memory * STAGES * datacenters
    vary.update(changes)
    words = ["tombolo", "sweep", f"examples/across-datacenters/{FILES[datacenters]}.toml", "--policy", "best"]
    for path, value in vary.items():
        words += ["--vary", f"{path}={value}"]
    return words


def settings():
    for datacenters in FILES:
        for pipelines in (1, 2, 3, 4, 8):
            stages = STAGES * datacenters
            yield datacenters, pipelines, [times * stages * pipelines for times in (1, 2, 4)]


def run(build, words):
    done = subprocess.run([str(build / words[0]), *words[1:], "--json"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(words)}\n{done.stderr}")
    return json.loads(done.stdout)["rows"]


def percent(part):
    return "none fits" if part is None else f"{100 * part:.1f} %"


def sharing(winner):
    """The cells that the winner shares the WAN in, if any."""
    return winner.rpartition(", ")[2] if "cells of" in winner else "each pipeline"


COLUMNS = (("gain", "gain"), ("gain_without_split", "unsplit"))


def table(build, group):
    name, changes, memory = GROUPS[group]
    rows = []
    print(f"\n{name}:\n")
    print("| datacenters | C | m | global_batch | baseline | | best | gain | unsplit | above the bound | "
          "the WAN is for |")
    print("|" + "---|" * 11)
    for datacenters, pipelines, batches in settings():
        for row in run(build, command(datacenters, pipelines, batches, changes, memory)):
            batch = row["training.global_batch"]
            rows.append(row)
            gains = " | ".join(percent(row[column]) for column, _ in COLUMNS)
            print(f"| {FILES[datacenters]} | {pipelines} | {batch // pipelines} | {batch} | "
                  f"{row['baseline_s']:.2f} s | {row['baseline']} | {row['iteration_s']:.2f} s | {gains} | "
                  f"{percent(row['iteration_s'] / row['lower_bound_s'] - 1)} | {sharing(row['winner'])} |", flush=True)
    return rows


def summary(name, rows):
    cells = []
    for column, _ in COLUMNS:
        gains = [row[column] for row in rows if row[column] is not None]
        cells.append(f"{percent(statistics.median(gains))}, {percent(max(gains))}, {percent(min(gains))}")
    return f"| {name} | {len(rows)} | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--group", choices=GROUPS, action="append", help="left out: all")
    parser.add_argument("--commands", action="store_true", help="print the commands, run nothing")
    arguments = parser.parse_args()
    groups = arguments.group or list(GROUPS)
    if arguments.commands:
        for group in groups:
            for datacenters, pipelines, batches in settings():
                for batch in batches:
                    print(shlex.join(command(datacenters, pipelines, [batch], *GROUPS[group][1:])))
        return
    tables = {GROUPS[group][0]: table(arguments.build.resolve(), group) for group in groups}
    print("\n| settings | rows | gain: median, best, worst | unsplit |\n|---|---|---|---|")
    for name, rows in tables.items():
        print(summary(name, rows))
    if len(tables) > 1:
        print(summary("all", [row for rows in tables.values() for row in rows]))


if __name__ == "__main__":
    main()
