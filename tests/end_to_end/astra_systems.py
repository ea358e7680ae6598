"""Random systems for ASTRA-sim and for `tombolo astra`: the same files, so the same cycles.

    python3 tests/end_to_end/astra_systems.py --analytical BINARY --congestion BINARY --seeds 1:5000

compares with ASTRA-sim's analytical binaries (AstraSim_Analytical_Congestion_Unaware and ..._Aware, built from commit
518bd513). With --record FILE it writes what they answered, one line per system, for astra_systems_test.py.
"""
import argparse
import collections
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

from program import BUILD

# Chakra's node types and collectives (et_def.proto).
LOAD, STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE = 2, 3, 4, 5, 6, 7
ALL_REDUCE, ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER = 0, 2, 6, 7
WORDS = {ALL_REDUCE: "all-reduce", ALL_GATHER: "all-gather", ALL_TO_ALL: "all-to-all", REDUCE_SCATTER: "reduce-scatter"}


class Draw:
    """SplitMix64: the same systems wherever they are drawn."""

    def __init__(self, seed):
        self.state = seed * 0x9E3779B97F4A7C15 & (1 << 64) - 1

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (1 << 64) - 1
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        z = (z ^ z >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
        return (z ^ z >> 31) % n

    def of(self, *choices):
        return choices[self.below(len(choices))]

    def chance(self, percent):
        return self.below(100) < percent


# --- Chakra's protobuf, as much of it as these systems need.

def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


ATTRIBUTE = {"comm_type": 9, "comm_src": 7, "comm_dst": 7, "comm_tag": 7, "comm_size": 13, "tensor_size": 13}


def node(number_, kind, after=(), micros=0, group=None, **attributes):
    out = number(1, number_) + text(2, b"n%d" % number_) + number(3, kind)
    for before in after:
        out += number(5, before)
    if micros:
        out += number(7, micros)
    out += text(10, text(1, b"is_cpu_op") + number(27, 0))
    for name, value in attributes.items():
        out += text(10, text(1, name.encode()) + number(ATTRIBUTE[name], value))
    if group:
        out += text(10, text(1, b"pg_name") + text(29, group.encode()))
    return out


# --- The systems.

def dimensions(draw, law):
    """Blocks and sizes; 2 to 27 NPUs."""
    many = draw.of(1, 1, 2, 2, 3) if law == "analytical" else 1  # its network under congestion knows no more
    blocks = [draw.of("Ring", "FullyConnected", "Switch") for _ in range(many)]
    sizes = [draw.of(*((2, 3, 4, 5, 6, 8, 12) if many == 1 else (2, 3, 4) if many == 2 else (2, 2, 3))) for _ in blocks]
    # A ring of two under congestion ends ASTRA-sim.
    return blocks, [3 if block == "Ring" and size == 2 else size for block, size in zip(blocks, sizes)]


def algorithm(draw, kind, size):
    choices = ["ring", "ring", "direct", "direct1", "direct2", "direct3"]
    if size & size - 1 == 0 and kind != ALL_TO_ALL:
        choices.append("halvingDoubling")
        if kind == ALL_REDUCE:
            choices.append("doubleBinaryTree")
    return draw.of(*choices)


def memory(draw, npus):
    kind = draw.of("NO_MEMORY_EXPANSION", "PER_NPU_MEMORY_EXPANSION", "MEMORY_POOL", "PER_NODE_MEMORY_EXPANSION")
    out = {"memory-type": kind}
    if kind != "NO_MEMORY_EXPANSION":
        out.update({"remote-mem-latency": 100, "remote-mem-bw": draw.of(1, 1, 10)})
    if kind == "PER_NODE_MEMORY_EXPANSION":
        nodes = draw.of(*(n for n in range(1, npus + 1) if npus % n == 0))
        out.update({"num-nodes": nodes, "num-npus-per-node": npus // nodes})
    return out


def operations(draw, npus, kind, size, remote, group):
    """Of all ranks: a straggler or not, one or two collectives, what the memory is asked for, a message around."""
    late, again, around = draw.chance(40), draw.chance(40), draw.chance(25)
    ranks = []
    for rank in range(npus):
        nodes, last = [], []
        if late and draw.chance(70):
            nodes.append(node(1, COMPUTE, micros=draw.of(1, 1, 2, 3)))
            last = [1]
        if group is None or rank in group:
            nodes.append(node(2, COLLECTIVE, last, comm_type=kind, comm_size=size, group="1" if group else None))
            last = [2]
        if remote:
            nodes.append(node(3, LOAD, last, tensor_size=900))
            last = [3]
        if again and group is None:
            nodes.append(node(4, COLLECTIVE, last, comm_type=kind, comm_size=size))
            last = [4]
        if around:
            ahead, behind = (rank + 1) % npus, (rank - 1) % npus
            nodes.append(node(5, SEND, last, comm_src=rank, comm_dst=ahead, comm_tag=5, comm_size=size))
            nodes.append(node(6, RECEIVE, last, comm_src=behind, comm_dst=rank, comm_tag=5, comm_size=size))
        if not nodes:
            nodes.append(node(1, COMPUTE, micros=1))
        ranks.append(nodes)
    return ranks


class System:
    def __init__(self, seed):
        draw = Draw(seed)
        self.law = draw.of("analytical", "analytical", "congestion")
        self.rendezvous = draw.chance(20)
        blocks, sizes = dimensions(draw, self.law)
        npus = math.prod(sizes)
        self.npus = npus
        kind = draw.of(ALL_REDUCE, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL)
        system = {"scheduling-policy": draw.of("LIFO", "FIFO"), "endpoint-delay": draw.of(1, 5, 10, 30, 100),
                  "active-chunks-per-dimension": draw.of(1, 1, 2, 3), "preferred-dataset-splits": draw.of(1, 1, 2, 4),
                  "collective-optimization": draw.of("localBWAware", "baseline"), "local-mem-bw": draw.of(1600, 50, 5, 1)}
        for each, word in WORDS.items():
            system[f"{word}-implementation"] = ["ring"] * len(sizes)
        system[f"{WORDS[kind]}-implementation"] = [algorithm(draw, kind, size) for size in sizes]
        remote = memory(draw, npus)
        group = None
        if len(sizes) == 1 and npus > 3 and draw.chance(25):
            group = sorted({draw.below(npus) for _ in range(npus)})
            if len(group) < 2 or len(group) == npus:
                group = None
            else:
                system[f"{WORDS[kind]}-implementation"] = [draw.of("ring", "direct")]
        size = draw.of(npus * 10, npus * npus * 10, npus * 100, npus * 4 + draw.below(5000))
        network = {"topology": blocks, "npus_count": sizes,
                   "bandwidth": [float(draw.of(50, 50, 1, 10, 400)) for _ in sizes],
                   "latency": [float(draw.of(1, 2, 5, 10, 100, 500)) for _ in sizes]}
        ranks = operations(draw, npus, kind, size, remote["memory-type"] != "NO_MEMORY_EXPANSION", group)
        self.files = {
            "system.json": json.dumps(system).encode(), "memory.json": json.dumps(remote).encode(),
            "network.yml": "".join(f"{key}: [ {', '.join(map(str, value))} ]\n" for key, value in network.items()).encode()}
        if group:
            self.files["groups.json"] = json.dumps({"1": group}).encode()
        for rank, nodes in enumerate(ranks):
            version = text(1, b"0.0.4")
            self.files[f"trace.{rank}.et"] = b"".join(varint(len(part)) + part for part in [version, *nodes])

    def write(self, folder):
        for name, content in self.files.items():
            (pathlib.Path(folder) / name).write_bytes(content)

    def arguments(self, folder):
        out = [f"--workload-configuration={folder}/trace", f"--system-configuration={folder}/system.json",
               f"--network-configuration={folder}/network.yml", f"--remote-memory-configuration={folder}/memory.json"]
        if "groups.json" in self.files:
            out.append(f"--comm-group-configuration={folder}/groups.json")
        return out + (["--rendezvous-protocol=true"] if self.rendezvous else [])


def cycles(command, npus):
    """When each NPU ends, or a word on why there is no answer."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "does not end"
    found = {int(rank): int(end) for rank, end in re.findall(r"sys\[(\d+)\] finished, (\d+) cycles", ran.stdout)}
    if sorted(found) != list(range(npus)):
        return (ran.stderr or ran.stdout).strip().split("\n")[-1][-200:] or f"exit code {ran.returncode}"
    return [found[rank] for rank in range(npus)]


def ours(system, folder):
    return cycles([BUILD / "tombolo", "astra", f"--law={system.law}", *system.arguments(folder)], system.npus)


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--analytical", required=True)
    words.add_argument("--congestion", required=True)
    words.add_argument("--seeds", default="1:200")
    words.add_argument("--record")
    options = words.parse_args()
    first, last = map(int, options.seeds.split(":"))
    found, lines = collections.Counter(), []
    for seed in range(first, last + 1):
        system = System(seed)
        with tempfile.TemporaryDirectory() as folder:
            system.write(folder)
            theirs = cycles([getattr(options, system.law), *system.arguments(folder)], system.npus)
            if isinstance(theirs, str):
                found["ASTRA-sim does not complete"] += 1
                continue
            mine = ours(system, folder)
        what = "equal" if mine == theirs else "refused" if isinstance(mine, str) else "different"
        found[what] += 1
        lines.append(json.dumps({"seed": seed, "cycles": theirs}))
        if what != "equal":
            print(f"seed {seed} ({system.law}): {what}: ASTRA-sim {theirs}, tombolo {mine}", flush=True)
    print(dict(found))
    if options.record:
        pathlib.Path(options.record).write_text("\n".join(lines) + "\n")
    return found["different"] + found["refused"] > 0


if __name__ == "__main__":
    sys.exit(main())
