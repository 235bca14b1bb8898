"""The texts of a relay: one line after each turn, and a report at the end.

Every line begins with our own word or a dash. So no text of an agent can pass for a verdict or a
signal, which count only at the start of a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from little_loops.relay.rules import Check, RelayTurn, artifacts_of

TURNS_SHOWN = 20
LINES_SHOWN = 50


def turn_line(turn: RelayTurn, *, limit: int | None = None) -> str:
    """Describe a turn on one line: `turn 2 of 5: partial, 2 of 4 phases complete, committed
    1a2b3c4`."""
    of = f" of {limit}" if limit is not None else ""
    parts = [_ending(turn)]
    if turn.completed is not None:
        parts.append(_phases(turn.completed, turn.total))
    if turn.commit:
        parts.append(f"committed {turn.commit}")
    return f"turn {turn.number}{of}: {', '.join(parts)}"


def _ending(turn: RelayTurn) -> str:
    """Return how a turn ended, in a few words."""
    if turn.word == "invalid":
        return turn.reason
    if turn.refuted:
        return "implemented, but the check failed"
    return "needs review" if turn.word == "review" else turn.word


def _phases(completed: int, total: int | None) -> str:
    of = f" of {total}" if total is not None else ""
    return f"{completed}{of} phase{'' if (total or completed) == 1 else 's'} complete"


def report(name: str, session: str, turns: Sequence[RelayTurn]) -> str:
    """Return the report of a relay; its last line says how it ended, or how far it is.

    There must be at least one turn.
    """
    lines = [f"relay {name}: {_count(len(turns), 'turn')}, session {session}"]
    lines += _listed(turn_line(turn) for turn in turns[-TURNS_SHOWN:])
    lines += _section("errors", [f"turn {t.number}: {error}" for t in turns for error in t.errors])
    lines += _section("artifacts", artifacts_of(turns))
    lines += _section("notes", [f"turn {t.number}: {note}" for t in turns for note in t.notes])
    summaries = [turn.summary_path for turn in turns if turn.summary_path]
    lines += [f"summary: {summaries[-1]}"] if summaries else []
    return "\n".join([*lines, _conclusion(turns[-1], turns)]) + "\n"


def _conclusion(turn: RelayTurn, turns: Sequence[RelayTurn]) -> str:
    """Return the last line of the report."""
    match turn.word:
        case "implemented" if not turn.refuted:
            because = f": {turn.reason}" if turn.reason else ""
            return f"implemented in {_count(len(turns), 'turn')}, {_PROOF[turn.check]}{because}"
        case "review":
            return f"needs review: {turn.reason}"
        case "blocked" | "failed":
            return f"{turn.word}: {turn.reason}"
        case _:
            return f"not implemented after {_count(len(turns), 'turn')}{_phases_so_far(turns)}"


_PROOF: Mapping[Check, str] = {
    "": "according to the agent (not checked)",
    "pending": "not checked yet",
    "passed": "confirmed by the check",
}


def _phases_so_far(turns: Sequence[RelayTurn]) -> str:
    """Return the phases of the last turn that reported them, for the last line."""
    accounts = [(turn.completed, turn.total) for turn in turns if turn.completed is not None]
    return f", {_phases(*accounts[-1])}" if accounts else ""


def _section(title: str, items: Sequence[str]) -> list[str]:
    """Return a titled list, shortened to the last items; nothing if it is empty."""
    if not items:
        return []
    left_out = len(items) - LINES_SHOWN
    more = [f"- … and {left_out} before these"] if left_out > 0 else []
    return [f"{title}:", *more, *_listed(items[-LINES_SHOWN:])]


def _listed(items: Iterable[str]) -> list[str]:
    return [f"- {item}" for item in items]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
