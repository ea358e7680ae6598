"""Bytes over the WAN and money, added up by textbook formulas from the job alone, against what the commands say."""
import random
import unittest

from program import Case

GRADIENT = {("fp32", "tombolo"): 4, ("bf16", "tombolo"): 2, ("fp16", "tombolo"): 2, ("fp32", "megatron"): 4,
            ("bf16", "megatron"): 4, ("fp16", "megatron"): 2, ("fp32", "nemo"): 4, ("bf16", "nemo"): 2, ("fp16", "nemo"): 2}
WORD = {"fp32": 4, "bf16": 2, "fp16": 2}
VALUES = 32  # bytes of a block of 16 numbers in bf16


class Job:
    """One draw, small enough to be simulated at once."""

    def __init__(self, draw):
        self.layers, self.hidden, self.heads, self.words, self.tokens = 8, 96, 6, 1000, 48
        self.places = draw.choice([1, 2, 2, 3])
        self.pipeline, self.data = draw.choice([1, 2, 4]), draw.choice([1, 2, 3, 4])
        self.across = draw.random() < 0.5  # pipelines, or else gradients
        self.precision, self.stack = draw.choice(["fp32", "bf16", "fp16"]), draw.choice(["tombolo", "megatron", "nemo"])
        self.mode, self.steps = draw.choice(["dense", "dense", "local", "sparse"]), draw.choice([2, 5])
        if self.across or self.data == 1 or self.places == 1:
            self.mode = "dense"
        self.tied = draw.random() < 0.5 and (self.mode == "dense" or self.pipeline == 1)
        self.batch = 12 * self.data
        names = "abc"[:self.places]
        count = self.pipeline if self.across else self.data
        self.where = [names[i * self.places // count] if self.across else draw.choice(names) for i in range(count)]

    def text(self):
        out = (f"[model]\nlayers = {self.layers}\nhidden = {self.hidden}\nheads = {self.heads}\nvocabulary = {self.words}\n"
               f"sequence = {self.tokens}\nffn = 256\ntied_embeddings = {str(self.tied).lower()}\n")
        for name in "abc"[:self.places]:
            out += (f'[[cluster.datacenter]]\nname = "{name}"\ndevice = "a100-80g"\nnodes = 32\n'
                    'price = "2 USD/device-hour"\n')
        for a, b in [("a", "b"), ("a", "c"), ("b", "c")]:
            if b in "abc"[:self.places]:
                out += (f'[[cluster.wan]]\nbetween = ["{a}", "{b}"]\none_way_latency = "5 ms"\n'
                        'node_pair_limit = "1 Gbps"\nprice = "0.05 USD/GB"\n')
        out += (f'[training]\nglobal_batch = {self.batch}\nprecision = "{self.precision}"\nstack = "{self.stack}"\n'
                f"[parallelism]\npipeline = {self.pipeline}\ndata = {self.data}\n")
        if self.places > 1:
            key = "datacenter_per_stage" if self.across else "datacenter_per_replica"
            out += f"{key} = {self.where}\n".replace("'", '"')
        if self.mode != "dense":
            out += f'[exchange]\nmode = "{self.mode}"\n'
            out += f"steps = {self.steps}\n" if self.mode == "local" else "density = 0.05\n"
        return out

    def parameters(self, stage):
        """RMSNorm, attention, SwiGLU; embedding first, norm and head last. A tied head counts where no embedding is."""
        h = self.hidden
        layers = self.layers // self.pipeline
        count = layers * (4 * h * h + 3 * h * 256 + 2 * h)
        first, last = stage == 0, stage == self.pipeline - 1
        count += self.words * h if first else 0
        count += h if last else 0
        count += self.words * h if last and not (self.tied and first) else 0
        return count

    def crossing(self):
        """(pipeline, gradients, tied), bytes of an iteration in all directions together."""
        element = GRADIENT[self.precision, self.stack]
        pipeline = gradients = tied = 0
        if self.places == 1:
            return 0, 0, 0
        if self.across:
            boundaries = sum(a != b for a, b in zip(self.where, self.where[1:]))
            pipeline = 2 * boundaries * self.batch * self.tokens * self.hidden * WORD[self.precision]
            if self.tied and self.where[0] != self.where[-1]:
                tied = 2 * self.data * self.words * self.hidden * element
            return pipeline, 0, tied
        datacenters = len(set(self.where))
        for stage in range(self.pipeline):
            numbers = self.parameters(stage)
            if self.mode == "dense":  # an all-reduce among datacenters; a swap where there are two
                gradients += 2 * (datacenters - 1) * numbers * element
            elif self.mode == "local":  # an update of each to each other, once in so many steps
                gradients += datacenters * (datacenters - 1) * numbers / 16 * VALUES / self.steps
            else:
                gradients += datacenters * (datacenters - 1) * 0.05 * numbers / 16 * (VALUES + 1)
        return pipeline, gradients, tied


class TextbookBytes(Case):
    def test_random_jobs(self):
        for seed in range(40):
            job = Job(random.Random(seed))
            with self.subTest(seed=seed, mode=job.mode, where=job.where):
                path = self.write(f"job{seed}.toml", job.text())
                simulated = self.json("simulate", path)
                said = {"pipeline": 0, "gradients": 0, "outer_steps": 0, "tied": 0}
                for way in simulated["wan_per_iteration"]:
                    for kind, size in way["bytes"].items():
                        said[kind] += size
                pipeline, gradients, tied = job.crossing()
                self.assertEqual(said["pipeline"], pipeline)
                self.assertEqual(said["tied"], tied)
                if job.mode == "dense":
                    self.assertEqual(said["gradients"], gradients)
                else:  # headers of updates, blocks that are not full, every number's position
                    self.assertAlmostEqual(said["gradients"] + said["outer_steps"], gradients, delta=0.03 * gradients)
                egress = sum(said.values()) * 0.05e-9
                devices = job.pipeline * job.data * 2 / 3600
                cost = devices * simulated["iteration_ns"] * 1e-9 + egress
                self.assertAlmostEqual(simulated["cost_usd"], cost, delta=1e-9 * cost)
                if egress:
                    self.assertAlmostEqual(simulated["egress_usd"], egress, delta=1e-9 * egress)
                row = self.json("sweep", path, "--vary", "run.seed=1")["rows"][0]
                self.assertAlmostEqual(row["cost_usd"], cost, delta=1e-9 * cost)
                if job.mode != "dense":
                    estimated = self.json("estimate", path)
                    self.assertAlmostEqual(estimated["iteration_s"], simulated["iteration_ns"] * 1e-9, delta=1e-12)
                    self.assertAlmostEqual(estimated["cost_usd"], cost, delta=1e-9 * cost)


if __name__ == "__main__":
    unittest.main()
