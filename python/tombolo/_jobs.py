"""Jobs as people have them in Python: a path, TOML text or a dict."""
from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any, Union

Job = Union[str, "os.PathLike[str]", Mapping[str, Any]]

NAME = "<job>"  # of a job that is no file, in messages


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key of a job is a text, not {key!r}")
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


def plain(value: Any) -> Any:
    """Numbers and arrays of numpy, and Series of pandas, as Python's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _value(value: Any, path: str) -> str:
    value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ("nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v, f'{path}.{k}')}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(_value(each, f"{path}[{i}]") for i, each in enumerate(value)) + "]"
    raise TypeError(f"{path}: a job has texts, numbers, lists and dicts, not {type(value).__name__}")


def toml_text(job: Mapping[str, Any]) -> str:
    """A job as a job file: a section for each dict, and what is below that inline. Keys whose value is None are left out."""
    out = []
    for key, value in job.items():
        if not isinstance(value, Mapping) and value is not None:
            out.append(f"{_key(key)} = {_value(value, key)}\n")
    for key, value in job.items():
        if isinstance(value, Mapping):
            out.append(f"[{_key(key)}]\n")
            out += [f"{_key(k)} = {_value(v, f'{key}.{k}')}\n" for k, v in value.items() if v is not None]
    return "".join(out)


def job_words(job: Job) -> tuple[str, str | None, bool]:
    """(what stands for the job among a command's words, the text if it is no file, whether it was a dict)."""
    if isinstance(job, Mapping):
        return NAME, toml_text(job), True
    if not isinstance(job, (str, bytes, os.PathLike)):
        raise TypeError(f"a job is a path, TOML text or a dict, not {type(job).__name__}")
    path = os.fspath(job)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    # A Plan (JSON) begins with a brace; the text of a job has more than one line, or a key.
    if isinstance(job, str) and ("\n" in path or path.lstrip().startswith("{") or (" = " in path and not os.path.exists(path))):
        return NAME, path, False
    return (path if not path.startswith("-") else os.path.join(".", path)), None, False
