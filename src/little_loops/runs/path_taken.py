"""The path a run took, from a bounded end of its log: states, verdicts, measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    CheckResult,
    ConditionEval,
    Entry,
    Event,
    GateAnswered,
    HandoffDetected,
    JudgeComplete,
    KeepBest,
    LoopError,
    LoopPaused,
    StateEnter,
    TransitionTaken,
)
from little_loops.fsm.schema import PROOF_VERDICTS
from little_loops.records import NamedTuple

GOOD = ("pass", "target", "progress", "approved")
BAD = ("fail", "stall", "error", "timeout", "interrupted", "rejected", *PROOF_VERDICTS)
WAITING = ("handoff", "review")
BARS = "▁▂▃▄▅▆▇█"
MOST_BARS = 16
LONGEST_UNIT = 8


class Visit(NamedTuple):
    """One visit to a state, and its verdict; None so far."""

    state: str
    verdict: str | None = None


def visits(entries: Iterable[Entry]) -> list[Visit]:
    """Return the states entered, oldest first, each with its last verdict; None while there is
    none.

    Events before the first state are ignored.
    """
    found: list[Visit] = []
    for entry in entries:
        match entry.event:
            case StateEnter(state=state):
                found.append(Visit(state))
            case ActionStart() if found:
                found[-1] = Visit(found[-1].state)  # again, after an interruption
            case event if found and (verdict := _verdict(event)) is not None:
                found[-1] = found[-1]._replace(verdict=verdict)
            case _:
                continue
    return found


def _verdict(event: Event) -> str | None:
    """Return the verdict that an event tells; None if it tells none.

    An action without a condition passes if it exited with 0 and its agent, if any, succeeded. The
    rules of evidence, a judge, a handoff or the end of the run may still give another verdict.
    """
    match event:
        case ActionComplete(result=result):
            well = result.exit_code == 0 and result.agent in (None, "success")
            return "pass" if well else "fail"
        case ActionInterrupted():
            return "interrupted"
        case ConditionEval(result=verdict) | CheckResult(verdict=verdict):
            return verdict
        case JudgeComplete(verdict="fail" | "error" | "unanswered" as verdict):
            return verdict if verdict == "fail" else "error"
        case HandoffDetected():
            return "handoff"
        case LoopError(reason=reason) if reason in _ENDED_BY_A_VERDICT:
            return reason
        case LoopPaused(reason="review"):
            return "review"
        case GateAnswered(answer=answer):
            return answer.verdict
        case TransitionTaken(reason=reason) if (
            reason.startswith("on_") and reason not in _NO_VERDICTS
        ):
            return reason.removeprefix("on_")
        case _:
            return None


_NO_VERDICTS = ("on_maintain", "on_interrupt")
# A run ends with one of these as its reason if no transition of the state matches it.
_ENDED_BY_A_VERDICT = ("error", "timeout", *PROOF_VERDICTS)


def measurements(entries: Iterable[Entry]) -> list[float]:
    """Return what convergence conditions measured, oldest first; infinite values are left out.

    For a loop with `keep: best`, the best measurement after each step.
    """
    found, kept = [], list[float]()
    for entry in entries:
        match entry.event:
            case KeepBest(best=float() | int() as best):
                kept.append(best)
            case ConditionEval(type="convergence", value=value, reason=reason):
                number = _number_in(reason) if value is None else value
                if number is not None and abs(number) < float("inf"):
                    found.append(number)
            case _:
                continue
    return kept or found


def _number_in(reason: str) -> float | None:
    """Parse the number from a reason: version one recorded it only there, at the beginning."""
    try:
        return float(reason.partition(" ")[0])
    except ValueError:
        return None


def sparkline(values: Sequence[float]) -> str:
    """Return the values as bars, at most `MOST_BARS`; more values are thinned out, and the ends are
    kept.

    There must be at least one value.
    """
    if len(values) > MOST_BARS:
        last = len(values) - 1
        values = [values[round(place * last / (MOST_BARS - 1))] for place in range(MOST_BARS)]
    low, high = min(values), max(values)
    top = len(BARS) - 1
    return "".join(BARS[round((value - low) / ((high - low) or 1) * top)] for value in values)


def letters(states: Iterable[str]) -> dict[str, str]:
    """Return the shortest unique name for each state: its first letter, else its initials (`ct` for
    `check_types`), else the whole name."""
    names = list(dict.fromkeys(states))
    short = {name: name[:1] for name in names}
    longer: Callable[[str], str] = _initials
    while len(set(short.values())) < len(names):
        taken = list(short.values())
        short = {
            name: longer(name) if taken.count(word) > 1 else word for name, word in short.items()
        }
        longer = str
    return short


def _initials(name: str) -> str:
    words = name.replace("-", "_").split("_")
    return "".join(word[:1] for word in words)


def compressed(words: Sequence[str], times: str = "×") -> str:
    """Return `m a ×10`: what repeats three times or more is shown once, with `times` and the
    count."""
    shown = (
        " ".join([*unit, f"{times}{count}"] if count > 1 else unit) for unit, count in units(words)
    )
    return " ".join(shown)


def units(words: Sequence[str]) -> list[tuple[list[str], int]]:
    """Return the words as units of up to `LONGEST_UNIT` words, each with its number of repetitions;
    1 for a single word that does not repeat."""
    found: list[tuple[list[str], int]] = []
    place = 0
    while place < len(words):
        length, count = _most_repeated(words, place)
        found.append((list(words[place : place + length]), count))
        place += length * count
    return found


def _most_repeated(words: Sequence[str], start: int) -> tuple[int, int]:
    """Return the length and repetitions of the unit that covers most of the words from here; (1, 1)
    if none repeats three times."""
    best = (1, 1)
    for length in range(1, LONGEST_UNIT + 1):
        unit, count = words[start : start + length], 1
        while words[start + count * length : start + (count + 1) * length] == unit:
            count += 1
        if len(unit) == length and count >= 3 and length * count > best[0] * best[1]:
            best = (length, count)
    return best
