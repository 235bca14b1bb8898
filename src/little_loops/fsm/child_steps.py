"""States that start other runs: what is recorded of their children, and what follows.

The children of a state end one at a time. Each end is recorded; then `joins` says which children
start or stop next, and whether the verdict is known. When nothing is left to wait for, the state is
judged, or the run pauses or stops as its children did.

Not here: the rules of a join (`joins`), what the events change (`evolve_children`), processes
(`engine.children`).
"""

from __future__ import annotations

from little_loops.fsm import endings
from little_loops.fsm.commands import (
    Command,
    EndLeftovers,
    FindBranches,
    GatherChildren,
    RunChildren,
)
from little_loops.fsm.events import (
    ActionInterrupted,
    ActionStart,
    ChildEnd,
    ChildrenHalted,
    ChildrenJoined,
    ChildrenPlanned,
    ChildStart,
    Cost,
)
from little_loops.fsm.evidence import has_agents_in_tree, starts_agents
from little_loops.fsm.happenings import ChildEnded, ChildOutcome
from little_loops.fsm.joins import (
    CRASHED,
    ENDED,
    JoinRule,
    count_text,
    next_move,
    outcome_of_ending,
)
from little_loops.fsm.limits import time_left_ms
from little_loops.fsm.schema import ERROR, StateConfig, effective_condition, worktree_of
from little_loops.fsm.state import Children, Counted, Halt, Judgement, Stage
from little_loops.fsm.step_builder import StepBuilder
from little_loops.fsm.worktree_steps import base_due, merge_due

ASKED = "stop"
"""The cause of an interruption that was requested, so that `on_interrupt` applies."""
LEAST_COUNTED_USD = 5e-7
"""A smaller difference is a rounding error: costs are rounded to six decimals."""


def rule_of(state: StateConfig) -> JoinRule:
    """Return how the children of a state become one verdict. If a condition judges them, they all
    run to their ends."""
    branches = state.branches
    if branches is None:
        return JoinRule(max_parallel=1, single=True)
    if effective_condition(state) is not None:
        return JoinRule(max_parallel=branches.max_parallel)
    return JoinRule(branches.join, branches.max_parallel, branches.fail_fast)


# ── starting ───────────────────────────────────────────────────────────────────────────────────


def begin(builder: StepBuilder) -> Command:
    """Start the children of the current state, or continue those that were interrupted. Which
    branches a state has is asked first."""
    run = builder.run
    if run.own_children is None:
        if (first := base_due(builder)) is not None:
            return first
        if builder.state.branches is not None:
            return FindBranches(run.current_state, run.step, run.attempt + 1)
        _announce(builder, (run.current_state,))
    return follow(builder)


def start_branches(builder: StepBuilder, names: tuple[str, ...]) -> Command:
    """Start the branches of the current state, now that they are known."""
    _announce(builder, names, several=True)
    return follow(builder)


def _announce(builder: StepBuilder, names: tuple[str, ...], *, several: bool = False) -> None:
    """Record that the state starts new children."""
    run, state = builder.run, builder.state
    assert state.action is not None, "a state that starts runs has a definition for them"
    attempt = run.attempt + 1
    builder.note(
        ActionStart(
            state.action,
            run.current_state,
            attempt,
            "loop",
            label=state.label,
            has_agents=has_agents_in_tree(state, run.context),
            apart=worktree_of(state) is not None and starts_agents(state, run.context),
        )
    )
    builder.note(ChildrenPlanned(run.current_state, run.step, attempt, names, several))


def follow(builder: StepBuilder) -> Command:
    """Return the next command for the children of the current state."""
    children = builder.run.children
    assert children is not None, "the state has children"
    rule = rule_of(builder.state)
    move = next_move(rule, children)
    if move.decided is not None and children.several:
        builder.note(ChildrenJoined(children.state, *move.decided[:2]))
    if move.is_over:
        return _settle(builder, move.decided)
    names = children.names
    for at in move.start:
        builder.note(ChildStart(children.state, names[at], children.stages[at] != "waiting"))
    left = time_left_ms(builder.loop, builder.run, builder.at)
    if builder.run.timed_out_in is not None or children.halt is not None:
        left = None
    return RunChildren(
        children.state,
        children.step,
        children.attempt,
        tuple(names[at] for at in move.start),
        tuple(names[at] for at in move.stop),
        tuple(names[at] for at in move.start if children.stages[at] == "resumed"),
        left,
        is_last=children.halt is not None,
        width=_width(rule, children),
    )


def _width(rule: JoinRule, children: Children) -> int:
    """Return how many children may still run at once."""
    left = sum(stage not in ENDED for stage in children.stages)
    return max(1, min(rule.max_parallel, left))


# ── when one has ended ─────────────────────────────────────────────────────────────────────────


def ended(builder: StepBuilder, happening: ChildEnded) -> Command:
    """Record the end of a child, and what it used. Return what follows."""
    children = builder.run.children
    assert children is not None, "only a state with children is notified when they end"
    outcome, name = happening.outcome, happening.child
    meaning = _meaning(children, name, outcome)
    note_used(builder, name, Counted(outcome.tokens, outcome.cost_usd, outcome.turns))
    builder.note(
        ChildEnd(
            children.state,
            name,
            meaning.stage,
            outcome.status,
            meaning.reason,
            outcome.final_state,
            outcome.iterations,
            outcome.duration_ms,
            outcome.message,
            outcome.cost_usd,
            outcome.tokens,
            outcome.turns,
            outcome.run_id,
        )
    )
    if meaning.is_fatal and children.halt is None:
        message = f"`{children.path(name)}`: {outcome.message or outcome.reason}"
        halt(builder, Halt("failed", outcome.reason, message))
    return follow(builder)


class _Meaning:
    """What the end of a child means here: its stage, its reason, whether the run must end."""

    def __init__(self, stage: Stage, reason: str, *, is_fatal: bool = False) -> None:
        self.stage: Stage = stage
        self.reason = reason
        self.is_fatal = is_fatal


def _meaning(children: Children, name: str, outcome: ChildOutcome) -> _Meaning:
    """Return what the end of a child means, given what is happening to the others. Once the verdict
    is known, one that has not come to its end is no longer needed, unless it resolves a branch."""
    is_crash = outcome.status == CRASHED
    meant = outcome_of_ending(outcome.status, outcome.reason)
    is_needed = children.verdict is None or name not in children.names
    if not is_needed and (is_crash or meant not in ENDED):
        return _Meaning("stopped", outcome.reason)
    if is_crash:
        return _after_crash(children, name)
    if meant == "fatal":
        return _Meaning("paused", outcome.reason, is_fatal=True)
    if meant != "interrupted":
        return _Meaning(meant, outcome.reason)
    if children.halt is not None:
        return _Meaning("interrupted", outcome.reason)
    return _Meaning("fail", "stopped")


def _after_crash(children: Children, name: str) -> _Meaning:
    """A child that dies alone is continued once; the second time, that is an error."""
    if children.halt is not None or name not in children.crashed:
        return _Meaning("interrupted", "crash")
    return _Meaning("error", "crash")


def note_used(builder: StepBuilder, name: str, used: Counted) -> None:
    """Record what a child has used and this run has not counted yet, if anything.

    It comes before the end of the child: what a killed runner has not recorded is counted later,
    and nothing is counted twice.
    """
    run, children = builder.run, builder.run.children
    assert children is not None, "only a run with children counts what they use"
    before = children.counted.get(name, Counted())
    tokens, cost_usd = max(0, used.tokens - before.tokens), used.cost_usd - before.cost_usd
    if tokens or cost_usd > LEAST_COUNTED_USD:
        turns, cost_usd = max(0, used.turns - before.turns), max(0.0, cost_usd)
        state = children.state
        builder.note(Cost(state, tokens, cost_usd, turns, run.iteration, child=name))


# ── when all have ended ────────────────────────────────────────────────────────────────────────


def _settle(builder: StepBuilder, decided: Judgement | None) -> Command:
    """Judge the state, or pause or stop the run, now that none of the children runs."""
    children = builder.run.children
    assert children is not None, "the state has children"
    if children.halt is not None:
        return _stop_beside(children) or _stop(builder, children.halt)
    if children.beside is not None and children.beside.pause is not None:
        return _stop(builder, children.beside.pause)
    if children.verdict is not None:
        decided = Judgement(children.verdict, _last_count(builder, children))
    if decided is None:
        assert children.pause is not None, "a child that is neither running nor ended is paused"
        return _stop(builder, children.pause)
    due = merge_due(builder, children, decided)
    if isinstance(due, Judgement):
        return GatherChildren(children.state, children, due)
    return due


def _last_count(builder: StepBuilder, children: Children) -> str:
    """Return the reason for the verdict, with those that ended after it was known: they may have
    passed before they could be stopped."""
    if children.verdict == ERROR:
        return children.reason
    return count_text(rule_of(builder.state), children.stages)


def _stop_beside(children: Children) -> RunChildren | None:
    """Return the command that stops the run that resolves a branch, if one is running."""
    beside = children.beside
    if beside is None or beside.stage != "running":
        return None
    state, step, attempt = children.state, children.step, children.attempt
    return RunChildren(state, step, attempt, stop=(beside.name,), is_last=True)


def halt(builder: StepBuilder, why: Halt) -> None:
    """Record that the children stop, because the run does."""
    children = builder.run.children
    assert children is not None, "only a run with children can stop them"
    if children.halt is None:
        builder.note(ChildrenHalted(children.state, why))


def _stop(builder: StepBuilder, why: Halt) -> EndLeftovers:
    """Record that the state was interrupted, and return the ending of the run."""
    cause = ASKED if why.signal is not None else why.reason
    attempt = builder.run.attempt
    builder.note(
        ActionInterrupted(builder.run.current_state, attempt, cause, started=why.signal is not None)
    )
    return EndLeftovers(endings.of_halt(why))


def is_out_of_time(builder: StepBuilder) -> bool:
    """Return whether the loop's timeout stopped the children, which have all ended."""
    children = builder.run.children
    return children is not None and children.halt == OUT_OF_TIME


OUT_OF_TIME = Halt("failed", "loop_timeout")
