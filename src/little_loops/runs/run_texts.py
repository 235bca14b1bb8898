"""The texts of a run that pages show: its error, its continuation, what it waits for.

A snapshot has them unmasked, because a resume needs that; the log has them without the secrets of
the process that wrote it, which may be unknown here. So the log is read first, and texts that it
does not have are shown without the secrets of this process.

Not here: control characters (`reporting.escape`), which each page escapes when it prints.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from little_loops.light_typing import TYPE_CHECKING
from little_loops.records import NamedTuple

if TYPE_CHECKING:
    from little_loops.fsm.events import Entry
    from little_loops.fsm.state import RunSummary


class RunTexts(NamedTuple):
    error: str | None = None
    continuation: str | None = None
    waits_for: str | None = None


def texts_in(run: RunSummary) -> RunTexts:
    """Return the texts of the snapshot."""
    return RunTexts(run.error, run.continuation_prompt, run.wait.why if run.wait else None)


def shown_texts(kept: RunTexts, entries: Iterable[Entry]) -> RunTexts:
    """Return the texts that are in `kept`, as the last events of the run have them, else as they
    are kept; in both cases without the secrets of this process."""
    from little_loops.reporting.masking import Masker  # few runs have texts

    masker, newest = Masker(os.environ), RunTexts()
    for entry in entries:
        newest = RunTexts(*(new or old for new, old in zip(_texts_of(entry), newest, strict=True)))
    return RunTexts(
        *(
            text and masker.mask(new_text or text)
            for new_text, text in zip(newest, kept, strict=True)
        )
    )


def _texts_of(entry: Entry) -> RunTexts:
    """Return the texts that an event contains."""
    from little_loops.fsm import events as kinds

    match entry.event:
        case kinds.LoopError(error=error):
            return RunTexts(error=error)
        case kinds.LoopComplete(message=message) | kinds.LoopPaused(message=message):
            return RunTexts(error=message)
        case kinds.Handoff(message=message, continuation=continuation):
            return RunTexts(message, continuation)
        case kinds.HandoffDetected(continuation=continuation):
            return RunTexts(continuation=continuation)
        case kinds.Resume(continuation=continuation):
            return RunTexts(continuation=continuation)
        case kinds.HostWait(reason=reason) | kinds.AgentWait(reason=reason):
            return RunTexts(waits_for=reason)
        case _:
            return RunTexts()
