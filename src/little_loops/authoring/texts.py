"""The texts of a loop: those in which templates are filled in, and those that are used literally."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.fsm.schema import (
    PROOF_VERDICTS,
    All,
    AnyOf,
    Condition,
    FSMLoop,
    Hook,
    HostOptions,
    Not,
    StateConfig,
    host_variable,
)
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

Path = tuple[str | int, ...]
TEMPLATED = ("source", "target", "pattern", "path", "tolerance")
"""The fields of a condition that may be templates."""
TRANSITIONS = (
    "next",
    "on_pass",
    "on_fail",
    "on_target",
    "on_progress",
    "on_stall",
    "on_error",
    "on_timeout",
    *(f"on_{verdict}" for verdict in PROOF_VERDICTS),
)
"""The state fields that are transitions for a verdict."""


class LocatedText(NamedTuple):
    """A text, its path in the loop, and the state it belongs to (None for the loop).

    `after` says that it is used after the state's own action has run.
    """

    text: str
    path: Path
    state: str | None = None
    after: bool = False


class ConditionPart(NamedTuple):
    """A condition, or one inside another, and its path in the loop."""

    state: str
    path: Path
    condition: Condition


def conditions(loop: FSMLoop) -> Iterator[ConditionPart]:
    """Yield every condition, including those inside other conditions."""
    for name, state in loop.states.items():
        if state.condition is not None:
            yield from _parts(ConditionPart(name, ("states", name, "condition"), state.condition))


def _parts(part: ConditionPart) -> Iterator[ConditionPart]:
    """Yield a condition and all conditions inside it."""
    yield part
    match part.condition:
        case All() | AnyOf():
            for index, each in enumerate(part.condition.of):
                yield from _parts(ConditionPart(part.state, (*part.path, "of", index), each))
        case Not():
            yield from _parts(ConditionPart(part.state, (*part.path, "of"), part.condition.of))
        case _:
            pass


def templates(loop: FSMLoop) -> Iterator[LocatedText]:
    """Yield every text that may contain a template."""
    yield from values(loop.context, ("context",))
    yield from values(loop.env, ("env",))
    yield from values(loop.result, ("result",))
    for name, state in loop.states.items():
        if state.action is not None:
            yield LocatedText(state.action, ("states", name, "action"), name)
        yield from values(state.context, ("states", name, "context"), name)
        yield from values(state.with_, ("states", name, "with"), name)
        yield from values(state.env, ("states", name, "env"), name)
        if state.branches is not None and not isinstance(state.branches.for_each, tuple):
            yield from _strings(state.branches.for_each, ("states", name, "for_each"), name)
    for part in conditions(loop):
        for field in TEMPLATED:
            value = getattr(part.condition, field, None)
            if isinstance(value, str):
                yield LocatedText(value, (*part.path, field), part.state, after=True)


def values(named: Mapping[str, Any], path: Path, state: str | None = None) -> Iterator[LocatedText]:
    """Yield every text in a mapping of values, at any depth."""
    for name, value in named.items():
        yield from _strings(value, (*path, name), state)


def _strings(value: Any, path: Path, state: str | None = None) -> Iterator[LocatedText]:
    """Yield every string in a value, with its path."""
    match value:
        case str():
            yield LocatedText(value, path, state)
        case Mapping():
            yield from values(value, path, state)
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _strings(item, (*path, index), state)
        case _:
            pass


def plain_texts(loop: FSMLoop) -> Iterator[LocatedText]:
    """Yield every text that is used literally."""
    for field in ("description", "initial", "on_error", "on_timeout", "on_interrupt", "cwd"):
        yield from _strings(getattr(loop, field), (field,))
    yield from _strings(loop.scope, ("scope",))
    yield from _texts_of_hosts(loop.host, loop.fallback, ())
    if loop.hooks is not None:
        yield from values(_texts_of(loop.hooks._asdict()), ("hooks",))
    for name, state in loop.states.items():
        yield from _plain_of(name, state)


def _plain_of(name: str, state: StateConfig) -> Iterator[LocatedText]:
    """Yield every text of a state that is used literally."""
    at = ("states", name)
    for field in (*TRANSITIONS, "on_rejected", "on_interrupt", "on_maintain", "capture", "cwd"):
        yield from _strings(getattr(state, field), (*at, field), name)
    yield from _strings(state.choices, (*at, "choices"), name)
    yield from values(_texts_of({"before": state.before, "after": state.after}), at, name)
    for word, target in state.on_words.items():
        yield LocatedText(target, (*at, f"on_{word}"), name)
    yield from values(state.route, (*at, "route"), name)
    host = state.host
    if host is not None and host_variable(state) is not None:
        host = host._replace(name=None)
    yield from _texts_of_hosts(host, state.fallback, at, name)


def _texts_of(hooks: Mapping[str, Any]) -> dict[str, Any]:
    """Return the texts of hooks by their names; `events` has hooks of its own."""
    found: dict[str, Any] = {}
    for name, hook in hooks.items():
        if isinstance(hook, Hook):
            found[name] = {"action": hook.action, "env": hook.env}
        elif hook:
            found[name] = _texts_of(hook)
    return found


def _texts_of_hosts(
    host: HostOptions | None,
    fallback: tuple[HostOptions, ...] | None,
    at: Path,
    state: str | None = None,
) -> Iterator[LocatedText]:
    """Yield the texts in the options of a loop's or a state's agents."""
    if host is not None:
        yield from values(host._asdict(), (*at, "host"), state)
    for index, other in enumerate(fallback or ()):
        yield from values(other._asdict(), (*at, "fallback", index), state)
