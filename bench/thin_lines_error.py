#!/usr/bin/env python3
"""How far predicted periods of sparse updates are from performed ones, on paced links of this machine.

    bench/thin_lines_error.py [--build build/release] [--steps 14]

The job of bench/ddp_beside.py (46 MB of gradients in eight groups, 170 ms of waiting instead of computing) with sparse updates:
with and without staleness, on lines that are wide enough and that are not. Performed: `tombolo train`, the mean from start
to start after the second iteration; predicted: `tombolo simulate` of the same job, the same mean.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import ddp_beside

# Mbps, round trip in ms, words of [exchange].
CELLS = [(100, 2, "staleness = 0"), (100, 40, "staleness = 0"), (10, 2, "staleness = 0"), (5, 2, "staleness = 1"),
         (5, 40, 'staleness = 1\nvalues = "2bit"'), (10, 40, 'freshness = "fixed"'), (2, 40, "staleness = 1"),
         (100, 40, "staleness = 0\ndensity = 0.05")]
WANTED = 0.10


def tombolo(build, *words):
    done = subprocess.run([build / "tombolo", *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def measure(build, steps, mbps, rtt, how):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job = folder / "job.toml"
        job.write_text(ddp_beside.JOB.format(one_way=rtt / 2, mbps=mbps, loss=0.0, connections=8, control="cubic", steps=steps) +
                       f'[exchange]\nmode = "sparse"\n{how}\n')
        answer = json.loads(tombolo(build, "train", job, "--out", folder / "run", "--json"))
        tombolo(build, "simulate", job, "--iterations", steps, "--out", folder / "predicted.jsonl")
        period = lambda path: statistics.mean(ddp_beside.periods((folder / path).read_text()))
        return period("run/trace.jsonl"), period("predicted.jsonl"), answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ddp_beside.ROOT / "build" / "release")
    parser.add_argument("--steps", type=int, default=14)
    arguments = parser.parse_args()
    print("| path | exchange | performed, s | predicted, s | waited, s | fresh groups |")
    print("|---|---|---|---|---|---|")
    for mbps, rtt, how in CELLS:
        mine, predicted, answer = measure(arguments.build.resolve(), arguments.steps, mbps, rtt, how)
        error = predicted / mine - 1
        fresh = f"{answer['fresh_share']:.0%}" if "fresh_share" in answer else "all"
        print(f"| {mbps} Mbps, RTT {rtt} ms | {', '.join(how.splitlines())} | {mine:.3f} | {predicted:.3f} ({error:+.1%}"
              f"{'' if abs(error) <= WANTED else ', MISSED'}) | {answer['exposed_s']:.3f} | {fresh} |", flush=True)


if __name__ == "__main__":
    main()
