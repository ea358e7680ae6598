"""One rank of PyTorch DDP over Gloo on an emulated host; bench/ddp_beside.py starts it on each.

    ddp_rank.py HOSTS SECONDS STEPS BUCKET_MB CONTEXTS CONGESTION_CONTROL [POWERSGD_RANK]

Eight matrices of 1,200 x 1,200, whose gradients come by themselves and whose forward and backward passes wait: a third
and two thirds of SECONDS, an eighth each. So computing takes the same on every machine, and no optimizer takes part.
With a rank, DDP's own hook for PowerSGD sends factors of that rank, with error feedback, from the third step on; all else
is its default. The first host prints how long each step took, as JSON.
"""
import json
import os
import socket
import subprocess
import sys
import time

LAYERS, WIDTH = 8, 1200


def interface_of(address):
    """The network interface that has it."""
    for line in subprocess.run(["ip", "-o", "-4", "addr"], capture_output=True, text=True, check=True).stdout.splitlines():
        fields = line.split()
        if fields[3].split("/")[0] == address:
            return fields[1]
    sys.exit(f"no interface has {address}")


def choose_congestion_control(address, name):
    """Of all connections to it, Gloo's too, whose sockets nobody else sees: a property of the route."""
    shown = subprocess.run(["ip", "route", "get", address], capture_output=True, text=True, check=True).stdout
    device = shown.split(" dev ", 1)[1].split()[0]
    subprocess.run(["ip", "route", "replace", address, "dev", device, "src", shown.split(" src ", 1)[1].split()[0],
                    "congctl", "lock", name], check=True)


def main():
    hosts, seconds, steps = sys.argv[1].split(","), float(sys.argv[2]), int(sys.argv[3])
    bucket_mb, contexts, congestion_control = float(sys.argv[4]), int(sys.argv[5]), sys.argv[6]
    powersgd = int(sys.argv[7]) if len(sys.argv) > 7 else 0
    here = os.environ["TOMBOLO_HOST"]
    rank = hosts.index(here)
    for other in hosts:
        if other != here:
            choose_congestion_control(socket.gethostbyname(other), congestion_control)
    os.environ.update(MASTER_ADDR=hosts[0], MASTER_PORT="29555", OMP_NUM_THREADS="1",
                      GLOO_SOCKET_IFNAME=",".join([interface_of(socket.gethostbyname(here))] * contexts))

    import torch
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=len(hosts))

    class Wait(torch.autograd.Function):
        """A layer whose passes take their time, and whose gradient is there at the end of the backward one."""

        @staticmethod
        def forward(context, x, weight, gradient):
            context.gradient = gradient
            time.sleep(seconds / 3 / LAYERS)
            return x * 1

        @staticmethod
        def backward(context, gradient_of_output):
            time.sleep(seconds * 2 / 3 / LAYERS)
            return gradient_of_output, context.gradient, None

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(WIDTH, WIDTH))
            self.made_up = torch.full((WIDTH, WIDTH), float(rank + 1))

        def forward(self, x):
            return Wait.apply(x, self.weight, self.made_up)

    layers = torch.nn.Sequential(*[Layer() for _ in range(LAYERS)])
    model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
    if powersgd:
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=powersgd, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    x = torch.ones(1, requires_grad=True)
    times = []
    for _ in range(steps):
        begun = time.monotonic()
        model.zero_grad(set_to_none=False)
        model(x).sum().backward()
        times.append(time.monotonic() - begun)
        mean = (1 + len(hosts)) / 2
        close = 0.01 if powersgd else 1e-5  # gradients of rank 1: factors hold them, but for what keeps columns apart
        assert all(abs(float(each.weight.grad[0, 0]) - mean) < close for each in layers), "another mean"
    if rank == 0:
        print(json.dumps(times), flush=True)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
