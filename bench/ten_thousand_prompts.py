#!/usr/bin/env python3
"""Whether memory stays flat under full load: many prompts, always as many at once as are allowed.

  bench/ten_thousand_prompts.py --build build/swift [--requests 10000] [--clients 8] [--decode]

Clients ask for 1 to 8 tokens behind prompts of 1 to 60, half of them as streams, and one in twenty leaves in between. The model is that
of tests/end_to_end/prefill_test.py. Prints the resident memory of all processes, by name, after every tenth; --decode lets a decode
worker finish the answers.
"""
import argparse
import collections
import json
import os
import pathlib
import socket
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "torch")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--decode", action="store_true")
    options = parser.parse_args()
    os.environ |= {"TOMBOLO_BUILD": str(options.build.resolve()), "TOMBOLO_TORCH": "1"}
    sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))
    import prefill_test

    class Bench(prefill_test.DecodingCase):
        def leave(self, body):
            """Sends a question, reads the beginning of the answer, and is gone."""
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                client.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
                client.recv(100)

        def many(self, mine, statuses, turns):
            while (i := next(turns, None)) is not None:
                body = json.dumps({"model": "weights", "prompt": "x" * (1 + i % 60), "max_tokens": 1 + i % 8, "stream": i % 2 == 0})
                if i % 20 == 7:
                    self.leave(body)
                    statuses[mine]["left"] += 1
                else:
                    statuses[mine][self.ask("/v1/completions", body)[0]] += 1

        def resident(self, pids):
            return {name: sum(int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 for pid in own) / 1e6
                    for name, own in pids.items()}

        def runTest(self):
            words = self.start_decoder() if options.decode else []
            self.start(*words, "--requests", options.clients)
            pids = {"front": [self.server.pid], "worker": self.children()}
            if options.decode:
                pids |= {"decode": [self.decoder.pid], "decode worker": self.decoder_pids()}
            statuses = [collections.Counter() for _ in range(options.clients)]
            begin, tenth = time.monotonic(), options.requests // 10
            for part in range(10):
                turns = iter(range(part * tenth, (part + 1) * tenth))  # next() of a range's is one step of the interpreter
                clients = [threading.Thread(target=self.many, args=(i, statuses, turns)) for i in range(options.clients)]
                for client in clients:
                    client.start()
                for client in clients:
                    client.join()
                memory = self.resident(pids)
                print(f"{(part + 1) * tenth:6} prompts, {time.monotonic() - begin:5.0f} s: {sum(memory.values()):6.1f} MB "
                      f"({', '.join(f'{name} {mb:.1f}' for name, mb in memory.items())})", flush=True)
            total = sum(statuses, collections.Counter())
            print(f"answers by status: {dict(total)}")
            self.assertLessEqual(set(total), {200, 429, "left"})
            self.assertGreater(total[200], 0.8 * options.requests)
            self.assertIn("requests_running 0", self.ask("/metrics")[2])

    import unittest
    result = unittest.TextTestRunner(verbosity=0).run(Bench())
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
