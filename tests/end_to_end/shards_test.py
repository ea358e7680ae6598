"""Tensor, sequence and context parallelism, performed: the same losses as one process, whatever else the job says."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from faults_test import worker_pids
from program import BUILD, GUARD_S, Case, needs_torch
from training_test import GPT2, pipelines_apart, tiny

QWEN3 = 'qk_norm = true\nqkv_bias = true\n'
MIXTURE = "experts = {count = 4, per_token = 2, ffn = 48}\n"
QWEN2_MOE = "experts = {count = 6, per_token = 3, ffn = 32, shared_ffn = 48, shared_gate = true, every = 2}\nqkv_bias = true\n"
FORWARD = ["LN1", "AG1", "QKV", "FA", "PROJ", "RS1", "BDA1", "LN2", "AG2", "FC1", "ACT", "FC2", "RS2", "BDA2"]
BACKWARD = ["bBDA2", "bAG2", "FC2d", "FC2w", "bACT", "FC1d", "FC1w", "bRS2", "bLN2", "bBDA1", "bAG1", "PROJd", "PROJw", "bFA", "QKVd",
            "QKVw", "bRS1", "bLN1"]
OLMO2 = 'input_norms = false\noutput_norms = true\nwhole_qk_norm = true\n'


def sharded(job, degrees, data=1):
    """The same with shards of each stage: degrees as [parallelism] has them."""
    shards = 1
    for line in degrees.split(", "):
        key, value = line.split(" = ")
        shards *= int(value) if key in ("tensor", "context") else 1
    job = job.replace('device = "cpu"', f'device = "cpu"\ndevices_per_node = {shards * data}')
    return job.replace("[parallelism]\n", "[parallelism]\n" + degrees.replace(", ", "\n") + f"\ndata = {data}\n")


def timed(job, pair=""):
    """The same where the Plan says how long passes take, and pairs of them."""
    again = 'recompute = "3 ms"\n' if 'recompute = "full"' in job else ""
    job = job.replace("[data]", f'[stage_times]\nforward = "3 ms"\nbackward = "6 ms"\n{again}{pair}[data]')
    return job.replace("micro_batch = 2", "micro_batch = 1")


class Shards(Case):
    def losses(self, job, out, *more):
        self.ok("train", self.write(f"{out}.toml", job), "--out", out, *more)
        return self.records(self.folder / out / "trace.jsonl", "loss")

    def assert_close(self, one, other, why):
        self.assertEqual(one.keys(), other.keys())
        for step in one:
            self.assertLess(abs(one[step] - other[step]) / one[step], 1e-5, f"{why}, step {step}")
        self.assertLess(one[30], one[1] - 0.5)  # it learns

    def check(self, jobs, model="", kv_heads=2):
        one = self.losses(tiny(1, model=model).replace("kv_heads = 2", f"kv_heads = {kv_heads}"), "one")
        for number, (why, job) in enumerate(jobs):
            self.assert_close(one, self.losses(job, f"cut-{number}"), why)

    @needs_torch
    def test_shards_equal_one_process(self):
        self.check([(degrees, sharded(tiny(1), degrees)) for degrees in
                    ("tensor = 2", "tensor = 2, sequence_parallel = true", "context = 2")])

    @needs_torch
    def test_four_shards_equal_one_process(self):
        self.check([("tensor = 4", sharded(tiny(1), "tensor = 4").replace("kv_heads = 2", "kv_heads = 4"))], kv_heads=4)

    @needs_torch
    def test_shards_of_a_pipeline_of_replicas_equal_one_process(self):
        job = sharded(tiny(2, training='recompute = "full"'), "tensor = 2, context = 2, sequence_parallel = true", data=2)
        self.check([("all together", job)])

    @needs_torch
    def test_other_models_equal_one_process(self):
        for model in (GPT2, QWEN3, OLMO2):
            self.check([("tensor 2 x context 2", sharded(tiny(1, model=model), "tensor = 2, context = 2, sequence_parallel = true"))],
                       model)

    @needs_torch
    def test_shards_of_backwards_in_halves_and_of_pipelines_apart(self):
        apart = pipelines_apart(sharded(tiny(2), "tensor = 2"))
        apart = apart.replace("data = 1\n", "").replace("devices_per_node = 2\ndevices_per_node = 2", "devices_per_node = 4")
        self.check([("zb-h1", sharded(tiny(2, "zb-h1"), "tensor = 2, sequence_parallel = true")),
                    ("tensor degrees by stage", sharded(tiny(2), "tensor = 2").replace("tensor = 2", "tensor_per_stage = [2, 1]")),
                    ("gradients over the WAN", apart)])

    @needs_torch
    def test_experts_equal_one_process(self):
        def experts(job, degrees, zero=0):
            return sharded(job, degrees, data=2).replace("data = 2\n", f"data = 2\nexpert = 2\nzero = {zero}\n")

        def mixture(pipeline, **more):
            return tiny(pipeline, model=MIXTURE, **more).replace("[optimizer]", "[optimizer]\nclip_norm = 0.5").replace(
                "[run]\n", "[run]\ncompare_replicas_every = 1\n")

        one = self.losses(mixture(1), "one")
        jobs = [("tensor 2", sharded(mixture(1), "tensor = 2, sequence_parallel = true")),
                ("context 2", sharded(mixture(1), "context = 2").replace("[parallelism]\n", "[parallelism]\nexpert = 2\n")),
                ("expert 2", experts(mixture(1), "tensor = 1")),
                ("pipeline, recomputed", experts(mixture(2, training='recompute = "full"'), "tensor = 1")),
                ("halves, tensor, context", experts(mixture(2, schedule="zb-h1"), "tensor = 2, context = 2, sequence_parallel = true")
                 .replace("expert = 2", "expert = 4"))]
        jobs += [(f"zero {zero}", experts(mixture(2), "tensor = 1", zero)) for zero in (1, 2, 3)]
        for number, (why, job) in enumerate(jobs):
            self.assert_close(one, self.losses(job, f"experts-{number}"), why)

    @needs_torch
    def test_shards_send_what_one_would(self):
        """Sparse updates, and local steps: chosen and sent by the rank, of gradients and parameters that its shards made."""
        apart = pipelines_apart(tiny(2))
        cut = pipelines_apart(sharded(tiny(2), "tensor = 2, sequence_parallel = true")).replace("data = 1\n", "")
        cut = cut.replace("devices_per_node = 2\ndevices_per_node = 2", "devices_per_node = 4")
        for number, exchange in enumerate(('mode = "sparse"\ndensity = 0.1\nstaleness = 0', 'mode = "local"\nsteps = 5')):
            jobs = [job + f"\n[exchange]\n{exchange}\n" for job in (apart, cut)]
            whole, shards = (self.losses(job, f"{number}-{i}") for i, job in enumerate(jobs))
            self.assert_close(whole, shards, exchange)

    def check_zero(self, zero):
        clipped = "[optimizer]\nclip_norm = 0.5"
        tied = "tied_embeddings = true\n"
        one = self.losses(tiny(1, model=tied).replace("[optimizer]", clipped), "one")
        jobs = [("alone", sharded(tiny(1, model=tied), "tensor = 1", data=2)),
                ("pipeline, recomputed", sharded(tiny(2, model=tied, training='recompute = "full"'), "tensor = 1", data=2)),
                ("halves, tensor", sharded(tiny(2, "zb-h1", model=tied), "tensor = 2", data=2)),
                ("chunks", sharded(tiny(2, "interleaved", model=tied).replace("[parallelism]", "[parallelism]\nvirtual_stages = 2"),
                                   "tensor = 1", data=2))]
        for number, (why, job) in enumerate(jobs):
            job = job.replace("data = 2\n", f"data = 2\nzero = {zero}\n").replace("[optimizer]", clipped)
            job = job.replace("[run]\n", "[run]\ncompare_replicas_every = 1\n")
            self.assert_close(one, self.losses(job, f"zero-{number}"), f"zero {zero}, {why}")

    @needs_torch
    def test_zero_1_equals_one_process(self):
        self.check_zero(1)

    @needs_torch
    def test_zero_2_equals_one_process(self):
        self.check_zero(2)

    @needs_torch
    def test_zero_3_equals_one_process(self):
        self.check_zero(3)

    def check_two_passes(self, **jobs):
        """A forward co-executed with a backward, where the Plan says how long the pair takes: as one after the other."""
        for name, job in jobs.items():
            one_by_one = self.losses(timed(job), "one-by-one")
            at_once = self.losses(timed(job, 'pair = "7 ms"\n'), "at-once")
            self.assertEqual(at_once, one_by_one, name)
            self.assertEqual(sorted(at_once), list(range(1, 51)))
            self.assertGreater(self.overlapping(self.folder / "at-once" / "trace.jsonl"), 100)
            again = re.search(r'"action":"[0-9]+R[0-9]', (self.folder / "at-once" / "trace.jsonl").read_text())
            self.assertEqual(again is not None, "recompute" in job)
            self.assertEqual(self.overlapping(self.folder / "one-by-one" / "trace.jsonl"), 0)

    @needs_torch
    def test_two_passes_at_once_cost_no_bit(self):
        apart = pipelines_apart(tiny(2, "w", steps=50, model=MIXTURE)).replace("data = 2", "virtual_stages = 2\ndata = 2", 1)
        apart += '\n[exchange]\nmode = "sparse"\ndensity = 0.1\nstaleness = 0\n'
        self.check_two_passes(dense=sharded(tiny(2, "w", steps=50), "tensor = 2, virtual_stages = 2", data=2), replicas_apart=apart)

    @needs_torch
    def test_two_passes_with_experts_of_other_ranks_cost_no_bit(self):
        job = tiny(2, "w", steps=50, model=MIXTURE)
        self.check_two_passes(cut=sharded(job, "tensor = 2, virtual_stages = 2, expert = 2", data=2),
                              whole=sharded(job, "virtual_stages = 2, expert = 2", data=2))

    @needs_torch
    def test_two_passes_that_compute_activations_again_cost_no_bit(self):
        job = tiny(2, "w", steps=50, training='recompute = "full"', model=MIXTURE)
        self.check_two_passes(cut=sharded(job, "tensor = 2, virtual_stages = 2, expert = 2", data=2))

    @needs_torch
    def test_strands_of_a_profile_cost_no_bit(self):
        """strands = true with times of operators: the Plan has their order, and the run performs it."""
        operators = {name: 2000 if "AG" in name or "RS" in name else 1000 for name in FORWARD + BACKWARD}
        lines = ["first,second,first_us,second_us,first_beside_us,second_beside_us,repeats,spread"]
        lines += [f"{name},,{us},,,,20,0.01" for name, us in operators.items()]
        lines += [f"{kind},local,1000,1000,1010,1010,20,0.01" for kind in ("product", "elementwise", "attention", "attention-backward")]
        self.write("overlap.csv", "\n".join(lines) + "\n")
        folded = "tensor = 2, sequence_parallel = true, virtual_stages = 2"
        for name, model, degrees in (("llama", "", folded), ("gpt2", GPT2, folded), ("context", "", "context = 2, " + folded)):
            alone = tiny(2, "dualpipev", steps=6, model=model).replace("hidden = 32", "hidden = 64")
            alone = alone.replace("micro_batch = 2", "micro_batch = 1").replace("sequence = 32", "sequence = 64")
            lab = '[[cluster.datacenter]]\nname = "lab"\ndevice = "cpu"\nnodes = 2\n\n'
            alone = sharded(re.sub(r"\[\[cluster.*?(?=\[training\])", lab, alone, flags=re.S), degrees)
            strands = alone.replace("virtual_stages = 2", 'virtual_stages = 2\nstrands = true\nstrands_profile = "overlap.csv"')
            self.assertEqual(self.losses(strands, f"{name}-strands"), self.losses(alone, f"{name}-alone"), name)
            self.assertGreater(self.overlapping(self.folder / f"{name}-strands" / "trace.jsonl"), 5, name)
            self.ok("convert", self.write("strands.toml", strands), "--to", "plan", "--out", self.folder / f"{name}.json")
            for pair in json.loads((self.folder / f"{name}.json").read_text())["pairs"]:
                self.assertLessEqual(set(operators), set(pair["order"]), name)
        self.refused(2, ["strands_profile", "nosuch.csv"], "simulate", self.write("no.toml", strands.replace("overlap.csv", "nosuch.csv")))

    def overlapping(self, trace):
        """How many forward passes of a rank run at the same time as a backward pass."""
        passes = {"F": [], "B": []}
        for line in trace.read_text().splitlines():
            entry = json.loads(line)
            kind = entry.get("action", "").strip("0123456789@.")
            if kind in passes and entry["iteration"] > 0:
                passes[kind].append((entry["rank"], entry["start_ns"], entry["end_ns"]))
        return sum(any(rank == other and start < its_end and its_start < end for other, its_start, its_end in passes["B"])
                   for rank, start, end in passes["F"])

    @needs_torch
    def test_a_trace_has_what_shards_spend_on_each_other(self):
        def kinds(degrees, zero=0, model=""):
            job = sharded(tiny(1, steps=3, model=model), degrees, data=2).replace("data = 2\n", f"data = 2\nzero = {zero}\n")
            self.ok("train", self.write("job.toml", job), "--out", "run")
            passes, found = {}, {}
            for line in (self.folder / "run" / "trace.jsonl").read_text().splitlines():
                entry = json.loads(line)
                name = entry.get("action", "").strip("0123456789@.")
                if name in ("F", "B") and entry["iteration"] > 0:
                    passes[name] = passes.get(name, 0) + 1
                if name in ("TP", "CP", "EP", "DP") and entry["iteration"] > 0:
                    self.assertLess(entry["start_ns"], entry["end_ns"])
                    found[name] = found.get(name, 0) + 1
            self.assertEqual(passes, {"F": 12, "B": 12})  # 2 replicas, 2 microbatches, 3 iterations
            return found

        self.assertEqual(kinds("tensor = 1"), {})
        self.assertEqual(kinds("tensor = 2"), {"TP": 24})
        self.assertEqual(kinds("tensor = 2, context = 2"), {"TP": 24, "CP": 24})
        self.assertEqual(set(kinds("tensor = 1", zero=3)), {"DP"})
        self.assertEqual(kinds("expert = 2", model=MIXTURE), {"EP": 24})
        self.assertEqual(kinds("tensor = 2, expert = 2", model=MIXTURE), {"TP": 24, "EP": 24})

    @needs_torch
    def test_zero_refuses_orders_that_differ(self):
        job = sharded(tiny(1), "tensor = 1", data=2).replace("data = 2\n", "data = 2\nzero = 3\nmicrobatches_per_replica = [3, 1]\n")
        self.refused(2, ["zero = 3", "microbatches_per_replica"], "train", self.write("uneven.toml", job))

    @needs_torch
    def test_experts_refuse_what_they_cannot_meet_in(self):
        def expert(job, degrees="expert = 2", data=2):
            return sharded(job, degrees, data)

        one = tiny(1, model=MIXTURE)
        uneven = expert(one).replace("data = 2\n", "data = 2\nmicrobatches_per_replica = [3, 1]\n")
        self.refused(2, ["expert = 2", "microbatches_per_replica"], "train", self.write("uneven.toml", uneven))
        apart = pipelines_apart(expert(tiny(2, model=MIXTURE), data=1)).replace("data = 1\n", "")
        apart = apart.replace("devices_per_node = 1\n", "")
        self.refused(2, ["expert = 2", "several datacenters"], "train", self.write("apart.toml", apart))
        spread = expert(one.replace("count = 4", "count = 6").replace("global_batch = 8", "global_batch = 12"),
                        "context = 4, expert = 6", data=3)
        self.refused(2, ["expert = 6", "no multiple of context = 4"], "train", self.write("spread.toml", spread))
        single = one.replace("per_token = 2", "per_token = 1")
        self.refused(2, ["model.experts.per_token = 1"], "train", self.write("single.toml", single))

    @needs_torch
    def test_a_checkpoint_continues_with_other_shards(self):
        whole = self.losses(tiny(1), "whole")
        jobs = [sharded(tiny(1, every=10), "tensor = 2"), sharded(tiny(2, every=10), "context = 2"), tiny(2, every=10)]
        losses = {}
        for number, (job, until) in enumerate(zip(jobs, (10, 20, 30))):
            losses.update(self.losses(job, f"part-{number}", *(["--resume"] if number else [])))
            self.forget_checkpoints_after(until)
        self.assert_close(whole, losses, "continued")

    @needs_torch
    def test_a_killed_rank_comes_back_to_the_same_losses(self):
        self.kill(sharded(tiny(1, steps=120, every=10), "tensor = 2", data=2).replace("data = 2\n", "data = 2\nzero = 3\n"))

    @needs_torch
    def test_a_killed_rank_comes_back_with_its_experts(self):
        self.kill(sharded(tiny(1, steps=120, every=10, model=MIXTURE), "expert = 2", data=2))

    @needs_torch
    def test_a_killed_rank_comes_back_to_pairs(self):
        job = tiny(2, "w", steps=120, every=10, model=MIXTURE)
        self.kill(timed(sharded(job, "tensor = 2, virtual_stages = 2, expert = 2", data=2), 'pair = "7 ms"\n'))

    def kill(self, job):
        whole = self.losses(job, "whole")
        shutil.rmtree(self.folder / "checkpoints")
        launcher = subprocess.Popen([BUILD / "tombolo", "train", self.write("job.toml", job), "--out", "run", "--restarts", "3", "--json"],
                                    cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        guard = time.monotonic() + GUARD_S
        while not list(self.folder.glob("checkpoints/step-*/manifest.json")):
            self.assertIsNone(launcher.poll())
            self.assertLess(time.monotonic(), guard, "no checkpoint was written")
            time.sleep(0.02)
        os.kill(worker_pids(launcher.pid)[1], signal.SIGKILL)
        answer, message = launcher.communicate(timeout=GUARD_S)
        self.assertEqual(launcher.returncode, 0, message)
        self.assertEqual(json.loads(answer)["restarts"], 1)
        disturbed = self.records(self.folder / "run" / "trace.jsonl", "loss")
        self.assertIn(120, disturbed)
        self.assertEqual(disturbed, {step: whole[step] for step in disturbed})

    @needs_torch
    def test_cut_connections_between_experts_cost_no_bit(self):
        job = sharded(tiny(1, steps=200, every=20, model=MIXTURE), "expert = 2", data=2)
        whole = self.losses(job, "whole")
        shutil.rmtree(self.folder / "checkpoints")
        launcher = subprocess.Popen([BUILD / "tombolo", "train", self.write("job.toml", job), "--out", "run", "--restarts", "20", "--json"],
                                    cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        cut, guard = 0, time.monotonic() + GUARD_S
        while cut < 3 and launcher.poll() is None:
            self.assertLess(time.monotonic(), guard, "no connections between the workers")
            cut += self.reset_between(worker_pids(launcher.pid))
            time.sleep(0.3)
        answer, message = launcher.communicate(timeout=GUARD_S)
        self.assertEqual(launcher.returncode, 0, message)
        if cut == 0:
            self.skipTest("this kernel resets no connections for ss -K")
        self.assertEqual(self.records(self.folder / "run" / "trace.jsonl", "loss"), whole, message)

    def reset_between(self, pids):
        """Whether there were connections of these processes with each other; the kernel has dropped them then."""
        def connections():
            lines = subprocess.run(["ss", "-Htnp", "state", "established"], capture_output=True, text=True, check=True).stdout
            ours = {tuple(line.split()[2:4]) for line in lines.splitlines() if any(f"pid={pid}," in line for pid in pids)}
            return {pair for pair in ours if pair[::-1] in ours}

        before = connections()
        for local, remote in before:
            subprocess.run(["ss", "-K", "-tn", "src", local, "dst", remote], capture_output=True)
        return bool(before) and not before <= connections()

    def forget_checkpoints_after(self, step):
        """As if the run had been stopped there."""
        for folder in (self.folder / "checkpoints").glob("step-*"):
            if int(folder.name.split("-")[1]) > step:
                shutil.rmtree(folder)


if __name__ == "__main__":
    unittest.main()
