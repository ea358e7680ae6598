"""simulate --iterations over a rate_trace: which density a run would choose when, and how long iterations take."""
import json
import unittest

from program import ROOT, Case

EXAMPLE = ROOT / "examples" / "thin-lines" / "fluctuating.toml"
AUTO = 'density = "auto"\ndensity_range = [0.002, 0.05]'


class OverTime(Case):
    def job(self, exchange=f'mode = "sparse"\n{AUTO}', trace="time_s,rate_mbps\n0,193\n10,96.5\n30,96.5\n"):
        text = EXAMPLE.read_text()
        before, after = text.split('[exchange]\n')
        self.write("fluctuating.csv", trace)
        return self.write("job.toml", before + "[exchange]\n" + exchange + "\n[run]" + after.split("[run]")[1])

    def test_the_density_follows_the_line(self):
        answer = self.json("simulate", self.job(), "--iterations", 150)["over_time"]
        rows = answer["iterations"]
        self.assertEqual([row["iteration"] for row in rows], list(range(1, 151)))
        for row, after in zip(rows, rows[1:]):
            self.assertEqual(row["start_ns"] + row["period_ns"], after["start_ns"])
        self.assertEqual(answer["span_ns"], rows[-1]["start_ns"] + rows[-1]["period_ns"])
        # 0.9 * 24.1 MB/s * 0.17 s of 181 MB are 2.04 %, and 1.02 % from 10 s on; but the first is predicted with the latency of
        # 20 ms in it, and what is less than a fifth more is left alone.
        self.assertEqual(rows[0]["density"], answer["density"]["first"])
        self.assertAlmostEqual(answer["density"]["first"], 0.9 * 0.17 * 193e6 / 8 / 181e6 - 0.02 * 193e6 / 8 / 181e6, delta=0.001)
        self.assertTrue(0.017 <= rows[50]["density"] <= 0.02, rows[50])
        self.assertTrue(0.0085 <= rows[-1]["density"] <= 0.0102, rows[-1])
        self.assertAlmostEqual(rows[50]["line_bytes_per_s"][0], 193e6 / 8, delta=1)
        self.assertAlmostEqual(rows[-1]["line_bytes_per_s"][0], 96.5e6 / 8, delta=1)
        self.assertEqual(rows[50]["period_ns"], 170_000_000)
        self.assertEqual(rows[120]["period_ns"], 170_000_000)
        changes = answer["density"]["changes"]
        self.assertEqual(len(changes), answer["density"]["changed"])
        self.assertGreater(changes[0]["first_iteration"], 10 / 0.17)
        before = answer["density"]["first"]
        for change in changes:
            self.assertEqual(change["before"], before)
            self.assertIn("the line carries", change["reason"])
            before = rows[change["first_iteration"] - 1]["density"]
            self.assertEqual(before, change["density"])
        counted = [row["period_ns"] for row in rows if row["counts"]]
        mean = sum(counted) / len(counted)
        self.assertAlmostEqual(answer["period"]["mean_ns"], mean, delta=1)
        spread = (sum((each - mean)**2 for each in counted) / len(counted))**0.5 / mean
        self.assertAlmostEqual(answer["period"]["variation"], spread, places=9)

    def test_a_fixed_density_sees_the_trace_as_well(self):
        answer = self.json("simulate", self.job('mode = "sparse"\ndensity = 0.02'), "--iterations", 150)["over_time"]
        rows = answer["iterations"]
        self.assertIsNone(answer["density"])
        self.assertEqual({row["density"] for row in rows}, {0.02})
        self.assertEqual(rows[50]["period_ns"], 170_000_000)
        self.assertGreater(rows[120]["period_ns"], 290_000_000)  # 3.63 MB at 12.06 MB/s

    def test_dense_and_local_exchanges_see_it_too(self):
        dense = self.json("simulate", self.job('mode = "dense"'), "--iterations", 6)["over_time"]
        self.assertEqual({row["density"] for row in dense["iterations"]}, {None})
        # 350 MB at 96.5 Mbps are 29 s, and half as long before 10 s.
        self.assertGreater(dense["iterations"][2]["period_ns"], 20_000_000_000)
        local = self.json("simulate", self.job('mode = "local"\nsteps = 4'), "--iterations", 12)["over_time"]
        periods = [row["period_ns"] for row in local["iterations"]]
        self.assertEqual(periods[0], 170_000_000)
        self.assertGreater(max(periods), 1_000_000_000)
        self.assertIsNone(local["density"])

    def test_a_trace_starts_over(self):
        text = self.ok("simulate", self.job(trace="time_s,rate_mbps\n0,193\n1,100\n2,193\n"), "--iterations", 40)
        self.assertIn("which starts over", text)
        self.assertNotIn("starts over", self.ok("simulate", self.job(), "--iterations", 40))
        # Three pauses of the same length behind one another.
        trace = "time_s,rate_mbps\n0,193\n2,0\n3,193\n"
        rows = self.json("simulate", self.job('mode = "sparse"\ndensity = 0.01', trace), "--iterations", 60)["over_time"]["iterations"]
        longest = [row["period_ns"] for row in rows if row["period_ns"] > 400_000_000]
        self.assertGreaterEqual(len(longest), 2)

    def test_text_says_when_and_why(self):
        text = self.ok("simulate", self.job(), "--iterations", 150)
        self.assertIn("over time: 150 iterations in 2", text)
        self.assertIn("coefficient of variation 0.", text)
        self.assertIn("lab - cloud: ", text)
        self.assertIn("of the 170 ms that it can hide behind", text)
        self.assertNotIn("rate_trace counts with --iterations", text)
        self.assertIn("rate_trace counts with --iterations", self.ok("simulate", self.job()))

    def test_the_trace_of_a_prediction_has_the_densities(self):
        answer = self.json("simulate", self.job(), "--iterations", 150, "--out", "trace.jsonl")["over_time"]
        used = self.records(self.folder / "trace.jsonl", "density")
        self.assertEqual(used, {row["iteration"]: row["density"] for row in answer["iterations"]})
        lines = [json.loads(line) for line in (self.folder / "trace.jsonl").read_text().splitlines()]
        reasons = {each["iteration"]: each["reason"] for each in lines if "reason" in each}
        self.assertEqual(reasons, {each["first_iteration"]: each["reason"] for each in answer["density"]["changes"]})
        believed, carried = (self.records(self.folder / "trace.jsonl", name) for name in ("line_rate", "line_capacity"))
        for each in answer["density"]["changes"]:
            self.assertEqual(believed[each["first_iteration"]], each["line_bytes_per_s"])
        self.assertEqual({row["iteration"]: row["line_bytes_per_s"][0] for row in answer["iterations"]}, carried)
        header = json.loads((self.folder / "trace.jsonl").read_text().splitlines()[0])
        self.assertIn("--iterations 150", header["command"])
        self.ok("report", "trace.jsonl", "--out", "report.html")

    def test_a_run_repeats(self):
        first, second = (self.ok("simulate", self.job(), "--iterations", 150) for _ in range(2))
        self.assertEqual(first, second)

    def test_what_counts_with_equal_iterations_is_refused(self):
        job = self.job()
        for words in (["--check"], ["--policy", "best"], ["--prefill", "requests.csv"]):
            self.refused(2, [" ".join(words[:2 if "best" in words else 1]) + ":", "without --iterations"], "simulate", job,
                         "--iterations", 20, *words)
        self.ok("simulate", job, "--check")

    def test_a_file_that_is_no_trace_is_refused(self):
        job = self.job(trace="time_s,mbps\n0,193\n")
        self.refused(2, ["fluctuating.csv:1: not the header", "rate_trace of lab - cloud"], "simulate", job, "--iterations", 20)
        (self.folder / "fluctuating.csv").unlink()
        self.refused(2, ["fluctuating.csv"], "simulate", job, "--iterations", 20)
        self.ok("simulate", job)  # which leaves it out, and says so
        transfer = job.read_text().replace('backward = "113 ms"', 'backward = "113 ms"\ntransfer = "9 ms"')
        self.job()
        self.refused(2, ["rate_trace of lab - cloud", "stage_times.transfer"], "simulate", self.write("other.toml", transfer),
                     "--iterations", 20)


if __name__ == "__main__":
    unittest.main()
