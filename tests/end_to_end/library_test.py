"""The library as somebody finds it who has installed it: examples/library, built far from this tree, says what the commands say."""
import json
import os
import re
import shutil
import subprocess
import unittest

from program import BUILD, GUARD_S, ROOT, Case

INSTALLS = BUILD / "cmake_install.cmake"
SETTINGS = {"preferred-dataset-splits": 4, "active-chunks-per-dimension": 4, "all-reduce-implementation": ["ring", "halvingDoubling"]}
NETWORK = "topology: [ Ring, Switch ]\nnpus_count: [ 8, 8 ]\nbandwidth: [ 50.0, 25.0 ]\nlatency: [ 500.0, 1000.0 ]\n"


@unittest.skipUnless(shutil.which("cmake") and shutil.which("pkg-config"), "cmake or pkg-config is not installed")
@unittest.skipUnless(INSTALLS.exists() and '"library"' in INSTALLS.read_text(), f"{BUILD} is no build tree with a library")
class Library(Case):
    def run_there(self, *words, code=0):
        """A command in the folder of the test, which knows nothing of this tree."""
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=GUARD_S, cwd=self.folder, stdin=subprocess.DEVNULL,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.folder)})
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def test_programs_are_built_upon_what_is_installed(self):
        self.guide = (ROOT / "docs" / "guide" / "library.md").read_text()
        prefix = self.folder / "with a blank"
        self.run_there("cmake", "--install", BUILD, "--component", "library", "--prefix", prefix)
        shutil.copytree(ROOT / "examples" / "library", self.folder / "mine")
        self.run_there("cmake", "-S", "mine", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix}")
        self.run_there("cmake", "--build", "build")
        with self.subTest("own_schedule"):
            self.check_own_schedule()
        with self.subTest("own_law"):
            self.check_own_law()
        with self.subTest("planner_loop"):
            self.check_planner_loop()
        with self.subTest("headers"):
            self.check_headers(prefix)
        with self.subTest("version"):
            self.write("mine/CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(later LANGUAGES CXX)\nfind_package(Tombolo 9 REQUIRED)\n")
            refusal = self.run_there("cmake", "-S", "mine", "-B", "later", f"-DCMAKE_PREFIX_PATH={prefix}", code=1)
            self.assertIn('compatible with requested version "9"', " ".join(refusal.split()))

    def check_own_schedule(self):
        job = ROOT / "examples" / "toy" / "job.toml"
        printed = self.run_there("build/own_schedule", job, "plan.json")
        self.assertIn(printed, self.guide)
        times = dict(re.findall(r"^(\S.*?)  +(\d+) ns", printed, re.M))
        self.assertEqual(int(times["1f1b"]), self.json("simulate", job, "--policy", "1f1b")["iteration_ns"])
        self.assertEqual(times["eager 1F1B, 0 extra"], times["1f1b"])
        # The Plan that it wrote carries the schedule: gradients have work to travel behind.
        self.assertEqual(int(times["eager 1F1B, 2 extra"]), self.json("simulate", "plan.json")["iteration_ns"])
        self.assertLess(int(times["eager 1F1B, 2 extra"]), int(times["1f1b"]))

    def check_own_law(self):
        printed = self.run_there("build/own_law")
        self.assertIn(printed, self.guide)
        times = {name: int(ns) for name, ns in re.findall(r"^(\S.*?)  +(\d+) ns", printed, re.M)}
        files = ["--spmd", f"--workload-configuration={ROOT}/data/astra-sim/micro/all_reduce-8npus-1MB/all_reduce",
                 f"--system-configuration={self.write('system.json', json.dumps(SETTINGS))}",
                 f"--network-configuration={self.write('network.yml', NETWORK)}"]
        for law in ("analytical", "congestion"):
            self.assertEqual(times[law], self.json("astra", *files, f"--law={law}")["finish_ns"])
        self.assertEqual(times["packets, 0 ns a header"], times["congestion"])
        # Headers on the way of the last message: as many at 20 ns as at 100.
        longer = {ns: times[f"packets, {ns} ns a header"] - times["congestion"] for ns in (20, 100)}
        self.assertGreater(longer[20], 0)
        self.assertEqual(longer[100], 5 * longer[20])

    def check_planner_loop(self):
        folder = ROOT / "examples" / "planning" / "llama3-70b"
        printed = self.run_there("build/planner_loop", folder / "job.toml")
        self.assertIn(printed, self.guide)
        rows = re.findall(r"^ *(\d+) Gbps +(\S+) s +(\d+) .*  (tensor .*)$", printed, re.M)
        self.assertEqual([row[0] for row in rows], ["400", "100", "25"])
        shutil.copytree(folder, self.folder / "job")
        cluster = (folder / "cluster.toml").read_text()
        for gbps, iteration_s, tokens_per_s, layout in rows:
            self.write("job/cluster.toml", cluster.replace('scale_out = { bandwidth = "400 Gbps"', f'scale_out = {{ bandwidth = "{gbps} Gbps"'))
            best = self.json("plan", "job/job.toml")["best"]
            self.assertEqual((iteration_s, tokens_per_s), (f"{best['iteration_s']:.6f}", f"{best['throughput']:.0f}"), gbps)
            self.assertIn(f"tensor {best['parallelism']['tensor']}, pipeline {best['parallelism']['pipeline']}, ", layout)

    def check_headers(self, prefix):
        """All of them can be included, and together."""
        (headers,) = (prefix / "include").iterdir()
        names = sorted(str(path.relative_to(headers)) for path in headers.rglob("*.h"))
        self.assertIn("tombolo/predict/astra/message_law.h", names)
        self.write("all.cc", "".join(f"#include <{name}>\n" for name in names))
        self.run_there(os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", "-I", headers, "all.cc")


if __name__ == "__main__":
    unittest.main()
