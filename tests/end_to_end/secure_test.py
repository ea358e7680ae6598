"""`tombolo init` and runs whose every connection is TLS, on one host and as if on two."""
import json
import os
import signal
import stat
import subprocess
import unittest
import urllib.request

from launchers_test import LONG_RUN, TOKEN, Launched
from program import BUILD, GUARD_S, TWO_EMULATED, Case


class Init(Case):
    def invite(self, *more):
        """The waiting process, and the words of the other host's command."""
        process = subprocess.Popen([BUILD / "tombolo", "init", "--directory", "first", "--invite", "paris", "--listen",
                                    "127.0.0.1:0", *more], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        for line in process.stdout:
            if "tombolo init --join" in line:
                return process, line.split()[2:]
        self.fail(process.stderr.read())

    def test_a_second_host_joins_the_first(self):
        out = self.ok("init", "--directory", "first", "--name", "oregon")
        self.assertIn('the certificate of "oregon", until 20', out)
        process, join = self.invite()
        self.assertIn('the certificate of "paris"', self.ok("init", "--directory", "second", *join))
        out, err = process.communicate(timeout=GUARD_S)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn('"paris" joined, from 127.0.0.1:', out)
        self.assertEqual(sorted(path.name for path in (self.folder / "first").iterdir()),
                         ["authority.key", "authority.pem", "host.key", "host.pem"])
        self.assertEqual(sorted(path.name for path in (self.folder / "second").iterdir()),
                         ["authority.pem", "host.key", "host.pem"])
        for key in self.folder.glob("*/*.key"):
            self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600)
        again = self.tombolo("init", "--directory", "third", *join)
        self.assertEqual(again.returncode, 2, again.stderr)
        self.assertNotIn(join[-1], again.stderr)

    def test_a_wrong_invitation_gets_a_line_and_the_right_one_still_counts(self):
        self.ok("init", "--directory", "first", "--name", "oregon")
        process, join = self.invite()
        wrong = join[-1][:-1] + ("0" if join[-1][-1] != "0" else "1")
        done = self.tombolo("init", "--directory", "second", *join[:-1], wrong)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("this is no invitation of ours", done.stderr)
        self.assertFalse((self.folder / "second").exists())
        self.ok("init", "--directory", "second", *join)
        _, err = process.communicate(timeout=GUARD_S)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertNotIn(wrong[72:], err)

    def test_what_exists_is_not_overwritten(self):
        self.ok("init", "--directory", "first", "--name", "oregon")
        before = (self.folder / "first" / "authority.key").read_bytes()
        again = self.tombolo("init", "--directory", "first")
        self.assertEqual(again.returncode, 2)
        self.assertIn('has the credentials of "oregon" already', again.stderr)
        self.assertEqual((self.folder / "first" / "authority.key").read_bytes(), before)

    def test_certificates_are_renewed_for_their_keys(self):
        self.ok("init", "--directory", "first", "--name", "oregon")
        self.ok("init", "--directory", "first", "--issue", "paris", "--to", "second")
        before = {path: path.read_bytes() for path in self.folder.glob("*/*.*")}
        self.assertIn('the certificate of "oregon"', self.ok("init", "--directory", "first", "--renew"))
        alone = self.tombolo("init", "--directory", "second", "--renew")
        self.assertEqual(alone.returncode, 2)
        self.assertIn("a host that joined renews with --renew --join", alone.stderr)
        process, join = self.invite()
        self.assertIn('the certificate of "paris"', self.ok("init", "--directory", "second", "--renew", *join))
        self.assertEqual(process.wait(GUARD_S), 0)
        changed = sorted(str(path.relative_to(self.folder)) for path, was in before.items() if path.read_bytes() != was)
        self.assertEqual(changed, ["first/host.pem", "second/host.pem"])

    def test_a_folder_to_carry(self):
        self.ok("init", "--directory", "first", "--name", "oregon")
        self.ok("init", "--directory", "first", "--issue", "lima", "--to", "carry")
        done = self.tombolo("init", "--directory", "carry", "--invite", "quito")
        self.assertEqual(done.returncode, 2)
        self.assertIn("looking for the authority, which one host has", done.stderr)


class SecureRuns(Launched):
    def setUp(self):
        super().setUp()
        self.ok("init", "--directory", "first", "--name", "oregon")
        self.ok("init", "--directory", "first", "--issue", "paris", "--to", "second")

    def test_one_host_with_tls(self):
        self.write("job.toml", TWO_EMULATED)
        self.assertIn("4 steps", self.ok("train", "job.toml", "--out", "run", "--credentials", "first"))

    def test_ranks_with_certificates_of_one_authority_meet(self):
        first = self.start_ranks([0], 4, "--credentials", "first", TOMBOLO_TOKEN=TOKEN)
        others = self.start_ranks([1, 2, 3], 4, "--credentials", "second", TOMBOLO_TOKEN=TOKEN)
        for process in first + others:
            code, _, err = self.end(process)
            self.assertEqual(code, 0, err)
        self.check_nothing_is_left()

    def test_metrics_say_when_certificates_expire(self):
        self.write("job.toml", LONG_RUN)
        first = self.start_ranks([0], 4, "--credentials", "first", "--metrics", "127.0.0.1:0", TOMBOLO_TOKEN=TOKEN)[0]
        others = self.start_ranks([1, 2, 3], 4, "--credentials", "second", TOMBOLO_TOKEN=TOKEN)
        self.wait((self.folder / "run" / "watch.json").exists, "it serves no metrics")
        address = json.loads((self.folder / "run" / "watch.json").read_text())["address"]

        def lines():
            page = urllib.request.urlopen(f"http://{address}/metrics", timeout=GUARD_S).read().decode()
            return [line for line in page.splitlines() if line.startswith("tombolo_certificate_expires_seconds{")]

        self.wait(lambda: len(lines()) == 4, "not all ranks say so")
        for rank, (host, line) in enumerate(zip(["oregon", "paris", "paris", "paris"], lines())):
            self.assertIn(f'rank="{rank}"', line)
            self.assertIn(f'host="{host}"', line)
            self.assertAlmostEqual(float(line.split()[-1]) / 86400, 90, delta=1)
        for process in [first, *others]:
            process.terminate()
            self.end(process)

    def test_a_rank_of_another_authority_is_turned_away(self):
        self.ok("init", "--directory", "foreign", "--name", "quito")
        first = self.start_ranks([0], 4, "--credentials", "first", "--join-timeout", 20, TOMBOLO_TOKEN=TOKEN)[0]
        stranger = self.start_ranks([1], 4, "--credentials", "foreign", "--join-timeout", 20, TOMBOLO_TOKEN=TOKEN)[0]
        code, _, err = self.end(stranger)
        self.assertEqual(code, 1)
        self.assertIn("its certificate is of another authority", err)
        first.terminate()
        self.end(first)

    def steps_done(self):
        done = self.tombolo("status", "--out", "run", "--json")
        return json.loads(done.stdout)["steps_done"] if done.returncode == 0 else 0

    # Credentials are read again for each epoch: so a renewed certificate is taken up, and a host that was
    # refused meanwhile is out.
    def test_a_host_that_is_refused_during_a_run_is_out_with_the_next_epoch(self):
        self.write("job.toml", LONG_RUN)
        more = ["--restarts", 1, "--join-timeout", 30]
        first = self.start_ranks([0], 4, "--credentials", "first", *more, TOMBOLO_TOKEN=TOKEN)
        others = self.start_ranks([1, 2, 3], 4, "--credentials", "second", *more, TOMBOLO_TOKEN=TOKEN)
        self.wait(lambda: self.steps_done() > 0, "no step is done")
        self.assertIn("from its next connection on", self.ok("init", "--directory", "first", "--refuse", "paris"))
        os.kill(self.workers()[1], signal.SIGKILL)
        code, _, err = self.end(first[0])
        self.assertNotEqual(code, 0)
        self.assertIn('its certificate is of "paris", which this host refuses', err)
        for process in others:
            process.terminate()
            self.end(process)
        self.wait(lambda: not self.workers(), "a worker was left behind")

    def test_an_expired_or_missing_certificate_is_said_before_anything_starts(self):
        done = self.tombolo("train", "job.toml", "--credentials", "nowhere")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nowhere: there are no credentials", done.stderr)

    def test_plain_tcp_is_said_aloud(self):
        self.write("job.toml", TWO_EMULATED)
        done = self.tombolo("train", "job.toml", "--out", "run", "--plain-tcp")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("in clear text", done.stderr)


if __name__ == "__main__":
    unittest.main()
