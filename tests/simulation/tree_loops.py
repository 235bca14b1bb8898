"""Loops whose states start other loops, up to three levels deep, generated from a number. In wide
ones, states also start several at once."""

from __future__ import annotations

import random
from typing import Any

from little_loops.fsm.schema import Branches, ChildLimits, FSMLoop, StateConfig
from tests.simulation.budget_loops import ENDS, Nature, Turn, budget_loop

LEVELS = 3


class CalmNature(Nature):
    """Actions that pass or fail, and do nothing else: the clock and money decide nothing."""

    def turn(self, step: int, number: int, *, is_agent: bool) -> Turn:
        turn = super().turn(step, number, is_agent=is_agent)
        line = turn.line if turn.line is not None and turn.line.type == "stop" else None
        code = 1 if turn.exit_code else 0
        agent = ("fail" if code else "success") if is_agent else None
        return Turn(code, turn.takes_ms, line, agent)


def tree_loop(
    dice: random.Random, *, is_calm: bool, is_wide: bool = False, level: int = 1
) -> FSMLoop:
    """A loop, some of whose states start loops; if it is calm, nothing depends on the clock."""
    loop = budget_loop(dice)._replace(name=f"level{level}")
    if is_calm or level > 1:
        loop = loop._replace(maintain=False)
    if is_calm:
        loop = _calm(loop)
    if level == LEVELS:
        return loop
    names = [name for name in loop.states if name not in ENDS]
    chosen = {loop.initial, *dice.sample(names, dice.randint(1, min(2, len(names))))}
    if loop.on_timeout in chosen:  # such a state cannot handle the loop's timeout
        loop = loop._replace(on_timeout=None)
    states = {
        name: _starting(dice, state, is_calm=is_calm, is_wide=is_wide, level=level)
        if name in chosen
        else state
        for name, state in loop.states.items()
    }
    return loop._replace(states=states)


def _starting(
    dice: random.Random, state: StateConfig, *, is_calm: bool, is_wide: bool, level: int
) -> StateConfig:
    """The same transitions, from the ending of a loop, or of several."""
    one = _with_loop(dice, state, is_calm=is_calm, is_wide=is_wide, level=level)
    if not is_wide or dice.random() < 0.3:
        return one
    # More levels of branches would be many runs.
    named = {
        name: StateConfig(loop=tree_loop(dice, is_calm=is_calm, level=LEVELS), action_type="loop")
        for name in "abcd"[: dice.randint(1, 4)]
    }
    joins: list[str | int] = ["all"] if is_calm else ["all", "all", "any", 2, "50%"]
    branches = Branches(
        named={"in": StateConfig(loop=one.loop, action_type="loop"), **named},
        max_parallel=dice.randint(1, 3),
        join=dice.choice(joins),
        fail_fast=not is_calm and dice.random() < 0.3,
    )
    return one._replace(loop=None, branches=branches, action=", ".join(branches.named))


def _with_loop(
    dice: random.Random, state: StateConfig, *, is_calm: bool, is_wide: bool, level: int
) -> StateConfig:
    inner = tree_loop(dice, is_calm=is_calm, is_wide=is_wide, level=level + 1)
    kept = {
        name: getattr(state, name)
        for name in ("on_pass", "on_fail", "on_error", "on_timeout", "next", "retry", "timeout")
    }
    limits: dict[str, Any] = {}
    if not is_calm and dice.random() < 0.4:
        limits = {"max_iterations": dice.randint(1, 9), "max_cost_usd": dice.choice([None, 0.3])}
    return StateConfig(
        loop=inner,
        action=inner.name,
        action_type="loop",
        on_interrupt=None if is_calm else state.on_interrupt,
        limits=ChildLimits(**limits) if limits else None,
        **kept,
    )


def _calm(loop: FSMLoop) -> FSMLoop:
    states = {
        name: state._replace(timeout=None, idle_timeout=None, on_interrupt=None, host=None)
        for name, state in loop.states.items()
    }
    plain = FSMLoop("", "", {})
    fields = ("timeout", "on_timeout", "idle_timeout", "on_interrupt", "host")
    limits = ("max_cost_usd", "max_tokens", "evidence", "scope_writes")
    same = {name: getattr(plain, name) for name in (*fields, *limits)}
    return loop._replace(states=states, **same)
