"""What a person at a terminal meets: help, completion, man page, doctor, and a line while a command is at work."""
import json
import os
import pty
import re
import select
import shutil
import subprocess
import time
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

    def test_the_man_page_has_no_warnings(self):
        page = self.write("tombolo.1", self.ok("help", "--man"))
        self.assertIn(".SH COMMANDS", page.read_text())
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        done = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", "-ww", page], capture_output=True, text=True, timeout=GUARD_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue("--objective" in done.stdout)


class Completion(Case):
    def completed(self, *words):
        """What bash offers for the last of these words."""
        script = self.write("completion", self.ok("completion", "bash"))
        (self.folder / "job.toml").touch()
        (self.folder / "jobs").mkdir(exist_ok=True)
        array = " ".join(f"'{word}'" for word in words)
        ask = f"source {script}; COMP_WORDS=({array}); COMP_CWORD={len(words) - 1}; _tombolo; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        done = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True, timeout=GUARD_S, cwd=self.folder)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_commands_options_values_and_files(self):
        self.assertEqual(self.completed("tombolo", "sim"), ["simulate"])
        self.assertEqual(self.completed("tombolo", "ser"), ["serve"])
        self.assertEqual(self.completed("tombolo", "plan", "--obj"), ["--objective"])
        self.assertEqual(self.completed("tombolo", "plan", "--objective", ""), ["time", "cost", "throughput"])
        self.assertEqual(self.completed("tombolo", "plan", "--objective", "=", "c"), ["cost"])
        self.assertEqual(self.completed("tombolo", "plan", "--objective", "="), ["time", "cost", "throughput"])
        self.assertIn("best", self.completed("tombolo", "simulate", "job.toml", "--policy", "b"))
        self.assertEqual(self.completed("tombolo", "convert", "job.toml", "--to", "perf"), ["perfetto"])
        self.assertEqual(sorted(self.completed("tombolo", "plan", "jo")), ["job.toml", "jobs"])
        self.assertEqual(self.completed("tombolo", "train", "job.toml", "--out", "jo"), ["jobs"])
        self.assertEqual(self.completed("tombolo", "help", "clu"), ["cluster"])
        self.assertEqual(self.completed("tombolo", "plan", "--top", ""), [])

    def test_the_scripts_of_other_shells_are_sound(self):
        missing = []
        for shell in ("zsh", "fish"):
            script = self.write(f"completion.{shell}", self.ok("completion", shell))
            self.assertIn("rail-only", script.read_text())
            if not shutil.which(shell):
                missing.append(shell)
                continue
            done = subprocess.run([shell, "-n", script], capture_output=True, text=True, timeout=GUARD_S)
            self.assertEqual((done.returncode, done.stderr), (0, ""), shell)
        if missing:
            self.skipTest(" and ".join(missing) + " not installed: syntax not checked")


class Doctor(Case):
    def test_says_what_is_there_and_what_to_install(self):
        checks = {each["name"]: each for each in self.json("doctor")["checks"]}
        self.assertTrue({"worker", "LibTorch", "cores", "disk", "clock", "real-time scheduling", "network namespaces",
                         "PyTorch in Python", "GPU"} <= set(checks))
        self.assertTrue(checks["worker"]["ok"])
        for each in checks.values():
            self.assertEqual(each["ok"], not each["means"], each)
            self.assertTrue(each["ok"] or each["install"] or each["name"] == "GPU", each)
        self.assertIn("worker", self.ok("doctor"))

    def test_a_program_that_hangs_or_fails_is_missing(self):
        self.write("nvidia-smi", "#!/bin/sh\nexec sleep 60\n").chmod(0o755)
        self.write("python3", "#!/bin/sh\nexit 1\n").chmod(0o755)
        done = subprocess.run([BUILD / "tombolo", "doctor", "--json"], capture_output=True, text=True, timeout=GUARD_S,
                              cwd=self.folder, env=os.environ | {"PATH": f"{self.folder}:/usr/bin:/bin"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        checks = {each["name"]: each["ok"] for each in json.loads(done.stdout)["checks"]}
        self.assertEqual((checks["GPU"], checks["PyTorch in Python"]), (False, False))

    def test_a_program_without_end_is_missing_and_its_output_bounded(self):
        self.write("nvidia-smi", "#!/bin/sh\nexec yes\n").chmod(0o755)
        done = subprocess.run([BUILD / "tombolo", "doctor", "--json"], capture_output=True, text=True, timeout=GUARD_S,
                              cwd=self.folder, env=os.environ | {"PATH": f"{self.folder}:/usr/bin:/bin"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLess(len(done.stdout), 10_000)
        self.assertFalse({each["name"]: each["ok"] for each in json.loads(done.stdout)["checks"]}["GPU"])


class WaitLine(Case):
    """The command waits for its job on standard input, as long as the test likes."""

    def start(self, stderr):
        process = subprocess.Popen([BUILD / "tombolo", "simulate", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=stderr, cwd=self.folder)
        self.addCleanup(process.kill)
        return process

    def finish(self, process):
        out, _ = process.communicate(TOY.read_bytes(), timeout=GUARD_S)
        self.assertEqual(process.returncode, 0)
        return out

    def test_a_terminal_sees_a_command_at_work_and_then_its_answer_alone(self):
        reading, writing = pty.openpty()
        process = self.start(writing)
        os.close(writing)
        seen = b""
        deadline = time.monotonic() + GUARD_S
        while seen.count(b"tombolo simulate: at work for ") < 2:
            self.assertLess(time.monotonic(), deadline, seen)
            if select.select([reading], [], [], 1)[0]:
                seen += os.read(reading, 4096)
        self.assertIn(b"predicted iteration", self.finish(process))
        try:
            while part := os.read(reading, 4096):
                seen += part
        except OSError:
            pass  # the other end is closed
        os.close(reading)
        self.assertTrue(seen.endswith(b"\r\x1b[K"), seen)

    def test_a_log_does_not(self):
        process = self.start(subprocess.PIPE)
        time.sleep(3)  # a line would come after two
        out, log = process.communicate(TOY.read_bytes(), timeout=GUARD_S)
        self.assertEqual((process.returncode, log), (0, b""))


if __name__ == "__main__":
    unittest.main()
