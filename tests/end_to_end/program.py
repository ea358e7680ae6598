"""Runs the built programs the way a person would, for the tests of this folder.

The build folder comes in the environment variable TOMBOLO_BUILD; tests that need LibTorch kernels skip where
TOMBOLO_TORCH is not 1. Only the standard library is used.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TOMBOLO_BUILD", ROOT / "build" / "dev"))
TORCH = os.environ.get("TOMBOLO_TORCH", "0") == "1"
GUARD_S = 240  # a hang is a failure; nothing here takes nearly as long

# ./test.sh runs the tests of this folder that start ranks in the sanitized build, those of commands that compute in the optimised
# one, which has LibTorch, and there those with one of these marks as well (ctest's label with_torch).
needs_torch = unittest.skipUnless(TORCH, "needs a worker built with LibTorch (preset torch)")


def with_torch_too(test):
    """For what trains really where it can."""
    return test


TWO_EMULATED = """
[model]
layers = 4
hidden = 64
heads = 4
vocabulary = 256
sequence = 64

[[cluster.datacenter]]
name = "oregon"
device = "emulated:a100-80g"
[[cluster.datacenter]]
name = "paris"
device = "emulated:a100-80g"
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "2 ms"
node_pair_limit = "1 Gbps"

[training]
global_batch = 8
micro_batch = 2

[parallelism]
pipeline = 2
schedule = "1f1b"

[stage_times]
forward = "4 ms"
backward = "8 ms"

[run]
steps = 4
"""


class Case(unittest.TestCase):
    """A test with a folder of its own and the programs at hand."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tombolo-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def tombolo(self, *arguments, **options):
        return subprocess.run([BUILD / "tombolo", *map(str, arguments)], capture_output=True, text=True,
                              timeout=GUARD_S, cwd=self.folder, stdin=subprocess.DEVNULL, **options)

    def ok(self, *arguments, **options):
        done = self.tombolo(*arguments, **options)
        self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def json(self, *arguments, **options):
        return json.loads(self.ok(*arguments, "--json", **options))

    def refused(self, code, words, *arguments, **options):
        """The command ends with this code and a message with these words, and prints no answer."""
        done = self.tombolo(*arguments, **options)
        self.assertEqual(done.returncode, code, f"{arguments}\n{done.stdout}\n{done.stderr}")
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def records(self, trace, name, by="iteration"):
        """{iteration: value} of a Trace's records, or {rank: value}."""
        out = {}
        for line in pathlib.Path(trace).read_text().splitlines():
            entry = json.loads(line)
            if entry.get("record") == name:
                out[entry[by]] = entry["value"]
        return out

    def check_tracks(self, perfetto):
        """Perfetto drops a bar that overlaps another one of its track partly; beside it and inside it are fine."""
        tracks = {}
        for event in json.loads(perfetto)["traceEvents"]:
            if event["ph"] == "X":
                start = round(event["ts"] * 1000)
                tracks.setdefault((event["pid"], event["tid"]), []).append((start, -start - round(event["dur"] * 1000)))
        for track, bars in tracks.items():
            around = []
            for start, minus_end in sorted(bars):
                while around and around[-1] <= start:
                    around.pop()
                self.assertTrue(not around or -minus_end <= around[-1], f"rank, track {track}: {start} to {-minus_end} ns")
                around.append(-minus_end)
        return len(tracks)
