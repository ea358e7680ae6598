"""The search for a parallelism, as a person asks for it."""
import json
import re
import signal
import subprocess
import time
import unittest

from program import BUILD, ROOT, Case

EXAMPLE = ROOT / "examples" / "planning" / "llama3-70b" / "job.toml"

# Two accelerators; what the simulator does not know yet is fixed.
TWO_STAGES = """
[model]
layers = 8
hidden = 512
heads = 8
vocabulary = 256
sequence = 64
[[cluster.datacenter]]
name = "oregon"
device = "emulated:a100-80g"
devices_per_node = 2
scale_up = { domain = 2, bandwidth = "300 GBps" }
scale_out = { bandwidth = "200 Gbps" }
[training]
global_batch = 16
[parallelism]
tensor = 1
context = 1
virtual_stages = 1
zero = 0
"""

ONE_NODE = """
[[cluster.datacenter]]
name = "oregon"
device = "a100-40g"
devices_per_node = 8
scale_up = { domain = 8, bandwidth = "300 GBps" }
scale_out = { bandwidth = "200 Gbps" }
"""


# Keys and values of a long sequence over 32 devices: a pass through a layer has 77 operators.
WIDE = """
[model]
preset = "llama3-8b"
sequence = 131072
[[cluster.datacenter]]
name = "a"
device = "h100-80g"
nodes = 8
devices_per_node = 8
scale_up = { domain = 8, bandwidth = "450 GBps", latency = "1 us" }
scale_out = { bandwidth = "400 Gbps", latency = "5 us" }
[training]
global_batch = 16
micro_batch = 1
[parallelism]
tensor = 1
context = 32
data = 2
pipeline = 1
zero = 1
"""


class Plan(Case):
    def test_without_strands_where_a_layer_is_beyond_them(self):
        job = self.write("wide.toml", WIDE)
        limit = "context = 32: a pass through a layer has 77 operators, and a strand at most 64"
        self.assertIn(f"  without strands: {job}: {limit}\n", self.ok("plan", job))
        answer = self.json("plan", job)
        self.assertIn(limit, answer["strands"]["why_not"])
        self.assertEqual(answer["best"]["parallelism"]["context"], 32)
        self.assertEqual(self.refused(3, [], "strand", job),
                         f"{job}: {limit}\n  try context = 16 or less, or leave strands out\n")

    def test_without_strands_where_the_search_goes_beyond_them(self):
        """As little said as possible: a context of 32 alone, and of a million tokens nothing at all."""
        alone = re.sub(r"micro_batch = 1\n|(tensor|data|pipeline|zero) = \d+\n", "", WIDE)
        million = alone[:alone.index("[parallelism]")].replace("llama3-8b", "llama3-70b")
        million = million.replace("sequence = 131072", "sequence = 1048576").replace("nodes = 8", "nodes = 64")
        for name, text in (("alone", alone), ("million", million)):
            with self.subTest(job=name):
                answer = self.json("plan", self.write(f"{name}.toml", text), "--simulate-for", 0)
                self.assertGreaterEqual(answer["best"]["parallelism"]["context"], 32)
                self.assertIn("operators, and a strand at most 64", answer["strands"]["why_not"])

    def test_a_plan_is_written_with_the_strands_that_the_job_asks_for(self):
        """As `simulate` makes it of the job that is written: one Plan, whichever file it goes to."""
        job = ROOT / "examples" / "strands" / "automatic.toml"
        answer = self.json("plan", job, "--out", self.folder / "plan.json")
        self.ok("plan", job, "--out", self.folder / "job.toml")
        plan, written = (self.json("simulate", self.folder / name) for name in ("plan.json", "job.toml"))
        self.assertEqual(plan["iteration_ns"], written["iteration_ns"])
        self.assertAlmostEqual(plan["iteration_ns"] / 1e9, answer["strands"]["simulated_s"], delta=1e-6)
        self.assertLess(plan["iteration_ns"] / 1e9, 0.8 * answer["best"]["iteration_s"])

    def test_strands_without_an_effect_are_noted(self):
        alone = TWO_STAGES + "strands = true\n"
        self.assertIn("  without strands: no layer communicates with other devices\n", self.ok("plan", self.write("job.toml", alone)))
        self.assertEqual(self.json("plan", self.folder / "job.toml")["strands"]["why_not"], "no layer communicates with other devices")
        by_law = self.tombolo("plan", self.folder / "job.toml", "--law", "rail-only")
        self.assertIn("strands = true has no effect here", by_law.stderr)
        several = f'[cluster]\nfile = "{ROOT / "examples" / "planning" / "five-zones.toml"}"\n'
        several += alone[alone.index("[model]"):alone.index("[[cluster")] + alone[alone.index("[training]"):]
        self.assertIn("strands = true has no effect here", self.tombolo("plan", self.write("several.toml", several)).stderr)

    def test_keys_of_the_wan_have_no_effect_in_one_datacenter(self):
        notes = self.json("plan", self.write("job.toml", TWO_STAGES + "data = 2\ncell = 2\ndiscipline = \"strict\"\n"))["notes"]
        for key in ("cell = 2", 'discipline = "strict"'):
            self.assertIn(f"parallelism.{key} has no effect: no pipeline crosses the WAN", notes)

    def test_both_files_that_are_written_have_the_times_of_the_job(self):
        second = '\n[[cluster.datacenter]]\nname = "paris"\ndevice = "emulated:a100-80g"\ndevices_per_node = 2\n' \
            '[[cluster.wan]]\nbetween = ["oregon", "paris"]\none_way_latency = "20 ms"\nnode_pair_limit = "5 Gbps"\n'
        text = TWO_STAGES[:TWO_STAGES.index("[parallelism]")] + second + '[stage_times]\nforward = "70 ms"\nbackward = "140 ms"\n'
        job = self.write("job.toml", text)
        for name in ("out.json", "out.toml"):
            self.ok("plan", job, "--out", self.folder / name)
        plan, written = (self.json("simulate", self.folder / name)["iteration_ns"] for name in ("out.json", "out.toml"))
        self.assertEqual(plan, written)
        self.assertGreaterEqual(plan, 210e6)

    def test_memory_for_prompts_counts_everywhere(self):
        prefill = '[prefill]\nmodel = "llama3-8b"\nmemory = "{}"\n'
        alone, serving = (self.write(f"{i}.toml", TWO_STAGES + "pipeline = 2\n" + text) for i, text in enumerate(("", prefill.format("17 GB"))))
        for law in ("tombolo", "rail-only"):
            before, after = (self.json("estimate", job, "--law", law)["memory"] for job in (alone, serving))
            self.assertEqual((after["prefill_bytes"], before["prefill_bytes"]), (17e9, 0))
            self.assertAlmostEqual(after["total_bytes"] - before["total_bytes"], 17e9, delta=1)
            before, after = (self.json("plan", job, "--law", law)["best"]["memory_bytes"] for job in (alone, serving))
            self.assertAlmostEqual(after - before, 17e9, delta=1)
        # With training more than the 83.8 GB of a device.
        too_much = prefill.format("83.7 GB")
        job = self.write("too_much.toml", TWO_STAGES + "pipeline = 2\n" + too_much)
        self.assertFalse(self.json("estimate", job)["memory"]["fits"])
        self.refused(3, ["does not fit in memory", "the shard of the model of [prefill]"], "simulate", job)
        self.refused(3, ["nothing fits", "try a job without [prefill]"], "plan", job)
        second = '[[cluster.datacenter]]\nname = "paris"\ndevice = "emulated:a100-80g"\ndevices_per_node = 2\n' \
            '[[cluster.wan]]\nbetween = ["oregon", "paris"]\none_way_latency = "20 ms"\nnode_pair_limit = "5 Gbps"\n'
        apart = self.write("apart.toml", TWO_STAGES[:TWO_STAGES.index("[parallelism]")] + second + too_much)
        self.refused(3, ["memory", "largest: the model of [prefill]", "try a smaller memory in [prefill]"], "plan", apart)
        self.refused(3, ["try a smaller memory in [prefill]"], "plan", apart, "--across")
        apart = [self.write(f"apart{i}.toml", TWO_STAGES[:TWO_STAGES.index("[parallelism]")] + second + text)
                 for i, text in enumerate(("", prefill.format("17 GB")))]
        before, after = (max(stage["memory_bytes"] for stage in self.json("plan", job)["best"]["placement"]) for job in apart)
        self.assertAlmostEqual(after - before, 17e9, delta=1)

    def test_samples_and_labels_stay_where_they_are(self):
        """Over several datacenters: the pipeline begins and ends there, and what is written says so again."""
        text = (ROOT / "examples" / "planning" / "five-zones-job.toml").read_text().replace(
            'file = "five-zones.toml"', f'file = "{ROOT / "examples" / "planning" / "five-zones.toml"}"')
        ends = '[parallelism]\nfirst_stage_in = ["iowa"]\nlast_stage_in = ["virginia", "montreal"]\n'
        answer = self.json("plan", self.write("job.toml", text + ends), "--simulate-for", "0", "--out", self.folder / "out.toml")
        where = answer["best"]["parallelism"]["datacenter_per_stage"]
        self.assertEqual(where[0], "iowa")
        self.assertIn(where[-1], ("virginia", "montreal"))
        self.assertIn('first_stage_in = ["iowa"]', (self.folder / "out.toml").read_text())
        self.ok("simulate", self.folder / "out.toml")
        self.refused(2, ["job.toml", "parallelism.first_stage_in", "virgina", "virginia"], "plan",
                     self.write("job.toml", text + ends.replace("iowa", "virgina")))

    def test_other_models_and_contexts_beyond_strands(self):
        for preset, context in (("llama3-8b", 64), ("llama3-8b", 128), ("llama3-70b", 32), ("mixtral-8x7b", 32), ("gpt-oss-120b", 32)):
            with self.subTest(preset, context=context):
                text = WIDE.replace("llama3-8b", preset).replace("context = 32", f"context = {context}").replace("nodes = 8", "nodes = 64")
                job = self.write("other.toml", text.replace("zero = 1", "zero = 3"))
                self.assertIn(f"context = {context}: a pass through a layer has", self.refused(3, [], "strand", job))
                done = self.tombolo("plan", job, "--simulate-for", "0")
                self.assertIn(done.returncode, (0, 3), done.stderr)  # some do not fit
                self.assertNotIn("bug:", done.stderr)
        narrow = self.write("narrow.toml", WIDE.replace("context = 32", "context = 16").replace("data = 2", "data = 4"))
        self.assertNotIn("a strand at most", self.tombolo("strand", narrow).stderr)

    def test_the_answer_has_what_programs_need(self):
        answer = self.json("plan", EXAMPLE)
        best = answer["best"]
        self.assertEqual(best, answer["top"][0])
        self.assertEqual(len(answer["top"]), 5)
        for key in ("parallelism", "iteration_s", "throughput", "mfu", "memory_bytes", "cost_usd", "placement"):
            self.assertIn(key, best)
        p = best["parallelism"]
        self.assertEqual(p["tensor"] * p["pipeline"] * p["data"] * p["context"], best["devices"])
        self.assertEqual(best["placement"][0]["datacenter"], "oregon")
        self.assertAlmostEqual(best["throughput"] * best["iteration_s"], 512 * 8192, delta=1)
        self.assertAlmostEqual(best["cost_usd"], 2.5 / 3600 * best["devices"] * best["iteration_s"], places=9)
        self.assertLessEqual(best["memory_bytes"], answer["device_bytes"])
        self.assertLessEqual(answer["feasible"], answer["evaluated"])
        times = [plan["iteration_s"] for plan in answer["top"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(times, [plan["simulated_s"] for plan in answer["top"]])
        self.assertEqual(answer["finalists"]["simulated"], 16)
        self.assertLess(answer["band"]["low_s"], answer["band"]["high_s"])

    def test_finalists_are_simulated_as_long_as_wanted(self):
        """By the closed form another one is first here, and says so when it is simulated."""
        closed = self.json("plan", EXAMPLE, "--simulate-for", 0, "--top", 16)
        self.assertEqual(closed["finalists"], {"simulated": 0, "of": 0, "more_than_2_percent_apart": 0})
        times = [plan["iteration_s"] for plan in closed["top"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(times, [plan["closed_form_s"] for plan in closed["top"]])
        self.assertEqual({plan["simulated_s"] for plan in closed["top"]}, {None})
        best = self.json("plan", EXAMPLE)["best"]
        self.assertNotEqual(best["parallelism"], closed["best"]["parallelism"])
        self.assertIn(best["parallelism"], [plan["parallelism"] for plan in closed["top"]])
        self.ok("plan", EXAMPLE, "--simulate-for", 0, "--out", "closed.toml")
        self.assertGreater(self.json("simulate", "closed.toml")["iteration_ns"] * 1e-9, best["simulated_s"])
        printed = self.ok("plan", EXAMPLE)
        self.assertRegex(printed, r"predicted iteration: [\d.]+ s \(simulated; [\d.]+ s by the closed form, [\d.]+ % more\)")
        self.assertIn("16 of 16 finalists simulated, ", printed)
        self.assertIn(" s (closed form), ", self.ok("plan", EXAMPLE, "--simulate-for", 0))
        some = self.json("plan", EXAMPLE, "--simulate-for", 0.01)["finalists"]
        self.assertLess(some["simulated"], some["of"])
        self.refused(2, ["--simulate-for"], "plan", EXAMPLE, "--simulate-for", -1)

    def test_what_has_no_price_costs_null(self):
        job = self.write("job.toml", TWO_STAGES)
        for plan in self.json("plan", job)["top"]:
            self.assertIsNone(plan["cost_usd"])
        self.assertRegex(self.ok("plan", job), r" -  +tensor")
        estimated = self.write("estimated.toml", TWO_STAGES + "pipeline = 2\n")
        self.assertIsNone(self.json("estimate", estimated)["cost_usd"])
        self.assertIn("cost unknown: the cluster names no price", self.ok("estimate", estimated))

    def test_threads_and_pruning_change_nothing(self):
        one = self.json("plan", EXAMPLE, "--threads", 1, "--top", 20)
        one.pop("wall_s")
        for threads in (2, 7):
            many = self.json("plan", EXAMPLE, "--threads", threads, "--top", 20)
            many.pop("wall_s")
            self.assertEqual(many, one)
        whole = self.json("plan", EXAMPLE, "--no-pruning", "--top", 20)
        self.assertEqual(whole["top"], one["top"])
        self.assertEqual(whole["why_not"], one["why_not"])
        self.assertEqual(whole["evaluated"], whole["configurations"])

    def test_estimate_says_the_same_of_the_best(self):
        for law in ("tombolo", "rail-only"):
            self.ok("plan", EXAMPLE, "--law", law, "--out", "best.toml")
            planned = self.json("plan", EXAMPLE, "--law", law)["best"]
            estimated = self.json("estimate", "best.toml", "--law", law)
            self.assertAlmostEqual(estimated["iteration_s"], planned["closed_form_s"], places=9)
            self.assertAlmostEqual(estimated["mfu"] * estimated["iteration_s"],
                                   planned["mfu"] * planned["iteration_s"], places=9)
            # What the paper's law says of a job is no Plan of ours.
            self.assertEqual(planned["simulated_s"] is None, law == "rail-only")
            self.assertAlmostEqual(estimated["memory"]["total_bytes"], planned["memory_bytes"], delta=1)
            self.assertTrue(estimated["memory"]["fits"])

    def test_why_not_names_the_constraint(self):
        printed = self.ok("plan", EXAMPLE, "--law", "rail-only")
        self.assertRegex(printed, r"pipeline = 1 +needs \d+ GB of 83.8 GB")
        self.assertRegex(printed, r"tensor = \d+ +[\d.]+ s against [\d.]+ s, \+[\d.]+ m?s ")
        for why in self.json("plan", EXAMPLE)["why_not"]:
            self.assertIn(why["constraint"], ("memory", "slower", "equal"))
            self.assertTrue(why["text"])

    def test_a_plan_is_simulated(self):
        job = self.write("job.toml", TWO_STAGES + "pipeline = 2\ndata = 1\n")
        self.assertIn("a Plan, for tombolo estimate, traffic, simulate and train", self.ok("plan", job, "--out", "plan.json"))
        planned = self.json("plan", job)["best"]
        simulated = self.json("simulate", "plan.json")
        self.assertEqual(planned["parallelism"]["pipeline"], 2)
        self.assertGreater(simulated["iteration_ns"], 0)
        self.assertIn("estimate, traffic, simulate and train", self.ok("plan", job, "--out", "best.toml"))
        self.assertEqual(self.json("simulate", "best.toml")["iteration_ns"], simulated["iteration_ns"])

    def test_every_command_takes_what_it_wrote(self):
        best = self.json("plan", EXAMPLE, "--out", "plan.json")["best"]
        self.ok("plan", EXAMPLE, "--out", "job.toml")
        for written in "plan.json", "job.toml":
            simulated = self.json("simulate", written, "--check")
            self.assertEqual(simulated["violations"], [])
            self.assertAlmostEqual(simulated["iteration_ns"] * 1e-9, best["iteration_s"], places=9)
            self.assertAlmostEqual(simulated["peak_memory_bytes"] / best["memory_bytes"], 1, delta=0.01)
        self.refused(2, ["can be predicted but not run here"], "train", "plan.json")

    def test_other_files_are_refused(self):
        self.refused(2, ["neither .json nor .toml"], "plan", EXAMPLE, "--out", "plan.txt")

    def test_exports(self):
        answer = self.json("plan", EXAMPLE, "--export", "megatron")
        tensor = answer["best"]["parallelism"]["tensor"]
        self.assertIn(f"--tensor-model-parallel-size {tensor}\n", answer["export"]["text"])
        self.assertIn("[parallelism]\n", self.ok("plan", EXAMPLE, "--export", "torchtitan"))
        self.refused(2, ["--export megatron"], "plan", EXAMPLE, "--export", "megatrn")

    def test_nothing_fits(self):
        job = self.write("job.toml", EXAMPLE.read_text()
                         .replace('"config.json"', f'"{EXAMPLE.parent}/config.json"')
                         .replace('file = "cluster.toml"', ONE_NODE))
        self.refused(3, ["nothing fits into a100-40g: the closest needs", "too much", "tensor", "try"], "plan", job)

    def test_what_cannot_be_searched_is_refused(self):
        self.refused(2, ["--objective speed", "time, cost or throughput"], "plan", EXAMPLE, "--objective", "speed")
        self.refused(2, ["--law gravity"], "plan", EXAMPLE, "--law", "gravity")
        job = self.write("job.toml", TWO_STAGES + 'pipeline = "some"\n')
        self.refused(2, ["job.toml:", "parallelism.pipeline"], "plan", job)
        job = self.write("job.toml", TWO_STAGES + "pipeline = 3\ndata = 1\n")
        self.refused(3, ["no parallelism divides"], "plan", job)


class Across(Case):
    REPLICAS = ROOT / "examples" / "replicas" / "job.toml"
    FIVE_ZONES = ROOT / "examples" / "planning" / "five-zones-job.toml"

    def test_a_row_that_is_written_is_what_simulate_says(self):
        answer = self.json("plan", self.REPLICAS, "--across", "--tokens", "1e9")
        names = [way["way"] for way in answer["ways"]]
        self.assertEqual(len(set(names)), len(names))
        for number, way in enumerate(answer["ways"], 1):
            self.ok("plan", self.REPLICAS, "--across", "--way", number, "--out", "way.toml")
            self.assertEqual(self.json("simulate", "way.toml")["iteration_ns"], round(way["iteration_s"] * 1e9), way["way"])
            steps = 1e9 / (16 * 128)
            self.assertAlmostEqual(way["target_s"] / (steps * way["iteration_s"] * way["steps_factor"]), 1, places=9)

    def test_a_memory_margin_stays_free(self):
        whole = self.json("plan", EXAMPLE, "--top", "1")
        margin = self.json("plan", EXAMPLE, "--top", "1", "--memory-margin", "0.3", "--out", "margin.toml")
        self.assertAlmostEqual(margin["device_bytes"], 0.7 * whole["device_bytes"], delta=1)
        self.assertGreater(whole["best"]["memory_bytes"], margin["device_bytes"])
        self.assertLessEqual(margin["best"]["memory_bytes"], margin["device_bytes"])
        self.assertGreaterEqual(margin["best"]["iteration_s"], whole["best"]["iteration_s"])
        self.ok("simulate", "margin.toml")  # in as much memory
        apart = self.json("plan", self.REPLICAS, "--across", "--memory-margin", "0.6", "--out", "apart.toml")
        self.assertEqual(self.json("simulate", "apart.toml")["iteration_ns"], round(apart["best"]["iteration_s"] * 1e9))
        self.refused(2, ["--memory-margin"], "plan", EXAMPLE, "--memory-margin", "1")

    def test_ctrl_c_and_a_limit_answer_with_what_there_is(self):
        search = ["plan", self.FIVE_ZONES, "--objective", "cost", "--no-pruning", "--json"]
        program = subprocess.Popen([str(word) for word in [BUILD / "tombolo", *search]], cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(2)
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=120)
        if program.returncode != -signal.SIGINT:  # which ends a program that is still starting
            self.said_what_there_was(program.returncode, out, err)
        limited = self.tombolo(*search, "--time-limit", "500 ms")
        self.said_what_there_was(limited.returncode, limited.stdout, limited.stderr)

    def said_what_there_was(self, code, out, err):
        """Even on a machine that has not found a plan by then."""
        if code == 0:
            answer = json.loads(out)
            self.assertTrue(answer["stopped"])
            self.assertGreaterEqual(answer["gap"], 0)
            self.assertGreater(answer["best"]["iteration_s"], 0)
        else:
            self.assertEqual((code, out), (1, ""))
            self.assertIn("stopped before a plan was found", err)

    def test_what_it_cannot_compare_is_refused(self):
        job = ["plan", self.REPLICAS]
        self.refused(2, ["--tokens", "--across"], *job, "--tokens", "1e9")
        self.refused(2, ["a target, which is not said", "--tokens"], *job, "--across", "--budget", "5 USD")
        self.refused(2, ["--budget", "EUR"], *job, "--across", "--tokens", "1e9", "--budget", "5 EUR")
        self.refused(2, ["--way 99", "a number of the table"], *job, "--across", "--way", "99")
        self.refused(2, ["--all-devices"], *job, "--across", "--all-devices")
        self.refused(2, ["the cluster has one"], "plan", EXAMPLE, "--across")
        self.refused(3, ["no way trains", "fastest", "later --deadline"], *job, "--across", "--tokens", "1e9", "--deadline", "1 h")


if __name__ == "__main__":
    unittest.main()
