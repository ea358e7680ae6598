"""A Slurm of one node, for a test: its own munge, controller and node daemon, on ports of its own, all of them children
of the test and gone at its end. Needs root and the packages slurm-wlm and munge.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from ports import free_ports

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerType=sched/builtin
SelectType=select/linear
KillWait=5
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
"""


def missing():
    """Why Slurm cannot be started here; empty where it can."""
    programs = ["munged", "slurmctld", "slurmd", "srun"]
    absent = [name for name in programs if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if absent:
        return f"not installed: {', '.join(absent)} (packages slurm-wlm and munge)"
    return "" if os.geteuid() == 0 else "starting munged and slurmd needs root"


class Slurm:
    def __init__(self):
        # The sockets' path must be short, and open to the daemons whatever their user.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tombolo-slurm-"))
        self.folder.chmod(0o755)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.host = socket.gethostname().split(".")[0]
        file = self.folder / "slurm.conf"
        file.write_text(CONFIGURATION.format(host=self.host, folder=self.folder, controller_port=free_ports(),
                                             node_port=free_ports()))
        self.environment = dict(os.environ, SLURM_CONF=str(file), PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
        self.daemons = []

    def start(self, guard_s=60):
        """Returns why it did not come up; empty where it did."""
        at = self.folder
        self.daemon("munged", "--foreground", "--force", f"--key-file={at}/munge.key", f"--socket={at}/munge.socket",
                    f"--pid-file={at}/munged.pid", f"--log-file={at}/munged.txt", f"--seed-file={at}/munged.seed")
        self.wait(lambda: (at / "munge.socket").exists(), guard_s)
        self.daemon("slurmctld", "-D", "-f", str(at / "slurm.conf"))
        self.daemon("slurmd", "-D", "-f", str(at / "slurm.conf"), "-N", self.host)
        if self.wait(lambda: self.state().startswith("idle"), guard_s):
            return ""
        return f"its node did not become idle within {guard_s} s: {self.state() or self.log('slurmctld')}"

    def state(self):
        done = subprocess.run(["sinfo", "--noheader", "--format=%T"], env=self.environment, capture_output=True,
                              text=True, stdin=subprocess.DEVNULL)
        return done.stdout.strip()

    def log(self, program):
        return (self.folder / f"{program}.log").read_text()[-500:]

    def wait(self, is_there, guard_s):
        end = time.monotonic() + guard_s
        while time.monotonic() < end:
            if is_there():
                return True
            if any(daemon.poll() is not None for daemon in self.daemons):
                return False
            time.sleep(0.1)
        return False

    def daemon(self, program, *arguments):
        with open(self.folder / f"{program}.log", "w") as log:
            self.daemons.append(subprocess.Popen([program, *arguments], env=self.environment, stdout=log,
                                                 stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL))

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
