"""Ranks that nobody can call: the other side calls them, or the coordinator splices two calls."""
import json
import os
import subprocess
import time
import unittest

from launchers_test import LONG_RUN, TOKEN, Launched
from program import BUILD, GUARD_S, TWO_EMULATED, needs_torch
from training_test import tiny


class Unreachable(Launched):
    def links(self, process):
        """The status once all ranks have reported their links, which they do every second."""
        deadline = time.monotonic() + GUARD_S
        while time.monotonic() < deadline:
            done = subprocess.run([str(BUILD / "tombolo"), "status", "--json"], cwd=self.folder, capture_output=True,
                                  text=True, timeout=GUARD_S)
            links = json.loads(done.stdout)["links"] if done.returncode == 0 else []
            if len(links) == 6:
                return {(link["rank"], link["peer"]): link["through"] for link in links}
            self.assertIsNone(process.poll(), "the run ended early")
            time.sleep(0.2)
        self.fail("not all links were reported")

    def test_two_neighbours_meet_at_the_coordinator_and_status_says_so(self):
        self.write("job.toml", LONG_RUN)
        ranks = self.start_ranks([0, 3], 4, TOMBOLO_TOKEN=TOKEN)
        ranks += self.start_ranks([1, 2], 4, "--no-inbound", TOMBOLO_TOKEN=TOKEN)
        through = self.links(ranks[0])
        self.assertEqual(through, {(0, 1): "", (1, 0): "", (2, 3): "", (3, 2): "", (1, 2): "coordinator",
                                   (2, 1): "coordinator"})
        text = self.ok("status", "--once")
        self.assertEqual(text.count("through the coordinator: neither rank can be called"), 2, text)
        ranks[0].terminate()
        _, _, err = self.end(ranks[0])
        self.assertIn("because neither of the two can be called: 1 and 2\n", err)
        for process in ranks[1:]:
            self.end(process)
        self.check_nothing_is_left()

    def test_with_tls_through_the_coordinator(self):
        self.write("job.toml", TWO_EMULATED)
        self.ok("init", "--directory", "first", "--name", "oregon")
        self.assertIn("4 steps", self.ok("train", "job.toml", "--out", "run", "--credentials", "first", "--no-inbound"))

    @needs_torch
    def test_the_losses_are_those_of_an_undisturbed_run(self):
        losses = []
        for out, more in [("direct", []), ("spliced", ["--no-inbound"])]:
            self.ok("train", self.write(f"{out}.toml", tiny(2, steps=5)), "--out", out, *more)
            losses.append(self.records(self.folder / out / "trace.jsonl", "loss"))
        self.assertEqual(len(losses[0]), 5)
        self.assertEqual(losses[0], losses[1])


class Behind(Launched):
    """Two network namespaces that can call a third and that nobody can call; no path between them."""

    def ip(self, *words):
        done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=GUARD_S)
        if done.returncode != 0:
            self.skipTest(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def within(self, name, command):
        self.ip("netns", "exec", name, "sh", "-c", command)

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("network namespaces need root")
        names = [f"tombolo-nat-{os.getpid()}-{end}" for end in "abc"]
        for name in names:
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name], capture_output=True)
            self.ip("netns", "add", name)
            self.within(name, "ip link set lo up")
        *self.behind, self.centre = names
        # Doors and calls of the centre have ports of their own, so that a rule knows an answer from a call.
        self.within(self.centre, "echo 20000 25000 > /proc/sys/net/ipv4/ip_local_port_range")
        for i, name in enumerate(self.behind):
            self.ip("link", "add", f"v{i}", "netns", self.centre, "type", "veth", "peer", "name", "e0", "netns", name)
            self.within(self.centre, f"ip addr add 10.99.{i}.1/24 dev v{i}; ip link set v{i} up")
            self.within(name, f"ip addr add 10.99.{i}.2/24 dev e0; ip link set e0 up; ip route add default via 10.99.{i}.1")
            self.within(self.centre, f"ip rule add pref 100 to 10.99.{i}.2 ipproto tcp sport 20000-29778 lookup main && "
                                     f"ip rule add pref 101 to 10.99.{i}.2 ipproto tcp blackhole")

    def test_the_coordinator_finds_out_by_itself(self):
        self.ok("init", "--directory", "first", "--name", "oregon")
        command = self.train("run", "--rendezvous", "10.99.0.1:29777", "--credentials", "first")
        places = [self.centre, *self.behind, self.centre]
        ranks = [self.start(["ip", "netns", "exec", place, *command], RANK=rank, WORLD_SIZE=4, TOMBOLO_TOKEN=TOKEN)
                 for rank, place in enumerate(places)]
        for rank, process in enumerate(ranks):
            code, _, err = self.end(process)
            self.assertEqual(code, 0, err)
            self.assertNotIn("refused", err)
            if rank == 0:
                self.assertIn("because neither of the two can be called: 1 and 2\n", err)


if __name__ == "__main__":
    unittest.main()
