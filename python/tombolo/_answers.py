"""Answers: what a command prints with --json, as dataclasses.

Every key of the document is a field of the same name; keys are explained in docs/reference/answers.md. `to_dict()` is the
document itself. A field that does not apply is None.
"""
from __future__ import annotations

import copy
import dataclasses
import html
import json
import os
import tempfile
import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import pandas

Document = dict[str, Any]


def _frame(rows: Any, what: str) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{what} as a DataFrame needs pandas: pip install pandas. to_dict() needs nothing") from error
    return pandas.json_normalize(rows, sep=".") if rows else pandas.DataFrame()


class _Document:
    """A dataclass over a document: its fields are keys."""

    @classmethod
    def _fields_of(cls, document: Document) -> dict[str, Any]:
        hints = typing.get_type_hints(cls)
        out: dict[str, Any] = {}
        for each in dataclasses.fields(cls):  # type: ignore[arg-type]
            if not each.init or each.name.startswith("_") or each.name in ("notes", "stopped"):
                continue
            value = document.get(each.name)
            kind = _document_in(hints[each.name])
            if kind and isinstance(value, dict):
                value = kind._from(value)
            elif kind and isinstance(value, list):
                value = [kind._from(row) for row in value]
            out[each.name] = value
        return out

    @classmethod
    def _from(cls, document: Document) -> Any:
        made = cls(**cls._fields_of(document))
        object.__setattr__(made, "_document", document)
        return made

    def to_dict(self) -> Document:
        """What the command prints with --json."""
        return copy.deepcopy(self._document)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        """Its figures; of lists and tables how long they are."""
        shown = [(each.name, getattr(self, each.name)) for each in dataclasses.fields(self) if each.repr]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in shown if value not in (None, False))})"


def _short(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{len(value)} of them]"
    if isinstance(value, dict):
        return f"{{{len(value)} keys}}"
    return repr(value)


def _document_in(hint: Any) -> type[_Document] | None:
    """The dataclass within a field's type: Layout of list[Layout] | None."""
    if isinstance(hint, type) and issubclass(hint, _Document):
        return hint
    return next(filter(None, map(_document_in, typing.get_args(hint))), None)


@dataclass(frozen=True, repr=False)
class Layout(_Document):
    """A layout that a search ranked."""

    parallelism: Document
    iteration_s: float
    simulated_s: float | None = None
    closed_form_s: float | None = None
    parts: Document | None = None
    throughput: float | None = None
    mfu: float | None = None
    memory_bytes: float | None = None
    cost_usd: float | None = None
    devices: int | None = None
    placement: list[Document] | None = None
    _document: Document = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, repr=False)
class Answer(_Document):
    """What all answers have.

    notes:   what someone should know of the answer and it does not say; the program writes it to stderr, or as notes.
    stopped: a search ended before its end, by time_limit or KeyboardInterrupt, and this is the best that it had found.
    """

    notes: tuple[str, ...] = field(default=(), kw_only=True, repr=False)
    stopped: bool = field(default=False, kw_only=True)
    _document: Document = field(default_factory=dict, kw_only=True, repr=False, compare=False)
    _asked: tuple[list[str], str | None] = field(default=([], None), kw_only=True, repr=False, compare=False)
    _page: list[str] = field(default_factory=list, kw_only=True, repr=False, compare=False)
    page_height: ClassVar[int] = 640  # in a notebook, pixels
    page_option: ClassVar[str] = "--report"  # of the command, which writes a page; empty: none does

    @classmethod
    def of(cls, document: Document, notes: list[str], stopped: bool, asked: tuple[list[str], str | None]) -> Any:
        said = [note for note in document.get("notes") or [] if note not in notes]
        return cls(**cls._fields_of(document), notes=(*notes, *said), stopped=stopped or document.get("stopped") is True, _document=document, _asked=asked)

    def to_json(self) -> str:
        return json.dumps(self._document, indent=2)

    def page(self) -> str:
        """The answer as a self-contained HTML page: what the command writes with --report. Asks the command once more, and then
        keeps it; an answer that was stopped has none."""
        if not self._page:
            self._page.append("" if self.stopped else self._make_page())
        return self._page[0]

    def keep_page(self, path: str) -> None:
        """The page that was written with this answer."""
        with open(path, encoding="utf-8") as file:
            self._page[:] = [file.read()]

    def save_page(self, path: str | os.PathLike[str]) -> None:
        text = self.page()
        if not text:
            raise ValueError(f"{type(self).__name__}: there is no page of this answer")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def _make_page(self) -> str:
        return self._written(self.page_option, "page.html") if self.page_option else ""

    def _written(self, option: str, name: str) -> str:
        """What the command writes with one more option, which names a file."""
        from ._ask import run

        words, text = self._asked
        with tempfile.TemporaryDirectory(prefix="tombolo-") as folder:
            path = os.path.join(folder, name)
            kept = [word for word in words if not word.startswith(("--report", "--out"))]
            run([*kept, f"{option}={path}"], text, progress=False)
            with open(path, encoding="utf-8") as file:
                return file.read()

    def _repr_html_(self) -> str | None:
        page = self.page()
        if not page:
            return None
        # Without a base, links within the page would lead to the notebook's own address and load the notebook in its place.
        page = page.replace("<head>", '<head><base href="about:srcdoc">', 1)
        return (f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: {self.page_height}px; border: 0" loading="lazy">'
                f"{html.escape(repr(self))} (The page is shown where the notebook is trusted.)</iframe>")


@dataclass(frozen=True, repr=False)
class Plan(Answer):
    """The best layouts of a job (`tombolo plan`), in one datacenter or with stages in several."""

    provenance: str
    objective: str
    best: Layout
    law: str | None = None
    top: list[Layout] | None = None
    band: Document | None = None
    finalists: Document | None = None
    why_not: list[Document] | None = None
    configurations: int | None = None
    evaluated: int | None = None
    feasible: int | None = None
    gap: float | None = None
    pruned: Document | None = None
    device_bytes: float | None = None
    space: str | None = None
    strands: Document | None = None
    export: Document | None = None
    wall_s: float | None = None

    def to_frame(self) -> pandas.DataFrame:
        """The layouts, best first."""
        return _frame(self._document.get("top") or [self._document["best"]], "plan")


@dataclass(frozen=True, repr=False)
class WaysAcross(Answer):
    """The ways over several datacenters, best first (`tombolo plan --across`)."""

    provenance: str
    objective: str
    ways: list[Document]
    no_ways: list[Document] | None = None
    break_even: list[Document] | None = None
    simulated: int | None = None
    left_out: int | None = None
    too_large: int | None = None
    wall_s: float | None = None

    @property
    def best(self) -> Document:
        return self.ways[0]

    def to_frame(self) -> pandas.DataFrame:
        """The ways, best first."""
        return _frame(self._document["ways"], "plan")


@dataclass(frozen=True, repr=False)
class Estimate(Answer):
    """An iteration by a law in closed form (`tombolo estimate`)."""

    provenance: str
    law: str
    iteration_s: float
    law_source: str | None = None
    simulated_s: float | None = None
    band: Document | None = None
    parts: Document | None = None
    mfu: float | None = None
    hfu: float | None = None
    memory: Document | None = None
    cost_usd: float | None = None
    devices: int | None = None
    devices_in_cluster: int | None = None
    parallelism: Document | None = None


@dataclass(frozen=True, repr=False)
class Simulation(Answer):
    """The predicted timeline of a job or Plan (`tombolo simulate`)."""

    provenance: str
    iteration_ns: int
    cost_source: str | None = None
    breakdown: Document | None = None
    utilization: float | None = None
    peak_memory_bytes: float | None = None
    peak_memory_per_rank_bytes: list[float] | None = None
    iterations: int | None = None
    events: int | None = None
    fingerprint: str | None = None
    plan_digest: str | None = None
    seed: str | None = None
    tokens_per_s: float | None = None
    mfu: float | None = None
    cost_usd: float | None = None
    egress_usd: float | None = None
    wan_per_iteration: list[Document] | None = None
    policy: Document | None = None
    over_time: Document | None = None
    wall_s: float | None = None
    page_height: ClassVar[int] = 960  # down to the timeline
    page_option: ClassVar[str] = ""  # its page is made of its Trace

    @property
    def iteration_s(self) -> float:
        return self.iteration_ns / 1e9

    def _make_page(self) -> str:
        from ._ask import run

        with tempfile.TemporaryDirectory(prefix="tombolo-") as folder:
            trace, page = os.path.join(folder, "predicted.jsonl"), os.path.join(folder, "page.html")
            with open(trace, "w", encoding="utf-8") as file:
                file.write(self.trace())
            run(["report", trace, f"--out={page}"], progress=False)
            with open(page, encoding="utf-8") as file:
                return file.read()

    def trace(self) -> str:
        """The predicted Trace: JSON Lines, as `tombolo simulate --out` writes it."""
        return self._written("--out", "predicted.jsonl")


@dataclass(frozen=True, repr=False)
class Selection(Answer):
    """Which datacenters, and how many pipelines (`tombolo select`)."""

    provenance: str
    partitions: int
    rows: list[Document]
    chosen: int | None = None
    chosen_row: Document | None = None
    beyond: Document | None = None
    order: list[str] | None = None
    global_batch: int | None = None
    micro_batches: int | None = None
    communication_to_compute: float | None = None
    pipelines_per_cell: int | None = None
    pipeline_law: str | None = None
    allreduce_law: str | None = None
    wall_s: float | None = None

    def to_frame(self) -> pandas.DataFrame:
        """A row for each number of cells."""
        return _frame(self._document["rows"], "select")


@dataclass(frozen=True, repr=False)
class Sweep(Answer):
    """One question at every point of a grid (`tombolo sweep`)."""

    provenance: str
    ask: str
    configurations: int
    rows: list[Document]
    ok: int | None = None
    infeasible: int | None = None
    unusable: int | None = None
    wall_s: float | None = None

    def to_frame(self) -> pandas.DataFrame:
        """A row for each point, in the order of the grid."""
        return _frame(self._document["rows"], "sweep")


@dataclass(frozen=True, repr=False)
class Strand(Answer):
    """What two microbatches on one device hide of each other (`tombolo strand`)."""

    provenance: str
    law: str
    gain: float | None = None
    gain_expected: float | None = None
    gain_low: float | None = None
    sequential_us: float | None = None
    paired_us: float | None = None
    barriers_us: float | None = None
    events_us: float | None = None
    execution: str | None = None
    hidden_fraction: float | None = None
    exposure: Document | None = None
    memory_more_bytes: float | None = None
    segments: list[Document] | None = None
    runs: list[Document] | None = None
    overlap: str | None = None
    proved: bool | None = None
    wall_s: float | None = None

    def to_frame(self) -> pandas.DataFrame:
        """The operators in the order of their begin."""
        return _frame(self._document.get("runs") or [], "strand")


@dataclass(frozen=True, repr=False)
class Traffic(Answer):
    """Bytes between pairs of GPUs, by kind of parallelism (`tombolo traffic`)."""

    provenance: str
    law: str
    gpus: int
    bytes: float
    domain: int | None = None
    pairs: int | None = None
    pairs_without_traffic: int | None = None
    share_of_pairs_without_traffic: float | None = None
    by_kind: Document | None = None
    forwarding: Document | None = None

    def to_frame(self) -> pandas.DataFrame:
        """A row for each kind of parallelism."""
        return _frame([{"kind": kind, **row} for kind, row in (self._document.get("by_kind") or {}).items()], "traffic")


@dataclass(frozen=True, repr=False)
class Fabric(Answer):
    """What the network of a GPU cluster needs and costs (`tombolo fabric`)."""

    provenance: str
    law: str
    gpus: int
    clos: Document | None = None
    rail_optimized: Document | None = None
    rail_only: Document | None = None
    reduction: float | None = None
    failures: list[Document] | None = None
    tiling: Document | None = None


@dataclass(frozen=True, repr=False)
class Reproduction(Answer):
    """Published tables: ours, theirs, the gap (`tombolo reproduce`)."""

    rows: list[Document] | None = None
    tables: list[Document] | None = None
    ok: bool | None = None
    hits: int | None = None
    misses: int | None = None
    not_reproducible: int | None = None
    not_published: int | None = None
    law: str | None = None
    page_option: ClassVar[str] = ""

    def to_frame(self) -> pandas.DataFrame:
        """A row for each figure, or for each table of measurements."""
        return _frame(self._document.get("rows") or self._document.get("tables") or [], "reproduce")
