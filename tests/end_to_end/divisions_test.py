"""What does not divide is refused by every command alike, and by the same words."""
import unittest

from program import Case

JOB = """
[model]
{model}
[[cluster.datacenter]]
name = "one"
device = "h100-80g"
nodes = 64
devices_per_node = 8
scale_up = {{ domain = 8, bandwidth = "450 GBps", latency = "1 us" }}
scale_out = {{ bandwidth = "400 Gbps", latency = "5 us" }}
[training]
global_batch = {batch}
micro_batch = 1
precision = "bf16"
[parallelism]
{parallelism}
"""
GPT2_XL = "layers = 48\nhidden = 1600\nheads = 25\nactivation = \"gelu\"\nnorm = \"layernorm\"\nvocabulary = 50257\nsequence = 1024"
LLAMA = "layers = 32\nhidden = 4096\nheads = 32\nvocabulary = 50257\nsequence = {}"
EXPERTS = 'preset = "mixtral-8x7b"'

# What the job says, and what of it is wrong.
JOBS = {
    "25 heads in 2": (GPT2_XL, 1024, "tensor = 2\ndata = 8\npipeline = 1", "parallelism.tensor = 2: does not divide heads = 25"),
    "32 heads in 3": (LLAMA.format(4096), 1024, "tensor = 3\ndata = 8\npipeline = 1",
                      "parallelism.tensor = 3: does not divide heads = 32"),
    "a sequence over 8": (LLAMA.format(2049), 1024, "tensor = 8\nsequence_parallel = true\ndata = 8\npipeline = 1",
                          "parallelism.tensor = 8: does not divide sequence = 2049"),
    "a sequence over contexts": (LLAMA.format(2050), 1024, "tensor = 1\ncontext = 4\ndata = 8\npipeline = 1",
                                 "parallelism.context = 4: twice it does not divide sequence = 2050"),
    "a batch over pipelines": (LLAMA.format(4096), 23, "tensor = 1\ndata = 8\npipeline = 4", "global_batch = 23"),
    "an odd context": (LLAMA.format(4096), 1024, "tensor = 1\ncontext = 5\ndata = 8\npipeline = 1",
                       "parallelism.context = 5: twice it does not divide sequence = 4096"),
    "an MLP in 7": ("layers = 14\nhidden = 448\nheads = 7\nffn = 1000\nvocabulary = 256\nsequence = 64", 64,
                    "tensor = 7\ndata = 8\npipeline = 1", "parallelism.tensor = 7: does not divide ffn = 1000"),
    "experts over 3": (EXPERTS, 48, "tensor = 1\nexpert = 3\ndata = 24\npipeline = 1", "parallelism.expert = 3: "),
    "experts that are none": (LLAMA.format(4096), 1024, "tensor = 1\nexpert = 8\ndata = 8\npipeline = 1",
                              "parallelism.expert = 8: the model has no experts"),
    "an expert in 8": (LLAMA.format(4096) + "\nexperts = {count = 4, per_token = 2, ffn = 1028}", 64,
                       "tensor = 8\ndata = 8\npipeline = 1", "parallelism.tensor = 8: does not divide experts.ffn = 1028"),
    "layers of another model": (LLAMA.format(4096), 1024, "tensor = 1\ndata = 8\npipeline = 2\nlayers_per_stage = [16, 17]",
                                "parallelism.layers_per_stage"),
}

COMMANDS = (["plan"], ["estimate"], ["simulate"], ["traffic"], ["strand"], ["convert", "--to", "megatron"], ["convert", "--to", "torchtitan"],
            ["convert", "--to", "plan"], ["sweep", "--ask", "estimate", "--vary", "training.micro_batch=1"])


class Divisions(Case):
    def test_a_search_keeps_no_stages_of_its_own(self):
        """plan spread layers evenly, whatever the job said of them, without a word."""
        uneven = "tensor = 1\ndata = 8\npipeline = 2\nzero = 1\nlayers_per_stage = [{}]"
        job = self.write("job.toml", JOB.format(model=LLAMA.format(4096), batch=64, parallelism=uneven.format("20, 12")))
        self.refused(2, ["parallelism.layers_per_stage = [20, 12]: a search spreads layers as evenly as it can"], "plan", job)
        self.ok("simulate", job)
        self.ok("plan", self.write("job.toml", JOB.format(model=LLAMA.format(4096), batch=64, parallelism=uneven.format("16, 16"))))
        # Nor would ranks that hold experts be as many.
        few = JOB.format(model=EXPERTS, batch=64, parallelism="tensor = 1\nexpert = 8\ndata = 4\ncontext = 1\npipeline = 1")
        self.refused(2, ["parallelism.expert = 8: divides neither"], "simulate", self.write("job.toml", few))

    def test_are_refused_by_every_command(self):
        for name, (model, batch, parallelism, wrong) in JOBS.items():
            job = self.write("job.toml", JOB.format(model=model, batch=batch, parallelism=parallelism))
            for command, *options in COMMANDS:
                with self.subTest(name, command=command):
                    done = self.tombolo(command, job, *options)
                    self.assertIn(done.returncode, (2, 3), done.stdout)
                    self.assertIn(wrong, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
