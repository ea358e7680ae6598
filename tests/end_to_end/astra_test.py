"""ASTRA-sim's command line, files and result lines, as somebody who has them types them."""
import json
import pathlib
import re
import shutil
import unittest

from program import ROOT, Case

DATA = ROOT / "data" / "astra-sim"
NETWORK = "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"
SYSTEM = {"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
          "preferred-dataset-splits": 4, "all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"],
          "reduce-scatter-implementation": ["ring"], "all-to-all-implementation": ["ring"],
          "collective-optimization": "localBWAware", "local-mem-bw": 1600}
CLUSTER = """
[model]
preset = "llama3-8b"
[[cluster.datacenter]]
name = "here"
device = "h100-80g"
nodes = 4
devices_per_node = 8
scale_up = {{ domain = 8, bandwidth = "450 GBps" }}
scale_out = {{ bandwidth = "{net} Gbps" }}
[training]
global_batch = {batch}
micro_batch = 1
stack = "megatron"
[parallelism]
{layout}
"""


class Astra(Case):
    def files(self, system=SYSTEM, network=NETWORK, memory='{"memory-type": "NO_MEMORY_EXPANSION"}'):
        trace = DATA / "micro" / "all_reduce-8npus-1MB" / "all_reduce"
        return {"workload": str(trace), "system": self.write("system.json", json.dumps(system)),
                "network": self.write("network.yml", network), "remote-memory": self.write("memory.json", memory)}

    def arguments(self, files, joined=True):
        out = []
        for name, path in files.items():
            option = f"--{name}-configuration"
            out += [f"{option}={path}"] if joined else [option, str(path)]
        return out

    def test_answers_with_astra_sims_lines(self):
        for joined in True, False:
            answer = self.ok("astra", *self.arguments(self.files(), joined))
            found = re.findall(r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication (\d+) cycles\.", answer)
            self.assertEqual(found, [(str(rank), "64440", "64440") for rank in range(8)])
            self.assertIn("sys[3], Comm time: 64440", answer)

    def test_notes_dimensions_and_traces_that_are_not_used(self):
        square = "topology: [ Ring, Ring ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50.0, 50.0 ]\nlatency: [ 500.0, 500.0 ]\n"
        both = {**SYSTEM, **{f"{name}-implementation": ["ring", "ring"]
                             for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")}}

        def ask(**files):
            done = self.tombolo("astra", *self.arguments(self.files(**files)), "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["finish_ns"], done.stderr

        one, said = ask(network=square)
        self.assertIn("names fewer algorithms for ALL_REDUCE than", said)
        of_four, said = ask(network=NETWORK.replace("8", "4"))
        self.assertEqual(one, of_four)  # as ASTRA-sim's
        self.assertNotIn("fewer algorithms", said)
        self.assertRegex(said, r"note: \S+all_reduce\.4\.et and what follows it are not read: \S+network.yml has 4 NPUs")
        two, said = ask(network=square, system=both)
        self.assertGreater(two, one)
        self.assertEqual(said, "")

    def test_answers_as_json(self):
        arguments = self.arguments(self.files())
        for more in [], ["--spmd"], ["--collapse=off"], ["--law=congestion"]:
            answer = self.json("astra", *arguments, "--per-npu", *more)
            self.assertEqual((answer["npus"], answer["finish_ns"]), (8, 64440))
            self.assertEqual(answer["per_npu"], [64440] * 8)
            self.assertGreater(answer["events"], 0)
            self.assertGreaterEqual(answer["wall_s"], 0)

    def test_asks_about_a_job_without_traces(self):
        example = ROOT / "examples" / "astra-sim"
        arguments = [f"--job={example / 'gpt-1t.toml'}", f"--system-configuration={example / 'system.json'}",
                     f"--network-configuration={example / 'gpt-1t.yml'}"]
        answer = self.json("astra", *arguments)
        self.assertEqual((answer["npus"], answer["finish_ns"], answer["collapsed"]), (65536, 15229022595, True))
        self.assertEqual((answer["job"]["microbatches"], answer["job"]["simulated_ranks"]), (64, 64))
        self.refused(2, ["--job", "makes the traces"], "astra", *arguments, "--spmd")
        self.refused(2, ["65536 ranks have to be simulated", "as asked for"], "astra", *arguments, "--collapse=off")
        small = self.write("small.yml", NETWORK)
        self.refused(2, ["65536 ranks", "8 NPUs"], "astra", *arguments[:2], f"--network-configuration={small}")

    def test_asks_about_a_job_on_its_own_cluster(self):
        example = ROOT / "examples" / "astra-sim"
        own = self.json("astra", f"--job={example / 'gpt-1t.toml'}")
        self.assertEqual(own["topology"], "Switch(8) x Switch(8192)")
        # What NVLink and InfiniBand reach of their bandwidths, as `estimate` takes it.
        network = self.write("network.yml", "topology: [ Switch, Switch ]\nnpus_count: [ 8, 8192 ]\n"
                             f"bandwidth: [ {300e9 * 0.979 / 2**30!r}, {25e9 * 0.895 / 2**30!r} ]\nlatency: [ 500, 2500 ]\n")
        rings = {f"{name}-implementation": ["ring", "ring"]
                 for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")}
        system = self.write("system.json", json.dumps(rings | {
            "endpoint-delay": 0, "preferred-dataset-splits": 4, "collective-optimization": "localBWAware"}))
        files = self.json("astra", f"--job={example / 'gpt-1t.toml'}", f"--system-configuration={system}",
                          f"--network-configuration={network}")
        # Beside that, collectives start up.
        self.assertEqual(own["bytes_sent"], files["bytes_sent"])
        self.assertGreater(own["finish_ns"], files["finish_ns"])
        self.assertLess(own["finish_ns"], files["finish_ns"] * 1.03)
        ring = self.json("astra", f"--job={example / 'gpt-1t.toml'}", "--groups=ring")
        self.assertLess(ring["finish_ns"], own["finish_ns"])

    def test_agrees_with_estimate_and_simulate(self):
        """One cluster, three commands, within 5 % where nothing overlaps: collectives inside domains, sums between them."""
        rails = "tensor = 8\npipeline = 1\ndata = 4\nsequence_parallel = true"

        def closer_than(share, path, **changed):
            job = self.write("job.toml", CLUSTER.format(**({"layout": rails, "net": 10, "batch": 16} | changed)))
            astra = self.json("astra", f"--job={job}")
            seconds = astra["finish_ns"] * 1e-9
            for command, key, unit in (("estimate", "iteration_s", 1), ("simulate", "iteration_ns", 1e-9)):
                other = self.json(command, job)[key] * unit
                self.assertLess(abs(seconds / other - 1), share, f"{path}: {seconds} s, {command} {other} s")
            return seconds
        times = [closer_than(0.05, f"{net} Gbps", net=net) for net in (2, 4, 8, 12, 16)]
        self.assertEqual(times, sorted(times, reverse=True))
        closer_than(0.05, "pipeline", layout="tensor = 8\npipeline = 4\nsequence_parallel = true", net=200, batch=32)
        closer_than(0.05, "ZeRO 3", layout="pipeline = 1\ndata = 32\nzero = 3", net=400, batch=32)
        closer_than(0.05, "many microbatches", net=400, batch=64)
        closer_than(0.05, "partly empty domains", layout="tensor = 4\npipeline = 1\ndata = 3\nsequence_parallel = true", net=50, batch=12)

    def test_says_which_collectives_contend_on_what(self):
        """A note where estimate is 5 % or more off, and none where nothing contends."""
        def notes(layout, net=100, batch=16):
            done = self.tombolo("astra", "--job", self.write("job.toml", CLUSTER.format(layout=layout, net=net, batch=batch)), "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            said = json.loads(done.stdout)["job"].get("notes", [])
            self.assertEqual(done.stderr, "".join(f"note: {note}\n" for note in said))
            return "\n".join(said)
        rails = "tensor = 8\npipeline = 1\ndata = 4\nsequence_parallel = true"
        self.assertEqual(notes(rails, net=10), "")
        self.assertIn("less: there gradient all-reduces hide behind up to 51 % of a pass; here they wait for tensor collectives", notes(rails, net=400))
        # (8 - 1) / (4 (2 - 1)): rings of eight through four ports of either domain.
        self.assertIn("more: there rings of all 8 ranks of a data group share the ports of the 4 that it has in each of 2 domains, with 1.75 times",
                      notes("tensor = 2\npipeline = 2\ndata = 8", net=50))
        self.assertEqual("12 ranks fill no whole domains of 8: they are 4 in each of 3, over which estimate lays its groups",
                         notes("tensor = 4\npipeline = 1\ndata = 3\nsequence_parallel = true", net=50, batch=12))
        own = self.write("network.yml", "topology: [ Switch, Switch ]\nnpus_count: [ 8, 4 ]\nbandwidth: [ 273, 41.7 ]\nlatency: [ 500, 2500 ]\n")
        answer = self.json("astra", "--job", self.write("job.toml", CLUSTER.format(layout=rails, net=400, batch=16)),
                           f"--network-configuration={own}")
        self.assertNotIn("notes", answer["job"])

    def test_groups_over_several_dimensions(self):
        """Files of ASTRA-sim: their way by default, ours for the asking, and a note of groups that fit neither."""
        layout = "tensor = 3\npipeline = 1\ndata = 8"
        job = self.write("job.toml", CLUSTER.format(layout=layout, net=100, batch=16).replace("nodes = 4", "nodes = 3")
                         .replace('preset = "llama3-8b"', "layers = 4\nhidden = 3072\nheads = 24\nffn = 12288\nsequence = 2048\nvocabulary = 49152"))
        done = self.tombolo("astra", "--job", job, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("note: groups of 3 ranks such as 6, 7, 8 are no products of parts of Switch(8) x Switch(3)", done.stderr)
        self.refused(2, ["--groups=tree: no such way", "ring or hierarchical"], "astra", "--job", job, "--groups=tree")

    def test_a_large_job_has_a_summary(self):
        example = ROOT / "examples" / "astra-sim" / "gpt-1t.toml"
        lines = self.ok("astra", f"--job={example}", "--granularity=stage").splitlines()
        self.assertLess(len(lines), 16)
        self.assertRegex(lines[0], "^65536 NPUs finish after [0-9]+ to [0-9]+ cycles")
        self.assertRegex(lines[2], r"sys\[[0-9]+\] finished")
        small = self.write("job.toml", CLUSTER.format(layout="pipeline = 1\ndata = 32\nzero = 3", net=100, batch=32))
        self.assertEqual(self.ok("astra", f"--job={small}").count("finished"), 32)

    def test_asks_about_two_datacenters(self):
        example = ROOT / "examples" / "astra-wan"
        arguments = [f"--workload-configuration={self.files()['workload']}",
                     f"--system-configuration={example / 'system.json'}"]
        network = example / "network.yml"
        narrow = self.write("narrow.yml", network.read_text().replace("[ 50, 0.6 ]", "[ 50, 0.125 ]"))
        for path, cycles in (network, 43938658), (narrow, 47844908):
            answer = self.json("astra", "--law=fluid", *arguments, f"--network-configuration={path}")
            self.assertEqual((answer["topology"], answer["finish_ns"]), ("Ring(4) x WAN(2)", cycles))
            self.assertIn(f"{cycles:,}", (example / "README.md").read_text())
        # A sweep keeps what one connection may have.
        rows = self.json("astra", "--law=fluid", *arguments, f"--network-configuration={network}",
                         "--set", "network.bandwidth[1]=0.6,0.125")["rows"]
        self.assertEqual([row["finish_ns"] for row in rows], [43938658, 47844908])
        self.refused(2, ["WAN", "analytical", "--law=fluid"], "astra", *arguments, f"--network-configuration={network}")

    def test_asks_traces_of_eight_ranks_about_sixteen(self):
        files = self.files(network=NETWORK.replace("[ 8 ]", "[ 16 ]"))
        trace = files["workload"]
        answer = self.json("astra", *self.arguments(files), "--retarget=16", "--per-npu")
        self.assertEqual(len(set(answer["per_npu"])), 1)
        self.ok("convert", trace, "--to", "chakra", "--retarget", "16", "--out", self.folder / "wide")
        written = self.json("astra", *self.arguments(dict(files, workload=self.folder / "wide")), "--per-npu")
        self.assertEqual(written["per_npu"], answer["per_npu"])
        self.refused(2, ["--retarget=8", "16 NPUs"], "astra", *self.arguments(files), "--retarget=8")
        self.refused(2, ["--to dot"], "convert", trace, "--to", "dot", "--retarget", "16", "--out", self.folder / "x")

    def test_simulates_a_job_whose_parameters_are_remote(self):
        example = ROOT / "examples" / "astra-sim"
        arguments = [f"--job={example / 'zero-infinity.toml'}", f"--system-configuration={example / 'system.json'}",
                     f"--network-configuration={example / 'zero-infinity.yml'}"]
        finish = {"": self.json("astra", *arguments)["finish_ns"]}
        for memory in "zero-infinity.json", "memory-pool.json":
            answer = self.json("astra", *arguments, "--remote-parameters",
                               f"--remote-memory-configuration={example / memory}")
            self.assertEqual(answer["job"]["simulated_ranks"], 1)
            finish[memory] = answer["finish_ns"]
        self.assertLess(finish[""], finish["zero-infinity.json"])
        # The pool has the same resources, and two more stages for the first chunk.
        self.assertLess(finish["zero-infinity.json"], finish["memory-pool.json"])
        self.assertLess(finish["memory-pool.json"], finish["zero-infinity.json"] * 1.001)
        self.refused(2, ["needs a remote memory"], "astra", *arguments, "--remote-parameters")

    def test_sweeps_a_grid_as_single_runs_would_answer_it(self):
        files = self.files()
        sweep = ["astra", *self.arguments(files), "--set", "network.bandwidth=25,50",
                 "--set", "system.active-chunks-per-dimension=1,2"]
        rows = self.json(*sweep, "--jobs", "3")["rows"]
        self.assertEqual(self.json(*sweep, "--jobs", "1")["rows"], rows)
        self.assertEqual([(row["network.bandwidth"], row["system.active-chunks-per-dimension"]) for row in rows],
                         [(25, 1), (25, 2), (50, 1), (50, 2)])
        for row in rows:
            system = dict(SYSTEM, **{"active-chunks-per-dimension": row["system.active-chunks-per-dimension"]})
            one = self.files(system, NETWORK.replace("50.0", str(row["network.bandwidth"])))
            self.assertEqual(self.json("astra", *self.arguments(one))["finish_ns"], row["finish_ns"])
        self.assertEqual(rows[2]["finish_ns"], 64440)
        table = self.ok(*sweep, "--csv", self.folder / "rows.csv")
        self.assertIn("64440", table)
        self.assertEqual((self.folder / "rows.csv").read_text().splitlines()[3].split(",")[:4], ["50", "1", "8", "64440"])
        self.refused(2, ["system.active-chunks=3", "active-chunks"], *sweep, "--set", "system.active-chunks=3")
        self.refused(2, ["names neither file"], *sweep, "--set", "bandwidth=3")
        self.refused(2, ["network.topology[0]=Torus"], *sweep[:-4], "--set", "network.topology[0]=Ring,Torus")
        self.refused(2, ["--csv", "--set"], *sweep[:-4], "--csv", "x.csv")
        self.refused(2, ["--report", "--set"], *sweep, "--report", "x.html")

    def test_says_where_the_time_goes(self):
        arguments = self.arguments(self.files())
        answer = self.json("astra", *arguments, "--per-npu")
        # 1 MiB round a ring of 8: each sends 14 pieces of an eighth.
        self.assertEqual(answer["exposed"]["last"]["npu"], 0)
        self.assertEqual(answer["exposed"]["mean"]["communication_ns"], 64440)
        self.assertEqual(answer["bytes_sent"], 8 * 14 * (1 << 20) // 8)
        self.assertEqual(answer["dimensions"][0]["bytes_max"], 14 * (1 << 20) // 8)
        self.assertEqual(answer["per_npu_exposed"]["communication_ns"], [64440] * 8)
        text = self.ok("astra", *arguments, "--summary")
        self.assertRegex(text, r"sys\[7\] finished, 64440 cycles")
        self.assertRegex(text, r"communication +64.4 us +100.0 % +64.4 us +100.0 %")
        self.assertIn("0: Ring(8), 50 * 2^30 B/s, 500 ns", text)

    def test_draws_what_happened(self):
        trace, page, perfetto = (self.folder / name for name in ("run.jsonl", "run.html", "run.perfetto.json"))
        arguments = self.arguments(self.files())
        lines = self.ok("astra", *arguments)
        self.assertEqual(self.ok("astra", *arguments, f"--trace={trace}", f"--report={page}"), lines)
        self.assertIn("ALL_REDUCE", trace.read_text())
        self.assertIn("ALL_REDUCE", page.read_text())
        self.ok("report", trace, "--out", self.folder / "again.html")
        self.assertEqual((self.folder / "again.html").read_text(), page.read_text())
        self.ok("convert", trace, "--to", "perfetto", "--out", perfetto)
        events = json.loads(perfetto.read_text())["traceEvents"]
        tracks = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertEqual(tracks, {"communicator", "dimension 0"})
        self.assertEqual(sum(event["ph"] == "X" for event in events), 1 + 4)  # the node, four chunks
        self.assertIn("rank 0 (stands for 8)", {event["args"].get("name") for event in events})
        self.ok("astra", *arguments, "--collapse=off", "--trace-ranks=2", f"--trace={trace}")
        self.assertIn("2 of 8 simulated ranks are drawn", trace.read_text())

    def test_says_what_is_wrong_with_its_files(self):
        good = self.files()
        wrong = [
            (dict(good, network=self.write("n.yml", NETWORK.replace("Ring", "Torus"))), "topology[0] = Torus"),
            (dict(good, network=self.write("n2.yml", NETWORK.replace("[ 8 ]", "[ 16 ]"))), "all_reduce.8.et"),
            (dict(good, system=self.write("s.json", json.dumps(dict(SYSTEM, **{"model-shared-bus": 1})))), "model-shared-bus"),
            (dict(good, system=self.write("s2.json", "{")), "s2.json"),
            (dict(good, system="nowhere.json"), "nowhere.json"),
            (dict(good, workload="nowhere"), "nowhere.0.et"),
            (dict(good, **{"remote-memory": self.write("m.json", '{"memory-type": "MEMORY_POOL"}')}), "remote-mem-bw"),
            (dict(good, **{"comm-group": self.write("g.json", '{"1": "all"}')}), "g.json"),
        ]
        for files, part in wrong:
            self.refused(2, [part], "astra", *self.arguments(files))
        del good["system"]
        self.refused(2, ["--system-configuration is missing"], "astra", *self.arguments(good))

    def test_refuses_a_truncated_trace(self):
        files = self.files()
        source = pathlib.Path(files["workload"])
        for rank in range(8):
            shutil.copy(f"{source}.{rank}.et", self.folder)
        cut = self.folder / "all_reduce.5.et"
        cut.chmod(0o644)
        cut.write_bytes(cut.read_bytes()[:40])
        self.refused(2, ["all_reduce.5.et"], "astra", *self.arguments(dict(files, workload=self.folder / "all_reduce")))


if __name__ == "__main__":
    unittest.main()
