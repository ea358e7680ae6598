#!/usr/bin/env python3
"""What a density that follows the line is worth, in virtual time.

    bench/adaptive_density.py [--seeds 1 2 3] [--iterations 3500] [--mean "193 Mbps"] [--batch 20]

examples/thin-lines/fluctuating.toml over traces of 50 to 600 Mbps: density = "auto" next to densities that stay. Prints the mean
period, its coefficient of variation, the mean density, and how long training takes to the same loss relative to the best fixed density:
each iteration brings 1 / k of what a dense step brings. Three profiles: k of docs/laws/steps_to_a_loss.md, 1.40 at 5 % and 2.01 at 1 %,
as a power of the density between and around; one of a model that hardly minds, half as steep; and the one that `tombolo tune` fitted to
short trainings of the decoder of examples/thin-lines/tune.toml, with this batch.
"""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("TOMBOLO_BUILD", ROOT / "build" / "swift"))
JOB = ROOT / "examples" / "thin-lines" / "fluctuating.toml"
AUTO = 'density = "auto"'
FIXED = (0.03, 0.02, 0.01, 0.005, 0.002)
POWER = math.log(2.01 / 1.40) / math.log(5)


def power(exponent):
    return lambda density: 1.40 * (0.05 / density)**exponent


def fitted(batch):
    """Between the densities that `tombolo tune` prints, straight over logarithms."""
    folder = ROOT / "examples" / "thin-lines"
    text = subprocess.run([BUILD / "tombolo", "tune", folder / "tune.toml", "--profile", folder / "tune-profile.json"], check=True,
                          capture_output=True, text=True).stdout.splitlines()[1:]
    batches = re.findall(r"batch (\d+)", text[0])
    points = []
    for line in text[1:]:
        cells = line.replace("x ", "").split()
        if len(cells) != len(batches) + 1:
            break
        points.append((math.log(float(cells[0])), math.log(float(cells[1 + batches.index(str(batch))]))))
    points.sort()

    def factor(density):
        at = math.log(density)
        after = min(max(sum(x <= at for x, _ in points), 1), len(points) - 1)
        (x0, y0), (x1, y1) = points[after - 1:after + 1]
        return math.exp(y0 + (y1 - y0) * (at - x0) / (x1 - x0))
    return factor


def simulated(folder, density, iterations):
    text = JOB.read_text()
    if density is not None:
        text = text.replace(AUTO, f"density = {density}").replace("density_range = [0.002, 0.05]\n", "")
    (folder / "job.toml").write_text(text)
    done = subprocess.run([BUILD / "tombolo", "simulate", folder / "job.toml", "--iterations", str(iterations), "--json"], check=True,
                          capture_output=True, text=True)
    return json.loads(done.stdout)["over_time"]


def row_of(answer, profiles):
    rows = answer["iterations"]
    span = sum(row["period_ns"] for row in rows)
    times = [span / sum(1 / steps(row["density"]) for row in rows) for steps in profiles]
    return {"period_ms": answer["period"]["mean_ns"] * 1e-6, "variation": answer["period"]["variation"],
            "density": sum(row["density"] for row in rows) / len(rows), "times": times}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--iterations", type=int, default=3500)
    parser.add_argument("--mean", default="193 Mbps")
    parser.add_argument("--batch", type=int, default=20)
    options = parser.parse_args()
    profiles = (power(POWER), power(POWER / 2), fitted(options.batch))
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            trace = subprocess.run([BUILD / "tombolo-islands", "trace", "--seed", str(seed), "--mean", options.mean], check=True,
                                   capture_output=True, text=True).stdout
            (folder / "fluctuating.csv").write_text(trace)
            table = {each: row_of(simulated(folder, each, options.iterations), profiles) for each in (None, *FIXED)}
        best = [min(table[each]["times"][p] for each in FIXED) for p in range(len(profiles))]
        print(f"seed {seed}, predicted, {options.iterations} iterations")
        for each, row in table.items():
            to_loss = "  ".join(f"{row['times'][p] / best[p]:.3f}" for p in range(len(profiles)))
            print(f"  {'auto' if each is None else format(each, 'g'):>6}  period {row['period_ms']:6.1f} ms  variation "
                  f"{row['variation']:.3f}  mean density {row['density']:.4f}  time to the loss / best fixed: {to_loss}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
