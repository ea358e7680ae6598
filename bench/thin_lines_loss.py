#!/usr/bin/env python3
"""Loss against wall clock on a thin line: a decoder of 0.9 million parameters learns a text in two datacenters.

    bench/thin_lines_loss.py --text FILE [--build build/swift] [--steps 300] [--seeds 3] [--modes dense,local-30,...]

A mode is one of

    dense                        every gradient, every step
    sparse-DENSITY-STALENESS     and -fixed, -chunks, -int8, -int4 or -2bit behind it
    local-STEPS                  DiLoCo, and -pFRAGMENTS (streamed) or values behind it
    slocal-STEPS-DENSITY         sparse local steps, and -chunks or values behind it

with -b0 behind it for AdamW without a first moment (what is kept back is one), -nofeedback where nothing is kept back, and @STEPS
where it takes another number of steps than --steps, and so another schedule of the learning rate. Two replicas with LibTorch
on this machine, their links paced as two labs with 10 ms between them: what takes how long here means nothing, steps and losses
do. A loss is the mean training loss, in nats per byte, over the last 50 steps and all seeds; "after" is the first step from
which the mean over 50 steps is at most dense's loss.

The wall clock is a composite: these steps times the period of the model of bench/ddp_beside.py (46 MB, 170 ms of computing)
in that mode at 100 Mbps and a round trip of 2 ms, as `tombolo simulate` predicts it. DDP's is dense's steps times --ddp
seconds, measured by bench/ddp_beside.py. Runs are kept in --out, and what is there is not run again: the command can be
stopped and given again.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import ddp_beside

ROOT = pathlib.Path(__file__).resolve().parents[1]
WINDOW = 50
MODES = ("dense,sparse-0.05-1-b0@450,sparse-0.05-1-b0@600,sparse-0.05-1-2bit-b0@600,sparse-0.01-1-b0@900,sparse-0.05-1@600,"
         "sparse-0.015625-1-chunks-b0@600,local-10,local-30,local-30@600,local-30-p3@600,slocal-10-0.05@600,slocal-30-0.05@600,"
         "slocal-30-0.05-2bit@600,slocal-30-0.05-2bit-nofeedback@600,slocal-30-0.05-chunks@600,slocal-30-0.015625-2bit-chunks@600,"
         "slocal-10-0.05-2bit@600,slocal-10-0.05-chunks@600,local-10@600")
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
beta1 = {beta1}
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
    kind, *words = mode.split("-")
    names = {"sparse": ("sparse", ["density", "staleness"]), "local": ("local", ["steps"]),
             "slocal": ("sparse-local", ["steps", "density"])}
    name, keys = names[kind]
    out = f'[exchange]\nmode = "{name}"\n' + "".join(f"{key} = {word}\n" for key, word in zip(keys, words))
    for word in words[len(keys):]:
        if word == "b0":
            continue
        if word == "nofeedback":
            out += "decay = 0.0\n"
        elif word == "fixed":
            out += 'freshness = "fixed"\n'
        elif word == "chunks":
            out += 'select = "chunks"\n'
        elif word.startswith("p"):
            out += f"fragments = {word[1:]}\n"
        else:
            out += f'values = "{word}"\n'
    return out


def split(arguments, run):
    """(mode, steps)"""
    mode, _, steps = run.partition("@")
    return mode, int(steps or arguments.steps)


def losses(arguments, run, seed):
    """By step."""
    mode, steps = split(arguments, run)
    folder = arguments.out / f"{mode}-{arguments.rate}-{steps}-{seed}"
    trace = folder / "run" / "trace.jsonl"
    if not trace.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.toml").write_text(JOB.format(text=arguments.text.resolve(), steps=steps, seed=seed, rate=arguments.rate,
                                                    beta1=0.0 if "-b0" in mode else 0.9, exchange=exchange(mode)))
        done = subprocess.run([arguments.build / "tombolo", "train", "job.toml", "--out", "run"], cwd=folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{mode}, seed {seed}: {done.stderr}")
    entries = [json.loads(line) for line in trace.read_text().splitlines()]
    found = {e["iteration"]: e["value"] for e in entries if e.get("record") == "loss"}
    return [found[i] for i in sorted(found)]


def period(arguments, mode):
    """Seconds of a step of the 46 MB model, predicted; over whole rounds of local steps."""
    words = mode.split("-")
    every = int(words[1]) if words[0] in ("local", "slocal") else 4
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        steps = 3 * every + 3
        (folder / "job.toml").write_text(ddp_beside.JOB.format(one_way=1, mbps=100, loss=0.0, connections=8, control="cubic",
                                                               steps=steps) + exchange(mode))
        done = subprocess.run([arguments.build / "tombolo", "simulate", "job.toml", "--iterations", str(steps), "--out",
                               "trace.jsonl"], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{mode}: {done.stderr}")
        return statistics.mean(ddp_beside.periods((folder / "trace.jsonl").read_text())[-2 * every:])


def means(series):
    return [statistics.mean(series[i - WINDOW:i]) for i in range(WINDOW, len(series) + 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "swift")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("thin-lines-loss"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", default="3e-3")
    parser.add_argument("--ddp", type=float, default=4.338, help="seconds of a step of DDP on the same line")
    parser.add_argument("--modes", default=MODES)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    target = ddp_s = None
    print(f"| mode | steps | loss, last {WINDOW} | after | a step, s | wall clock, s | DDP's over it |")
    print("|---|---|---|---|---|---|---|")
    for run in arguments.modes.split(","):
        mode, steps = split(arguments, run)
        runs = [losses(arguments, run, seed) for seed in range(1, arguments.seeds + 1)]
        curve = means([statistics.mean(at) for at in zip(*runs)])
        target = curve[-1] if target is None else target
        ddp_s = steps * arguments.ddp if ddp_s is None else ddp_s
        there = next((i + WINDOW for i, loss in enumerate(curve) if loss <= target), None)
        step_s = period(arguments, mode)
        clock = f"{there * step_s:.0f} | {ddp_s / (there * step_s):.1f}" if there else "– | –"
        print(f"| {mode} | {steps} | {curve[-1]:.3f} | {there or 'never'} | {step_s:.3f} | {clock} |", flush=True)


if __name__ == "__main__":
    main()
