"""Runs tombolo-islands for the tests of this folder, and judges what was measured inside.

The build folder comes in the environment variable TOMBOLO_BUILD. TOMBOLO_LONG=1 measures everything; otherwise
each test takes a few seconds. Only the standard library is used.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TOMBOLO_BUILD", ROOT / "build" / "release"))
PROGRAM = BUILD / "tombolo-islands"
PROBE = pathlib.Path(__file__).resolve().parent / "probe.py"
LONG = os.environ.get("TOMBOLO_LONG", "0") == "1"
GUARD_S = 120  # a hang is a failure
LATENESS_MAX_MS = 2  # p99 of the forwarding thread; beyond, the machine was too busy for a figure to mean anything

TWO = """
[[datacenter]]
name = "oregon"
device = "emulated:a100-80g"
nodes = {nodes}
[[datacenter]]
name = "paris"
device = "emulated:a100-80g"
[[wan]]
between = ["oregon", "paris"]
"""


def two_datacenters(nodes=1, **link):
    """A cluster file: two datacenters and the WAN link between them."""
    values = {"one_way_latency": "10 ms", "node_pair_limit": "1 Gbps", **link}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return TWO.format(nodes=nodes) + "\n".join(lines) + "\n"


class Case(unittest.TestCase):
    """A test with a folder of its own. Skips where islands cannot be made."""

    privileged = True

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tombolo-islands-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        if self.privileged:
            done = self.run_islands(two_datacenters(), "true")
            if done.returncode == 2:
                self.skipTest(" ".join(done.stderr.split()))
            self.assertEqual(done.returncode, 0, done.stderr)

    def write(self, text, name="cluster.toml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def run_islands(self, cluster, *command, options=(), **more):
        return subprocess.run([PROGRAM, "run", self.write(cluster), *options, "--", *map(str, command)],
                              capture_output=True, text=True, timeout=GUARD_S, stdin=subprocess.DEVNULL, **more)

    def inside(self, cluster, *command, **more):
        """The output of a command that must succeed."""
        done = self.run_islands(cluster, *command, **more)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout


class Measurement(Case):
    """A test of a figure. Skips where the machine was too busy, and where sanitizers slow the emulator down."""

    def setUp(self):
        if os.environ.get("TOMBOLO_SANITIZE"):
            self.skipTest("sanitizers slow the emulator down; the optimised builds measure")
        super().setUp()

    def probe(self, cluster, *words, options=()):
        """What probe.py measured, with the emulator's counters under "links"."""
        counters = self.folder / "counters.json"
        out = self.inside(cluster, sys.executable, PROBE, *words, options=("--counters", counters, *options))
        return self.timely({**json.loads(out), **json.loads(counters.read_text())})

    def timely(self, measured):
        late = max((link["lateness_p99_ns"] for link in measured["links"]), default=0) / 1e6
        if late > LATENESS_MAX_MS:
            self.skipTest(f"the machine is too busy: the emulator was {late:.1f} ms late (p99)")
        return measured

    def hold(self, name, measure, wanted, tolerance):
        """measure() lies within tolerance of wanted: the first time, or else the median of three."""
        values = [measure()]
        if abs(values[0] - wanted) > tolerance or LONG:
            values += [measure(), measure()]
        value = statistics.median(values)
        print(f"{name}: {value:.4g}, wanted {wanted:.4g} +- {tolerance:.3g} (of {[round(v, 4) for v in values]})")
        self.assertLessEqual(abs(value - wanted), tolerance, f"{name}: {values}")
