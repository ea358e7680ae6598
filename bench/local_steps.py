#!/usr/bin/env python3
"""What local steps between two datacenters cost over computation alone, performed on paced links of this machine and predicted.

    bench/local_steps.py [--build build/release] [--turns 2]

The job of bench/ddp_beside.py (46 MB of gradients in eight groups, 170 ms of waiting instead of computing), with an outer step every
H steps: at once, after a delay, and by fragments. Exposed: the share of H steps in which rank 0 waits for others (wanted: below 5 %
where it is streamed). Period: the mean from start to start over whole turns of H steps, without the first turn; predicted: that
of `tombolo simulate` of the same job (wanted: within 10 %).
"""
import argparse
import json
import pathlib
import sys
import tempfile

import ddp_beside
from thin_lines_error import tombolo

# Mbps, round trip in ms, H, whether exposed less than 5 % is wanted, more words of [exchange].
CELLS = [(100, 2, 50, False, 'values = "bf16"'), (100, 2, 50, True, 'values = "bf16"\nfragments = 4'),
         (100, 40, 50, True, 'values = "bf16"\nfragments = 4'), (100, 40, 50, True, 'values = "bf16"\ndelay = 13'),
         (100, 2, 10, False, 'values = "int4"'), (100, 2, 10, True, 'values = "int4"\nfragments = 2'),
         (100, 40, 10, True, 'values = "int4"\nfragments = 2'), (100, 40, 10, True, 'values = "int4"\ndelay = 5'),
         (10, 40, 10, False, 'values = "int4"\nfragments = 2')]
SPARSE = [(100, 2, 10, False, 'values = "2bit"\ndensity = 0.05'), (10, 40, 10, True, 'values = "2bit"\ndensity = 0.05\ndelay = 3')]
EXPOSED, WANTED = 0.05, 0.10


def turn(path, every):
    """Seconds of a step and the share exposed, over whole turns from the end, the last period aside."""
    trace = path.read_text()
    periods = ddp_beside.periods(trace)  # of iterations 3 and on
    turns = len(periods) // every * every
    waits = {}
    for line in trace.splitlines():
        entry = json.loads(line)
        if entry.get("record") == "exposed_s" and entry.get("rank") == 0:
            waits[entry["iteration"]] = entry["value"]
    last = 2 + len(periods)  # a step's wait lies in the next one's forward pass
    waited = sum(waits.get(i + 1, 0) for i in range(last - turns + 1, last + 1))
    return sum(periods[-turns:]) / turns, waited / sum(periods[-turns:])


def measure(build, mode, turns, cell):
    mbps, rtt, every, _, how = cell
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job = folder / "job.toml"
        steps = turns * every + 4
        job.write_text(ddp_beside.JOB.format(one_way=rtt / 2, mbps=mbps, loss=0.0, connections=8, control="cubic", steps=steps) +
                       f'[exchange]\nmode = "{mode}"\nsteps = {every}\n{how}\n')
        tombolo(build, "train", job, "--out", folder / "run", "--json")
        predicted = json.loads(tombolo(build, "simulate", job, "--json"))["iteration_ns"] / 1e9
        return *turn(folder / "run" / "trace.jsonl", every), predicted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ddp_beside.ROOT / "build" / "release")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--cells", help="which of them, from 0: 1,4")
    arguments = parser.parse_args()
    cells = [("local", cell) for cell in CELLS] + [("sparse-local", cell) for cell in SPARSE]
    if arguments.cells:
        cells = [cells[int(i)] for i in arguments.cells.split(",")]
    print("| path | H | exchange | a step, s | predicted, s | exposed |")
    print("|---|---|---|---|---|---|")
    for mode, cell in cells:
        mbps, rtt, every, hides, how = cell
        mine, exposed, predicted = measure(arguments.build.resolve(), mode, arguments.turns, cell)
        error = predicted / mine - 1
        print(f"| {mbps} Mbps, RTT {rtt} ms | {every} | {mode}, {', '.join(how.splitlines())} | {mine:.3f} | {predicted:.3f} ({error:+.1%}"
              f"{'' if abs(error) <= WANTED else ', MISSED'}) | {exposed:.1%}{', MISSED' if hides and exposed >= EXPOSED else ''} |",
              flush=True)


if __name__ == "__main__":
    main()
