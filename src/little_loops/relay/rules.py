"""Decide how a relay continues after a turn: metadata in, one word out.

The word is the verdict of the state `settle`, and the machine does the rest: `partial` and
`invalid` lead to the next turn, which the engine refuses beyond `max_iterations`. Earlier turns are
passed in as data, so that settling a turn again, after a crash, gives the same answer.

Not here: reading the file (`metadata`), its format (`contract`), committing (`commits`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile

from little_loops.errors import UsageError
from little_loops.light_typing import Literal, assert_never
from little_loops.records import NamedTuple

Status = Literal["implemented", "partial", "blocked", "failed"]
STATUSES: tuple[Status, ...] = ("implemented", "partial", "blocked", "failed")
Word = Literal["implemented", "partial", "review", "blocked", "failed", "invalid"]
Check = Literal["", "pending", "passed", "failed"]
"""The result of the relay's own check after a turn that claims to be the last; empty if there is none."""
TaskStatus = Literal["implementing", "completed", "partial", "blocked", "failed"]

CHANGEABLE = re.compile(r"0x[0-9a-f]+|\b(?=[a-f]*[0-9])[0-9a-f]{7,}\b|[0-9]+")
"""What can differ between two messages about the same error: addresses, hashes, numbers."""
REPEATS_ALLOWED = 2
REPEATS_COUNTED_IN = 6
"""Repeated errors are counted in this many turns, including the current one."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0


class PlanProgress(NamedTuple):
    """How far the plan is, according to the agent; None if it did not say."""

    completed: int | None = None
    total: int | None = None
    stage: str = ""
    handoff_path: str = ""


class Metadata(NamedTuple):
    """The content of a valid return-metadata file."""

    status: Status
    review: bool = False
    progress: PlanProgress = PlanProgress()
    reason: str = ""
    errors: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    summary_path: str = ""


class UnusableMetadata(NamedTuple):
    """There is no valid metadata; `warning` says what the agent did instead."""

    error: str
    warning: str = ""


class Cut(NamedTuple):
    """The turn was interrupted before it left metadata, which is not an error of the agent."""


TurnEnd = Metadata | UnusableMetadata | Cut


class RelayTurn(NamedTuple):
    """A settled turn; `mark` is the fingerprint of its error, if it had one."""

    number: int
    word: Word
    reason: str = ""
    mark: str | None = None
    completed: int | None = None
    total: int | None = None
    handoff_path: str = ""
    reported: bool = False
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    summary_path: str = ""
    commit: str | None = None
    check: Check = ""

    @property
    def refuted(self) -> bool:
        """Whether the turn claimed to be the last one, but the check failed."""
        return self.check == "failed"


class Decision(NamedTuple):
    """The word for the machine, the reason, and how long the next turn has to wait."""

    word: Word
    reason: str
    wait_s: float = 0.0


class HandOver(NamedTuple):
    """Where the next turn continues the plan."""

    resume_phase: int
    phases_total: int | None
    handoff_path: str


# ── the decision ───────────────────────────────────────────────────────────────────────────────


def decide(end: TurnEnd, before: Sequence[RelayTurn]) -> Decision:
    """Return the word for a turn that ended like this, given the turns before it."""
    match end:
        case Cut():
            return Decision("invalid", "the turn was interrupted before it wrote its metadata")
        case UnusableMetadata():
            return _next_turn("invalid", end.error, end, before)
        case Metadata(status="partial"):
            return _partial(end, before)
        case Metadata(status="implemented"):
            return _implemented(end, before)
        case Metadata():
            return Decision(end.status, why(end) or "no reason given")
        case _:
            assert_never(end)


def _implemented(end: Metadata, before: Sequence[RelayTurn]) -> Decision:
    """Accept the agent's claim, unless its own count of phases contradicts it."""
    if phases_missing(end, before) is not None:
        return _partial(end, before)
    return Decision("implemented", end.reason)


def phases_missing(end: Metadata, before: Sequence[RelayTurn]) -> str | None:
    """Return `1 of 4 phases` if a turn claims to be done with phases missing; else None."""
    completed, total = end.progress.completed, end.progress.total
    total = _phases_total(before) if total is None else total
    if end.status != "implemented" or completed is None or total is None or completed >= total:
        return None
    return f"{completed} of {total} phases"


def _partial(end: Metadata, before: Sequence[RelayTurn]) -> Decision:
    """Return the decision for a turn with work left: a review if asked for, else another turn."""
    if end.review:
        return Decision("review", why(end) or "the agent asked for a review")
    return _next_turn("partial", why(end), end, before)


def _next_turn(word: Word, reason: str, end: TurnEnd, before: Sequence[RelayTurn]) -> Decision:
    """Return the decision for another turn, or `failed` if the same error has repeated too often."""
    mark = mark_of(end, before)
    if mark is None:
        return Decision(word, reason)
    in_a_row = 1 + _times_in_a_row(mark, before)
    recent = before[1 - REPEATS_COUNTED_IN :]
    times = 1 + sum(turn.mark == mark for turn in recent)
    if times > REPEATS_ALLOWED:
        span = "a row" if in_a_row == times else f"{REPEATS_COUNTED_IN} turns"
        return Decision("failed", f"the same error {times} times in {span}: {error_of(end)}")
    return Decision(word, reason, _wait_s(before) if in_a_row > 1 else 0.0)


def _times_in_a_row(mark: str, before: Sequence[RelayTurn]) -> int:
    return sum(1 for _ in takewhile(lambda turn: turn.mark == mark, reversed(before)))


def _wait_s(before: Sequence[RelayTurn]) -> float:
    """Return the wait before the next turn: 1, 2, 4 … 60 s, doubled with each immediate repeat."""
    pairs = pairwise(turn.mark for turn in before)
    waits = sum(1 for earlier, mark in pairs if mark is not None and mark == earlier)
    return min(FIRST_WAIT_S * 2.0 ** min(waits, 16), LONGEST_WAIT_S)


def why(end: Metadata) -> str:
    """Return the agent's reason, or else its last error or stage; empty if it gave none."""
    said = [end.reason, *end.errors[-1:], end.progress.stage]
    return next((text for text in said if text), "")


# ── errors that repeat ─────────────────────────────────────────────────────────────────────────


def error_of(end: TurnEnd) -> str:
    """Return the error of a turn that another one may follow; empty if there was none."""
    match end:
        case UnusableMetadata():
            return end.error
        case Metadata():
            return "; ".join(end.errors)
        case Cut():
            return ""
        case _:
            assert_never(end)


def mark_of(end: TurnEnd, before: Sequence[RelayTurn]) -> str | None:
    """Return the fingerprint of a turn's error; None without one, or if phases were completed."""
    error = error_of(end)
    if not error or (isinstance(end, Metadata) and _made_progress(end, before)):
        return None
    return fingerprint(error)


def fingerprint(text: str) -> str:
    """Return a hash that is equal for errors that differ only in numbers, addresses, case and
    spaces."""
    from hashlib import sha256  # most turns have no error

    plain = CHANGEABLE.sub("#", text.casefold())
    return sha256(" ".join(plain.split()).encode("utf-8", "surrogatepass")).hexdigest()[:16]


# ── phases ─────────────────────────────────────────────────────────────────────────────────────


def _phases_completed(before: Sequence[RelayTurn]) -> int:
    """Return the number of completed phases that a turn reported last; 0 if none did."""
    accounts = [turn.completed for turn in before if turn.completed is not None]
    return accounts[-1] if accounts else 0


def _phases_total(before: Sequence[RelayTurn]) -> int | None:
    """Return the total number of phases that a turn reported last; None if none did."""
    totals = [turn.total for turn in before if turn.total is not None]
    return totals[-1] if totals else None


def _made_progress(end: Metadata, before: Sequence[RelayTurn]) -> bool:
    """Return whether the turn completed more phases than were reported before."""
    completed = end.progress.completed
    return completed is not None and completed > _phases_completed(before)


def hand_over(before: Sequence[RelayTurn]) -> HandOver:
    """Return where the next turn continues.

    A turn that reported no phases leaves the earlier count unchanged.
    """
    handoffs = [turn.handoff_path for turn in before if turn.reported]
    phase, total = _phases_completed(before) + 1, _phases_total(before)
    if before and before[-1].refuted and total is not None:
        phase = min(phase, max(total, 1))  # all phases are complete, but the check failed
    return HandOver(
        resume_phase=phase,
        phases_total=total,
        handoff_path=handoffs[-1] if handoffs else "",
    )


def remember(
    number: int, end: TurnEnd, decision: Decision, before: Sequence[RelayTurn]
) -> RelayTurn:
    """Return the record of a turn that has just been settled."""
    turn = RelayTurn(number, decision.word, decision.reason, mark_of(end, before))
    match end:
        case Metadata():
            return turn._replace(
                completed=end.progress.completed,
                total=end.progress.total,
                handoff_path=end.progress.handoff_path,
                reported=True,
                errors=end.errors,
                artifacts=end.artifacts,
                summary_path=end.summary_path,
            )
        case UnusableMetadata():
            return turn._replace(errors=(end.error,))
        case Cut():
            return turn
        case _:
            assert_never(end)


def remarks(end: TurnEnd, before: Sequence[RelayTurn]) -> list[str]:
    """Return warnings about odd metadata, which do not affect the decision."""
    if isinstance(end, UnusableMetadata) and end.warning:
        return [end.warning]
    if not isinstance(end, Metadata) or end.progress.completed is None:
        return []
    warnings: list[str] = []
    completed, reached = end.progress.completed, _phases_completed(before)
    if completed < reached:
        warnings.append(f"the phases went back from {reached} to {completed}")
    elif end.status == "partial" and completed == reached and _made_no_progress(before):
        warnings.append(f"no phase was completed for two turns, still {completed}")
    if missing := phases_missing(end, before):
        warnings.append(f"reported implemented with {missing} complete: treated as partial")
    return warnings


def _made_no_progress(before: Sequence[RelayTurn]) -> bool:
    """Return whether the last turn that reported phases reported no more than earlier ones."""
    reporting = [turn for turn in before if turn.completed is not None]
    return bool(reporting) and (reporting[-1].completed or 0) <= _phases_completed(reporting[:-1])


# ── the check, and the task ────────────────────────────────────────────────────────────────────


def with_check_result(turns: tuple[RelayTurn, ...], check: Check) -> tuple[RelayTurn, ...]:
    """Return the turns with the check's result on the last one, if it was pending."""
    if not turns or turns[-1].check != "pending":
        return turns
    return (*turns[:-1], turns[-1]._replace(check=check))


def task_status(turn: RelayTurn) -> TaskStatus:
    """Return the task's status after a settled turn; `completed` only once the check has passed."""
    match turn.word:
        case "implemented":
            return "partial" if turn.check in ("pending", "failed") else "completed"
        case "blocked" | "failed":
            return turn.word
        case "partial" | "review" | "invalid":
            return "partial"
        case _:
            assert_never(turn.word)


def artifacts_of(turns: Sequence[RelayTurn]) -> list[str]:
    return list(dict.fromkeys(path for turn in turns for path in turn.artifacts))


# ── names ──────────────────────────────────────────────────────────────────────────────────────


def session_of(session: str, number: int) -> str:
    return f"{session}_iter{number}"


def commit_message(name: str, session: str, turn: RelayTurn, started: HandOver) -> str:
    """Return `NAME: phase P of T (turn N)`; P is the last completed phase, or the one worked on."""
    total = started.phases_total if turn.total is None else turn.total
    phase = max(turn.completed or 0, started.resume_phase)
    if turn.word == "implemented" and turn.completed is None and total is not None:
        phase = total
    of = f" of {total}" if total is not None else ""
    phase = phase if total is None else min(phase, max(total, 1))
    return (
        f"{name}: phase {phase}{of} (turn {turn.number})\n\n"
        f"Session: {session_of(session, turn.number)}\n"
    )


def completion_message(name: str, session: str, task_id: str, turn: RelayTurn) -> str:
    """Return the message of the commit that marks the task as completed."""
    return (
        f"{name}: task {task_id} completed (turn {turn.number})\n\n"
        f"Session: {session_of(session, turn.number)}\n"
    )


# ── how many turns ─────────────────────────────────────────────────────────────────────────────


def turn_limit(given: int | None, no_loop: bool, environ: Mapping[str, str]) -> int | None:
    """Return the maximum number of turns: `given`, or 1 with `no_loop`, or else `MAX_ITERATIONS`.

    None if none of them is set. Raises `UsageError` if the variable is not a positive number.
    """
    if given is not None:
        return given
    if no_loop:
        return 1
    text = environ.get("MAX_ITERATIONS", "").strip()
    if not text:
        return None
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text, re.ASCII):
        raise UsageError(
            f"`MAX_ITERATIONS` is {text[:40]!r}, which is not a number of turns",
            "set it to a whole number of at least 1, or unset it",
        )
    return int(text)
