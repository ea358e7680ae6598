"""How fast must the line be? Tokens per second of a job over the rate of its WAN, with and without more connections.

    python3 examples/python/line_rates.py [JOB]
"""
import pathlib
import sys

import tombolo

EXAMPLES = pathlib.Path(__file__).resolve().parents[1]


def main(job=EXAMPLES / "what-if" / "job.toml"):
    answer = tombolo.sweep(job, {"cluster.wan.*.node_pair_limit": ["1 Gbps", "2 Gbps", "5 Gbps", "10 Gbps"],
                                 "cluster.wan.*.connections": [1, 16]})
    print("rate      connections  tokens/s  USD per million")
    for row in answer.rows:
        print(f"{row['cluster.wan.*.node_pair_limit']:8}  {row['cluster.wan.*.connections']:11}  {row['tokens_per_s']:8.0f}"
              f"  {row['cost_per_million_tokens_usd']:15.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
