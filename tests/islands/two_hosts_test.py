"""Two hosts that join over a wire of their own: paths that are cut for a while, one way or both, and a host whose address changes.

Each host is a network namespace with its own processes, started as people start ranks on several hosts, one by one.
"""
import contextlib
import json
import os
import re
import subprocess
import time
import unittest

from emulator import BUILD, GUARD_S, LONG, Case
from ranks_test import ENVIRONMENT

JOB = """
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
steps = {steps}

[checkpoint]
directory = "checkpoints"
every = 20
"""
TOKEN = "00112233445566778899aabbccddeeff"  # of nothing


def ip(*words, **more):
    return subprocess.run(["ip", *map(str, words)], capture_output=True, text=True, timeout=GUARD_S, **more)


class TwoHosts(Case):
    privileged = False
    STEPS = 300

    def setUp(self):
        super().setUp()
        self.names = [f"tombolo-{os.getpid()}-{i}" for i in range(2)]
        for name in self.names:
            made = ip("netns", "add", name)
            if made.returncode != 0:
                self.skipTest("no network namespaces: " + " ".join(made.stderr.split()))
            self.addCleanup(ip, "netns", "del", name)
        made = ip("-n", self.names[0], "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", self.names[1])
        if made.returncode != 0:
            self.skipTest("no wire between namespaces: " + " ".join(made.stderr.split()))
        for i in range(2):
            self.set_up_host(i, f"10.9.0.{i + 1}")

    def on(self, i, *words):
        done = ip("-n", self.names[i], *words)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")

    def set_up_host(self, i, address):
        self.on(i, "link", "set", "lo", "up")
        self.on(i, "link", "set", "wire", "up")
        self.on(i, "address", "add", f"{address}/24", "dev", "wire")
        # The table of this host's own addresses comes first, so that a rule can come before it.
        self.on(i, "rule", "add", "pref", 10, "lookup", "local")
        self.on(i, "rule", "del", "pref", 0)

    def said(self):
        return "\n".join(f"--- rank {i}\n" + (self.folder / str(i) / "errors").read_text() for i in range(2))

    def start(self, *words):
        """Both ranks, up to a step."""
        self.ranks = []
        for i, name in enumerate(self.names):
            folder = self.folder / str(i)
            folder.mkdir()
            (folder / "job.toml").write_text(JOB.format(steps=self.STEPS))
            with open(folder / "errors", "w") as errors:
                self.ranks.append(subprocess.Popen(
                    ["ip", "netns", "exec", name, BUILD / "tombolo", "train", "job.toml", "--out", "run", "--json",
                     "--rendezvous", "10.9.0.1:29511", "--plain-tcp", "--restarts", "3", *words],
                    cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                    env={**ENVIRONMENT, "RANK": str(i), "WORLD_SIZE": "2", "TOMBOLO_TOKEN": TOKEN}))
            self.addCleanup(self.end, self.ranks[-1])
        guard = time.monotonic() + GUARD_S
        while not re.search(r"step \d", self.said()):
            self.assertLess(time.monotonic(), guard, self.said())
            self.assertEqual([rank.poll() for rank in self.ranks], [None, None], self.said())
            time.sleep(0.05)

    def end(self, rank):
        if rank.poll() is None:
            rank.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                rank.wait(10)
            rank.kill()
        rank.stdout.close()

    def finish(self):
        """What rank 0 answered; both ended well, with every step."""
        answers = []
        for rank in self.ranks:
            try:
                answers.append(rank.communicate(timeout=2 * GUARD_S)[0])
            except subprocess.TimeoutExpired:
                self.fail(f"the run does not end\n{self.said()}")
        self.assertEqual([rank.returncode for rank in self.ranks], [0, 0], self.said())
        answer = json.loads(answers[0])
        self.assertEqual(answer["steps"], self.STEPS)
        return answer

    @contextlib.contextmanager
    def cut(self, *at):
        """These hosts drop all that comes from the other one."""
        for i in at:
            self.on(i, "rule", "add", "pref", 5, "from", f"10.9.0.{2 - i}", "blackhole")
        try:
            yield
        finally:
            for i in at:
                self.on(i, "rule", "del", "pref", 5)

    def test_cuts_below_the_grace_cost_no_epoch(self):
        """Once for long, then again and again with good windows that are shorter than TCP's pauses."""
        self.start("--grace", "20s")
        with self.cut(0, 1):
            time.sleep(13)
        time.sleep(4)
        for _ in range(3):
            with self.cut(0, 1):
                time.sleep(8)
            time.sleep(3)
        answer = self.finish()
        self.assertEqual(answer["restarts"], 0, self.said())
        self.assertIn("is back; it was lost for", self.said())
        self.assertNotIn("starting again", self.said())

    @unittest.skipUnless(LONG, "45 s for each direction; --long")
    def test_a_path_that_is_cut_one_way_costs_no_epoch(self):
        self.STEPS = 1000
        self.start()
        for side in (0, 1):
            with self.cut(side):
                time.sleep(45)
            time.sleep(4)
        self.assertEqual(self.finish()["restarts"], 0, self.said())

    def test_a_host_gets_another_address(self):
        """As by DHCP, or a VPN: the rank finds the new one when it returns, and the run ends as it should."""
        self.start("--grace", "4s")
        self.on(1, "address", "del", "10.9.0.2/24", "dev", "wire")
        self.on(1, "address", "add", "10.9.0.3/24", "dev", "wire")
        answer = self.finish()
        self.assertGreaterEqual(answer["restarts"], 1, self.said())
        self.assertNotIn("another port", self.said())


if __name__ == "__main__":
    unittest.main()
