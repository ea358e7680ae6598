"""A second proof of Figure 6 of Atlas, by a SAT solver and an encoding of its own.

src/decide/schedule_proof/exact.cc guesses who goes first; here every operation has a variable per slot, "has it
begun by then?". What the two have in common is the figure: six stages, two per datacenter; two
pipelines of four microbatches that share the links between datacenters; F = R = 1, B = 2, a
transfer 1; the last stage recomputes nothing. Needs the Debian package cadical; skipped without.
"""

import itertools
import shutil
import subprocess
import tempfile
import unittest

STAGES, PIPELINES, MICROBATCHES = 6, 2, 4
SHARED = (1, 3)  # boundaries
DURATION = {"F": 1, "R": 1, "B": 2, "there": 1, "back": 1}
CADICAL = shutil.which("cadical")


class Encoding:
    def __init__(self, slots, right_before):
        self.slots = slots
        self.clauses = []
        self.variables = 0
        self.begun_by = {}  # operation: a variable per slot
        for c, m in itertools.product(range(PIPELINES), range(MICROBATCHES)):
            self.there_and_back(c, m)
        self.keep_order()
        for c, s in itertools.product(range(PIPELINES), range(STAGES)):
            rank = [o for o in self.begun_by if o[1:3] == (s, c) and o[0] in "FRB"]
            self.one_at_a_time(rank)
            if right_before and s + 1 < STAGES:
                self.nothing_between(rank)
        for s, kind in itertools.product(SHARED, ("there", "back")):
            self.one_at_a_time([o for o in self.begun_by if o[:2] == (kind, s)])

    def new(self):
        self.variables += 1
        return self.variables

    def begun(self, operation, slot):
        """A literal, or a truth value where nothing is open."""
        if slot < 0:
            return False
        if slot > self.slots - DURATION[operation[0]]:
            return True
        return self.begun_by[operation][slot]

    def add(self, *literals):
        """One of them holds; a literal is a variable, its negation or a truth value."""
        if True not in literals:
            self.clauses.append([x for x in literals if x is not False])

    @staticmethod
    def no(literal):
        return not literal if isinstance(literal, bool) else -literal

    def operation(self, kind, stage, c, m, after):
        operation = (kind, stage, c, m)
        last = self.slots - DURATION[kind]
        self.begun_by[operation] = [self.new() for _ in range(last)] + [True]
        for slot in range(last):
            self.add(self.no(self.begun(operation, slot)), self.begun(operation, slot + 1))
        if after:
            self.follows(operation, after)
        return operation

    def follows(self, operation, before):
        for slot in range(self.slots):
            self.add(self.no(self.begun(operation, slot)),
                     self.begun(before, slot - DURATION[before[0]]))

    def there_and_back(self, c, m):
        last = None
        for s in range(STAGES):
            last = self.operation("F", s, c, m, last)
            if s in SHARED:
                last = self.operation("there", s, c, m, last)
        for s in reversed(range(STAGES)):
            if s in SHARED:
                last = self.operation("back", s, c, m, last)
            gradient = last
            if s + 1 < STAGES:
                recompute = self.operation("R", s, c, m, ("F", s, c, m))
                last = self.operation("B", s, c, m, recompute)
            else:
                last = self.operation("B", s, c, m, ("F", s, c, m))
            self.follows(last, gradient)

    def keep_order(self):
        """Of each kind, microbatch after microbatch; and pipeline 0 crosses first."""
        for kind, s, c, m in self.begun_by:
            if m > 0:
                self.follows((kind, s, c, m), (kind, s, c, m - 1))
        for c in range(1, PIPELINES):
            self.follows(("there", SHARED[0], c, 0), ("there", SHARED[0], c - 1, 0))

    def one_at_a_time(self, operations):
        busy = {}
        for o, slot in itertools.product(operations, range(self.slots)):
            # It has begun by now, and had not when it would be over.
            busy[o, slot] = self.new()
            self.add(self.no(self.begun(o, slot)), self.begun(o, slot - DURATION[o[0]]), busy[o, slot])
        for slot in range(self.slots):
            for a, b in itertools.combinations(operations, 2):
                self.add(-busy[a, slot], -busy[b, slot])

    def nothing_between(self, rank):
        """Whatever begins after R of a microbatch begins after its B, too."""
        for recompute in (o for o in rank if o[0] == "R"):
            backward = ("B", *recompute[1:])
            for other, slot in itertools.product(rank, range(self.slots)):
                if other in (recompute, backward):
                    continue
                # Begins in this slot, R having begun before: then B has, too.
                self.add(self.no(self.begun(other, slot)), self.begun(other, slot - 1),
                         self.no(self.begun(recompute, slot - 1)), self.begun(backward, slot - 1))

    def text(self):
        lines = [f"p cnf {self.variables} {len(self.clauses)}"]
        lines += [" ".join(map(str, clause)) + " 0" for clause in self.clauses]
        return "\n".join(lines) + "\n"


def fits(slots, right_before):
    with tempfile.NamedTemporaryFile("w", suffix=".cnf") as file:
        file.write(Encoding(slots, right_before).text())
        file.flush()
        code = subprocess.run([CADICAL, "-q", "-n", file.name],
                              stdout=subprocess.DEVNULL, check=False).returncode
    assert code in (10, 20), f"cadical ended with {code}"
    return code == 10


@unittest.skipUnless(CADICAL, "the Debian package cadical is not installed")
class FigureSix(unittest.TestCase):
    def test_33_slots_and_no_fewer(self):
        self.assertTrue(fits(33, right_before=False))
        self.assertFalse(fits(32, right_before=False))

    def test_34_slots_where_backwards_follow_recomputations_at_once(self):
        self.assertTrue(fits(34, right_before=True))
        self.assertFalse(fits(33, right_before=True))


if __name__ == "__main__":
    unittest.main()
