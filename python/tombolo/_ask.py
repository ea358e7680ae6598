"""Asks the planner: options to the words of a command, its answer and its errors to Python."""
from __future__ import annotations

import json
import numbers
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Union, cast

from . import _tombolo
from ._answers import Answer
from ._errors import InternalError, error_of
from ._jobs import NAME, Job, job_words, plain

Progress = Union[bool, None, Callable[[int, int], Any]]
A = TypeVar("A", bound=Answer)


class _Bar:
    """How far a search is, on a terminal or in a notebook, once it takes half a second."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._width = 0

    def __call__(self, done: int, of: int) -> None:
        if time.monotonic() - self._begin < 0.5:
            return
        filled = min(32, done * 32 // of) if of > 0 else 0
        text = f"[{'#' * filled}{'.' * (32 - filled)}] {done} of {of}"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def end(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


def in_notebook() -> bool:
    """Whether answers are shown as pages: the code runs in a kernel of Jupyter."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def words_of(options: Mapping[str, Any]) -> list[str]:
    """time_limit="20 s" is --time-limit="20 s"; True is the option alone; None and False leave it out. Of a list the option is given
    once for each, or once with commas: the command's declaration says which."""
    words = []
    for name, value in options.items():
        option, value = "--" + name.rstrip("_").replace("_", "-"), plain(value)
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple, range)):
            words.append(f"{option}={','.join(word_of(name, each) for each in value)}")
        else:
            words.append(f"{option}={word_of(name, value)}")
    return words


def word_of(name: str, value: Any) -> str:
    """A value as a command takes it."""
    value = plain(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (bytes, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, (str, numbers.Number)):
        return str(value)
    raise TypeError(f"{name}: wanted a text, a number or a list of them, not {type(value).__name__}")


def run(words: list[str], text: str | None = None, *, of_dict: bool = False, progress: Progress = None, kind: type[A] | None = None,
        fails_a_check: bool = False) -> Any:
    """What the command of these words answers: `kind` of its JSON document, or without one its text."""
    bar = None
    if progress is None:
        progress = in_notebook() or sys.stderr is not None and sys.stderr.isatty()
    if progress is True:
        progress = bar = _Bar()
    if progress and not callable(progress):
        raise TypeError(f"progress: wanted True, False or a function, not {type(progress).__name__}")
    if any("\0" in word for word in words):
        raise ValueError("a path or an option has a null character")
    try:
        # As bytes, since a path may be no UTF-8.
        said = _tombolo.ask([os.fsencode(word) for word in words], NAME if text is not None else "", (text or "").encode("utf-8", "surrogatepass"), progress or None, fails_a_check)
    finally:
        if bar:
            bar.end()
    if said["bug"]:
        raise InternalError(said["bug"], message=said["bug"])
    answer = None
    if kind is not None and said["text"].strip():
        answer = kind.of(json.loads(said["text"]), said["notes"], said["stopped"], (words, text))
    if said["error"]:
        raise error_of(said["error"], said["notes"], answer, of_dict)
    return said["text"] if kind is None else answer


def ask(kind: type[A], command: str, job: Job, options: Mapping[str, Any], progress: Progress = None, more: list[str] | None = None) -> A:
    """A command's answer about a job. What it writes (out=, report=) it writes."""
    words = ["--json", *words_of(options), *(more or [])]
    name, text, of_dict = job_words(job)
    # First, where no option that takes several values could take it as one of them.
    words = [command, name, *words]
    if not in_notebook() or options.get("report") or not kind.page_option:
        return cast(A, run(words, text, of_dict=of_dict, progress=progress, kind=kind))
    # What a notebook shows is made with the answer, which costs less than to ask once more.
    with tempfile.TemporaryDirectory(prefix="tombolo-") as folder:
        path = os.path.join(folder, "page.html")
        answer = cast(A, run([*words, f"{kind.page_option}={path}"], text, of_dict=of_dict, progress=progress, kind=kind))
        answer.keep_page(path)
    return answer
