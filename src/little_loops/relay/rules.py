"""Decide how a relay goes on after a turn: metadata in, one word out.

The word is the verdict of the state `settle`, and the machine does the rest: `partial` and
`invalid` lead to the next turn, which the engine refuses beyond `max_iterations`.  What earlier
turns left behind comes in as data, so that settling a turn a second time, after a crash, gives the
same answer.

Not here: reading the file (`metadata`), its schema (`contract`), committing (`commits`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Literal, assert_never

from little_loops.errors import UsageError
from little_loops.records import NamedTuple

Status = Literal["implemented", "partial", "blocked", "failed"]
STATUSES: tuple[Status, ...] = ("implemented", "partial", "blocked", "failed")
Word = Literal["implemented", "partial", "review", "blocked", "failed", "invalid"]
FINAL_WORDS = ("implemented", "blocked", "failed")
"""Words after which no turn follows, unless a check contradicts an implemented one."""
Check = Literal["", "pending", "passed", "failed"]
"""What the relay's own check says about a turn that claims to be the last; empty: nothing."""
TaskStatus = Literal["implementing", "completed", "partial", "blocked", "failed"]

CHANGEABLE = re.compile(r"0x[0-9a-f]+|\b(?=[a-f]*[0-9])[0-9a-f]{7,}\b|[0-9]+")
"""What may differ between two tellings of one error: addresses, hashes, numbers."""
REPEATS_ALLOWED = 2
REPEATS_COUNTED_IN = 6
"""Turns, this one included.  Errors that take turns come back within so many; waits do not help."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0


class Progress(NamedTuple):
    """How far the plan is, by the agent's own account; None: not said."""

    completed: int | None = None
    total: int | None = None
    stage: str = ""
    handoff_path: str = ""


class Metadata(NamedTuple):
    """A return-metadata file that keeps the contract."""

    status: Status
    review: bool = False
    progress: Progress = Progress()
    reason: str = ""
    errors: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    summary_path: str = ""


class Unusable(NamedTuple):
    """No metadata, or none that can be believed; `warning` says what the agent did instead."""

    error: str
    warning: str = ""


class Cut(NamedTuple):
    """The turn was interrupted before it left metadata: nobody's mistake."""


TurnEnd = Metadata | Unusable | Cut


class Turn(NamedTuple):
    """What is remembered of a settled turn.  `mark` stands for its error, if it had one."""

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
        """It claimed to be the last turn, and the check says otherwise."""
        return self.check == "failed"


class Decision(NamedTuple):
    """The word for the machine, why, and how long the next turn has to wait."""

    word: Word
    reason: str
    wait_s: float = 0.0


class HandOver(NamedTuple):
    """Where the next turn takes up the plan."""

    resume_phase: int
    phases_total: int | None
    handoff_path: str


# ── the decision ───────────────────────────────────────────────────────────────────────────────


def decide(end: TurnEnd, before: Sequence[Turn]) -> Decision:
    match end:
        case Cut():
            return Decision("invalid", "the turn was interrupted before it wrote its metadata")
        case Unusable():
            return _again("invalid", end.error, end, before)
        case Metadata(status="partial"):
            return _partial(end, before)
        case Metadata(status="implemented"):
            return _implemented(end, before)
        case Metadata():
            return Decision(end.status, why(end) or "no reason given")
        case _:
            assert_never(end)


def _implemented(end: Metadata, before: Sequence[Turn]) -> Decision:
    """By the agent's word, unless its own count of phases contradicts it."""
    if phases_missing(end, before) is not None:
        return _partial(end, before)
    return Decision("implemented", end.reason)


def phases_missing(end: Metadata, before: Sequence[Turn]) -> str | None:
    """`1 of 4 phases`, where a turn that claims to be done reports fewer phases than there are."""
    completed, total = end.progress.completed, end.progress.total
    total = _total(before) if total is None else total
    if end.status != "implemented" or completed is None or total is None or completed >= total:
        return None
    return f"{completed} of {total} phases"


def _partial(end: Metadata, before: Sequence[Turn]) -> Decision:
    if end.review:
        return Decision("review", why(end) or "the agent asked for a review")
    return _again("partial", why(end), end, before)


def _again(word: Word, reason: str, end: TurnEnd, before: Sequence[Turn]) -> Decision:
    """The next turn, unless this error has come once too often."""
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


def _times_in_a_row(mark: str, before: Sequence[Turn]) -> int:
    return sum(1 for _ in takewhile(lambda turn: turn.mark == mark, reversed(before)))


def _wait_s(before: Sequence[Turn]) -> float:
    """1, 2, 4 … 60 s: longer each time an error of this run came back at once."""
    pairs = pairwise(turn.mark for turn in before)
    waits = sum(1 for earlier, mark in pairs if mark is not None and mark == earlier)
    return min(FIRST_WAIT_S * 2.0 ** min(waits, 16), LONGEST_WAIT_S)


def why(end: Metadata) -> str:
    """The agent's reason, or the best it said instead of one; empty if it said nothing."""
    said = [end.reason, *end.errors[-1:], end.progress.stage]
    return next((text for text in said if text), "")


# ── errors that repeat ─────────────────────────────────────────────────────────────────────────


def error_of(end: TurnEnd) -> str:
    """What went wrong in a turn that another one may follow; empty if nothing did."""
    match end:
        case Unusable():
            return end.error
        case Metadata():
            return "; ".join(end.errors)
        case Cut():
            return ""
        case _:
            assert_never(end)


def mark_of(end: TurnEnd, before: Sequence[Turn]) -> str | None:
    """The fingerprint of a turn's error; None without one, or if the plan moved on all the same."""
    error = error_of(end)
    if not error or (isinstance(end, Metadata) and _moved(end, before)):
        return None
    return fingerprint(error)


def fingerprint(text: str) -> str:
    """The same for errors that differ in numbers, addresses, letter case and blanks only."""
    from hashlib import sha256  # most turns have no error

    plain = CHANGEABLE.sub("#", text.casefold())
    return sha256(" ".join(plain.split()).encode("utf-8", "surrogatepass")).hexdigest()[:16]


# ── phases ─────────────────────────────────────────────────────────────────────────────────────


def _reached(before: Sequence[Turn]) -> int:
    """The phases that were complete by the last account of them."""
    accounts = [turn.completed for turn in before if turn.completed is not None]
    return accounts[-1] if accounts else 0


def _total(before: Sequence[Turn]) -> int | None:
    totals = [turn.total for turn in before if turn.total is not None]
    return totals[-1] if totals else None


def _moved(end: Metadata, before: Sequence[Turn]) -> bool:
    completed = end.progress.completed
    return completed is not None and completed > _reached(before)


def hand_over(before: Sequence[Turn]) -> HandOver:
    """For the next turn: silence about phases takes nothing back that was reported complete."""
    handoffs = [turn.handoff_path for turn in before if turn.reported]
    phase, total = _reached(before) + 1, _total(before)
    if before and before[-1].refuted and total is not None:
        phase = min(phase, max(total, 1))  # all phases are complete, yet something is not
    return HandOver(
        resume_phase=phase,
        phases_total=total,
        handoff_path=handoffs[-1] if handoffs else "",
    )


def remember(number: int, end: TurnEnd, decision: Decision, before: Sequence[Turn]) -> Turn:
    turn = Turn(number, decision.word, decision.reason, mark_of(end, before))
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
        case Unusable():
            return turn._replace(errors=(end.error,))
        case Cut():
            return turn
        case _:
            assert_never(end)


def remarks(end: TurnEnd, before: Sequence[Turn]) -> list[str]:
    """What is odd about a turn's account, though it decides nothing."""
    if isinstance(end, Unusable) and end.warning:
        return [end.warning]
    if not isinstance(end, Metadata) or end.progress.completed is None:
        return []
    said: list[str] = []
    completed, reached = end.progress.completed, _reached(before)
    if completed < reached:
        said.append(f"the phases went back from {reached} to {completed}")
    elif end.status == "partial" and completed == reached and _made_no_progress(before):
        said.append(f"no phase was completed for two turns, still {completed}")
    if missing := phases_missing(end, before):
        said.append(f"reported implemented with {missing} complete: treated as partial")
    return said


def _made_no_progress(before: Sequence[Turn]) -> bool:
    """The turn before did not complete a phase, either."""
    told = [turn for turn in before if turn.completed is not None]
    return bool(told) and (told[-1].completed or 0) <= _reached(told[:-1])


# ── the check, and the task ────────────────────────────────────────────────────────────────────


def checked(turns: tuple[Turn, ...], check: Check) -> tuple[Turn, ...]:
    """The turns, the last of them with what the check has decided, if it was waiting for that."""
    if not turns or turns[-1].check != "pending":
        return turns
    return (*turns[:-1], turns[-1]._replace(check=check))


def task_status(turn: Turn) -> TaskStatus:
    """What a settled turn makes of the task; nothing is completed before the check has passed."""
    match turn.word:
        case "implemented":
            return "partial" if turn.check in ("pending", "failed") else "completed"
        case "blocked" | "failed":
            return turn.word
        case "partial" | "review" | "invalid":
            return "partial"
        case _:
            assert_never(turn.word)


def artifacts_of(turns: Sequence[Turn]) -> list[str]:
    return list(dict.fromkeys(path for turn in turns for path in turn.artifacts))


# ── names ──────────────────────────────────────────────────────────────────────────────────────


def session_of(session: str, number: int) -> str:
    return f"{session}_iter{number}"


def commit_message(name: str, session: str, turn: Turn, started: HandOver) -> str:
    """`NAME: phase P of T (turn N)`: the last phase completed, or the one that was worked on."""
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


def completion_message(name: str, session: str, task_id: str, turn: Turn) -> str:
    return (
        f"{name}: task {task_id} completed (turn {turn.number})\n\n"
        f"Session: {session_of(session, turn.number)}\n"
    )


# ── how many turns ─────────────────────────────────────────────────────────────────────────────


def turn_limit(given: int | None, no_loop: bool, environ: Mapping[str, str]) -> int | None:
    """The turns a relay may take, by flag or `MAX_ITERATIONS`; None: as its file says."""
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
