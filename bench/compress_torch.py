#!/usr/bin/python3
"""Sparse updates beside PyTorch (Debian's python3-torch), on one core.

    bench/compress_torch.py sgd [--bench build/release/compress_bench] [--rounds 5]
        A step of torch.optim.SGD on 88 million floats, with one thread and foreach off and on, in turns with
        `compress_bench passes`: the least CPU time of each, and how many times less the sparse step takes.

    bench/compress_torch.py gradients --text FILE [--steps 60] | build/release/compress_bench gradients
        Trains a small decoder on the bytes of a text with AdamW and writes each step's gradient: the count of
        floats, then the floats.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import torch

ELEMENTS = 88_000_000


def torch_step(parameter, foreach):
    optimizer = torch.optim.SGD([parameter], lr=1e-3, foreach=foreach)
    begin = time.thread_time()
    optimizer.step()
    return time.thread_time() - begin


def sgd(options):
    torch.set_num_threads(1)
    parameter = torch.nn.Parameter(torch.randn(ELEMENTS))
    parameter.grad = torch.randn(ELEMENTS)
    least = {}
    for _ in range(options.rounds):
        for name, foreach in (("torch SGD", False), ("torch SGD foreach", True)):
            least[name] = min(least.get(name, 1e9), 1e3 * torch_step(parameter, foreach))
        lines = subprocess.run([options.bench, "passes", "--rounds", "2"], check=True, capture_output=True, text=True).stdout
        for line in map(json.loads, lines.splitlines()):
            if line["what"] in ("sparse SGD", "dense SGD"):
                least[line["what"]] = min(least.get(line["what"], 1e9), line["ms"])
    for name, ms in least.items():
        print(json.dumps({"what": name, "ms": round(ms, 2), "times the sparse step": round(ms / least["sparse SGD"], 1)}))


class Decoder(torch.nn.Module):
    def __init__(self, width, layers=6, heads=6, length=64):
        super().__init__()
        self.tokens = torch.nn.Embedding(256, width)
        self.places = torch.nn.Parameter(0.02 * torch.randn(length, width))
        layer = [torch.nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0, batch_first=True, norm_first=True)
                 for _ in range(layers)]
        self.layers = torch.nn.ModuleList(layer)
        self.head = torch.nn.Linear(width, 256)
        self.mask = torch.triu(torch.full((length, length), float("-inf")), 1)

    def forward(self, x):
        x = self.tokens(x) + self.places
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.head(x)


def gradients(options):
    torch.manual_seed(1)
    text = torch.frombuffer(bytearray(open(options.text, "rb").read()), dtype=torch.uint8).long()
    model = Decoder(options.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    out = sys.stdout.buffer
    out.write(sum(p.numel() for p in model.parameters()).to_bytes(8, "little"))
    for step in range(options.steps):
        at = torch.randint(len(text) - 65, (16,)).tolist()
        batch = torch.stack([text[i:i + 65] for i in at])
        logits = model(batch[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 256), batch[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        for p in model.parameters():
            out.write(p.grad.contiguous().numpy().tobytes())
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sgd", "gradients"))
    parser.add_argument("--bench", default=os.path.join("build", "release", "compress_bench"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--text")
    options = parser.parse_args()
    {"sgd": sgd, "gradients": gradients}[options.what](options)


if __name__ == "__main__":
    main()
