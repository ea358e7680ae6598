"""What a person at a terminal meets: help, and - for a file."""
import re
import subprocess
import unittest

from program import BUILD, GUARD_S, ROOT, TWO_EMULATED, Case

TOY = ROOT / "examples" / "toy" / "job.toml"


class Help(Case):
    def test_a_topic_is_a_command_a_file_or_a_table(self):
        self.assertEqual(self.ok("help", "serve"), self.ok("prefill", "--help"))
        self.assertIn("[[cluster.wan]]", self.ok("help", "job"))
        self.assertIn("one_way_latency", self.ok("help", "cluster"))
        self.assertIn("tombolo_hardware", self.ok("help", "hardware"))
        self.assertIn("cost_source", self.ok("help", "plan-file"))
        table = self.ok("help", "exchange")
        self.assertIn("density", table)
        self.assertNotIn("global_batch", table)
        self.refused(2, ["there is no such command, file or table", "try tombolo help job"], "help", "jobb")

    def test_the_document_of_keys_is_what_the_program_says(self):
        document = (ROOT / "docs" / "reference" / "keys.md").read_text()
        self.assertEqual(document, self.ok("help", "keys", "--markdown"),
                         "tombolo help keys --markdown > docs/reference/keys.md")

    def test_every_command_shows_an_example_and_no_bare_text(self):
        commands = re.findall(r"^  ([a-z]+)(?:, [a-z]+)?  ", self.ok("help"), re.M)
        self.assertGreater(len(commands), 20)
        for command in commands:
            text = self.ok(command, "--help")
            with self.subTest(command=command):
                self.assertRegex(text, r"(?m)^Example:  tombolo ")
                self.assertNotIn("TEXT", text)

    def test_a_minus_is_standard_output(self):
        page = self.ok("report", self.traced(), "--out", "-")
        self.assertTrue(page.startswith("<!doctype html>"), page[:40])
        self.assertFalse((self.folder / "-").exists())

    def test_a_minus_is_standard_input(self):
        for command in (["plan", "-", "--simulate-for", "0"], ["train", "-", "--out", "run"]):
            job = TWO_EMULATED if command[0] == "train" else (ROOT / "examples" / "shakespeare" / "job.toml").read_text()
            done = subprocess.run([BUILD / "tombolo", *command], input=job, capture_output=True, text=True, timeout=GUARD_S,
                                  cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("predicted iteration", done.stdout)

    def traced(self):
        self.ok("simulate", TOY, "--out", "trace.jsonl")
        return "trace.jsonl"


if __name__ == "__main__":
    unittest.main()
