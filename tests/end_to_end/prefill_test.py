"""Prompts and answers: the executor against decoders in plain PyTorch, and `tombolo prefill` as its clients see it."""
import random
import struct
import subprocess
import unittest

from program import BUILD, GUARD_S, needs_torch
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

    # As far as its attention reaches back.
    def test_mistral_of_bf16_weights(self):
        self.check("mistral", [5, 26], [1, 2], context=32, dtype="BF16")

    def test_qwen2_of_f16_weights(self):
        self.check("qwen2", [9, 40], [1, 2], dtype="F16")

    # Its embedding is the head too.
    def test_qwen3(self):
        self.check("qwen3", [1, 33], [1, 4])

    def test_gpt2(self):
        self.check("gpt2", [3, 18], [1, 2])

    # A shard per layer.
    def test_eight_shards(self):
        self.check("llama", [19], [8, 1], num_hidden_layers=8)

    # Longer than what attention takes at a time (operations.h).
    def test_a_long_prompt(self):
        self.check("llama", [2300], [1, 2], max_position_embeddings=4096, num_hidden_layers=2)


if __name__ == "__main__":
    unittest.main()
