"""A Plan is predicted and performed as the same Trace: in every iteration the same intervals with the same bytes."""
import collections
import json
import unittest

from program import ROOT, TWO_EMULATED, Case
from replicas_test import PLACES, SIX, in_datacenters
from schedules_test import over_two

# Two pipelines of two ranks in each of two datacenters: boundaries may be shared, sums stay inside.
CELL = (TWO_EMULATED.replace('device = "emulated:a100-80g"', 'device = "emulated:a100-80g"\nnodes = 2\ndevices_per_node = 1')
        .replace("pipeline = 2", "pipeline = 2\ndata = 2"))
# Two pipelines, one in each datacenter, whose stages exchange gradients over the WAN.
APART = (CELL.replace("data = 2", 'data = 2\ndatacenter_per_replica = ["oregon", "paris"]')
         .replace("hidden = 64", "hidden = 192"))
TIMES = TWO_EMULATED[TWO_EMULATED.index("[stage_times]"):TWO_EMULATED.index("[run]")]


def work(path, bytes_too=True, until=10**9):
    """{(iteration, rank, peer, lane, action, part, bytes): how often} of a Trace; an action names stage and microbatch."""
    found = collections.Counter()
    for line in path.read_text().splitlines():
        e = json.loads(line)
        if "action" in e and 0 < e["iteration"] <= until:  # outside of iterations nothing is predicted
            found[e["iteration"], e["rank"], e.get("peer", -1), e["lane"], e["action"], e.get("part", 0),
                  e.get("bytes", 0) if bytes_too else 0] += 1
    return found


class OneTrace(Case):
    def expect_one_trace(self, job, steps, bytes_too=True):
        """Performs the job, simulates what was performed for as many iterations, and returns the kinds of its intervals."""
        self.assertEqual(self.json("train", self.write("job.toml", job), "--steps", steps, "--out", "run")["steps"], steps)
        self.ok("simulate", "run/plan.json", "--iterations", steps, "--out", "predicted.jsonl")
        # Of iterations that overlap or take turns more are simulated.
        predicted = work(self.folder / "predicted.jsonl", bytes_too, until=steps)
        performed = work(self.folder / "run" / "trace.jsonl", bytes_too)
        self.assertTrue(predicted)
        self.assertEqual(sorted((predicted - performed).items()), [], "predicted, and not performed")
        self.assertEqual(sorted((performed - predicted).items()), [], "performed, and not predicted")
        return collections.Counter(key[4].lstrip("0123456789").rstrip("0123456789") + ("+" if key[5] else "")
                                   for key in predicted.elements())

    def test_without_a_model_messages_have_no_bytes(self):
        job = (ROOT / "examples" / "toy" / "job.toml").read_text().replace('device = "', 'device = "emulated:')
        kinds = self.expect_one_trace(job + "\n[run]\nsteps = 2\n", 2)
        # Three stages, four microbatches, and each of the two boundaries both ways.
        self.assertEqual(kinds, {"F": 24, "B": 24, "U": 6, "SEND_F": 16, "SEND_B": 16})
        self.assertEqual({key[6] for key in work(self.folder / "run" / "trace.jsonl")}, {0})
        self.assertNotIn("model", json.loads((self.folder / "run" / "plan.json").read_text()))

    def test_schedules(self):
        recomputing = (TWO_EMULATED.replace('backward = "8 ms"', 'backward = "8 ms"\nrecompute = "2 ms"')
                       .replace("micro_batch = 2", 'micro_batch = 2\nrecompute = "full"').replace("1f1b", "gpipe"))
        for job, kind in [(TWO_EMULATED, "U"), (recomputing, "R"), (over_two("interleaved"), "SEND_F"), (over_two("zb-v"), "W"),
                          (TWO_EMULATED.replace(TIMES, ""), "U")]:
            with self.subTest(job=job):
                self.assertIn(kind, self.expect_one_trace(job, 2))

    def test_replicas(self):
        temporal = CELL.replace("data = 2", 'data = 2\nsharing = "temporal"').replace('"1f1b"', '"atlas"')
        for job in [SIX, SIX.replace('\nreduce = "3 ms"', ""), CELL.replace(TIMES, ""), temporal]:
            with self.subTest(job=job):
                self.assertIn("REDUCE_GRAD", self.expect_one_trace(job, 2))

    def test_pipelines_of_a_cell_that_cross_alike(self):
        """Pipeline 0 stays in oregon; 1 and 2 share the way to paris."""
        places = 'data = 3\nsharing = "temporal"\ndatacenter_per_stage = ["oregon", ["oregon", "paris", "paris"]]'
        parts = (CELL.replace("data = 2", places).replace("nodes = 2", "nodes = 4").replace('"1f1b"', '"atlas"')
                 .replace("global_batch = 8", "global_batch = 12").replace("hidden = 64", "hidden = 192"))
        for job in parts, parts.replace(TIMES, ""):
            with self.subTest(job=job):
                self.expect_one_trace(job, 2)

    def test_tied_ends(self):
        """The ends of a pipeline swap gradients of the matrix that both hold: 256 words x 64, once an iteration."""
        tied = "sequence = 64\ntied_embeddings = true"
        for base in (TWO_EMULATED, TWO_EMULATED.replace(TIMES, ""), over_two("interleaved"), CELL,
                     TWO_EMULATED.replace("[run]", "[optimizer]\nclip_norm = 1.0\n[run]")):
            job = base.replace("sequence = 64", tied)
            with self.subTest(job=job):
                pipelines = 2 if base is CELL else 1
                self.assertEqual(self.expect_one_trace(job, 2)["SUM_TIED"], 2 * 2 * pipelines)
                found = [key for key in work(self.folder / "run" / "trace.jsonl") if key[4].endswith("SUM_TIED")]
                self.assertEqual({key[6] for key in found}, {256 * 64 * 2})
        self.assertEqual(self.expect_one_trace(over_two("zb-v").replace("sequence = 64", tied), 2)["SUM_TIED"], 0)

    def test_gradients_between_datacenters(self):
        exchange = 'mode = "dense"'
        clipped = "[optimizer]\nclip_norm = 1.0\n[run]"
        groups = in_datacenters(PLACES, exchange, 5)  # of gradients: two
        for job, updates_by_group in [(groups, True), (groups.replace("[run]", clipped), False),
                                      (in_datacenters(PLACES, exchange + "\noverlap = false", 5), False)]:
            with self.subTest(job=job):
                kinds = self.expect_one_trace(job, 5)
                self.assertGreater(kinds["REDUCE_GRAD+"], 0, "a stage has several groups of gradients")
                self.assertEqual(kinds["U+"] > 0, updates_by_group)
        self.assertIn("REDUCE_GRAD", self.expect_one_trace(APART, 5))

    def test_local_steps(self):
        for exchange in ('mode = "local"\nsteps = 3\nfragments = 2\ndelay = 1', 'mode = "local"\nsteps = 2'):
            with self.subTest(exchange=exchange):
                self.expect_one_trace(in_datacenters(PLACES, exchange, 8), 8)

    def test_sparse_updates(self):
        # How large a sparse update is hangs on the gradients, but where chunks are selected.
        for exchange, exact in [('mode = "sparse"\ndensity = 0.05\nstaleness = 1', False),
                                ('mode = "sparse-local"\nsteps = 2\ndensity = 0.1', False),
                                ('mode = "sparse"\nselect = "chunks"\ndensity = 0.05', True)]:
            with self.subTest(exchange=exchange):
                self.expect_one_trace(in_datacenters(PLACES, exchange, 5), 5, bytes_too=exact)


class WarmUp(Case):
    def test_one_rule(self):
        """What `train` leaves out of its mean, `compare` and `report` leave out too."""
        self.write("job.toml", TWO_EMULATED)
        for steps, warmup in [(1, 0), (3, 1)]:
            with self.subTest(steps=steps):
                trained = self.json("train", "job.toml", "--steps", steps, "--out", "run")
                compared = self.json("compare", "run/predicted.jsonl", "run/trace.jsonl")
                self.assertEqual(compared["warmup"], warmup)
                self.assertEqual(compared["measured_iterations"], steps - warmup)
                self.assertAlmostEqual(compared["measured_iteration_ns"] * 1e-9, trained["iteration_s"], places=9)
                self.assertAlmostEqual(compared["iteration_error"], trained["iteration_error"], places=12)
                self.ok("report", "run/predicted.jsonl", "run/trace.jsonl", "--out", "page.html")
                page = (self.folder / "page.html").read_text()
                self.assertIn(f'"median_ns":{compared["measured_iteration_ns"]}', page)
                self.assertIn(f'"iterations":{steps - warmup},"warmup":{warmup}', page)


if __name__ == "__main__":
    unittest.main()
