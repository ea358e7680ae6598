#!/usr/bin/env python3
"""How long large clusters take to simulate, and in how much memory: an iteration on 100,000 H100 by `tombolo simulate`, in few and in
many pipelines, and one of GPT-1T on 65,536 GPUs by `tombolo astra`, with messages that share links; and how long `tombolo plan` takes for three models on
100,000 H100, on two threads.

    bench/hundred_thousand.py [--build build/release] [--trace]

--trace: the Trace of all ranks of the first job as well, some 260 MB in a temporary folder. Prints one line of JSON for each question, with wall
and CPU seconds and the peak of resident memory. Ends with 1 where a question takes more than is wanted: 60 s, 2 GB; of GPT-1T 60 s, 4 GB; to plan 10 s. A minute.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GPT_1T = ROOT / "examples" / "astra-sim"

JOB = """
[model]
preset = "{model}"
[[cluster.datacenter]]
name = "one"
device = "h100"
nodes = 12500
devices_per_node = 8
scale_up = {{ domain = 8, bandwidth = "450 GBps", latency = "1 us" }}
scale_out = {{ bandwidth = "400 Gbps", latency = "5 us" }}
[training]
global_batch = {batch}
micro_batch = 1
precision = "bf16"
recompute = "selective"
[parallelism]
tensor = {tensor}
pipeline = {pipeline}
data = {data}
zero = 1
schedule = "1f1b"
"""
PLANNED = [("llama3-70b", 100_000), ("llama3-8b", 400_000), ("gpt-1t", 16_384)]  # model, sequences of a batch
SHAPES = [("llama3-70b", 8, 4, 3125, 32), ("llama3-8b", 2, 4, 12500, 32), ("llama3-8b", 1, 2, 50000, 16)]  # model, tensor, pipeline, data, microbatches


def ask(program, arguments, wanted_gb, wanted_s=60):
    """Runs it; what it answered, took, and whether that is as wanted."""
    begin = time.monotonic()
    process = subprocess.Popen([program, *map(str, arguments), "--json"], stdout=subprocess.PIPE)
    answer = json.load(process.stdout)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took = {"wall_s": round(time.monotonic() - begin, 2), "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
            "peak_mb": round(usage.ru_maxrss * 1024 / 1e6, 1), **({"events": answer["events"]} if "events" in answer else {})}
    return answer, took, process.returncode == 0 and took["wall_s"] < wanted_s and took["peak_mb"] < 1000 * wanted_gb


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    program = options.build / "tombolo"
    fits = True
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.toml"
        for i, (model, tensor, pipeline, data, microbatches) in enumerate(SHAPES):
            job.write_text(JOB.format(model=model, tensor=tensor, pipeline=pipeline, data=data, batch=data * microbatches))
            for more in [[], ["--out", job.with_name("trace.jsonl")]][:2 if options.trace and i == 0 else 1]:
                answer, took, good = ask(program, ["simulate", job, *more], 2)
                fits = fits and good
                print(json.dumps({"bench": "hundred_thousand", "question": "simulate", "trace": bool(more), "model": model, "tensor": tensor,
                                  "pipeline": pipeline, "data": data, "iteration_s": answer["iteration_ns"] / 1e9, **took, "as_wanted": good}), flush=True)
        for model, batch in PLANNED:
            fixed = JOB.format(model=model, tensor=1, pipeline=1, data=1, batch=batch)
            job.write_text(fixed[:fixed.index("micro_batch")] + 'precision = "bf16"\nstack = "megatron"\n')
            answer, took, good = ask(program, ["plan", job, "--threads", "2"], 2, 10)
            fits = fits and good
            print(json.dumps({"bench": "hundred_thousand", "question": "plan", "model": model, "batch": batch, "iteration_s": answer["best"]["iteration_s"],
                              "finalists": answer["finalists"]["simulated"], **took, "as_wanted": good}), flush=True)
    files = ["--system-configuration", GPT_1T / "system.json", "--network-configuration", GPT_1T / "gpt-1t.yml"]
    for network, more in ("gpt-1t.yml", files), ("of the job's cluster", []):
        answer, took, good = ask(program, ["astra", "--job", GPT_1T / "gpt-1t.toml", "--law", "fluid", *more], 4)
        fits = fits and good
        print(json.dumps({"bench": "hundred_thousand", "question": "astra --law=fluid", "network": network, "npus": answer["npus"],
                          "simulated": answer["job"]["simulated_ranks"], "iteration_s": answer["finish_ns"] / 1e9, **took, "as_wanted": good}), flush=True)
    sys.exit(0 if fits else 1)


if __name__ == "__main__":
    main()
