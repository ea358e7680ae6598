"""Ports that a test names before the program listens there."""
import pathlib
import random
import socket

EPHEMERAL = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
_claims = []  # held until this process ends


def free_ports(count=1):
    """The first of `count` neighbouring ports of loopback that nobody takes before the caller's programs do.

    A port that the kernel chose and that was closed again may become that of anyone's next call. These lie where it chooses none, and
    no other test is given the same.
    """
    end = min(int(EPHEMERAL.read_text().split()[0]), 32768)
    while True:
        first = random.randrange(10000, end - count)
        claims = [claim(port) for port in range(first, first + count)]
        if all(claims):
            _claims.extend(claims)
            return first
        for each in filter(None, claims):
            each.close()


def claim(port):
    """A socket that other tests find taken; None where one has it, or where a program listens at the port."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0tombolo-test-port-{port}")  # abstract: of this network namespace, gone with the process
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
        return name
    except OSError:
        name.close()
        return None
