"""Examples cannot rot: what they print stands beside them, to the last digit."""
import os
import unittest

from program import ROOT, Case, with_torch_too


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


if __name__ == "__main__":
    unittest.main()
