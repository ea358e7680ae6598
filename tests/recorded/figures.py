"""Holds an answer of a program against a recorded one: figures must agree, prose need not.

  JSON          the same keys in the same order, integers exactly, reals to a relative 1e-9; strings likewise but for those
                that are sentences (PROSE), of which the figures are compared
  other files   every character, but reals to a relative 1e-9: what `convert` writes
  texts         the figures, in order: a figure is a word with a digit and, of a number, the unit behind it; also an option
                that begins a line, as in --help
  every byte    what commands.txt marks so

What answers_test.py puts in place of a measurement agrees with itself alone.
"""
import json
import math
import re

RELATIVE_ERROR = 1e-9
SHOWN = 10  # differences of one answer

# Keys whose strings are sentences.
PROSE = {"assumptions", "bound_reason", "holds", "law_source", "left_out", "not_reproduced", "note", "notes", "obstacle", "of",
         "overlap", "remedy", "source", "space", "spare", "text", "why", "why_not"}
UNITS = {"%", "x", "ns", "us", "ms", "s", "min", "h", "days",
         "B", "KB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB", "PB", "EB",
         "bps", "Bps", "Kbps", "KBps", "Mbps", "MBps", "Gbps", "GBps", "Tbps", "TBps",
         "FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "FLOPS", "MFLOPS", "GFLOPS", "TFLOPS", "PFLOPS",
         "USD", "USD/device-hour", "USD/hour", "USD/s", "USD/GB", "USD/B", "K", "M", "G", "T"}
REAL = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]?\d+)?(?![\w.])")
NUMBER = re.compile(r"([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(.*)")
OPTION = re.compile(r"\s*(?:-\w,)?(--[a-z][\w-]*)")
MASKED = re.compile(r'("\w+":\s*)(WALL|MEASURED|MACHINE|\{MEASURED\})(?=[,\s}])')


def close(then, now):
    return then == now or math.isclose(then, now, rel_tol=RELATIVE_ERROR)


def same_words(then, now):
    """Every character, but reals may differ in what follows their ninth digit."""
    if then == now:
        return True
    return REAL.split(then) == REAL.split(now) and all(
        close(float(a), float(b)) for a, b in zip(REAL.findall(then), REAL.findall(now)))


class Figure:
    def __init__(self, line, word, number=None, unit=""):
        self.line, self.word, self.number, self.unit = line, word, number, unit

    def __str__(self):
        return f"{self.word} {self.unit}".rstrip()

    def agrees(self, other):
        if self.number is None or other.number is None:
            return self.word == other.word
        return self.unit == other.unit and close(self.number, other.number)


def figures(text):
    """The figures of a text for people, in order."""
    found = []
    for line, content in enumerate(text.splitlines(), 1):
        if option := OPTION.match(content):
            found.append(Figure(line, option.group(1)))
        words = [word.strip("()[]{},;:.\"'|") for word in content.split()]
        for at, word in enumerate(words):
            if not re.search(r"\d", word) or (option and word.endswith(option.group(1))):
                continue
            number = NUMBER.fullmatch(word)
            if not number or (number.group(2) and number.group(2) not in UNITS):
                found.append(Figure(line, word))  # a name, a digest, a range: what has a digit in it is no prose
                continue
            behind = words[at + 1] if at + 1 < len(words) else ""
            unit = number.group(2) or (behind if behind in UNITS else "")
            digits = number.group(1)
            found.append(Figure(line, digits, int(digits) if re.fullmatch(r"[-+]?\d+", digits) else float(digits), unit))
    return found


def compare_texts(then, now, where):
    """What differs between the figures of two texts: the first of them, what follows may only be shifted."""
    wanted, got = figures(then), figures(now)
    for a, b in zip(wanted, got):
        if not a.agrees(b):
            return [f"{where} line {a.line}: wanted {a}, got {b} (line {b.line})"]
    if len(wanted) > len(got):
        return [f"{where} line {wanted[len(got)].line}: wanted {wanted[len(got)]}, got no more figures"]
    if len(got) > len(wanted):
        return [f"{where} line {got[len(wanted)].line}: wanted no more figures, got {got[len(wanted)]}"]
    return []


def compare_lines(then, now, where, same):
    """The lines that are not the same."""
    wanted, got = then.splitlines(keepends=True), now.splitlines(keepends=True)
    out = [f"{where} line {line}: wanted {a!r}, got {b!r}" for line, (a, b) in enumerate(zip(wanted, got), 1) if not same(a, b)]
    return out + ([f"{where}: wanted {len(wanted)} lines, got {len(got)}"] if len(wanted) != len(got) else [])


def compare_strings(then, now, pointer, is_prose):
    if is_prose:
        return compare_texts(then, now, pointer)
    return [] if same_words(then, now) else [f"{pointer}: wanted {json.dumps(then)}, got {json.dumps(now)}"]


def compare_values(then, now, pointer="", is_prose=False):
    """What differs between two JSON values, each at its JSON pointer."""
    if type(then) is not type(now):
        return [f"{pointer or '/'}: wanted {json.dumps(then)[:80]}, got {json.dumps(now)[:80]}"]
    if isinstance(then, dict):
        out = []
        if list(then) != list(now):
            out.append(f"{pointer or '/'}: wanted the keys {', '.join(then)}, got {', '.join(now)}")
        for key in then:
            if key in now:  # the text of an exported file is the file
                is_sentence = key in PROSE and not (key == "text" and "format" in then)
                out += compare_values(then[key], now[key], f"{pointer}/{key}", is_sentence)
        return out
    if isinstance(then, list):
        out = [] if len(then) == len(now) else [f"{pointer or '/'}: wanted {len(then)} values, got {len(now)}"]
        for at, (a, b) in enumerate(zip(then, now)):
            out += compare_values(a, b, f"{pointer}/{at}", is_prose)
        return out
    if isinstance(then, str):
        return compare_strings(then, now, pointer, is_prose)
    same = close(then, now) if isinstance(then, float) else then == now
    return [] if same else [f"{pointer or '/'}: wanted {json.dumps(then)}, got {json.dumps(now)}"]


def parsed(text):
    """The JSON value of an answer, or None."""
    try:
        return json.loads(MASKED.sub(r'\1"\2"', text))
    except ValueError:
        return None


def parsed_lines(text):
    """The JSON values of an answer in JSON lines, or None."""
    lines = text.splitlines()
    values = [parsed(line) for line in lines if line.startswith("{")]
    return values if lines and len(values) == len(lines) and None not in values else None


def compare_outputs(then, now, is_file):
    for parse in (parsed, parsed_lines):
        wanted = parse(then)
        if wanted is not None:
            got = parse(now)
            return compare_values(wanted, got) if got is not None else [f"stdout: wanted JSON, got {now[:80]!r}"]
    if is_file:
        return compare_lines(then, now, "stdout", same_words)
    return compare_texts(then, now, "stdout")


def parts(answer):
    """Command, exit code, stdout and stderr of a recorded answer."""
    command, code, rest = (answer.split("\n", 2) + ["", ""])[:3]
    stdout, _, stderr = ("\n" + rest).partition("\n--- stderr\n")
    return command, code, stdout[1:], stderr


def differences(then, now, every_byte=False):
    """What differs between a recorded answer and one of today, line by line for people; empty where nothing does."""
    if every_byte:
        return compare_lines(then, now, "answer", str.__eq__)[:SHOWN]
    (command, code, stdout, stderr), (command_now, code_now, stdout_now, stderr_now) = parts(then), parts(now)
    out = [f"{what}: wanted {a!r}, got {b!r}" for what, a, b in (("command", command, command_now), ("exit code", code, code_now))
           if a != b]
    is_file = " && convert " in command or command.startswith("$ tombolo convert ")
    out += compare_outputs(stdout, stdout_now, is_file)
    out += compare_texts(stderr, stderr_now, "stderr")
    out += [f"{what}: wanted {a[:80] or 'nothing'!r}, got {b[:80] or 'nothing'!r}"
            for what, a, b in (("stdout", stdout, stdout_now), ("stderr", stderr, stderr_now)) if bool(a) != bool(b)]
    return out[:SHOWN]
