"""The texts of a run that pages show: its error, its continuation, what it waits for.

A snapshot has them unmasked, because a resume needs that; the log has them without the secrets of
the process that wrote it, which may be unknown here. So the log is read first, and texts that it
does not have are shown without the secrets of this process.

Not here: control characters (`reporting.escape`), which each page escapes when it prints.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from little_loops.records import NamedTuple

if TYPE_CHECKING:
    from little_loops.fsm.events import Entry
    from little_loops.fsm.state import RunSummary


class Texts(NamedTuple):
    error: str | None = None
    continuation: str | None = None
    waits_for: str | None = None


def texts_in(run: RunSummary) -> Texts:
    """Return the texts of the snapshot."""
    return Texts(run.error, run.continuation_prompt, run.wait.why if run.wait else None)


def shown_texts(kept: Texts, entries: Iterable[Entry]) -> Texts:
    """Return the texts that are in `kept`, as the last events of the run have them, else as they
    are kept; in both cases without the secrets of this process."""
    from little_loops.reporting.masking import Masker  # few runs have texts

    masker, told = Masker(os.environ), Texts()
    for entry in entries:
        told = Texts(*(new or old for new, old in zip(_texts_of(entry), told, strict=True)))
    return Texts(
        *(text and masker.mask(said or text) for said, text in zip(told, kept, strict=True))
    )


def _texts_of(entry: Entry) -> Texts:
    """Return the texts that an event contains."""
    from little_loops.fsm import events as kinds

    match entry.event:
        case kinds.LoopError(error=error):
            return Texts(error=error)
        case kinds.LoopComplete(message=message) | kinds.LoopPaused(message=message):
            return Texts(error=message)
        case kinds.Handoff(message=message, continuation=continuation):
            return Texts(message, continuation)
        case kinds.HandoffDetected(continuation=continuation):
            return Texts(continuation=continuation)
        case kinds.Resume(continuation=continuation):
            return Texts(continuation=continuation)
        case kinds.HostWait(reason=reason) | kinds.AgentWait(reason=reason):
            return Texts(waits_for=reason)
        case _:
            return Texts()
