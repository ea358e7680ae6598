"""What `cmake --install` copies, and that it works where it was copied to: the build tree is not needed any more."""
import gzip
import os
import shutil
import subprocess
import unittest

from program import BUILD, GUARD_S, ROOT, TWO_EMULATED, Case

COMPONENTS = ["tombolo", "tombolo-worker", "tombolo-islands"]
FILES = {
    "tombolo": ["bin/tombolo", "share/man/man1/tombolo.1.gz", "share/bash-completion/completions/tombolo",
                "share/fish/vendor_completions.d/tombolo.fish", "share/doc/tombolo/LICENSE", "share/doc/tombolo/copyright",
                "share/doc/tombolo/README.md", "share/doc/tombolo/docs/guide/planning.md", "share/doc/tombolo/docs/images/report.png",
                "share/doc/tombolo/examples/toy/job.toml"],
    "tombolo-worker": ["bin/tombolo-worker", "lib/systemd/system/tombolo-rank@.service", "share/doc/tombolo-worker/copyright"],
    "tombolo-islands": ["bin/tombolo-islands", "share/doc/tombolo-islands/copyright"],
}


@unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
@unittest.skipUnless((BUILD / "cmake_install.cmake").exists(), f"{BUILD} is no build tree: its programs were installed already")
class Install(Case):
    def install(self, *arguments, root=None):
        """Installs, below the folder `root` as a packager does."""
        done = subprocess.run(["cmake", "--install", str(BUILD), *map(str, arguments)], capture_output=True, text=True, timeout=GUARD_S,
                              env=os.environ | ({"DESTDIR": str(root)} if root else {}))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def files(self, folder):
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}

    def run_installed(self, program, *arguments):
        done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=GUARD_S, cwd=self.folder,
                              stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)})
        self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_a_packager_gets_every_file_below_destdir(self):
        root = self.folder / "root"
        self.install("--prefix", "/usr", root=root)
        self.assertEqual([path.name for path in root.iterdir()], ["usr"])
        here = self.files(root / "usr")
        self.assertEqual([name for names in FILES.values() for name in names if name not in here], [])
        self.assertIn("share/zsh/vendor-completions/_tombolo", here)
        # Every document and every example, those that git does not know aside.
        for folder in ("docs", "examples"):
            wanted = {f"share/doc/tombolo/{folder}/{name}" for name in self.files(ROOT / folder)}
            self.assertEqual(wanted - here, set())
        # No text names the folder of this test or the build tree, and the unit starts what was installed.
        for name in here:
            compiled = name.startswith("bin/") or name.endswith(".so")
            text = b"" if compiled else (root / "usr" / name).read_bytes()
            self.assertNotIn(str(self.folder).encode(), text, name)
            self.assertNotIn(str(BUILD).encode(), text, name)
        unit = (root / "usr/lib/systemd/system/tombolo-rank@.service").read_text()
        self.assertRegex(unit, r"(?m)^ExecStart=/usr/bin/tombolo train ")

    def test_the_installed_programs_find_each_other(self):
        prefix = self.folder / "with a blank"
        self.install("--prefix", prefix)
        tombolo = prefix / "bin" / "tombolo"
        self.assertEqual(self.run_installed(tombolo, "--version"), self.ok("--version"))
        examples = prefix / "share/doc/tombolo/examples"
        toy = self.run_installed(tombolo, "simulate", examples / "toy" / "job.toml", "--ascii")
        self.assertEqual(toy, self.ok("simulate", ROOT / "examples/toy/job.toml", "--ascii"))
        doctor = self.run_installed(tombolo, "doctor")
        self.assertIn(f"ok       {prefix}/bin/tombolo-worker", doctor)
        # It starts the worker next to itself.
        job = self.write("job.toml", TWO_EMULATED)
        self.assertIn("emulated  iteration", self.run_installed(tombolo, "train", job, "--out", "run"))
        self.assertTrue((prefix / "share/zsh/site-functions/_tombolo").exists())
        unit = (prefix / "lib/systemd/system/tombolo-rank@.service").read_text()
        self.assertIn(f'ExecStart="{prefix}/bin/tombolo" train ', unit)

    def test_each_file_is_of_one_component(self):
        seen = {}
        for component in COMPONENTS:
            root = self.folder / component
            self.install("--prefix", "/usr", "--component", component, root=root)
            files = self.files(root / "usr")
            self.assertEqual([name for name in FILES[component] if name not in files], [])
            for name in files:
                self.assertNotIn(name, seen, f"{name} is in {seen.get(name)} and in {component}")
                seen[name] = component
        programs = {name: component for name, component in seen.items() if name.startswith("bin/")}
        self.assertEqual(programs, {f"bin/{component}": component for component in COMPONENTS})

    def test_the_manual_and_the_completion_are_those_of_the_program(self):
        root = self.folder / "root"
        self.install("--prefix", "/usr", "--component", "tombolo", root=root)
        share = root / "usr" / "share"
        page = gzip.decompress((share / "man/man1/tombolo.1.gz").read_bytes()).decode()
        self.assertEqual(page, self.ok("help", "--man"))
        for shell, name in (("bash", "bash-completion/completions/tombolo"), ("zsh", "zsh/vendor-completions/_tombolo"),
                            ("fish", "fish/vendor_completions.d/tombolo.fish")):
            self.assertEqual((share / name).read_text(), self.ok("completion", shell))


class Alone(Case):
    def test_tombolo_without_a_worker_names_the_package_to_install(self):
        alone = self.folder / "bin"
        alone.mkdir()
        shutil.copy2(BUILD / "tombolo", alone)
        job = self.write("job.toml", TWO_EMULATED)
        done = subprocess.run([alone / "tombolo", "train", job, "--out", "run"], capture_output=True, text=True, timeout=GUARD_S,
                              cwd=self.folder, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"{alone}/tombolo-worker: there is no such program", done.stderr)
        self.assertIn("the package tombolo-worker", done.stderr)


if __name__ == "__main__":
    unittest.main()
