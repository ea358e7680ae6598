"""Who follows the hints of a job that does not fit ends with one that does, or is told that nothing helps."""
import re
import unittest

from program import Case

NOTHING_HELPS = "more devices, larger ones or a smaller model"

JOB = """
[model]
preset = "{model}"
[[cluster.datacenter]]
name = "a"
device = "{device}"
nodes = {nodes}
devices_per_node = {each}
{more}
[training]
stack = "megatron"
global_batch = 64
micro_batch = {micro_batch}
recompute = "none"
[parallelism]
{parallelism}
"""

SECOND = """[[cluster.datacenter]]
name = "b"
device = "a100-80g"
nodes = 1
devices_per_node = 8
[[cluster.wan]]
between = ["a", "b"]
one_way_latency = "10 ms"
node_pair_limit = "10 Gbps"
"""


def job(model="llama3-8b", device="a100-80g", nodes=1, each=8, more="", micro_batch=1, parallelism="pipeline = 1\n"):
    return JOB.format(model=model, device=device, nodes=nodes, each=each, more=more, micro_batch=micro_batch,
                      parallelism=parallelism)


def changed(text, hint):
    """The job with what the hint says of it."""
    for key, value in re.findall(r'(\w+) = ("[^"]*"|\d+)', hint):
        section = "training" if key in ("micro_batch", "recompute") else "parallelism"
        if re.search(rf"(?m)^{key} = ", text):
            text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        else:
            text = text.replace(f"[{section}]\n", f"[{section}]\n{key} = {value}\n")
    return text


class Hints(Case):
    def followed(self, text, rounds=4):
        """What is printed last, and whether it fits."""
        seen = set()
        for _ in range(rounds):
            self.assertNotIn(text, seen, "the hints go in a circle")
            seen.add(text)
            done = self.tombolo("simulate", self.write("job.toml", text))
            if done.returncode == 0:
                return True
            self.assertEqual(done.returncode, 3, done.stderr)
            hint = done.stderr[done.stderr.index("\n  try ") + 7:]
            if NOTHING_HELPS in hint:
                return False
            text = changed(text, hint)
        self.fail(f"{rounds} hints and it does not fit:\n{done.stderr}")

    def test_replicas_that_hold_the_same(self):
        self.assertTrue(self.followed(job(parallelism="pipeline = 1\ndata = 8\n")))

    def test_activations_of_large_microbatches(self):
        self.assertTrue(self.followed(job(micro_batch=32, parallelism="tensor = 8\npipeline = 1\n")))

    def test_one_device_of_many(self):
        self.assertTrue(self.followed(job(model="llama3-70b", nodes=16)))

    def test_all_forwards_first(self):
        self.assertTrue(self.followed(job(parallelism='pipeline = 8\nschedule = "gpipe"\n')))

    def test_replicas_in_two_datacenters_that_cannot_share_state(self):
        apart = 'pipeline = 1\ndata = 2\ndatacenter_per_replica = ["a", "b"]\n'
        self.assertTrue(self.followed(job(more=SECOND, parallelism=apart)))

    def test_a_model_that_no_layout_fits(self):
        self.assertFalse(self.followed(job(model="llama3-405b")))
        self.assertFalse(self.followed(job(each=1)))


if __name__ == "__main__":
    unittest.main()
