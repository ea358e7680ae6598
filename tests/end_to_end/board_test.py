"""What `tombolo train --board` leaves for dashboards, read by none of our code."""
import csv
import json
import os
import signal
import struct
import subprocess
import time
import unittest

from program import BUILD, GUARD_S, TWO_EMULATED, Case, needs_torch
from recovery_test import children
from training_test import tiny

JOB = TWO_EMULATED.replace("steps = 4", "steps = 40\nevaluate_every = 4") + """
[checkpoint]
directory = "checkpoints"
every = 2
"""


def fields(bytes_):
    """{number: [value]} of a protobuf message."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = bytes_[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(bytes_):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 2: None, 5: 4}[key & 7]
            size = varint() if size is None else size
            value, at = bytes_[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def crc32c(bytes_):
    crc = 0xFFFFFFFF
    for byte in bytes_:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(bytes_):
    crc = crc32c(bytes_)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events(folder):
    """What TensorBoard shows: {step: {tag: value}} of all files, later sessions instead of what they do again."""
    shown = {}
    for path in sorted(folder.glob("events.out.tfevents.*"), key=lambda path: path.stat().st_mtime_ns):
        content, at = path.read_bytes(), 0
        while at < len(content):
            size, of_size = struct.unpack_from("<QI", content, at)
            event = content[at + 12:at + 12 + size]
            assert of_size == masked(content[at:at + 8])
            assert struct.unpack_from("<I", content, at + 12 + size)[0] == masked(event)
            at += 16 + size
            event = fields(event)
            step = event[2][0]
            if 3 in event:
                assert event[3] == [b"brain.Event:2"]
            if 7 in event:
                shown = {known: values for known, values in shown.items() if known < step}
            for summary in event.get(5, []):
                for value in fields(summary)[1]:
                    value = fields(value)
                    shown.setdefault(step, {})[value[1][0].decode()] = struct.unpack("<f", value[2][0])[0]
    return shown


class Board(Case):
    def rows(self):
        with open(self.folder / "board" / "steps.csv") as file:
            return list(csv.DictReader(file))

    def check(self, steps):
        """The three files say the same of each step, once."""
        rows = self.rows()
        self.assertEqual([int(row["step"]) for row in rows], list(range(1, steps + 1)))
        lines = [json.loads(line) for line in (self.folder / "board" / "steps.jsonl").read_text().splitlines()]
        shown = events(self.folder / "board")
        self.assertEqual(list(shown), list(range(1, steps + 1)))
        for row, line in zip(rows, lines, strict=True):
            self.assertEqual(row["provenance"], "emulated")
            for name, value in line.items():
                if name in ("time", "provenance"):
                    continue
                self.assertEqual(row[name], "" if value is None else row[name])
                if value is None or name == "step":
                    continue
                self.assertEqual(float(row[name]), value, name)
                self.assertAlmostEqual(shown[line["step"]][f"emulated/{name}"], value, delta=1e-6 * abs(value))
        self.assertTrue(all(float(row["tokens_per_s"]) > 0 and 0 < float(row["wan_wait_share"]) < 1 for row in rows), rows)

    def start(self, *words):
        """A run of job.toml that has a few rows; it and the command."""
        command = [str(BUILD / "tombolo"), "train", "job.toml", "--board", "board"]
        with open(self.folder / "errors", "w") as errors, open(self.folder / "answer", "w") as answer:
            training = subprocess.Popen([*command, *words], cwd=self.folder, stdout=answer, stderr=errors)
        self.addCleanup(training.kill)
        guard = time.monotonic() + GUARD_S
        while not (self.folder / "board" / "steps.csv").exists() or len(self.rows()) < 5:
            self.assertLess(time.monotonic(), guard)
            self.assertIsNone(training.poll(), (self.folder / "errors").read_text())
            time.sleep(0.02)
        return training, command

    def finish(self, training):
        self.assertEqual(training.wait(GUARD_S), 0, (self.folder / "errors").read_text())
        self.assertIn("starting again", (self.folder / "errors").read_text())

    def test_a_launcher_that_is_killed_leaves_no_hole(self):
        """Its workers go on until they miss it, and the next launcher goes on from where they stopped."""
        self.write("job.toml", JOB.replace("steps = 40", "steps = 160"))
        training, _ = self.start("--keep-state")
        os.kill(children(training.pid)[0], signal.SIGKILL)
        self.finish(training)
        self.check(160)
        self.assertEqual([path.name for path in (self.folder / "run").glob("*-rank-*")], [])
        self.assertFalse((self.folder / "run" / "journal-losses.jsonl").exists())

    @needs_torch
    def test_losses_of_all_launchers_are_in_the_trace(self):
        self.write("job.toml", tiny(2, steps=400, every=20))
        training, _ = self.start("--keep-state", "--json")
        for _ in range(2):
            done = len(self.rows())
            guard = time.monotonic() + GUARD_S
            while len(self.rows()) < done + 5 and training.poll() is None:
                self.assertLess(time.monotonic(), guard)
                time.sleep(0.02)
            for launcher in children(training.pid):
                os.kill(launcher, signal.SIGKILL)
        self.finish(training)
        losses = {int(row["step"]): float(row["loss"]) for row in self.rows()}
        self.assertEqual(list(losses), list(range(1, 401)))
        self.assertEqual(self.records(self.folder / "run" / "trace.jsonl", "loss"), losses)
        answer = json.loads((self.folder / "answer").read_text())
        self.assertEqual((answer["first_loss"], answer["final_loss"]), (losses[1], losses[400]))

    def test_a_run_that_loses_a_worker_and_one_that_goes_on(self):
        self.write("job.toml", JOB)
        training, command = self.start()
        launcher = children(training.pid)[0]
        os.kill(children(launcher)[0], signal.SIGKILL)
        self.finish(training)
        self.check(40)
        subprocess.run([*command, "--resume", "--steps", "44"], cwd=self.folder, check=True, capture_output=True)
        self.check(44)

    def test_a_board_that_cannot_be(self):
        self.write("job.toml", JOB)
        self.write("board", "a file")
        done = subprocess.run([str(BUILD / "tombolo"), "train", "job.toml", "--board", "board"], cwd=self.folder,
                              capture_output=True, text=True, timeout=GUARD_S)
        self.assertEqual(done.returncode, 2)
        self.assertIn("board: cannot create the folder", done.stderr)
        self.assertFalse((self.folder / "run" / "trace.jsonl").exists())


if __name__ == "__main__":
    unittest.main()
