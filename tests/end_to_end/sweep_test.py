"""What-ifs, as a person asks for them: rows, exit codes, files, and several processes of mpirun."""
import csv
import json
import shutil
import subprocess
import unittest

from launchers_test import clean_environment
from program import BUILD, GUARD_S, ROOT, Case

EXAMPLE = ROOT / "examples" / "what-if" / "job.toml"
TOY = ROOT / "examples" / "toy" / "job.toml"

needs_mpi = unittest.skipUnless(shutil.which("mpirun") and (BUILD / "tombolo-mpi").exists(),
                                 "needs mpirun and tombolo-mpi (packages openmpi-bin, libopenmpi-dev)")


def vary(*axes):
    return [word for axis in axes for word in ("--vary", axis)]


class Sweep(Case):
    def rows(self, *arguments, job=TOY, **options):
        self.ok("sweep", job, *arguments, "--out", "rows.csv", **options)
        with open(self.folder / "rows.csv", newline="") as file:
            return list(csv.DictReader(file))

    def test_a_table_of_rows_in_the_order_of_the_grid(self):
        rows = self.rows(*vary("training.global_batch=4,8", "parallelism.schedule=gpipe,1f1b"))
        self.assertEqual(list(rows[0]), ["training.global_batch", "parallelism.schedule", "provenance", "status",
                                         "devices", "iteration_s", "sequences_per_s", "tokens_per_s", "cost_usd",
                                         "cost_per_million_tokens_usd", "mfu", "memory_bytes", "reason"])
        self.assertEqual([(row["training.global_batch"], row["parallelism.schedule"]) for row in rows],
                         [("4", "gpipe"), ("4", "1f1b"), ("8", "gpipe"), ("8", "1f1b")])
        self.assertEqual({row["provenance"] for row in rows}, {"predicted"})
        self.assertEqual(float(rows[0]["iteration_s"]), 0.025)
        self.assertEqual(float(rows[0]["sequences_per_s"]), 160)
        self.assertEqual(list(self.folder.iterdir()), [self.folder / "rows.csv"], "no temporary file stays")

    def test_the_same_as_the_command_of_that_name(self):
        simulated = self.json("simulate", EXAMPLE)
        row = self.json("sweep", EXAMPLE, *vary("cluster.wan.paris-oregon.connections=1"))["rows"][0]
        self.assertAlmostEqual(row["iteration_s"], simulated["iteration_ns"] / 1e9, places=12)
        self.assertEqual(row["memory_bytes"], simulated["peak_memory_bytes"])
        # Eight devices, half of them at 2.10 and half at 2.50 USD an hour, and the bytes over the WAN: 32
        # microbatches of 4096 x 4096 numbers of 2 bytes, there and back.
        devices = 4 * (2.10 + 2.50) / 3600 * row["iteration_s"]
        egress = 2 * 32 * 4096 * 4096 * 2 / 1e9 * 0.02
        self.assertAlmostEqual(row["cost_usd"], devices + egress, places=9)
        self.assertAlmostEqual(row["cost_per_million_tokens_usd"], row["cost_usd"] / (32 * 4096) * 1e6, places=6)
        estimate = ROOT / "examples" / "rail-only" / "table4-175b.toml"
        row = self.json("sweep", estimate, "--ask", "estimate", *vary("training.micro_batch=1"))["rows"][0]
        text = estimate.read_text()
        single = self.json("estimate", estimate)
        self.assertEqual(row["iteration_s"], single["iteration_s"], text)
        self.assertEqual(row["mfu"], single["mfu"])
        select = ROOT / "examples" / "atlas" / "select.toml"
        row = self.json("sweep", select, "--ask", "select", *vary("selection.order=availability"))["rows"][0]
        single = self.json("select", select)["chosen_row"]
        for ours, theirs in (("iteration_s", "total_s"), ("pipelines", "pipelines"), ("cost_usd", "cost_usd"),
                             ("devices", "used_gpus")):
            self.assertEqual(row[ours], single[theirs])

    def test_exit_codes(self):
        rows = self.rows(*vary("parallelism.pipeline=3,4"))
        self.assertEqual([row["status"] for row in rows], ["ok", "infeasible"])
        self.assertIn("4 stages need 4 devices", rows[1]["reason"])
        for code, axis, words in ((3, "parallelism.pipeline=4,5", "4 stages need 4 devices"),
                                  (2, "training.global_batch=0", "must lie between")):
            done = self.tombolo("sweep", TOY, *vary(axis))
            self.assertEqual(done.returncode, code)
            self.assertIn(words, done.stderr)
            self.assertIn("predicted", done.stdout)  # a row is a row
        for axis, words in (("training.micro_bach=1", 'try "micro_batch"'), ("trainig.micro_batch=1", 'try "training"'),
                            ("cluster.datacenter.north.nodes=1", "one of west, east"), ("training.micro_batch", "wanted a path"),
                            ("cluster.wan[1].connections=1", "has 1 entries")):
            self.refused(2, [words], "sweep", TOY, *vary(axis))
        one = vary("training.global_batch=4")
        self.refused(2, ["--ask guess"], "sweep", TOY, *one, "--ask", "guess")
        self.refused(2, ["neither .csv nor .jsonl"], "sweep", TOY, *one, "--out", "rows.txt")
        self.refused(2, ["cannot create it"], "sweep", TOY, *one, "--out", "nowhere/rows.csv")
        self.refused(2, ["--x parallelism.data: does not vary"], "sweep", TOY, *one, "--report", "r.html", "--x",
                     "parallelism.data")
        self.refused(2, ["nojob.toml"], "sweep", "nojob.toml", *one)

    def test_what_stood_there_stays_where_the_sweep_is_refused(self):
        before = self.write("rows.csv", "precious")
        self.refused(2, ["try"], "sweep", TOY, *vary("trainig.micro_batch=1"), "--out", "rows.csv")
        self.assertEqual(before.read_text(), "precious")
        self.assertEqual(list(self.folder.iterdir()), [before])

    def test_json_lines_and_one_document(self):
        axis = vary("training.global_batch=4,8")
        self.ok("sweep", TOY, *axis, "--out", "rows.jsonl")
        lines = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        answer = self.json("sweep", TOY, *axis)
        self.assertEqual(answer["rows"], lines)
        self.assertEqual((answer["provenance"], answer["ok"], answer["infeasible"]), ("predicted", 2, 0))
        self.assertIsNone(lines[0]["tokens_per_s"], "no model, no tokens")

    def test_threads_make_no_difference(self):
        axes = vary("parallelism.pipeline=1..4", "training.global_batch=1..12")
        outs = {threads: self.ok("sweep", TOY, *axes, "--threads", threads, "--json").split('"wall_s"')[0]
                for threads in (1, 2, 5)}
        self.assertEqual(len(set(outs.values())), 1)

    def test_a_page_that_stands_alone(self):
        axes = vary("cluster.wan.oregon-paris.one_way_latency=10 ms,40 ms", "cluster.wan.oregon-paris.connections=1,16")
        self.ok("sweep", EXAMPLE, *axes, "--report", "a.html")
        self.ok("sweep", EXAMPLE, *axes, "--report", "b.html", "--threads", "1")
        page = (self.folder / "a.html").read_text()
        self.assertEqual(page, (self.folder / "b.html").read_text())
        for words in ("predicted", "Tokens per second", "Cost of a million tokens (USD)", "cluster.wan.oregon-paris.connections"):
            self.assertIn(words, page)


class ProcessGroup(Case):
    """Several processes of mpirun."""

    def mpirun(self, processes, *arguments, program="tombolo"):
        # Open MPI keeps memory until it ends; that is not ours to judge.
        environment = dict(clean_environment(), ASAN_OPTIONS="detect_leaks=0")
        return subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(processes), BUILD / program, "sweep",
                               *map(str, arguments)], capture_output=True, text=True, timeout=GUARD_S, cwd=self.folder,
                              stdin=subprocess.DEVNULL, env=environment)

    @needs_mpi
    def test_the_same_bytes_as_one_process(self):
        axes = vary("parallelism.pipeline=1..4", "training.global_batch=0..12", "parallelism.schedule=gpipe,1f1b")
        out = {}
        for processes in (1, 3):
            done = self.mpirun(processes, TOY, *axes, "--out", "rows.csv", "--report", "page.html")
            self.assertEqual(done.returncode, 0, done.stderr)
            out[processes] = (done.stdout, (self.folder / "rows.csv").read_bytes(), (self.folder / "page.html").read_bytes())
        self.assertEqual(out[1], out[3])
        self.assertEqual(len(out[3][1].splitlines()), 1 + 4 * 13 * 2)
        alone = self.ok("sweep", TOY, *axes, "--out", "rows.csv", "--report", "page.html")
        self.assertEqual(out[3], (alone, (self.folder / "rows.csv").read_bytes(), (self.folder / "page.html").read_bytes()))

    @needs_mpi
    def test_more_processes_than_configurations(self):
        done = self.mpirun(4, TOY, *vary("training.global_batch=4,8"), "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["training.global_batch"] for row in json.loads(done.stdout)["rows"]], [4, 8])

    @needs_mpi
    def test_what_goes_wrong_is_said_once_and_ends_all(self):
        for code, words, arguments in ((2, "nojob.toml", ["nojob.toml", *vary("a=1")]),
                                       (2, 'try "training"', [TOY, *vary("trainig.micro_batch=1")]),
                                       (2, "--ask guess", [TOY, *vary("training.micro_batch=1"), "--ask", "guess"]),
                                       (2, "--threads", [TOY, *vary("training.micro_batch=1"), "--threads", "many"]),
                                       (3, "4 stages need 4 devices", [TOY, *vary("parallelism.pipeline=4,5")]),
                                       (2, "cannot create it", [TOY, *vary("training.global_batch=4"), "--out", "nowhere/r.csv"])):
            done = self.mpirun(3, *arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stderr.count(words), 1, done.stderr)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed (package openmpi-bin)")
    def test_where_it_was_not_built(self):
        shutil.copy(BUILD / "tombolo", self.folder / "tombolo")  # without its sibling
        done = self.mpirun(2, TOY, *vary("training.global_batch=4"), program=self.folder / "tombolo")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("libopenmpi-dev"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
