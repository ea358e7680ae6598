#!/usr/bin/env python3
"""How fast a page of many ranks opens, and how long it takes to draw.

  bench/page_speed.py --build build/swift [--ranks 1024] [--microbatches 212] [--repeat 5] [--trace FILE]

Predicts 8 stages x RANKS/8 pipelines, which makes about a million intervals with 1,024 ranks, has `tombolo report` make the page,
and opens it in headless Chromium. Prints one JSON line: the size of the page; until its first timeline is drawn, from the start of
the navigation; and how long the timeline takes to draw, whole and on the way in to a thousandth of it, and with one stage opened.
Median, least and most of all repetitions, in milliseconds. --trace takes a Trace instead. Compare only what one machine measured
while nothing else ran.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))
from browser import Browser, missing  # noqa: E402

JOB = """
name = "{ranks} ranks"
[model]
layers = 32
hidden = 4096
heads = 32
vocabulary = 51200
sequence = 4096
[[cluster.datacenter]]
name = "oregon"
device = "a100-80g"
nodes = {half}
[[cluster.datacenter]]
name = "paris"
device = "a100-80g"
nodes = {half}
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "20 ms"
node_pair_limit = "25 Gbps"
[training]
global_batch = {batch}
micro_batch = 1
precision = "bf16"
recompute = "full"
[parallelism]
pipeline = 8
data = {pipelines}
schedule = "1f1b"
"""
FIRST_DRAWN = """return new Promise((done) => {
  const look = () => Number(document.getElementById('gantt').dataset.drawn) > 0
    ? requestAnimationFrame(() => done(performance.now())) : requestAnimationFrame(look);
  look(); })"""
# One drawing, and reading a pixel of it, which waits until it is done.
DRAW = """const pen = document.getElementById('gantt').getContext('2d'), times = [];
  for (const span of arguments[0]) {
    gantt.show(0.4 * gantt.view.end, (0.4 + span) * gantt.view.end);
    const start = performance.now();
    gantt.draw();
    pen.getImageData(0, 0, 1, 1);
    times.push(performance.now() - start);
  }
  return times"""
SPANS = [0.6, 0.3, 0.1, 0.03, 0.01, 0.001]


def spread(values):
    return {"median": round(statistics.median(values), 1), "min": round(min(values), 1), "max": round(max(values), 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "swift")
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--microbatches", type=int, default=212)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--trace", type=pathlib.Path)
    options = parser.parse_args()
    if missing():
        sys.exit("page_speed.py: " + missing())
    if options.ranks % 16 != 0:
        sys.exit(f"page_speed.py: --ranks {options.ranks}: wanted a multiple of 16, for 8 stages in two datacenters")
    tombolo = str((options.build / "tombolo").resolve())
    with tempfile.TemporaryDirectory() as folder:
        trace, page = options.trace or os.path.join(folder, "predicted.jsonl"), os.path.join(folder, "page.html")
        if not options.trace:
            pipelines = options.ranks // 8
            job = os.path.join(folder, "job.toml")
            pathlib.Path(job).write_text(JOB.format(ranks=options.ranks, half=options.ranks // 2, pipelines=pipelines,
                                                    batch=pipelines * options.microbatches))
            subprocess.run([tombolo, "simulate", job, "--out", trace], check=True, stdout=subprocess.DEVNULL)
        start = time.monotonic()
        subprocess.run([tombolo, "report", str(trace), "--out", page], check=True, stdout=subprocess.DEVNULL)
        made = time.monotonic() - start
        opened, drawn, whole, inside = [], [], [], []
        for _ in range(options.repeat):
            with Browser(1400, 900) as browser:
                browser.open(page)
                opened.append(browser.run(FIRST_DRAWN))
                errors = browser.errors()
                if errors:
                    sys.exit("page_speed.py: the page complains: " + "; ".join(errors))
                whole += browser.run(DRAW, [1] * 5)
                drawn += browser.run(DRAW, SPANS)
                browser.run("gantt.on_toggle(gantt.view.groups[0].lanes.find((entry) => entry.opens)?.block ?? '')")
                inside += browser.run(DRAW, [1, *SPANS])
                intervals = browser.run("return data.traces.map((trace) => trace.timeline.intervals)")
        print(json.dumps({
            "bench": "page_speed", "commit": commit(), "cores": os.cpu_count(), "ranks": options.ranks, "intervals": sum(intervals),
            "page_bytes": os.path.getsize(page), "made_s": round(made, 1), "open_ms": spread(opened), "draw_whole_ms": spread(whole),
            "draw_zoomed_ms": spread(drawn), "draw_opened_ms": spread(inside)}))


def commit():
    return subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
