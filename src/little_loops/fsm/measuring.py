"""Measure the check of a convergence loop: several times for `repeat`, and for `keep: best` decide
what becomes of the files.

The functions look only at the run, so a resume that finds half of it done does the rest.

Not here: the rules themselves (`best`), carrying anything out (`engine.best`).
"""

from __future__ import annotations

from little_loops.fsm.best import Decision, decide, memory_of, not_better
from little_loops.fsm.commands import Ending, RestoreBest
from little_loops.fsm.events import KeepBest, Sampled
from little_loops.fsm.evidence import MAX_UNSETTLED, trees_of
from little_loops.fsm.evolve_trees import WHOLE
from little_loops.fsm.extract import plain
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.routing import find_transition
from little_loops.fsm.schema import (
    ERROR,
    TIMEOUT,
    Convergence,
    Transition,
    keeper_of,
    keeps_best,
)
from little_loops.fsm.state import Best, Judgement, Trees
from little_loops.fsm.step_builder import StepBuilder
from little_loops.light_typing import Literal

AGAIN: Literal["again"] = "again"
NOT_MEASURED = "the run ended before it was measured"
REMEASURE = "remeasure"


def after_measurement(builder: StepBuilder, judgement: Judgement) -> Judgement | Literal["again"]:
    """Return the judgement of a complete measurement, or `again` if the check has to run again
    first, which is then recorded."""
    keeps = keeps_best(builder.state)
    if judgement.value is None:
        return _unmeasured(builder, judgement) if keeps else judgement
    trees = trees_of(builder.run)
    if keeps and trees is not None and _is_void(builder, trees):
        return _void(builder, trees)
    run, wanted = builder.run, builder.state.repeat
    if len(run.samples) + 1 < wanted:
        tree = None if trees is None else trees.tree
        builder.note(Sampled(run.current_state, judgement.value, wanted, tree))
        return AGAIN
    return judgement


def _is_void(builder: StepBuilder, trees: Trees) -> bool:
    """Return whether the files changed while they were measured, by whomever."""
    if trees.before != trees.tree:
        return True
    if any(sample.tree != trees.tree for sample in builder.run.samples):
        return True
    best = trees.best or Best()
    is_second = best.min_gain is None and best.weighed[:1] == (builder.run.step,)
    return is_second and best.tree != trees.tree


def _void(builder: StepBuilder, trees: Trees) -> Judgement | Literal["again"]:
    """Record that a measurement does not count; after too many of them, return an error."""
    if trees.best is not None and trees.best.voids + 1 >= MAX_UNSETTLED:
        return _unmeasured(builder, Judgement(ERROR, _never_settles(trees)))
    builder.note(_decision(builder, "again"))
    return AGAIN


def _never_settles(trees: Trees) -> str:
    """Return why no measurement counts, with the files that checks have changed, if known."""
    files = (
        "files"
        if WHOLE in trees.writes
        else listed_paths(trees.writes, len(trees.writes)) or "files"
    )
    return (
        f"{files} changed {MAX_UNSETTLED} times during a measurement, so none counts; add files that"
        " the check writes to .gitignore"
    )


def _unmeasured(builder: StepBuilder, judgement: Judgement) -> Judgement:
    """Return the judgement of a check that could not measure a change: no gain, if the check could
    measure the best tree and the loop does not handle the verdict itself; else the error or timeout.
    """
    trees, condition = trees_of(builder.run), builder.state.condition
    if judgement.verdict not in (ERROR, TIMEOUT) or trees is None or trees.place == "clean":
        return judgement
    memory = memory_of(trees)
    assert isinstance(condition, Convergence), "only convergence keeps the best"
    if memory is None or memory.is_same or memory.min_gain is None:
        return judgement
    if find_transition(builder.loop, builder.run, judgement.verdict) is not None:
        return judgement
    why = f"the change cannot be measured: {judgement.reason} (best: {plain(memory.best)}"
    return not_better(condition, memory, why)


def weigh(
    builder: StepBuilder, judgement: Judgement, judged: Judgement
) -> RestoreBest | Literal["again"] | None:
    """Decide what becomes of the measured files, and record it. Return the command to put a change
    back, `again` for another measurement, or None if the run can continue.

    `judged` is the verdict before the rules of evidence were applied.
    """
    trees, run = trees_of(builder.run), builder.run
    assert trees is not None, "a loop without evidence does not start if it has `keep: best`"
    best = trees.best or Best()
    if best.weighed == (run.step, run.attempt):
        return restore_best(trees)  # resumed after it was decided
    decision = decide(trees, judgement, judged, clean=builder.loop.evidence.clean)
    if decision is None:
        return None
    builder.note(_measured(builder, decision, judgement, judged))
    if decision == "start":
        return AGAIN
    trees = trees_of(builder.run)
    assert trees is not None, "the run still has evidence"
    return restore_best(trees)


def _measured(
    builder: StepBuilder, decision: Decision, judgement: Judgement, judged: Judgement
) -> KeepBest:
    """Return the event of a decision about a measurement."""
    trees = trees_of(builder.run)
    assert trees is not None, "only a run with evidence measures trees"
    if decision not in ("start", "kept"):
        best = trees.best
        assert best is not None, "nothing is restored before a best tree is known"
        event = _put_aside(builder, decision, best)
        reason = judged.reason if judged.value is None else ""
        return event._replace(value=judged.value, stalled=best.stalled + 1, reason=reason)
    metric = judged.metric
    assert metric is not None, "a measurement that is kept was judged"
    return _decision(builder, decision)._replace(
        value=judged.value,
        best=metric.best,
        tree=trees.tree,
        project=trees.project,
        kept_step=builder.run.step,
        min_gain=metric.min_gain,
    )


def _decision(builder: StepBuilder, decision: Decision) -> KeepBest:
    run = builder.run
    return KeepBest(run.current_state, decision, run.step, run.attempt)


def _put_aside(builder: StepBuilder, decision: Decision, best: Best) -> KeepBest:
    """Return the event of a decision after which the best tree is what it was."""
    return _decision(builder, decision)._replace(
        best=best.value,
        tree=best.tree,
        project=best.project,
        kept_step=best.step,
        min_gain=best.min_gain,
        stalled=best.stalled,
    )


def undo_unmeasured(builder: StepBuilder, ending: Ending | None = None) -> RestoreBest | None:
    """Record that a change is put back because it will not be measured, and return the command."""
    trees = trees_of(builder.run)
    assert trees is not None, "only a run with evidence knows its best tree"
    assert trees.best is not None, "there is a change to the best tree"
    event = _put_aside(builder, "put_back", trees.best)
    builder.note(event._replace(reason=NOT_MEASURED))
    now = trees_of(builder.run)
    assert now is not None, "the run still has evidence"
    return restore_best(now, ending)


def restore_best(trees: Trees, ending: Ending | None = None) -> RestoreBest | None:
    """Return the command to put a change back if that is due; else None."""
    best = trees.best
    if best is None or not best.undo:
        return None
    assert best.project is not None, "a change is only reverted to a tree that was measured"
    return RestoreBest(best.project, trees.reference, ending)


def measure_first(builder: StepBuilder) -> Transition:
    """Record that somebody else changed the best tree, and return the transition to the state that
    measures it as a new start."""
    builder.note(_decision(builder, "moved"))
    keeper = keeper_of(builder.loop)
    assert keeper is not None, "only a loop with `keep: best` knows its best tree"
    return Transition(keeper, REMEASURE)
