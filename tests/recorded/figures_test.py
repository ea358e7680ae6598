#!/usr/bin/env python3
"""What counts as a difference between two answers, and what does not."""
import json
import unittest

import figures
from answers_test import folded, unfolded

VALUES = {"iteration_ns": 25000000, "gain": 1.234567890123, "winner": "zb-h1",
          "why": ["the link is taken for 1.93 s, the first message is ready after 293 ms"],
          "stages": [{"forward": "16.975935517642156 ms", "peak": None}]}
TEXT = """toy: 3 stages, schedule gpipe
predicted iteration: 2.28 s (stage times: tombolo)
  iowa -> oregon: 12 messages, 403 MB (1.41 Gbps on average), busy 41 %
    iowa 6 |...........0........11............Aa2...|
  seed 1, plan b209bc5f0d58ecf48ae1eeb129e958bf
"""


def recorded(stdout, command="simulate job.toml", code=0, stderr=""):
    return f"$ tombolo {command}\nexit code {code}\n{stdout}" + (f"--- stderr\n{stderr}" if stderr else "")


class Answers(unittest.TestCase):
    def same(self, then, now, **options):
        self.assertEqual(figures.differences(then, now, **options), [])

    def differ(self, then, now, *expected, **options):
        """One line of difference for each of those expected, which holds it."""
        found = figures.differences(then, now, **options)
        self.assertEqual(len(found), len(expected), found)
        for line, words in zip(found, expected):
            self.assertIn(words, line)


class Json(Answers):
    def now(self, old, new):
        """Two answers in JSON, the second with `new` in the place of `old`."""
        then = json.dumps(VALUES, indent=2)
        self.assertEqual(then.count(old), 1)
        return recorded(then + "\n"), recorded(then.replace(old, new) + "\n")

    def test_the_tenth_digit_of_a_real_may_change_and_the_eighth_may_not(self):
        self.same(*self.now("1.234567890123", "1.234567891123"))
        self.differ(*self.now("1.234567890123", "1.234567990123"), "/gain: wanted 1.234567890123, got 1.234567990123")
        self.same(*self.now("16.975935517642156 ms", "16.975935517642997 ms"))
        self.differ(*self.now("16.975935517642156 ms", "16.975936517642156 ms"), "/stages/0/forward: wanted")

    def test_an_integer_is_exact_and_no_real(self):
        self.differ(*self.now("25000000", "25000001"), "/iteration_ns: wanted 25000000, got 25000001")
        self.differ(*self.now("25000000", "25000000.0"), "/iteration_ns: wanted 25000000, got 25000000.0")

    def test_keys_are_the_same_in_the_same_order(self):
        turned = {key: VALUES[key] for key in reversed(VALUES)}
        self.differ(recorded(json.dumps(VALUES)), recorded(json.dumps(turned)), "/: wanted the keys iteration_ns, gain,")
        self.differ(*self.now('"gain"', '"profit"'), "/: wanted the keys")
        self.differ(*self.now('"peak": null', '"peak": null, "mean": 2'), "/stages/0: wanted the keys forward, peak, got")

    def test_a_list_is_as_long(self):
        self.differ(recorded("[1, 2]"), recorded("[1, 2, 3]"), "/: wanted 2 values, got 3")
        self.differ(*self.now('"peak": null', '"peak": 0'), "/stages/0/peak: wanted null, got 0")

    def test_names_are_exact_and_sentences_are_not(self):
        self.differ(*self.now("zb-h1", "zb-v"), '/winner: wanted "zb-h1", got "zb-v"')
        self.same(*self.now("the first message is ready after", "and nothing can be sent for"))
        self.differ(*self.now("293 ms", "294 ms"), "/why/0 line 1: wanted 293 ms, got 294 ms")
        self.differ(*self.now("1.93 s", "1.93 ms"), "/why/0 line 1: wanted 1.93 s, got 1.93 ms")

    def test_the_text_of_an_exported_file_is_no_sentence(self):
        then = recorded(json.dumps({"text": "38.5 s against 32.4 s", "export": {"format": "toml", "text": "degree = 4"}}))
        self.same(then, then.replace("against", "where it was"))
        self.differ(then, then.replace("degree", "size"), "/export/text: wanted")

    def test_masked_measurements_agree(self):
        then = recorded('{"wall_s": WALL,\n "placement_us": {MEASURED},\n "n": 1}')
        self.same(then, then)
        self.differ(then, then.replace("WALL", "0.5"), "/wall_s: wanted")
        self.differ(then, then.replace('"n": 1', '"n": 2'), "/n: wanted 1, got 2")

    def test_json_lines(self):
        then = recorded('{"at": 1, "s": 0.5}\n{"at": 2, "s": 0.25}\n')
        self.same(then, then.replace("0.25", "0.25000000001"))
        self.differ(then, then.replace("0.25", "0.26"), "/1/s: wanted 0.25, got 0.26")
        self.differ(then, recorded("nothing\n"), "stdout: wanted JSON")


class Texts(Answers):
    def now(self, old, new):
        self.assertEqual(TEXT.count(old), 1)
        return recorded(TEXT), recorded(TEXT.replace(old, new))

    def test_words_and_line_breaks_may_change(self):
        self.same(*self.now("on average", "in the mean"))
        self.same(*self.now("stages, schedule gpipe", "stages,\n  by the schedule gpipe"))

    def test_numbers_and_units_may_not(self):
        self.differ(*self.now("403 MB", "404 MB"), "stdout line 3: wanted 403 MB, got 404 MB (line 3)")
        self.differ(*self.now("403 MB", "403 MiB"), "stdout line 3: wanted 403 MB, got 403 MiB")
        self.differ(*self.now("1.41 Gbps", "1.41"), "wanted 1.41 Gbps, got 1.41")
        self.differ(*self.now("busy 41 %", "busy 41"), "wanted 41 %, got 41")

    def test_a_word_with_a_digit_is_a_figure(self):
        self.differ(*self.now("b209bc5f", "b209bc5e"), "stdout line 5: wanted b209bc5f0d58ecf48ae1eeb129e958bf, got")
        self.differ(*self.now("Aa2", ".A2"), "stdout line 4: wanted")

    def test_a_line_with_figures_is_missed_and_one_without_is_not(self):
        gone = "predicted iteration: 2.28 s (stage times: tombolo)\n"
        self.differ(*self.now(gone, ""), "stdout line 2: wanted 2.28 s, got 12")
        self.same(*self.now(gone, gone + "as the paper says\n"))
        self.differ(*self.now(gone, gone + "off by 3 %\n"), "stdout line 3: wanted 12, got 3 %")
        last = "  seed 1, plan b209bc5f0d58ecf48ae1eeb129e958bf\n"
        self.differ(*self.now(last, ""), "stdout line 5: wanted 1, got no more figures")

    def test_options_that_begin_a_line(self):
        then = recorded("Options:\n  -h,--help   Print this\n  --top INT=5  how many\n", "plan --help")
        self.same(then, then.replace("how many", "as many, see --no-pruning"))
        self.differ(then, then.replace("--top", "--first"), "stdout line 3: wanted --top, got --first")

    def test_exit_codes_commands_and_stderr(self):
        then = recorded("", code=2, stderr="job.toml:14: links[2] = 5: not a rate\n")
        self.same(then, then.replace("not a rate", "no rate at all"))
        self.differ(then, then.replace("code 2", "code 3"), "exit code: wanted 'exit code 2', got 'exit code 3'")
        self.differ(then, then.replace("simulate", "estimate"), "command: wanted")
        self.differ(then, then.replace(":14", ":15"), "stderr line 1: wanted job.toml:14, got job.toml:15")
        self.differ(recorded("done\n"), recorded("done\n", stderr="note: nothing\n"), "stderr: wanted 'nothing', got 'note")


class Files(Answers):
    def test_what_convert_writes_is_exact_but_for_the_last_digits(self):
        then = recorded("kind,start\nF,0\nB,1.2345678901\n", "simulate a.toml --out a && convert a --to csv")
        self.same(then, then.replace("1.2345678901", "1.2345678902"))
        self.differ(then, then.replace("1.2345678901", "1.2345679901"), "stdout line 3: wanted")
        self.differ(then, then.replace("start", "begin"), "stdout line 1: wanted")
        self.differ(then, then.replace("F,0\n", ""), "stdout line 2: wanted", "stdout: wanted 3 lines, got 2")

    def test_every_byte(self):
        then = recorded(TEXT)
        self.same(then, then, every_byte=True)
        self.differ(then, then.replace("on average", "in the mean"), "answer line 5: wanted", every_byte=True)
        self.differ(then, then[:-1], "answer line 7: wanted", every_byte=True)

    def test_runs_of_equal_lines_are_recorded_as_one(self):
        text = "[\n" + 8191 * "  1.5,\n" + "  1.5\n]\n"
        self.assertEqual(folded(text), "[\n  1.5,\n[the line above: 8191 times in all]\n  1.5\n]\n")
        self.assertEqual(unfolded(folded(text)), text)
        self.assertEqual(folded(99 * "a\n"), 99 * "a\n")


if __name__ == "__main__":
    unittest.main()
