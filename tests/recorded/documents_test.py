#!/usr/bin/env python3
"""Documents cannot go stale: what they say a command prints is what it prints.

  documents_test.py [--installed] FILE.md ...   runs the `$ tombolo` commands of these documents that only compute, and compares

The program is that of the folder in TOMBOLO_BUILD, or with --installed the one on PATH. The commands of a document run in order in one empty folder that has
examples/. Below a command stands all that it writes to stdout. A line "..." is any number of lines left out, "..." within a line any
text; blanks count as one, and wall times as equal. A command with nothing below it has to succeed, and each decimal figure in its
comment (`# gain 1.537`) must be among what it prints. Of a run on islands, what was predicted must be what `tombolo simulate` says.
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
COMPUTES = {"astra", "convert", "estimate", "fabric", "plan", "report", "reproduce", "select", "simulate", "strand", "sweep", "traffic"}
ELSEWHERE = re.compile(r"(^|\s)(job\.toml|\.\.\.|PREFIX|run/\S+)(\s|$)")  # the reader's own files, and those of a run


def commands(text):
    """(line number, command, comment, lines below it) of every `$ tombolo` command in a fenced block."""
    for block in re.finditer(r"^```[a-z]*\n(.*?)^```", text, re.M | re.S):
        number = text.count("\n", 0, block.start(1)) + 1
        for part in re.split(r"^(?=\$ )", block.group(1), flags=re.M):
            typed = re.match(r"\$ (tombolo (?:[^\n]*\\\n)*[^\n]*)\n", part)
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


def finding(command, comment, shown, folder):
    """What is wrong with a command of a document, or None."""
    words = shlex.split(command)
    done = subprocess.run([program(), *words[1:]], capture_output=True, text=True, timeout=GUARD_S, cwd=folder,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    for figure in re.findall(r"\d+\.\d+", comment):
        if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", done.stdout):
            return f"{figure} of its comment is not among what it prints"
    printed = [plain(line) for line in done.stdout.splitlines() if line.strip()]
    shown = [line for line in shown if line.strip()]
    differs = first_difference(shown, printed) if shown else None
    return differs and "\n  shown:   {}\n  printed: {}".format(*differs)


def check(document):
    """Runs a document; returns how many of its commands ran and how many differ."""
    ran = differ = 0
    with tempfile.TemporaryDirectory(prefix="tombolo-documents-") as folder:
        os.symlink(ROOT / "examples", pathlib.Path(folder) / "examples")
        for number, command, comment, shown in commands((ROOT / document).read_text(encoding="utf-8")):
            if command.split()[1] not in COMPUTES or ELSEWHERE.search(command):
                continue
            ran += 1
            wrong = finding(command, comment, shown, folder)
            if wrong:
                differ += 1
                print(f"{document}:{number}: {command}: {wrong}")
    return ran, differ


def main(documents):
    counts = [check(document) for document in documents]
    ran, differ = (sum(column) for column in zip(*counts)) if counts else (0, 0)
    print(f"{ran} commands, {differ} differ")
    return 1 if differ or not ran else 0


if __name__ == "__main__":
    if not program():
        sys.exit("documents_test.py --installed: there is no tombolo on PATH")
    sys.exit(main([argument for argument in sys.argv[1:] if argument != "--installed"]))
