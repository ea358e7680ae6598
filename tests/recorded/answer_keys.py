#!/usr/bin/env python3
"""The reference of JSON answers: keys and types from the recorded answers, what they mean from answer_keys.txt.

  answer_keys.py            compares docs/reference/answers.md, and holds keys and meanings against each other
  answer_keys.py --update   writes it
"""
import collections
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parents[1] / "docs" / "reference" / "answers.md"
EVERY = "every command"
FOLDED = re.compile(r"^(.*\n)\[the line above: \d+ times in all\]\n", re.M)
MASKED = "?"  # a number that no two runs have in common
FOREIGN = "machine"  # what depends on the machine
UNITS = {"_bytes_per_s": "bytes per second", "_per_s": "per second", "_ns": "nanoseconds", "_us": "microseconds", "_s": "seconds",
         "_bytes": "bytes", "_usd": "USD"}


def answers():
    """(command, answer) of every recorded JSON document."""
    for path in sorted((HERE / "answers").glob("*.txt")):
        head, _, body = path.read_text().partition("\nexit code ")
        words = head.splitlines()[0].removeprefix("$ tombolo ").split(" && ")[-1].removeprefix("tombolo ").split()
        if "--json" not in words:
            continue
        body = FOLDED.sub(r"\1", body.partition("\n")[2].partition("--- stderr\n")[0])
        body = re.sub(r"\{\s*MEASURED\s*\}?", "{}", body)
        body = re.sub(r"\b(WALL|MEASURED)\b", f'"{MASKED}"', body)
        body = re.sub(r"\bMACHINE\b", f'"{FOREIGN}"', body)
        if body.strip():
            yield words[0], json.loads(body)


def walk(value, path, types):
    if isinstance(value, dict):
        for key, below in value.items():
            step = (*path, key)
            types[step].add(kind(below))
            walk(below, step, types)
    elif isinstance(value, list):
        for below in value:
            if not isinstance(below, dict):
                types[path].add(f"list of {kind(below)}")
            walk(below, (*path[:-1], path[-1] + "[]"), types)


def kind(value):
    if value in (MASKED, FOREIGN):
        return "number" if value == MASKED else FOREIGN
    return {dict: "object", list: "list", str: "text", bool: "true or false", int: "whole number", float: "number",
            type(None): "null"}[type(value)]


def type_text(types, name):
    """"number in seconds, or null"."""
    kinds = set(types)
    if "number" in kinds:
        kinds.discard("whole number")
    if len(kinds) > 1:
        kinds.discard(FOREIGN)
    if any(each.startswith("list of ") for each in kinds):
        kinds.discard("list")
    null = "null" in kinds
    text = " or ".join(sorted(kinds - {"null"})) or "null"
    unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), None)
    unit = unit or ("bytes" if name.startswith("bytes") else None)
    text = text.replace(FOREIGN, "as the machine is")
    text += f", {unit}" if unit and "number" in text else ""
    return text + (", or null" if null and text != "null" else "")


def meanings():
    """{command: [(pattern, regex, meaning)]} in the order of answer_keys.txt."""
    out, section = {}, None
    for line in (HERE / "answer_keys.txt").read_text().splitlines():
        if line.startswith("["):
            section = out.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            pattern, _, meaning = line.partition(": ")
            section.append((pattern, expression(pattern), meaning))
    return out


def expression(pattern):
    """Of a path whose keys are joined by NULs. `*` is one key, `@` one with dots in it: the path that a sweep varies."""
    parts = {"*": r"[^\0]+", "@": r"[^\0]*[.][^\0]*", ".": r"\0"}
    out = "".join(parts.get(each) or re.escape(each) for each in pattern)
    return re.compile(re.sub(r"\\\{(.*?)\\\}", lambda choice: "(?:" + choice[1].replace(",", "|") + ")", out))


def reference():
    """The document, and what is wrong: keys without a meaning, meanings without a key."""
    said = meanings()
    types = collections.defaultdict(lambda: collections.defaultdict(set))
    for command, answer in answers():
        walk(answer, (), types[command])
    used, problems = set(), []
    lines = ["# JSON answers", "",
             "Made by `tests/recorded/answer_keys.py --update` of the recorded answers and `tests/recorded/answer_keys.txt`. With `--json`",
             "a command prints one document on stdout. `*` stands for a name, `{a,b}` for each of several keys. A key that does not",
             "apply is left out or null."]
    for command in sorted(types):
        rows = collections.OrderedDict()
        for path, kinds in types[command].items():
            found = match(said, command, "\0".join(path))
            if not found:
                problems.append(f"{command}: {'.'.join(path)} has no meaning in answer_keys.txt")
                continue
            used.add(found[:2])
            rows.setdefault((found[1], found[2]), (set(), path[-1].rstrip("[]")))[0].update(kinds)
        lines += ["", f"## `tombolo {command} --json`", "", "| key | value | meaning |", "|---|---|---|"]
        lines += [f"| `{pattern.replace('@', 'PATH')}` | {type_text(kinds, name)} | {meaning} |" for (pattern, meaning), (kinds, name) in rows.items()]
    for section, entries in said.items():
        problems += [f"[{section}] {pattern}: no recorded answer has it" for pattern, _, _ in entries if (section, pattern) not in used]
    return "\n".join(lines) + "\n", problems


def match(said, command, path):
    for section in (command, EVERY):
        for pattern, regex, meaning in said.get(section, []):
            if regex.fullmatch(path):
                return section, pattern, meaning
    return None


def main():
    text, problems = reference()
    if sys.argv[1:] == ["--update"]:
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_text(text)
    elif DOCUMENT.read_text() != text:
        problems.append(f"{DOCUMENT}: is not what the recorded answers say; try tests/recorded/answer_keys.py --update")
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
