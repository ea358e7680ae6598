"""Texts become token files, and token files are trained on; answers are worked out by hand or by struct.pack."""
import json
import shutil
import struct
import subprocess
import unittest

from program import BUILD, GUARD_S, Case, needs_torch

# Bytes in the order of GPT-2's vocabulary, each spelt in its alphabet: those that are printable first.
PRINTABLE = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
LETTERS = [chr(byte) for byte in PRINTABLE] + [chr(256 + i) for i in range(len(OTHERS))]


def tokenizer(merges=("\u0120 t", "\u0120 a", "h e", "\u0120t he"), **changes):
    vocabulary = {letter: i for i, letter in enumerate(LETTERS)}
    for merge in merges:
        vocabulary[merge.replace(" ", "")] = len(vocabulary)
    file = {"version": "1.0",
            "added_tokens": [{"id": len(vocabulary), "content": "<|endoftext|>", "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False, "special": True}],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": list(merges)}}
    return json.dumps({**file, **changes})


def ids_of_bytes(text):
    return [(PRINTABLE + OTHERS).index(byte) for byte in text.encode()]


JOB = """
[model]
layers = 2
hidden = 32
heads = 4
ffn = 64
vocabulary = 300
sequence = 32
[[cluster.datacenter]]
name = "oregon"
device = "cpu"
nodes = 1
devices_per_node = 2
[training]
global_batch = 8
micro_batch = 2
precision = "fp32"
[optimizer]
learning_rate = 3e-3
warmup_steps = 3
[parallelism]
pipeline = {pipeline}
data = {data}
schedule = "1f1b"
[data]
{tokens}
[run]
steps = {steps}
seed = 4
[checkpoint]
directory = "{checkpoints}"
every = 5
"""


SHARES = """shuffle = false
evaluation_fraction = 0.0
[[data.share]]
datacenters = ["oregon"]
pipelines = [1]
tokens = ["old/corpus.bin"]
[[data.share]]
datacenters = ["oregon"]
tokens = ["new.bin"]"""


def job(tokens='tokens = ["corpus.bin"]', pipeline=2, data=1, steps=10, checkpoints="checkpoints"):
    return JOB.format(tokens=tokens, pipeline=pipeline, data=data, steps=steps, checkpoints=checkpoints)


class Tokenize(Case):
    def setUp(self):
        super().setUp()
        self.write("tokenizer.json", tokenizer())

    def test_text_to_megatrons_files(self):
        self.write("a.txt", "the the a")
        self.write("b.txt", "\u00fc\n")
        answer = self.json("tokenize", "tokenizer.json", "a.txt", "b.txt", "--out", "corpus", "--end", "<|endoftext|>")
        # "Ġthe" is 259 and "Ġa" 257; at the begin of the text stand t and he (258).
        t = ids_of_bytes("t")[0]
        ids = [t, 258, 259, 257, 260, *ids_of_bytes("\u00fc\n"), 260]
        self.assertEqual(answer, {"files": ["corpus.bin", "corpus.idx"], "format": "megatron", "dtype": "uint16",
                                  "tokens": 9, "documents": 2, "bytes": 12, "skipped": 0, "vocabulary": 261})
        self.assertEqual((self.folder / "corpus.bin").read_bytes(), struct.pack("<9H", *ids))
        self.assertEqual((self.folder / "corpus.idx").read_bytes(),
                         b"MMIDIDX\x00\x00" + struct.pack("<QBQQ2i2q3q", 1, 8, 2, 3, 5, 4, 0, 10, 0, 1, 2))

    def test_lines_to_nanogpts_file(self):
        self.write("docs.jsonl", '{"body": "the"}\n\n{"body": " the", "other": 1}\n')
        said = self.ok("tokenize", "tokenizer.json", "docs.jsonl", "--field", "body", "--format", "nanogpt", "--dtype",
                       "uint32", "--out", "corpus.bin", "--begin", "<|endoftext|>")
        self.assertIn("corpus.bin: 5 tokens (uint32) of 2 documents", said)
        self.assertIn('tokens = ["corpus.bin"], dtype = "uint32"', said)
        t = ids_of_bytes("t")[0]
        self.assertEqual((self.folder / "corpus.bin").read_bytes(), struct.pack("<5I", 260, t, 258, 260, 259))
        self.assertFalse((self.folder / "corpus.idx").exists())

    def test_bad_lines_are_named_and_left_out_where_that_is_wanted(self):
        lines = ['\ufeff{"text": "the"}', '{"text": "a", "score": NaN}', '{"text": "a", "id": 340282366920938463463374607431768211456}',
                 '{"text": "\\ud800"}', '{"body": "a"}', '{"text": 7}', '{"text": "the"', '{"text": " the"}']
        self.write("docs.jsonl", "\n".join(lines) + "\n")
        words = ["tokenize", "tokenizer.json", "docs.jsonl", "--out", "corpus"]
        self.refused(2, ["docs.jsonl:2: ", "--skip-bad"], *words)
        answer = self.json(*words, "--skip-bad")
        self.assertEqual((answer["documents"], answer["skipped"]), (2, 6))
        self.assertEqual((self.folder / "corpus.bin").read_bytes(), struct.pack("<3H", ids_of_bytes("t")[0], 258, 259))
        self.assertIn("left out: 6 lines, the first one docs.jsonl:2: ", self.ok(*words, "--skip-bad"))
        self.write("none.jsonl", "{}\n")
        self.refused(2, ["there is no text in it"], "tokenize", "tokenizer.json", "none.jsonl", "--skip-bad")

    def test_texts_come_through_standard_input(self):
        for words, given in (([], "the the a"), (["--jsonl"], '{"text": "the the a"}\n')):
            done = subprocess.run([BUILD / "tombolo", "tokenize", "tokenizer.json", "-", "--out", "corpus", *words], input=given,
                                  capture_output=True, text=True, timeout=GUARD_S, cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((self.folder / "corpus.bin").read_bytes(), struct.pack("<4H", ids_of_bytes("t")[0], 258, 259, 257))

    def test_messages(self):
        self.write("a.txt", "a")
        def refused(words, *arguments):
            self.refused(2, words, "tokenize", *arguments)
            self.assertFalse((self.folder / "tokens.bin").exists())
        refused(["none.json: cannot open it", "while reading the tokenizer"], "none.json", "a.txt")
        refused(["none.txt: cannot open it"], "tokenizer.json", "none.txt")
        refused(["--end <eos>: the tokenizer has no such token"], "tokenizer.json", "a.txt", "--end", "<eos>")
        (self.folder / "latin.txt").write_bytes(b"caf\xe9")
        refused(["latin.txt: byte 3 (0xe9) is no UTF-8"], "tokenizer.json", "latin.txt")
        self.write("docs.jsonl", '{"text": "a"}\n{"body": "b"}\n')
        refused(['docs.jsonl:2: "text" is no text of this line', "--field"], "tokenizer.json", "docs.jsonl")
        refused(["token 0 of document 0 is 260, which uint8 cannot hold", "while tokenizing a.txt"], "tokenizer.json",
                "a.txt", "--dtype", "uint8", "--begin", "<|endoftext|>")
        self.write("other.json", tokenizer(pre_tokenizer={"type": "Metaspace"}))
        refused(['other.json: pre_tokenizer: "Metaspace" is not known here'], "other.json", "a.txt")
        self.write("empty.txt", "")
        refused(["empty.txt: there is no text in it"], "tokenizer.json", "empty.txt")


@needs_torch
class TrainOnTokens(Case):
    def setUp(self):
        super().setUp()
        self.write("tokenizer.json", tokenizer())
        self.write("corpus.txt", "the tide and the sand, the island and the bar\n" * 200)
        self.ok("tokenize", "tokenizer.json", "corpus.txt", "--out", "corpus")

    def losses(self, name, text, *options):
        self.ok("train", self.write(f"{name}.toml", text), "--out", name, *options)
        return self.records(self.folder / name / "trace.jsonl", "loss")

    def test_learns_and_other_splits_and_replicas_read_the_same_samples(self):
        first = self.losses("two", job(checkpoints="c2"))
        self.assertLess(first[10], first[1] - 0.5)
        one = self.losses("one", job(pipeline=1, checkpoints="c1"))
        pairs = self.losses("pairs", job(pipeline=1, data=2, checkpoints="c3"))
        for step in range(1, 11):  # sums in another order: not bit by bit
            self.assertAlmostEqual(one[step], first[step], places=3)
            self.assertAlmostEqual(pairs[step], first[step], places=3)
        other = self.losses("seed", job(tokens='tokens = ["corpus.bin"]\nseed = 9', checkpoints="c4"), "--steps", "2")
        self.assertNotEqual(other[2], first[2])

    def test_a_resumed_run_goes_on_where_it_was(self):
        whole = self.losses("whole", job(checkpoints="c1"))
        text = job(checkpoints="c2")
        self.ok("train", self.write("half.toml", text), "--out", "half")
        shutil.rmtree(self.folder / "c2" / "step-00000010")
        shutil.copytree(self.folder / "c2", self.folder / "c3")
        resumed = self.losses("half", text, "--resume")
        self.assertEqual(resumed, {step: whole[step] for step in range(6, 11)})
        pairs = self.losses("pairs", job(pipeline=1, data=2, checkpoints="c3"), "--resume")
        self.assertEqual(sorted(pairs), list(range(6, 11)))
        for step, loss in pairs.items():
            self.assertAlmostEqual(loss, whole[step], places=3)

    def test_nanogpts_files_and_the_command_line(self):
        self.ok("tokenize", "tokenizer.json", "corpus.txt", "--out", "bare", "--format", "nanogpt")
        megatron = self.losses("megatron", job(checkpoints="c1"), "--steps", "3")
        bare = self.losses("bare", job('text = "corpus.txt"', checkpoints="c2"), "--steps", "3", "--tokens", "bare.bin")
        self.assertEqual(bare, megatron)
        plan = json.loads((self.folder / "bare" / "plan.json").read_text())
        self.assertEqual(plan["data"]["tokens"], ["bare.bin"])

    def test_shares_equal_one_process_that_reads_the_same_samples(self):
        # In an iteration each pipeline reads 4 samples of 32 tokens. An epoch of old has two iterations, that of new three.
        text = (self.folder / "corpus.bin").read_bytes()
        ids = struct.unpack(f"<{len(text) // 2}H", text)
        shares = {"old/corpus": ids[:2 * 128 + 1], "new": ids[1000:1000 + 3 * 128 + 1]}
        (self.folder / "old").mkdir()
        def put(name, those):
            (self.folder / f"{name}.bin").write_bytes(struct.pack(f"<{len(those)}H", *those))
            return f"{name}.bin"
        for name, those in shares.items():
            put(name, those)
        parts = []
        for step in range(6):
            for name, epoch in (("new", 3), ("old/corpus", 2)):  # pipeline 0, which no share names, then pipeline 1
                begin = step % epoch * 128
                parts.append(put(f"part{len(parts)}", shares[name][begin:begin + 129]))
        both = job(SHARES, data=2, pipeline=1, steps=6, checkpoints="c1")
        shared = self.losses("shared", both)
        one = self.losses("one", job(f"tokens = {json.dumps(parts)}\nshuffle = false\nevaluation_fraction = 0.0", pipeline=1,
                                     steps=6, checkpoints="c2"))
        for step in range(1, 7):
            self.assertAlmostEqual(shared[step], one[step], places=3)
        # From the checkpoint of step 5.
        shutil.rmtree(self.folder / "c1" / "step-00000006")
        self.assertEqual(self.losses("shared", both, "--resume"), {6: shared[6]})
        plan = json.loads((self.folder / "shared" / "plan.json").read_text())
        self.assertEqual(plan["data"]["share"][0],
                         {"tokens": [str(self.folder / "old" / "corpus.bin")], "datacenters": ["oregon"], "pipelines": [1]})
        # Other files instead of all shares.
        self.losses("other", both.replace("c1", "c3"), "--tokens", "corpus.bin", "--steps", "1")

    def test_shares_say_what_is_wrong(self):
        text = SHARES.replace("old/", "")
        self.refused(2, ["new.bin: cannot open it for reading", "while opening data.share[1].tokens"], "train",
                     self.write("job.toml", job(text, data=2, pipeline=1)))
        self.refused(2, ["no data.share is for pipeline 0: rank 0 in oregon has its first and its last stage",
                         'try a share with datacenters = ["oregon"], or with 0 among its pipelines'], "train",
                     self.write("job.toml", job('[[data.share]]\npipelines = [1]\ntokens = ["corpus.bin"]', data=2, pipeline=1)))
        self.refused(2, ['job.toml: data.share[0].datacenters: there is no datacenter "oregno"', 'try "oregon"'], "simulate",
                     self.write("job.toml", job(SHARES).replace('["oregon"]', '["oregno"]')))
        # Nobody needs files, or to read them, for a prediction.
        self.ok("simulate", self.write("job.toml", job(SHARES)))

    def test_messages(self):
        text = job().replace("vocabulary = 300", "vocabulary = 259")
        said = self.refused(2, ["corpus.bin: token ", " is 259, model.vocabulary is 259"], "train",
                            self.write("small.toml", text), "--out", "small")
        self.assertIn("while reading sample", said)
        self.refused(2, ["none.bin: cannot open it for reading"], "train", self.write("job.toml", job()), "--tokens",
                     "none.bin")
        (self.folder / "corpus.bin").write_bytes(b"1234")
        self.refused(2, ["corpus.bin: 4 bytes; ", "corpus.idx describes "], "train", self.write("job.toml", job()))


if __name__ == "__main__":
    unittest.main()
