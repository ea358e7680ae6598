#!/usr/bin/env python3
"""Does a pair of strands that performs the plan of `tombolo strand` take as long as predicted? On one thread that computes.

    bench/strand_gain.py [--build build/release] [--repeats 15] [--layers 1] [--models dense|more]

Three small models, with a paced link that takes 30 or 45 % of a layer (strand_gain_bench.cc): a block is a layer forward of
one microbatch and backward of another. `more`: a mixture of experts, whose exchanges have a link of their own, a layer whose
activations are computed again, and both. Measured are medians of interleaved repeats; predictions are of operators' own times.
Wanted: pairs within 10 % of the prediction (median of the settings), at least 85 % of the predicted saving, no pair slower
than one after the other by more than the noise, and operators one by one at most 1.05 times the module in one graph.
Noise is how far two equal ways are apart, or half of the distance between their quartiles if that is more; a saving below it
is "not measurable here". Exit code 1 where something is missed or not measurable.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

SHARES = (0.3, 0.45)


def measured(program, share, options):
    answer = subprocess.run([program, "--share", str(share), "--repeats", str(options.repeats), "--layers", str(options.layers),
                             "--models", options.models], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def judged(row):
    alone = statistics.mean((row["alone_ms"], row["again_ms"]))
    noise = max(abs(row["alone_ms"] - row["again_ms"]), row["spread_ms"])
    saving, predicted = alone - row["pair_ms"], row["predicted_alone_ms"] - row["predicted_pair_ms"]
    return {**row, "alone": alone, "noise": noise, "saving": saving, "predicted": predicted, "achieved": saving / predicted,
            "error": row["pair_ms"] / row["predicted_pair_ms"] - 1, "measurable": noise < predicted}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--models", choices=("dense", "more"), default="dense")
    parser.add_argument("--json", action="store_true", help="rows as the program gives them")
    options = parser.parse_args()
    program = options.build / "strand_gain_bench"

    print("model   link MB/s  share   alone   intra    turn    pair  predicted  error  saved  predicted  achieved  noise  operators")
    rows = []
    for share in SHARES:
        for raw in measured(program, share, options):
            if options.json:
                print(json.dumps(raw))
            row = judged(raw)
            rows.append(row)
            print(f"{row['model']:7} {row['link_MBps']:9.1f} {row['share']:6.0%} {row['alone']:7.1f} {row['intra_ms']:7.1f} {row['turn_ms']:7.1f} "
                  f"{row['pair_ms']:7.1f} {row['predicted_pair_ms']:10.1f} {row['error']:+6.1%} {row['saving']:6.1f} "
                  f"{row['predicted']:10.1f} {row['achieved']:9.0%} {row['noise']:6.1f} {row['operators_of_graph']:10.3f}"
                  f"{'' if row['measurable'] else '  not measurable here'}", flush=True)

    error = statistics.median(abs(row["error"]) for row in rows)
    achieved = statistics.median(row["achieved"] for row in rows)
    cost = statistics.median(row["operators_of_graph"] for row in rows)
    slower = [row["model"] for row in rows if row["pair_ms"] > row["alone"] + row["noise"]]
    hidden = [row["model"] for row in rows if not row["measurable"]]
    print(f"median error {error:.1%} (wanted 10 %), median share of the saving {achieved:.0%} (wanted 85 %), operators cost {cost:.3f} "
          f"(wanted 1.05), slower than one after the other: {', '.join(slower) or 'none'}, not measurable: {', '.join(hidden) or 'none'}")
    return 1 if error > 0.1 or achieved < 0.85 or cost > 1.05 or slower or hidden else 0


if __name__ == "__main__":
    sys.exit(main())
