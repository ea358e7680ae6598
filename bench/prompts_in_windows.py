#!/usr/bin/env python3
"""What emulated ranks carry of prompts in the gaps that their Plan foresees, and what training notices: with and without, in turns.

  bench/prompts_in_windows.py --build build/release [--job examples/prefill/gpt-a.toml] [--tokens 2048] [--steps 100] [--turns 2]

Twelve "A100s" wait instead of computing and exchange real messages over a paced loopback, divided by --byte-scale. Every rank has
prompts without end. Utilisation is what its own Trace says: computations of training, and layers of prompts beside them, over the time
from the first computation to the last. Iterations are counted from one first computation of training to the next, but for the first three.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WARMUP = 3


def periods(trace):
    """Seconds from the first computation of an iteration to that of the next."""
    begins = {}
    for line in trace.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("lane") == "compute" and entry.get("iteration", 0) >= 1:
            begins[entry["iteration"]] = min(begins.get(entry["iteration"], entry["start_ns"]), entry["start_ns"])
    order = [begins[iteration] for iteration in sorted(begins)]
    return [(after - before) * 1e-9 for before, after in zip(order, order[1:])][WARMUP:]


def train(options, job, out, *more):
    command = [options.build / "tombolo", "train", job, "--out", out, "--steps", options.steps, "--json", *more]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), periods(out / "trace.jsonl")


def percentile_99(values):
    return statistics.quantiles(values, n=100, method="inclusive")[98]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--job", type=pathlib.Path, default=ROOT / "examples" / "prefill" / "gpt-a.toml")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--byte-scale", type=int, default=50)
    options = parser.parse_args()
    without, filled = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file in options.job.parent.glob("*.toml"):
            shutil.copy(file, folder)
        job = folder / options.job.name
        job.write_text(job.read_text() + f"\n[run]\nbyte_scale = {options.byte_scale}\n")
        for turn in range(options.turns):
            _, alone = train(options, job, folder / f"alone{turn}")
            answer, both = train(options, job, folder / f"both{turn}", "--prompt-load", options.tokens)
            without += alone
            filled += both
            use = answer["prompts"]
            print(f"turn {turn + 1}: {statistics.fmean(alone):.4f} s without, {statistics.fmean(both):.4f} s with; training "
                  f"{100 * use['training_share']:.1f} %, prompts {100 * use['prompt_share']:.1f} %, both "
                  f"{100 * (use['training_share'] + use['prompt_share']):.1f} %; training waited for {use['holds']} of {use['layers']} "
                  f"layers, {100 * use['held_share']:.2f} % of the time, {1e3 * use['held_max_s']:.1f} ms at most; guard "
                  f"{1e3 * use['guard_s']:.2f} ms at most; machine: {json.dumps(answer['machine'])}", flush=True)
    for what, of in (("mean", statistics.fmean), ("median", statistics.median), ("99th percentile", percentile_99)):
        a, b = of(without), of(filled)
        print(f"{what} of {len(filled)} iterations: {a:.4f} s without, {b:.4f} s with: {100 * (b / a - 1):+.2f} %")


if __name__ == "__main__":
    main()
