"""Describe a run in a few words: its status, its sign, how it ended, what to do next.

Not here: reading runs (`runs.reading`), laying out tables (`tables`).
"""

from __future__ import annotations

from little_loops.fsm.limit_kinds import BY_REASON
from little_loops.light_typing import TYPE_CHECKING
from little_loops.reporting.escape import visible
from little_loops.runs.view import RunView
from little_loops.terminal.durations import ago, rough
from little_loops.terminal.next_step import either, next_commands
from little_loops.terminal.tables import Style

if TYPE_CHECKING:
    from little_loops.fsm.events import Entry
    from little_loops.terminal.tables import SignName


def shown_name(view: RunView) -> str:
    return visible(view.name) + ("" if view.has_file else " (no file)")


def word_of(view: RunView) -> str:
    """Return the status as displayed: `running`, `paused`, `limit`, `interrupted (crashed)`."""
    match view.status, view.reason:
        case "interrupted", "crash":
            return "interrupted (crashed)"
        case "interrupted", "fork":
            return "forked"
        case "failed", reason if reason in BY_REASON:
            return "limit"
        case "awaiting_continuation", _:
            return "paused"
        case "needs_review", "budget":
            return "paused"
        case "needs_review", _:
            return "needs review"
        case "newer", _:
            return "unreadable (newer version)"
        case status, _:
            return status


def clause_of(status: str) -> str:
    """Return a status as the rest of a sentence: `has completed`, `is still running`."""
    match status:
        case "running":
            return "is still running"
        case "completed" | "failed" | "stopped":
            return f"has {status}"
        case "interrupted":
            return "was interrupted"
        case _:
            return f"is {status.replace('_', ' ')}"


def sign_name(view: RunView) -> SignName:
    """Return the name of the run's sign in `tables.TableSymbols`."""
    match word_of(view):
        case "running":
            return "running"
        case "queued":
            return "waiting"
        case "completed":
            return "good"
        case "failed" | "damaged" | "unreadable (newer version)":
            return "bad"
        case "stopped":
            return "none"
        case _:
            return "warn"


def ending_of(view: RunView) -> str:
    """Return how and where it ended: `completed (done)`, `limit (iterations)`, `failed (apply:
    auth)`."""
    word = word_of(view)
    if view.summary is None or view.is_crashed:
        return word
    where = view.summary.current_state
    match view.status, view.reason:
        case "failed", reason if reason in BY_REASON:
            return f"{word} ({BY_REASON[reason].noun})"
        case "failed", reason if reason not in ("terminal", None):
            return f"{word} ({where}: {reason.replace('_', ' ')})"
        case _:
            return f"{word} ({where})"


def final_line(view: RunView, last: Entry | None) -> str:
    """Return the last line of a run that is over, from its last event or from its state."""
    # Imported here, because only a run that has ended needs them.
    from little_loops.fsm.events import FinalEvent
    from little_loops.reporting.lines import last_line

    if last is not None and isinstance(last.event, FinalEvent):
        return visible(last_line(last.event), newlines=False)
    if view.summary is None:
        return f"Loop {word_of(view)}: {visible(view.damage or 'no state', newlines=False)}"
    where = visible(view.summary.current_state, newlines=False)
    return f"Loop {word_of(view).replace(' (crashed)', ': crashed')} in state '{where}'"


def next_step(view: RunView) -> str | None:
    """Return the command that the user most likely needs now; None if there is none."""
    return either(next_steps(view))


def next_steps(view: RunView) -> tuple[str, ...]:
    """Return the same as commands of their own: at a gate there are two to choose from."""
    # Only the root of a tree of runs is resumed, but each gate has its own answer.
    at_gate = (view.status, view.reason) == ("needs_review", "review")
    name = view.name if at_gate or view.is_alive else view.root_name
    summary = view.summary
    if view.status == "running":
        return (f"ll-loop attach {name}",)
    if view.status == "queued":
        return (f"ll-loop stop {name}",)
    if summary is None:
        return (f"ll-loop resume {name}",)
    return next_commands(
        name, view.status, view.reason, iteration=summary.iteration, ran_ms=summary.ran_ms
    )


def signed(view: RunView, text: str, style: Style) -> str:
    """Return the text after the run's sign."""
    return f"{getattr(style.signs, sign_name(view))} {text}"


def since(view: RunView, now: int) -> str:
    """Return the status and for how long: `running 14m`, `paused 1d ago`, `needs review (for 5s)`."""
    word = word_of(view)
    if view.summary is None:
        return word
    if view.status == "running":
        return f"{word} {rough(view.ran_ms(now))}"
    if word == "needs review":
        return f"{word} (for {rough(now - view.updated_ms)})"
    return f"{word} {ago(view.updated_ms, now)}"


def money(usd: float, none: str) -> str:
    if not usd:
        return none
    return f"${usd:.2f}" if usd >= 0.005 else "<$0.01"
