"""[exchange] mode = "auto": the commands choose one mode before a Plan is made, and say why."""
import json
import unittest

from program import ROOT, Case
from replicas_test import in_datacenters

AUTO = 'mode = "auto"'


def two(exchange, rate="20 Mbps", beta1="0.0"):
    job = in_datacenters(["oregon", "paris"], exchange, 4).replace("1 Gbps", rate)
    return 'name = "two"\n' + job + f"[optimizer]\nbeta1 = {beta1}\n"


def settings(exchange):
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in exchange.items())


class Mode(Case):
    def chosen(self, job):
        self.ok("convert", self.write("auto.toml", job), "--to", "plan", "--out", "auto.json")
        return json.loads((self.folder / "auto.json").read_text())["exchange"]

    def test_all_commands_take_the_same_one(self):
        for rate in ("2 Mbps", "20 Mbps", "10 Gbps"):
            exchange = self.chosen(two(AUTO, rate))
            self.assertIn(exchange["mode"], ("dense", "sparse", "local", "sparse-local"))
            self.write("named.toml", two(settings(exchange), rate))
            for command, figure in (("simulate", "iteration_ns"), ("estimate", "iteration_s"), ("traffic", "total_bytes")):
                auto, named = self.json(command, "auto.toml"), self.json(command, "named.toml")
                self.assertEqual(auto.get(figure), named.get(figure), f"{rate}: {command}")
            self.assertEqual(self.json("simulate", "auto.toml")["plan_digest"], self.json("simulate", "named.toml")["plan_digest"])

    def test_the_reason_is_said(self):
        slow = self.tombolo("simulate", self.write("auto.toml", two(AUTO, "2 Mbps")))
        self.assertIn('note: [exchange] mode = "auto" is ', slow.stderr)
        self.assertIn("dense: ", slow.stderr)  # the others, with their figures
        self.assertNotEqual(self.chosen(two(AUTO, "2 Mbps"))["mode"], "dense")
        # Sparse updates have no known number of steps beside a first moment.
        moment = self.tombolo("simulate", self.write("auto.toml", two(AUTO, "2 Mbps", "0.9")))
        self.assertIn("sparse blocks 1 % (needs [optimizer] beta1 = 0, or a convergence_profile of tombolo tune)", moment.stderr)

    def test_a_run_performs_it(self):
        job = two(AUTO, "1 Gbps")
        exchange = self.chosen(job)
        self.ok("train", "auto.toml", "--out", "run")
        self.assertEqual(json.loads((self.folder / "run" / "plan.json").read_text())["exchange"], exchange)

    def test_a_sweep_chooses_in_each_row(self):
        job = self.write("auto.toml", two(AUTO))
        rates = ["2 Mbps", "10 Gbps"]
        self.ok("sweep", job, "--vary", "cluster.wan.oregon-paris.node_pair_limit=" + ",".join(rates), "--out", "rows.jsonl")
        rows = [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]
        for rate, row in zip(rates, rows):
            alone = self.json("simulate", self.write("one.toml", two(AUTO, rate)))
            self.assertAlmostEqual(row["iteration_s"] * 1e9, alone["iteration_ns"], delta=1)

    def test_plan_across_compares_all_modes_in_any_case(self):
        open_job = (ROOT / "examples" / "replicas" / "job.toml").read_text()
        auto = open_job[:open_job.index("[exchange]")] if "[exchange]" in open_job else open_job
        plain = self.json("plan", self.write("plain.toml", auto), "--across")
        answer = self.json("plan", self.write("auto.toml", auto + "\n[exchange]\nmode = \"auto\"\n"), "--across")
        self.assertEqual([way["way"] for way in answer["ways"]], [way["way"] for way in plain["ways"]])
        alone = self.tombolo("plan", "auto.toml")
        self.assertIn('mode = "auto" is left out: modes are compared by --across', alone.stderr)

    def test_what_it_does_not_go_with(self):
        self.refused(2, ["exchange.mode", "chooses the other settings"], "simulate",
                     self.write("job.toml", two(AUTO + "\nfragments = 4")))
        self.refused(2, ["exchange.mode", "fast", "sparse-local, auto"], "simulate", self.write("job.toml", two('mode = "fast"')))
        imagined = two(AUTO)
        imagined = imagined[imagined.index("[[cluster.datacenter]]"):]
        self.refused(2, ["depends on the size of a [model]"], "simulate", self.write("job.toml", imagined))


if __name__ == "__main__":
    unittest.main()
