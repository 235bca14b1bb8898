"""The rules of `keep: best`: when a change is better, and what the run remembers of the best tree.

Everything here is decided from numbers and tree ids.

Not here: when a measurement is compared (`measuring`), reading the number (`conditions`), restoring
files (`engine.best`).
"""

from __future__ import annotations

from little_loops.fsm.extract import gap, plain, stall_count
from little_loops.fsm.schema import (
    NOISE,
    PROGRESS,
    STALL,
    STALLED,
    TARGET,
    Convergence,
)
from little_loops.fsm.state import Best, Judgement, Metric, NotKept, Trees
from little_loops.light_typing import TYPE_CHECKING, Literal, assert_never

if TYPE_CHECKING:
    from little_loops.fsm.events import KeepBest

Decision = Literal["start", "kept", "unchanged", "put_back", "again", "moved"]
NOISE_FACTOR = 2


# ── judging a number ───────────────────────────────────────────────────────────────────────────


def judge_change(
    condition: Convergence, value: float, target: float, memory: Metric | None
) -> Judgement:
    """Judge a number that has not reached its target: `progress` or, after `patience` measurements
    without gain, `stall`. The metric's `stalled` is 0 if the change is better.

    Without `memory` it is the first measurement of the start, with a `memory` without `min_gain` the
    second. A measurement of the best tree itself is never better, because nothing was changed.
    """
    aim = f"target: {plain(target)}"
    if memory is None:
        reason = f"first measurement: {plain(value)} ({aim})"
        return Judgement(PROGRESS, reason, Metric(value), value)
    gain = gap(memory.best, target) - gap(value, target)
    if memory.min_gain is None:
        best = value if gain > 0 else memory.best
        min_gain = _min_gain(condition, memory.best, value)
        reason = f"second measurement: {plain(value)} ({aim}); {_needed(min_gain)}"
        return Judgement(PROGRESS, reason, Metric(best, 0, min_gain), value)
    if not memory.is_same and gain > gap(memory.min_gain, 0):
        reason = f"{plain(value)} is {_better(memory)} ({aim})"
        return Judgement(PROGRESS, reason, Metric(value, 0, memory.min_gain), value)
    if memory.is_same:
        reason = f"{plain(value)}, but no file was changed (best: {plain(memory.best)}; {aim}"
    else:
        reason = f"{plain(value)} is not {_better(memory)} ({aim}"
    return not_better(condition, memory, reason, value)


def _min_gain(condition: Convergence, first: float, second: float) -> float:
    """Return by how much a change must be better, given two measurements of the start."""
    if condition.min_gain == NOISE:
        return float(NOISE_FACTOR * gap(first, second))
    return float(condition.min_gain)


def _needed(min_gain: float) -> str:
    by = f" by more than {plain(min_gain)}" if min_gain else ""
    return f"a change is kept if it is better{by}"


def _better(memory: Metric) -> str:
    by = f" by more than {plain(memory.min_gain)}" if memory.min_gain else ""
    return f"better than {plain(memory.best)}{by}"


def not_better(
    condition: Convergence, memory: Metric, reason: str, value: float | None = None
) -> Judgement:
    """Return the judgement of a measurement without gain; `reason` ends in an open parenthesis, and
    the count is added."""
    stalled = memory.stalled + 1
    verdict = STALL if stalled >= condition.patience else PROGRESS
    counted = f"{reason}; {stall_count(stalled, condition.patience)} without improvement)"
    return Judgement(verdict, counted, memory._replace(stalled=stalled, is_same=False), value)


# ── what becomes of a change ───────────────────────────────────────────────────────────────────


def decide(
    trees: Trees, judgement: Judgement, judged: Judgement, *, clean: bool
) -> Decision | None:
    """Return what becomes of the files that were measured; None if the verdict says nothing about
    them, or a clean copy still has to confirm it (`clean`).

    `judgement` is the verdict under the rules of evidence, `judged` the one before.
    """
    best = trees.best or Best()
    if judgement.verdict == TARGET:
        return None if clean and trees.place == "here" else "kept"
    if judgement.verdict not in (PROGRESS, STALL, STALLED):
        return None
    is_same = trees.tree == best.tree
    if best.tree is None or (not is_same and not best.changing):
        return "start"  # nobody has measured it, and no action of the run has made it
    if is_same:
        return "kept" if best.min_gain is None else "unchanged"
    is_better = judged.metric is not None and judged.metric.stalled == 0
    return "kept" if is_better else "put_back"


def memory_of(trees: Trees | None) -> Metric | None:
    """Return what a measurement is compared with; None if it is the first one of a start."""
    best = None if trees is None else trees.best
    if trees is None or best is None or best.value is None:
        return None
    is_same = trees.tree == best.tree
    if not is_same and not best.changing:
        return None
    return Metric(best.value, best.stalled, best.min_gain, is_same)


def evolve_best(best: Best, event: KeepBest) -> Best:
    """Return what is remembered after a decision."""
    weighed = (event.step, event.attempt)
    match event.decision:
        case "start":
            return Best(event.tree, event.project, event.step, event.value, weighed=weighed)
        case "kept":
            return Best(
                event.tree, event.project, event.step, event.best, event.min_gain, weighed=weighed
            )
        case "unchanged":
            return best._replace(
                stalled=event.stalled, voids=0, changing=False, weighed=weighed, not_kept=None
            )
        case "put_back":
            assert best.value is not None, "a change is only reverted to a tree that was measured"
            not_kept = NotKept(best.value, event.value)
            return best._replace(
                stalled=event.stalled, voids=0, undo=True, weighed=weighed, not_kept=not_kept
            )
        case "again":
            # The second measurement of a start needs a first one of the same files.
            kept = Best() if best.min_gain is None else best
            return kept._replace(voids=best.voids + 1)
        case "moved":
            return Best()
        case _:
            assert_never(event.decision)
