"""The WAN that the kernel's TCP and UDP see is the one that the cluster file states."""
import json
import math
import shutil
import signal
import subprocess
import sys
import time
import unittest

from emulator import LONG, PROBE, PROGRAM, Measurement, two_datacenters

# An IP packet of 1500 bytes carries 1448 of a TCP stream: 20 are IP, 20 TCP, 12 its timestamps.
PAYLOAD_SHARE = 1448 / 1500


class Delay(Measurement):
    def hold_rtt(self, one_way_ms):
        count = 100 if LONG else 20
        cluster = two_datacenters(one_way_latency=f"{one_way_ms} ms")

        def round_trip_ms():
            times = self.probe(cluster, "rtt", count)["rtt_ms"]
            print(f"fastest {times[0]:.2f} ms, slowest {times[-1]:.2f} ms")
            self.assertGreaterEqual(times[0], 2 * one_way_ms - 0.05, "a packet was early")
            # What else the machine does only delays. --long has it to itself, and judges what a packet usually meets.
            return times[len(times) // 2] if LONG else times[0]

        self.hold(f"round trip of twice {one_way_ms} ms", round_trip_ms, 2 * one_way_ms, 0.5 if LONG else 3)

    def test_10_ms(self):
        self.hold_rtt(10)

    def test_40_ms(self):
        self.hold_rtt(40)

    def test_150_ms(self):
        self.hold_rtt(150)


class Rate(Measurement):
    def hold_rate(self, mbps, window_kb):
        # The window is more than a round trip carries (10 ms: 125 KB at 100 Mbps) and less than the queue holds, so
        # the link is never idle and nothing is dropped.
        cluster = two_datacenters(one_way_latency="5 ms", node_pair_limit=f"{mbps} Mbps", tcp_window=f"{window_kb} KB",
                                  queue=f"{2 * window_kb} KB")

        def payload_mbps():
            measured = self.probe(cluster, "rate", 8 if LONG else 5)
            self.assertEqual(sum(link["dropped_by_queue"] for link in measured["links"]), 0)
            return measured["payload_mbps"]

        wanted = mbps * PAYLOAD_SHARE
        self.hold(f"payload at {mbps} Mbps", payload_mbps, wanted, 0.01 * wanted)

    def test_100_Mbps(self):
        self.hold_rate(100, 300)

    def test_1_Gbps(self):
        self.hold_rate(1000, 2000)

    def test_byte_scale_divides_the_rate(self):
        cluster = two_datacenters(one_way_latency="5 ms", node_pair_limit="2 Gbps", tcp_window="6 MB", queue="12 MB")
        wanted = 100 * PAYLOAD_SHARE
        self.hold("payload at 2 Gbps in twentieths",
                  lambda: self.probe(cluster, "rate", 3, options=("--byte-scale", "20"))["payload_mbps"],
                  wanted, 0.02 * wanted)


class Loss(Measurement):
    COUNT = 100_000 if LONG else 20_000

    def test_share_of_lost_packets(self):
        share = 0.01
        cluster = two_datacenters(one_way_latency="1 ms", loss=share)
        missing = self.probe(cluster, "loss", self.COUNT)["missing"]
        # Binomial: 200 of 20,000, standard deviation 14; four of them.
        band = 4 * math.sqrt(self.COUNT * share * (1 - share))
        self.assertAlmostEqual(len(missing), self.COUNT * share, delta=band)

    def test_bursts(self):
        share, burst = 0.02, 5
        cluster = two_datacenters(one_way_latency="1 ms", loss=share, loss_burst=burst)
        missing = self.probe(cluster, "loss", self.COUNT)["missing"]
        bursts = sum(1 for at, number in enumerate(missing) if at == 0 or missing[at - 1] != number - 1)
        # Lengths are geometric with mean 5 and deviation sqrt(5 * 4); their number is nearly Poisson. In the sum of
        # n bursts both add up to a deviation of sqrt(n (20 + 25)).
        wanted = self.COUNT * share / burst
        self.assertAlmostEqual(len(missing), self.COUNT * share, delta=4 * math.sqrt(wanted * 45))
        self.assertAlmostEqual(len(missing) / bursts, burst, delta=4 * math.sqrt(20 / wanted))

    def test_segments_of_large_frames_are_lost_one_by_one(self):
        share = 0.001
        cluster = two_datacenters(one_way_latency="1 ms", loss=share)
        measured = self.probe(cluster, "rate", 3)
        link = next(link for link in measured["links"] if link["from"] == "oregon-0")
        self.assertGreater(link["segments"], 2 * link["frames"])
        band = 4 * math.sqrt(link["segments"] * share * (1 - share))
        self.assertAlmostEqual(link["dropped_by_loss"], link["segments"] * share, delta=band)


@unittest.skipUnless(shutil.which("iperf3"), "iperf3 is not installed (tools/setup --test)")
class AtlasTable(Measurement):
    """Atlas, table 1: one cubic connection with a 3 MB window over a WAN whose node pairs may have 5 Gbps."""

    def hold_row(self, one_way_ms, mbps):
        cluster = two_datacenters(one_way_latency=f"{one_way_ms} ms", node_pair_limit="5 Gbps", tcp_window="3 MB")
        seconds = 10 if LONG else 3
        command = ("tombolo-islands exec paris-0 iperf3 --server --one-off --daemon; sleep 0.3; "
                   f"iperf3 --client paris-0 --congestion cubic --omit 2 --time {seconds} --json")
        counters = self.folder / "counters.json"

        def goodput():
            out = self.inside(cluster, "sh", "-c", command, options=("--counters", counters))
            self.timely(json.loads(counters.read_text()))
            return json.loads(out)["end"]["sum_received"]["bits_per_second"] / 1e6

        self.hold(f"iperf3 at {one_way_ms} ms", goodput, mbps, 0.1 * mbps)

    def test_10_ms(self):
        self.hold_row(10, 1220)

    def test_20_ms(self):
        self.hold_row(20, 600)

    def test_30_ms(self):
        self.hold_row(30, 396)

    def test_40_ms(self):
        self.hold_row(40, 293)


class Reload(Measurement):
    def test_conditions_change_while_a_command_runs(self):
        file = self.write(two_datacenters(one_way_latency="5 ms"))
        command = [PROGRAM, "run", file, "--", sys.executable, PROBE, "watch"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            try:
                def settles_at(wanted_ms):
                    # What was on its way arrives as it would have, and a busy machine answers late: neither for a minute.
                    until = time.monotonic() + 60
                    while time.monotonic() < until:
                        if abs(float(running.stdout.readline()) - wanted_ms) < 1:
                            return True
                    return False

                self.assertTrue(settles_at(10))
                self.write(two_datacenters(one_way_latency="30 ms"))
                running.send_signal(signal.SIGHUP)
                self.assertIn("conditions as in", running.stderr.readline())
                self.assertTrue(settles_at(60))

                # What cannot be used changes nothing.
                self.write(two_datacenters(one_way_latency="5 parsecs"))
                running.send_signal(signal.SIGHUP)
                self.assertIn("parsecs", running.stderr.readline())
                self.assertTrue(settles_at(60))
            finally:
                running.terminate()
                running.communicate()


if __name__ == "__main__":
    unittest.main()
