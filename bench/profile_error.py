#!/usr/bin/python3
"""How far off is a prediction from a profile? Profiles and trains in turns.

    bench/profile_error.py --build build/torch [--job examples/two-datacenters/job.toml] [--data FILE] [--precision bf16] [--rounds 5]

Each round measures the job's stages with `tombolo profile`, predicts from that and trains so many steps with `tombolo train
--hardware`. What is printed is the error of each round, predicted over measured less one, and the median of their sizes. A round
counts where the machine did nothing else: its load before, and the share of its cores that the run left idle, stand beside it.
Ranks compute for themselves, so a job needs as many idle cores as it has ranks.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def prepared(arguments, folder):
    """The job with other steps and precision, and folders of its own; the text beside it."""
    job = pathlib.Path(arguments.job).read_text()
    job = re.sub(r"(?m)^steps = .*", f"steps = {arguments.steps}", job)
    job = re.sub(r"(?ms)^\[checkpoint\].*?(?=^\[|\Z)", "", job)
    if arguments.precision:
        job = re.sub(r'(?m)^precision = .*', f'precision = "{arguments.precision}"', job)
    path = folder / "job.toml"
    path.write_text(job)
    text = pathlib.Path(arguments.data).resolve() if arguments.data else folder / "text.txt"
    if not arguments.data:
        text.write_text("the quick brown fox jumps over the lazy dog\n" * 20000)
    return path, text


def run(program, *command):
    done = subprocess.run([program, *map(str, command)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{program} {' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/torch")
    parser.add_argument("--job", default=ROOT / "examples/two-datacenters/job.toml")
    parser.add_argument("--data", help="a text; left out: one that is made up")
    parser.add_argument("--precision", choices=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    tombolo = pathlib.Path(arguments.build).resolve() / "tombolo"
    errors = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        job, text = prepared(arguments, folder)
        for number in range(1, arguments.rounds + 1):
            load = os.getloadavg()[0]
            run(tombolo, "profile", job, "--data", text, "--out", folder / "hardware.json")
            answer = json.loads(run(tombolo, "train", job, "--data", text, "--hardware", folder / "hardware.json", "--out",
                                    folder / f"run-{number}", "--json"))
            predicted, measured = answer["predicted_iteration_s"], answer["iteration_s"]
            errors.append(predicted / measured - 1)
            print(f"round {number}: predicted {predicted:.3f} s, measured {measured:.3f} s, off by {100 * errors[-1]:+.1f} %; load "
                  f"{load:.1f}, cores {100 * answer['machine']['cpu_busy']:.0f} % busy", flush=True)
    print(f"median size of the error: {100 * statistics.median(map(abs, errors)):.1f} %, largest {100 * max(map(abs, errors)):.1f} %")


if __name__ == "__main__":
    main()
