"""Ranks of a run that share the layers of a prompt's model, as a client of `tombolo prefill --run` sees them."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import threading
import time
import unittest

import prefill_test
from ports import free_ports
from prefill_test import ID, VOCABULARY_OF_BYTES, text_of
from program import BUILD, GUARD_S, needs_torch
from weights_test import VOCABULARY, WeightCase

JOB = """
[model]
layers = 4
hidden = 64
heads = 4
vocabulary = 256
sequence = 32
{datacenters}
[training]
global_batch = 8
micro_batch = 1
precision = "fp32"
[parallelism]
pipeline = {pipeline}
data = {data}
schedule = "1f1b"
[run]
steps = {steps}
"""
DATACENTER = '[[cluster.datacenter]]\nname = "{}"\ndevice = "cpu"\nnodes = {}\nscale_out = {{ bandwidth = "1 Gbps", latency = "5 ms" }}\n'
WAN = '[[cluster.wan]]\nbetween = ["oregon", "paris"]\none_way_latency = "20 ms"\nnode_pair_limit = "1 Gbps"\n'


def job(one_datacenter=True, steps=60):
    """Four ranks: a pipeline of four stages in one datacenter, or two of two stages over two."""
    places = DATACENTER.format("oregon", 4) if one_datacenter else DATACENTER.format("oregon", 2) + DATACENTER.format("paris", 2) + WAN
    return JOB.format(datacenters=places, pipeline=4 if one_datacenter else 2, data=1 if one_datacenter else 2, steps=steps)


def rank_pids(pid):
    """{rank: process} of the workers below a launcher."""
    out = {}
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            words = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if b"--rank" in words:
                out[int(words[words.index(b"--rank") + 1])] = int(child)
            out |= rank_pids(child)
    return out


class RingCase(prefill_test.DecodingCase):
    def setUp(self):
        super().setUp()
        self.write("text.txt", "The tide comes in over the sand and goes out again. " * 1000)

    train, ended = prefill_test.Gaps.train, prefill_test.Gaps.ended

    def answering(self, ranks):
        """A run whose ranks answer, once they do."""
        run = self.train("both", "--prompt-weights", "weights", "--prompt-ranks", ",".join(map(str, ranks)))
        self.addCleanup(run.kill)
        self.path = self.folder / "both" / "prompts.socket"
        self.wait_for(self.path.exists, run)
        return run

    def wait_for(self, there, run):
        until = time.monotonic() + GUARD_S
        while not there():
            self.assertIsNone(run.poll(), run.stderr.read() if run.poll() is not None else "")
            self.assertLess(time.monotonic(), until, "it never comes")
            time.sleep(0.01)

    def losses(self, out):
        return self.records(self.folder / out / "trace.jsonl", "loss")


# Several prompts through the messages of a ring, shard by shard, against decoders in plain PyTorch.
@needs_torch
class RingLogits(WeightCase):
    def check(self, family, lengths, shards, context=0, **changes):
        prompts = prefill_test.draw_prompts(lengths)
        tokens = prefill_test.ANSWER
        answers = self.prepare(family, prompts=prompts, answer_tokens=tokens, **changes)["answers"]
        for i, prompt in enumerate(prompts):
            form = f"<{tokens * VOCABULARY}f"
            wanted = struct.unpack(form, (self.folder / f"answer-{i}.bin").read_bytes())
            for number in shards:
                command = [BUILD / "ring_text", self.folder / "weights", number, ",".join(map(str, prompt)), tokens,
                           self.folder / "ours.bin", context]
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=GUARD_S)
                what = f"{family}, {len(prompt)} tokens, {number} ranks"
                self.assertEqual(done.returncode, 0, f"{what}: {done.stderr}")
                worst = max(abs(a - b) for a, b in zip(struct.unpack(form, (self.folder / "ours.bin").read_bytes()), wanted))
                print(f"{what}: logits off by {worst:.1e} at most, of up to {max(map(abs, wanted)):.1f}")
                self.assertLess(worst, 1e-4, what)
                self.assertEqual([int(token) for token in done.stdout.split(",")], answers[i], what)

    def test_llama(self):
        self.check("llama", [1, 58], [2, 4])

    def test_mistral_of_bf16_weights(self):
        self.check("mistral", [26], [2], context=32, dtype="BF16")

    def test_qwen2_of_f16_weights(self):
        self.check("qwen2", [40], [2], dtype="F16")

    # Its embedding is the head too: the first and the last rank have it both.
    def test_qwen3(self):
        self.check("qwen3", [1, 33], [4])

    def test_gpt2(self):
        self.check("gpt2", [18], [2])


@needs_torch
class PromptRanks(RingCase):
    # The texts of plain PyTorch, drawn ones those of one process; losses those of a run without prompts.
    def test_texts_of_one_process(self):
        # One token, a usual prompt, and one that leaves room for two tokens of the model's 128.
        questions = [{"prompt": [ID[ord("T")]], "max_tokens": 9}, {}, {"temperature": 1.5, "seed": 3},
                     {"prompt": "The tide comes in. " * 6 + "The tide.", "max_tokens": 5}]
        self.start()
        wanted = [self.completion(**question)["choices"] for question in questions]
        weight_bytes, kv_bytes = self.facts["weight_bytes"], self.facts["kv_bytes_per_token"]
        self.assertEqual(self.stop(), 0)
        self.assertEqual(wanted[1][0]["text"], text_of(self.answer))
        for one_datacenter, ranks, steps in [(False, [3, 2], 60), (True, [0, 2, 1, 3], 120)]:
            with self.subTest(ranks=ranks):
                shutil.rmtree(self.folder / "both", ignore_errors=True)
                self.write("job.toml", job(one_datacenter, steps))
                self.ended(self.train("alone"))
                run = self.answering(ranks)
                self.start("--run", self.path, "--patience", "1 s")
                self.assertEqual((self.facts["weight_bytes"], self.facts["kv_bytes_per_token"]), (weight_bytes, kv_bytes))
                got = [self.completion(**question)["choices"] for question in questions]
                self.ended(run)
                self.assertEqual(got, wanted)
                self.assertEqual(self.server.wait(timeout=GUARD_S), 1)  # the run has ended
                self.assertEqual(len(self.losses("alone")), steps)
                self.assertEqual(self.losses("alone"), self.losses("both"))
                # Each has its share of the four layers in every pass.
                layers = self.records(self.folder / "both" / "trace.jsonl", "prompt_layers", by="rank")
                self.assertEqual(sorted(layers), sorted(ranks))
                passes = 9 + 2 * self.LENGTH + 5
                self.assertEqual(set(layers.values()), {passes * 4 // len(ranks)})

    # Each rank sends keys and values of its layers to a decode worker, which goes on with the same texts.
    def test_texts_with_a_decode_worker(self):
        questions = [{}, {"temperature": 1.5, "seed": 3}, {"max_tokens": 1}, {"prompt": "The tide comes in. " * 6, "max_tokens": 5}]
        self.start()
        wanted = [self.completion(**question)["choices"] for question in questions]
        self.assertEqual(self.stop(), 0)
        self.write("job.toml", job())
        self.ended(self.train("alone"))
        words = self.start_decoder()
        run = self.answering([0, 2, 1, 3])
        self.start("--run", self.path, "--patience", "1 s", *words)
        got = [self.completion(**question)["choices"] for question in questions]
        self.ended(run)
        self.assertEqual(got, wanted)
        self.assertEqual(self.losses("alone"), self.losses("both"))
        # One pass of each prompt, and not one for each token.
        layers = self.records(self.folder / "both" / "trace.jsonl", "prompt_layers", by="rank")
        self.assertEqual(layers, {rank: len(questions) for rank in range(4)})

    # Whoever it was: decode worker, a rank in the middle with its run, a front. All link anew, and texts are the same.
    def test_links_to_a_decode_worker_that_are_lost(self):
        self.write("job.toml", job(steps=5000))  # it is killed before
        port = free_ports()
        decoder = lambda: self.start_decoder("--token", "0123456789abcdef" * 2, port=port)
        words = decoder()
        run = self.answering([0, 1, 2])
        text = text_of(self.answer)
        self.start("--run", self.path, "--patience", "200 s", *words)
        self.assertEqual(self.completion()["choices"][0]["text"], text)
        for pid in self.decoder_pids():
            os.kill(pid, signal.SIGKILL)
        self.decoder.communicate(timeout=GUARD_S)
        decoder()
        self.assertEqual(self.completion()["choices"][0]["text"], text)
        os.kill(rank_pids(run.pid)[1], signal.SIGKILL)
        self.assertEqual(self.completion()["choices"][0]["text"], text)
        self.server.kill()
        self.server.communicate(timeout=GUARD_S)
        self.start_once_served(["--run", self.path, *words])
        self.assertEqual(self.completion()["choices"][0]["text"], text)
        self.stop()
        run.kill()
        run.communicate(timeout=GUARD_S)

    # A run with two pipelines of ranks, one in each datacenter: prompts that come at once go to both.
    def test_pipelines(self):
        self.write("job.toml", job(False))
        ask = ("train", "job.toml", "--data", "text.txt", "--prompt-weights", "weights", "--prompt-ranks")
        self.refused(2, ["--prompt-ranks 2,1", "rank 1 stands there twice"], *ask, "0,1", "--prompt-ranks", "2,1")
        self.refused(2, ["--prompt-ranks 1,x", "no ranks"], *ask, "1,x")
        self.ended(self.train("alone"))
        run = self.train("both", "--prompt-weights", "weights", "--prompt-ranks", "0,1", "--prompt-ranks", "3,2")
        self.addCleanup(run.kill)
        sockets = [self.folder / "both" / name for name in ("prompts.socket", "prompts-1.socket")]
        for path in sockets:
            self.wait_for(path.exists, run)
        runs = [word for path in sockets for word in ("--run", path)]
        self.refused(2, ["one --run"], "prefill", "--weights", "weights", "--listen", "127.0.0.1:0", *runs, "--decode", "127.0.0.1:9",
                     "--decode-token", "0" * 32)
        self.start(*runs)
        texts = []
        threads = [threading.Thread(target=lambda: texts.append(self.completion()["choices"][0]["text"])) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(texts, [text_of(self.answer)] * 6)
        self.stop()
        self.ended(run)
        self.assertEqual(self.losses("alone"), self.losses("both"))
        layers = self.records(self.folder / "both" / "trace.jsonl", "prompt_layers", by="rank")
        self.assertEqual(sum(layers.values()), 6 * self.LENGTH * 4)
        self.assertEqual([layers[0], layers[2]], [layers[1], layers[3]])
        self.assertGreater(min(layers.values()), 0)

    # Every family, several prompts at once.
    def test_families(self):
        self.write("job.toml", job())
        cases = [("mistral", "BF16", {"sliding_window": 128, "max_position_embeddings": 128}), ("qwen2", "F16", {"max_position_embeddings": 128}),
                 ("qwen3", "F32", {"max_position_embeddings": 128}), ("gpt2", "F32", {"n_positions": 128}),
                 ("gemma2", "BF16", {"sliding_window": 9, "max_position_embeddings": 128})]
        for family, dtype, changes in cases:
            with self.subTest(family=family):
                shutil.rmtree(self.folder / "both", ignore_errors=True)
                tokenizer = (self.folder / "weights" / "tokenizer.json").read_text()
                shutil.rmtree(self.folder / "weights")
                answer = self.prepare(family, prompts=[[ID[byte] for byte in self.PROMPT.encode()]], answer_tokens=self.LENGTH,
                                      dtype=dtype, vocab_size=VOCABULARY_OF_BYTES, bos_token_id=None, eos_token_id=None,
                                      **changes)["answers"][0]
                self.write("weights/tokenizer.json", tokenizer)
                run = self.answering([1, 2])
                self.start("--run", self.path)
                texts = []
                threads = [threading.Thread(target=lambda: texts.append(self.completion()["choices"][0]["text"])) for _ in range(3)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(texts, [text_of(answer)] * 3)
                self.stop()
                run.kill()
                run.communicate(timeout=GUARD_S)

    # Who asks then gets the answer a little later, or one error object; the run goes on as it does without prompts, and answers again.
    def test_a_rank_in_the_middle_dies(self):
        self.write("job.toml", job(steps=80))
        self.ended(self.train("alone"))
        run = self.answering([0, 1, 2])
        self.start("--run", self.path)
        self.completion()
        answers = []
        killed = threading.Event()

        def ask(tokens):
            answers.append(self.ask("/v1/completions", {"model": "weights", "prompt": self.PROMPT, "max_tokens": tokens}))

        def ask_until_it_is_killed():
            while not killed.is_set():
                ask(90)

        client = threading.Thread(target=ask_until_it_is_killed)
        client.start()
        time.sleep(0.2)
        os.kill(rank_pids(run.pid)[1], signal.SIGKILL)
        killed.set()
        client.join(timeout=GUARD_S)
        self.assertFalse(client.is_alive())
        texts = {json.loads(text)["choices"][0]["text"] for status, _, text in answers if status == 200}
        self.assertLessEqual(len(texts), 1)
        for status, _, text in answers:
            if status != 200:
                self.assertIn(status, (500, 503))
                self.assertEqual(set(json.loads(text)["error"]), {"message", "type", "param", "code"})
        guard = time.monotonic() + GUARD_S
        while answers[-1][0] != 200 and time.monotonic() < guard:
            time.sleep(0.1)
            ask(90)
        self.assertEqual(self.completion()["choices"][0]["text"], text_of(self.answer))
        self.stop()
        self.ended(run)
        self.assertEqual(self.losses("alone"), self.losses("both"))

    # A front that leaves in the middle of its prompts: memory is free again for the next one, on all ranks.
    def test_fronts_come_and_go(self):
        self.write("job.toml", job())
        run = self.answering([3, 1])
        for _ in range(3):
            self.start("--run", self.path)
            client = threading.Thread(target=lambda: self.ask_in_vain())
            client.start()
            time.sleep(0.1)
            self.server.kill()
            client.join(timeout=GUARD_S)
        self.start("--run", self.path)
        self.assertEqual(self.completion()["choices"][0]["text"], text_of(self.answer))
        self.ended(run)

    def ask_in_vain(self):
        try:
            self.ask("/v1/completions", {"model": "weights", "prompt": self.PROMPT, "max_tokens": 90})
        except (OSError, http.client.HTTPException):
            pass

    def test_what_is_refused(self):
        self.write("job.toml", job(one_datacenter=False))
        ask = ("train", "job.toml", "--data", "text.txt", "--prompt-weights", "weights", "--prompt-ranks")
        self.refused(2, ["--prompt-ranks 1,2", "rank 1 is in oregon and rank 2 in paris", "one datacenter"], *ask, "1,2")
        self.refused(2, ["--prompt-ranks 1,0,1", "rank 1 stands there twice"], *ask, "1,0,1")
        self.refused(2, ["--prompt-ranks 1,4", "the Plan has 4 ranks", "0 to 3"], *ask, "1,4")
        # Weights and --prompt-memory, on each rank, where the job says how much there is.
        self.write("job.toml", job() + '[prefill]\nmodel = "llama3-8b"\nmemory = "1.1 GB"\ndepth = 1\n')
        self.refused(2, ["memory = ", "1.1 GB", "on rank 1", "--prompt-memory 2 GiB"], *ask, "1,0", "--prompt-memory", "2 GiB")


if __name__ == "__main__":
    unittest.main()
