#!/usr/bin/env python3
"""Whether the way that `tombolo plan --across` recommends is the fastest when it is performed, on paced links of this machine.

    bench/ways_emulated.py [--build build/release] [--lines 8]

Two datacenters of two emulated devices on eight lines. Four ways of each are written with `--way N --out` and performed by
`tombolo train`; an iteration is the mean from start to start after the second, predicted by `tombolo simulate` in the same way.
Compared is what `--across` compares: an iteration times the steps that its mode needs to the same loss. Wanted: the recommended
one is the fastest performed or within 5 %, and iterations are within 10 % of their prediction.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import ddp_beside
from thin_lines_error import tombolo

# Mbps between two nodes, one way in ms.
LINES = [(20, 10), (20, 50), (50, 20), (100, 5), (100, 40), (200, 80), (400, 10), (1000, 20)]
WAYS = ["stages across", "gradients across, dense", "gradients across, local, 30 steps", "gradients across, sparse chunks 1.56 %"]

JOB = """
name = "ways"
[model]
layers = 8
hidden = 256
heads = 4
ffn = 768
vocabulary = 512
sequence = 128
{datacenters}
[[cluster.wan]]
between = ["lab", "cloud"]
one_way_latency = "{one_way} ms"
node_pair_limit = "{mbps} Mbps"
[training]
global_batch = 16
precision = "fp32"
[parallelism]
zero = 0
[run]
steps = 62
compare_replicas_every = 0
"""

DATACENTER = """[[cluster.datacenter]]
name = "{name}"
nodes = 2
devices_per_node = 1
device = {{ name = "slow", kind = "emulated", peak = "0.4 TFLOPS", memory = "4 GiB", memory_bandwidth = "200 GBps", efficiency = 0.5, attention_efficiency = 0.4 }}
"""


def period(path):
    return statistics.mean(ddp_beside.periods(path.read_text()))


def steps_of(row):
    """Two times thirty and two before; of what waits for every step as many as take twenty seconds."""
    return 62 if "local" in row["way"] else max(8, min(62, int(20 / row["iteration_s"])))


def perform(build, folder, job, number, steps):
    written = folder / f"way{number}.toml"
    tombolo(build, "plan", job, "--across", "--way", number, "--out", written)
    tombolo(build, "train", written, "--steps", steps, "--out", folder / f"run{number}")
    tombolo(build, "simulate", written, "--iterations", steps, "--out", folder / f"predicted{number}.jsonl")
    return period(folder / f"run{number}" / "trace.jsonl"), period(folder / f"predicted{number}.jsonl")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ddp_beside.ROOT / "build" / "release")
    parser.add_argument("--lines", type=int, default=len(LINES), help="so many of them")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    print("| line | way | steps x | emulated, ms | predicted, ms | emulated x steps, ms |")
    print("|---|---|---|---|---|---|")
    missed = 0
    for mbps, one_way in LINES[:arguments.lines]:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            job = folder / "job.toml"
            places = "".join(DATACENTER.format(name=place) for place in ("lab", "cloud"))
            job.write_text(JOB.format(datacenters=places, one_way=one_way, mbps=mbps))
            rows = json.loads(tombolo(build, "plan", job, "--across", "--json"))["ways"]
            scores = {}
            for number, row in enumerate(rows, 1):
                if row["way"] not in WAYS and number > 1:
                    continue
                emulated, predicted = perform(build, folder, job, number, steps_of(row))
                scores[row["way"]] = emulated * row["steps_factor"]
                error = predicted / emulated - 1
                missed += abs(error) > 0.10
                print(f"| {mbps} Mbps, {one_way} ms | {'**' if number == 1 else ''}{row['way']}{'**' if number == 1 else ''} | "
                      f"{row['steps_factor']:.2f} | {1e3 * emulated:.1f} | {1e3 * predicted:.1f} ({error:+.1%}"
                      f"{'' if abs(error) <= 0.10 else ', MISSED'}) | {1e3 * scores[row['way']]:.1f} |", flush=True)
            best = min(scores, key=scores.get)
            if scores[rows[0]["way"]] > 1.05 * scores[best]:
                missed += 1
                print(f"MISSED: on {mbps} Mbps, {one_way} ms {best} is faster than {rows[0]['way']}", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
