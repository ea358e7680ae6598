#!/usr/bin/env python3
"""What prompts cost a run whose gaps they fill: two stages 20 ms apart, without and with prompts, in turns.

  bench/prompts_in_gaps.py --build build/swift [--turns 5] [--steps 100] [--piece "5 ms"]

Three clients ask for 24 tokens again and again. Losses must be the same numbers with prompts and without, and every answer that
of a decoder in plain PyTorch; the medians of both are a ratio within one run.
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def records(path, name):
    lines = map(json.loads, path.read_text().splitlines())
    return {line.get("iteration", 0): line["value"] for line in lines if line.get("record") == name}


def train(case, out, *options):
    command = [case.build / "tombolo", "train", "job.toml", "--data", "text.txt", "--out", out, "--json", *options]
    return subprocess.Popen(list(map(str, command)), cwd=case.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def iteration(run):
    out, err = run.communicate()
    assert run.returncode == 0, err
    return json.loads(out)["iteration_s"]


def ask_again_and_again(case, run, took):
    body = {"prompt": case.PROMPT, "max_tokens": case.LENGTH, "temperature": 0, "model": "weights"}
    while run.poll() is None:
        try:
            begin = time.monotonic()
            status, _, text = case.ask("/v1/completions", body)
            if status == 200:
                assert json.loads(text)["choices"][0]["text"] == case.wanted
                took.append(time.monotonic() - begin)
        except (OSError, http.client.HTTPException):  # the run is ending
            time.sleep(0.05)


def with_prompts(case, out, piece):
    run, took = train(case, out, "--prompt-weights", "weights", "--prompt-piece", piece), []
    socket = case.folder / out / "prompts.socket"
    while not socket.exists() and run.poll() is None:
        time.sleep(0.05)
    case.start("--run", socket)
    clients = [threading.Thread(target=ask_again_and_again, args=(case, run, took)) for _ in range(3)]
    for client in clients:
        client.start()
    seconds = iteration(run)
    for client in clients:
        client.join()
    case.stop()  # the front would wait for the next run
    return seconds, took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "torch")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--piece", default="5 ms")
    options = parser.parse_args()
    os.environ |= {"TOMBOLO_BUILD": str(options.build.resolve()), "TOMBOLO_TORCH": "1"}
    sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))
    import prefill_test

    class Bench(prefill_test.ServerCase):
        def runTest(self):
            self.build = options.build.resolve()
            self.wanted = prefill_test.text_of(self.answer)
            self.write("job.toml", re.sub("steps = .*", f"steps = {options.steps}", prefill_test.Gaps.JOB))
            self.write("text.txt", "The tide comes in over the sand and goes out again. " * 4000)
            without, filled, losses = [], [], None
            for turn in range(options.turns):
                without.append(iteration(train(self, f"alone{turn}")))
                seconds, took = with_prompts(self, f"both{turn}", options.piece)
                filled.append(seconds)
                trace = self.folder / f"both{turn}" / "trace.jsonl"
                losses = losses or records(self.folder / "alone0" / "trace.jsonl", "loss")
                self.assertEqual(records(trace, "loss"), losses)
                print(f"{without[-1]:.4f} s without, {seconds:.4f} s with {len(took)} answers of {self.LENGTH} tokens, "
                      f"{statistics.median(took or [0]):.2f} s each", flush=True)
            a, b = statistics.median(without), statistics.median(filled)
            print(f"median iteration: {a:.4f} s without, {b:.4f} s with: {100 * (b / a - 1):+.1f} %; {len(losses)} losses identical")

    import unittest
    result = unittest.TextTestRunner(verbosity=0).run(Bench())
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
