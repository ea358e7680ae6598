"""Weights of others, in and out, against decoders in plain PyTorch (reference_decoder.py)."""
import hashlib
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import unittest

import reference_decoder
from program import BUILD, GUARD_S, Case, needs_torch
from reference_decoder import read_folder, read_safetensors, write_safetensors

SEQUENCE, BATCH, VOCABULARY = 16, 4, 97
LLAMA_LIKE = {"hidden_act": "silu", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
              "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "tie_word_embeddings": False, "vocab_size": VOCABULARY, "bos_token_id": 1}
# Pairs that turn fast, between and slowly: their wave lengths are 6.3, 29, 135, ... tokens.
SCALING = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 64}
CONFIGS = {
    "llama": LLAMA_LIKE | {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "rope_theta": 500000.0,
                           "rope_scaling": SCALING, "head_dim": 12},
    "mistral": LLAMA_LIKE | {"model_type": "mistral", "sliding_window": 32},
    "qwen2": LLAMA_LIKE | {"model_type": "qwen2", "tie_word_embeddings": True, "rms_norm_eps": 1e-6, "sliding_window": 4,
                           "use_sliding_window": False},
    "qwen3": LLAMA_LIKE | {"model_type": "qwen3", "tie_word_embeddings": True, "head_dim": 16, "attention_bias": False,
                           "rope_theta": 1000000.0},
    "phi3": LLAMA_LIKE | {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "sliding_window": 47},
    "olmo2": LLAMA_LIKE | {"model_type": "olmo2", "rope_theta": 500000.0, "rms_norm_eps": 1e-6},
    "smollm3": LLAMA_LIKE | {"model_type": "smollm3", "tie_word_embeddings": True, "no_rope_layers": [1, 0, 1, 0],
                             "no_rope_layer_interval": 2, "rope_theta": 5000000.0},
    # One head of keys and values; heads that are wider together than the model.
    "gemma": LLAMA_LIKE | {"model_type": "gemma", "architectures": ["GemmaForCausalLM"], "hidden_act": "gelu",
                           "hidden_activation": None, "head_dim": 12, "num_key_value_heads": 1, "tie_word_embeddings": True,
                           "rms_norm_eps": 1e-6},
    # Its first and third layer see six tokens; caps that some scores and many logits reach.
    "gemma2": LLAMA_LIKE | {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "hidden_act": "gelu_pytorch_tanh",
                            "hidden_activation": "gelu_pytorch_tanh", "head_dim": 12, "query_pre_attn_scalar": 7,
                            "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "sliding_window": 6,
                            "cache_implementation": "hybrid", "tie_word_embeddings": True, "rms_norm_eps": 1e-6},
    # One of its experts is chosen seldom.
    "mixtral": LLAMA_LIKE | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    # Its first layer has no experts; of those a token meets three.
    "qwen3_moe": LLAMA_LIKE | {"model_type": "qwen3_moe", "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 20,
                               "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [0], "head_dim": 16,
                               "attention_bias": False},
    "gpt2": {"model_type": "gpt2", "activation_function": "gelu_new", "n_layer": 4, "n_embd": 32, "n_head": 4, "n_inner": 64,
             "n_positions": 24, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True, "vocab_size": VOCABULARY}}

JOB = """
[model]
config = "weights/config.json"
sequence = {sequence}
[[cluster.datacenter]]
name = "oregon"
device = "cpu"
nodes = 1
devices_per_node = 8
[training]
global_batch = {batch}
micro_batch = 1
precision = "{precision}"
[optimizer]
learning_rate = {rate}
learning_rate_min = {rate_min}
warmup_steps = 5
weight_decay = {decay}
[parallelism]
pipeline = {pipeline}
data = {data}
zero = {zero}
schedule = "{schedule}"
virtual_stages = {virtual_stages}
expert = {expert}
[data]
tokens = ["tokens.bin"]
format = "nanogpt"
shuffle = false
evaluation_fraction = 0
[run]
steps = {steps}
[checkpoint]
directory = "checkpoints"
every = 100
"""
OPTIMIZER = {"learning_rate": 1e-3, "learning_rate_min": 1e-4, "warmup_steps": 5, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8,
             "weight_decay": 0.1}


class WeightCase(Case):
    def prepare(self, family, steps=0, dtype="F32", per_file=1000, prefix=True, optimizer=OPTIMIZER, precision="fp32", prompts=(),
                answer_tokens=0, **changes):
        """Weights, and what plain PyTorch makes of them: its answer."""
        python = reference_decoder.python_with_torch()
        if not python:
            self.skipTest("needs an interpreter with PyTorch: tools/setup --test")
        draw = random.Random(3)
        tokens = [draw.randrange(VOCABULARY) for _ in range(40 * SEQUENCE + 1)]
        (self.folder / "tokens.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
        case = {"config": CONFIGS[family] | changes, "dtype": dtype, "per_file": per_file, "prefix": prefix, "sequence": SEQUENCE,
                "global_batch": BATCH, "steps": steps, "optimizer": optimizer, "precision": precision,
                "prompts": list(prompts), "answer_tokens": answer_tokens}
        shutil.copytree(self.answered(python, json.dumps(case)), self.folder, dirs_exist_ok=True)
        return json.loads((self.folder / "answer.json").read_text())

    def answered(self, python, case):
        """The folder with what PyTorch makes of a case: many tests ask the same, and loading PyTorch takes seconds."""
        asked = [python.encode(), pathlib.Path(reference_decoder.__file__).read_bytes(), case.encode(), (self.folder / "tokens.bin").read_bytes()]
        kept = BUILD.joinpath("tmp", "plain-pytorch") / hashlib.sha256(b"\0".join(asked)).hexdigest()
        if kept.exists():
            return kept
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            work = pathlib.Path(folder) / "work"
            work.mkdir()
            shutil.copy(self.folder / "tokens.bin", work)
            (work / "case.json").write_text(case)
            done = subprocess.run([python, reference_decoder.__file__, work / "case.json"], capture_output=True, text=True, timeout=GUARD_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            try:
                work.rename(kept)
            except OSError:  # another test was faster
                self.assertTrue(kept.exists())
        return kept

    def job(self, pipeline=1, data=1, steps=50, rate=1e-3, rate_min=1e-4, decay=0.1, schedule="1f1b", virtual_stages=1,
            sequence=SEQUENCE, name="job.toml", model="", precision="fp32", zero=0, expert=1):
        text = JOB.format(pipeline=pipeline, data=data, steps=steps, rate=rate, rate_min=rate_min, decay=decay, schedule=schedule,
                          virtual_stages=virtual_stages, sequence=sequence, batch=BATCH, precision=precision, zero=zero, expert=expert)
        return self.write(name, text.replace("[[cluster", model + "\n[[cluster", 1))

    def check_logits(self, stages):
        """Within 1e-4, on so many stages; logits are a few units large."""
        samples = (self.folder / "tokens.bin").read_bytes()[:2 * 2 * SEQUENCE]
        (self.folder / "samples.bin").write_bytes(samples)
        wanted = struct.unpack(f"<{2 * SEQUENCE * VOCABULARY}f", (self.folder / "logits.bin").read_bytes())
        self.assertGreater(max(map(abs, wanted)), 0.5)
        for number in stages:
            program = BUILD / "imported_logits"
            done = subprocess.run([program, self.folder / "weights", str(SEQUENCE), str(number), self.folder / "samples.bin",
                                   self.folder / "ours.bin"], capture_output=True, text=True, timeout=GUARD_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            ours = struct.unpack(f"<{len(wanted)}f", (self.folder / "ours.bin").read_bytes())
            worst = max(abs(a - b) for a, b in zip(ours, wanted))
            print(f"logits on {number} stages: off by {worst:.1e} at most, of up to {max(map(abs, wanted)):.1f}")
            self.assertLess(worst, 1e-4, f"{number} stages")

    def check_losses(self, wanted, most=1e-5, **layout):
        os.environ["TOMBOLO_SLOW_BF16"] = "1"  # numbers are the same wherever it runs
        self.job(steps=len(wanted), **layout)
        for folder in ("run", "checkpoints"):
            shutil.rmtree(self.folder / folder, ignore_errors=True)
        self.ok("train", "job.toml", "--init", "weights", "--out", "run")
        ours = self.records(self.folder / "run" / "trace.jsonl", "loss")
        self.assertEqual(len(ours), len(wanted))
        worst = max(abs(ours[i + 1] / loss - 1) for i, loss in enumerate(wanted))
        print(f"{len(wanted)} losses from {wanted[0]:.4f} to {wanted[-1]:.4f} on {layout}: off by {worst:.1e} at most")
        self.assertLess(worst, most, layout)
        self.assertLess(wanted[-1], 0.98 * wanted[0], "nothing was learned")


@needs_torch
class WeightsIn(WeightCase):
    def test_llama(self):
        answer = self.prepare("llama", steps=50, per_file=7)
        self.check_logits([1, 2, 4])
        self.check_losses(answer["losses"], pipeline=2)

    def test_mistral_of_bf16_weights(self):
        answer = self.prepare("mistral", steps=50, dtype="BF16")
        self.check_logits([1, 2])
        self.check_losses(answer["losses"], pipeline=1)

    def test_qwen2_of_f16_weights(self):
        answer = self.prepare("qwen2", steps=50, dtype="F16", prefix=False)
        self.check_logits([1, 2])
        self.check_losses(answer["losses"], pipeline=2)

    # Its embedding is the head too: on the first and the last of two and four stages, and of two pipelines.
    def test_qwen3(self):
        answer = self.prepare("qwen3", steps=50)
        self.check_logits([1, 2, 4])
        for layout in ({"pipeline": 1}, {"pipeline": 4}, {"pipeline": 2, "data": 2}):
            self.check_losses(answer["losses"], **layout)

    def test_mixtral(self):
        answer = self.prepare("mixtral", steps=50, dtype="BF16", per_file=20)
        self.check_logits([1, 2])
        for layout in ({"pipeline": 2}, {"data": 2, "expert": 2}, {"data": 4, "expert": 2, "zero": 1}):
            self.check_losses(answer["losses"], **layout)

    def test_qwen3_moe(self):
        answer = self.prepare("qwen3_moe", steps=50)
        self.check_logits([1, 4])
        for layout in ({"pipeline": 1}, {"pipeline": 2, "data": 2, "expert": 2}):
            self.check_losses(answer["losses"], **layout)

    def test_gpt2(self):
        answer = self.prepare("gpt2", steps=50, per_file=5, prefix=False)
        self.check_logits([1, 2, 4])
        self.check_losses(answer["losses"], pipeline=2)
        # First and last stage are of one rank, and its two copies one matrix.
        self.check_losses(answer["losses"], pipeline=2, schedule="zb-v", virtual_stages=2)

    def test_phi3(self):
        answer = self.prepare("phi3", steps=50, per_file=7)
        self.check_logits([1, 2])
        self.check_losses(answer["losses"], pipeline=2)

    def test_olmo2(self):
        answer = self.prepare("olmo2", steps=50)
        self.check_logits([1, 2, 4])
        for layout in ({"pipeline": 2}, {"pipeline": 2, "data": 2}):
            self.check_losses(answer["losses"], **layout)

    # The second layer of each of two stages rotates nothing.
    def test_smollm3(self):
        answer = self.prepare("smollm3", steps=50, prefix=False)
        self.check_logits([1, 2, 4])
        self.check_losses(answer["losses"], pipeline=4)

    def test_gemma(self):
        answer = self.prepare("gemma", steps=50, per_file=7)
        self.check_logits([1, 2, 4])
        for layout in ({"pipeline": 2}, {"pipeline": 2, "data": 2, "zero": 1}):
            self.check_losses(answer["losses"], **layout)

    # Its embedding is the head too, on the first and the last of four stages.
    def test_gemma2(self):
        answer = self.prepare("gemma2", steps=50, prefix=False)
        self.check_logits([1, 2, 4])
        for layout in ({"pipeline": 1}, {"pipeline": 4}, {"pipeline": 2, "schedule": "zb-v", "virtual_stages": 2}):
            self.check_losses(answer["losses"], **layout)

    # Samples are longer than their windows.
    def test_windows_of_mistral_and_phi3(self):
        for family in ("mistral", "phi3"):
            with self.subTest(family):
                shutil.rmtree(self.folder / "weights", ignore_errors=True)
                answer = self.prepare(family, steps=50, sliding_window=5)
                self.check_logits([1, 2])
                self.check_losses(answer["losses"], pipeline=2)

    # The reference rounds at the same places, and sums in another order. AdamW's first steps are the signs of gradients, of which
    # rounding turns the small ones; at twice this learning rate losses differ by up to 1.02e-2, and as much from those in fp32.
    def check_in_bf16(self, family, *layouts, most=1e-2):
        answer = self.prepare(family, steps=50, precision="bf16", optimizer=OPTIMIZER | {"learning_rate": 5e-4})
        for layout in layouts:
            self.check_losses(answer["losses"], most=most, precision="bf16", rate=5e-4, **layout)

    def check_state(self, spared):
        """What each rank allocated beside what the Plan says, which counts 2 bytes for copies that some parameters do without."""
        planned, taken = self.planned_state(), self.taken_state()
        self.assertEqual([a - b for a, b in zip(planned, taken)], spared)
        self.assertTrue(all(b > 0.97 * a for a, b in zip(planned, taken)))

    def planned_state(self):
        units = {"B": 1, "KB": 1000, "KiB": 1024, "MiB": 1 << 20}
        stages = json.loads(self.ok("convert", "job.toml", "--to", "plan"))["stages"]
        return [float(number) * units[unit] for number, unit in (stage["state"].split() for stage in stages)]

    def taken_state(self):
        """By rank."""
        taken = self.records(self.folder / "run" / "trace.jsonl", "state_bytes", by="rank")
        return [taken[rank] for rank in sorted(taken)]

    # ZeRO-1: every rank writes the part that it has, and anything goes on from it.
    def test_replicas_that_shard_the_optimizer(self):
        self.prepare("llama")
        traces = {}
        for zero in (0, 1):
            for folder in ("run", "checkpoints"):
                shutil.rmtree(self.folder / folder, ignore_errors=True)
            self.job(pipeline=2, data=2, steps=6, zero=zero, rate_min=1e-3)
            self.ok("train", "job.toml", "--init", "weights", "--out", "run")
            traces[zero] = self.records(self.folder / "run" / "trace.jsonl", "loss")
            self.ok("export", "--checkpoint", "checkpoints", "--out", f"exported-{zero}", "--like", "weights")
        self.assertEqual(traces[1], traces[0])
        self.assertEqual(read_folder(self.folder / "exported-1"), read_folder(self.folder / "exported-0"))
        self.assertEqual(sorted(path.name.split(".")[0] for path in self.folder.glob("checkpoints/step-*/*.safetensors")),
                         [f"rank-{rank}" for rank in range(4)])
        planned, taken = self.planned_state(), self.taken_state()
        for rank, bytes in enumerate(taken):
            print(f"rank {rank}: {bytes:.0f} bytes of state, planned {planned[rank // 2]:.0f}")
        for stage in (0, 1):
            self.assertAlmostEqual(sum(taken[2 * stage:2 * stage + 2]) / 2 / planned[stage], 1, delta=0.01)
        self.job(pipeline=2, data=1, steps=7, rate_min=1e-3)
        self.ok("train", "job.toml", "--resume", "--out", "run")
        self.assertEqual(sorted(self.records(self.folder / "run" / "trace.jsonl", "loss")), [7])
        self.job(pipeline=1, data=4, steps=8, zero=1, rate_min=1e-3)
        self.ok("train", "job.toml", "--resume", "--out", "run")
        self.assertEqual(sorted(self.records(self.folder / "run" / "trace.jsonl", "loss")), [8])

    def test_llama_in_bf16(self):
        self.check_in_bf16("llama", {"pipeline": 1}, {"pipeline": 2, "data": 2}, {"pipeline": 4})
        layer, ends = 2 * 2 * 32, 2 * VOCABULARY * 32  # two norms of each of four stages; the embedding, the norm of the head
        self.check_state([layer + ends, layer, layer, layer + 2 * 32])
        # As many bytes over each link as the prediction says, half of those of fp32, and weights in a checkpoint as ever.
        sent = self.bytes_sent("trace.jsonl")
        self.assertEqual(sent, self.bytes_sent("predicted.jsonl"))
        self.assertEqual({size for sizes in sent.values() for size in sizes}, {SEQUENCE * LLAMA_LIKE["hidden_size"] * 2})
        for path in (self.folder / "checkpoints").rglob("*.safetensors"):
            self.assertLessEqual({dtype for dtype, _, _ in read_safetensors(path).values()}, {"F32", "I64"})
        self.ok("export", "--checkpoint", "checkpoints", "--out", "exported", "--like", "weights")
        self.assertEqual({dtype for dtype, _, _ in read_folder(self.folder / "exported").values()}, {"F32"})

    def test_mistral_in_bf16(self):
        self.check_in_bf16("mistral", {"pipeline": 2})

    def test_qwen3_in_bf16(self):
        self.check_in_bf16("qwen3", {"pipeline": 4}, {"pipeline": 2, "data": 2})

    def test_olmo2_in_bf16(self):
        self.check_in_bf16("olmo2", {"pipeline": 2})

    def test_gemma2_in_bf16(self):
        self.check_in_bf16("gemma2", {"pipeline": 2})

    # Where two scores are next to each other, rounding chooses the expert.
    def test_mixtral_in_bf16(self):
        self.check_in_bf16("mixtral", {"pipeline": 2}, {"data": 2, "expert": 2}, most=5e-2)

    def test_gpt2_in_bf16(self):
        self.check_in_bf16("gpt2", {"pipeline": 2, "schedule": "zb-v", "virtual_stages": 2})

    def bytes_sent(self, trace):
        """{(rank, peer, action): sizes} of the messages between stages in the first iteration."""
        out = {}
        for line in (self.folder / "run" / trace).read_text().splitlines():
            each = json.loads(line)
            if each.get("lane") == "link" and each["iteration"] == 1:
                out.setdefault((each["rank"], each["peer"], each["action"]), []).append(each["bytes"])
        return out

    # Other optimizers, clipping by one norm of all stages and replicas, other rules: against torch.optim and clip_grad_norm_.
    def check_optimizer(self, family, layouts, **optimizer):
        optimizer = OPTIMIZER | optimizer
        answer = self.prepare(family, steps=30, optimizer=optimizer)
        self.assertGreater(sum(norm > optimizer["clip_norm"] for norm in answer["norms"]), 5, "hardly anything is clipped")
        asked = "".join(f"{key} = {json.dumps(value)}\n" for key, value in optimizer.items())
        for layout in layouts:
            job = self.job(steps=30, **layout)
            text = job.read_text()
            job.write_text(text[:text.index("[optimizer]")] + "[optimizer]\n" + asked + text[text.index("[parallelism]"):])
            for folder in ("run", "checkpoints"):
                shutil.rmtree(self.folder / folder, ignore_errors=True)
            self.ok("train", "job.toml", "--init", "weights", "--out", "run")
            for name, wanted in (("loss", answer["losses"]), ("gradient_norm", answer["norms"])):
                ours = self.records(self.folder / "run" / "trace.jsonl", name)
                self.assertEqual(sorted(ours), list(range(1, 31)), name)
                worst = max(abs(ours[i + 1] / value - 1) for i, value in enumerate(wanted))
                print(f"30 of {name}, {optimizer.get('name', 'adamw')} on {layout}: off by {worst:.1e} at most")
                self.assertLess(worst, 1e-4, (name, layout))
            self.assertLess(answer["losses"][-1], 0.98 * answer["losses"][0], "nothing was learned")

    def test_sgd_clipped_linear(self):
        self.check_optimizer("llama", [{"pipeline": 4}, {"pipeline": 2, "data": 2}], name="sgd", learning_rate=0.1,
                             learning_rate_min=0.01, momentum=0.9, nesterov=True, clip_norm=0.5, rule="linear", weight_decay=0.01)

    # The embedding is the head too and counts once.
    def test_adamw_clipped_wsd_with_tied_ends(self):
        self.check_optimizer("qwen3", [{"pipeline": 4}, {"pipeline": 2, "data": 2}], learning_rate=3e-3, clip_norm=1.0,
                             rule="wsd", decay_steps=10)

    # The first and the last of three datacenters exchange gradients over a link of their own.
    def test_tied_ends_in_different_datacenters(self):
        answer = self.prepare("gpt2", steps=8)
        near = JOB[JOB.index("[[cluster"):JOB.index("[training]")]
        names = ("oregon", "paris", "tokyo")
        far = "".join(f'[[cluster.datacenter]]\nname = "{name}"\ndevice = "cpu"\n' for name in names)
        links = ['[[cluster.wan]]\nbetween = ["{}", "{}"]\none_way_latency = "2 ms"\nnode_pair_limit = "1 Gbps"\n'.format(*pair)
                 for pair in (names[:2], names[1:], names[::2])]
        job = self.job(pipeline=3, steps=8).read_text()
        self.write("job.toml", job.replace(near, far + links[0] + links[1]))
        self.refused(2, ["model.tied_embeddings = true: the first stage (in oregon) and the last one (in tokyo)"], "train",
                     "job.toml", "--init", "weights")
        self.write("job.toml", job.replace(near, far + "".join(links)))
        self.ok("train", "job.toml", "--init", "weights")
        for step, loss in self.records(self.folder / "run" / "trace.jsonl", "loss").items():
            self.assertAlmostEqual(loss / answer["losses"][step - 1], 1, delta=1e-5)

    # Checkpoints have the one matrix once, and need no weights folder any more.
    def test_tied_ends_resume_on_another_split(self):
        self.prepare("qwen3")
        self.job(pipeline=2, steps=6, rate_min=1e-3)
        self.ok("train", "job.toml", "--init", "weights", "--out", "whole")
        whole = self.records(self.folder / "whole" / "trace.jsonl", "loss")
        shutil.rmtree(self.folder / "checkpoints")
        self.job(pipeline=4, steps=3, rate_min=1e-3)
        self.ok("train", "job.toml", "--init", "weights", "--out", "first")
        shutil.copytree(self.folder / "checkpoints", self.folder / "kept")
        self.job(pipeline=2, steps=6, rate_min=1e-3)
        (self.folder / "weights" / "model.safetensors").unlink()
        self.ok("train", "job.toml", "--init", "weights", "--resume", "--out", "second")
        second = self.records(self.folder / "second" / "trace.jsonl", "loss")
        self.assertEqual(sorted(second), [4, 5, 6])
        for step, loss in second.items():
            self.assertAlmostEqual(loss / whole[step], 1, delta=1e-6)
        # And on the split that it was.
        shutil.rmtree(self.folder / "checkpoints")
        self.job(pipeline=4, steps=6, rate_min=1e-3)
        (self.folder / "kept").rename(self.folder / "checkpoints")
        self.ok("train", "job.toml", "--resume", "--out", "third")
        third = self.records(self.folder / "third" / "trace.jsonl", "loss")
        self.assertEqual(sorted(third), [4, 5, 6])
        for step, loss in third.items():
            self.assertAlmostEqual(loss / whole[step], 1, delta=1e-6)


# A learning rate of 1e-300 is none: weights pass through ranks, a checkpoint and the files unchanged.
@needs_torch
class WeightsOut(WeightCase):
    def round_trip(self, *options, pipeline=2):
        self.job(pipeline=pipeline, steps=1, rate="1e-300", rate_min=0, decay=0)
        self.ok("train", "job.toml", "--init", "weights")
        self.ok("export", "--checkpoint", "checkpoints", "--out", "exported", *options)
        return read_folder(self.folder / "exported")

    def config(self, folder="exported"):
        return json.loads((self.folder / folder / "config.json").read_text())

    def bit_for_bit(self, family):
        self.prepare(family)
        out = self.round_trip("--like", "weights")
        self.assertEqual(out, read_folder(self.folder / "weights"))
        self.assertEqual(self.config(), self.config("weights") | {"torch_dtype": "float32"})

    def test_llama_bit_for_bit(self):
        self.bit_for_bit("llama")

    def test_mistral_bit_for_bit(self):
        self.bit_for_bit("mistral")

    def test_qwen2_bit_for_bit(self):
        self.bit_for_bit("qwen2")

    def test_qwen3_bit_for_bit(self):
        self.bit_for_bit("qwen3")

    def test_phi3_bit_for_bit(self):
        self.bit_for_bit("phi3")

    def test_olmo2_bit_for_bit(self):
        self.bit_for_bit("olmo2")

    def test_smollm3_bit_for_bit(self):
        self.bit_for_bit("smollm3")

    def test_gemma_bit_for_bit(self):
        self.bit_for_bit("gemma")

    def test_gemma2_bit_for_bit(self):
        self.bit_for_bit("gemma2")

    def test_mixtral_bit_for_bit(self):
        self.bit_for_bit("mixtral")

    def test_qwen3_moe_bit_for_bit(self):
        self.bit_for_bit("qwen3_moe")

    def test_gpt2_bit_for_bit(self):
        self.bit_for_bit("gpt2")

    def test_bf16_in_several_files(self):
        self.prepare("llama", dtype="BF16")
        out = self.round_trip("--dtype", "bf16", "--file-size", "20 KB", pipeline=4)
        self.assertEqual(out, read_folder(self.folder / "weights"))
        index = json.loads((self.folder / "exported" / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"]["total_size"], sum(len(data) for _, _, data in out.values()))
        self.assertEqual(set(index["weight_map"]), set(out))
        for name, file in index["weight_map"].items():
            self.assertIn(name, read_safetensors(self.folder / "exported" / file))

    # What was written without a config.json of others is read again, and is the same model.
    def read_again(self, family):
        self.prepare(family)
        before = self.round_trip("--family", family)
        self.assertEqual(self.config()["model_type"], family)
        for folder in ("weights", "checkpoints"):
            shutil.rmtree(self.folder / folder)
        (self.folder / "exported").rename(self.folder / "weights")
        self.assertEqual(self.round_trip("--family", family, pipeline=1), before)
        return self.config()

    def test_llama_as_we_write_it(self):
        self.assertEqual(self.read_again("llama")["rope_scaling"], SCALING)

    def test_mistral_as_we_write_it(self):
        self.assertEqual(self.read_again("mistral")["sliding_window"], 32)

    def test_qwen3_as_we_write_it(self):
        self.assertEqual(self.read_again("qwen3")["head_dim"], 16)

    def test_phi3_as_we_write_it(self):
        self.assertEqual(self.read_again("phi3")["sliding_window"], 47)

    def test_olmo2_as_we_write_it(self):
        self.assertFalse(self.read_again("olmo2")["attention_bias"])

    def test_smollm3_as_we_write_it(self):
        self.assertEqual(self.read_again("smollm3")["no_rope_layer_interval"], 2)

    def test_gemma_as_we_write_it(self):
        self.assertEqual(self.read_again("gemma")["hidden_activation"], "gelu_pytorch_tanh")

    def test_gemma2_as_we_write_it(self):
        config = self.read_again("gemma2")
        wanted = {"query_pre_attn_scalar": 7, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "sliding_window": 6,
                  "layer_types": ["sliding_attention", "full_attention"] * 2, "architectures": ["Gemma2ForCausalLM"]}
        self.assertEqual({key: config[key] for key in wanted}, wanted)

    def test_mixtral_as_we_write_it(self):
        config = self.read_again("mixtral")
        self.assertEqual((config["num_local_experts"], config["num_experts_per_tok"]), (4, 2))

    def test_qwen3_moe_as_we_write_it(self):
        config = self.read_again("qwen3_moe")
        wanted = {"num_experts": 6, "moe_intermediate_size": 20, "norm_topk_prob": True, "mlp_only_layers": [0]}
        self.assertEqual({key: config[key] for key in wanted}, wanted)

    def test_gpt2_as_we_write_it(self):
        self.assertEqual(self.read_again("gpt2")["n_positions"], 24)

    def test_what_cannot_be_written(self):
        self.prepare("qwen3")
        self.round_trip()
        self.refused(2, ["exported/model.safetensors: there are weights already"], "export", "--checkpoint", "checkpoints", "--out",
                     "exported")
        self.refused(2, ["the checkpoint's model is no llama: qk_norm = true"], "export", "--checkpoint", "checkpoints", "--out",
                     "other", "--family", "llama")
        self.refused(2, ["nowhere: there is no checkpoint"], "export", "--checkpoint", "nowhere", "--out", "other")
        other = self.folder / "like"
        other.mkdir()
        (other / "config.json").write_text(json.dumps(CONFIGS["qwen3"] | {"rope_theta": 5000.0}))
        self.refused(2, ["model.rope_theta is 1000000", "and 5000"], "export", "--checkpoint", "checkpoints", "--out", "other", "--like",
                     "like")


def change_header(path, change):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    change(header)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])


# One message each, before any process is started. The weights are zeros: nothing is computed.
class BadWeights(WeightCase):
    def setUp(self):
        super().setUp()
        self.weights = self.folder / "weights"
        self.weights.mkdir()
        self.set_config(CONFIGS["llama"])
        self.tensors = {name: ("F32", shape, bytes(4 * shape[0] * (shape[1] if len(shape) > 1 else 1)))
                        for name, shape in reference_decoder.shapes(CONFIGS["llama"]).items()}
        self.file = self.weights / "model.safetensors"
        write_safetensors(self.file, self.tensors)
        (self.folder / "tokens.bin").write_bytes(bytes(2000))

    def set_config(self, config, **changes):
        (self.weights / "config.json").write_text(json.dumps(config | changes))

    def is_refused(self, *words, **layout):
        self.job(steps=1, **layout)
        message = self.refused(2, words, "train", "job.toml", "--init", "weights")
        self.assertIn("reading the weights of --init", message)
        self.assertFalse((self.folder / "run").exists(), "something was begun")

    def test_truncated(self):
        self.file.write_bytes(self.file.read_bytes()[:-100])
        self.is_refused("model.safetensors", "data_offsets do not lie within", "cut off")
        self.file.write_bytes(self.file.read_bytes()[:100])
        self.is_refused("does not fit into the file")
        self.file.write_bytes(b"")
        self.is_refused("0 bytes are too few")

    def test_overlapping_offsets(self):
        def overlap(header):
            first, second = [key for key in header if key != "__metadata__"][:2]
            begin, end = header[second]["data_offsets"]
            header[second]["data_offsets"] = [begin - 4, end - 4]
        change_header(self.file, overlap)
        self.is_refused("model.layers.0.input_layernorm.weight", "begins at byte")

    def test_wrong_type_and_shape(self):
        name = "model.layers.1.mlp.up_proj.weight"
        write_safetensors(self.file, self.tensors | {name: ("I32", *self.tensors[name][1:])})
        self.is_refused(f'tensor "{name}" has dtype I32', "F32, BF16 or F16")
        write_safetensors(self.file, self.tensors | {name: ("F32", [32, 48], self.tensors[name][2])})
        self.is_refused(f'tensor "{name}" has shape [32, 48], config.json asks for [48, 32]')

    def test_missing_and_unknown_tensors(self):
        name = "model.layers.1.mlp.up_proj.weight"
        write_safetensors(self.file, {key: value for key, value in self.tensors.items() if key != name})
        self.is_refused(f'tensor "{name}" is missing, [48, 32] of a llama')
        extra = "model.layers.1.self_attn.q_norm.weight"
        write_safetensors(self.file, self.tensors | {extra: ("F32", [12], bytes(48))})
        self.is_refused(f'tensor "{extra}" is none of a llama')
        self.file.unlink()
        self.is_refused("there is neither model.safetensors nor model.safetensors.index.json")

    def test_an_index_that_does_not_fit(self):
        self.file.rename(self.weights / "a.safetensors")
        index = {name: "a.safetensors" for name in self.tensors}
        path = self.weights / "model.safetensors.index.json"
        path.write_text(json.dumps({"weight_map": index | {"lm_head.weight": "../b.safetensors"}}))
        self.is_refused("weight_map.lm_head.weight: wanted the name of a file in the same folder")
        path.write_text(json.dumps({"weight_map": index | {"lm_head.weight": "b.safetensors"}}))
        self.is_refused("b.safetensors: cannot open it for reading")
        write_safetensors(self.weights / "b.safetensors", {"other": ("F32", [1], bytes(4))})
        self.is_refused('tensor "lm_head.weight" is not in b.safetensors')

    def test_families_and_settings_that_are_not_computed(self):
        self.job()
        shutil.copytree(self.weights, self.folder / "good")
        text = (self.folder / "job.toml").read_text().replace("weights/config.json", "good/config.json")
        self.write("job.toml", text)
        families = "llama, mistral, qwen2, qwen3, phi3, olmo2, smollm3, gemma, gemma2, mixtral, qwen3_moe, gpt2"
        for changes, words in [({"model_type": "granite"}, ['model_type = "granite"', families]),
                               (CONFIGS["qwen3_moe"] | {"norm_topk_prob": False, "architectures": None}, ["norm_topk_prob = false"]),
                               ({"model_type": "gemma3_text"}, ['model_type = "gemma3_text"']),
                               ({"model_type": "gemma2", "architectures": None, "hidden_activation": "relu"}, ['hidden_activation = "relu"', "not computed"]),
                               ({"model_type": "gemma2", "architectures": None, "use_bidirectional_attention": True}, ["use_bidirectional_attention = true"]),
                               ({"hidden_act": "gelu"}, ['hidden_act = "gelu"', "not computed"]),
                               ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, ["rope_scaling", "yarn", "not computed"]),
                               ({"quantization_config": {"bits": 4}}, ["quantization_config"]),
                               ({"rope_scaling": None}, ["model.rope_scaling is {", "in the job and nothing in weights/config.json"]),
                               ({"num_key_value_heads": 4}, ["model.kv_heads is 2 in the job and 4 in weights/config.json"])]:
            with self.subTest(changes):
                self.set_config(CONFIGS["llama"], **changes)
                self.refused(2, words, "train", "job.toml", "--init", "weights")

    def test_a_window_that_is_too_short(self):
        types = ["full_attention"] + 3 * ["sliding_attention"]  # no model says that the first layer alone has none
        self.set_config(CONFIGS["mistral"], sliding_window=8, head_dim=12, layer_types=types)
        self.is_refused("sliding_window = 8: model.sequence = 16 reaches further back")

    def test_emulated_devices_have_no_weights(self):
        self.job()
        text = (self.folder / "job.toml").read_text().replace('"cpu"', '"emulated:a100-80g"')
        self.write("job.toml", text)
        self.refused(2, ['device = "emulated:a100-80g" computes nothing'], "train", "job.toml", "--init", "weights")


if __name__ == "__main__":
    unittest.main()
