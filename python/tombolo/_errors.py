"""What a question is answered with where there is no answer."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._answers import Answer


class TomboloError(Exception):
    """Something went wrong. `str()` is what the program `tombolo` writes, with what it was doing and what to try.

    exit_code: the program's; 2 where what was given cannot be used, 3 where no plan is feasible, 1 for anything else.
    message:   the first line, without "while" and "try".
    context:   what was being done, innermost first.
    try_:      what to try; empty where there is nothing to say.
    notes:     as those of answers.
    answer:    what was found all the same, such as the rows of a sweep of which none is feasible; else None.
    """

    def __init__(self, text: str, *, exit_code: int = 1, message: str = "", context: tuple[str, ...] = (), try_: str = "",
                 notes: tuple[str, ...] = (), answer: Answer | None = None):
        super().__init__(text)
        self.exit_code = exit_code
        self.message = message or text
        self.context = context
        self.try_ = try_
        self.notes = notes
        self.answer = answer


class JobError(TomboloError, ValueError):
    """What was given cannot be used: a key of a job, an option, a file.

    file, line, key, value: where it is wrong, as far as that is known; `value` is JSON, as it stands in the file.
    """

    def __init__(self, text: str, *, file: str | None = None, line: int | None = None, key: str | None = None, value: str | None = None,
                 **others: Any):
        super().__init__(text, **others)
        self.file = file
        self.line = line
        self.key = key
        self.value = value


class NoFeasiblePlan(TomboloError):
    """Nothing fits. The message names the tightest constraint."""


class InternalError(TomboloError):
    """A bug of Tombolo: something that must hold did not. The interpreter and other questions are not affected."""


def error_of(said: dict[str, Any], notes: list[str], answer: Answer | None, of_dict: bool) -> TomboloError:
    """The exception of an error as the module tells it."""
    text, message = said["text"], said["message"]
    file, line, key = said["file"] or None, said["line"] or None, said["key"] or None
    # Of what does not fit together, the message alone says where.
    if at := re.match(r"([^\s:]+):(\d+): (?:([a-z_]+(?:\[\d+\]|\.[a-z_]+)+)[ :])?", message):
        file, line, key = file or at[1], line or int(at[2]), key or at[3]
    if of_dict:  # lines of a text that nobody wrote
        text, message = (re.sub(r"<job>:\d+:(\d+:)?", "<job>:", each) for each in (text, message))
        line = None
    common = {"exit_code": said["exit_code"], "message": message, "context": tuple(said["context"]), "try_": said["try"], "notes": tuple(notes),
              "answer": answer}
    if said["exit_code"] == 2:
        return JobError(text, file=file, line=line, key=key, value=said["value"] or None, **common)
    return (NoFeasiblePlan if said["exit_code"] == 3 else TomboloError)(text, **common)
