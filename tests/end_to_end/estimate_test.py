"""Estimates and published tables, as a person asks for them."""
import json
import unittest

from program import ROOT, Case

EXAMPLES = ROOT / "examples" / "rail-only"
PRINTED = {"22b": "0.78", "175b": "11.89", "530b": "35.29", "530b-8": "35.56", "1t": "70.69"}


class Estimate(Case):
    def test_table_four_prints_as_published(self):
        self.assertEqual(len(PRINTED), len(list(EXAMPLES.glob("table4-*.toml"))))
        for row, seconds in PRINTED.items():
            job = EXAMPLES / f"table4-{row}.toml"
            printed = self.ok("estimate", job, "--law", "rail-only")
            self.assertIn(f"predicted iteration: {seconds} s\n", printed)
            answer = self.json("estimate", job, "--law", "rail-only")
            self.assertEqual(answer["law"], "rail-only")
            self.assertEqual(f"{answer['iteration_s']:.2f}", seconds)
            self.assertAlmostEqual(sum(answer["parts"].values()), answer["iteration_s"], places=9)
            self.assertTrue(answer["memory"]["fits"])

    def test_a_config_json_is_counted_and_what_is_unknown_is_named(self):
        text = (EXAMPLES / "table4-22b.toml").read_text()
        job = self.write("job.toml", text.replace('preset = "gpt-22b"', 'config = "config.json"'))
        config = json.loads((ROOT / "fuzz" / "corpus" / "config_json" / "llama3-8b.json").read_text())
        config["tide"] = "high"
        self.write("config.json", json.dumps(config))
        answer = self.json("estimate", job, "--law", "rail-only")
        self.assertEqual(answer["memory"]["parameters_bytes"], 2 * 8030261248 / 8)
        self.assertTrue(any("unknown and ignored: tide" in note for note in answer["notes"]))
        self.assertIn("unknown and ignored: tide", self.ok("estimate", job))
        config["num_key_value_heads"] = 5
        self.write("config.json", json.dumps(config))
        self.refused(2, ["config.json", "num_key_value_heads = 5"], "estimate", job)

    def test_the_law_by_default_says_how_far_it_was_off(self):
        job = EXAMPLES / "table4-175b.toml"
        answer = self.json("estimate", job)
        self.assertEqual(answer["law"], "tombolo")
        self.assertAlmostEqual(sum(answer["parts"].values()), answer["iteration_s"], places=9)
        band = answer["band"]
        self.assertLess(band["low_s"], answer["iteration_s"])
        self.assertGreater(band["high_s"], answer["iteration_s"])
        self.assertIn(f"({band['rows']} rows: {band['of']}", self.ok("estimate", job))
        self.refused(2, ["moon", "no such law", "tombolo"], "estimate", job, "--law", "moon")

    def test_an_exchange_without_a_closed_form_is_played_and_priced(self):
        dense = (ROOT / "examples" / "across-datacenters" / "two-labs.toml").read_text()
        dense = dense.replace("nodes = 2\n", 'nodes = 2\nprice = "2 USD/device-hour"\n')
        dense = dense.replace("connections = 4\n", 'connections = 4\nprice = "0.1 USD/GB"\n')
        # 167 million parameters in bf16 cross in both directions: 0.667 GB.
        answer = self.json("estimate", self.write("dense.toml", dense))
        self.assertAlmostEqual(answer["egress_usd"], 0.0667, delta=0.0001)
        self.assertAlmostEqual(answer["cost_usd"], 0.0667 + 4 * 2 / 3600 * answer["iteration_s"], delta=0.0001)
        local = self.write("local.toml", dense + '[exchange]\nmode = "local"\nsteps = 10\n')
        answer = self.json("estimate", local)
        # As many bytes as simulate sends, once in ten iterations, and its time.
        self.assertAlmostEqual(answer["egress_usd"], 0.0667 / 10, delta=0.0001)
        self.assertIsNone(answer["parts"])
        self.assertIn("as tombolo simulate plays it", self.ok("estimate", local))
        self.assertAlmostEqual(answer["iteration_s"], self.json("simulate", local)["iteration_ns"] * 1e-9, places=9)
        self.assertAlmostEqual(answer["cost_usd"], answer["egress_usd"] + 4 * 2 / 3600 * answer["iteration_s"], places=9)

    def test_totals_of_several_iterations_say_so(self):
        job = ROOT / "examples" / "across-datacenters" / "two-labs.toml"
        self.assertIn("40 messages, 1.33 GB in 4 iterations (", self.ok("simulate", job))
        self.assertIn("80 messages, 2.67 GB in 8 iterations (", self.ok("simulate", job, "--iterations", 8))
        self.assertNotIn("iterations", self.ok("simulate", ROOT / "examples" / "toy" / "job.toml"))

    def test_published_tables_lie_in_their_bands(self):
        answer = self.json("reproduce")
        self.assertTrue(answer["ok"])
        self.assertTrue(all(row["ok"] or row["not_reproduced"] for row in answer["rows"]))
        for key in ("name", "ours", "published", "relative_error", "band", "ok"):
            self.assertIn(key, answer["rows"][0])
        self.assertIn("rail-only/table-4", self.ok("reproduce", "rail-only"))
        self.refused(2, ["rail-only/table-4"], "reproduce", "no-such-table")


if __name__ == "__main__":
    unittest.main()
