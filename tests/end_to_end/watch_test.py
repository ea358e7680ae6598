"""Whoever watches a run: /metrics as Prometheus' own parser reads it, and tombolo status."""
import json
import subprocess
import time
import unittest
import urllib.request

from program import BUILD, GUARD_S, TWO_EMULATED, Case

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None

LONG_RUN = TWO_EMULATED.replace("steps = 4", "steps = 100000")


class Watched(Case):
    def setUp(self):
        super().setUp()
        self.write("job.toml", LONG_RUN)
        self.training = subprocess.Popen([str(BUILD / "tombolo"), "train", "job.toml", "--out", "run"], cwd=self.folder,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def tearDown(self):
        self.end()
        super().tearDown()

    def end(self):
        if self.training.poll() is None:
            self.training.terminate()
            self.training.wait(GUARD_S)

    def status(self, *arguments):
        return subprocess.run([str(BUILD / "tombolo"), "status", *arguments], cwd=self.folder, capture_output=True,
                              text=True, timeout=GUARD_S)

    def links(self):
        """The status once the ranks have reported their links, which they do every second."""
        deadline = time.monotonic() + GUARD_S
        while time.monotonic() < deadline:
            done = self.status("--json")
            if done.returncode == 0 and len(json.loads(done.stdout)["links"]) == 2:
                return json.loads(done.stdout)
            self.assertIsNone(self.training.poll(), "the run ended early")
            time.sleep(0.2)
        self.fail("no links were reported")

    def test_status_follows_a_run_to_its_end(self):
        status = self.links()
        self.assertEqual(status["steps"], 100000)
        self.assertGreater(status["steps_done"], 0)
        self.assertEqual([rank["rank"] for rank in status["ranks"]], [0, 1])
        self.assertEqual({(link["rank"], link["peer"]) for link in status["links"]}, {(0, 1), (1, 0)})
        for link in status["links"]:
            self.assertEqual(set(link["queue_bytes"]), {"pipeline", "gradients", "evaluation"})
            self.assertGreater(link["connections"][0]["acknowledged_bytes"], 0)
        text = self.status("--once")
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn("/100000", text.stdout)
        self.end()
        gone = self.status()
        self.assertEqual(gone.returncode, 2)
        self.assertIn("no run is active here", gone.stderr)

    @unittest.skipUnless(text_string_to_metric_families, "prometheus_client is not installed "
                                                         "(package python3-prometheus-client)")
    def test_prometheus_reads_the_metrics(self):
        self.links()
        address = json.loads((self.folder / "run" / "watch.json").read_text())["address"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=GUARD_S) as page:
            families = {family.name: family for family in text_string_to_metric_families(page.read().decode())}
        self.assertEqual(families["tombolo_steps"].samples[0].value, 100000)
        self.assertEqual(families["tombolo_connection_retransmits"].type, "counter")
        for name, family in families.items():
            self.assertTrue(family.documentation, name)
        goodput = families["tombolo_link_goodput_bytes_per_second"].samples
        self.assertEqual({(s.labels["rank"], s.labels["peer"]) for s in goodput}, {("0", "1"), ("1", "0")})


if __name__ == "__main__":
    unittest.main()
