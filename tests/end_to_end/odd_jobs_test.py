"""Odd jobs: whatever one says, every command that reads it answers or refuses, and ends in no bug and no signal."""
import random
import unittest

from program import Case

JOBS = 60
COMMANDS_OF_EACH = 3
SEED = 20_260_601

# What numbers are drawn from: small, odd, around the limits of what is counted, and beyond.
COUNTS = [1, 1, 2, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 65, 100, 1_000, 1_000_000, 2**31, 2**53, 2**62, 0, -1]
TIMES = ["0 s", "1 ns", "1 ms", "1 s", "1000 s", "1e9 s", "1e300 s"]
RATES = ["1e-300 bps", "1 bps", "1 Mbps", "5 Gbps", "400 Gbps", "1e300 bps"]
SCHEDULES = ["gpipe", "1f1b", "interleaved", "varuna", "atlas", "zb-h1", "zb-v", "w", "dualpipev"]


def likely(draw, usual, odd, share=0.95):
    """Mostly what is usual, so that a job gets past the first check."""
    return draw.choice(usual if draw.random() < share else odd)


def model(draw):
    if draw.random() < 0.4:
        name = draw.choice(["llama3-8b", "mixtral-8x7b", "deepseek-v3", "gpt3-175b", "byte-3m"])
        return f'preset = "{name}"\nsequence = {likely(draw, [1_024, 131_072], COUNTS)}\n'
    heads = likely(draw, [1, 2, 8, 64], COUNTS)
    lines = {"layers": likely(draw, [1, 4, 8, 13], COUNTS), "hidden": likely(draw, [64, 512, 64 * heads], COUNTS),
             "heads": heads, "vocabulary": likely(draw, [256, 32_000], COUNTS),
             "sequence": likely(draw, [64, 8_192], COUNTS)}
    text = "".join(f"{key} = {value}\n" for key, value in lines.items())
    if draw.random() < 0.3:
        text += (f"experts = {{ count = {likely(draw, [8, 64, 1_000_000], COUNTS)}, "
                 f"per_token = {likely(draw, [1, 2, 8], COUNTS)}, ffn = {likely(draw, [8], COUNTS)} }}\n")
    if draw.random() < 0.3:
        text += (f"attention_window = {likely(draw, [1, 63, 4_096], COUNTS)}\nglobal_interval = {likely(draw, [1, 2, 6], COUNTS)}\n"
                 f'activation = "geglu"\nquery_scalar = {likely(draw, [64, 0.5], COUNTS)}\n'
                 f"attention_softcap = {likely(draw, [50, 1e-9], COUNTS)}\nlogit_softcap = {likely(draw, [30], COUNTS)}\n")
    return text


def cluster(draw):
    devices = likely(draw, [1, 8], COUNTS)
    text = ""
    names = ["oregon", "iowa", "paris"][:draw.choice([1, 1, 2, 3])]
    for name in names:
        text += (f'[[cluster.datacenter]]\nname = "{name}"\ndevice = "{draw.choice(["a100-80g", "h100-80g"])}"\n'
                 f"nodes = {likely(draw, [1, 8, 64], COUNTS)}\ndevices_per_node = {devices}\n"
                 f"scale_up = {{ domain = {devices}, bandwidth = \"{likely(draw, ['300 GBps'], RATES)}\" }}\n"
                 f"scale_out = {{ bandwidth = \"{likely(draw, ['400 Gbps'], RATES)}\", "
                 f"latency = \"{likely(draw, ['5 us'], TIMES)}\" }}\n")
    for before, after in zip(names, names[1:]):
        text += (f'[[cluster.wan]]\nbetween = ["{before}", "{after}"]\n'
                 f'one_way_latency = "{likely(draw, ["20 ms"], TIMES)}"\n'
                 f'node_pair_limit = "{likely(draw, ["5 Gbps"], RATES)}"\n')
    return text


def parallelism(draw, has_experts):
    """Some of it said."""
    text = f"[parallelism]\npipeline = {likely(draw, [1, 2, 4], COUNTS)}\n"
    for key, usual in {"data": [1, 2, 8], "tensor": [1, 2, 8], "context": [1, 16, 31, 32, 64],
                       "expert": [1, 8] if has_experts else [1]}.items():
        if draw.random() < 0.4:
            text += f"{key} = {likely(draw, usual, COUNTS)}\n"
    schedule = draw.choice(SCHEDULES)
    if draw.random() < 0.6:
        text += f'schedule = "{schedule}"\n'
        if schedule in ("interleaved", "zb-v", "w", "dualpipev"):
            text += f"virtual_stages = {likely(draw, [2], COUNTS)}\n"
    return text


def job(draw):
    """With parallelism left out, which only a search answers, one time in ten; without a model, too."""
    modelled, open_to_search = draw.random() < 0.9, draw.random() < 0.1
    of_model = model(draw) if modelled else ""
    text = "[model]\n" + of_model if modelled else ""
    text += cluster(draw)
    text += (f"[training]\nglobal_batch = {likely(draw, [16, 64, 512], COUNTS)}\n"
             f"micro_batch = {likely(draw, [1, 2], COUNTS)}\n"
             f'precision = "{draw.choice(["bf16", "fp32", "fp8"])}"\nrecompute = "{draw.choice(["none", "full"])}"\n')
    if modelled and open_to_search:
        return text
    text += parallelism(draw, "experts" in of_model or "mixtral" in of_model or "deepseek" in of_model)
    if not modelled or draw.random() < 0.1:
        text += (f'[stage_times]\nforward = "{likely(draw, ["1 ms"], TIMES)}"\n'
                 f'backward = "{likely(draw, ["2 ms"], TIMES)}"\n')
        if draw.random() < 0.5:
            text += f'transfer = "{likely(draw, ["2 ms"], TIMES)}"\n'
    if draw.random() < 0.2:
        text += f'[exchange]\nmode = "{draw.choice(["dense", "sparse", "local", "sparse-local"])}"\n'
    return text


def commands(draw, path):
    return draw.sample([["plan", path, "--threads", 1], ["estimate", path], ["estimate", path, "--law", "rail-only"],
                        ["simulate", path, "--check"], ["simulate", path, "--policy", draw.choice(SCHEDULES)],
                        ["traffic", path], ["strand", path], ["select", path],
                        ["sweep", path, "--ask", "estimate", "--vary", "training.global_batch=8,33"],
                        ["convert", path, "--to", "plan"], ["convert", path, "--to", "graph"],
                        ["convert", path, "--to", "megatron"],
                        ["astra", f"--job={path}"]], COMMANDS_OF_EACH)


class OddJobs(Case):
    def answers_or_refuses(self, text, arguments):
        done = self.tombolo(*arguments)
        said = f"{arguments}\n{text}\n{done.stderr}"
        self.assertIn(done.returncode, (0, 2, 3), said)
        self.assertNotIn("bug:", done.stderr, said)
        if done.returncode:
            self.assertTrue(done.stderr.strip(), said)

    def test_links_that_take_ages(self):
        """A layer, a transfer and a message of over 290 years have no nanoseconds."""
        for rate in ("1 bps", "1e-9 bps", "1e-300 bps"):
            link = f'bandwidth = "{rate}", latency = "1 us"'
            text = ('[model]\npreset = "llama3-8b"\n'
                    '[[cluster.datacenter]]\nname = "oregon"\ndevice = "h100-80g"\nnodes = 4\ndevices_per_node = 8\n'
                    f"scale_up = {{ domain = 8, {link} }}\nscale_out = {{ {link} }}\n"
                    "[training]\nglobal_batch = 64\nmicro_batch = 1\n"
                    "[parallelism]\npipeline = 2\ntensor = 4\ndata = 2\n")
            path = self.write("job.toml", text)
            for arguments in (["plan", path], ["strand", path], ["simulate", path], ["astra", f"--job={path}"],
                              ["convert", path, "--to", "graph", "--out", "graph.json"]):
                with self.subTest(rate=rate, command=arguments[0]):
                    self.answers_or_refuses(text, arguments)

    def test_are_answered_or_refused(self):
        for number in range(JOBS):
            draw = random.Random(f"{SEED}/{number}")
            text = job(draw)
            path = self.write("job.toml", text)
            for arguments in commands(draw, path):
                with self.subTest(number=number, command=arguments[0]):
                    self.answers_or_refuses(text, arguments)

    def test_are_drawn_without_bars_that_overlap(self):
        drawn = 0
        for number in range(JOBS):
            path = self.write("job.toml", job(random.Random(f"{SEED}/{number}")))
            trace = self.folder / "trace.jsonl"
            if self.tombolo("simulate", path, "--out", trace).returncode != 0 or trace.stat().st_size > 2**22:
                continue
            with self.subTest(number=number):
                drawn += self.check_tracks(self.ok("convert", trace, "--to", "perfetto")) > 0
        self.assertGreater(drawn, 5)


class PartsThatDoNotDivide(Case):
    def test_replicas_four_and_two(self):
        # Four replicas hold quarters of a group and two hold halves: where its gradients do not divide by four, the middle border
        # of the quarters is not that of the halves, and one element goes between a pair that a larger group does not have.
        places = 'datacenter_per_stage = [["a", "a", "b", "a", "a", "b"]]'
        job = self.write("job.toml", "[model]\nlayers = 3\nhidden = 292022\nheads = 1\nkv_heads = 1\nffn = 1\nvocabulary = 1\n"
                         "sequence = 1\n[training]\nglobal_batch = 12\nmicro_batch = 1\n[parallelism]\npipeline = 1\ndata = 6\n"
                         f'{places}\n[stage_times]\nforward = "1 ms"\nbackward = "2 ms"\n' + "".join(
                             f'[[cluster.datacenter]]\nname = "{name}"\ndevice = "a100-80g"\nnodes = 6\ndevices_per_node = 1\n'
                             for name in "ab") +
                         '[[cluster.wan]]\nbetween = ["a", "b"]\none_way_latency = "10 ms"\nnode_pair_limit = "1 Gbps"\n')
        self.assertEqual(self.json("simulate", job, "--check")["violations"], [])


if __name__ == "__main__":
    unittest.main()
