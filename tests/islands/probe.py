"""Measures the WAN between the first and the last host, from inside: prints one line of JSON.

  probe.py rtt COUNT                  round trips of small UDP packets, in ms
  probe.py rate SECONDS               what one TCP connection carries in steady state, Mbps of payload
  probe.py loss COUNT                 which of so many UDP packets arrive
  probe.py watch                      the round trip in ms, a line every 50 ms, until killed

Both ends are sockets of this one process: a socket stays in the network namespace where it was made. So nothing
has to be coordinated, and a one-way trip is measured with one clock.
"""
import ctypes
import json
import os
import socket
import sys
import threading
import time

HOSTS = json.loads(os.environ["TOMBOLO_ISLANDS"])["hosts"]
HERE, THERE = HOSTS[0], HOSTS[-1]
LIBC = ctypes.CDLL(None, use_errno=True)


def make_there(make):
    """make() in the namespace of the last host."""
    with open("/proc/thread-self/ns/net") as home, open(THERE["network_namespace"]) as there:
        assert LIBC.setns(there.fileno(), 0) == 0, os.strerror(ctypes.get_errno())
        try:
            return make()
        finally:
            LIBC.setns(home.fileno(), 0)


def udp_pair():
    def bound(host):
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        end.bind((host["address"], 0))
        end.settimeout(5)
        return end
    here, there = bound(HERE), make_there(lambda: bound(THERE))
    here.connect(there.getsockname())
    there.connect(here.getsockname())
    return here, there


def tcp_pair():
    door = make_there(lambda: socket.create_server((THERE["address"], 0)))
    here = socket.socket()
    here.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    here.connect(door.getsockname())
    return here, door.accept()[0]


def round_trip_ms(here, there):
    start = time.monotonic()
    here.send(b"ping")
    there.recv(16)
    there.send(b"pong")
    here.recv(16)
    return (time.monotonic() - start) * 1e3


def rtt(count):
    here, there = udp_pair()
    return {"rtt_ms": sorted(round_trip_ms(here, there) for _ in range(int(count)))}


def rate(seconds):
    """From a second after the first byte, when the window has opened, for so long."""
    here, there = tcp_pair()
    stop = threading.Event()

    def send():
        block = bytes(1 << 20)
        while not stop.is_set():
            here.sendall(block)

    threading.Thread(target=send, daemon=True).start()
    buffer = bytearray(1 << 20)

    def receive_until(end):
        total = 0
        while True:
            got = there.recv_into(buffer)
            total += got
            now = time.monotonic()
            if now >= end:
                return total, now

    _, start = receive_until(time.monotonic() + 1)
    total, end = receive_until(start + float(seconds))
    stop.set()
    return {"payload_mbps": total * 8e-6 / (end - start)}


def loss(count):
    """The numbers of the packets that did not arrive."""
    here, there = udp_pair()
    there.setblocking(False)
    missing = set(range(int(count)))

    def drain():
        try:
            while True:
                missing.discard(int(there.recv(16)))
        except BlockingIOError:
            pass

    for number in range(int(count)):
        here.send(str(number).encode())
        if number % 50 == 49:  # never more on the way than buffers hold
            time.sleep(0.001)
            drain()
    time.sleep(0.3)
    drain()
    return {"missing": sorted(missing)}


def watch():
    here, there = udp_pair()
    while True:
        print(round_trip_ms(here, there), flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    try:  # below the emulator, above the rest: how long we wait for a core is not what is asked
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except OSError:
        pass
    print(json.dumps({"rtt": rtt, "rate": rate, "loss": loss, "watch": watch}[sys.argv[1]](*sys.argv[2:])))
    sys.stdout.flush()
    os._exit(0)  # a sender may still be blocked
