#!/usr/bin/env python3
"""What every command answers, recorded: an answer that changes, changes on purpose.

  answers_test.py NAME ...           runs these lines of commands.txt and compares with answers/NAME.txt
  answers_test.py                    runs all of them
  answers_test.py --update [NAME...] writes answers/ anew

The program is that of the build folder in TOMBOLO_BUILD. An answer is recorded whole, but for what no two runs have in common:
versions, dates, wall times, temporary folders, and what the commands called measured.* measured. Compared are its figures, not
its prose (figures.py): English can be mended without recording anything anew, and the last digits of a real may change.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import figures

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("TOMBOLO_BUILD", ROOT / "build" / "release")).resolve()
GUARD_S = 240  # a hang is a failure
EVERY_BYTE = " (every byte)"  # behind a name in commands.txt
FOLDED = re.compile(r"^(.*\n)\[the line above: (\d+) times in all\]\n", re.M)


def commands():
    """{name: (command line, whether every byte of its answer counts)} of commands.txt."""
    lines = (HERE / "commands.txt").read_text().splitlines()
    named = [line.split(": ", 1) for line in lines if line and not line.startswith("#")]
    return {name.removesuffix(EVERY_BYTE): (line, name.endswith(EVERY_BYTE)) for name, line in named}


def folded(text):
    """The text with runs of a hundred equal lines as one: what each of 8192 ranks takes, where all take the same."""
    return re.sub(r"^(.*\n)\1{99,}", lambda run: f"{run[1]}[the line above: {len(run[0]) // len(run[1])} times in all]\n", text, flags=re.M)


def unfolded(text):
    return FOLDED.sub(lambda run: run[1] * int(run[2]), text)


def masked(text, out, measured):
    """The text without what differs from run to run."""
    text = text.replace(str(out), "OUT").replace(str(BUILD), "BUILD")
    text = re.sub(r"\b\d+\.\d+\.\d+ \([0-9a-f]{7,}[^)]*\)", "VERSION", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\d \d\d:\d\d UTC", "DATE", text)
    text = re.sub(r'("wall_s":\s*)[-+.\de]+', r"\1WALL", text)
    text = re.sub(r'("placement_us":\s*\{)[^}]*', r"\1MEASURED", text)
    text = re.sub(r"(placement measured: ).*", r"\1MEASURED", text)
    if measured:
        text = re.sub(r'("(?!predicted)\w+":\s*)-?\d+\.[-+.\de]+', r"\1MEASURED", text)
        text = re.sub(r'("measured_\w+_ns":\s*)\d+', r"\1MEASURED", text)
        text = re.sub(r'("(?:cores|too_busy|realtime)":\s*)\w+', r"\1MACHINE", text)
        text = re.sub(r"^(?:metrics: |step |note: ).*\n", "", text, flags=re.M)
    return text


def run(arguments, out):
    words = [word.replace("OUT", str(out)) for word in shlex.split(arguments)]
    return subprocess.run([BUILD / "tombolo", *words], capture_output=True, text=True, timeout=GUARD_S, cwd=ROOT,
                          stdin=subprocess.DEVNULL)


def answer(name, line):
    """What is recorded of a line of commands.txt."""
    with tempfile.TemporaryDirectory(prefix="tombolo-answers-") as out:
        *before, last = line.split(" && ")
        for arguments in before:
            done = run(arguments, out)
            if done.returncode != 0:
                return f"tombolo {arguments}: exit code {done.returncode}\n{done.stderr}"
        done = run(last, out)
        stdout, stderr = (masked(text, out, name.startswith("measured.")) for text in (done.stdout, done.stderr))
    text = f"$ tombolo {line}\nexit code {done.returncode}\n{stdout}"
    return text if not stderr else f"{text}--- stderr\n{stderr}"


def main(arguments):
    known = commands()
    names = [name for name in arguments if name != "--update"]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"commands.txt has no {', '.join(unknown)}")
        return 2
    differ = 0
    for name in names or known:
        line, every_byte = known[name]
        path, now = HERE / "answers" / f"{name}.txt", answer(name, line)
        if "--update" in arguments:
            path.write_text(folded(now))
            continue
        then = unfolded(path.read_text()) if path.exists() else ""
        if differences := figures.differences(then, now, every_byte):
            differ += 1
            print("\n  ".join([f"{name}: tombolo {line}", *differences]))
    if not names and "--update" not in arguments:
        left = {path.stem for path in (HERE / "answers").glob("*.txt")} - set(known)
        differ += len(left)
        for name in sorted(left):
            print(f"answers/{name}.txt: commands.txt has no such name")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
