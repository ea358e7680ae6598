"""Bad input gets file, line, key, value and what to try; exit 2, or 3 where nothing fits."""
import json
import socket
import subprocess
import unittest

from program import BUILD, ROOT, TWO_EMULATED, Case

TOY = (ROOT / "examples" / "toy" / "job.toml").read_text()


class Messages(Case):
    def job(self, old="", new="", text=TOY):
        self.assertIn(old, text)
        return self.write("job.toml", text.replace(old, new, 1))

    def test_unreadable_file(self):
        self.refused(2, ["nowhere.toml: cannot open it for reading: No such file", "spelling"],
                     "simulate", "nowhere.toml")

    def test_folder_instead_of_file(self):
        self.refused(2, ["cannot read it: Is a directory"], "simulate", self.folder)

    def test_bad_unit(self):
        job = self.job('"5 Gbps"', '"5 Gbs"')
        self.refused(2, ['job.toml:18: cluster.wan[0].node_pair_limit = "5 Gbs": unknown unit "Gbs"',
                         '"625 MBps" (bytes)'], "simulate", job)

    def test_missing_unit(self):
        job = self.job('"20 ms"', '20')
        self.refused(2, ["cluster.wan[0].one_way_latency = 20", "a text with a unit", '"20 ms"'],
                     "simulate", job)

    def test_unknown_key(self):
        job = self.job("global_batch = 4", "global_batch = 4\nmicro_bach = 1")
        self.refused(2, ["training.micro_bach = 1: unknown key", 'try "micro_batch"'], "simulate", job)

    def test_missing_key(self):
        self.refused(2, ["training.global_batch is missing"], "simulate", self.job("global_batch = 4", ""))
        self.refused(2, ["training.global_batch is missing", 'try "global_batch" instead of "global_bacth"'],
                     "simulate", self.job("global_batch", "global_bacth"))

    def test_not_toml(self):
        job = self.job("[training]", "[training")
        self.refused(2, ["job.toml:20:"], "simulate", job)

    def test_auto_is_refused_by_name(self):
        job = self.job("pipeline = 3", 'pipeline = "auto"')
        self.refused(2, ['parallelism.pipeline = "auto"', "tombolo plan"], "simulate", job)

    def test_what_is_not_there_yet_is_refused_by_name(self):
        job = self.job("pipeline = 3", "pipeline = 3\nzero = 2")
        self.ok("simulate", job)
        self.refused(2, ["can be predicted but not run here"], "train", job)
        job = self.job('schedule = "gpipe"', 'schedule = "chimera"')
        self.refused(2, ['schedule = "chimera"', 'one of gpipe, 1f1b'], "simulate", job)

    def test_too_few_devices(self):
        job = self.job("pipeline = 3", "pipeline = 4")
        self.refused(3, ["4 stages need 4 devices, the cluster has 3"], "simulate", job)

    def test_a_stage_that_does_not_fit_in_memory(self):
        job = self.write("job.toml", """
[model]
preset = "gpt3-175b"
[[cluster.datacenter]]
name = "here"
device = "a100-80g"
nodes = 2
[training]
global_batch = 4
[parallelism]
pipeline = 2
""")
        self.refused(3, ["stage 0", "needs", "a100-80g has 83.8 GB"], "simulate", job)

    def test_a_missing_wan_link(self):
        text = TOY[:TOY.index("[[cluster.wan]]")] + TOY[TOY.index("[training]"):]
        self.refused(2, ["no WAN link between west and east", "[[wan]]"], "simulate",
                     self.write("job.toml", text))

    def test_options(self):
        self.refused(2, ["--iterations"], "simulate", "x.toml", "--iterations", "0")
        self.refused(2, ["tombolo plan: there is no option --objectiv\n", "try --objective"],
                     "plan", "x.toml", "--objectiv", "time")
        self.refused(2, ["tombolo plan: there is no option --quickly\n", "tombolo plan --help"], "plan",
                     "x.toml", "--quickly=yes")
        self.refused(2, ["tombolo plan: job is required\n", "try tombolo plan --help"], "plan")
        self.refused(2, ["tombolo convert: --to: xml is not one of the known values\n", "perfetto, csv"],
                     "convert", "x.toml", "--to", "xml")

    def test_commands(self):
        self.refused(2, ['there is no command "simulat"', "try tombolo simulate"], "simulat")
        self.refused(2, ['there is no command "zzz"', "try tombolo help"], "zzz", "x.toml")
        self.refused(2, ["tombolo COMMAND", "simulate", "what ASTRA-sim"])
        self.assertEqual(self.ok("help"), self.ok("--help"))
        self.assertEqual(self.ok("help", "plan"), self.ok("plan", "--help"))
        self.assertEqual(self.ok("-V"), self.ok("--version"))

    def test_a_datacenter_that_is_none(self):
        job = self.job('between = ["west", "east"]', 'between = ["west", "eats"]')
        self.refused(2, ['job.toml:16: wan[0].between: there is no datacenter "eats"', 'try "east"'], "simulate", job)

    def test_files_of_another_kind(self):
        job = self.write("job.toml", TWO_EMULATED)
        self.refused(2, ["job.toml:1: this is not a Trace file", "tombolo simulate"], "report", job)
        config = self.write("config.json", '{"hidden_size": 4096}')
        self.refused(2, ["config.json: this is JSON, and no Plan", "[model] config"], "plan", config)
        self.ok("train", job, "--out", "run")
        self.refused(2, ["run/trace.jsonl is", "the prediction comes first",
                         "try tombolo compare run/predicted.jsonl run/trace.jsonl"],
                     "compare", "run/trace.jsonl", "run/predicted.jsonl")

    def test_a_grid_that_is_too_large(self):
        self.refused(2, ["1..2000000: 2000000 values", "1000000 configurations at most", "1..2000000/100"],
                     "sweep", self.write("job.toml", TOY), "--vary", "run.steps=1..2000000")

    def test_times_that_no_integer_holds_name_their_key(self):
        for key, old, new in (("stage_times.backward", 'backward = "8 ms"', 'backward = "9999999999999 ms"'),
                              ("stage_times.forward", 'forward = "4 ms"', 'forward = "1e300 ms"')):
            self.assertIn(old, TWO_EMULATED)
            job = self.write("job.toml", TWO_EMULATED.replace(old, new))
            for command in ("simulate", "select", "plan", "profile", "train", "traffic"):
                self.refused(2, [f"{key} = ", "longer than 31 years"], command, job)
        job = self.job('one_way_latency = "20 ms"', 'one_way_latency = "1e300 ms"')
        self.refused(2, ["job.toml:17: cluster.wan[0].one_way_latency = ", "longer than 31 years"], "simulate", job)
        # Each fits, and all of them together do not.
        job = self.write("job.toml", TWO_EMULATED.replace('backward = "8 ms"', 'backward = "900000000 s"')
                         .replace("global_batch = 8", "global_batch = 8000"))
        for command in ("simulate", "select"):
            self.refused(2, ["over 290 years"], command, job)

    def test_a_reader_that_goes_away_is_no_error(self):
        command = [BUILD / "tombolo", "train", "--capabilities"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.close()
            self.assertEqual((process.stderr.read(), process.wait(60)), ("", 0))
        with open("/dev/full", "w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("stdout: cannot write the answer", done.stderr)

    def test_a_trace_that_is_none(self):
        self.refused(2, ["not a Trace"], "report", self.write("t.jsonl", "{}\n"))
        self.refused(2, ["truncated"], "compare",
                     self.write("t.jsonl", '{"tombolo_trace": 1, "provenance": "predicted"}\n'), "t.jsonl")

    def test_a_figure_from_a_machine_that_was_too_busy(self):
        job = self.job()
        self.ok("simulate", job, "--out", "predicted.jsonl")
        self.assertNotIn("machine", self.ok("compare", "predicted.jsonl", "predicted.jsonl", "--warmup", "0"))
        records = [("machine_busy_share", 0.99), ("machine_own_share", 0.46), ("machine_too_busy", 1)]
        lines = [json.loads(line) for line in (self.folder / "predicted.jsonl").read_text().splitlines()]
        lines[0]["provenance"] = "measured"
        lines[-1]["records"] += len(records)
        lines[-1:-1] = [{"record": name, "iteration": 0, "rank": 0, "at_ns": 0, "value": value} for name, value in records]
        self.write("measured.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        self.assertIn("error +0.0 %)\nmachine: 99 % busy, 46 % with this run: too busy for this figure to mean anything; "
                      "try again when nothing else runs\n",
                      self.ok("compare", "predicted.jsonl", "measured.jsonl", "--warmup", "0"))
        answer = self.json("compare", "predicted.jsonl", "measured.jsonl", "--warmup", "0")
        self.assertEqual((answer["machine_busy_share"], answer["too_busy"]), (0.99, True))

    def test_traces_of_different_plans_are_compared_with_a_warning(self):
        for name, forward in (("one", "4 ms"), ("other", "6 ms")):
            job = self.write("job.toml", TWO_EMULATED.replace('forward = "4 ms"', f'forward = "{forward}"'))
            self.ok("simulate", job, "--out", f"{name}.jsonl")
        printed = self.ok("compare", "one.jsonl", "other.jsonl", "--warmup", "0")
        self.assertIn("warning: the two Traces have different Plans: stages[0].cost.forward", printed)
        answer = self.json("compare", "one.jsonl", "other.jsonl", "--warmup", "0")
        self.assertFalse(answer["same_plan"])
        self.assertIn({"key": "stages[1].cost.forward", "predicted": '"4 ms"', "measured": '"6 ms"'},
                      answer["plan_differences"])
        self.assertEqual(answer["plan_differences_count"], len(answer["plan_differences"]))
        self.assertNotIn("warning", self.ok("compare", "one.jsonl", "one.jsonl", "--warmup", "0"))
        same = self.json("compare", "one.jsonl", "one.jsonl", "--warmup", "0")
        self.assertEqual((same["same_plan"], same["plan_differences"]), (True, []))
        # Other work is still refused, and now says what is different.
        job = self.write("job.toml", TWO_EMULATED.replace("global_batch = 8", "global_batch = 16"))
        self.ok("simulate", job, "--out", "more.jsonl")
        self.refused(2, ["different Plans", "training.global_batch 8 and 16"], "compare", "one.jsonl", "more.jsonl")

    def test_a_job_that_cannot_be_trained(self):
        self.refused(2, ["a100-80g", "emulated:a100-80g"], "train", self.job())

    def test_taken_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.refused(2, [f"port {port} on 127.0.0.1 is taken", "another port"], "train", self.write("job.toml", TWO_EMULATED), "--port", port)
        self.assertFalse((self.folder / "run" / "trace.jsonl").exists())

    def files(self, folder):
        """{path: content} of all that lies in a folder."""
        return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    def test_a_refused_run_leaves_the_one_before_as_it_is(self):
        text = TWO_EMULATED + '[checkpoint]\ndirectory = "run/checkpoints"\nevery = 2\n'
        job = self.write("job.toml", text)
        self.ok("train", job, "--out", "run")
        before = self.files(self.folder / "run")
        self.assertIn(self.folder / "run" / "predicted.jsonl", before)
        slower = self.write("slower.toml", text.replace('forward = "4 ms"', 'forward = "5 ms"')
                            .replace("steps = 4", "steps = 8"))
        self.refused(2, ["an earlier run left a checkpoint of step 4 here", "--resume"],
                     "train", slower, "--out", "run")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            for option in (("--port", port), ("--metrics", f"127.0.0.1:{port}")):
                self.refused(2, [port], "train", slower, "--out", "run", "--resume", *option)
        self.refused(2, ["no-such-program"], "train", slower, "--out", "run", "--resume", "--worker", "no-such-program")
        self.assertEqual(self.files(self.folder / "run"), before)

    def test_an_answer_that_cannot_be_written_leaves_the_others_as_they_were(self):
        job = self.write("job.toml", TOY)
        for command in (["simulate", job, "--out", "old", "--out-plan", "nowhere/plan.json"],
                        ["simulate", job, "--out", "old", "--out-plan", "./old"],
                        ["traffic", ROOT / "examples" / "rail-only" / "table4-22b.toml", "--csv", "old",
                         "--report", "nowhere/page.html"],
                        ["astra", "--workload-configuration",
                         ROOT / "data/astra-sim/micro/all_gather-8npus-1MB/all_gather",
                         "--system-configuration", ROOT / "tests/recorded/inputs/system-1d.json",
                         "--network-configuration", ROOT / "tests/recorded/inputs/ring-8.yml", "--trace", "old",
                         "--report", "nowhere/page.html"],
                        ["sweep", job, "--vary", "training.global_batch=4,8", "--out", "old", "--report",
                         "nowhere/page.html"],
                        ["plan", ROOT / "examples" / "planning" / "five-zones-job.toml", "--out", "old"],
                        ["convert", job, "--to", "nonsense", "--out", "old"],
                        ["profile", self.write("accelerators.toml", TOY), "--out", "old"]):
            old = self.write("old", "what an earlier command wrote")
            with self.subTest(command=command[0]):
                done = self.tombolo(*command)
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertEqual(old.read_text(), "what an earlier command wrote", done.stderr)

    def test_help_names_the_commands_and_the_exit_codes(self):
        text = self.ok("--help")
        for word in ["simulate", "profile", "train", "compare", "report", "convert", "3 no feasible plan"]:
            self.assertIn(word, text)

    def test_the_command_line_does_not_load_libtorch(self):
        libraries = subprocess.run(["ldd", BUILD / "tombolo"], capture_output=True, text=True).stdout
        self.assertIn("libc.so", libraries)
        self.assertNotIn("torch", libraries)


if __name__ == "__main__":
    unittest.main()
