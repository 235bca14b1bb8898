"""Machines and what their actions do, generated from a number: the same number, the same machine.

What an action does depends on nothing but the number and on which action it is (its step, and how
often that step has been judged before), so an action that is run again does the same again and a
run that was cut must come to the same end as one that was not.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from little_loops.fsm.commands import RunAction
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, SignalLine

NAMES = ("a", "b", "c", "d", "e")
ENDS = ("done", "failed", "look")


class Key(NamedTuple):
    """Which action this is, however often it is attempted."""

    step: int
    retries: int
    handoffs: int


def key_of(run: LoopState, command: RunAction) -> Key:
    return Key(command.job.step, run.retries, run.continuations)


class Deed(NamedTuple):
    """What an action does."""

    exit_code: int
    output: str
    takes_ms: int
    line: SignalLine | None = None


class Nature(NamedTuple):
    """All that a seed decides about actions."""

    seed: int
    stops_after: int

    def deed(self, key: Key) -> Deed:
        dice = random.Random(f"{self.seed}/{key}")
        if key.step > self.stops_after:  # so that a loop that starts again for ever has an end
            return Deed(0, "LOOP_STOP: enough", 5, SignalLine("stop", "enough"))
        code = dice.choices([0, 1, 2, 127], weights=[60, 34, 5, 1])[0]
        line = None
        if dice.random() < 0.06 and key.handoffs < 3:
            line = dice.choice([SignalLine("handoff", "go on"), SignalLine("error", "broken")])
        output = dice.choice(["", "7", "3\n", "0", "x" * dice.randint(1, 3000)])
        return Deed(code, output, dice.randint(0, 4000), line)


def machine(dice: random.Random) -> FSMLoop:
    """A loop of two to five states with every kind of way between them."""
    names = NAMES[: dice.randint(2, 5)]
    places = (*names * 3, *ENDS)  # mostly on and on: a run of one step shows little
    states: dict[str, Any] = {name: _state(dice, names, places) for name in names}
    states["done"] = _end(dice)
    states["failed"] = {"terminal": True, **({"action": "x"} if dice.random() < 0.3 else {})}
    states["look"] = {"terminal": True, "outcome": "review", "next": dice.choice(names)}
    fields: dict[str, Any] = {"max_iterations": dice.randint(3, 8)}
    if dice.random() < 0.3:
        fields["on_error"] = dice.choice(places)
    if dice.random() < 0.3:
        fields["backoff"] = 0.5
    if dice.random() < 0.2:
        fields |= {"maintain": True, "maintain_interval": 1.0}
    fields["on_handoff"] = dice.choice(["pause", "continue", "terminate"])
    return FSMLoop.from_dict({"name": "sim", "initial": names[0], "states": states, **fields})


def _state(dice: random.Random, names: tuple[str, ...], places: tuple[str, ...]) -> dict[str, Any]:
    state: dict[str, Any] = {"action": "x", "next": dice.choice(names)}
    for field, likely in (("on_pass", 0.5), ("on_fail", 0.6), ("on_error", 0.8)):
        if dice.random() < likely:
            state[field] = dice.choice([*places, "$current"])
    if dice.random() < 0.3:
        state |= {"timeout": 3, "on_timeout": dice.choice(places)}
    if dice.random() < 0.4:
        state["retry"] = {"max": dice.randint(1, 3), "backoff": 0.1}
    if dice.random() < 0.3:
        state["capture"] = "kept"
    kind = dice.random()
    if kind < 0.2:
        state["condition"] = {"type": "output_numeric", "operator": "le", "target": 3}
    elif kind < 0.4:
        state["condition"] = {"type": "convergence", "target": 0, "patience": 2}
        state["on_target"] = dice.choice(places)
    elif kind < 0.5:  # a template: judged at the edge, so the result is written down first
        state["condition"] = {"type": "output_numeric", "target": "${state.iteration}"}
    return state


def _end(dice: random.Random) -> dict[str, Any]:
    return {"terminal": True, **({"action": "x"} if dice.random() < 0.3 else {})}
