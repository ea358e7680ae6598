"""PyTorch's two traces of one process, joined: by record function ids, or by External ids of versions that wrote no other."""
import copy
import json
import unittest

from program import Case


def node(number, name, function, parent):
    return {"name": name, "id": number, "rf_id": function, "parent": parent, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 1,
            "fw_tid": 0, "op_schema": "", "inputs": [], "input_shapes": [], "input_types": [], "outputs": [], "output_shapes": [],
            "output_types": []}


TRACE = {"schema": "1.0.1", "pid": 7, "time": "2026-01-01 00:00:00", "start_ts": 1, "finish_ts": 9,
         "nodes": [node(1, "[pytorch|profiler|execution_trace|process]", 0, 1),
                   node(2, "[pytorch|profiler|execution_trace|thread]", 0, 1), node(3, "aten::mul", 1, 2), node(4, "aten::add", 2, 2)]}


def event(name, start, **ids):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 7, "tid": 1, "ts": start, "dur": 5, "args": ids}


FUNCTIONS = {"schemaVersion": 1, "traceEvents": [event("aten::mul", 100, **{"External id": 101, "Record function id": 1}),
                                                 event("aten::add", 110, **{"External id": 102, "Record function id": 2})]}
EXTERNAL = {"schemaVersion": 1, "traceEvents": [event("aten::mul", 100, **{"External id": 1}),
                                                event("aten::add", 110, **{"External id": 2})]}


def changed(trace, change):
    out = copy.deepcopy(trace)
    for number, each in enumerate(out["traceEvents"]):
        change(number, each)
    return out


class Kineto(Case):
    def setUp(self):
        super().setUp()
        self.write("et.json", json.dumps(TRACE))

    def arguments(self, kineto):
        (self.folder / "kineto.json").write_bytes(kineto if isinstance(kineto, bytes) else json.dumps(kineto).encode())
        return ["convert", "et.json", "--kineto", "kineto.json", "--to", "chakra-json", "--out", "joined.json"]

    def joined(self, kineto):
        done = self.tombolo(*self.arguments(kineto))
        self.assertEqual(done.returncode, 0, done.stderr)
        return (self.folder / "joined.json").read_text(), done.stderr

    def test_external_ids_join_where_there_are_no_others(self):
        wanted, said = self.joined(FUNCTIONS)
        self.assertNotIn("External id", said)
        again = event("aten::mul", 500, **{"External id": 1})
        for name, kineto in {
                "as it was": EXTERNAL,
                "in another order": EXTERNAL | {"traceEvents": EXTERNAL["traceEvents"][::-1]},
                "as texts": changed(EXTERNAL, lambda _, e: e["args"].update({"External id": str(e["args"]["External id"])})),
                "behind a byte order mark": b"\xef\xbb\xbf" + json.dumps(EXTERNAL).encode(),
                "with an id that comes twice": EXTERNAL | {"traceEvents": EXTERNAL["traceEvents"] + [again]}}.items():
            with self.subTest(name):
                got, said = self.joined(kineto)
                self.assertEqual(got, wanted)
                self.assertIn('has no "Record function id": operators are joined by name and "External id"', said)

    def test_record_function_ids_go_before_others(self):
        wanted, _ = self.joined(FUNCTIONS)
        swapped = changed(FUNCTIONS, lambda number, e: e["args"].update({"External id": 2 - number}))
        self.assertEqual(self.joined(swapped)[0], wanted)

    def test_traces_of_nothing_in_common_are_refused(self):
        for name, change in {"other operators": lambda _, e: e.update(name="other::" + e["name"]),
                             "no ids": lambda _, e: e["args"].clear(),
                             "other ids": lambda _, e: e["args"].update({"External id": 77})}.items():
            with self.subTest(name):
                self.refused(2, ["et.json and kineto.json have no recorded function in common"],
                             *self.arguments(changed(EXTERNAL, change)))


if __name__ == "__main__":
    unittest.main()
