"""Bad input gets file, line, key, value and what to try; exit 2, or 3 where nothing fits."""
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
        job = self.job("pipeline = 3", "pipeline = 3\ntensor = 2")
        self.refused(2, ["parallelism.tensor = 2"], "simulate", job)
        job = self.job('schedule = "gpipe"', 'schedule = "chimera"')
        self.refused(2, ['schedule = "chimera"', '"gpipe" or "1f1b"'], "simulate", job)

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
        self.refused(3, ["stage 0", "needs", "GiB"], "simulate", job)

    def test_a_missing_wan_link(self):
        text = TOY[:TOY.index("[[cluster.wan]]")] + TOY[TOY.index("[training]"):]
        self.refused(2, ["no WAN link between west and east", "[[wan]]"], "simulate",
                     self.write("job.toml", text))

    def test_options(self):
        self.refused(2, ["--iterations"], "simulate", "x.toml", "--iterations", "0")
        done = self.tombolo("simulat")
        self.assertEqual(done.returncode, 2)

    def test_a_trace_that_is_none(self):
        self.refused(2, ["not a Trace"], "report", self.write("t.jsonl", "{}\n"))
        self.refused(2, ["truncated"], "compare",
                     self.write("t.jsonl", '{"tombolo_trace": 1, "provenance": "predicted"}\n'), "t.jsonl")

    def test_a_job_that_cannot_be_trained(self):
        self.refused(2, ["a100-80g", "emulated:a100-80g"], "train", self.job())

    def test_taken_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.refused(2, [f"port {port} on 127.0.0.1 is taken", "another port"], "train", self.write("job.toml", TWO_EMULATED), "--port", port)
        self.assertFalse((self.folder / "run" / "trace.jsonl").exists())

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
