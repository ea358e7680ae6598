"""Random systems: every rank ends in the cycle in which it ends in ASTRA-sim, whose answers were recorded."""
import json
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

from astra_systems import System, ours
from program import ROOT

RECORDED = ROOT / "tests" / "end_to_end" / "astra_systems.jsonl"


class AstraSystems(unittest.TestCase):
    def test_end_in_the_same_cycle(self):
        rows = [json.loads(line) for line in RECORDED.read_text().splitlines()]
        self.assertGreaterEqual(len(rows), 200)

        def answer(row):
            system = System(row["seed"])
            with tempfile.TemporaryDirectory() as folder:
                system.write(folder)
                return ours(system, folder)

        with ThreadPoolExecutor(2) as pool:
            for row, ends in zip(rows, pool.map(answer, rows)):
                self.assertEqual(ends, row["cycles"], f"seed {row['seed']}")


if __name__ == "__main__":
    unittest.main()
