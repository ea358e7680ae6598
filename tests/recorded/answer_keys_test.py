#!/usr/bin/env python3
"""Every key of every recorded JSON answer is described, every description has a key, and the document says so."""
import unittest

import answer_keys


class AnswerKeys(unittest.TestCase):
    def test_keys_and_meanings_are_the_same(self):
        text, problems = answer_keys.reference()
        self.assertEqual(problems, [])
        self.assertEqual(answer_keys.DOCUMENT.read_text(), text, "try tests/recorded/answer_keys.py --update")

    def test_a_key_without_a_meaning_is_found(self):
        said = answer_keys.meanings()
        self.assertEqual(answer_keys.match(said, "plan", "top[]\0parallelism\0tensor")[1], "{best,top[]}.parallelism.*")
        self.assertEqual(answer_keys.match(said, "plan", "wall_s")[0], answer_keys.EVERY)
        self.assertEqual(answer_keys.match(said, "sweep", "rows[]\0cluster.wan.*.connections")[1], "rows[].@")
        self.assertIsNone(answer_keys.match(said, "plan", "top[]\0colour"))

    def test_types_say_unit_and_null(self):
        self.assertEqual(answer_keys.type_text({"number", "null"}, "iteration_s"), "number, seconds, or null")
        self.assertEqual(answer_keys.type_text({"whole number", "number"}, "gain"), "number")
        self.assertEqual(answer_keys.type_text({"list", "list of text"}, "notes"), "list of text")


if __name__ == "__main__":
    unittest.main()
