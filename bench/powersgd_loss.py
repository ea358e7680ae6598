#!/usr/bin/env python3
"""What loss PowerSGD reaches on the text of bench/thin_lines_loss.py, and data parallelism with all gradients.

    bench/powersgd_loss.py --text FILE [--steps 300,600,900] [--ranks 0,4] [--seeds 3] [--target 2.058]

The same decoder, batch, law of first values, AdamW and learning rates as there, in plain PyTorch. Gradients of two replicas are
computed one after the other in one process. Rank 0 takes their mean, as DDP does; another is that of the factors of PowerSGD (Vogels
et al. 2019, algorithm 1: one power iteration a step from the factor of the last one, error feedback), for matrices, as in DDP's own
hook, from the third step on. (With that hook and a Gloo of several threads, its sums meet in another order on each side and end
both.) A loss is the mean training loss, in nats per byte, over the last 50 steps and all seeds; "after" is the first step from which
the mean over 50 steps is at most --target. Needs torch, and nothing of ours.
"""
import argparse
import math
import pathlib
import statistics

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HIDDEN, HEADS, FFN, VOCABULARY, SEQUENCE, SAMPLES = 4, 128, 4, 352, 256, 64, 4
RATE, RATE_MIN, WARMUP, WINDOW = 3e-3, 1e-4, 20, 50


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class Norm(nn.Module):
    """nn.RMSNorm, which older releases do not have."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = Norm(), Norm()
        matrix = lambda to, of: nn.Linear(of, to, bias=False)
        self.register_buffer("mask", torch.full((SEQUENCE, SEQUENCE), -math.inf).triu(1))
        self.query, self.key, self.value, self.out = (matrix(HIDDEN, HIDDEN) for _ in range(4))
        self.gate, self.up, self.down = matrix(FFN, HIDDEN), matrix(FFN, HIDDEN), matrix(HIDDEN, FFN)
        for name, child in self.named_children():
            if isinstance(child, nn.Linear):
                residual = math.sqrt(2 * LAYERS) if name in ("out", "down") else 1
                nn.init.normal_(child.weight, std=1 / math.sqrt(3 * HIDDEN) / residual)

    def forward(self, x, cos, sin):
        heads = lambda t: t.view(*x.shape[:2], HEADS, HIDDEN // HEADS).transpose(1, 2)
        z = self.attention_norm(x)
        query, key = rotated(heads(self.query(z)), cos, sin), rotated(heads(self.key(z)), cos, sin)
        scores = query @ key.transpose(-1, -2) / math.sqrt(HIDDEN // HEADS) + self.mask
        z = scores.softmax(-1) @ heads(self.value(z))
        x = x + self.out(z.transpose(1, 2).reshape(x.shape))
        z = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(z)) * self.up(z))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(HIDDEN, VOCABULARY, bias=False)
        nn.init.normal_(self.head.weight, std=1 / math.sqrt(3 * HIDDEN))
        width = HIDDEN // HEADS
        angle = torch.arange(SEQUENCE)[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.head(self.norm(x))


def rate_at(step, steps):
    if step <= WARMUP:
        return RATE * step / WARMUP
    return RATE_MIN + (RATE - RATE_MIN) * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / max(1, steps - WARMUP)))


class PowerSgd:
    """The mean of the replicas' gradients of one matrix, as factors of one rank say it."""

    def __init__(self, shape, rank):
        self.right = torch.randn(shape[1], rank)
        self.kept = [torch.zeros(shape), torch.zeros(shape)]

    def mean(self, gradients):
        wanted = [g + kept for g, kept in zip(gradients, self.kept)]
        left, _ = torch.linalg.qr(sum(w @ self.right for w in wanted) / len(wanted))
        self.right = sum(w.T @ left for w in wanted) / len(wanted)
        said = left @ self.right.T
        self.kept = [w - said for w in wanted]
        return said


def train(text, steps, rank, seed):
    """The losses, step by step."""
    torch.manual_seed(seed)
    model = Decoder()
    parameters = list(model.parameters())
    power = [PowerSgd(p.shape, rank) if rank and p.dim() > 1 else None for p in parameters]
    adamw = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
                               {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
                              betas=(0.9, 0.95), eps=1e-8)
    draw = torch.Generator().manual_seed(seed)
    losses = []
    for step in range(1, steps + 1):
        replicas, loss_sum = [], 0
        for _ in range(2):
            begins = torch.randint(len(text) - SEQUENCE - 1, (SAMPLES,), generator=draw)
            rows = torch.stack([text[i:i + SEQUENCE + 1] for i in begins])
            loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
            replicas.append(torch.autograd.grad(loss, parameters))
            loss_sum += loss.item()
        losses.append(loss_sum / 2)
        for p, its_power, *gradients in zip(parameters, power, *replicas):
            p.grad = its_power.mean(gradients) if its_power and step > 2 else sum(gradients) / 2
        for group in adamw.param_groups:
            group["lr"] = rate_at(step, steps)
        adamw.step()
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--steps", default="300,600,900")
    parser.add_argument("--ranks", default="0,4")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--target", type=float, help="loss, left out: that of the first row")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    text = torch.tensor(list(arguments.text.read_bytes()), dtype=torch.long)
    text = text[:int(0.9 * len(text))]
    target = arguments.target
    print(f"| gradients | steps | loss, last {WINDOW} | after |\n|---|---|---|---|")
    for rank in map(int, arguments.ranks.split(",")):
        for steps in map(int, arguments.steps.split(",")):
            runs = [train(text, steps, rank, seed) for seed in range(1, arguments.seeds + 1)]
            mean = [statistics.mean(at) for at in zip(*runs)]
            curve = [statistics.mean(mean[i - WINDOW:i]) for i in range(WINDOW, steps + 1)]
            target = curve[-1] if target is None else target
            there = next((i + WINDOW for i, loss in enumerate(curve) if loss <= target), "never")
            print(f"| {f'PowerSGD, rank {rank}' if rank else 'all'} | {steps} | {curve[-1]:.3f} | {there} |", flush=True)


if __name__ == "__main__":
    main()
