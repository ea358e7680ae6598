"""Random jobs for the tests of this folder: small models in every layout that a job can say.

    job = Job(seed)        # the same for a seed, everywhere
    job.text()             # a job file; permuted=True: its datacenters and links in another order
    job.open_text()        # without what `tombolo plan` decides

Dense models and mixtures of experts on 1 to 10 datacenters with 1 to 3 kinds of devices; pipelines across datacenters, whole
pipelines apart, or both; every mode of [exchange], tied ends, ZeRO 0 to 3, context, virtual stages, folded schedules, [prefill].
"""
import random

NAMES = "abcdefghij"
KINDS = ["a100-80g", "h100-80g", "a100-40g", "h200", "l40s"]
STACKS = ["tombolo", "tombolo", "megatron", "nemo", "torchtitan", "fsdp"]


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    return str(value)


def section(header, values):
    return header + "\n" + "".join(f"{key} = {toml(value)}\n" for key, value in values.items())


class Job:
    def __init__(self, seed):
        draw = self.draw = random.Random(f"job {seed}")
        self.seed = seed
        self.layout = draw.choices(["one", "across", "apart", "both"], [5, 5, 5, 0.6])[0]
        few, many = draw.choice([2, 2, 3, 3, 4, 5]), draw.choice([6, 8, 10])
        self.places = 1 if self.layout == "one" else few if draw.random() < 0.75 else many
        self.parallelism = {}
        self.exchange = {}
        self.draw_degrees()
        self.draw_model()
        self.draw_cluster()
        self.draw_places()
        self.draw_training()
        self.draw_schedule()
        self.draw_exchange()
        self.draw_prefill()

    # --- what is drawn -------------------------------------------------------------------------------------------------------
    def draw_degrees(self):
        draw = self.draw
        self.pipeline = {"one": draw.choice([1, 1, 2, 4]), "across": draw.choice([2, 2, 4]), "apart": draw.choice([1, 1, 2]),
                         "both": 2}[self.layout]
        self.data = {"one": draw.choice([1, 2, 4]), "across": draw.choice([1, 1, 2, 3]), "both": draw.choice([2, 3, 4]),
                     "apart": draw.choice([2, 3, 4])}[self.layout]
        if self.places > 5:
            if self.layout == "across":
                self.pipeline, self.data = draw.choice([6, 8]), draw.choice([1, 2])
            else:
                self.data = self.places
        self.tensor = draw.choice([1, 1, 2, 4])
        self.context = draw.choice([1, 1, 2]) if self.layout in ("one", "across") else 1
        self.zero = draw.choice([0, 1, 2, 3]) if self.layout == "one" else draw.choice([0, 1]) if self.layout == "across" else 0
        self.has_experts = draw.random() < 0.3
        self.expert = 1
        if self.has_experts and self.layout == "one":
            self.expert = draw.choice([e for e in (1, 2, 4) if self.data * self.context % e == 0])
        self.sequence_parallel = self.tensor > 1 and (self.expert > 1 or draw.random() < 0.6)

    def draw_model(self):
        draw = self.draw
        heads = draw.choice([8, 16])
        hidden = heads * draw.choice([64, 128])
        self.model = {"layers": self.pipeline * draw.choice([2, 2, 4]), "hidden": hidden, "heads": heads,
                      "kv_heads": draw.choice([heads, 4]), "ffn": draw.choice([2, 4]) * hidden,
                      "vocabulary": draw.choice([4096, 32_000]), "sequence": draw.choice([512, 1024, 2048]),
                      "norm": draw.choice(["rmsnorm", "layernorm"]), "activation": draw.choice(["swiglu", "gelu"])}
        # Sparse updates and local steps know no tied ends on several stages.
        self.model["tied_embeddings"] = draw.random() < 0.4
        if draw.random() < 0.2:
            self.model["bias"] = True
        if self.has_experts:
            self.model["experts"] = {"count": 8, "per_token": 2, "ffn": hidden, "shared_ffn": draw.choice([0, hidden]),
                                     "dense_layers": draw.choice([0, 1])}

    def draw_cluster(self):
        draw = self.draw
        kinds = draw.sample(KINDS, min(self.places, draw.choice([1, 2, 3])))
        if self.layout in ("one", "apart"):
            kinds = kinds[:1]  # replicas of a stage have like devices
        width = max(self.tensor, draw.choice([1, 2, 4, 8]))
        needed = self.pipeline * self.data * self.tensor * self.context
        up, out = draw.choice([300, 450]), draw.choice([200, 400])
        self.datacenters = []
        for i in range(self.places):
            kind = kinds[i % len(kinds)]
            self.datacenters.append({
                "name": NAMES[i], "device": kind, "nodes": -(-needed // width) + 1 if i else max(1, -(-needed // width)),
                "devices_per_node": width,
                "scale_up": {"domain": width, "bandwidth": f"{up} GBps", "latency": "1 us"},
                "scale_out": {"bandwidth": f"{out} Gbps", "latency": "5 us"},
                "price": f"{1 + 0.25 * i} USD/device-hour"})
        self.wan = []
        for i in range(self.places):
            for j in range(i + 1, self.places):
                link = {"between": [NAMES[i], NAMES[j]], "one_way_latency": f"{draw.randint(1, 60)} ms",
                        "node_pair_limit": f"{draw.choice([2, 5, 10, 25])} Gbps", "connections": 16,
                        "price": f"{0.01 * (1 + i + j):.2f} USD/GB"}
                if draw.random() < 0.3:
                    link["path_limit"] = f"{draw.choice([10, 40])} Gbps"
                self.wan.append(link)

    def draw_places(self):
        draw = self.draw
        names = NAMES[:self.places]
        used = names if self.places > 5 else "".join(sorted(draw.sample(names, min(self.places, draw.choice([2, 3])))))
        self.where = {}
        if self.layout == "across":
            stages = [used[i * len(used) // self.pipeline] for i in range(self.pipeline)]
            self.where = {"datacenter_per_stage": stages}
        elif self.layout == "apart":
            self.where = {"datacenter_per_replica": [used[i] if i < len(used) else draw.choice(used) for i in range(self.data)]}
        elif self.layout == "both":
            # Replicas of a stage on like devices.
            stages = []
            for kind in sorted({each["device"] for each in self.datacenters}) * 2:
                alike = [each["name"] for each in self.datacenters if each["device"] == kind]
                stages.append([draw.choice(alike) for _ in range(self.data)])
            self.where = {"datacenter_per_stage": stages[:self.pipeline]}

    def draw_training(self):
        draw = self.draw
        self.micro = draw.choice([1, 1, 2])
        self.microbatches = draw.choice([2, 4, 8, 16])
        if self.layout == "across":  # mostly enough for the pace of a pipeline over a WAN
            self.microbatches = self.pipeline * draw.choice([2] + [4, 6, 8] * 5)
        self.each = None
        if self.layout in ("apart", "across") and draw.random() < 0.2:
            self.each = [self.microbatches + draw.choice([0, 1, 2]) for _ in range(self.data)]
        batch = self.micro * (sum(self.each) if self.each else self.microbatches * self.data)
        self.training = {"global_batch": batch, "micro_batch": self.micro,
                         "precision": draw.choice(["bf16", "bf16", "fp16", "fp32", "fp8"]),
                         "recompute": draw.choice(["none", "selective", "full"]), "stack": draw.choice(STACKS)}

    def draw_schedule(self):
        draw = self.draw
        self.schedule, self.chunks = "1f1b", 1
        plain = self.layout in ("one", "across") and self.pipeline > 1 and not self.each
        self.strands = False
        if plain and draw.random() < 0.25:
            self.schedule = draw.choice(["interleaved"] * 4 * (self.layout == "one") +
                                        ["gpipe", "zb-h1", "w", "dualpipev", "atlas"])
        # Of those that no closed form knows, some.
        folded_across = self.schedule in ("w", "dualpipev") and self.layout == "across"
        if (self.schedule != "interleaved" and self.seed % 2) or (folded_across and self.seed % 4):
            self.schedule = "1f1b"
        if self.schedule == "interleaved":
            self.chunks = 2
            rounds = -(-self.microbatches // self.pipeline)
            self.training["global_batch"] = self.micro * self.data * rounds * self.pipeline
        if self.schedule in ("w", "dualpipev"):
            self.chunks = 2
            self.strands = self.layout == "one" and self.tensor * self.context > 1 and not self.has_experts
            self.training["global_batch"] = self.micro * self.data * max(self.microbatches, 2 * self.pipeline)

    def draw_exchange(self):
        draw = self.draw
        if self.layout not in ("apart", "both"):
            return
        local = self.layout == "apart"  # local steps want whole pipelines in a datacenter
        mode = draw.choice(["dense", "dense", "sparse"] + ["local", "sparse-local"] * local)
        self.exchange = {"mode": mode}
        if mode == "dense" and draw.random() < 0.3:
            self.exchange["overlap"] = False
        if "sparse" in mode:
            if draw.random() < 0.3:
                self.exchange["select"] = "chunks"
            elif draw.random() < 0.7:
                self.exchange["density"] = draw.choice([0.002, 0.02, 0.1])
            if "select" not in self.exchange and draw.random() < 0.15:
                self.exchange["select"] = "top-k"
            else:
                self.exchange["values"] = draw.choice(["bf16", "int8", "int4", "2bit"])
        if mode == "sparse":
            self.exchange["staleness"] = draw.choice([0, 1])
            if draw.random() < 0.2:
                self.exchange["optimizer_visits"] = "all"
        if "local" in mode:
            self.exchange["steps"] = draw.choice([2, 4, 6])
            if mode == "local":
                self.exchange["values"] = draw.choice(["bf16", "fp32", "int8", "int4"])
            if draw.random() < 0.3:
                self.exchange["fragments"] = 2
        if self.layout == "apart" and mode == "dense" and self.seed % 2:
            names = self.where["datacenter_per_replica"]
            self.zero = int(len({names.count(name) for name in names}) == 1)
        if mode != "dense" and self.pipeline > 1:
            self.model["tied_embeddings"] = False

    def draw_prefill(self):
        self.prefill = {}
        if self.schedule == "1f1b" and self.tensor * self.context == 1 and self.draw.random() < 0.15:
            self.prefill = {"model": "gpt2", "memory": "1 GB"}

    # --- what is said --------------------------------------------------------------------------------------------------------
    def cluster_text(self, permuted=False, better=None):
        places, links = [dict(place) for place in self.datacenters], [dict(link) for link in self.wan]
        if better:
            better(places, links)
        if permuted:
            order = random.Random(f"order {self.seed}")
            order.shuffle(places)
            order.shuffle(links)
            for link in links:
                link["between"] = link["between"][::-1]
        return ("".join(section("[[cluster.datacenter]]", each) for each in places) +
                "".join(section("[[cluster.wan]]", each) for each in links))

    def text(self, permuted=False):
        said = {"tensor": self.tensor, "pipeline": self.pipeline, "data": self.data, "context": self.context,
                "expert": self.expert, "zero": self.zero, "schedule": self.schedule}
        said |= {"virtual_stages": self.chunks} if self.chunks > 1 else {}
        said |= {"sequence_parallel": True} if self.sequence_parallel else {}
        said |= {"microbatches_per_replica": self.each} if self.each else {}
        out = section("[model]", self.model) + self.cluster_text(permuted) + section("[training]", self.training)
        out += section("[parallelism]", said | self.where)
        out += section("[exchange]", self.exchange) if self.exchange else ""
        return out + (section("[prefill]", self.prefill) if self.prefill else "")

    def open_text(self, permuted=False, better=None):
        """For `tombolo plan`, with few degrees left to choose. better(datacenters, links) may change the cluster."""
        said = {"tensor": self.tensor, "pipeline": self.pipeline, "data": self.data}
        training = self.training | {"global_batch": self.micro * self.data * self.microbatches}
        return (section("[model]", self.model) + self.cluster_text(permuted, better) + section("[training]", training) +
                section("[parallelism]", said))

    def better(self):
        """(name, path in the job, value as it is, better value): one of a link and two of a datacenter that are used."""
        draw = random.Random(f"better {self.seed}")
        used = str(self.where) if self.where else "'a'"
        out = []
        links = [each for each in self.wan if all(f"'{name}'" in used for name in each["between"])]
        if links:
            link = draw.choice(links)
            path = f"cluster.wan.{link['between'][0]}-{link['between'][1]}"
            rate, latency = int(link["node_pair_limit"].split()[0]), int(link["one_way_latency"].split()[0])
            out.append(draw.choice([("link", f"{path}.node_pair_limit", f"{rate} Gbps", f"{rate * 1.5:g} Gbps"),
                                    ("link", f"{path}.one_way_latency", f"{latency} ms", f"{latency * 0.6:g} ms")]))
        # Replicas of a stage that lie apart have like devices: all get better, of one kind.
        if self.layout == "both":
            return out
        place = draw.choice([each for each in self.datacenters if f"'{each['name']}'" in used])
        path = f"cluster.datacenter.{'*' if self.layout == 'apart' else place['name']}"
        out.append(draw.choice([("device", f"{path}.device.peak", None, 1.3), ("device", f"{path}.device.memory_bandwidth", None, 1.3)]))
        out.append(("memory", f"{path}.device.memory", None, 1.5))
        return out
