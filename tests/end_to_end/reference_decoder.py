"""Decoders in plain PyTorch, for weights_test.py: written from the papers and from the configuration of each family, with none
of our code. It is slow and obvious: a loop over heads, the whole model in one process, autograd, torch.optim.

As a program it needs an interpreter that has PyTorch (python_with_torch), whichever runs the tests:

    reference_decoder.py CASE.json

writes a folder as transformers does (config.json, safetensors) with random weights, and beside it what the model computes:
logits of some tokens, and the losses of some steps of an optimizer. Every number of CASE.json is explained where it is read.
"""
import functools
import json
import math
import os
import pathlib
import struct
import subprocess
import sys


@functools.lru_cache(maxsize=None)
def python_with_torch():
    """Its path, or None. Debian's PyTorch is the system interpreter's; tests may run under another one."""
    for python in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        # Importing it would take seconds.
        there = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
        if os.path.exists(python) and subprocess.run([python, "-c", there], capture_output=True).returncode == 0:
            return python
    return None


# --- safetensors by hand -------------------------------------------------------------------------

SIZES = {"F32": 4, "BF16": 2, "F16": 2}


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, shape, bytes)}"""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["dtype"], entry["shape"], data[8 + length:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def read_folder(folder):
    folder, out = pathlib.Path(folder), {}
    for path in sorted(folder.glob("*.safetensors")):
        out.update(read_safetensors(path))
    return out


# --- what a family's tensors are -----------------------------------------------------------------

# Where a layer's experts are, and what each calls gate, up and down.
EXPERT_WORDS = {"mixtral": ("block_sparse_moe", ("w1", "w3", "w2")),
                "qwen3_moe": ("mlp", ("gate_proj", "up_proj", "down_proj"))}


def count_of_experts(config):
    return config.get("num_local_experts") or config["num_experts"]


def has_experts(config, layer):
    if config["model_type"] not in EXPERT_WORDS:
        return False
    return layer not in config.get("mlp_only_layers", []) and (layer + 1) % config.get("decoder_sparse_step", 1) == 0


def shapes(config):
    """{name: shape} of a whole model, from config.json alone."""
    c, out = config, {}
    if c["model_type"] == "gpt2":
        h, f = c["n_embd"], c["n_inner"]
        out["transformer.wte.weight"], out["transformer.wpe.weight"] = [c["vocab_size"], h], [c["n_positions"], h]
        for i in range(c["n_layer"]):
            for name, shape in {"ln_1.weight": [h], "ln_1.bias": [h], "attn.c_attn.weight": [h, 3 * h], "attn.c_attn.bias": [3 * h],
                                "attn.c_proj.weight": [h, h], "attn.c_proj.bias": [h], "ln_2.weight": [h], "ln_2.bias": [h],
                                "mlp.c_fc.weight": [h, f], "mlp.c_fc.bias": [f], "mlp.c_proj.weight": [f, h],
                                "mlp.c_proj.bias": [h]}.items():
                out[f"transformer.h.{i}.{name}"] = shape
        out["transformer.ln_f.weight"] = out["transformer.ln_f.bias"] = [h]
        return out
    h, f, d = c["hidden_size"], c["intermediate_size"], c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    out["model.embed_tokens.weight"] = [c["vocab_size"], h]
    for i in range(c["num_hidden_layers"]):
        layer = {"input_layernorm.weight": [h], "self_attn.q_proj.weight": [q, h], "self_attn.k_proj.weight": [kv, h],
                 "self_attn.v_proj.weight": [kv, h], "self_attn.o_proj.weight": [h, q],
                 "post_attention_layernorm.weight": [h], "mlp.gate_proj.weight": [f, h], "mlp.up_proj.weight": [f, h],
                 "mlp.down_proj.weight": [h, f]}
        if c["model_type"] == "phi3":
            for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj"):
                del layer[name + ".weight"]
            layer |= {"self_attn.qkv_proj.weight": [q + 2 * kv, h], "mlp.gate_up_proj.weight": [2 * f, h]}
        if c["model_type"] == "olmo2":
            del layer["input_layernorm.weight"]
            layer |= {"self_attn.q_norm.weight": [q], "self_attn.k_norm.weight": [kv], "post_feedforward_layernorm.weight": [h]}
        if c["model_type"] == "gemma2":
            layer |= {"pre_feedforward_layernorm.weight": [h], "post_feedforward_layernorm.weight": [h]}
        if c["model_type"] == "qwen2":
            layer |= {"self_attn.q_proj.bias": [q], "self_attn.k_proj.bias": [kv], "self_attn.v_proj.bias": [kv]}
        if c["model_type"] in ("qwen3", "qwen3_moe"):
            layer |= {"self_attn.q_norm.weight": [d], "self_attn.k_norm.weight": [d]}
        if has_experts(c, i):
            for name in ("gate", "up", "down"):
                del layer[f"mlp.{name}_proj.weight"]
            block, words = EXPERT_WORDS[c["model_type"]]
            f = c.get("moe_intermediate_size", c["intermediate_size"])
            layer[f"{block}.gate.weight"] = [count_of_experts(c), h]
            for expert in range(count_of_experts(c)):
                for word, shape in zip(words, ([f, h], [f, h], [h, f])):
                    layer[f"{block}.experts.{expert}.{word}.weight"] = shape
        out |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
    out["model.norm.weight"] = [h]
    if not c["tie_word_embeddings"]:
        out["lm_head.weight"] = [c["vocab_size"], h]
    return out


# --- the decoder, once more ----------------------------------------------------------------------

def decoder(torch, config, weights, precision="fp32"):
    """A function from tokens [samples, sequence] to logits [samples, sequence, vocabulary]. In bf16 every product reads and
    writes numbers of it, and so does every layer; norms, rotations, softmax and activation functions compute in float32."""
    c, w = config, weights
    gpt2, gemma2 = c["model_type"] == "gpt2", c["model_type"] == "gemma2"
    gemma = gemma2 or c["model_type"] == "gemma"
    heads = c["n_head"] if gpt2 else c["num_attention_heads"]
    kv_heads = heads if gpt2 else c["num_key_value_heads"]
    hidden = c["n_embd"] if gpt2 else c["hidden_size"]
    size = hidden // heads if gpt2 else c.get("head_dim", hidden // heads)
    layers = c["n_layer"] if gpt2 else c["num_hidden_layers"]

    def narrow(x):
        return x.bfloat16() if precision == "bf16" else x

    def layer_norm(x, name):
        x = x.float()
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return narrow((x - mean) / torch.sqrt(variance + c["layer_norm_epsilon"]) * w[name + ".weight"] + w[name + ".bias"])

    def rms_norm(x, name):
        x = x.float()
        scale = 1 + w[name + ".weight"] if gemma else w[name + ".weight"]
        return narrow(x / torch.sqrt((x * x).mean(-1, keepdim=True) + c["rms_norm_eps"]) * scale)

    def capped(x, cap):
        return cap * torch.tanh(x / cap) if cap else x

    def linear(x, name):
        if gpt2:  # Conv1D: [inputs, outputs]
            return x @ narrow(w[name + ".weight"]) + narrow(w[name + ".bias"])
        y = x @ narrow(w[name + ".weight"]).T
        return y + narrow(w[name + ".bias"]) if name + ".bias" in w else y

    def angle_per_token(pair):
        frequency = 1 / c["rope_theta"] ** (2 * pair / size)
        scaling = c.get("rope_scaling")
        if not scaling:
            return frequency
        # As in the code that Meta published with Llama 3.1: by wave length.
        wave, first = 2 * math.pi / frequency, scaling["original_max_position_embeddings"]
        low, high = first / scaling["low_freq_factor"], first / scaling["high_freq_factor"]
        if wave < high:
            return frequency
        if wave > low:
            return frequency / scaling["factor"]
        smooth = (first / wave - scaling["low_freq_factor"]) / (scaling["high_freq_factor"] - scaling["low_freq_factor"])
        return (1 - smooth) * frequency / scaling["factor"] + smooth * frequency

    def rotate(x):  # [samples, sequence, size], pairs (i, i + size / 2)
        position = torch.arange(x.shape[1], dtype=torch.float64)
        angle = torch.stack([position * angle_per_token(pair) for pair in range(size // 2)], 1)
        cosine, sine = torch.cos(angle).float(), torch.sin(angle).float()
        a, b = x.float()[..., :size // 2], x.float()[..., size // 2:]
        return narrow(torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1))

    def looks_back(layer):
        """How many tokens of all before it, itself included."""
        types, window = c.get("layer_types"), c.get("sliding_window")
        if not window or not (gemma2 or c["model_type"] in ("mistral", "phi3")):
            return math.inf
        if types:
            return window if types[layer] == "sliding_attention" else math.inf
        return math.inf if gemma2 and layer % 2 == 1 else window

    def attention(x, layer, rotates=True, window=math.inf):
        if gpt2:
            q, k, v = linear(x, layer + "attn.c_attn").split(hidden, -1)
        elif c["model_type"] == "phi3":
            q, k, v = linear(x, layer + "self_attn.qkv_proj").split([heads * size, kv_heads * size, kv_heads * size], -1)
        else:
            q, k, v = (linear(x, f"{layer}self_attn.{name}_proj") for name in "qkv")
        if c["model_type"] == "olmo2":  # of all heads together
            q, k = rms_norm(q, layer + "self_attn.q_norm"), rms_norm(k, layer + "self_attn.k_norm")
        place = torch.arange(x.shape[1])
        back = place[:, None] - place[None, :]
        below = (back >= 0) & (back < window)
        scale = 1 / math.sqrt(c["query_pre_attn_scalar"] if gemma2 else size)
        out = []
        for head in range(heads):
            part = head // (heads // kv_heads)
            query = q[..., head * size:(head + 1) * size]
            key, value = (each[..., part * size:(part + 1) * size] for each in (k, v))
            if c["model_type"] in ("qwen3", "qwen3_moe"):
                query, key = rms_norm(query, layer + "self_attn.q_norm"), rms_norm(key, layer + "self_attn.k_norm")
            if not gpt2 and rotates:
                query, key = rotate(query), rotate(key)
            scores = (query @ key.transpose(1, 2)).float() * scale
            scores = capped(scores, c["attn_logit_softcapping"] if gemma2 else None).masked_fill(~below, -math.inf)
            out.append(narrow(torch.softmax(scores, -1)) @ value)
        return linear(torch.cat(out, -1), layer + ("attn.c_proj" if gpt2 else "self_attn.o_proj"))

    def mixture(x, layer):
        """Token by token, each with its experts: their outputs times the softmax of their scores, which add up to 1."""
        block, (gate, up, down) = EXPERT_WORDS[c["model_type"]]
        scores = linear(x, f"{layer}{block}.gate").float()
        samples = []
        for sample in range(x.shape[0]):
            rows = []
            for token in range(x.shape[1]):
                row, of_row = x[sample, token], scores[sample, token]
                chosen = sorted(range(len(of_row)), key=lambda e: -of_row[e].item())[:c["num_experts_per_tok"]]
                powers = torch.exp(of_row[chosen] - of_row[chosen].max())
                total = 0
                for share, expert in zip(powers / powers.sum(), chosen):
                    name = f"{layer}{block}.experts.{expert}."
                    inside = linear(row, name + gate).float()
                    inside = inside * torch.sigmoid(inside) * linear(row, name + up).float()
                    total = total + share * linear(narrow(inside), name + down).float()
                rows.append(narrow(total))
            samples.append(torch.stack(rows))
        return torch.stack(samples)

    def mlp(x, layer):
        if gpt2:
            y = linear(x, layer + "mlp.c_fc").float()
            y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))
            return linear(narrow(y), layer + "mlp.c_proj")
        if c["model_type"] == "phi3":
            gate, up = (y.float() for y in linear(x, layer + "mlp.gate_up_proj").chunk(2, -1))
        else:
            gate, up = linear(x, layer + "mlp.gate_proj").float(), linear(x, layer + "mlp.up_proj").float()
        if gemma:
            gate = 0.5 * gate * (1 + torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate ** 3)))
        else:
            gate = gate * torch.sigmoid(gate)
        return linear(narrow(gate * up), layer + "mlp.down_proj")

    def forward(tokens):
        if gpt2:
            x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][:tokens.shape[1]]
        else:
            x = w["model.embed_tokens.weight"][tokens]
        x = narrow(x)
        if gemma:  # the factor has as few bits as what it multiplies
            x = x * torch.tensor(math.sqrt(hidden), dtype=x.dtype)
        for i in range(layers):
            layer = f"transformer.h.{i}." if gpt2 else f"model.layers.{i}."
            if gpt2:
                x = x + attention(layer_norm(x, layer + "ln_1"), layer)
                x = x + mlp(layer_norm(x, layer + "ln_2"), layer)
            elif c["model_type"] == "olmo2":
                x = x + rms_norm(attention(x, layer), layer + "post_attention_layernorm")
                x = x + rms_norm(mlp(x, layer), layer + "post_feedforward_layernorm")
            elif gemma2:
                y = attention(rms_norm(x, layer + "input_layernorm"), layer, window=looks_back(i))
                x = x + rms_norm(y, layer + "post_attention_layernorm")
                y = mlp(rms_norm(x, layer + "pre_feedforward_layernorm"), layer)
                x = x + rms_norm(y, layer + "post_feedforward_layernorm")
            else:
                rotates = c.get("no_rope_layers", [1] * layers)[i] == 1
                x = x + attention(rms_norm(x, layer + "input_layernorm"), layer, rotates, looks_back(i))
                inside = mixture if has_experts(c, i) else mlp
                x = x + inside(rms_norm(x, layer + "post_attention_layernorm"), layer)
        x = layer_norm(x, "transformer.ln_f") if gpt2 else rms_norm(x, "model.norm")
        embedding = "transformer.wte.weight" if gpt2 else "model.embed_tokens.weight"
        logits = x @ narrow(w[embedding if c["tie_word_embeddings"] else "lm_head.weight"]).T
        return capped(logits.float(), c["final_logit_softcapping"]) if gemma2 else logits

    return forward


def likeliest(torch, forward, prompt, count):
    """So many tokens, each the likeliest after all before it, and the logits from which each was taken."""
    tokens, rows = list(prompt), []
    with torch.no_grad():
        while len(rows) < count:
            rows.append(forward(torch.tensor([tokens]))[0, -1])
            tokens.append(int(rows[-1].argmax()))
    return tokens[len(prompt):], rows


def rate_of(optimizer, step, steps):
    """A linear warm-up, then as the rule says."""
    o = optimizer
    if step <= o["warmup_steps"]:
        return o["learning_rate"] * step / o["warmup_steps"]
    rule, top, floor = o.get("rule", "cosine"), o["learning_rate"], o["learning_rate_min"]
    begin = steps - o["decay_steps"] if rule == "wsd" else o["warmup_steps"]
    if rule == "constant" or step <= begin:
        return top
    done = (step - begin) / (steps - begin)
    left = 0.5 * (1 + math.cos(math.pi * done)) if rule == "cosine" else 1 - done
    return floor + (top - floor) * left


def train(torch, case, forward, weights, tokens):
    """Losses and norms of gradients of so many steps on consecutive windows of the tokens."""
    o, sequence, batch, steps = case["optimizer"], case["sequence"], case["global_batch"], case["steps"]
    groups = [{"params": [w for w in weights.values() if (w.dim() == 2) == matrices], "weight_decay": decay}
              for matrices, decay in ((True, o["weight_decay"]), (False, 0))]
    if o.get("name", "adamw") == "sgd":
        optimizer = torch.optim.SGD(groups, lr=1, momentum=o["momentum"], nesterov=o["nesterov"])
    else:
        optimizer = torch.optim.AdamW(groups, lr=1, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"])
    windows, losses, norms = (len(tokens) - 1) // sequence, [], []
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate_of(o, step, steps)
        first = [((step - 1) * batch + s) % windows * sequence for s in range(batch)]
        samples = torch.stack([tokens[at:at + sequence + 1] for at in first])
        logits = forward(samples[:, :-1]).float()
        loss = -torch.log_softmax(logits, -1).gather(2, samples[:, 1:, None]).mean()
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(list(weights.values()), o.get("clip_norm", math.inf)).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def main(case_path):
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    folder = pathlib.Path(case_path).parent
    case = json.loads(pathlib.Path(case_path).read_text())
    config, dtype = case["config"], case["dtype"]
    types = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
    stored = {}
    for name, shape in shapes(config).items():
        values = torch.randn(shape) * (0.3 if len(shape) == 2 else 0.1)
        if len(shape) == 1 and name.endswith(".weight") and not config["model_type"].startswith("gemma"):
            values += 1  # norms; Gemma's add it themselves
        stored[name] = values.to(types[dtype])
    weights_folder = folder / "weights"
    weights_folder.mkdir()
    (weights_folder / "config.json").write_text(json.dumps(config))
    # Files of at most so many tensors; with an index where there are several. Some files leave the prefix out.
    prefix = "" if case["prefix"] else "transformer." if config["model_type"] == "gpt2" else "model."
    names = {name: name.removeprefix(prefix) if prefix else name for name in stored}
    parts = [list(stored)[i:i + case["per_file"]] for i in range(0, len(stored), case["per_file"])]
    index = {}
    for i, part in enumerate(parts):
        file = "model.safetensors" if len(parts) == 1 else f"model-{i + 1:05}-of-{len(parts):05}.safetensors"
        index |= {names[name]: file for name in part}
        as_bytes = {names[name]: (dtype, list(stored[name].shape), stored[name].view(torch.int16 if SIZES[dtype] == 2 else torch.int32)
                                  .numpy().tobytes()) for name in part}
        write_safetensors(weights_folder / file, as_bytes)
    if len(parts) > 1:
        (weights_folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    weights = {name: values.float().requires_grad_() for name, values in stored.items()}
    forward = decoder(torch, config, weights)
    raw = (folder / "tokens.bin").read_bytes()
    tokens = torch.tensor(struct.unpack(f"<{len(raw) // 2}H", raw))
    with torch.no_grad():
        logits = forward(tokens[:2 * case["sequence"]].view(2, -1))
    (folder / "logits.bin").write_bytes(logits.contiguous().numpy().tobytes())
    answers = [likeliest(torch, forward, prompt, case["answer_tokens"]) for prompt in case.get("prompts", [])]
    for i, (_, rows) in enumerate(answers):
        (folder / f"answer-{i}.bin").write_bytes(torch.stack(rows).contiguous().numpy().tobytes())
    forward = decoder(torch, config, weights, case.get("precision", "fp32"))
    losses, norms = train(torch, case, forward, weights, tokens)
    answer = {"losses": losses, "norms": norms, "answers": [tokens for tokens, _ in answers]}
    (folder / "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
