"""Which device is cheapest for a model? The best plan by time and by cost on each, from a job that is a dict.

    python3 examples/python/which_device.py [DEVICE ...]
"""
import sys

import tombolo

PRICES = {"a100-80g": "1.8 USD/device-hour", "h100-80g": "2.5 USD/device-hour", "h200-141g": "3.2 USD/device-hour"}


def job(device):
    return {
        "model": {"preset": "llama3-8b"},
        "cluster": {"datacenter": [{"name": "here", "device": device, "nodes": 4, "devices_per_node": 8, "price": PRICES[device]}]},
        "training": {"stack": "megatron", "global_batch": 256},
    }


def main(*devices):
    print("device     best by     iteration  USD  tensor x pipeline x data")
    for device in devices or PRICES:
        for objective in ("time", "cost"):
            try:
                best = tombolo.plan(job(device), objective=objective).best
            except tombolo.NoFeasiblePlan as error:
                print(f"{device:10} {objective:10}  does not fit: {error.message}")
                continue
            layout = best.parallelism
            print(f"{device:10} {objective:10} {best.iteration_s:8.2f} s {best.cost_usd:5.3f}"
                  f"  {layout['tensor']} x {layout['pipeline']} x {layout['data']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
