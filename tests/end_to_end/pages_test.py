"""Pages of decisions: what they show is what --json says."""
import json
import unittest

from program import ROOT, Case

EXAMPLES = ROOT / "examples"
PLANNING = EXAMPLES / "planning" / "llama3-70b" / "job.toml"
FIVE_ZONES = EXAMPLES / "planning" / "five-zones-job.toml"
SELECT = EXAMPLES / "atlas" / "select.toml"
RAILS = EXAMPLES / "rail-only" / "table4-175b.toml"

# Small: some seconds for all ways.
TWO_PLACES = """
name = "two-places"
[model]
preset = "byte-3m"
[training]
global_batch = 16
precision = "bf16"
[[cluster.datacenter]]
name = "oregon"
device = "h100-80g"
nodes = 1
devices_per_node = 2
{price}
[[cluster.datacenter]]
name = "paris"
device = "a100-80g"
nodes = 1
devices_per_node = 2
{price}
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "20 ms"
node_pair_limit = "1 Gbps"
"""


class Pages(Case):
    def page(self, *arguments):
        """The answer as --json prints it, and the data of the page that the same call writes."""
        answer = self.json(*arguments, "--report", "page.html")
        html = (self.folder / "page.html").read_text()
        self.assertIn("default-src 'none'", html)
        data = html.split('<script type="application/json" id="data">')[1].split("</script>")[0]
        return answer, json.loads(data)

    def two_places(self, price='price = "2 USD/device-hour"'):
        return self.write("two.toml", TWO_PLACES.format(price=price))

    def assert_sums(self, values, total, digits=9):
        self.assertAlmostEqual(sum(values) / total, 1, places=digits)

    def test_ways_across(self):
        answer, page = self.page("plan", self.two_places(), "--across", "--tokens", "1e9")
        ways = answer["ways"]
        points = page["chart"]["points"]
        self.assertEqual([(way["way"], way["target_s"], way["target_usd"], way["on_front"]) for way in ways],
                         [(point["name"], point["x"], point["y"], point["front"]) for point in points])
        self.assertEqual(["time", "money"], [page["chart"][axis]["kind"] for axis in "xy"])
        bars = page["bars"][0]["rows"]
        self.assertEqual([way["way"] for way in ways], [bar["name"] for bar in bars])
        for way, bar in zip(ways, bars):
            self.assert_sums(bar["values"], way["iteration_s"])
        self.assertEqual(["wan_rate", "wan_latency"], [each["axis"] for each in answer["break_even"]])
        for said, drawn in zip(answer["break_even"], page["ranges"]):
            self.assertEqual([(each["from_factor"], each["way"]) for each in said["ranges"]],
                             [(each["from"], each["name"]) for each in drawn["ranges"]])
            for each in drawn["ranges"]:
                self.assertEqual(each["name"], ways[each["row"] - 1]["way"])
        self.assertEqual((1, 1.25e8), (page["ranges"][0]["here"], page["ranges"][0]["one"]))  # 1 Gbps
        table = page["tables"][0]
        self.assertEqual(len(ways), len(table["rows"]))
        self.assertEqual("recommended", table["rows"][0][-1])
        self.assertTrue(all(row[-1] for row in table["rows"]))  # why not
        self.assertIn(f"{ways[0]['memory_bytes'] / 1e9:.3g}", " ".join(table["rows"][0]))
        self.assertEqual(["oregon", "paris"], [place["name"] for place in page["map"]["places"]])
        held = [place["name"] for place in page["map"]["places"] if place["holds"]]
        self.assertEqual(sorted(answer["best"]["datacenters"]), held)
        self.assertEqual([("1 Gbps a node pair", "20 ms")], [(link["rate"], link["latency"]) for link in page["map"]["links"]])
        self.assertEqual(f"tombolo plan {self.folder}/two.toml --across --tokens 1e9", page["command"])

    def test_without_prices_time_is_against_memory(self):
        answer, page = self.page("plan", self.two_places(price=""), "--across")
        self.assertEqual("bytes", page["chart"]["y"]["kind"])
        self.assertEqual([(way["s_per_dense_step"], way["memory_bytes"]) for way in answer["ways"]],
                         [(point["x"], point["y"]) for point in page["chart"]["points"]])

    def test_layouts_of_one_datacenter(self):
        answer, page = self.page("plan", PLANNING, "--top", "4")
        top = answer["top"]
        self.assertEqual([(plan["iteration_s"], plan["cost_usd"]) for plan in top],
                         [(point["x"], point["y"]) for point in page["chart"]["points"]])
        for plan, bar in zip(top, page["bars"][0]["rows"], strict=True):
            self.assert_sums(bar["values"], plan["closed_form_s"])
            self.assertEqual(plan["parts"]["compute_s"], bar["values"][0])
        best = answer["best"]["parallelism"]
        self.assertEqual([f"{best['data']} pipelines of {best['pipeline']} stages"], page["map"]["places"][0]["holds"])
        refused = next(table for table in page["tables"] if table["title"] == "Why not")
        self.assertEqual([[why["family"], why["text"]] for why in answer["why_not"]], refused["rows"])
        self.assertEqual(answer["notes"], page["notes"])

    def test_stages_in_several_datacenters(self):
        answer, page = self.page("plan", FIVE_ZONES, "--top", "3")
        for plan, bar in zip(answer["top"], page["bars"][0]["rows"], strict=True):
            self.assert_sums(bar["values"], plan["closed_form_s"])
        stages = {}
        for stage, where in enumerate(answer["best"]["parallelism"]["datacenter_per_stage"]):
            stages.setdefault(where, []).append(stage)
        for place in page["map"]["places"]:
            held = stages.get(place["name"], [])
            text = "".join(place["holds"])
            self.assertEqual(bool(held), bool(text), place)
            if len(held) > 1 and held == list(range(held[0], held[-1] + 1)):
                self.assertIn(f"stages {held[0]}-{held[-1]} of", text)
        self.assertEqual(10, len(page["map"]["links"]))

    def test_datacenters_that_are_selected(self):
        answer, page = self.page("select", SELECT)
        rows = answer["rows"] + [answer["beyond"]]
        self.assertEqual([[row["pipeline_s"], row["allreduce_s"]] for row in rows],
                         [bar["values"] for bar in page["bars"][0]["rows"]])
        self.assertEqual([(row["total_s"] / row["sequences"], row["cost_usd"] / row["sequences"]) for row in rows],
                         [(point["x"], point["y"]) for point in page["chart"]["points"]])
        chosen = page["chart"]["recommended"]
        self.assertEqual(answer["chosen_row"], rows[chosen - 1])
        self.assertIn("recommended", page["tables"][0]["rows"][chosen - 1][-1])
        for place in page["map"]["places"]:
            count = answer["chosen_row"]["partitions"].get(place["name"], 0)
            self.assertEqual([f"{count} of 60 partitions of each pipeline"] if count else [], place["holds"])

    def test_an_estimate(self):
        answer, page = self.page("estimate", RAILS)
        time, memory = page["bars"]  # no prices, so no money
        self.assert_sums(time["rows"][0]["values"], answer["iteration_s"])
        kinds = dict(zip((part["name"] for part in memory["parts"]), memory["rows"][0]["values"]))
        for kind in ("parameters", "gradients", "optimizer", "activations", "workspace"):
            self.assertEqual(answer["memory"][f"{kind}_bytes"], kinds[kind])
        self.assertEqual(answer["memory"]["device_bytes"], memory["rows"][1]["values"][-1])
        self.ok("plan", FIVE_ZONES, "--out", "five.toml")
        answer, page = self.page("estimate", "five.toml")
        time, memory, money = page["bars"]
        self.assert_sums(time["rows"][0]["values"], answer["iteration_s"])
        self.assertEqual(answer["egress_usd"], money["rows"][0]["values"][1])
        self.assert_sums(money["rows"][0]["values"], answer["cost_usd"])

    def test_an_estimate_that_is_played(self):
        answer, page = self.page("estimate", EXAMPLES / "thin-lines" / "two-labs.toml")
        self.assertIsNone(answer["parts"])
        computation, exchange, communication, idle = page["bars"][0]["rows"][0]["values"]
        self.assert_sums([computation, exchange, communication, idle], answer["iteration_s"])
        self.assertGreater(computation, 0)

    def test_fabrics(self):
        priced = self.write("priced.toml", RAILS.read_text().replace(
            "[[cluster.datacenter]]", '[[cluster.datacenter]]\nprice = "2 USD/device-hour"'))
        answer, page = self.page("fabric", "--job", priced, "--message", "1GB", "--failures")
        parts, collectives, job = page["bars"]
        self.assertEqual([answer[key]["cost_usd"] for key in ("clos", "rail_optimized", "rail_only")],
                         [bar["values"][0] for bar in parts["rows"]])
        self.assertEqual([law["time_s"] for law in answer["collectives"]["laws"]], [bar["values"][0] for bar in collectives["rows"]])
        self.assertEqual([answer["job"][key]["iteration_usd"] for key in ("clos", "rail_only")], [bar["values"][0] for bar in job["rows"]])
        failures = next(table for table in page["tables"] if table["title"] == "What a failure costs")
        self.assertEqual(len(answer["failures"]), len(failures["rows"]))
        self.assertIsNone(page["map"])
        answer, page = self.page("fabric", "--jobs", priced)
        jobs = next(table for table in page["tables"] if table["title"] == "Several jobs, rail-only")
        self.assertEqual([[job["name"], f"{job['gpus']}"] for job in answer["tiling"]["jobs"]], [row[:2] for row in jobs["rows"]])

    def test_a_page_that_cannot_be_written_costs_no_answer(self):
        for words in (["plan", PLANNING], ["plan", self.two_places(), "--across"], ["plan", FIVE_ZONES], ["select", SELECT],
                      ["estimate", RAILS], ["fabric", "--gpus", "64"]):
            self.refused(2, ["missing/page.html", "try"], *words, "--report", "missing/page.html")
        self.refused(2, ["one file for two answers"], "plan", PLANNING, "--out", "a.json", "--report", "a.json")
        # What cannot be answered leaves no page, and an --out that cannot be written none either.
        self.refused(2, ["--way 99"], "plan", self.two_places(), "--across", "--way", "99", "--report", "page.html")
        self.refused(2, ["missing/best.toml"], "plan", PLANNING, "--out", "missing/best.toml", "--report", "page.html")
        self.assertEqual(["two.toml"], sorted(path.name for path in self.folder.iterdir()))

    def test_the_same_answer_is_the_same_page(self):
        for words in (["plan", PLANNING, "--top", "2"], ["plan", self.two_places(), "--across"]):
            for name, threads in (("one.html", 1), ("two.html", 2)):
                self.ok(*words, "--threads", threads, "--report", name)
            self.assertEqual(*((self.folder / name).read_text() for name in ("one.html", "two.html")))


if __name__ == "__main__":
    unittest.main()
