"""Describe a loop in words: its states, what each would run, and where each leads.

The author's values are filled in as far as they are known before a run; the output of commands
stays a reference. `show` and `run --dry-run` use this.

Not here: what concerns one run (`dry_run`), a loop as a drawing (`authoring.graph`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from little_loops.authoring.branch_view import unfolded
from little_loops.authoring.filling import Filling
from little_loops.authoring.graph import VERDICT_FIELDS
from little_loops.authoring.worst_case import outcomes
from little_loops.authoring.yaml.places import Places, Source
from little_loops.fsm.actions import prompt_sign, type_of
from little_loops.fsm.branching import written_items
from little_loops.fsm.schema import (
    CURRENT,
    DEFAULT_HOST,
    HOOK_TIMEOUT_S,
    ActionType,
    FSMLoop,
    Hook,
    StateConfig,
    Worktree,
    own_worktree,
    worktree_of,
)
from little_loops.fsm.turn_hosts import hosts_of, name_of
from little_loops.fsm.values import seconds_text
from little_loops.light_typing import Any, TextIO
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.templates.render import (
    Lookup,
    Reference,
    TemplateError,
    Unresolved,
    lookup_in,
    show,
)
from little_loops.templates.splice import AuthorValue, Spliced
from little_loops.terminal.console import columns_of

NOWHERE = Places(Source("", ()), None)
WIDEST = 80
WIDEST_TERMINAL = 100
NARROWEST_NAME = 7

Mask = Callable[[str], str]


class Described(NamedTuple):
    """One state; `action` has the known values filled in, `unknown` are the remaining references."""

    name: str
    kind: ActionType | None
    sign: str
    host: str | None
    action: str | None
    transitions: Mapping[str, str]
    condition: Mapping[str, Any] | None
    settings: tuple[str, ...]
    end: str | None
    unknown: tuple[str, ...]
    problems: tuple[str, ...]


def described(loop: FSMLoop, mask: Mask = str) -> list[Described]:
    """Describe all states of a loop, with secrets masked."""
    filling, ends = Filling(loop), outcomes(loop)
    return [_state(filling, name, ends.get(name), mask) for name in loop.states]


def _state(filling: Filling, name: str, end: str | None, mask: Mask) -> Described:
    """Describe one state."""
    loop, state = filling.loop, filling.loop.states[name]
    host = loop.host.under(state.host).host
    action = filling.actions.get(name)
    written = None if state.action is None else _filled_in(filling, name, state.action)
    named = state.branches is not None and bool(state.branches.named)
    return Described(
        name=name,
        kind=None if action is None else type_of(action),
        sign="" if action is None or named else prompt_sign(action, host),
        host=host if name in filling.agents else None,
        action=None if written is None else mask(_branches_of(loop, name) if named else written),
        transitions=written_transitions(state),
        condition=state.to_dict().get("condition"),
        settings=(
            *_which_branches(state),
            *_of_children(state),
            *worktree_words(worktree_of(state)),
            *_fallback(filling, name),
            *_settings(state),
        ),
        end=end,
        unknown=tuple(dict.fromkeys(_unknown(filling, name))),
        problems=tuple(mask(problem) for problem in _problems(filling, name)),
    )


def _branches_of(loop: FSMLoop, name: str) -> str:
    """Return the named branches of a state, each on a line, with the first line of its action."""
    filling = Filling(unfolded(loop, NOWHERE).loop)
    branches = loop.states[name].branches
    assert branches is not None, "only called for a state with branches"
    lines = []
    for key, branch in branches.named.items():
        path = f"{name}/{key}"
        sign = prompt_sign(filling.actions[path], loop.host.under(branch.host).host)
        text, *more = _filled_in(filling, path, branch.action or "").splitlines() or [""]
        lines.append(f"{key}: {sign}{text}{' …' if more else ''}")
    return "\n".join(lines)


def _which_branches(state: StateConfig) -> Iterator[str]:
    """Yield a few words about the branches of a state: for what, how many at once, their join."""
    branches = state.branches
    if branches is None:
        return
    items = written_items(branches)
    if items is not None:
        yield f"{len(items)} branch{'' if len(items) == 1 else 'es'}"
    elif isinstance(branches.for_each, Mapping):
        yield f"for each of {branches.for_each['glob']}"
    else:
        yield f"for each item of {branches.for_each}"
    yield f"{branches.max_parallel} at a time"
    if state.condition is None:
        yield f"join {branches.join}" + (", fail fast" if branches.fail_fast else "")


def _of_children(state: StateConfig) -> Iterator[str]:
    """Yield a few words about what each run that the state starts is given, and may use."""
    given = dict.fromkeys(state.with_)
    if state.branches is not None:
        given |= dict.fromkeys(
            name for each in state.branches.named.values() for name in each.with_
        )
    if given:
        yield f"with {', '.join(given)}"
    if (limits := state.limits) is None:
        return
    if (count := limits.max_iterations) is not None:
        yield f"at most {count:,} iteration{'' if count == 1 else 's'}"
    if limits.max_cost_usd is not None:
        yield f"at most ${limits.max_cost_usd:g}"
    if limits.timeout is not None:
        yield f"at most {seconds_text(limits.timeout)}"


def worktree_words(worktree: Worktree | None) -> Iterator[str]:
    """Yield a few words about a worktree: where it begins, and what is merged."""
    if worktree is None:
        return
    yield f"worktree from {worktree.from_}"
    if worktree.setup is not None:
        yield f"setup: {_first_line(worktree.setup)}"
    if brought := (*worktree.copy, *worktree.link):
        yield f"brings {', '.join(brought)}"
    if worktree.ports:
        yield "ports " + ", ".join(f"{name} from {first}" for name, first in worktree.ports.items())
    yield _MERGED[worktree.merge or "none"]
    if worktree.check is not None and worktree.merge != "none":
        yield f"check: {_first_line(worktree.check)}"
    if worktree.resolve is not None:
        tries = f" ({worktree.tries} tries)" if worktree.tries > 1 else ""
        yield f"resolve: {_first_line(worktree.resolve.action or '')}{tries}"
    if worktree.keep != "failed":
        yield f"{worktree.keep} kept"


def worktree_lines(loop: FSMLoop, dot: str) -> Iterator[str]:
    """Yield the line about the worktree of a run of this loop, if it has one."""
    if words := tuple(worktree_words(own_worktree(loop))):
        yield visible(f"in a {f' {dot} '.join(words)}", newlines=False)


def workspace_lines(loop: FSMLoop) -> Iterator[str]:
    """Yield the line about how workers of a fleet prepare a run of this loop, if the loop says."""
    if loop.runs_on is not None:
        yield f"fleet    labels: {', '.join(loop.runs_on.labels)}"
    if loop.workspace is not None:
        setup = visible(_first_line(loop.workspace.setup), newlines=False)
        yield f"fleet    setup: {setup}"


_MERGED = {"merge": "merged", "squash": "squashed", "none": "not merged"}


def _first_line(text: str) -> str:
    """Return the first line of a text, marked if there are more."""
    first, *more = text.strip().splitlines() or [""]
    return f"{first} …" if more else first


def written_transitions(state: StateConfig) -> dict[str, str]:
    """Return the transitions of a state by field, as the author wrote them."""
    words = {**{f"on_{word}": to for word, to in state.on_words.items()}, **state.route}
    fields = {name: getattr(state, name) for name in VERDICT_FIELDS}
    return words | {name: to for name, to in fields.items() if to is not None}


def any_state_transitions(loop: FSMLoop) -> dict[str, str]:
    """Return the loop's own handlers for error, timeout and interrupt."""
    interrupt = None if loop.on_interrupt == CURRENT else loop.on_interrupt
    written = {"on_error": loop.on_error, "on_timeout": loop.on_timeout, "on_interrupt": interrupt}
    return {name: to for name, to in written.items() if to is not None}


def _filled_in(filling: Filling, name: str, action: str) -> str:
    """Return an action with the known values filled in."""
    if not isinstance(filling.filled(name, action), tuple):
        return action.strip()
    return show(action, _known(filling.loop, name), filling.context_of(name)).strip()


def _known(loop: FSMLoop, name: str) -> Lookup:
    """Return a lookup for engine values that are the same in every run."""
    return lookup_in({"state": {"name": name}, "loop": {"name": loop.name}})


def _fallback(filling: Filling, name: str) -> Iterator[str]:
    """Yield the agents that take a turn which the first one cannot."""
    _, *others = hosts_of(filling.loop, filling.loop.states[name])
    if name in filling.agents and others:
        yield f"fallback {', '.join(map(name_of, others))}"


def _settings(state: StateConfig) -> Iterator[str]:
    """Yield a few words about each setting of a state."""
    if state.repeat > 1:
        yield f"median of {state.repeat} runs"
    if state.timeout is not None:
        yield f"timeout {seconds_text(state.timeout)}"
    if state.idle_timeout is not None:
        yield f"idle timeout {seconds_text(state.idle_timeout)}"
    if state.retry is not None:
        yield "retry" if state.retry.max is None else f"retry at most {state.retry.max} times"
    if state.capture_exit:
        yield "judged later"
    if state.cwd is not None:
        yield f"in {state.cwd}"
    if state.env:
        yield f"env {', '.join(state.env)}"
    for name in ("before", "after"):
        hook: Hook | None = getattr(state, name)
        if hook is not None:
            yield f"{name}: {hook.action}"


def _unknown(filling: Filling, name: str) -> Iterator[str]:
    """Yield the references of a state that are not known before a run."""
    known = _known(filling.loop, name)
    distinct = {reference.text: reference for reference in _references(filling, name)}
    for reference in distinct.values():
        if reference.namespace != "env" and not _resolves(reference, known):
            yield reference.text


def environment_of(loop: FSMLoop) -> tuple[str, ...]:
    """Return the environment variables that the loop's texts refer to."""
    filling = Filling(loop)
    found = (
        ".".join(reference.path)
        for name in loop.states
        for reference in _references(filling, name)
        if reference.namespace == "env"
    )
    return tuple(dict.fromkeys(found))


def _references(filling: Filling, name: str) -> Iterator[Reference]:
    """Yield the references in a state's texts, with the author's own values filled in."""
    for text in _texts(filling.loop, filling.loop.states[name]):
        found = filling.filled(name, text)
        if isinstance(found, tuple):
            yield from _inside(found)


def _inside(pieces: Iterable[Spliced]) -> Iterator[Reference]:
    """Yield the references in pieces, at any depth."""
    for piece in pieces:
        if isinstance(piece, AuthorValue):
            yield from (reference for part in piece.parts for reference in _inside(part))
        elif isinstance(piece, Reference):
            yield piece


def _resolves(reference: Reference, lookup: Lookup) -> bool:
    """Return whether the lookup has a value for a reference."""
    try:
        lookup(reference)
    except Unresolved:
        return False
    return True


def _texts(loop: FSMLoop, state: StateConfig) -> Iterator[str]:
    """Yield every text of a state that may contain references."""
    if state.action is not None:
        yield state.action
        yield from {**loop.env, **state.env}.values()
        yield from _strings(state.context.values())
    yield from _strings([state.to_dict().get("condition")])


def _strings(values: Iterable[Any]) -> Iterator[str]:
    """Yield every string in the values, at any depth."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _strings(value.values())
        elif isinstance(value, list | tuple):
            yield from _strings(value)


def _problems(filling: Filling, name: str) -> Iterator[str]:
    """Yield what a run would refuse; a loop that was checked has no such problems."""
    action = filling.loop.states[name].action
    found = filling.filled(name, action) if action is not None else None
    if isinstance(found, TemplateError | Unresolved):
        yield str(found)


# As text.


def widest_on(stream: TextIO) -> int:
    """Return the maximum width of a page on this stream."""
    return min(columns_of(stream) or WIDEST, WIDEST_TERMINAL)


def header(loop: FSMLoop, dot: str, to: str, *more: str) -> str:
    """Return the first line: name, paradigm and number of states."""
    count = len(loop.states)
    states = f"{loop.paradigm} {to} {count} state{'' if count == 1 else 's'}"
    first = next(iter(loop.states))
    starts = [] if loop.initial == first else [f"starts in {loop.initial}"]
    return f" {dot} ".join([loop.name, states, *starts, *more])


def state_lines(
    loop: FSMLoop, states: Iterable[Described], dot: str, to: str, widest: int = WIDEST
) -> Iterator[str]:
    """Yield the lines about all states, with the names in a column."""
    any_transitions = any_state_transitions(loop)
    names = [*loop.states, *(["any state"] if any_transitions else [])]
    width = max(NARROWEST_NAME, *(len(name) for name in names)) + 2
    for state in states:
        what, *more = _state_text(state, dot, to, widest - width - 2)
        yield f"  {state.name:<{width}}{what}".rstrip()
        yield from (f"  {'':<{width}}{line}".rstrip() for line in more)
    if any_transitions:
        for number, line in enumerate(_transitions_text(any_transitions, to, widest - width - 2)):
            yield f"  {'' if number else 'any state':<{width}}{line}"


def _state_text(state: Described, dot: str, to: str, room: int) -> Iterator[str]:
    """Yield the lines about one state, without its name."""
    if state.action is not None:
        first, *rest = visible(state.action).split("\n")
        yield f"{state.sign}{first}"
        yield from (f"{'':<{len(state.sign)}}{line}" for line in rest)
    elif state.end is None:
        yield "decides"
    if state.condition is not None:
        yield f"judged by {condition_text(state.condition)}"
    if state.settings:
        yield visible(f" {dot} ".join(state.settings), newlines=False)
    yield from (f"cannot run: {visible(problem, newlines=False)}" for problem in state.problems)
    yield from _transitions_text(state.transitions, to, room)
    if state.end is not None:
        yield f"end ({state.end})"


def _transitions_text(transitions: Mapping[str, str], to: str, room: int) -> Iterator[str]:
    """Yield the transitions, several on a line if they fit."""
    line = ""
    for field, target in transitions.items():
        transition = f"{field} {to} {target}"
        if line and len(line) + 4 + len(transition) > room:
            yield line
            line = transition
        else:
            line = f"{line}    {transition}" if line else transition
    if line:
        yield line


def condition_text(condition: Mapping[str, Any]) -> str:
    """Describe a condition: `output_numeric (target 0, operator le)`."""
    inner = condition.get("of", [])
    parts = [inner] if isinstance(inner, Mapping) else inner
    parts_text = [condition_text(part) for part in parts]
    parts_text += [f"{k} {_plain(v)}" for k, v in condition.items() if k not in ("type", "of")]
    return (
        f"{condition['type']} ({', '.join(parts_text)})" if parts_text else str(condition["type"])
    )


def _plain(value: object) -> str:
    """Format a value of a condition: a list as `a/b`, a whole number without `.0`, an agent by its
    name."""
    if isinstance(value, Mapping):
        return _plain(value.get("name", DEFAULT_HOST))
    if isinstance(value, list):
        return "/".join(_plain(each) for each in value)
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return visible(str(value), newlines=False)


def result_lines(loop: FSMLoop) -> Iterator[str]:
    """Yield the line about the values that a run leaves for the run that started it."""
    if loop.result:
        yield f"result   {', '.join(loop.result)}"


def hooks_lines(loop: FSMLoop) -> Iterator[str]:
    """Yield a line for each hook of the loop, with its settings."""
    if loop.hooks is None:
        return
    around = {name: hook for name, hook in loop.hooks._asdict().items() if name != "events"}
    events = {f"for {kind}": hook for kind, hook in loop.hooks.events.items()}
    found = {name: hook for name, hook in {**around, **events}.items() if hook}
    for number, (name, hook) in enumerate(found.items()):
        settings = [] if not hook.states else [", ".join(hook.states)]
        if hook.timeout != HOOK_TIMEOUT_S:
            settings.append(f"timeout {seconds_text(hook.timeout)}")
        if hook.required is not None:
            settings.append("required" if hook.required else "not required")
        if hook.env:
            settings.append(f"env {', '.join(hook.env)}")
        about = f" ({'; '.join(settings)})" if settings else ""
        action = visible(hook.action, newlines=False)
        yield f"{'' if number else 'hooks':<9}{name}{about}: {action}"


def notify_lines(loop: FSMLoop) -> Iterator[str]:
    """Yield a line for each recipient of notifications that the loop names."""
    if loop.notify:
        from little_loops.fsm.notices import shown_address  # few loops have any

        for number, each in enumerate(loop.notify):
            name = visible(shown_address(each.to), newlines=False)
            yield f"{'' if number else 'notify':<9}{name}: {', '.join(each.when)}"


def hooks_json(loop: FSMLoop) -> dict[str, object]:
    """Return the hooks of a loop as they are in its native form."""
    hooks: dict[str, object] = loop.to_dict().get("hooks") or {}
    return hooks


def limits_text(loop: FSMLoop, dot: str) -> str:
    """Return the limits of a loop on one line."""
    count = loop.max_iterations
    limits = [
        f"{count:,} iteration{'' if count == 1 else 's'}",
        "no timeout" if loop.timeout is None else f"timeout {seconds_text(loop.timeout)}",
        f"backoff {seconds_text(loop.backoff or 0)}",
    ]
    if loop.idle_timeout is not None:
        limits.append(f"idle timeout {seconds_text(loop.idle_timeout)}")
    if loop.max_cost_usd is not None:
        limits.append(f"${loop.max_cost_usd:g} for agents")
    if loop.max_tokens is not None:
        limits.append(f"{loop.max_tokens:,} tokens for agents")
    if loop.maintain:
        limits.append(f"starts again {seconds_text(loop.maintain_interval)} after success")
    return f" {dot} ".join(limits)


# As JSON.


def limits_json(loop: FSMLoop) -> dict[str, object]:
    """Return the limits of a loop as JSON data."""
    return {
        "max_iterations": loop.max_iterations,
        "timeout_ms": None if loop.timeout is None else round(loop.timeout * 1000),
        "idle_timeout_ms": None if loop.idle_timeout is None else round(loop.idle_timeout * 1000),
        "backoff_ms": round((loop.backoff or 0) * 1000),
        "max_cost_usd": loop.max_cost_usd,
        "max_tokens": loop.max_tokens,
    }


def states_json(loop: FSMLoop, states: Iterable[Described]) -> list[dict[str, object]]:
    """Return the described states as JSON data."""
    return [
        {
            "name": state.name,
            "initial": state.name == loop.initial,
            "kind": state.kind,
            "host": state.host,
            "action": state.action,
            "condition": state.condition,
            "transitions": dict(state.transitions),
            "end": state.end,
            "unknown_until_run": list(state.unknown),
            "problems": list(state.problems),
        }
        for state in states
    ]
