"""Why something cannot be done with a run: the sentences that a command and the page both say.

Each is a message and a help, as `UsageError` takes them.
"""

from __future__ import annotations

from little_loops.fsm.state import Answer
from little_loops.records import NamedTuple
from little_loops.runs.answers import quoted_answer


class Refusal(NamedTuple):
    message: str
    help: str | None = None


def not_running(name: str, how: str) -> Refusal:
    return Refusal(f"{name} is not running: {how}")


def already(name: str, doing: str, process: str) -> Refusal:
    return Refusal(
        f"Cannot start '{name}' - it is already {doing} ({process})",
        f"to see it: `ll-loop status {name}`; to stop it: `ll-loop stop {name}`",
    )


def continues_with(name: str, parent: str) -> Refusal:
    return Refusal(
        f"`{name}` was started by `{parent}`, and continues with it",
        f"`ll-loop resume {parent}` continues both",
    )


def nothing_to_resume(name: str, why: str) -> Refusal:
    return Refusal(f"nothing to resume in `{name}`: {why}")


def run_again(name: str) -> Refusal:
    return Refusal(f"`{name}` has run again since", "only its last run can be continued")


def not_at_a_gate(name: str, how: str) -> Refusal:
    return Refusal(f"`{name}` is not waiting at a gate: it {how}")


def already_answered(name: str, answer: Answer) -> Refusal:
    return Refusal(
        f"`{name}` has already been {quoted_answer(answer)}",
        f"to continue with that answer, run `ll-loop resume {name}`",
    )


def not_for_notes(name: str, how: str, *, has_file: bool) -> Refusal:
    """`has_file`: the loop can be run again."""
    return Refusal(
        f"`{name}` {how}, so no agent would receive the note",
        f"`ll-loop run {name}` starts it again" if has_file else None,
    )


def without_agent(name: str) -> Refusal:
    return Refusal(f"`{name}` has no agent that could receive the note")


def not_started(name: str) -> Refusal:
    return Refusal(f"`{name}` has not started yet")


def runs_with(name: str, parent: str) -> Refusal:
    return Refusal(f"`{name}` was started by `{parent}`, and runs again with it")


def without_file(loop: str) -> Refusal:
    return Refusal(f"there is no longer a loop file for `{loop}`")


def unfinished(name: str, status: str, state: str, *, has_file: bool = True) -> Refusal:
    """`has_file`: it has a loop file, and `ll-loop run` starts it."""
    how = "interrupted (crashed)" if status == "running" else status.replace("_", " ")
    again = f"`ll-loop run {name} --fresh`" if has_file else "the same command with `--fresh`"
    return Refusal(
        f"`{name}` has an unfinished run: {how} in state `{state}`",
        f"`ll-loop resume {name}` continues it; {again} starts a new run",
    )


def without_snapshots(name: str) -> Refusal:
    return Refusal(
        f"no snapshots of the files were recorded for `{name}`", "evidence was off for this run"
    )


def before_snapshots(name: str) -> Refusal:
    return Refusal(f"`{name}` ended before its first snapshot, so there is nothing to undo")


def nothing_changed(name: str) -> Refusal:
    return Refusal(f"`{name}` changed no files, so there is nothing to undo")


def undone_with(name: str, parent: str) -> Refusal:
    return Refusal(
        f"`{name}` was started by `{parent}`, and cannot be undone separately",
        f"`ll-loop undo {parent}` undoes both; `--to STEP` goes back to one of the steps of"
        f" `{parent}`",
    )


def running(name: str) -> Refusal:
    return Refusal(f"`{name}` is running", f"`ll-loop stop {name}` first")


def unreadable(name: str, damage: str | None) -> Refusal:
    return Refusal(f"`{name}` cannot be read: {damage}")


def no_receipt_yet(name: str) -> Refusal:
    return Refusal(f"`{name}` is still running", "a receipt is for a run that has ended")


def nothing_recorded(name: str) -> Refusal:
    return Refusal(f"`{name}` has recorded nothing yet")
