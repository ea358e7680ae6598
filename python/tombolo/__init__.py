"""Tombolo's planner: plans and simulates large-model training over slow networks.

    import tombolo

    best = tombolo.plan("job.toml", objective="cost").best
    print(best.iteration_s, best.parallelism)

Each function is the command of the same name, asked in this process: it takes a path, TOML text or a dict, keyword arguments named
like the command's options, and returns a dataclass with `to_dict()` (what the command prints with --json), `to_frame()` where rows
are the answer (with pandas), and `page()`, which notebooks show. What cannot be used raises JobError, a job that fits nowhere
NoFeasiblePlan.

Guide: docs/guide/python.md.
"""
from ._answers import (Answer, Estimate, Fabric, Layout, Plan, Reproduction, Selection, Simulation, Strand, Sweep, Traffic, WaysAcross)
from ._commands import estimate, fabric, plan, reproduce, select, simulate, strand, sweep, traffic
from ._errors import InternalError, JobError, NoFeasiblePlan, TomboloError
from ._tombolo import __version__

__all__ = [
    "plan", "estimate", "simulate", "select", "sweep", "strand", "traffic", "fabric", "reproduce",
    "Answer", "Plan", "Layout", "WaysAcross", "Estimate", "Simulation", "Selection", "Sweep", "Strand", "Traffic", "Fabric", "Reproduction",
    "TomboloError", "JobError", "NoFeasiblePlan", "InternalError", "__version__",
]
