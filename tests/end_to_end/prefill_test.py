"""Prompts and answers: the executor against decoders in plain PyTorch, and `tombolo prefill` as its clients see it."""
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import unittest

from program import BUILD, GUARD_S, ROOT, needs_torch
from reference_decoder import read_folder
from weights_test import CONFIGS, VOCABULARY, WeightCase

ANSWER = 6  # tokens


def draw_prompts(lengths, vocabulary=VOCABULARY):
    draw = random.Random(5)
    return [[draw.randrange(vocabulary) for _ in range(length)] for length in lengths]


# One shard or several, at rest between layers or not, keys and values handed over to another model that decodes.
@needs_torch
class Executor(WeightCase):
    # On each number of shards a rest after so many layers; starting a program takes most of the time.
    def check(self, family, lengths, shards, pauses=(1, 0, 2), context=0, **changes):
        prompts = draw_prompts(lengths)
        answers = self.prepare(family, prompts=prompts, answer_tokens=ANSWER, **changes)["answers"]
        for i, prompt in enumerate(prompts):
            wanted = struct.unpack(f"<{ANSWER * VOCABULARY}f", (self.folder / f"answer-{i}.bin").read_bytes())
            for number, pause in zip(shards, pauses):
                command = [BUILD / "prefill_text", self.folder / "weights", number, pause, ",".join(map(str, prompt)), ANSWER,
                           self.folder / "ours.bin", context]
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=GUARD_S)
                what = f"{family}, {len(prompt)} tokens, {number} shards, rests after {pause} layers"
                self.assertEqual(done.returncode, 0, f"{what}: {done.stderr}")
                ours = struct.unpack(f"<{ANSWER * VOCABULARY}f", (self.folder / "ours.bin").read_bytes())
                worst = max(abs(a - b) for a, b in zip(ours, wanted))
                print(f"{what}: logits off by {worst:.1e} at most, of up to {max(map(abs, wanted)):.1f}")
                self.assertLess(worst, 1e-4, what)
                self.assertEqual([int(token) for token in done.stdout.split(",")], answers[i], what)

    def test_llama(self):
        self.check("llama", [1, 7, 58], [1, 2, 4])

    # As far as its attention reaches back, and beyond.
    def test_mistral_of_bf16_weights(self):
        self.check("mistral", [5, 26, 44], [1, 2], dtype="BF16")

    def test_qwen2_of_f16_weights(self):
        self.check("qwen2", [9, 40], [1, 2], dtype="F16")

    # Its embedding is the head too.
    def test_qwen3(self):
        self.check("qwen3", [1, 33], [1, 4])

    def test_phi3(self):
        self.check("phi3", [1, 33, 45], [1, 4])

    def test_olmo2(self):
        self.check("olmo2", [1, 33], [1, 4])

    def test_mixtral(self):
        self.check("mixtral", [1, 33], [1, 4])

    def test_qwen3_moe(self):
        self.check("qwen3_moe", [1, 33], [1, 2])

    # Its second and fourth layer rotate nothing.
    def test_smollm3(self):
        self.check("smollm3", [1, 33], [1, 4])

    def test_gemma(self):
        self.check("gemma", [1, 33], [1, 4])

    # Prompts shorter than, as long as and longer than its windows of six tokens.
    def test_gemma2(self):
        self.check("gemma2", [1, 6, 7, 40], [1, 2, 4])

    def test_gpt2(self):
        self.check("gpt2", [3, 18], [1, 2])

    # A shard per layer.
    def test_eight_shards(self):
        self.check("llama", [19], [8, 1], num_hidden_layers=8)

    # Longer than what attention takes at a time (operations.h).
    def test_a_long_prompt(self):
        self.check("llama", [2300], [1, 2], max_position_embeddings=4096, num_hidden_layers=2)

    # The same with a window: rows that are taken together share the keys that one of them sees.
    def test_a_long_prompt_with_windows(self):
        self.check("gemma2", [2300], [1, 2], max_position_embeddings=4096, num_hidden_layers=2, sliding_window=700)


def letters():
    """GPT-2's alphabet, and the order of its first 256 ids: {byte: (character, id)}."""
    own = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    spelt = {byte: chr(byte) for byte in own} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return {byte: (spelt[byte], i) for i, byte in enumerate(own + others)}


END, VOCABULARY_OF_BYTES = 256, 300
BYTES = letters()
ID = {byte: number for byte, (_, number) in BYTES.items()}
BYTE = {number: byte for byte, number in ID.items()}
KEY = "correct-horse-battery-staple"


def text_of(tokens):
    return bytes(BYTE[token] for token in tokens if token in BYTE).decode("utf-8", "replace")


# `tombolo prefill`, as a client sees it, against what plain PyTorch answers.
class ServerCase(WeightCase):
    PROMPT, LENGTH = "The tide comes in over the sand", 24

    def setUp(self):
        super().setUp()
        self.server = None
        self.answer = self.prepare("llama", prompts=[[ID[byte] for byte in self.PROMPT.encode()]], answer_tokens=self.LENGTH,
                                   vocab_size=VOCABULARY_OF_BYTES, max_position_embeddings=128, rope_scaling=None,
                                   bos_token_id=None, eos_token_id=None)["answers"][0]
        vocabulary = {letter: number for letter, number in BYTES.values()} | {"<|endoftext|>": END}
        self.write("weights/tokenizer.json", json.dumps(
            {"model": {"type": "BPE", "vocab": vocabulary, "merges": []},
             "added_tokens": [{"id": END, "content": "<|endoftext|>", "special": True}],
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}}))

    # Of a run each completion is one that may wait: on a busy machine there may be no room in its gaps for long.
    def start(self, *options, ca=None):
        self.tier = {"service_tier": "flex"} if "--run" in options else {}
        command = [BUILD / "tombolo", "prefill", "--weights", "weights", "--listen", "127.0.0.1:0", "--json", *options]
        self.server = subprocess.Popen(list(map(str, command)), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.stop)
        lines = []
        for line in self.server.stdout:
            lines.append(line)
            if line == "}\n":
                break
        self.assertTrue(lines, self.server.stderr.read() if self.server.poll() is not None else "")
        self.facts = json.loads("".join(lines))
        self.port = int(self.facts["url"].rsplit(":", 1)[1].split("/")[0])
        self.context = ssl.create_default_context(cafile=ca) if ca else None

    def stop(self):
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGTERM)
        out, err = self.server.communicate(timeout=GUARD_S)
        self.assertNotIn(KEY, out + err)
        return self.server.returncode

    def children(self):
        tasks = pathlib.Path(f"/proc/{self.server.pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]

    def connect(self):
        if self.context:
            return http.client.HTTPSConnection("localhost", self.port, timeout=60, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, path, body=None, key=None, method=None, headers={}):
        """Status, headers, and the body as it came."""
        connection = self.connect()
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {}) | headers
        connection.request(method or ("GET" if body is None else "POST"), path, text, headers)
        answer = connection.getresponse()
        out = answer.status, dict(answer.getheaders()), answer.read().decode()
        connection.close()
        return out

    def completion(self, **fields):
        body = {"model": "weights", "prompt": self.PROMPT, "max_tokens": self.LENGTH, "temperature": 0} | self.tier | fields
        status, _, text = self.ask("/v1/completions", body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def events(self, path, body, key=None):
        status, headers, text = self.ask(path, body | {"stream": True}, key)
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"), text)
        self.assertTrue(text.endswith("data: [DONE]\n\n"), text)
        return [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n")[:-2]]

    def refusal(self, status, *question, **options):
        got, headers, text = self.ask(*question, **options)
        self.assertEqual(got, status, text)
        error = json.loads(text)["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        return error, headers


@needs_torch
class Server(ServerCase):
    def test_texts_of_plain_pytorch(self):
        self.start()
        wanted = text_of(self.answer)
        whole = self.completion()
        self.assertEqual(whole["object"], "text_completion")
        self.assertEqual(whole["choices"], [{"index": 0, "text": wanted, "logprobs": None, "finish_reason": "length"}])
        prompt = len(self.PROMPT)
        self.assertEqual(whole["usage"], {"prompt_tokens": prompt, "completion_tokens": self.LENGTH,
                                          "total_tokens": prompt + self.LENGTH})
        self.assertEqual(self.completion(prompt=[ID[byte] for byte in self.PROMPT.encode()])["choices"], whole["choices"])
        body = {"model": "weights", "prompt": self.PROMPT, "max_tokens": self.LENGTH, "temperature": 0,
                "stream_options": {"include_usage": True}}
        events = self.events("/v1/completions", body)
        self.assertEqual(events[-1]["usage"], whole["usage"])
        self.assertEqual("".join(event["choices"][0]["text"] for event in events[:-1]), wanted)
        self.assertEqual(events[-2]["choices"][0]["finish_reason"], "length")
        # Equal seeds, equal texts; another one, another.
        first, again, other = (self.completion(temperature=1.5, seed=seed)["choices"][0]["text"] for seed in (3, 3, 4))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        # A text ends before a stop string.
        cut = next(i for i in range(4, len(wanted)) if wanted[i] != "\ufffd" and wanted[i] not in wanted[:i])
        stopped = self.completion(stop=["no such text", wanted[cut]])["choices"][0]
        self.assertEqual((stopped["text"], stopped["finish_reason"]), (wanted[:cut], "stop"))
        self.assertEqual(self.facts["weight_bytes"], sum(len(data) for _, _, data in read_folder(self.folder / "weights").values()))
        self.assertEqual(self.stop(), 0)

    def test_chat_and_models(self):
        self.start("--name", "shore")
        body = {"model": "shore", "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello"}],
                "max_completion_tokens": 8, "temperature": 0}
        status, _, text = self.ask("/v1/chat/completions", body)
        self.assertEqual(status, 200, text)
        whole = json.loads(text)
        self.assertEqual((whole["object"], whole["choices"][0]["message"]["role"]), ("chat.completion", "assistant"))
        # The plain template: as a completion of the same text.
        plain = self.completion(model="shore", prompt="System: Be short.\n\nUser: Hello\n\nAssistant:", max_tokens=8)
        self.assertEqual(whole["choices"][0]["message"]["content"], plain["choices"][0]["text"])
        events = self.events("/v1/chat/completions", body)
        self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual("".join(event["choices"][0]["delta"].get("content", "") for event in events), plain["choices"][0]["text"])
        self.assertEqual({event["object"] for event in events}, {"chat.completion.chunk"})
        models = json.loads(self.ask("/v1/models")[2])["data"]
        self.assertEqual([(model["id"], model["max_model_len"]) for model in models], [("shore", 128)])
        self.assertEqual(self.ask("/v1/models/shore")[0], 200)
        self.assertEqual(self.refusal(404, "/v1/models/other")[0]["code"], "model_not_found")

    def test_refusals(self):
        self.write("keys", f"# of the tests\n{KEY}\n")
        (self.folder / "keys").chmod(0o600)
        self.start("--api-keys", "keys", "--prompt-tokens", 100, "--requests", 2)
        path, good = "/v1/completions", {"model": "weights", "prompt": "Hello", "max_tokens": 2}
        for key in (None, "wrong", KEY[:-1], KEY + "x"):
            error, headers = self.refusal(401, path, good, key=key)
            self.assertEqual(error["code"], "invalid_api_key")
            self.assertNotIn(KEY[:8], json.dumps(error))
        self.refusal(401, "/metrics")
        self.assertEqual(self.ask("/health")[0], 200)
        self.assertEqual(self.ask(path, good, key=KEY)[0], 200)
        for body, code, param in [(good | {"model": "other"}, 404, "model"), (good | {"prompt": "x" * 101}, 400, "prompt"),
                                  (good | {"max_tokens": 124}, 400, "prompt"), (good | {"prompt": ""}, 400, "prompt"),
                                  (good | {"prompt": [300]}, 400, "prompt"), (good | {"temperature": "hot"}, 400, "temperature"),
                                  (good | {"n": 2}, 400, "n"), (good | {"logprobs": 5}, 400, "logprobs"),
                                  ("{\"model\":", 400, None), ("[" * 10000, 400, None), (b"\xff\xfe", 400, None)]:
            with self.subTest(body=body):
                error, _ = self.refusal(code, path, body, key=KEY)
                self.assertEqual(error["param"], param)
        self.assertEqual(self.refusal(400, path, good | {"prompt": "x" * 101}, key=KEY)[0]["code"], "context_length_exceeded")
        self.refusal(413, path, good | {"prompt": "x" * (1 << 20)}, key=KEY)
        self.refusal(415, path, json.dumps(good), key=KEY, headers={"Content-Encoding": "gzip"})
        self.refusal(404, "/v1/embeddings", good, key=KEY)
        self.assertIn('requests_total{path="/v1/completions",status="401"} 4', self.ask("/metrics", key=KEY)[2])

    # As many as were said are answered at once, others are told to come again; who leaves makes room.
    def test_too_many_and_clients_that_leave(self):
        self.start("--requests", 1)
        body = json.dumps({"model": "weights", "prompt": "Hello", "max_tokens": 120, "stream": True, "temperature": 0})
        slow = socket.create_connection(("127.0.0.1", self.port))
        slow.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        slow.recv(200)
        statuses = set()
        for _ in range(200):
            status, headers, _ = self.ask("/v1/completions", {"model": "weights", "prompt": "Hello", "max_tokens": 1})
            statuses.add(status)
            if status == 429:
                self.assertEqual(headers["Retry-After"], "1")
                break
        slow.close()
        self.assertLessEqual(statuses, {200, 429})
        until = time.monotonic() + 60
        while self.ask("/v1/completions", {"model": "weights", "prompt": "Hello", "max_tokens": 1})[0] != 200:
            self.assertLess(time.monotonic(), until, "the place of who left was never free")
        self.idle_metrics()

    def idle_metrics(self):
        """An answer counts as running until its last byte has left, which its client may have read before."""
        until = time.monotonic() + GUARD_S
        while "requests_running 0" not in (metrics := self.ask("/metrics")[2]):
            self.assertLess(time.monotonic(), until, metrics)
        return metrics

    # Those that may wait are answered all of them, two at once while others may come, beside those that may not.
    def test_those_that_may_wait(self):
        self.start("--requests", 2, "--flex-requests", 12)
        wanted = self.completion()["choices"]
        flex = {"model": "weights", "prompt": self.PROMPT, "max_tokens": self.LENGTH, "temperature": 0, "service_tier": "flex"}
        answers, streams = [], []
        threads = [threading.Thread(target=lambda: answers.append(self.ask("/v1/completions", flex))) for _ in range(8)]
        threads += [threading.Thread(target=lambda: streams.append(self.events("/v1/completions", flex))) for _ in range(4)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + GUARD_S
        while "requests_waiting 0" in self.ask("/metrics")[2] and len(answers) + len(streams) < 12:
            self.assertLess(time.monotonic(), until, "nobody waits")
        for thread in threads:
            thread.join()
        self.assertEqual([(status, json.loads(text)["service_tier"]) for status, _, text in answers], [(200, "flex")] * 8)
        self.assertEqual([json.loads(text)["choices"] for _, _, text in answers], [wanted] * 8)
        texts = ["".join(event["choices"][0]["text"] for event in events) for events in streams]
        self.assertEqual(texts, [wanted[0]["text"]] * 4)
        self.assertIn("requests_waiting 0", self.idle_metrics())
        self.refusal(400, "/v1/completions", flex | {"service_tier": "priority"})

    def test_no_memory_for_keys_and_values(self):
        self.start("--kv-memory", "20 KB")
        error, headers = self.refusal(400, "/v1/completions", {"model": "weights", "prompt": "x" * 100, "max_tokens": 2})
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertEqual(self.completion(prompt="x", max_tokens=2)["usage"]["completion_tokens"], 2)

    def test_a_worker_that_dies(self):
        self.start()
        for child in self.children():
            os.kill(child, signal.SIGKILL)
        self.assertEqual(self.server.wait(timeout=GUARD_S), 1)
        self.assertIn("the worker has gone", self.server.stderr.read())

    # Other hosts need TLS and keys.
    def test_https(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                       cwd=self.folder, check=True, capture_output=True)
        self.refused(2, ["0.0.0.0:0 can be reached by other hosts", "--certificate"], "prefill", "--weights", "weights", "--listen",
                     "0.0.0.0:0")
        tls = ["--certificate", "cert.pem", "--private-key", "key.pem"]
        self.refused(2, ["any client could ask", "--api-keys"], "prefill", "--weights", "weights", "--listen", "0.0.0.0:0", *tls)
        self.write("keys", KEY)
        self.refused(2, ["others than its owner may read the keys", "chmod 600"], "prefill", "--weights", "weights", "--api-keys",
                     "keys")
        (self.folder / "keys").chmod(0o600)
        self.start("--api-keys", "keys", *tls, ca=self.folder / "cert.pem")
        body = {"model": "weights", "prompt": self.PROMPT, "max_tokens": self.LENGTH, "temperature": 0}
        events = self.events("/v1/completions", body, key=KEY)
        self.assertEqual("".join(event["choices"][0]["text"] for event in events), text_of(self.answer))
        # Who talks without TLS gets nothing, and harms nobody.
        with socket.create_connection(("127.0.0.1", self.port)) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            self.assertNotIn(b"200", plain.recv(1000))
        self.assertEqual(self.ask("/health")[0], 200)

    # Memory is what it was after a tenth of them.
    def test_a_thousand_requests(self):
        self.start("--requests", 4)
        pids = [self.server.pid, *self.children()]

        def resident():
            return sum(int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 for pid in pids)

        def many(count):
            for i in range(count):
                status = self.ask("/v1/completions", {"model": "weights", "prompt": "x" * (1 + i % 60), "max_tokens": 1 + i % 3})[0]
                self.assertIn(status, (200, 429))

        def at_once(count):
            threads = [threading.Thread(target=many, args=(count // 4,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        at_once(100)
        before = resident()
        at_once(900)
        print(f"resident: {before / 1e6:.1f} MB after 100 requests, {resident() / 1e6:.1f} MB after 1000")
        self.assertLess(resident() - before, 16e6)


# With a decode worker.
class DecodingCase(ServerCase):
    def start_decoder(self, *options, port=0):
        command = [BUILD / "tombolo", "decode", "--weights", "weights", "--listen", f"127.0.0.1:{port}", "--json", *options]
        self.decoder = subprocess.Popen(list(map(str, command)), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.stop_decoder)
        lines = []
        for line in self.decoder.stdout:
            lines.append(line)
            if line == "}\n":
                break
        self.assertTrue(lines, self.decoder.stderr.read() if self.decoder.poll() is not None else "")
        self.place = json.loads("".join(lines))
        return ["--decode", self.place["address"], "--decode-token", self.place["token"]]

    # Until the decode worker has noticed that nobody is there any more, it may refuse another front.
    def start_once_served(self, words):
        until = time.monotonic() + GUARD_S
        while True:
            try:
                return self.start(*words)
            except AssertionError:
                self.assertLess(time.monotonic(), until, "no front is served any more")
                self.server.communicate(timeout=GUARD_S)

    def stop_decoder(self):
        if self.decoder.poll() is None:
            self.decoder.send_signal(signal.SIGTERM)
        out, err = self.decoder.communicate(timeout=GUARD_S)
        self.assertNotIn(self.place["token"], err)
        return self.decoder.returncode

    def decoder_pids(self):
        tasks = pathlib.Path(f"/proc/{self.decoder.pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]


# The same texts, whoever finishes them: prompts are read by one process, and their answers are written by another, which has the keys
# and values over a link of several connections.
@needs_torch
class Decoding(DecodingCase):
    def test_texts_of_one_process(self):
        self.start(*self.start_decoder("--threads", 1), "--decode-connections", 3)
        wanted = text_of(self.answer)
        self.assertEqual(self.completion()["choices"][0]["text"], wanted)
        self.assertEqual(self.completion(max_tokens=1)["choices"][0]["text"], text_of(self.answer[:1]))
        events = self.events("/v1/completions", {"model": "weights", "prompt": self.PROMPT, "max_tokens": self.LENGTH, "temperature": 0})
        self.assertEqual("".join(event["choices"][0]["text"] for event in events), wanted)
        drawn = [self.completion(temperature=1.5, seed=seed)["choices"][0]["text"] for seed in range(4)]
        self.assertEqual(self.stop(), 0)
        # The decode worker serves the next front; without it the same seeds give the same texts.
        self.start("--decode", self.place["address"], "--decode-token", self.place["token"])
        self.assertEqual(self.completion()["choices"][0]["text"], wanted)
        self.assertEqual(self.stop(), 0)
        self.start()
        self.assertEqual([self.completion(temperature=1.5, seed=seed)["choices"][0]["text"] for seed in range(4)], drawn)
        self.assertEqual(self.stop(), 0)
        self.assertEqual(self.stop_decoder(), 0)

    # Every family, and weights of every type: tokens of plain PyTorch.
    def test_families(self):
        cases = [("mistral", "BF16", {"sliding_window": 128, "max_position_embeddings": 128}), ("qwen2", "F16", {"max_position_embeddings": 128}),
                 ("qwen3", "F32", {"max_position_embeddings": 128}), ("gpt2", "F32", {"n_positions": 128}),
                 ("gemma2", "BF16", {"sliding_window": 9, "max_position_embeddings": 128})]
        for family, dtype, changes in cases:
            with self.subTest(family=family):
                tokenizer = (self.folder / "weights" / "tokenizer.json").read_text()
                shutil.rmtree(self.folder / "weights")
                answer = self.prepare(family, prompts=[[ID[byte] for byte in self.PROMPT.encode()]], answer_tokens=self.LENGTH,
                                      dtype=dtype, vocab_size=VOCABULARY_OF_BYTES, bos_token_id=None, eos_token_id=None,
                                      **changes)["answers"][0]
                self.write("weights/tokenizer.json", tokenizer)
                self.start(*self.start_decoder())
                self.assertEqual(self.completion()["choices"][0]["text"], text_of(answer))
                self.assertEqual(self.stop(), 0)
                self.assertEqual(self.stop_decoder(), 0)

    # Who asks while the decode worker dies gets one error object, and the front ends where it does not come back.
    def test_a_decode_worker_that_dies(self):
        self.start(*self.start_decoder(), "--patience", "2 s")
        body = {"model": "weights", "prompt": self.PROMPT, "max_tokens": 90, "temperature": 0}
        answers = []

        def ask():
            while True:
                try:
                    answers.append(self.ask("/v1/completions", body))
                except (OSError, http.client.HTTPException):  # the front has ended
                    return
                if answers[-1][0] != 200:
                    return

        client = threading.Thread(target=ask)
        client.start()
        until = time.monotonic() + GUARD_S
        while not answers and time.monotonic() < until:
            time.sleep(0.01)
        for pid in self.decoder_pids():
            os.kill(pid, signal.SIGKILL)
        client.join(timeout=GUARD_S)
        self.assertFalse(client.is_alive())
        if answers[-1][0] != 200:  # or else the front ended between two prompts
            self.assertIn(answers[-1][0], (500, 503))
            self.assertEqual(set(json.loads(answers[-1][2])["error"]), {"message", "type", "param", "code"})
        self.assertEqual(self.server.wait(timeout=GUARD_S), 1)
        # Its link is lost after 3 s, signs of life are missed sooner or later than that.
        self.assertRegex(self.server.stderr.read(), "the decode worker has (gone|said nothing).*and was not back within 2 s")
        self.assertEqual(self.decoder.wait(timeout=GUARD_S), 1)

    # Nor does it matter to the decode worker who is killed in front of it: it serves the next one.
    def test_a_front_and_a_reader_that_die(self):
        words = self.start_decoder()
        for whose in (lambda: self.children(), lambda: [self.server.pid], lambda: []):
            self.start_once_served(words)
            self.assertEqual(self.completion()["choices"][0]["text"], text_of(self.answer))
            for pid in whose():
                os.kill(pid, signal.SIGKILL)
                self.server.communicate(timeout=GUARD_S)
                self.assertNotEqual(self.server.returncode, 0)
        self.assertIsNone(self.decoder.poll())

    def test_what_cannot_be_linked(self):
        words = self.start_decoder("--context", 64)
        self.refused(2, ["positions", "--context"], "prefill", "--weights", "weights", "--listen", "127.0.0.1:0", *words)
        self.refused(1, ["calling the decode worker"], "prefill", "--weights", "weights", "--listen", "127.0.0.1:0", *words[:2],
                     "--decode-token", "0" * 32)
        shutil.copytree(self.folder / "weights", self.folder / "others")
        largest = max((self.folder / "others").glob("*.safetensors"), key=lambda path: path.stat().st_size)
        numbers = bytearray(largest.read_bytes())
        numbers[-2] ^= 1
        largest.write_bytes(numbers)
        self.refused(2, ["other weights of the same shape", "the same --weights"], "prefill", "--weights", "others", "--context", 64,
                     "--listen", "127.0.0.1:0", *words)
        self.refused(2, ["token is missing"], "prefill", "--weights", "weights", "--decode", "127.0.0.1:9")
        self.refused(2, ["--decode HOST:PORT"], "prefill", "--weights", "weights", "--plain-tcp")
        self.refused(2, ["nowhere/config.json"], "decode", "--weights", "nowhere")
        self.refused(2, ["10.1.2.3"], "decode", "--weights", "weights", "--listen", "10.1.2.3:29610")

    # As between hosts: TLS, whose certificates keep strangers out.
    def test_over_tls(self):
        self.ok("init", "--directory", "ours", "--name", "here")
        self.ok("init", "--directory", "theirs", "--name", "here")
        words = self.start_decoder("--credentials", "ours")
        self.start(*words, "--credentials", "ours")
        self.assertEqual(self.completion()["choices"][0]["text"], text_of(self.answer))
        self.assertEqual(self.stop(), 0)
        for options in ([], ["--credentials", "theirs"]):
            self.refused(1, ["calling the decode worker"], "prefill", "--weights", "weights", "--listen", "127.0.0.1:0", *words, *options)

    # Memory of all four processes is what it was after a tenth of the prompts.
    def test_five_hundred_requests(self):
        self.start(*self.start_decoder(), "--requests", 4)
        pids = [self.server.pid, *self.children(), self.decoder.pid, *self.decoder_pids()]

        def resident():
            return sum(int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 for pid in pids)

        def many(count):
            for i in range(count):
                status = self.ask("/v1/completions", {"model": "weights", "prompt": "x" * (1 + i % 60), "max_tokens": 1 + i % 4})[0]
                self.assertIn(status, (200, 429))

        def at_once(count):
            threads = [threading.Thread(target=many, args=(count // 4,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        at_once(100)
        before = resident()
        at_once(400)
        print(f"resident: {before / 1e6:.1f} MB after 100 requests, {resident() / 1e6:.1f} MB after 500")
        self.assertLess(resident() - before, 16e6)


# A rank of a run answers while it waits for the other one: texts are plain PyTorch's, and losses those of a run without prompts.
@needs_torch
class Gaps(DecodingCase):
    JOB = """
[model]
layers = 2
hidden = 64
heads = 4
vocabulary = 256
sequence = 32
[[cluster.datacenter]]
name = "oregon"
device = "cpu"
[[cluster.datacenter]]
name = "paris"
device = "cpu"
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "20 ms"
node_pair_limit = "1 Gbps"
[training]
global_batch = 4
micro_batch = 1
precision = "fp32"
[parallelism]
pipeline = 2
schedule = "1f1b"
[run]
steps = 60
"""

    def train(self, out, *options):
        command = [BUILD / "tombolo", "train", "job.toml", "--data", "text.txt", "--out", out, *options]
        return subprocess.Popen(list(map(str, command)), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def ended(self, run):
        _, err = run.communicate(timeout=GUARD_S)
        self.assertEqual(run.returncode, 0, err)

    def test_answers_while_it_trains(self):
        self.write("job.toml", self.JOB)
        self.write("text.txt", "The tide comes in over the sand and goes out again. " * 1000)
        self.ended(self.train("alone"))
        run = self.train("both", "--prompt-weights", "weights", "--prompt-rank", 1)
        self.addCleanup(run.kill)
        path = self.folder / "both" / "prompts.socket"
        until = time.monotonic() + GUARD_S
        while not path.exists() and run.poll() is None:
            self.assertLess(time.monotonic(), until, "the rank opens no socket")
            time.sleep(0.01)
        self.start("--run", path, "--patience", "200 s")
        texts = [self.completion()["choices"][0]["text"]]
        self.ended(run)
        self.assertEqual(texts, [text_of(self.answer)])
        self.assertFalse(path.exists())
        while self.ask("/health")[0] == 200:
            time.sleep(0.01)
        self.assertEqual(self.stop(), 0)
        alone, both = (self.records(self.folder / out / "trace.jsonl", "loss") for out in ("alone", "both"))
        self.assertEqual(len(alone), 60)
        self.assertEqual(alone, both)
        layers = self.records(self.folder / "both" / "trace.jsonl", "prompt_layers", by="rank")
        self.assertEqual(list(layers), [1])
        self.assertGreaterEqual(layers[1], 4 * self.LENGTH)
        for name in ("prompt_holds", "prompt_held_s", "prompt_held_max_s", "prompt_guard_s"):  # the last: gaps were foreseen
            records = self.records(self.folder / "both" / "trace.jsonl", name, by="rank")
            self.assertEqual(list(records), [1], name)
            self.assertGreaterEqual(records[1], 0)
        # Each has its span in the Trace, where the rank waited.
        spans = [entry for entry in map(json.loads, (self.folder / "both" / "trace.jsonl").read_text().splitlines())
                 if entry.get("action") == "1PROMPT"]
        self.assertLessEqual(len(spans), layers[1])
        self.assertGreaterEqual(len(spans), 4 * self.LENGTH)
        self.assertEqual({span["rank"] for span in spans}, {1})

    # A controller of somebody else's, which is what docs/formats/prompt_door.md shows.
    def test_the_door(self):
        self.write("job.toml", self.JOB.replace("steps = 60", "steps = 5000"))  # it is killed before
        self.write("text.txt", "The tide comes in over the sand and goes out again. " * 1000)
        run = self.train("run", "--prompt-weights", "weights", "--prompt-rank", 1)
        self.addCleanup(run.kill)
        until = time.monotonic() + GUARD_S
        while not (self.folder / "run" / "prompts.socket").exists() and run.poll() is None:
            self.assertLess(time.monotonic(), until, "the rank opens no socket")
            time.sleep(0.01)
        code = (ROOT / "docs" / "formats" / "prompt_door.md").read_text().split("```python\n")[1].split("```")[0]
        code = code.replace("[84, 104, 101]", str([ID[byte] for byte in self.PROMPT.encode()])).replace('"id": 1', '"flex": True, "id": 1')
        done = subprocess.run([sys.executable, "-c", code], cwd=self.folder, capture_output=True, text=True, timeout=GUARD_S)
        self.assertEqual(done.stdout.split("\n"), ["128", "admitted ", *(f"token {token}" for token in self.answer[:5]), "length ", ""], done.stderr)
        run.kill()
        run.communicate(timeout=GUARD_S)

    # Emulated ranks carry a load of prompts in the gaps that their Plan foresees, and pass the same bytes as without.
    def test_emulated_ranks_carry_a_load(self):
        job = self.JOB.replace("cpu", "emulated:a100-80g").replace("global_batch = 4", "global_batch = 8").replace("hidden = 64", "hidden = 4096")
        self.write("job.toml", job.replace("steps = 60", "steps = 10") + '[prefill]\nmodel = "llama3-8b"\nmemory = "16.1 GB"\n')
        self.ended(self.train("load", "--prompt-load", 512))
        trace = self.folder / "load" / "trace.jsonl"
        for name in ("prompt_layers", "prompt_guard_s"):
            self.assertEqual(sorted(self.records(trace, name, by="rank")), [0, 1])
        self.assertGreater(min(self.records(trace, "prompt_layers", by="rank").values()), 0)
        self.refused(2, ["--prompt-load 9000", "8192"], "train", "job.toml", "--prompt-load", "9000")
        self.refused(2, ["one of both"], "train", "job.toml", "--prompt-load", "512", "--prompt-weights", "weights")
        self.write("job.toml", job)
        self.refused(2, ["[prefill]", "model"], "train", "job.toml", "--prompt-load", "512")

    # The rank reads the prompt in its gaps; the rest of the answer is none of its business.
    def test_reads_prompts_for_a_decode_worker(self):
        self.write("job.toml", self.JOB)
        self.write("text.txt", "The tide comes in over the sand and goes out again. " * 1000)
        words = self.start_decoder()
        run = self.train("both", "--prompt-weights", "weights", "--prompt-rank", 1)
        self.addCleanup(run.kill)
        path = self.folder / "both" / "prompts.socket"
        until = time.monotonic() + GUARD_S
        while not path.exists() and run.poll() is None:
            self.assertLess(time.monotonic(), until, "the rank opens no socket")
            time.sleep(0.01)
        self.start("--run", path, *words)
        self.assertEqual(self.completion()["choices"][0]["text"], text_of(self.answer))
        self.stop()
        self.ended(run)
        self.assertEqual(len(self.records(self.folder / "both" / "trace.jsonl", "loss")), 60)
        # A pass of four layers, and not one for each token.
        self.assertEqual(self.records(self.folder / "both" / "trace.jsonl", "prompt_layers", by="rank"), {1: 4})


# Refused before anything is started.
class BadPrefill(WeightCase):
    def test_what_cannot_be_served(self):
        self.refused(2, ["nowhere/tokenizer.json"], "prefill", "--weights", "nowhere")
        self.refused(2, ["--weights"], "prefill")
        self.refused(2, ["--listn", "--listen"], "prefill", "--weights", "x", "--listn", "y")
        self.write("job.toml", Gaps.JOB)
        self.refused(2, ["nowhere/config.json", "--prompt-weights"], "train", "job.toml", "--prompt-weights", "nowhere")


if __name__ == "__main__":
    unittest.main()
