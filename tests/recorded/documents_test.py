#!/usr/bin/env python3
"""Documents cannot go stale: what they say a command prints is what it prints.

  documents_test.py [--installed] FILE.md ...             runs the `$ tombolo` commands of these documents that only compute, and compares
  documents_test.py [--installed] --perform FILE.md ...   also runs those that train, measure or emulate, and names those that it leaves out

The program is that of the folder in TOMBOLO_BUILD, or with --installed the one on PATH. The commands of a document run in order in one empty folder that has
examples/. Below a command stands all that it writes to stdout. A line "..." is any number of lines left out, "..." within a line any
text; blanks count as one, and wall times as equal. A command with nothing below it has to succeed, and each decimal figure in its
comment (`# gain 1.537`) must be among what it prints. Of a run on islands, what was predicted must be what `tombolo simulate` says.

With --perform the folder also has tools/, LICENSE and the text that demo.sh left in run/. What trains, measures or emulates has to succeed, whatever it
measures; `tools/islands` wants root. Left out are other programs, and commands upon files that only the reader has.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TOMBOLO_BUILD", ROOT / "build" / "release")).resolve()
GUARD_S = 240  # a hang is a failure
PERFORM_GUARD_S = 3600  # training, on a machine that does other work as well
PERFORM = "--perform" in sys.argv
COMPUTES = {"astra", "convert", "estimate", "fabric", "plan", "report", "reproduce", "select", "simulate", "strand", "sweep", "traffic"}
READERS_OWN = re.compile(r"(^|\s)(job\.toml|\.\.\.|PREFIX|checkpoints|my-model|tokenizer\.json)(\s|$)")
OF_A_RUN = re.compile(r"(^|\s)run/\S+(\s|$)")


def commands(text):
    """(line number, command, comment, lines below it) of every command in a fenced block."""
    for block in re.finditer(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S):
        number = text.count("\n", 0, block.start(1)) + 1
        for part in re.split(r"^(?=\$ )", block.group(1), flags=re.M):
            typed = re.match(r"\$ ((?:[^\n]*\\\n)*[^\n]*)\n", part)
            if typed:
                command, _, comment = typed.group(1).replace("\\\n", " ").partition(" # ")
                yield number, " ".join(command.split()), comment, part[typed.end():].splitlines()
            performed = re.match(r"\$ tools/islands \S+ -- tombolo train (examples/\S+)", part)
            predicted = re.findall(r"^predicted iteration: .*", part, re.M)
            if performed and predicted:
                yield number, f"tombolo simulate {performed.group(1)}", "", ["...", *predicted, "..."]
            number += part.count("\n")


def plain(line):
    line = re.sub(r"\b(configurations|settings|layouts simulated) in [\d.]+ m?s\b", r"\1 in WALL", line)
    return " ".join(line.split())


def matches(shown, printed):
    parts = [re.escape(part.strip()) for part in shown.split("...")]
    return re.fullmatch(".*".join(parts), printed) is not None


def first_difference(shown, printed):
    """(line shown, line printed) where they part, or None. A line "..." skips to the next line that matches what follows it."""
    at, skipping = 0, False
    for line in (plain(line) for line in shown):
        if line == "...":
            skipping = True
            continue
        found = next((i for i in range(at, len(printed)) if matches(line, printed[i])), None) if skipping else at
        if found is None or found >= len(printed) or not matches(line, printed[found]):
            later = any(matches(line, other) for other in printed[at:])
            return line, f"{printed[at]} (before it: add a line ...)" if later else nearest(line, printed[at:])
        at, skipping = found + 1, False
    return None if skipping or at == len(printed) else ("(nothing more: say so by ...)", printed[at])


def nearest(line, printed):
    """The printed line that shares most words with this one."""
    words = set(line.split())
    return max(printed, key=lambda other: len(words & set(other.split())), default="(nothing)")


def program():
    return shutil.which("tombolo") if "--installed" in sys.argv else BUILD / "tombolo"


def computes(command):
    words = command.split()
    return words[:1] == ["tombolo"] and words[1:2] and words[1] in COMPUTES and not READERS_OWN.search(command) and not OF_A_RUN.search(command)


BY_MEASUREMENT = re.compile(r"--overlap |--profile run/")


def performs(command):
    return command.split()[:1] in (["tombolo"], ["tools/islands"]) and not READERS_OWN.search(command)


def run(command, folder, guard_s):
    tombolo = pathlib.Path(program())
    words = [str(tombolo) if word == "tombolo" else word for word in shlex.split(command)]
    # tools/islands takes its own program from there.
    return subprocess.run(words, capture_output=True, text=True, timeout=guard_s, cwd=folder, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, TOMBOLO_BUILD=str(tombolo.parent)))


def failure(command, folder):
    """How a command of a document that performs fails, or None."""
    done = run(command, folder, PERFORM_GUARD_S)
    # What was measured here may say that nothing is gained.
    fine = (0, 3) if BY_MEASUREMENT.search(command) else (0,)
    return None if done.returncode in fine else f"exit code {done.returncode}: {done.stderr.strip()}"


def finding(command, comment, shown, folder):
    """What is wrong with what a command of a document prints, or None."""
    done = run(command, folder, GUARD_S)
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    for figure in re.findall(r"\d+\.\d+", comment):
        if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", done.stdout):
            return f"{figure} of its comment is not among what it prints"
    printed = [plain(line) for line in done.stdout.splitlines() if line.strip()]
    shown = [line for line in shown if line.strip()]
    differs = first_difference(shown, printed) if shown else None
    return differs and "\n  shown:   {}\n  printed: {}".format(*differs)


def or_time_out(find, *arguments):
    try:
        return find(*arguments)
    except subprocess.TimeoutExpired as hang:
        return f"not over after {hang.timeout:.0f} s"


def check(document):
    """Runs a document; returns how many of its commands ran and how many differ."""
    ran = differ = 0
    with tempfile.TemporaryDirectory(prefix="tombolo-documents-") as folder:
        os.symlink(ROOT / "examples", pathlib.Path(folder) / "examples")
        if PERFORM:
            os.symlink(ROOT / "tools", pathlib.Path(folder) / "tools")
            os.symlink(ROOT / "LICENSE", pathlib.Path(folder) / "LICENSE")
            os.mkdir(pathlib.Path(folder) / "run")
            os.symlink(ROOT / "run" / "corpus.txt", pathlib.Path(folder) / "run" / "corpus.txt")
        for number, command, comment, shown in commands((ROOT / document).read_text(encoding="utf-8")):
            if computes(command):
                wrong = or_time_out(finding, command, comment, shown, folder)
            elif PERFORM and performs(command):
                wrong = or_time_out(failure, command, folder)
            else:
                if PERFORM:
                    print(f"{document}:{number}: left out: {command}")
                continue
            ran += 1
            if wrong:
                differ += 1
                print(f"{document}:{number}: {command}: {wrong}", flush=True)
    return ran, differ


def main(documents):
    counts = [check(document) for document in documents]
    ran, differ = (sum(column) for column in zip(*counts)) if counts else (0, 0)
    print(f"{ran} commands, {differ} differ")
    return 1 if differ or not ran else 0


if __name__ == "__main__":
    if not program():
        sys.exit("documents_test.py --installed: there is no tombolo on PATH")
    sys.exit(main([argument for argument in sys.argv[1:] if argument not in ("--installed", "--perform")]))
