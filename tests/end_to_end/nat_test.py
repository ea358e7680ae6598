"""Ranks that nobody can call: the other side calls them, or the coordinator splices two calls."""
import json
import os
import socket
import subprocess
import threading
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


class Translator:
    """Address translation for TCP: calls to one address of loopback come to another, on the same port."""

    def __init__(self, outside, inside, port):
        self.inside, self.port, self.calls, self.sockets = inside, port, 0, []
        self.door = socket.create_server((outside, port))
        threading.Thread(target=self.answer, daemon=True).start()

    def answer(self):
        while True:
            try:
                caller, _ = self.door.accept()
            except OSError:
                return
            called = self.inner()
            self.calls += 1
            self.sockets += [caller, called]
            for ends in ((caller, called), (called, caller)):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def inner(self):
        """A connection to whoever will listen there."""
        deadline = time.monotonic() + GUARD_S
        while True:
            try:
                return socket.create_connection((self.inside, self.port))
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    @staticmethod
    def carry(source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.door.shutdown(socket.SHUT_RDWR)
        for end in [self.door, *self.sockets]:
            end.close()


class Translated(Launched):
    """Ranks that listen on one address and are called at another, as hosts of clouds are."""

    INSIDE, OUTSIDE = "127.0.0.3", ("127.0.0.5", "127.0.0.6")

    def test_ranks_are_called_where_they_say(self):
        self.write("job.toml", TWO_EMULATED)
        doors = [Translator(self.OUTSIDE[0], self.INSIDE, self.port),
                 Translator(self.OUTSIDE[1], self.INSIDE, self.port + 1)]
        for door in doors:
            self.addCleanup(door.close)
        common = ["--rendezvous", f"{self.OUTSIDE[0]}:{self.port}", "--plain-tcp", "--listen", self.INSIDE]
        mine = [[], ["--advertise", self.OUTSIDE[1], "--ports", f"{self.port + 1}-{self.port + 1}"]]
        ranks = [self.start(self.train("run", *common, *mine[rank]), RANK=rank, WORLD_SIZE=2, TOMBOLO_TOKEN=TOKEN)
                 for rank in range(2)]
        for process in ranks:
            code, _, err = self.end(process)
            self.assertEqual(code, 0, err)
        self.assertGreaterEqual(doors[0].calls, 1, "rank 1 called the coordinator past its outer address")
        self.assertGreaterEqual(doors[1].calls, 1, "rank 0 called rank 1 past its outer address")

    def test_a_rendezvous_that_is_elsewhere_says_what_to_listen_on(self):
        self.write("job.toml", TWO_EMULATED)
        process = self.start(self.train("run", "--rendezvous", f"203.0.113.7:{self.port}", "--plain-tcp"), RANK=0,
                             WORLD_SIZE=2, TOMBOLO_TOKEN=TOKEN)
        code, _, err = self.end(process)
        self.assertEqual(code, 2, err)
        self.assertIn("203.0.113.7 is no address of this host", err)
        self.assertIn("try --listen", err)

    @unittest.skipUnless(socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"), "this machine has no IPv6")
    def test_over_ipv6(self):
        self.write("job.toml", TWO_EMULATED)
        command = self.train("run", "--rendezvous", f"[::1]:{self.port}", "--plain-tcp")
        ranks = [self.start(command, RANK=rank, WORLD_SIZE=2, TOMBOLO_TOKEN=TOKEN) for rank in range(2)]
        for process in ranks:
            code, _, err = self.end(process)
            self.assertEqual(code, 0, err)
            self.assertNotIn("refused", err)


if __name__ == "__main__":
    unittest.main()
