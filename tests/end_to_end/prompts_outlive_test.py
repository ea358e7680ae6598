"""Prompts outlive who computes them: ranks, decode workers and fronts are killed and stopped; training notices nothing."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import threading
import time
import unittest

import prefill_test
from ports import free_ports
from prefill_test import GUARD_S, text_of
from program import needs_torch
from recovery_test import children

STEPS = 30
CHECKPOINTS = '\n[checkpoint]\ndirectory = "checkpoints"\nevery = 5\n'
GONE = 503


class OutliveCase(prefill_test.DecodingCase):
    def wait(self, holds, what):
        until = time.monotonic() + GUARD_S
        while not holds():
            self.assertLess(time.monotonic(), until, what)
            time.sleep(0.02)

    def health(self):
        return self.ask("/health")[0]

    def body(self, **fields):
        return {"model": "weights", "prompt": self.PROMPT, "max_tokens": self.LENGTH, "temperature": 0} | fields

    # Its text is that of plain PyTorch, or it is one error object with a status of its own (500: the front was ending).
    def check_answer(self, answer):
        status, headers, text = answer
        if status == 200:
            self.assertEqual(json.loads(text)["choices"][0]["text"], text_of(self.answer))
        else:
            self.assertIn((status, headers.get("Retry-After")), [(GONE, "1"), (500, None)], text)
            self.assertEqual(set(json.loads(text)), {"error"})

    # What has come of a stream is a part of the same text; where that ends early, one error object says why.
    def check_stream(self, answer):
        status, headers, text = answer
        if status != 200:
            return self.check_answer(answer)
        self.assertTrue(text.endswith("\n\ndata: [DONE]\n\n"), text)
        events = [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n")[:-2]]
        errors = [event for event in events if "error" in event]
        said = "".join(event["choices"][0]["text"] for event in events if "error" not in event)
        if errors:
            self.assertEqual(errors, events[-1:])
            self.assertTrue(text_of(self.answer).startswith(said.rstrip("\ufffd")), said)
        else:
            self.assertEqual(said, text_of(self.answer))

    # Asks in a thread until it is told to stop, whole answers and streams in turns; all are checked in the end.
    def keep_asking(self):
        answers, done = [], threading.Event()

        def ask():
            while not done.is_set():
                try:
                    answers.append(self.ask("/v1/completions", self.body(stream=len(answers) % 2 == 1)))
                except (OSError, http.client.HTTPException):  # the front has ended
                    return
                if answers[-1][0] != 200:
                    time.sleep(0.02)

        client = threading.Thread(target=ask)
        client.start()

        def stop():
            done.set()
            client.join(timeout=GUARD_S)
            self.assertFalse(client.is_alive(), "a client gets no answer")
            for i, answer in enumerate(answers):
                (self.check_stream if i % 2 == 1 else self.check_answer)(answer)
            return answers

        self.addCleanup(stop)
        return stop

    # A prompt is under way, or was answered just now.
    def wait_for_a_prompt(self):
        self.wait(lambda: "requests_running 1" in self.ask("/metrics")[2], "no prompt is under way")


@needs_torch
class OutliveRuns(OutliveCase):
    """A rank of a run answers in its gaps; losses are those of a run without prompts."""

    def alone(self):
        self.write("job.toml", self.job())
        self.write("text.txt", "The tide comes in over the sand and goes out again. " * 1000)
        done = prefill_test.Gaps.train(self, "alone")
        prefill_test.Gaps.ended(self, done)
        shutil.rmtree(self.folder / "checkpoints")

    def job(self, prefill=""):
        return prefill_test.Gaps.JOB.replace("steps = 60", f"steps = {STEPS}") + CHECKPOINTS + prefill

    def train(self, *options):
        self.run_ = prefill_test.Gaps.train(self, "both", "--prompt-weights", "weights", "--prompt-rank", 1, *options)
        self.addCleanup(self.end_run)
        self.path = self.folder / "both" / "prompts.socket"
        self.wait(lambda: self.path.exists() or self.run_.poll() is not None, "the rank opens no socket")

    def end_run(self):
        if self.run_.poll() is None:
            self.run_.kill()
            self.run_.communicate()

    # The process of the rank that answers.
    def rank(self):
        for launcher in children(self.run_.pid):
            for pid in children(launcher):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"--rank" in words and words[words.index(b"--rank") + 1] == b"1":
                    return pid
        self.fail("rank 1 is not there")

    def same_losses(self):
        prefill_test.Gaps.ended(self, self.run_)
        alone, both = (self.records(self.folder / out / "trace.jsonl", "loss") for out in ("alone", "both"))
        self.assertEqual(len(alone), STEPS)
        self.assertEqual(alone, both)

    # The front outlives it: what is under way is asked again, what comes meanwhile is refused.
    def test_a_rank_that_is_killed(self):
        self.alone()
        self.train()
        self.start("--run", self.path, "--patience", "200 s")
        stop = self.keep_asking()
        self.wait(lambda: list(self.folder.glob("checkpoints/step-*/manifest.json")), "no checkpoint comes")
        self.wait_for_a_prompt()
        os.kill(self.rank(), signal.SIGKILL)
        begun = time.monotonic()
        self.wait(lambda: self.health() == GONE, "nobody misses the rank")
        self.wait(lambda: self.health() == 200 or self.run_.poll() is not None, "the rank does not come back")
        away = time.monotonic() - begun
        answers = stop()
        self.assertTrue(answers)
        whole = sum(answer[0] == 200 for answer in answers)
        print(f"away for {away:.1f} s; {whole} answers, {len(answers) - whole} errors")
        self.same_losses()
        self.assertIsNone(self.server.poll())

    # Silence is noticed, and borne for so long; the rank goes on as if nothing had been.
    def test_a_rank_that_is_stopped(self):
        self.alone()
        self.train()
        self.start("--run", self.path, "--patience", "5 s")
        stop = self.keep_asking()
        self.wait_for_a_prompt()
        rank = self.rank()
        os.kill(rank, signal.SIGSTOP)
        self.addCleanup(lambda: pathlib.Path(f"/proc/{rank}").exists() and os.kill(rank, signal.SIGCONT))
        self.wait(lambda: self.health() == GONE, "nobody notices the silence")
        os.kill(rank, signal.SIGCONT)
        self.wait(lambda: self.health() == 200 or self.run_.poll() is not None, "the rank does not come back")
        if self.run_.poll() is None:
            os.kill(rank, signal.SIGSTOP)
        self.assertEqual(self.server.wait(timeout=GUARD_S), 1)
        if self.run_.poll() is None:
            os.kill(rank, signal.SIGCONT)
        stop()
        errors = self.server.stderr.read()
        self.assertIn("the worker has said nothing for 5 s; it is awaited for 5 s", errors)
        self.assertIn("was not back within 5 s", errors)
        self.same_losses()

    # Its prompt took all of the memory that the rank has for prompts: the next one is answered when that is free.
    def test_a_front_that_is_killed(self):
        self.alone()
        config = json.loads((self.folder / "weights" / "config.json").read_text())
        heads = config.get("num_key_value_heads", config["num_attention_heads"])
        size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        room = len(self.PROMPT) + 90 - 1
        self.train("--prompt-memory", f"{room * 2 * config['num_hidden_layers'] * heads * size * 4} B")
        self.start("--run", self.path)
        long = json.dumps(self.body(max_tokens=90, stream=True))
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(long)}\r\n\r\n{long}".encode())
            self.assertTrue(client.recv(200))
            self.server.kill()
            self.server.communicate()
        self.start("--run", self.path)
        self.assertEqual(self.completion(max_tokens=90)["usage"]["completion_tokens"], 90)
        self.stop()
        self.same_losses()

    # Gaps that bring no first token in time refuse at once and say so; those of a run that allows more time accept. One that may wait
    # is answered by both.
    def test_admission_by_gaps(self):
        self.write("text.txt", "The tide comes in over the sand and goes out again. " * 1000)
        for ttft_max, wanted in (("1 us", GONE), ("1 h", 200)):
            with self.subTest(ttft_max=ttft_max):
                job = self.job().replace(f"steps = {STEPS}", "steps = 5000")  # it is killed before
                self.write("job.toml", job + f'[prefill]\nmodel = "llama3-8b"\nmemory = "2 GB"\nttft_max = "{ttft_max}"\n')
                self.train()
                self.start("--run", self.path, "--patience", "200 s")
                self.assertEqual(self.completion()["choices"][0]["text"], text_of(self.answer))
                status, headers, text = self.ask("/v1/completions", self.body())
                while status != wanted and self.run_.poll() is None:  # nor when the iteration began, at first
                    status, headers, text = self.ask("/v1/completions", self.body())
                self.assertEqual(status, wanted, text)
                if wanted == GONE:
                    self.assertEqual(headers["Retry-After"], "1")
                    self.assertIn("the gaps of training leave no room for its first token within 1 us", text)
                    self.assertEqual(self.completion()["choices"][0]["text"], text_of(self.answer))
                else:  # and it outlives the rank
                    os.kill(self.rank(), signal.SIGKILL)
                    self.wait(lambda: self.health() == GONE, "nobody misses the rank")
                    self.assertEqual(self.completion()["choices"][0]["text"], text_of(self.answer))
                self.stop()
                self.end_run()
                shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)
                shutil.rmtree(self.folder / "both")


@needs_torch
class OutliveDecodeWorkers(OutliveCase):
    def start_both(self):
        self.decode_port = free_ports()
        self.start(*self.decoder_at_its_place(), "--patience", "200 s")

    def decoder_at_its_place(self):
        return self.start_decoder("--token", "0123456789abcdef" * 2, port=self.decode_port)

    def refused_meanwhile(self):
        self.wait(lambda: self.health() == GONE, "nobody misses the decode worker")
        self.assertEqual(self.ask("/v1/completions", self.body())[0], GONE)

    def back(self, stop):
        self.wait(lambda: self.health() == 200, "the decode worker does not come back")
        self.assertEqual(self.completion()["choices"][0]["text"], text_of(self.answer))
        stop()
        self.assertIsNone(self.server.poll())

    def test_one_that_is_killed(self):
        self.start_both()
        stop = self.keep_asking()
        self.wait_for_a_prompt()
        for pid in self.decoder_pids():
            os.kill(pid, signal.SIGKILL)
        self.decoder.communicate(timeout=GUARD_S)
        self.assertEqual(self.decoder.returncode, 1)
        self.refused_meanwhile()
        self.decoder_at_its_place()
        self.back(stop)

    def test_one_that_is_stopped(self):
        self.start_both()
        stop = self.keep_asking()
        self.wait_for_a_prompt()
        worker, = self.decoder_pids()
        os.kill(worker, signal.SIGSTOP)
        self.addCleanup(lambda: pathlib.Path(f"/proc/{worker}").exists() and os.kill(worker, signal.SIGCONT))
        self.refused_meanwhile()
        os.kill(worker, signal.SIGCONT)
        self.back(stop)


if __name__ == "__main__":
    unittest.main()
