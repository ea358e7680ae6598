"""What is given through a pipe, a FIFO or standard input is answered as the file would be, and read once."""
import json
import os
import subprocess
import threading
import unittest

from program import BUILD, GUARD_S, ROOT, Case

EXAMPLES = ROOT / "examples"
TOY = EXAMPLES / "toy" / "job.toml"
RAILS = EXAMPLES / "rail-only" / "table4-175b.toml"

# Each with the file that it reads in the place of "{}".
COMMANDS = {
    "simulate": (["simulate", "{}"], TOY),
    "convert a job": (["convert", "{}", "--to", "graph"], TOY),
    "traffic": (["traffic", "{}", "--json"], RAILS),
    "estimate": (["estimate", "{}", "--json"], RAILS),
    "strand": (["strand", "{}"], EXAMPLES / "strands" / "llama-25b.toml"),
    "sweep": (["sweep", "{}", "--vary", "training.global_batch=4,8"], TOY),
    "astra": (["astra", "--job={}"], EXAMPLES / "shakespeare" / "job.toml"),
    "convert a Trace": (["convert", "{}", "--to", "perfetto"], "trace.jsonl"),
    "compare": (["compare", "{}", "trace.jsonl"], "trace.jsonl"),
}


class PipedInputs(Case):
    def setUp(self):
        super().setUp()
        self.ok("simulate", TOY, "--out", "trace.jsonl")

    def answer(self, words, name, **options):
        command = [BUILD / "tombolo", *(word.replace("{}", str(name)) for word in words)]
        done = subprocess.run(command, capture_output=True, timeout=GUARD_S, cwd=self.folder, **options)
        self.assertEqual(done.returncode, 0, (command, done.stderr))
        return done.stdout

    def test_are_answered_like_files(self):
        for number, (command, (words, given)) in enumerate(COMMANDS.items()):
            path = self.folder / given
            wanted = self.answer(words, path, stdin=subprocess.DEVNULL)

            def same(got, name):
                self.assertEqual(got, wanted.replace(str(path).encode(), str(name).encode()))

            with self.subTest(command=command, by="standard input"), open(path, "rb") as file:
                same(self.answer(words, "-", stdin=file), "-")
            with self.subTest(command=command, by="pipe"):
                reading, writing = os.pipe()
                self.in_background(lambda: self.hand_over(path, writing))
                name = f"/dev/fd/{reading}"
                same(self.answer(words, name, pass_fds=[reading], stdin=subprocess.DEVNULL), name)
                os.close(reading)
            with self.subTest(command=command, by="FIFO"):
                fifo = self.folder / f"fifo-{number}"
                os.mkfifo(fifo)
                self.in_background(lambda: fifo.write_bytes(path.read_bytes()))
                same(self.answer(words, fifo, stdin=subprocess.DEVNULL), fifo)

    def hand_over(self, path, writing):
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(path.read_bytes())

    def in_background(self, work):
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.addCleanup(thread.join)

    def test_files_that_a_piped_job_names_lie_in_the_working_folder(self):
        for name in ("cluster.toml", "config.json"):
            self.write(name, (EXAMPLES / "planning" / "llama3-70b" / name).read_text())
        with open(EXAMPLES / "planning" / "llama3-70b" / "job.toml", "rb") as job:
            answer = self.answer(["plan", "{}", "--json", "--simulate-for", "0"], "-", stdin=job)
        self.assertGreater(json.loads(answer)["best"]["iteration_s"], 0)

    def test_byte_order_marks_are_taken(self):
        for name in (TOY, RAILS):
            (self.folder / "marked.toml").write_bytes(b"\xef\xbb\xbf" + name.read_bytes())
            self.ok("estimate" if name == RAILS else "simulate", "marked.toml")
        self.ok("simulate", TOY, "--out-plan", "plan.json")
        (self.folder / "marked.json").write_bytes(b"\xef\xbb\xbf" + (self.folder / "plan.json").read_bytes())
        self.ok("simulate", "marked.json")
        (self.folder / "marked.jsonl").write_bytes(b"\xef\xbb\xbf" + (self.folder / "trace.jsonl").read_bytes())
        self.ok("convert", "marked.jsonl", "--to", "csv")


if __name__ == "__main__":
    unittest.main()
