"""What a Plan sends in an iteration, added up by textbook formulas from its JSON alone.

    counted = Count(json of a Plan)
    counted.between       # {class: {(rank, rank): bytes}}: pipeline, gradients, outer_steps, tied
    counted.inside        # {kind: bytes of all devices}: tensor, context, expert, data; where replicas share a datacenter
    counted.usd(seconds)  # devices x price x time + bytes over the WAN x price

Shares no code with what it is held against. Sparse updates have the bytes that are expected of them.
"""
import collections
import itertools
import math

BF16_SUMS_IN_FP32 = {"megatron", "megatron-2022", "megatron-deepspeed", "torchtitan"}
FOLDS = {"zb-v", "w", "dualpipev"}
BLOCK, HEADER = 16, 24
BYTES_OF_BLOCK = {"fp32": 64, "bf16": 32, "int8": 17, "int4": 9, "2bit": 5}
GROUP_MIN = 1 << 20  # bytes of a group of gradients
DOLLARS = {"hour": 1 / 3600, "device-hour": 1 / 3600, "s": 1.0, "GB": 1e-9, "TB": 1e-12, "B": 1.0}


def dollars(text):
    amount, unit = text.split()
    return float(amount) * DOLLARS[unit.split("/")[1]]


class Model:
    def __init__(self, m):
        self.m = m
        self.hidden, self.heads, self.words = m["hidden"], m["heads"], m["vocabulary"]
        self.kv_width = 2 * m["kv_heads"] * (m["hidden"] // m["heads"])
        self.matrices = 3 if m["activation"] == "swiglu" else 2
        self.experts = m.get("experts")
        self.norm = self.hidden * (2 if m["norm"] == "layernorm" else 1)

    def mlp(self, width, bias):
        return self.matrices * self.hidden * width + ((self.matrices - 1) * width + self.hidden if bias else 0)

    def routed(self, layer):
        return self.experts is not None and layer >= self.experts.get("dense_layers", 0)

    def of_experts(self, layer):
        """Those that expert parallelism divides."""
        return self.experts["count"] * self.mlp(self.experts["ffn"], False) if self.routed(layer) else 0

    def layer(self, layer):
        h, bias = self.hidden, self.m["bias"]
        count = h * (h + self.kv_width) + h * h + 2 * self.norm + (h + self.kv_width + h if bias else 0)
        if not self.routed(layer):
            return count + self.mlp(self.m["ffn"], bias)
        shared = self.experts.get("shared_ffn", 0)
        return count + h * self.experts["count"] + (self.mlp(shared, False) if shared else 0) + self.of_experts(layer)

    def ends(self, stage):
        """(embedding, norm and head): a tied head has no matrix beside its embedding."""
        before = self.words * self.hidden if stage["embedding"] else 0
        matrix = 0 if self.m["tied_embeddings"] and stage["embedding"] else self.words * self.hidden
        return before, (self.norm + matrix if stage["head"] else 0)

    def stage(self, stage):
        layers = range(stage["first_layer"], stage["first_layer"] + stage["layers"])
        return sum(self.layer(each) for each in layers) + sum(self.ends(stage))


class Count:
    def __init__(self, plan):
        self.plan, self.model = plan, Model(plan["model"])
        self.p, self.t = plan["parallelism"], plan["training"]
        self.data, self.positions = self.p["data"], self.p["pipeline"]
        self.stages = [each["slice"] for each in plan["stages"]]
        self.ranks = plan["ranks"]
        self.word = 4 if self.t["precision"] == "fp32" else 2
        self.gradient = self.bytes_of_a_gradient()
        self.between = {kind: collections.Counter() for kind in ("pipeline", "gradients", "outer_steps", "tied")}
        self.inside = collections.Counter()
        self.count_pipelines()
        self.count_tied_ends()
        for number, stage in enumerate(self.stages):
            self.count_gradients(number, stage)
            self.count_inside(stage)

    # --- who is where --------------------------------------------------------------------------------------------------------
    def bytes_of_a_gradient(self):
        precision, stack = self.t["precision"], self.t["stack"]
        on_cpus = all(each["device"]["kind"] == "cpu" for each in self.plan["cluster"]["datacenter"])
        if precision == "fp32" or (precision != "fp16" and (stack in BF16_SUMS_IN_FP32 or (stack == "tombolo" and on_cpus))):
            return 4
        return 2

    def position(self, stage):
        chunk, place = divmod(stage, self.positions)
        return self.positions - 1 - place if self.p["schedule"] in FOLDS and chunk % 2 else place

    def rank(self, stage, replica):
        return self.position(stage) * self.data + replica

    def place(self, rank):
        return self.ranks[rank]["datacenter"]

    def microbatches(self, replica):
        each = self.p.get("microbatches_per_replica")
        return each[replica] if each else self.t["global_batch"] // (self.t["micro_batch"] * self.data)

    def all_microbatches(self):
        return sum(self.microbatches(replica) for replica in range(self.data))

    # --- between ranks -------------------------------------------------------------------------------------------------------
    def send(self, kind, a, b, size):
        if a != b and size:
            self.between[kind][a, b] += size

    def count_pipelines(self):
        boundary = self.t["micro_batch"] * self.plan["model"]["sequence"] * self.model.hidden * self.word
        for stage in range(len(self.stages) - 1):
            for replica in range(self.data):
                a, b = self.rank(stage, replica), self.rank(stage + 1, replica)
                self.send("pipeline", a, b, boundary * self.microbatches(replica))
                self.send("pipeline", b, a, boundary * self.microbatches(replica))

    def count_tied_ends(self):
        if not self.plan["model"]["tied_embeddings"]:
            return
        size = self.model.words * self.model.hidden * self.gradient * self.p["context"]
        for replica in range(self.data):
            a, b = self.rank(0, replica), self.rank(len(self.stages) - 1, replica)
            self.send("tied", a, b, size)
            self.send("tied", b, a, size)

    # Numbers of each group of a stage, of one shard: embedding, layers, head, joined until they are large enough.
    def groups(self, stage):
        before, after = self.model.ends(stage)
        units = [before] if stage["embedding"] else []
        units += [self.model.layer(stage["first_layer"] + i) for i in range(stage["layers"])]
        units += [after] if stage["head"] else []
        groups = []
        shards = self.p["tensor"]
        for unit in units:
            if groups and groups[-1] / shards * self.gradient < GROUP_MIN:
                groups[-1] += unit
            else:
                groups.append(unit)
        if len(groups) > 1 and groups[-1] / shards * self.gradient < GROUP_MIN:
            last = groups.pop()
            groups[-1] += last
        ends = [math.floor(end / shards) for end in itertools.accumulate(groups)]
        ends[-1] = math.ceil(sum(groups) / shards)
        return [b - a for a, b in zip([0] + ends, ends)]

    def update(self, numbers):
        """Expected bytes of an update of so many numbers."""
        e = self.plan["exchange"]
        size = BYTES_OF_BLOCK[e.get("values", "bf16")]
        blocks = -(-numbers // BLOCK)
        if e["mode"] == "local":
            return HEADER + blocks * size
        if e.get("select") == "chunks":
            each = 64 if "density" not in e else round(e["density"] * 4096)
            rest = numbers % 4096
            chosen = numbers // 4096 * each + (max(1, (rest * each + 2048) // 4096) if rest else 0)
            return HEADER + (3 * chosen + 1) // 2 + -(-chosen // BLOCK) * size
        if e.get("select") == "top-k":
            return 4 + 8 * max(1, math.floor(numbers * e.get("density", 0.01) + 0.5))
        chosen = max(1, round(blocks * e.get("density", 0.01)))
        out = 1 - chosen / blocks
        return HEADER + chosen * (size + 1 + out**128 + out**16384)

    def count_gradients(self, number, stage):
        ranks = [self.rank(number, replica) for replica in range(self.data)]
        places = collections.defaultdict(list)
        for rank in ranks:
            places[self.place(rank)].append(rank)
        homes = list(places.values())
        if len(homes) == 1:
            return
        mode = self.plan.get("exchange", {}).get("mode", "dense")
        shards = self.ranks[ranks[0]]["shards"]
        for group, numbers in enumerate(self.groups(stage)):
            if mode in ("dense", "local", "sparse-local"):
                self.sum_inside(homes, numbers * (self.gradient + self.handed_on()) / 2 * shards)
            if mode == "dense":
                self.sum_across(homes, numbers * self.gradient * shards)
                continue
            size = round(self.update(numbers)) * shards
            every = self.plan["exchange"].get("steps", 30) if "local" in mode else 1
            kind = "outer_steps" if "local" in mode else "gradients"
            leaders = [home[group % len(home)] for home in homes]
            for home, leader in zip(homes, leaders):
                for other in leaders:
                    self.send(kind, leader, other, size / every)
                for member in home:
                    if mode == "sparse":
                        self.send("gradients", member, leader, numbers * self.gradient * shards)
                    self.send(kind, leader, member, len(homes) * size / every)

    # ZeRO 1 in a datacenter: gradients are scattered, and instead of their sums new parameters gathered.
    def handed_on(self):
        return self.word if self.p["zero"] else self.gradient

    # A ring or any other optimal all-reduce inside: each of n sends (n - 1)/n twice, here pair by pair.
    def sum_inside(self, homes, size):
        for home in homes:
            for a in home:
                for b in home:
                    self.send("gradients", a, b, 2 * size / len(home))

    # Of datacenters: two swap; more send 2 (D - 1)/D each, which way round is the Plan's. As one pair for each way here.
    def sum_across(self, homes, size):
        for home in homes:
            total = size if len(homes) == 2 else 2 * (len(homes) - 1) / len(homes) * size
            self.between["gradients"][home[0], ("elsewhere", self.place(home[0]))] += total

    # --- inside a rank, and replicas that share a datacenter -----------------------------------------------------------------
    def apart(self, stage):
        return len({self.place(self.rank(stage, replica)) for replica in range(self.data)}) > 1

    def neighbours_elsewhere(self, stage):
        number = self.stages.index(stage)
        beside = [each for each in (number - 1, number + 1) if 0 <= each < len(self.stages)]
        return sum(self.position(each) != self.position(number) for each in beside)

    def count_inside(self, stage):
        p, t, model = self.p, self.t, self.model
        tensor, context, expert = p["tensor"], p["context"], p["expert"]
        m, batch = self.all_microbatches(), t["micro_batch"] * self.plan["model"]["sequence"]
        hidden = batch * model.hidden * self.word
        layers = [stage["first_layer"] + i for i in range(stage["layers"])]
        full = t["recompute"] == "full"
        split = [each for each in layers if model.routed(each) and expert > 1]

        # Megatron: two all-reduces forward and two backward in a layer, each a scatter and a gather; experts that are split get
        # and give k copies of each token, and so does one that is shared.
        gathers = (2 * 2) * (len(layers) - len(split))
        if split:
            shared = 2 if model.experts.get("shared_ffn", 0) else 0
            gathers += (2 + 2 * model.experts["per_token"] + shared) * len(split)
        gathers *= 3 if full else 2
        gathers += 2 * stage["embedding"] + 2 * stage["head"]
        if not p["sequence_parallel"]:  # each sends its part of what all have: gathered where it comes
            gathers += self.neighbours_elsewhere(stage)
        self.inside["tensor"] += (tensor - 1) * m * gathers * hidden

        # Keys and values go round once forward, with their gradients backward, once more where scores are recomputed.
        rings = 3 if t["recompute"] == "none" else 4
        copies = tensor / min(tensor, self.plan["model"]["kv_heads"])
        self.inside["context"] += (context - 1) * m * rings * len(layers) * batch * model.kv_width * self.word * copies

        # k copies of each token, out and back, forward and backward; of a rank the share of e - 1 of e others.
        if split:
            ways = 6 if full else 4
            whole = 1 if p["sequence_parallel"] else tensor
            self.inside["expert"] += m * len(split) * ways * model.experts["per_token"] * hidden * whole * (expert - 1) / expert

        if self.apart(self.stages.index(stage)):
            return
        w, g = self.word, self.gradient
        each = max(self.microbatches(replica) for replica in range(self.data))
        # ZeRO 2 reduces after each microbatch; in a pipeline once, or once in a round of an interleaved one.
        rounds = -(-each // self.positions) if p.get("virtual_stages", 1) > 1 else 1
        per = {0: 2 * g, 1: g + w, 2: (each if self.positions == 1 else rounds) * g + w, 3: each * (2 * w + g)}[p["zero"]]
        of_experts = sum(model.of_experts(layer) for layer in split)
        n = self.data * context
        self.inside["data"] += (n - 1) * (model.stage(stage) - of_experts) * per
        self.inside["data"] += (n / expert - 1) * of_experts * per

    # --- sums ----------------------------------------------------------------------------------------------------------------
    def leaving(self, kind):
        """{datacenter: bytes that leave it}."""
        out = collections.Counter()
        for (a, b), size in self.between[kind].items():
            there = b[0] if isinstance(b, tuple) else self.place(b)
            if there != self.place(a):
                out[self.place(a)] += size
        return out

    def usd_of_devices(self, seconds):
        price = {each["name"]: dollars(each["price"]) for each in self.plan["cluster"]["datacenter"]}
        return sum(rank["shards"] * price[rank["datacenter"]] for rank in self.ranks) * seconds
