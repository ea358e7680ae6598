"""A few of the random attacks of attacks.py, always the same ones, with `./test.sh --long`; by hand hundreds of others. When
they strike depends on how fast the machine is."""
import os
import unittest

import attacks


@unittest.skipUnless(os.environ.get("TOMBOLO_LONG"), "only with ./test.sh --long")
class Attacks(unittest.TestCase):
    def test_five_of_them(self):
        for seed in range(1, 6):
            shape, did, end, why = attacks.attack(seed)
            self.assertIsNone(why, f"seed {seed}: {2 * shape[0]} ranks; {'; '.join(did)}: {end}")


if __name__ == "__main__":
    unittest.main()
