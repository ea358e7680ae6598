#!/usr/bin/env python3
"""How many steps sparse, late updates cost: a decoder of 0.9 million parameters learns a text in two datacenters.

    bench/thin_lines_loss.py --text FILE [--build build/swift] [--steps 400] [--seeds 1] [--modes dense,sparse-0.05-1,...]

Two replicas with LibTorch on this machine, their links paced as two labs with 10 ms between them; what takes how long here
means nothing, steps and losses do. A mode is dense, or sparse-DENSITY-STALENESS, and -fixed or values behind it. A figure is
the mean training loss, in nats per byte, over the last 50 steps and all seeds; beside it the first step from which the mean
over 50 steps is at most dense's figure. Runs are kept in --out, and what is there is not run again.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WINDOW = 50
JOB = """
[model]
layers = 4
hidden = 128
heads = 4
ffn = 352
vocabulary = 256
sequence = 64
[[cluster.datacenter]]
name = "lab"
device = "cpu"
[[cluster.datacenter]]
name = "cloud"
device = "cpu"
[[cluster.wan]]
between = ["lab", "cloud"]
one_way_latency = "10 ms"
node_pair_limit = "1 Gbps"
[training]
global_batch = 8
micro_batch = 4
precision = "fp32"
[optimizer]
learning_rate = {rate}
warmup_steps = 20
learning_rate_min = 1e-4
[parallelism]
pipeline = 1
data = 2
datacenter_per_replica = ["lab", "cloud"]
[data]
text = "{text}"
evaluation_fraction = 0.1
[run]
steps = {steps}
seed = {seed}
compare_replicas_every = 100
{exchange}
"""


def exchange(mode):
    if mode == "dense":
        return ""
    words = mode.split("-")
    out = f'[exchange]\nmode = "sparse"\ndensity = {words[1]}\nstaleness = {words[2]}\n'
    for word in words[3:]:
        out += 'freshness = "fixed"\n' if word == "fixed" else f'values = "{word}"\n'
    return out


def losses(arguments, mode, seed):
    """By step."""
    folder = arguments.out / f"{mode}-{arguments.rate}-{arguments.steps}-{seed}"
    trace = folder / "run" / "trace.jsonl"
    if not trace.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.toml").write_text(JOB.format(text=arguments.text.resolve(), steps=arguments.steps, seed=seed,
                                                    rate=arguments.rate, exchange=exchange(mode)))
        done = subprocess.run([arguments.build / "tombolo", "train", "job.toml", "--out", "run"], cwd=folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{mode}, seed {seed}: {done.stderr}")
    entries = [json.loads(line) for line in trace.read_text().splitlines()]
    found = {e["iteration"]: e["value"] for e in entries if e.get("record") == "loss"}
    return [found[i] for i in sorted(found)]


def means(series):
    return [statistics.mean(series[i - WINDOW:i]) for i in range(WINDOW, len(series) + 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "swift")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("thin-lines-loss"))
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rate", default="3e-3")
    parser.add_argument("--modes", default="dense,sparse-1-0,sparse-0.05-0,sparse-0.05-1,sparse-0.01-1")
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    target = None
    print(f"| mode | loss, last {WINDOW} of {arguments.steps} steps | at dense's loss after |")
    print("|---|---|---|")
    for mode in arguments.modes.split(","):
        runs = [losses(arguments, mode, seed) for seed in range(1, arguments.seeds + 1)]
        curve = means([statistics.mean(at) for at in zip(*runs)])
        target = curve[-1] if target is None else target
        there = next((i + WINDOW for i, loss in enumerate(curve) if loss <= target), None)
        print(f"| {mode} | {curve[-1]:.3f} | {f'{there} steps' if there else 'never'} |", flush=True)


if __name__ == "__main__":
    main()
