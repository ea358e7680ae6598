#!/usr/bin/env python3
"""What a link that chooses its own connections and congestion control carries, against every fixed pair.

    bench/link_choice.py [--build build/release] [--paths clean,lossy,far,fat] [--seconds 4] [--run 40] [--times 2]
                         [--connections 1,2,4,8,16] [--congestion-controls cubic,bbr]

The paths are those of bench/wan_goodput.py (queue of one round trip, drops at its tail; kernel buffers of 64 MB and
more on both sides). Every fixed pair is measured over --seconds after a warm-up of 3 s; the two best of them again,
over half of --run, in turns with the link that chooses, because the best of ten short measurements is also the
luckiest. The link that chooses: over --run seconds from its first byte, slow start and every visit of a bad pair
included, and over the second half of it (steady state); the median of --times runs. The bar is 0.95 of the better of
the two pairs. Takes 20 minutes with its defaults. Ends with 77 where something is missing, with 1 where a path is
below the bar. A row says "busy" where the emulator came more than 2 ms late (p99): then measure again on an idle
machine.
"""
import argparse
import pathlib
import statistics
import sys

import wan_goodput as wan

BAR = 0.95
WARMUP = 3


def measure(islands, build, connections, control, seconds, warmup):
    return islands.run(build / "link_bench", "goodput", "--connections", connections, "--seconds", seconds,
                       "--warmup", warmup, "--congestion-control", control)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=wan.ROOT / "build" / "release")
    parser.add_argument("--paths", default=",".join(wan.PATHS))
    parser.add_argument("--connections", default="1,2,4,8,16")
    parser.add_argument("--congestion-controls", default="cubic,bbr")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--run", type=int, default=40)
    parser.add_argument("--times", type=int, default=2)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    for program in ("link_bench", "tombolo-islands"):
        if not (build / program).exists():
            sys.exit(f"{build / program} is not built: cmake --build {build} --target {program}")
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as file:
        known = file.read().split()
    controls = [name for name in arguments.congestion_controls.split(",") if name in known]
    below = []
    for name in arguments.paths.split(","):
        rate, one_way, loss = wan.PATHS[name]
        islands = wan.Islands(build, wan.PATHS[name])
        print(f"\n{name}: {rate}, round trip {2 * one_way} ms, loss {loss:.2%}; fixed pairs {arguments.seconds} s after "
              f"{WARMUP} s, Mbps", flush=True)
        fixed = {}
        for control in controls:
            for connections in arguments.connections.split(","):
                fixed[connections, control] = measure(islands, build, connections, control, arguments.seconds,
                                                      WARMUP)["payload_mbps"]
            print(f"  {control:<6}" + "".join(f"{n:>3}: {fixed[n, control]:<7.0f}"
                                              for n in arguments.connections.split(",")), flush=True)
        two_best = sorted(fixed, key=fixed.get, reverse=True)[:2]
        again, ours = {pair: [] for pair in two_best}, []
        for _ in range(arguments.times):
            ours.append(measure(islands, build, "auto", controls[0], arguments.run, 0))
            print(f"  chosen {ours[-1]['pulling']} {ours[-1]['congestion_control']}: {ours[-1]['payload_mbps']:.0f} over "
                  f"{arguments.run} s from the first byte, {ours[-1]['steady_mbps']:.0f} in the second half\n"
                  f"    {ours[-1]['reason']}", flush=True)
            for connections, control in two_best:
                again[connections, control].append(measure(islands, build, connections, control, arguments.run // 2,
                                                           WARMUP)["payload_mbps"])
        longer = {pair: statistics.median(values) for pair, values in again.items()}
        best = max(longer, key=longer.get)
        whole, steady = (statistics.median(run[key] for run in ours) / longer[best]
                         for key in ("payload_mbps", "steady_mbps"))
        print(f"  {', '.join(f'{n} {control} {value:.0f}' for (n, control), value in longer.items())} over "
              f"{arguments.run // 2} s\n  of the better one: {whole:.3f} in all, {steady:.3f} steady; emulator "
              f"{islands.busy()}", flush=True)
        if whole < BAR:
            below.append(name)
    if below:
        sys.exit(f"below {BAR} of the best fixed pair: {', '.join(below)}")


if __name__ == "__main__":
    main()
