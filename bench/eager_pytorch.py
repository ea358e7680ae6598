#!/usr/bin/python3
"""Training beside eager PyTorch: the same shapes, the same core, in turns.

    bench/eager_pytorch.py --bench build/torch/bench/train_bench [--shapes demo,shakespeare] [--precision bf16] [--rounds 7]
        [--core 0]

Each round runs `train_bench --time` and then eager PyTorch, each in a process of its own that is bound to one core and
computes with one thread: two iterations to warm up, then the measured ones. The figure of a process is the median CPU
time of its iterations, which other processes disturb little; what is printed is the median over the rounds, the spread
between them, and the ratio of the throughputs, above 1 where ours is faster. Eager PyTorch is written as people write a
Llama: nn.Module, F.cross_entropy, torch.optim.AdamW with foreach, set_to_none. Both read Debian's LibTorch and the same
BLAS. Clock times and page faults stand beside it.

Eager PyTorch leaves memory to glibc, whose defaults fault pages anew in every iteration; ours keeps it. --same-memory gives
eager PyTorch the same by GLIBC_TUNABLES, so that what is left is the computation.
"""
import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

# batch and microbatch in sequences.
SHAPES = {
    "demo": dict(layers=2, hidden=256, heads=8, kv_heads=4, ffn=704, sequence=256, batch=16, micro_batch=2),
    "shakespeare": dict(layers=4, hidden=256, heads=8, kv_heads=8, ffn=704, sequence=256, batch=16, micro_batch=4),
    "llama-512": dict(layers=4, hidden=512, heads=8, kv_heads=8, ffn=1408, sequence=256, batch=8, micro_batch=2),
}
VOCABULARY = 256
KEPT_MEMORY = {"GLIBC_TUNABLES": "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=100000000000:glibc.malloc.hugetlb=1"}

JOB = """[model]
layers = {layers}
hidden = {hidden}
heads = {heads}
kv_heads = {kv_heads}
ffn = {ffn}
vocabulary = 256
sequence = {sequence}
[[cluster.datacenter]]
name = "here"
device = "cpu"
nodes = 1
devices_per_node = 1
[training]
global_batch = {batch}
micro_batch = {micro_batch}
precision = "{precision}"
[optimizer]
learning_rate = 1e-3
beta1 = 0.9
beta2 = 0.999
weight_decay = 0.01
[parallelism]
pipeline = 1
[data]
text = "text.txt"
[run]
steps = {steps}
"""


def eager(shape, steps, precision="fp32"):
    """Prints the same line as train_bench --time. bf16 as PyTorch recommends it for CPUs: torch.autocast."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    torch.set_num_threads(1)
    torch.manual_seed(1)
    hidden, heads, kv_heads, sequence = shape["hidden"], shape["heads"], shape["kv_heads"], shape["sequence"]
    head = hidden // heads

    class RMSNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight

    def rotate(x, cosine, sine):
        a, b = x[..., : head // 2], x[..., head // 2:]
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.mlp_norm = RMSNorm(), RMSNorm()
            linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)
            self.query, self.output = linear(hidden, hidden), linear(hidden, hidden)
            self.key, self.value = linear(hidden, kv_heads * head), linear(hidden, kv_heads * head)
            self.gate, self.up, self.down = linear(hidden, shape["ffn"]), linear(hidden, shape["ffn"]), linear(shape["ffn"], hidden)

        def forward(self, x, cosine, sine, mask):
            samples = x.shape[0]
            y = self.attention_norm(x)
            by_head = lambda z, n: z.view(samples, sequence, n, head).transpose(1, 2)
            q = rotate(by_head(self.query(y), heads), cosine, sine)
            k = rotate(by_head(self.key(y), kv_heads), cosine, sine)
            v = by_head(self.value(y), kv_heads)
            if kv_heads != heads:
                k, v = (z.repeat_interleave(heads // kv_heads, 1) for z in (k, v))
            weights = (q @ k.transpose(-1, -2) / math.sqrt(head) + mask).softmax(-1)
            x = x + self.output((weights @ v).transpose(1, 2).reshape(samples, sequence, hidden))
            y = self.mlp_norm(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, hidden)
            self.layers = nn.ModuleList([Layer() for _ in range(shape["layers"])])
            self.norm, self.head = RMSNorm(), nn.Linear(hidden, VOCABULARY, bias=False)
            angle = torch.outer(torch.arange(sequence).float(), 10000.0 ** (-torch.arange(0, head, 2) / head))
            self.cosine, self.sine = angle.cos(), angle.sin()
            self.mask = torch.full((sequence, sequence), float("-inf")).triu(1)

        def forward(self, tokens):
            x = self.embedding(tokens)
            for layer in self.layers:
                x = layer(x, self.cosine, self.sine, self.mask)
            return self.head(self.norm(x))

    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, foreach=True)
    batch, micro = shape["batch"], shape["micro_batch"]
    tokens = torch.randint(97, 123, (batch, sequence + 1))
    cpu, wall = [], []
    for step in range(steps + 2):
        if step == 2:
            before = resource.getrusage(resource.RUSAGE_SELF)
        begin, clock = time.thread_time(), time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for i in range(0, batch, micro):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                logits = model(tokens[i : i + micro, :-1])
            loss = F.cross_entropy(logits.float().view(-1, VOCABULARY), tokens[i : i + micro, 1:].reshape(-1))
            (loss * (micro / batch)).backward()
            total += loss.item()
        optimizer.step()
        if step >= 2:
            cpu.append(time.thread_time() - begin)
            wall.append(time.monotonic() - clock)
    after = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps(dict(cpu_s=cpu, wall_s=wall, faults=after.ru_minflt - before.ru_minflt, peak_mb=after.ru_maxrss * 1.024e-3,
                          loss=total * micro / batch)))


def run(command, core, **more):
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", **more)
    done = subprocess.run(["taskset", "-c", str(core)] + command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def compare(name, arguments, folder):
    shape = SHAPES[name]
    job = os.path.join(folder, name + ".toml")
    with open(job, "w") as file:
        file.write(JOB.format(**shape, steps=arguments.steps, precision=arguments.precision))
    asked = json.dumps(dict(shape=shape, steps=arguments.steps, precision=arguments.precision))
    results = {"tombolo": [], "eager": []}
    for _ in range(arguments.rounds):
        results["tombolo"].append(run([arguments.bench, "--time", job], arguments.core))
        results["eager"].append(run([sys.executable, os.path.abspath(__file__), "--eager", asked], arguments.core,
                                    **(KEPT_MEMORY if arguments.same_memory else {})))
    print(f"{name}: {shape}, {arguments.precision}, {arguments.rounds} rounds of {arguments.steps} iterations")
    medians = {}
    for who, rounds in results.items():
        cpu = [statistics.median(r["cpu_s"]) for r in rounds]
        wall = [statistics.median(r["wall_s"]) for r in rounds]
        medians[who] = statistics.median(cpu)
        print(f"  {who:8} {1e3 * medians[who]:7.1f} ms of CPU an iteration ({1e3 * min(cpu):.1f} to {1e3 * max(cpu):.1f}), "
              f"{1e3 * statistics.median(wall):7.1f} ms by the clock, {statistics.median(r['faults'] for r in rounds) / arguments.steps:.0f} "
              f"page faults an iteration, {rounds[0]['peak_mb']:.0f} MB, loss {rounds[0]['loss']:.3f}")
    pairs = [statistics.median(e["cpu_s"]) / statistics.median(t["cpu_s"]) for t, e in zip(results["tombolo"], results["eager"])]
    print(f"  throughput of eager PyTorch times {statistics.median(pairs):.3f} (by round {min(pairs):.3f} to {max(pairs):.3f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench", default="build/torch/bench/train_bench")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--same-memory", action="store_true", help="freed memory stays with eager PyTorch too, in huge pages")
    parser.add_argument("--eager", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.eager:
        return eager(**json.loads(arguments.eager))
    import torch
    print(f"PyTorch {torch.__version__}, one thread on core {arguments.core}, CPU time; load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "text.txt"), "w") as file:
            file.write("the quick brown fox jumps over the lazy dog\n" * 20000)
        for name in arguments.shapes.split(","):
            compare(name, arguments, folder)


if __name__ == "__main__":
    main()
