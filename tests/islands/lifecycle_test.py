"""What runs inside, what people are told, and that nothing stays behind."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

from emulator import GUARD_S, PROGRAM, Case, two_datacenters

NETWORK = re.compile(r"net:\[\d+\]")


def processes(word):
    """Process ids whose command line contains the word."""
    out = set()
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in file.read_bytes().decode(errors="replace"):
                out.add(int(file.parent.name))
        except OSError:
            pass
    return out - {os.getpid()}


def networks(pids=None):
    """Network namespaces that these processes are in or hold open (left out: all processes)."""
    places = [f"/proc/{pid}" for pid in pids] if pids is not None else pathlib.Path("/proc").glob("[0-9]*")
    out = set()
    for place in map(pathlib.Path, places):
        for link in [place / "ns/net", *(place / "fd").glob("*")]:
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if NETWORK.fullmatch(target):
                out.add(target)
    return out


def our_devices():
    """Devices of this machine that are called like those inside."""
    listed = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True).stdout
    return {line.split()[0] for line in listed.splitlines() if re.match(r"(wan0|lan0|switch|port\d+)\b", line)}


class NothingStays(Case):
    # The command leaves a process in a session of its own, which no signal to its group reaches.
    COMMAND = "setsid sleep 1000 & trap 'exit 5' INT; trap 'exit 6' TERM; echo ready; {}"

    def ends(self, how, ending, code):
        before = networks()
        file = self.write(two_datacenters(nodes=3))
        running = subprocess.Popen([PROGRAM, "run", file, "--", "sh", "-c", self.COMMAND.format(how)],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with running:
            self.assertEqual(running.stdout.readline(), "ready\n")
            inside = processes(str(file))
            self.assertEqual(len(inside), 2)  # the outer program and the first process of the room
            # Where nobody else makes namespaces meanwhile: 4 hosts, 2 switches.
            ours = networks(inside) - before
            self.assertGreaterEqual(len(ours), 6)
            ending(running, inside)
            self.assertEqual(running.wait(GUARD_S), code)
        deadline = time.monotonic() + 10  # the kernel takes namespaces down after their last process
        while time.monotonic() < deadline and (processes(str(file)) or ours & networks()):
            time.sleep(0.05)
        self.assertEqual(processes(str(file)), set())
        self.assertEqual(ours & networks(), set())
        self.assertEqual(our_devices(), set())

    def test_after_success(self):
        self.ends("sleep 0.5", lambda running, inside: None, 0)

    def test_after_a_failing_command(self):
        self.ends("sleep 0.5; exit 7", lambda running, inside: None, 7)

    def test_after_SIGINT_which_the_command_gets(self):
        self.ends("while :; do sleep 0.05; done", lambda running, inside: running.send_signal(signal.SIGINT), 5)

    def test_after_SIGTERM_which_the_command_gets(self):
        self.ends("while :; do sleep 0.05; done", lambda running, inside: running.send_signal(signal.SIGTERM), 6)

    def test_after_kill_9(self):
        self.ends("sleep 1000", lambda running, inside: running.kill(), -signal.SIGKILL)

    def test_after_kill_9_of_the_first_process_inside(self):
        def kill(running, inside):
            os.kill((inside - {running.pid}).pop(), signal.SIGKILL)
        self.ends("sleep 1000", kill, 1)


class Inside(Case):
    def test_hosts_have_names_and_addresses(self):
        out = self.inside(two_datacenters(nodes=2), "sh", "-c", "hostname; getent hosts paris-0; ip -4 -br address")
        self.assertTrue(out.startswith("oregon-0\n"), out)
        self.assertIn("10.77.2.1", out)
        self.assertIn("10.77.1.1/24", out)

    def test_nothing_leads_out_of_the_machine(self):
        out = self.inside(two_datacenters(), "ip", "route", "show", "default")
        self.assertEqual(out, "")

    def test_each_runs_on_every_host_and_fails_where_one_fails(self):
        done = self.run_islands(two_datacenters(nodes=2), "sh", "-c", "echo $TOMBOLO_HOST; test $TOMBOLO_HOST != oregon-1",
                                options=("--each",))
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["oregon-0: oregon-0", "oregon-1: oregon-1", "paris-0: paris-0"])
        self.assertEqual(done.returncode, 1)

    def test_a_host_can_be_chosen(self):
        self.assertEqual(self.inside(two_datacenters(), "hostname", options=("--host", "paris-0")), "paris-0\n")

    def test_exec_gives_its_words_to_a_shell_there(self):
        out = self.inside(two_datacenters(), "tombolo-islands", "exec", "paris-0", "echo", "$TOMBOLO_HOST;", "hostname")
        self.assertEqual(out, "paris-0\nparis-0\n")

    def test_exec_passes_the_exit_code_on(self):
        self.assertEqual(self.run_islands(two_datacenters(), "tombolo-islands", "exec", "10.77.2.1", "exit 9").returncode, 9)

    def test_a_command_that_is_not_there(self):
        done = self.run_islands(two_datacenters(), "no-such-command")
        self.assertEqual(done.returncode, 127)
        self.assertIn("no-such-command", done.stderr)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_mpirun_starts_ranks_through_exec(self):
        out = self.inside(two_datacenters(), "mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent",
                          "tombolo-islands exec", "--host", "oregon-0,paris-0", "-n", "2", "sh", "-c",
                          "echo $TOMBOLO_HOST")
        self.assertEqual(sorted(out.split()), ["oregon-0", "paris-0"])

    def test_wanem_says_what_there_is_and_ends_on_SIGINT(self):
        file = self.write(two_datacenters(tcp_window="3 MB"))
        running = subprocess.Popen([PROGRAM, "wanem", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with running:
            seen = ""
            while "SIGHUP" not in seen:
                line = running.stdout.readline()
                self.assertTrue(line, seen)
                seen += line
            for words in ("paris-0", "10.77.2.1", "10 ms one way", "TCP window 3 MB", "net.ipv4.tcp_rmem",
                          "tc netem in this kernel"):
                self.assertIn(words, seen)
            entering = re.search(r"paris-0 .*(nsenter .*)", seen).group(1).split()
            address = subprocess.run([*entering, "ip", "-4", "-br", "address"], capture_output=True, text=True).stdout
            self.assertIn("10.77.2.1/24", address)
            running.send_signal(signal.SIGUSR1)
            self.assertIn("nothing has crossed", running.stderr.readline())
            running.send_signal(signal.SIGINT)
            self.assertEqual(running.wait(GUARD_S), 0)


class Refusals(Case):
    privileged = False

    def refused(self, words, cluster, *command, **more):
        done = self.run_islands(cluster, *(command or ("true",)), **more)
        self.assertEqual(done.returncode, 2, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_too_many_hosts(self):
        self.refused(["65 nodes", "64"], two_datacenters(nodes=64))

    def test_a_datacenter_without_a_link(self):
        alone = '[[datacenter]]\nname = "tokyo"\ndevice = "emulated:a100-80g"\n'
        self.refused(["tokyo", "no WAN link"], alone + two_datacenters())

    def test_a_link_to_an_unknown_datacenter(self):
        self.refused(["atlantis"], two_datacenters().replace('"paris"]', '"atlantis"]'))

    def test_no_command(self):
        done = subprocess.run([PROGRAM, "run", self.write(two_datacenters())], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no command", done.stderr)

    def test_exec_outside(self):
        done = subprocess.run([PROGRAM, "exec", "paris-0", "true"], capture_output=True, text=True,
                              env={key: value for key, value in os.environ.items() if key != "TOMBOLO_ISLANDS"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("TOMBOLO_ISLANDS", done.stderr)

    def test_without_privileges(self):
        become = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
        os.chmod(self.folder, 0o755)
        file = self.write(two_datacenters())
        try:
            done = subprocess.run([PROGRAM, "run", file, "--", "true"], capture_output=True, text=True, **become)
        except PermissionError:
            self.skipTest("the build folder is not open to other users")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("CAP_NET_ADMIN", done.stderr)
        self.assertIn("try", done.stderr)


class UnknownHost(Case):
    def test_is_refused_with_the_hosts_there_are(self):
        done = self.run_islands(two_datacenters(), "true", options=("--host", "oslo-0"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("oslo-0", done.stderr)
        self.assertIn("oregon-0 paris-0", done.stderr)


if __name__ == "__main__":
    unittest.main()
