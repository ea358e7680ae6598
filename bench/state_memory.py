#!/usr/bin/env python3
"""How much memory a run takes whose state is what fills it: a model of 0.7 billion parameters on four stages of this
host, in fp32 with AdamW (12 bytes a parameter, and 4 of gradients), trained for a step, checkpointed, and resumed.

    bench/state_memory.py [--build build/release] [--folder FOLDER] [--layers 21] [--hidden 1536] [--stages 4]
                          [--steps 1] [--limit-gib 16] [-- further options of tombolo train]

--steps: of the first run, with a checkpoint after each; the second one resumes and makes one more. Every 50 ms the
resident memory of all processes of the run is summed: rss counts a page of a library once for each process that has
it, pss (which takes longer to read, so near the peak only) once. Prints one line of JSON: peaks in GiB of both runs, by
process too, the peak before the first step began (what loading takes; --layers 4 --hidden 64 tells what LibTorch
takes of that), and what ranks said. Ends with 1 where a run fails or the sum of rss is above --limit-gib. Wants 30 GB
of disk below --folder (left out: the build folder's), which it empties, and half an hour at most.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 2**30
PAGE = os.sysconf("SC_PAGE_SIZE")
NEAR = 0.97  # of the largest sum so far: then pss is read as well

JOB = """
name = "state-memory"
[model]
layers = {layers}
hidden = {hidden}
heads = 16
ffn = {ffn}
vocabulary = 32000
sequence = 64
[[cluster.datacenter]]
name = "here"
# The catalog's "cpu" has 4 GiB.
device = {{ name = "core", kind = "cpu", peak = "90 GFLOPS", memory = "6 GiB", memory_bandwidth = "10 GBps" }}
nodes = 1
devices_per_node = {stages}
[training]
global_batch = 4
micro_batch = 1
precision = "fp32"
[parallelism]
pipeline = {stages}
layers_per_stage = {split}
[data]
text = "text.txt"
evaluation_fraction = 0
[run]
seed = 1
[checkpoint]
directory = "checkpoints"
every = 1
"""


def split(layers, stages):
    """Layers of each stage; embedding and head are about as large as two."""
    parts = [(layers + 4) // stages + (stage < (layers + 4) % stages) for stage in range(stages)]
    parts[0] -= 2
    parts[-1] -= 2
    return parts


def tree(root):
    """The process and all that descend from it."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def resident(pid):
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def proportional(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except OSError:
        return 0


def watch(command, log):
    """Runs it; peaks of both sums and what each process had at the peak of rss."""
    peaks = {"rss": 0, "pss": 0, "processes": []}
    start, sums, stepped = time.monotonic(), [], None
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        while process.poll() is None:
            each = sorted((resident(pid) for pid in tree(process.pid)), reverse=True)
            sums.append((time.monotonic(), sum(each)))
            found = not stepped and re.search(r"^step .* ([0-9.e+-]+) (m?s)/iteration", log.read_text("utf-8"), re.M)
            if found:
                stepped = time.monotonic() - float(found[1]) * (0.001 if found[2] == "ms" else 1)
            if sum(each) > peaks["rss"]:
                peaks.update(rss=sum(each), processes=each, at_s=round(time.monotonic() - start, 1))
            if sum(each) > NEAR * peaks["rss"]:
                peaks["pss"] = max(peaks["pss"], sum(proportional(pid) for pid in tree(process.pid)))
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if process.returncode != 0:
        with open(log, encoding="utf-8", errors="replace") as file:
            sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{file.read()[-4000:]}")
    peaks["loaded"] = max((each for at, each in sums if stepped and at < stepped), default=0)
    peaks["seconds"] = round(time.monotonic() - start, 1)
    with open(log, encoding="utf-8", errors="replace") as file:
        peaks["said"] = sorted(line.strip() for line in file if line.startswith("rank "))
    return peaks


def in_gib(peaks):
    return {"rss_gib": round(peaks["rss"] / GIB, 2), "loaded_rss_gib": round(peaks["loaded"] / GIB, 2),
            "pss_gib": round(peaks["pss"] / GIB, 2),
            "processes_gib": [round(each / GIB, 2) for each in peaks["processes"]], "peak_after_s": peaks["at_s"],
            "seconds": peaks["seconds"], "said": peaks["said"]}


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # by way of every finally
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=21)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--limit-gib", type=float, default=16)
    parser.add_argument("options", nargs="*")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    if not (build / "tombolo-worker").exists():
        sys.exit(f"{build / 'tombolo-worker'} is not built: cmake --build {build} --target tombolo tombolo-worker")
    ffn = arguments.hidden * 8 // 3 // 256 * 256
    folder = pathlib.Path(tempfile.mkdtemp(prefix="state-memory.", dir=arguments.folder or build))
    try:
        (folder / "text.txt").write_text("Sand ties the island to the mainland.\n" * 200, encoding="utf-8")
        job = folder / "job.toml"
        job.write_text(JOB.format(layers=arguments.layers, hidden=arguments.hidden, ffn=ffn, stages=arguments.stages,
                                  split=split(arguments.layers, arguments.stages)), encoding="utf-8")
        train = [build / "tombolo", "train", job, "--out", folder / "run", *arguments.options]
        first = watch([*train, "--steps", str(arguments.steps)], folder / "first.log")
        again = watch([*train, "--steps", str(arguments.steps + 1), "--resume"], folder / "again.log")
        newest = sorted((folder / "checkpoints").glob("step-*/manifest.json"))[-1]
        shards = json.loads(newest.read_text(encoding="utf-8"))["shards"]
        state = sum(shard["bytes"] for shard in shards)
    finally:
        shutil.rmtree(folder)
    peak = max(first["rss"], again["rss"])
    print(json.dumps({"parameters": state // 12, "state_gib": round(state / GIB, 2), "train": in_gib(first),
                      "resume": in_gib(again), "rss_gib": round(peak / GIB, 2),
                      "limit_gib": arguments.limit_gib}))
    sys.exit(0 if peak <= arguments.limit_gib * GIB else 1)


if __name__ == "__main__":
    main()
