"""What is exported for Megatron-LM and torchtitan, read as they read it.

export_megatron.json and export_torchtitan.json have the arguments that we write as their programs define them, with where; the
rules below are those of Megatron's arguments and configuration at the same commit. Each example is exported, each preset and each
kind of parallelism, and models whose arguments once did not start.
"""
import argparse
import json
import pathlib
import re
import tomllib
import unittest

from program import ROOT, Case

HERE = pathlib.Path(__file__).parent
MEGATRON = json.loads((HERE / "export_megatron.json").read_text())["arguments"]
TORCHTITAN = json.loads((HERE / "export_torchtitan.json").read_text())["tables"]

PRESETS = ("gpt2", "gpt3-175b", "bloom-176b", "mpt-7b", "llama3-8b", "llama3.1-405b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2",
           "deepseek-v3", "gpt-oss-120b", "phi3.5-moe", "grok-1", "nemotron4-340b")

CLUSTER = """
[[cluster.datacenter]]
name = "one"
device = "h100-80g"
nodes = 8
devices_per_node = 8
[training]
global_batch = 64
precision = "{precision}"
recompute = "{recompute}"
"""

# Kinds of parallelism over 64 devices.
PARALLELISMS = {
    "data": "pipeline = 1\ntensor = 1\ndata = 64",
    "tensor": "pipeline = 1\ntensor = 8\ndata = 8\nsequence_parallel = true\nzero = 1",
    "context": "pipeline = 1\ntensor = 1\ncontext = 8\ndata = 8\nzero = 3",
    "pipeline": "pipeline = 2\ntensor = 2\ndata = 16\nzero = 1\norder = \"tp-cp-pp-dp\"",
    "chunks": "pipeline = 2\ntensor = 1\ndata = 32\nvirtual_stages = 2\nschedule = \"interleaved\"",
    "zb-v": "pipeline = 2\ntensor = 1\ndata = 32\nvirtual_stages = 2\nschedule = \"zb-v\"",
    "dualpipev": "pipeline = 2\ntensor = 1\ndata = 16\nvirtual_stages = 2\nschedule = \"dualpipev\"",
    "zb-h1": "pipeline = 2\ntensor = 1\ndata = 32\nschedule = \"zb-h1\"",
}

SMALL = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "vocab_size": 1024,
         "max_position_embeddings": 512}
CONFIGS = {
    "llama31": SMALL | {"model_type": "llama", "num_key_value_heads": 8, "rope_scaling": {
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}},
    "attention_bias": SMALL | {"model_type": "llama", "attention_bias": True},
    "pythia": SMALL | {"model_type": "gpt_neox", "rotary_pct": 0.25},
    "gemma": SMALL | {"model_type": "gemma", "head_dim": 64, "num_key_value_heads": 1},
    "gemma2": SMALL | {"model_type": "gemma2", "head_dim": 64, "sliding_window": 128},
    "gemma3_text": SMALL | {"model_type": "gemma3_text", "head_dim": 64, "sliding_window": 128},
    "phi": SMALL | {"model_type": "phi"},
    "phi3": SMALL | {"model_type": "phi3"},
    "olmo2": SMALL | {"model_type": "olmo2"},
    "smollm3": SMALL | {"model_type": "smollm3"},
    "glm4_moe": SMALL | {"model_type": "glm4_moe", "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
                         "n_shared_experts": 1, "num_nextn_predict_layers": 1},
    "qwen3_next": SMALL | {"model_type": "qwen3_next", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64},
    "llama4_text": SMALL | {"model_type": "llama4_text", "num_local_experts": 8, "num_experts_per_tok": 1,
                            "interleave_moe_layer_step": 2, "intermediate_size_mlp": 512},
}


def pattern(text):
    """A number, or a list of 0 and 1 as Python writes it."""
    if "[" not in text:
        return int(text)
    if not re.fullmatch(r"[\[\](),0-9+*]+", text):
        raise ValueError(text)
    return eval(text, {"__builtins__": {}})  # nothing but the signs above


class Refused(Exception):
    pass


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(message)


def megatrons_parser():
    parser = Parser(allow_abbrev=False)
    for name, of in MEGATRON.items():
        if "choices" in of:
            parser.add_argument(name, choices=of["choices"])
        elif "type" in of:
            parser.add_argument(name, type={"int": int, "float": float, "str": str, "pattern": pattern}[of["type"]])
        else:
            parser.add_argument(name, action="store_true")
    return parser


class Exports(Case):
    def megatron(self, job):
        """What its parser makes of a job's export, and the notes; fails where the program would not start."""
        done = self.tombolo("convert", job, "--to", "megatron")
        self.assertEqual(done.returncode, 0, done.stderr)
        words = done.stdout.split()
        try:
            args = megatrons_parser().parse_args(words)
        except Refused as refusal:
            self.fail(f"{job}: {refusal}\n{done.stdout}")
        for name in re.findall(r"--[a-z][a-z0-9-]*", done.stderr):
            self.assertIn(name, MEGATRON, done.stderr)
        self.starts(args, done.stderr)
        return args, done.stderr

    def starts(self, args, notes):
        """The rules of arguments.py and transformer_config.py that exports once broke, or could."""
        layers = args.num_layers
        self.assertFalse(args.swiglu and (args.squared_relu or args.quick_geglu))
        self.assertFalse(args.group_query_attention and args.num_query_groups is None)
        self.assertFalse(args.moe_router_enable_expert_bias and args.moe_router_score_function not in ("sigmoid", "sqrtsoftplus"))
        if args.num_experts and args.moe_router_topk == 1 and args.moe_router_score_function in (None, "softmax"):
            self.assertTrue(args.moe_router_pre_softmax)
        if args.experimental_attention_variant == "gdn":
            self.assertIsNotNone(args.linear_attention_freq)
        for freq in (args.moe_layer_freq, args.no_rope_freq, args.linear_attention_freq):
            if isinstance(freq, list):
                self.assertEqual(len(freq), layers)
        if isinstance(args.no_rope_freq, int):
            self.assertEqual(layers % args.no_rope_freq, 0)
        self.assertEqual(args.num_attention_heads % args.tensor_model_parallel_size, 0)
        if args.num_experts and args.tensor_model_parallel_size > 1 and not args.sequence_parallel:
            self.assertIn("sequence_parallel = false", notes)
        self.assertFalse(args.multi_latent_attention and args.group_query_attention)

    def torchtitan(self, job):
        done = self.tombolo("convert", job, "--to", "torchtitan")
        self.assertEqual(done.returncode, 0, done.stderr)
        for table, fields in tomllib.loads(done.stdout).items():
            for key, value in fields.items():
                self.assertIn(key, TORCHTITAN[table], done.stdout)
                of = TORCHTITAN[table][key]
                if "choices" in of:
                    self.assertIn(value, of["choices"])
                else:
                    self.assertIs(type(value), {"int": int, "str": str}[of["type"]], (key, value))
        return done.stderr

    def job(self, model, parallelism, precision="bf16", recompute="none"):
        return self.write("job.toml", "[model]\n" + model + "\n" + CLUSTER.format(precision=precision, recompute=recompute)
                          + "[parallelism]\n" + PARALLELISMS[parallelism] + "\n")

    def config(self, name):
        self.write("config.json", json.dumps(CONFIGS[name]))
        return 'config = "config.json"'

    def both(self, job):
        self.megatron(job)
        self.torchtitan(job)

    def test_each_preset(self):
        for preset in PRESETS:
            with self.subTest(preset):
                self.both(self.job(f'preset = "{preset}"', "data"))

    def test_each_kind_of_parallelism(self):
        for model in 'preset = "llama3-8b"', 'preset = "mixtral-8x7b"':
            for parallelism in PARALLELISMS:
                for precision, recompute in ("bf16", "none"), ("fp16", "selective"), ("fp32", "full"), ("fp8", "none"):
                    with self.subTest((model, parallelism, precision, recompute)):
                        self.both(self.job(model, parallelism, precision, recompute))

    def test_each_family(self):
        for name in CONFIGS:
            with self.subTest(name):
                self.both(self.job(self.config(name), "data"))

    def test_each_example(self):
        exported = 0
        for job in sorted((ROOT / "examples").rglob("*.toml")):
            done = self.tombolo("convert", job, "--to", "megatron")
            if done.returncode != 0:  # no job, no model, several datacenters, or a search: refused by name
                self.assertEqual(done.returncode, 2, done.stderr)
                continue
            exported += 1
            with self.subTest(job):
                self.both(job)
        self.assertGreater(exported, 3)

    def test_what_a_plan_found(self):
        self.ok("plan", ROOT / "examples" / "planning" / "llama3-70b" / "job.toml", "--out", "plan.json")
        self.both("plan.json")

    def test_what_once_did_not_start_or_trained_something_else(self):
        args, _ = self.megatron(self.job('preset = "deepseek-v3"', "data"))
        self.assertEqual(args.moe_router_score_function, "sigmoid")
        self.assertTrue(args.qk_layernorm)
        args, _ = self.megatron(self.job(self.config("llama31"), "data"))
        self.assertTrue(args.use_rope_scaling)
        self.assertEqual(args.rope_scaling_factor, 32)
        args, notes = self.megatron(self.job(self.config("attention_bias"), "data"))
        self.assertTrue(args.disable_bias_linear and args.add_qkv_bias)
        self.assertIn("biases of the projection after attention are left out", notes)
        args, _ = self.megatron(self.job(self.config("pythia"), "data"))
        self.assertEqual(args.rotary_percent, 0.25)
        for schedule, runs in ("zb-v", "interleaved 1F1B"), ("dualpipev", "interleaved 1F1B"), ("zb-h1", "1F1B"):
            job = self.job('preset = "llama3-8b"', schedule)
            self.assertIn(f'schedule = "{schedule}": Megatron runs {runs}', self.megatron(job)[1])
            self.assertEqual("torchtitan has none such" in self.torchtitan(job), schedule == "zb-h1")

    def test_layers_that_take_turns(self):
        args, _ = self.megatron(self.job(self.config("llama4_text"), "data"))
        self.assertEqual(args.moe_layer_freq, [0, 1] * 4)
        self.assertEqual(args.no_rope_freq, 4)
        args, _ = self.megatron(self.job(self.config("qwen3_next"), "data"))
        self.assertEqual((args.experimental_attention_variant, args.linear_attention_freq), ("gdn", 4))
        self.assertTrue(args.attention_output_gate)
        args, _ = self.megatron(self.job('preset = "deepseek-v3"', "data"))
        self.assertEqual(args.moe_layer_freq, [0] * 3 + [1] * 58)


if __name__ == "__main__":
    unittest.main()
