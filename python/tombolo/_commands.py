"""The questions. Each is the command of the same name, asked in this process: `tombolo COMMAND --help` and the guides say more."""
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, cast, overload

from . import _answers, _ask
from ._ask import Progress
from ._jobs import Job, plain

Path = Union[str, "os.PathLike[str]"]
Time = Union[str, float]  # "20 s", "5 min"; a number is seconds


def _options(local: Mapping[str, Any], *leave: str) -> dict[str, Any]:
    return {name: value for name, value in local.items() if name not in ("job", "progress", *leave)}


# What of it depends on a value: type checkers look here.
@overload
def plan(job: Job, *, across: Literal[True], **options: Any) -> _answers.WaysAcross: ...
@overload
def plan(job: Job, *, across: Literal[False] = False, **options: Any) -> _answers.Plan: ...


def plan(job: Job, *, law: str | None = None, objective: str | None = None, all_devices: bool = False,  # type: ignore[misc]
         no_pruning: bool = False, memory_margin: float | None = None,
         simulate_for: Time | None = None, time_limit: Time | None = None, threads: int | None = None, across: bool = False,
         tokens: float | None = None, deadline: Time | None = None, budget: str | None = None, way: int | None = None,
         steps_factor: str | None = None, local_steps: Sequence[int] | None = None, top: int | None = None, out: Path | None = None,
         export: str | None = None, report: Path | None = None, progress: Progress = None) -> Any:
    """The best parallelism of a job, its rivals, and why not others: a `Plan`, with across=True `WaysAcross`.

    objective:    "time", "cost" or "throughput".
    law:          "tombolo" or "rail-only".
    across:       compare one datacenter alone, stages in different ones, and whole pipelines in each with every [exchange];
                  tokens=2e12, deadline="720 h" and budget="50000 USD" say the target.
    time_limit:   answer with the best so far. KeyboardInterrupt does the same (`stopped`).
    simulate_for: core time for simulating the last candidates; 0: rank by the closed form.
    memory_margin: what part of each device's memory stays free, as 0.05.
    out:          "plan.json" or "job.toml": writes the best, for all other questions. report: "page.html".
    export:       "megatron" or "torchtitan": the best as options of that trainer, in `export`.
    progress:     True, False, or called with (done, of); left out: a line on a terminal or in a notebook.

    Raises JobError, or NoFeasiblePlan where nothing fits.
    """
    return _ask.ask(_answers.WaysAcross if across else _answers.Plan, "plan", job, _options(locals()), progress)


def estimate(job: Job, *, law: str | None = None, report: Path | None = None) -> _answers.Estimate:
    """An iteration of a job or a Plan by a law in closed form. The job says its parallelism; one that leaves it open is for `plan`."""
    return _ask.ask(_answers.Estimate, "estimate", job, _options(locals()))


def simulate(job: Job, *, hardware: Path | None = None, seed: int | None = None, iterations: int | None = None, policy: str | None = None,
             no_split: bool = False, prove: bool = False, measured: Path | None = None, strands: bool = False, prefill: Path | None = None,
             prefill_scale: float | None = None, no_suspension: bool = False, prefill_batch: bool = False,
             prefill_decode: str | None = None, check: bool = False, out: Path | None = None, out_plan: Path | None = None,
             progress: Progress = None) -> _answers.Simulation:
    """The predicted timeline of a job or Plan.

    policy: another schedule than the job's, or "best", which searches; with prove=True it says whether any is shorter.
    prefill: what the bubbles carry of recorded requests (CSV).
    out, out_plan: files to write: the Trace (JSON Lines), the Plan that performs what was predicted.
    """
    return _ask.ask(_answers.Simulation, "simulate", job, _options(locals()), progress)


def select(job: Job, *, order: str | None = None, report: Path | None = None) -> _answers.Selection:
    """Which datacenters to use, and how many pipelines. order: "availability", "price", "distance" or "file"."""
    return _ask.ask(_answers.Selection, "select", job, _options(locals()))


def sweep(job: Job, vary: Mapping[str, Any] | str | Sequence[str], *, ask: str | None = None, policy: str | None = None,
          law: str | None = None, objective: str | None = None, threads: int | None = None, out: Path | None = None,
          report: Path | None = None, x: str | None = None, y: str | None = None, by: str | None = None,
          progress: Progress = None) -> _answers.Sweep:
    """One question at every point of a grid.

    vary: {"cluster.wan.*.connections": [1, 4, 16], "training.global_batch": "32..256*2"}: paths of the job and their values; several:
          their product. Or as the command takes it, "PATH=A,B,C".
    ask:  "simulate", "estimate", "plan" or "select".
    """
    if isinstance(vary, Mapping):
        varied = [f"{path}={_values(path, values)}" for path, values in vary.items()]
    elif isinstance(vary, (str, list, tuple)):
        varied = [vary] if isinstance(vary, str) else [_ask.word_of("vary", each) for each in vary]
    else:
        raise TypeError(f"vary: wanted a dict of paths and their values, or texts, not {type(vary).__name__}")
    return _ask.ask(_answers.Sweep, "sweep", job, _options(locals(), "vary", "varied"), progress, [f"--vary={each}" for each in varied])


def _values(path: str, values: Any) -> str:
    values = plain(values)
    return ",".join(_ask.word_of(path, each) for each in (values if isinstance(values, (list, tuple, range)) else [values]))


def strand(job: Job, *, profile: Path | None = None, dense: bool = False, segment: int | None = None, layers: int | None = None,
           gather_again: bool = False, copies: Sequence[str] | None = None, sm_shares: Sequence[float] | None = None,
           barriers: bool = False, barrier: Time | None = None, report: Path | None = None) -> _answers.Strand:
    """What two microbatches on one device hide of each other. Raises NoFeasiblePlan where nothing is worth it; its `answer` says how
    little."""
    return _ask.ask(_answers.Strand, "strand", job, _options(locals()))


def traffic(job: Job, *, flat_rings: bool = False, gather_again: bool = False, report: Path | None = None,
            csv: Path | None = None) -> _answers.Traffic:
    """Bytes between every pair of GPUs, by kind of parallelism."""
    return _ask.ask(_answers.Traffic, "traffic", job, _options(locals()))


def fabric(gpus: int | None = None, *, radix: int | None = None, domain: int | None = None, server: int | None = None,
           optical_group: int | None = None, switch_port_price: str | float | None = None, transceiver_price: str | float | None = None,
           domain_bandwidth: str | None = None, port_bandwidth: str | None = None, message: str | None = None, failures: bool = False,
           job: Path | None = None, law: str | None = None, iteration: Time | None = None, years: float | None = None,
           price_includes_network: bool = False, jobs: Sequence[Path] | None = None, report: Path | None = None) -> _answers.Fabric:
    """What the network of a GPU cluster needs and costs: Clos, rail-optimised, rail-only.

    job:  a file whose GPUs it joins.
    jobs: files that share one cluster: which rails of which domains each gets. Raises NoFeasiblePlan where some have no place; its
          `answer` says which.
    """
    options = _options(locals())
    return cast(_answers.Fabric, _ask.run(["fabric", "--json", *_ask.words_of({**options, "job": job})], kind=_answers.Fabric))


def reproduce(table: str | None = None, *, data: Path | None = None, law: str | None = None, rows: bool = False) -> _answers.Reproduction:
    """Published tables that we claim: ours, theirs, the gap.

    table: "rail-only/table-4", "rail-only" for all of it; "reference" and "reference/bloom": errors on published measurements;
           "utilisation". Left out: all claims.
    """
    words = ["reproduce", *([_ask.word_of("table", table)] if table else []), "--json", *_ask.words_of(_options(locals(), "table"))]
    return cast(_answers.Reproduction, _ask.run(words, kind=_answers.Reproduction))
