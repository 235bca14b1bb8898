"""Loops with everything that costs money or time, and what their actions do: generated from a number.

An action's result depends on nothing but the number, its step and how many results that step has
had before, so a run that was cut comes to the same results as one that was not.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from little_loops.fsm.schema import FallbackReason, FSMLoop, HostOptions
from little_loops.fsm.state import SignalLine

NAMES = ("a", "b", "c", "d", "e")
ENDS = ("done", "failed", "look")
HOUR_MS = 3_600_000
RESETS_MS = (None, None, -9_000, -1, 0, 1, 500, 30_000, 3 * HOUR_MS, 7 * HOUR_MS)
"""When a usage limit says it ends, as seen from the moment it is reported."""


class Turn(NamedTuple):
    """What one action does when nothing happens to it."""

    exit_code: int = 0
    takes_ms: int = 1000
    line: SignalLine | None = None
    agent: str | None = None
    tokens: int = 0
    cost_usd: float | None = None
    reset_ms: int | None = None
    writes: Mapping[str, str | None] = {}

    @property
    def hands_off(self) -> bool:
        return self.line is not None and self.line.type == "handoff"


class Nature(NamedTuple):
    """All that a seed decides about results."""

    seed: int
    stops_after: int

    def turn(self, step: int, number: int, *, is_agent: bool) -> Turn:
        dice = random.Random(f"{self.seed}/{step}/{number}/{is_agent}")
        if step > self.stops_after:  # so that a loop that starts again for ever has an end
            return Turn(line=SignalLine("stop", "enough"), agent="success" if is_agent else None)
        turn = _agents_turn(dice) if is_agent else _shell_turn(dice)
        return turn._replace(writes=_writes(dice, often=is_agent))

    def verdict(self, step: int, number: int, words: tuple[str, ...]) -> str:
        return random.Random(f"{self.seed}/{step}/{number}/judged").choice(words)


def _writes(dice: random.Random, *, often: bool) -> dict[str, str | None]:
    """Work, protected files and files outside the scope, as an action may change them."""
    agents = (("src/a", 0.5), ("tests/t", 0.15), ("other/b", 0.15))
    places = agents if often else (("src/a", 0.1), ("tests/t", 0.1))
    return {
        path: dice.choice([None, "1", "2", "3"])
        for path, likely in places
        if dice.random() < likely
    }


def _shell_turn(dice: random.Random) -> Turn:
    code = dice.choices([0, 1, 2, 127], weights=[55, 35, 8, 2])[0]
    line = None
    if dice.random() < 0.06:
        line = dice.choice([SignalLine("handoff", "notes"), SignalLine("error", "broken")])
    return Turn(code, dice.choice([0, 5, 200, 4000, 20_000]), line)


def _agents_turn(dice: random.Random) -> Turn:
    kind = dice.choices(
        ["success", "fail", "error", "handoff", "wait", "auth", "billing", "broken"],
        weights=[30, 12, 6, 32, 16, 1, 1, 2],
    )[0]
    tokens, cost = dice.choice([(0, None), (0, 0.0), (700, 0.02), (90_000, 0.4), (5_000, None)])
    takes_ms = dice.choice([0, 3, 40, 1500, 9000, 30_000])
    match kind:
        case "handoff":
            line = SignalLine("handoff", dice.choice(["", "3 left"]))
            return Turn(0, takes_ms, line, dice.choice(["success", "handoff"]), tokens, cost)
        case "broken":
            return Turn(0, takes_ms, SignalLine("error", "broken"), "success", tokens, cost)
        case "wait":
            reset_ms = dice.choice(RESETS_MS)
            return Turn(
                2, takes_ms, None, "wait", *dice.choice([(0, None), (tokens, cost)]), reset_ms
            )
        case _:
            code = {"success": 0, "fail": 1}.get(kind, 2)
            return Turn(code, takes_ms, None, kind, tokens, cost)


# ── loops ──────────────────────────────────────────────────────────────────────────────────────


def budget_loop(dice: random.Random) -> FSMLoop:
    """A loop of two to five states: commands, agents, decisions, limits, handlers of all kinds."""
    names = NAMES[: dice.randint(2, 5)]
    places = (*names * 3, *ENDS)
    states: dict[str, Any] = {name: _state(dice, names, places) for name in names}
    states["done"] = {"terminal": True, **_maybe(dice, 0.3, action=dice.choice(["x", "/x"]))}
    states["failed"] = {"terminal": True, **_maybe(dice, 0.3, action="x")}
    states["look"] = {"terminal": True, "outcome": "review", "next": dice.choice(names)}
    fields: dict[str, Any] = {
        "max_iterations": dice.randint(1, 10),
        "on_handoff": dice.choice(["pause", "continue", "continue", "terminate", "spawn", "spawn"]),
        "max_continuations": dice.randint(1, 3),
        **_maybe(dice, 0.25, on_error=dice.choice(places)),
        **_maybe(dice, 0.3, timeout=dice.choice([0.5, 5, 40, 900])),
        **_maybe(dice, 0.35, on_timeout=dice.choice(places)),
        **_maybe(dice, 0.2, backoff=0.5),
        **_maybe(dice, 0.2, maintain=True, maintain_interval=1.0),
        **_maybe(dice, 0.35, max_cost_usd=dice.choice([0.01, 0.3, 2.0, 9.0])),
        **_maybe(dice, 0.25, max_tokens=dice.choice([500, 6_000, 900_000])),
        **_maybe(dice, 0.3, on_interrupt=dice.choice([*places, "$error", "$current"])),
        **_maybe(dice, 0.3, host=_host(dice)),
        **_maybe(dice, 0.5, evidence=_evidence(dice)),
        **_maybe(dice, 0.3, scope_writes=dice.choice(["report", "enforce", "ignore"])),
        **_maybe(dice, 0.1, idle_timeout=2),
    }
    return FSMLoop.from_dict({"name": "sim", "initial": names[0], "states": states, **fields})


def with_fallback(loop: FSMLoop, dice: random.Random) -> FSMLoop:
    """The loop with further agents, whose turns have a price."""
    others = (HostOptions(model="opus"), HostOptions(model="haiku"))[: dice.randint(1, 2)]
    on: tuple[FallbackReason, ...] = dice.choice([(), ("auth",), ("auth", "billing")])
    return loop._replace(fallback=others, fallback_on=on)


def _evidence(dice: random.Random) -> dict[str, Any]:
    return {
        "enabled": True,
        "tampering": dice.choice(["restore", "fail", "report"]),
        "clean": dice.random() < 0.4,
        "confirm": dice.choice([1, 1, 2]),
        **_maybe(dice, 0.5, stall_after=1),
    }


def redefined(loop: FSMLoop, dice: random.Random) -> FSMLoop:
    """The same states under other rules, as an author may write them between two processes."""
    fields: dict[str, Any] = {
        **_maybe(dice, 0.5, max_iterations=dice.randint(1, 20)),
        **_maybe(dice, 0.5, max_cost_usd=dice.choice([None, 0.01, 2.0, 20.0])),
        **_maybe(dice, 0.3, max_tokens=dice.choice([None, 500, 2_000_000])),
        **_maybe(dice, 0.3, timeout=dice.choice([None, 5, 2_000])),
        **_maybe(dice, 0.5, on_handoff=dice.choice(["pause", "continue", "spawn"])),
        **_maybe(dice, 0.5, max_continuations=dice.randint(1, 3)),
        **_maybe(dice, 0.3, on_timeout=dice.choice([None, "done"])),
        **_maybe(dice, 0.3, on_error=dice.choice([None, "failed"])),
    }
    return loop._replace(**fields)


def _host(dice: random.Random) -> dict[str, Any]:
    return {
        **_maybe(dice, 0.5, max_wait=dice.choice([0, 1, 90, 36_000])),
        **_maybe(dice, 0.5, max_cost_usd=0.25),
    }


def _state(dice: random.Random, names: tuple[str, ...], places: tuple[str, ...]) -> dict[str, Any]:
    kind = dice.random()
    if kind < 0.15:
        return _decision(dice, places)
    action = dice.choice(["/x", "/x", "/x", "x"])
    state: dict[str, Any] = {"action": action, **_maybe(dice, 0.9, next=dice.choice(names))}
    for field, likely in (("on_pass", 0.5), ("on_fail", 0.6), ("on_error", 0.6)):
        state |= _maybe(dice, likely, **{field: dice.choice([*places, "$current"])})
    state |= _maybe(dice, 0.3, timeout=dice.choice([0.05, 3]))
    state |= _maybe(dice, 0.3, on_timeout=dice.choice([*places, "$current"]))
    state |= _maybe(dice, 0.4, retry={"max": dice.randint(1, 3), "backoff": 0.1})
    state |= _maybe(dice, 0.2, on_interrupt=dice.choice([*places, "$error", "$current"]))
    state |= _maybe(dice, 0.2, capture_exit=True)
    state |= _maybe(dice, 0.3, check=True)
    state |= _maybe(dice, 0.15, host=_host(dice))
    if action == "x" and dice.random() < 0.3:
        state["condition"] = {"type": "output_numeric", "target": "${state.iteration}"}
    return state


def _decision(dice: random.Random, places: tuple[str, ...]) -> dict[str, Any]:
    """A state without an action, which judges what is there."""
    return {
        "condition": {"type": "output_contains", "source": "${loop.name}", "pattern": "x"},
        "on_pass": dice.choice(places),
        "on_fail": dice.choice([*places, "$current"]),
        **_maybe(dice, 0.5, on_error=dice.choice(places)),
    }


def _maybe(dice: random.Random, likely: float, **fields: Any) -> dict[str, Any]:
    return fields if dice.random() < likely else {}
