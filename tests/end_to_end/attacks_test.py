"""A few of the random attacks of attacks.py, always the same ones; by hand hundreds of others."""
import unittest

import attacks


class Attacks(unittest.TestCase):
    def test_five_of_them(self):
        for seed in range(1, 6):
            shape, did, end, why = attacks.attack(seed)
            self.assertIsNone(why, f"seed {seed}: {2 * shape[0]} ranks; {'; '.join(did)}: {end}")


if __name__ == "__main__":
    unittest.main()
