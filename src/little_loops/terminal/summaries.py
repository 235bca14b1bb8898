"""A run in a few words: what to call it, its sign, how it ended, what to do next.

Not here: looking at runs (`inspect`), laying words out (`tables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from little_loops.fsm.events import FINAL_EVENTS
from little_loops.fsm.limit_kinds import BY_REASON
from little_loops.reporting.escape import visible
from little_loops.runs.inspect import Seen, is_crashed, ran_ms
from little_loops.terminal.durations import ago, rough
from little_loops.terminal.next_step import next_command
from little_loops.terminal.tables import Style


def word_of(one: Seen) -> str:
    """What people call it: `running`, `paused`, `limit`, `interrupted (crashed)`."""
    match one.status, one.reason:
        case "interrupted", "crash":
            return "interrupted (crashed)"
        case "failed", reason if reason in BY_REASON:
            return "limit"
        case "awaiting_continuation", _:
            return "paused"
        case "needs_review", _:
            return "needs review"
        case "newer", _:
            return "of a newer version"
        case status, _:
            return status


def sign_name(one: Seen) -> str:
    """The sign that goes with it, by its name in `tables.Signs`."""
    match word_of(one):
        case "running":
            return "running"
        case "queued":
            return "waiting"
        case "completed":
            return "good"
        case "failed" | "damaged" | "of a newer version":
            return "bad"
        case "stopped":
            return "none"
        case _:
            return "warn"


def ending_of(one: Seen) -> str:
    """How it ended and where: `completed (done)`, `limit (iterations)`, `failed (apply: auth)`."""
    word = word_of(one)
    if one.facts is None or is_crashed(one):
        return word
    where = one.facts.state
    match one.status, one.reason:
        case "failed", reason if reason in BY_REASON:
            return f"{word} ({BY_REASON[reason].noun})"
        case "failed", reason if reason not in ("terminal", None):
            return f"{word} ({where}: {reason.replace('_', ' ')})"
        case _:
            return f"{word} ({where})"


def last_words(one: Seen, record: Mapping[str, Any] | None) -> str:
    """The last line of a run that is over, whoever is left to say it."""
    if record is not None and record["event"] in FINAL_EVENTS:
        from little_loops.reporting.lines import last_line  # only where a run has ended

        try:
            return visible(last_line(record), newlines=False)
        except (KeyError, TypeError, ValueError):
            return f"Loop {word_of(one)}"
    if one.facts is None:
        return f"Loop {word_of(one)}: {visible(one.damage or 'no state', newlines=False)}"
    where = visible(one.facts.state, newlines=False)
    return f"Loop {word_of(one).replace(' (crashed)', ': crashed')} in state '{where}'"


def next_step(one: Seen) -> str | None:
    """The one command that is most likely wanted now."""
    name, facts = one.name, one.facts
    if one.status == "running":
        return f"ll-loop attach {name}"
    if one.status == "queued":
        return f"ll-loop stop {name}"
    if facts is None:
        return f"ll-loop resume {name}"
    return next_command(
        name, one.status, one.reason, iteration=facts.iteration, ran_ms=facts.ran_ms
    )


def signed(one: Seen, text: str, style: Style) -> str:
    """The text behind the run's sign."""
    return f"{getattr(style.signs, sign_name(one))} {text}"


def since(one: Seen, now: int) -> str:
    """`running 14m`, `paused 1d ago`, `damaged`."""
    word = word_of(one)
    if one.facts is None:
        return word
    if one.status == "running":
        return f"{word} {rough(ran_ms(one, now))}"
    return f"{word} {ago(one.facts.updated_ms, now)}"


def money(usd: float, none: str) -> str:
    if not usd:
        return none
    return f"${usd:.2f}" if usd >= 0.005 else "<$0.01"


def count(number: int) -> str:
    """`812`, `41k`, `1.2M`."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.0f}k" if number < 999_500 else f"{number / 1e6:.1f}M"
