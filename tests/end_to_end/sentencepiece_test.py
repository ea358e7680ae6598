"""Models of SentencePiece, trained here by its own program, against encoders written from its paper alone."""
import heapq
import json
import pathlib
import random
import shutil
import struct
import subprocess
import unittest

from program import GUARD_S, ROOT, Case

SPACE = "\u2581"


def fields(data):
    """(number, value) of a protocol buffer: numbers, bytes, and floats as bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
            continue
        length = varint() if kind == 2 else {1: 8, 5: 4}[kind]
        yield tag >> 3, data[at:at + length]
        at += length


def pieces_of(model):
    """[(piece, score, type)]: 1 is a normal one, 6 a byte."""
    out = []
    for number, value in fields(pathlib.Path(model).read_bytes()):
        if number == 1:
            piece = dict(fields(value))
            out.append((piece[1].decode(), struct.unpack("<f", piece.get(2, b"\0\0\0\0"))[0], piece.get(3, 1)))
    return out


def pairs_joined(text, scores):
    """BPE: again and again the neighbours whose union scores best, the leftmost of equals."""
    parts = list(text)
    after, before = list(range(1, len(parts) + 1)), list(range(-1, len(parts) - 1))
    waiting = []

    def consider(left):
        right = after[left] if left >= 0 else len(parts)
        if left >= 0 and right < len(parts) and parts[left] + parts[right] in scores:
            heapq.heappush(waiting, (-scores[parts[left] + parts[right]], left, parts[left], parts[right]))

    for left in range(len(parts) - 1):
        consider(left)
    while waiting:
        _, left, one, other = heapq.heappop(waiting)
        right = after[left]
        if parts[left] != one or right >= len(parts) or parts[right] != other:
            continue  # one of them is part of something longer by now
        parts[left], parts[right] = one + other, None
        after[left] = after[right]
        if after[right] < len(parts):
            before[after[right]] = left
        consider(left)
        consider(before[left])
    return [part for part in parts if part is not None]


def best_total(text, scores, unknown):
    """Unigram: the sum of scores of the best way to cut the text, an unknown character scoring `unknown`."""
    longest = max(map(len, scores))
    best = [0.0] + [float("-inf")] * len(text)
    for end in range(1, len(text) + 1):
        for begin in range(max(0, end - longest), end):
            score = scores.get(text[begin:end], unknown if end == begin + 1 else float("-inf"))
            best[end] = max(best[end], best[begin] + score)
    return best[-1]


def some_lines():
    """A thousand: prose, code, and what nobody trained on."""
    draw = random.Random(7)
    known = [line for path in sorted((ROOT / "docs").rglob("*.md")) for line in path.read_text().splitlines() if line.strip()]
    strange = ["\u65e5\u672c\u8a9e \u306e \u6587", "\U0001f600 tide\u00a0sand", "na\u00efve  caf\u00e9", "\ttab\tand \u2581 bar ",
               "  two  spaces  ", "<s> is text </s"]
    return draw.sample(known, 960) + [" ".join(draw.sample(strange, 3)) for _ in range(40)]


@unittest.skipUnless(shutil.which("spm_train"), "spm_train is not installed (package sentencepiece)")
class SentencePiece(Case):
    def train(self, kind, *words):
        text = self.write("text.txt", "\n".join(some_lines()[:960]))
        done = subprocess.run(["spm_train", f"--input={text}", "--model_prefix=small", f"--model_type={kind}", "--vocab_size=700",
                               "--normalization_rule_name=identity", "--character_coverage=0.99", *words], cwd=self.folder,
                              capture_output=True, text=True, timeout=GUARD_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return pieces_of(self.folder / "small.model")

    def encode(self, lines):
        """The ids of each line, as `tombolo tokenize` writes them."""
        self.write("lines.jsonl", "\n".join(json.dumps({"text": line}) for line in lines))
        said = self.ok("tokenize", "small.model", "lines.jsonl", "--end", "</s>", "--format", "nanogpt", "--out", "ids")
        self.assertIn(f"of {len(lines)} documents", said)
        raw = (self.folder / "ids.bin").read_bytes()
        documents = [[]]
        for number in struct.unpack(f"<{len(raw) // 2}H", raw):
            documents[-1].append(number)
            if number == 2:  # </s>
                documents[-1].pop()
                documents.append([])
        self.assertEqual(documents.pop(), [])
        self.assertEqual(len(documents), len(lines))
        return documents

    def test_pairs_with_bytes_for_what_is_unknown_as_llama_2_has_them(self):
        pieces = self.train("bpe", "--byte_fallback=true", "--remove_extra_whitespaces=false")
        normal = {piece: score for piece, score, kind in pieces if kind == 1}
        number = {piece: i for i, (piece, _, _) in enumerate(pieces)}
        lines, in_bytes = some_lines(), 0
        for line, ids in zip(lines, self.encode(lines)):
            wanted = []
            for part in pairs_joined((" " + line).replace(" ", SPACE), normal):
                known = part in normal
                in_bytes += not known
                wanted += [number[part]] if known else [number[f"<0x{byte:02X}>"] for byte in part.encode()]
            self.assertEqual(ids, wanted, line)
        self.assertGreater(in_bytes, 100, "nothing was unknown")

    # Two ways to cut may have the same score but for the last bits: so the score decides, not the cut.
    def test_unigrams_are_the_best_way_to_cut_a_text(self):
        pieces = self.train("unigram")
        normal = {piece: score for piece, score, kind in pieces if kind == 1}
        unknown = min(normal.values()) - 10
        lines = some_lines()
        for line, ids in zip(lines, self.encode(lines)):
            text = SPACE + SPACE.join(word for word in line.split(" ") if word)
            total = sum(normal.get(pieces[i][0], unknown) for i in ids)
            if 0 not in ids:
                self.assertEqual("".join(pieces[i][0] for i in ids), text)
                self.assertAlmostEqual(total, best_total(text, normal, unknown), delta=1e-3, msg=line)
            else:  # unknown characters that follow each other are one token
                self.assertTrue(any(letter not in normal for letter in text), line)

    def test_models_that_cannot_be_read(self):
        self.train("bpe")
        self.write("text.jsonl", json.dumps({"text": "tide"}))
        whole = (self.folder / "small.model").read_bytes()
        for broken in (b"", b"\x0a", whole[:100], bytes(reversed(whole)), b"\xff" * 300):
            (self.folder / "small.model").write_bytes(broken)
            self.refused(2, ["small.model: no tokenizer.json, and no model of SentencePiece"], "tokenize", "small.model",
                         "text.jsonl", "--out", "ids")
            self.assertFalse((self.folder / "ids.bin").exists())
        (self.folder / "small.model").write_bytes(whole)
        self.refused(2, ["--end <|endoftext|>: the tokenizer has no such token"], "tokenize", "small.model", "text.jsonl",
                     "--end", "<|endoftext|>")
        (self.folder / "text.txt").write_bytes(b"tide \xff sand")
        self.refused(2, ["text.txt: byte 5 (0xff) is no UTF-8"], "tokenize", "small.model", "text.txt")


if __name__ == "__main__":
    unittest.main()
