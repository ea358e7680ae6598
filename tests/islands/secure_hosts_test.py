"""A run across hosts that do not know they are emulated: TLS between them, and clocks that differ by a day."""
import json
import shutil
import subprocess
import unittest

from emulator import BUILD, PROGRAM, Case
from ranks_test import ENVIRONMENT, JOB

# Each rank is on a host of its own. The second host's monotonic clock is a day ahead.
SCRIPT = """
set -e
{tombolo} init --directory first --name oregon
{tombolo} init --directory first --issue paris --to second
export WORLD_SIZE=4
failed=0
other() {{
  {islands} exec $2 env -u TOMBOLO_ISLANDS RANK=$1 $3 {tombolo} train job.toml --rendezvous $address:29511 {words_there}
}}
address=$(ip -4 -o addr show scope global | awk '{{split($4, a, "/"); print a[1]; exit}}')
other 1 oregon-1 "" &
other 2 paris-0 "unshare --time --monotonic 86400 --fork" &
other 3 paris-1 "" &
env -u TOMBOLO_ISLANDS RANK=0 {tombolo} train job.toml --rendezvous $address:29511 {words_here} || failed=$?
wait
exit $failed
"""


def clocks_can_differ():
    if not shutil.which("unshare"):
        return False
    done = subprocess.run(["unshare", "--time", "--monotonic", "86400", "--fork", "true"], capture_output=True, check=False)
    return done.returncode == 0


class SecureHosts(Case):
    def train(self, here, there):
        (self.folder / "job.toml").write_text(JOB.format(connections=4))
        script = SCRIPT.format(tombolo=BUILD / "tombolo", islands=PROGRAM, words_here=here, words_there=there)
        return self.run_islands(JOB.format(connections=4), "sh", "-c", script, cwd=self.folder, env=ENVIRONMENT)

    @unittest.skipUnless(clocks_can_differ(), "this user or kernel makes no time namespaces")
    def test_a_run_across_hosts(self):
        done = self.train("--credentials first", "--credentials second")
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        self.assertIn("3 steps", done.stdout)
        entries = [json.loads(line) for line in (self.folder / "run" / "trace.jsonl").read_text().splitlines()[1:]]
        sends = [entry for entry in entries if "SEND" in entry.get("action", "")]
        # 3 steps x 4 micro-batches x 3 boundaries x 2 directions; nothing lies a day away.
        self.assertEqual(len(sends), 3 * 4 * 3 * 2)
        for entry in entries:
            if "end_ns" in entry:
                self.assertLess(abs(entry["end_ns"]), 60_000_000_000)

    def test_without_certificates_nothing_leaves_the_host(self):
        done = self.train("--join-timeout 3", "--join-timeout 3")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("tombolo init", done.stderr)


if __name__ == "__main__":
    unittest.main()
