#!/usr/bin/env python3
"""Two shards of a rank, or experts shared out, beside two replicas with the same work, on two cores: what cutting layers costs.

    bench/shard_throughput.py [--build build/release] [--rounds 3] [--hidden 512]

A decoder of four layers is trained on bytes of a text (LICENSE): by tensor 2, with and without sequence parallelism, by
context 2 and by data 2, which take turns; and a mixture of eight experts by data 2 with all experts in each replica, or half of
them. An iteration is the median from start to start after the second one; a figure is
the median over the rounds of data 2's divided by it. Wanted: tensor 2 at least 0.85 of data 2's throughput. Three minutes
on an idle machine. Exit code 1 where that is missed.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

import ddp_beside
from thin_lines_error import tombolo

WANTED = 0.85
STEPS = 10

JOB = """
[model]
layers = 4
hidden = {hidden}
heads = 8
ffn = {ffn}
vocabulary = 256
sequence = 256
{model}
[[cluster.datacenter]]
name = "here"
device = "cpu"
devices_per_node = 2
[training]
global_batch = 8
micro_batch = 2
precision = "fp32"
[parallelism]
pipeline = 1
{degrees}
[data]
text = "{text}"
evaluation_fraction = 0
[run]
steps = {steps}
"""

WAYS = {"data 2": "data = 2", "tensor 2": "tensor = 2", "tensor 2, sequence parallel": "tensor = 2\nsequence_parallel = true",
        "context 2": "context = 2"}
EXPERTS = {"data 2": "data = 2", "expert 2": "data = 2\nexpert = 2"}


def period(build, folder, degrees, hidden, model=""):
    job, out = folder / "job.toml", folder / "run"
    job.write_text(JOB.format(hidden=hidden, ffn=hidden * 11 // 4 // 16 * 16, degrees=degrees, steps=STEPS, model=model,
                              text=pathlib.Path(__file__).resolve().parent.parent / "LICENSE"))
    tombolo(build, "train", job, "--out", out)
    return statistics.median(ddp_beside.periods((out / "trace.jsonl").read_text()))


def compare(asked, ways, model):
    """Prints each way's iteration, and returns its throughput beside data 2's."""
    taken = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(asked.rounds):
            for way, degrees in ways.items():
                taken[way].append(period(asked.build, pathlib.Path(folder), degrees, asked.hidden, model))
    ratios = {}
    for way, seconds in taken.items():
        ratios[way] = statistics.median(base / each for base, each in zip(taken["data 2"], seconds))
        print(f"{'experts, ' if model else ''}{way}: {1e3 * statistics.median(seconds):.0f} ms an iteration, "
              f"{ratios[way]:.2f} of data 2's throughput")
    return ratios


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=512)
    asked = parser.parse_args()
    mixture = f"experts = {{count = 8, per_token = 2, ffn = {asked.hidden * 11 // 8 // 16 * 16}}}"
    ratios = compare(asked, WAYS, "")
    compare(asked, EXPERTS, mixture)
    missed = ratios["tensor 2"] < WANTED
    print(f"tensor 2: wanted {WANTED} of data 2, {'missed' if missed else 'met'}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
