"""Who sends how many bytes to whom, as a person asks for it."""
import csv
import json
import unittest

from program import ROOT, Case

EXAMPLES = ROOT / "examples" / "rail-only"
KINDS = ("tensor", "context", "expert", "data", "pipeline")
EXPERTS = """
[model]
preset = "mixtral-8x7b"

[[cluster.datacenter]]
name = "oregon"
device = "h100-80g"
nodes = 8
devices_per_node = 4
scale_up = { domain = 4, bandwidth = "450 GBps" }
scale_out = { bandwidth = "400 Gbps" }

[training]
global_batch = 64
recompute = "selective"

[parallelism]
pipeline = 2
data = 16
expert = 8
"""


class Traffic(Case):
    def test_gpt_1t_never_leaves_its_rails(self):
        job = EXAMPLES / "table4-1t.toml"
        answer = self.json("traffic", job)
        # A ring of 8 in each of 64 domains, and 512 GPUs that send forth and back, around with the embedding.
        self.assertEqual((answer["gpus"], answer["pairs"]), (512, 512 * 511))
        self.assertEqual(answer["by_kind"]["tensor"]["pairs"], 512)
        self.assertEqual(answer["by_kind"]["pipeline"]["pairs"], 1024)
        self.assertEqual(answer["pairs_without_traffic"], 512 * 511 - 512 - 1024)
        self.assertEqual(answer["by_kind"]["tensor"]["by_reach"]["domain"]["bytes"],
                         answer["by_kind"]["tensor"]["bytes"])
        self.assertAlmostEqual(sum(answer["by_kind"][kind]["share_of_bytes"] for kind in KINDS), 1)
        self.assertEqual(answer["forwarding"]["bytes"], 0)
        printed = self.ok("traffic", job)
        for words in ("1t on 512 GPUs in domains of 8", "in the domain", "on the rail", "nothing crosses rails",
                      "99.4 %", "the first 32 GPUs", "\n  Tp....", ".T......p...."):
            self.assertIn(words, printed)
        self.assertLessEqual(max(map(len, printed.splitlines()[12:])), 100)

    def test_experts_across_domains_are_forwarded(self):
        job = self.write("job.toml", EXPERTS)
        answer = self.json("traffic", job)
        expert = answer["by_kind"]["expert"]
        # Of the 7 others of a group 3 share the domain, 1 the rail, and 3 are across rails.
        self.assertEqual([expert["by_reach"][reach]["pairs"] for reach in ("domain", "rail", "other_rail")],
                         [32 * 3, 32, 32 * 3])
        self.assertAlmostEqual(answer["forwarding"]["bytes"] / expert["bytes"], 3 / 7)
        self.assertIn("cross rails: a rail-only network forwards them", self.ok("traffic", job))

    def test_the_table_holds_every_byte(self):
        job = self.write("job.toml", EXPERTS)
        self.ok("traffic", job, "--csv", "traffic.csv")
        rows = list(csv.DictReader((self.folder / "traffic.csv").read_text().splitlines()))
        answer = self.json("traffic", job)
        for kind in KINDS:
            total = sum(float(row["bytes"]) for row in rows if row["kind"] == kind)
            self.assertAlmostEqual(total, answer["by_kind"][kind]["bytes"], delta=1e-9 * total)
        self.assertTrue(all(row["from_first"] == row["from_last"] for row in rows))

    def test_the_page_carries_its_data_and_fetches_nothing(self):
        job = self.write("job.toml", EXPERTS)
        self.assertIn("report: page.html", self.ok("traffic", job, "--report", "page.html"))
        page = (self.folder / "page.html").read_text()
        self.assertIn("default-src 'none'", page)
        self.assertNotIn("{{", page)
        data = json.loads(page.split('id="data">')[1].split("</script>")[0])
        self.assertEqual([heat["title"] for heat in data["maps"]], ["All 32 GPUs", "The first 16 GPUs"])
        cells = data["maps"][0]["cells"]
        answer = self.json("traffic", job)
        self.assertAlmostEqual(sum(cells[3::4]) / answer["bytes"], 1)
        self.assertEqual(page, self.page_again(job))

    def page_again(self, job):
        self.ok("traffic", job, "--report", "again.html")
        return (self.folder / "again.html").read_text()

    def test_what_cannot_be_laid_out_is_refused(self):
        job = self.write("job.toml", EXPERTS.replace("expert = 8", "expert = 3"))
        self.refused(2, ["job.toml", "parallelism.expert = 3"], "traffic", job)
        job = self.write("job.toml", EXPERTS.replace("expert = 8", 'order = "tp-up"'))
        self.refused(2, ["parallelism.order", '"up" is unknown'], "traffic", job)
        self.refused(2, ["nowhere/page.html"], "traffic", EXAMPLES / "table4-22b.toml", "--report", "nowhere/page.html")


if __name__ == "__main__":
    unittest.main()
