"""What `ll-loop replay` prints: for each run, whether it would have gone the same way."""

from __future__ import annotations

from collections.abc import Iterator

from little_loops import __version__
from little_loops.engine.following import Mismatch
from little_loops.engine.replaying import Difference, RecordedMove, Replayed
from little_loops.fsm.events import KINDS, Event
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.terminal.tables import Style

_NAME_OF = {kind: name for name, kind in KINDS.items()}
_DETAILS = ("state", "from_", "to", "reason", "result", "verdict", "when", "status", "message")
"""The fields that tell two events of the same kind apart, for people."""
MAX_DETAIL = 60


class RunReplay(NamedTuple):
    """The replay of one run.

    `transitions` were taken in the recorded run; `damage` says why its log could not be read.
    `mismatch` is where it differs from what its own definition gives. `replayed` is the replay with
    another definition.
    """

    name: str
    run: str
    transitions: int = 0
    has_ended: bool = True
    version: str | None = None
    damage: str | None = None
    mismatch: Mismatch | None = None
    replayed: Replayed | None = None

    @property
    def is_of_this_version(self) -> bool:
        return self.version == __version__

    @property
    def is_whole(self) -> bool:
        """Whether the log is what this version would have written, as far as that can be said."""
        return self.damage is None and (self.mismatch is None or not self.is_of_this_version)


def lines(replay: RunReplay, style: Style) -> Iterator[str]:
    """Yield the lines about one run."""
    title = f"{visible(replay.name)} {visible(replay.run)}"
    if replay.damage is not None:
        yield style.tinted(f"{style.signs.bad} {title}: the log is damaged")
        yield f"  {visible(replay.damage, newlines=False)}"
        return
    if replay.replayed is not None and (difference := replay.replayed.difference) is not None:
        yield f"{title}: {_where(difference)}"
        yield from _difference(difference, style)
    elif replay.mismatch is not None:
        yield from _mismatch(title, replay, replay.mismatch, style)
    else:
        yield style.tinted(f"{style.signs.good} {title}: no difference {_extent(replay)}")
    yield from _remarks(replay)


def _extent(replay: RunReplay) -> str:
    """Return how much of a run was compared."""
    count = replay.transitions if replay.replayed is None else replay.replayed.transitions
    shown = f"in {count} transition{'' if count == 1 else 's'}"
    return shown if replay.has_ended else f"in {shown[3:]} so far"


def _where(difference: Difference) -> str:
    iteration = difference.recorded.iteration
    return f"differs at transition {max(1, difference.number)}, iteration {iteration}"


def _difference(difference: Difference, style: Style) -> Iterator[str]:
    """Yield both transitions, and what would have been run."""
    yield f"  recorded:  {_move(difference.recorded, style)}"
    yield f"  replayed:  {_move(difference.replayed, style)}"
    if difference.would_run is not None:
        first, *more = difference.would_run.text.splitlines() or [""]
        yield f"  would run: {visible(first)}"
        yield from (f"             {visible(line)}" for line in more)
    elif difference.ends not in (None, difference.replayed):
        yield f"  then:      {_move(difference.ends, style)}"


def _move(move: RecordedMove, style: Style) -> str:
    """Return a transition, or how the run ended."""
    if move.status is not None:
        return f"ended in `{visible(move.from_ or '')}`: {move.status} ({move.reason})"
    if move.from_ is None:
        return f"started in `{visible(move.to or '')}`"
    arrow = style.signs.to
    return f"{visible(move.from_)} {arrow} {visible(move.to or '')} ({visible(move.reason)})"


def _mismatch(title: str, replay: RunReplay, mismatch: Mismatch, style: Style) -> Iterator[str]:
    """Yield where a log is not as expected; of another version, that need not be damage."""
    if replay.is_of_this_version:
        yield style.tinted(f"{style.signs.bad} {title}: the log is damaged")
    else:
        yield f"{title}: differs at event {mismatch.seq}"
    yield f"  event {mismatch.seq}: {_event(mismatch.recorded)}"
    if mismatch.expected is not None:
        yield f"  expected: {_event(mismatch.expected)}"


def _event(event: Event) -> str:
    """Return the kind of an event with its most important fields."""
    kind = _NAME_OF.get(type(event), "unknown")
    found = {name: getattr(event, name, None) for name in _DETAILS}
    texts = [
        str(value)[:MAX_DETAIL] for value in found.values() if isinstance(value, str) and value
    ]
    return visible(" ".join([f"`{kind}`", *texts]), newlines=False)


def _remarks(replay: RunReplay) -> Iterator[str]:
    """Yield what limits the result: the end of the recording, another version, changed actions."""
    if replay.replayed is not None:
        if replay.replayed.missing is not None:
            yield f"  the replay ends there: {visible(replay.replayed.missing, newlines=False)}"
        yield from (f"  note: {visible(note, newlines=False)}" for note in replay.replayed.notes)
    if not replay.is_of_this_version:
        by = "an earlier version" if replay.version is None else f"version {replay.version}"
        yield f"  note: recorded by {visible(by)}, not by {__version__}"


def document(replay: RunReplay) -> dict[str, Any]:
    """Return the replay of a run for programs."""
    replayed = replay.replayed
    difference = None if replayed is None else replayed.difference
    return {
        "name": replay.name,
        "run": replay.run,
        "version": replay.version,
        "whole": replay.is_whole,
        "ended": replay.has_ended,
        "transitions": replay.transitions if replayed is None else replayed.transitions,
        "damage": replay.damage,
        "mismatch": None if replay.mismatch is None else _mismatch_as_dict(replay.mismatch),
        "difference": None if difference is None else _difference_as_dict(difference),
        "missing": None if replayed is None else replayed.missing,
        "notes": [] if replayed is None else list(replayed.notes),
    }


def _mismatch_as_dict(mismatch: Mismatch) -> dict[str, Any]:
    expected = mismatch.expected
    return {
        "event": mismatch.seq,
        "recorded": _event(mismatch.recorded),
        "expected": None if expected is None else _event(expected),
    }


def _difference_as_dict(difference: Difference) -> dict[str, Any]:
    would_run = difference.would_run
    return {
        "number": difference.number,
        "recorded": _move_as_dict(difference.recorded),
        "replayed": _move_as_dict(difference.replayed),
        "would_run": None if would_run is None else would_run._asdict(),
        "ends": None if difference.ends is None else _move_as_dict(difference.ends),
    }


def _move_as_dict(move: RecordedMove) -> dict[str, Any]:
    return {
        "from": move.from_,
        "to": move.to,
        "reason": move.reason,
        "iteration": move.iteration,
        "status": move.status,
    }
