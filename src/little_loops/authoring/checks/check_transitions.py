"""Warn about missing and unused transitions, and about states that cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from little_loops.authoring.checks.flow import possible_verdicts, reachable
from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.messages import listed
from little_loops.errors import Problem
from little_loops.fsm.schema import (
    CURRENT,
    FAIL,
    FAILURE_TRANSITIONS,
    PASS,
    PROGRESS,
    SOFT_VERDICTS,
    STALL,
    TARGET,
    FSMLoop,
    StateConfig,
    effective_condition,
    outcome_of,
    transitions,
)

WHEN = {
    PASS: "passes",
    FAIL: "fails",
    TARGET: "reaches its target",
    PROGRESS: "gets closer to its target",
    STALL: "stops getting closer to its target",
}


def check_reachable(of: Inspection) -> Iterator[Problem]:
    """Warn about states that cannot be reached, and about a loop without a terminal state."""
    loop = of.loop
    found = reachable(of.flow)
    for name in loop.states:
        if name not in found:
            yield of.warning(
                "LL301",
                f"state `{name}` can never be reached",
                *("states", name),
                help="add a transition to it, or remove it",
            )
    if loop.states and not any(state.terminal for state in loop.states.values()):
        yield of.warning(
            "LL302",
            "no state is terminal, so a run can only end at a limit or with an error",
            "states",
            help="add a state with `terminal: true`",
        )


def check_outcomes(of: Inspection) -> Iterator[Problem]:
    """Warn about a terminal state that only a failed check leads to, but that counts as success."""
    reasons: dict[str, set[str]] = {}
    for edge in (edge for edges in of.flow.edges.values() for edge in edges):
        reasons.setdefault(edge.target, set()).add(edge.reason)
    for name, state in of.loop.states.items():
        only_failed = reasons.get(name, set()) - FAILURE_TRANSITIONS == {"on_fail"}
        by_name = state.terminal and state.outcome is None and name != of.loop.initial
        if only_failed and by_name and outcome_of(name, state, "on_fail") == "success":
            yield of.warning(
                "LL317",
                f"only `on_fail` leads to `{name}`, but a run that ends there counts as a success",
                *("states", name),
                help="add `outcome: failure`, or `outcome: success` if that is what you want",
            )


def check_paradigm_conditions(of: Inspection) -> Iterator[Problem]:
    """Report a condition in a paradigm whose verdicts do not match the paradigm's transitions."""
    for name, state in of.loop.states.items() if of.compiled else ():
        if state.terminal or of.gaps.unsure(name) or not of.places.has("states", name, "condition"):
            continue
        message = _verdict_mismatch(of, state, possible_verdicts(state, agent=name in of.agents))
        if message is not None:
            path = ("states", name, "condition")
            help = (
                "use a condition that gives the expected verdicts, or write the loop with `states`"
            )
            yield of.error("LL214", message, *path, help=help)


def _verdict_mismatch(of: Inspection, state: StateConfig, verdicts: tuple[str, ...]) -> str | None:
    """Return why the paradigm has no transitions for these verdicts; None if it has."""
    own = [verdict for verdict in SOFT_VERDICTS if f"on_{verdict}" in _reasons(state)]
    asked = f"paradigm `{of.loop.paradigm}` expects {_and(own or [PASS, FAIL])} here"
    if any(verdict not in transitions(state) for verdict in verdicts):
        return f"this condition gives {_and(verdicts)}, but {asked}"
    if own and own[0] not in verdicts:
        return f"this condition never gives `{own[0]}`, but {asked}"
    return None


def _reasons(state: StateConfig) -> set[str]:
    return {transition.reason for transition in transitions(state).values()}


def _and(verdicts: Sequence[str]) -> str:
    names = [f"`{verdict}`" for verdict in verdicts]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def check_later(of: Inspection) -> Iterator[Problem]:
    """Report `on_pass` or an own judgement on a state whose result is judged later."""
    for name, state in of.loop.states.items():
        later = state.capture_exit and effective_condition(state) is None and not state.terminal
        if not later or name in of.agents or of.gaps.unsure(name):
            continue
        if of.compiled and _reasons(state) & {"on_pass", "on_fail"}:
            message = "the result of this command is judged here, so it cannot be judged later"
            path = ("states", name, "capture_exit")
            yield of.error("LL215", message, *path, help="remove `capture_exit`", part="key")
        elif state.on_pass is not None:
            message = f"state `{name}` has `capture_exit`, so it takes `next` and never `on_pass`"
            help = f"write `next: {state.on_pass}`; a later state judges the result"
            yield of.error("LL215", message, "states", name, "on_pass", help=help, part="key")


def check_verdicts(of: Inspection) -> Iterator[Problem]:
    """Warn about verdicts without a transition, and transitions without a verdict."""
    for name, state in of.loop.states.items():
        if not state.terminal and not of.gaps.unsure(name):
            verdicts = possible_verdicts(state, agent=name in of.agents)
            if not of.compiled:  # what a paradigm generated, the author cannot fix
                yield from _without_transition(of, name, state, verdicts)
                yield from _without_verdict(of, name, state, verdicts)
            yield from _without_timeout(of, name, state)
    loop = of.loop
    if loop.on_timeout is not None and not of.gaps:
        if not _is_bounded(loop) and not any(map(_is_bounded, loop.states.values())):
            yield of.warning(
                "LL308",
                "`on_timeout` is never taken: neither the loop nor a state has a `timeout`",
                "on_timeout",
                help="add `timeout: <time>`",
            )


def _is_bounded(each: FSMLoop | StateConfig) -> bool:
    return each.timeout is not None or each.idle_timeout is not None


def _without_transition(
    of: Inspection, name: str, state: StateConfig, verdicts: tuple[str, ...]
) -> Iterator[Problem]:
    """Warn about verdicts that have no transition."""
    table = transitions(state)
    missing = [verdict for verdict in verdicts if verdict not in table]
    if missing == list(verdicts):
        yield of.warning(
            "LL303",
            f"state `{name}` has no transition",
            *("states", name),
            help="add `next: <state>`, or `terminal: true` if the run ends here",
        )
        return
    for verdict in missing:
        if verdict not in WHEN:
            message = f"state `{name}` has no transition for the word `{verdict}`"
            help = f"add `on_{verdict}: <state>`"
        else:
            message = (
                f"state `{name}` has no transition for when {_what(state, verdict)} {WHEN[verdict]}"
            )
            help = f"add `on_{verdict}: <state>`, or `next: <state>` to continue regardless"
        yield of.warning("LL303", message, *("states", name), help=help)


def _what(state: StateConfig, verdict: str) -> str:
    """Return the subject of the message about a missing transition."""
    if verdict not in (PASS, FAIL):
        return "its number"
    return "its action" if state.condition is None else "its condition"


def _without_verdict(
    of: Inspection, name: str, state: StateConfig, verdicts: tuple[str, ...]
) -> Iterator[Problem]:
    """Warn about transitions for verdicts that the state never gives."""
    for verdict in SOFT_VERDICTS:
        if getattr(state, f"on_{verdict}") is not None and verdict not in verdicts:
            yield _never(of, name, f"on_{verdict}", _explain_verdicts(state, verdicts))
    if state.next is not None and all(_has_own_transition(state, verdict) for verdict in verdicts):
        why = "every verdict has its own transition"
        yield _never(of, name, "next", (why, "remove it"))


def _without_timeout(of: Inspection, name: str, state: StateConfig) -> Iterator[Problem]:
    """Warn about `on_timeout` on a state without a time limit."""
    bounded = _is_bounded(state) or of.loop.idle_timeout is not None
    if state.on_timeout is not None and not bounded:
        why = ("the state has no `timeout`", "add `timeout: <time>`")
        yield _never(of, name, "on_timeout", why)


def _has_own_transition(state: StateConfig, verdict: str) -> bool:
    """Return whether a verdict never uses `next`."""
    transition = transitions(state._replace(next=None)).get(verdict)
    tries = state.retry.max if state.retry is not None else None
    # When the retries are used up, the verdict takes `next`.
    return verdict not in SOFT_VERDICTS or (
        transition is not None and not (transition.target == CURRENT and tries is not None)
    )


def _explain_verdicts(state: StateConfig, verdicts: tuple[str, ...]) -> tuple[str, str]:
    """Return why a verdict is not possible here, and what to use instead."""
    given = ", ".join(f"`{verdict}`" for verdict in verdicts)
    if verdicts == (PASS,):
        return "with `capture_exit` the result is judged later", "use `next`"
    if verdicts == (PASS, FAIL):
        help = "a condition of type `convergence` gives `target`, `progress` and `stall`"
        if state.condition is None:
            help += ", and `on_target` implies one"
        return f"the verdicts here are {given}", help
    return f"the verdicts here are {given}", f"use {listed([f'on_{v}' for v in verdicts])}"


def _never(of: Inspection, name: str, field: str, why: tuple[str, str]) -> Problem:
    message = f"`{field}` of state `{name}` is never taken: {why[0]}"
    return of.warning("LL308", message, "states", name, field, help=why[1])


def check_effects(of: Inspection) -> Iterator[Problem]:
    """Warn about fields that have no effect, and about a `timeout` that cannot be reached."""
    for name, state in of.loop.states.items():
        if of.gaps.unsure(name):
            continue
        table = transitions(state)
        if state.retry is not None and all(
            transition.target != CURRENT for transition in table.values()
        ):
            yield of.warning(
                "LL310",
                f"`retry` of state `{name}` has no effect: no transition leads to `$current`",
                *("states", name, "retry"),
                help="add a transition that runs the state again, such as `on_error: $current`"
                if not of.compiled
                else "remove it, or write the loop with `states`",
            )
        if state.action is None:
            for field in (
                "capture",
                "capture_exit",
                "check",
                "label",
                "timeout",
                "idle_timeout",
                "action_type",
                "before",
                "after",
            ):
                if getattr(state, field):
                    yield of.warning(
                        "LL310",
                        f"`{field}` of state `{name}` has no effect: the state has no action",
                        *("states", name, field),
                        help="remove it, or add an `action`",
                    )
        yield from _check_timeout(of, name, state)


def _check_timeout(of: Inspection, name: str, state: StateConfig) -> Iterator[Problem]:
    """Warn about a state's `timeout` that is longer than the loop's."""
    whole = of.loop.timeout
    if whole is not None and state.timeout is not None and state.timeout > whole:
        yield of.warning(
            "LL309",
            f"the `timeout` of state `{name}` ({state.timeout:g} s) is longer than the loop's "
            f"({whole:g} s)",
            *("states", name, "timeout"),
            help="the loop's timeout ends the run first",
            part="value",
        )
