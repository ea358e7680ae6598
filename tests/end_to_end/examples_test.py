"""Examples cannot rot: what they print stands beside them, to the last digit."""
import os
import unittest

from program import ROOT, Case, with_torch_too

SMALL = ["across-datacenters", "atlas", "prefill", "replicas", "strands", "thin-lines", "toy", "two-datacenters", "what-if"]


@with_torch_too
class Examples(Case):
    def test_toy_prints_what_it_printed(self):
        example = ROOT / "examples" / "toy"
        printed = self.ok("simulate", example / "job.toml", "--ascii")
        if os.environ.get("TOMBOLO_UPDATE_GOLDENS"):
            (example / "expected.txt").write_text(printed)
        self.assertEqual(printed, (example / "expected.txt").read_text())

    def test_readme_shows_the_drawing_of_the_toy(self):
        expected = (ROOT / "examples" / "toy" / "expected.txt").read_text()
        drawing = [line for line in expected.splitlines() if line.endswith("|")]
        self.assertEqual(len(drawing), 3)
        for line in drawing:
            self.assertIn(line, (ROOT / "README.md").read_text())

    def test_no_bars_of_a_track_overlap_in_perfetto(self):
        """Messages between datacenters are on their way together. (Examples with thousands of ranks take long to draw.)"""
        drawn = 0
        for job in sorted((ROOT / "examples").glob("**/*.toml")):
            if job.parent.name not in SMALL or self.tombolo("simulate", job, "--out", "trace.jsonl").returncode != 0:
                continue
            with self.subTest(job=job.relative_to(ROOT)):
                drawn += self.check_tracks(self.ok("convert", "trace.jsonl", "--to", "perfetto")) > 0
        self.assertGreater(drawn, 20)


if __name__ == "__main__":
    unittest.main()
