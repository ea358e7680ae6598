"""What a job asks for and no prediction counts is noted by every command that predicts."""
import unittest

from program import Case

V100 = """
[model]
preset = "byte-3m"
[[cluster.datacenter]]
name = "a"
device = "v100-16g"
nodes = 2
devices_per_node = 4
[training]
global_batch = 16
precision = "{precision}"
[parallelism]
tensor = 4
pipeline = 1
data = 2
"""

# Atlas' own testbed: three datacenters of four nodes, three pipelines of four stages.
TESTBED = "\n".join(["[training]\nglobal_batch = 6\n[stage_times]\nforward = \"1 ms\"\nbackward = \"2 ms\"\n"] + [
    f'[[cluster.datacenter]]\nname = "{name}"\ndevice = "emulated:a100-80g"\nnodes = 4\n' for name in "abc"] + [
        f'[[cluster.wan]]\nbetween = ["{one}", "{other}"]\none_way_latency = "10 ms"\nnode_pair_limit = "5 Gbps"\n'
        for one, other in ("ab", "bc", "ac")]) + """
[parallelism]
pipeline = 4
data = 3
datacenter_per_stage = ["a", ["a", "b", "b"], ["b", "b", "c"], "c"]
"""

PREDICTING = (["plan"], ["estimate"], ["simulate"], ["traffic"], ["strand"], ["astra", "--job"],
              ["sweep", "--vary", "training.global_batch=16,32"],
              ["sweep", "--ask", "estimate", "--vary", "training.global_batch=16,32"],
              ["sweep", "--ask", "plan", "--vary", "training.global_batch=16,32"])

ASTRA = {
    "network.yml": "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n",
    "system.json": """{"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
"preferred-dataset-splits": 4, "all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"],
"reduce-scatter-implementation": ["ring"], "all-to-all-implementation": ["ring"],
"collective-optimization": "localBWAware", "inter-dimension-scheduling": "themis"}""",
}


class Notes(Case):
    def test_bf16_on_a_v100(self):
        for precision, noted in (("bf16", True), ("fp16", False)):
            job = self.write("job.toml", V100.format(precision=precision))
            for command in PREDICTING:
                done = self.tombolo(*command, job)
                self.assertIn(done.returncode, (0, 3), f"{command}\n{done.stderr}")
                words = 'precision = "bf16": the matrix units of v100-16g'
                self.assertEqual((done.stdout + done.stderr).count(words), int(noted), f"{command}\n{done.stdout}")

    def test_sharing_that_has_no_effect(self):
        words = 'parallelism.sharing = "temporal" has no effect between stages 1 and 2: no two pipelines of a cell'
        job = self.write("job.toml", TESTBED + 'sharing = "temporal"\ncell = 3\nschedule = "atlas"\n')
        self.assertIn(words, self.tombolo("simulate", job).stderr)
        self.assertIn(words, self.ok("sweep", job, "--vary", "training.global_batch=6,12"))
        job = self.write("job.toml", TESTBED + 'cell = 3\n')
        self.assertIn("parallelism.cell = 3 has no effect", self.tombolo("simulate", job).stderr)

    def test_a_sweep_says_what_its_command_would_note(self):
        job = self.write("job.toml", V100.format(precision="fp16"))
        words = 'left out: schedule = "zb-h1"; the law is that of 1f1b and interleaved'
        said = self.json("sweep", job, "--ask", "estimate", "--vary", "parallelism.schedule=1f1b,zb-h1")["notes"]
        self.assertIn(words + " (1 of 2 configurations)", said)
        job = self.write("job.toml", V100.format(precision="fp16") + 'schedule = "zb-h1"\n')
        self.assertIn(words, self.json("estimate", job)["notes"])
        self.assertIn(words, self.json("sweep", job, "--ask", "estimate", "--vary", "training.global_batch=16,32")["notes"])

    def test_times_that_are_imagined(self):
        """Utilisation by such times says nothing, to no command; what does not fit in flight is noted."""
        times = '[model]\npreset = "byte-3m"\n' + TESTBED.replace('backward = "2 ms"\n', 'backward = "2 ms"\nin_flight = {}\n')
        answer = self.json("estimate", self.write("job.toml", times.format(2)))
        self.assertEqual((answer["mfu"], answer["hfu"]), (None, None))
        words = "left out: [stage_times].in_flight = 1; 1f1b keeps 2 microbatches on the first stage, which tombolo simulate refuses"
        self.assertNotIn(words, answer["notes"])
        self.assertIsNone(self.json("simulate", self.write("job.toml", times.format(2)))["mfu"])
        job = self.write("job.toml", times.format(1))
        self.assertIn(words, self.json("estimate", job)["notes"])
        self.refused(3, ["1f1b keeps 2 microbatches in flight there, and [stage_times].in_flight is 1"], "simulate", job)

    def test_selective_recomputation_that_is_none(self):
        """Over two datacenters: left out with fused attention, tried by a stack without, taken where the job has it."""
        second = '[[cluster.datacenter]]\nname = "b"\ndevice = "v100-16g"\nnodes = 2\ndevices_per_node = 4\n' \
            '[[cluster.wan]]\nbetween = ["a", "b"]\none_way_latency = "10 ms"\nnode_pair_limit = "5 Gbps"\n'
        job = V100.format(precision="fp16").replace("[training]\n", second + "[training]\n{}\n").replace(
            "tensor = 4\npipeline = 1\ndata = 2", "tensor = 1\ndata = 2\nzero = 0")
        note = 'recompute = "selective" is not tried: with fused attention it is the same as none'
        for keys, tried in (("", False), ('stack = "megatron-2022"', True)):
            answer = self.json("plan", self.write("job.toml", job.format(keys)), "--simulate-for", 0)
            self.assertEqual((note not in answer["notes"], "recompute selective" in str(answer["why_not"])), (tried, tried), keys)
        answer = self.json("plan", self.write("job.toml", job.format('recompute = "selective"')), "--simulate-for", 0)
        self.assertEqual((answer["best"]["parallelism"]["recompute"], note in answer["notes"]), ("selective", False))

    def test_zero_where_it_is_left_out(self):
        job = self.write("job.toml", V100.format(precision="fp16") + "zero = 3\n")
        self.assertIn("left out: what zero = 3 gathers", " ".join(self.json("strand", job)["notes"]))

    def test_themis_on_one_dimension(self):
        job = self.write("job.toml", V100.format(precision="fp16"))
        files = {name: self.write(name, text) for name, text in ASTRA.items()}
        done = self.tombolo("astra", "--job", job, "--network-configuration", files["network.yml"],
                            "--system-configuration", files["system.json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("inter-dimension-scheduling = themis has no effect", done.stderr)


if __name__ == "__main__":
    unittest.main()
