"""Draw a loop: as text for a terminal, as Mermaid, or as DOT.

There is one line per state and one per transition, in the order of the file; transitions back up
have an arrow. All text is the author's, so control characters are made visible and quotes are
escaped for each notation.

Not here: boxes and layout, which other programs do better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from little_loops.authoring.filling import Filling
from little_loops.authoring.worst_case import outcomes
from little_loops.fsm.actions import Action, prompt_sign, text_of
from little_loops.fsm.schema import CURRENT, PROOF_VERDICTS, FSMLoop, StateConfig
from little_loops.records import NamedTuple

VERDICT_FIELDS = (
    "on_pass",
    "on_fail",
    "on_target",
    "on_progress",
    "on_stall",
    "next",
    "on_error",
    "on_timeout",
    *(f"on_{verdict}" for verdict in PROOF_VERDICTS),
    "on_rejected",
    "on_interrupt",
    "on_maintain",
)
LONGEST_ACTION = 60
NARROWEST, WIDEST = 7, 32


class Arrow(NamedTuple):
    label: str
    target: str


class GraphSymbols(NamedTuple):
    start: str = "▶"
    end: str = "■"
    more: str = "├"
    last: str = "└"
    to: str = "→"
    back: str = "↑"
    cut: str = "…"
    dot: str = "·"


ASCII = GraphSymbols(">", "#", "|-", "`-", "->", "^", "...", "-")


def arrows(state: StateConfig) -> list[Arrow]:
    """Return the transitions of a state, as its author wrote them."""
    written = {name: getattr(state, name) for name in VERDICT_FIELDS}
    found = [Arrow(n.removeprefix("on_"), to) for n, to in written.items() if to is not None]
    words = {**state.on_words, **state.route}
    choices = [Arrow("choice", to) for to in state.choices]
    return [*(Arrow(word, to) for word, to in words.items()), *found, *choices]


def handlers(loop: FSMLoop) -> list[Arrow]:
    """Return the loop's transitions for error, timeout and interrupt, which apply to all states."""
    request = None if loop.on_interrupt == CURRENT else loop.on_interrupt
    all_three = {"error": loop.on_error, "timeout": loop.on_timeout, "interrupt": request}
    return [Arrow(label, to) for label, to in all_three.items() if to is not None]


def as_text(loop: FSMLoop, *, ascii_only: bool = False) -> str:
    """Return the whole loop for a terminal, without a trailing newline."""
    return "\n".join(_lines(loop, ASCII if ascii_only else GraphSymbols()))


def _lines(loop: FSMLoop, signs: GraphSymbols) -> Iterator[str]:
    """Yield the lines of the drawing."""
    width = min(WIDEST, max([NARROWEST, *(len(name) for name in loop.states)])) + 2
    rows = {name: row for row, name in enumerate(loop.states)}
    ends, actions = outcomes(loop), _actions(loop, signs)
    any_state = handlers(loop)
    every = [*any_state, *(arrow for state in loop.states.values() for arrow in arrows(state))]
    labels = max((len(arrow.label) for arrow in every), default=0) + 2
    for name, state in loop.states.items():
        sign = signs.start if name == loop.initial else signs.end if state.terminal else " "
        what = [ends[name]] if name in ends else []
        if name in actions:
            what.append(actions[name])
        elif not state.terminal:
            what.append("decides")
        yield f"{sign} {name:<{width}}{f' {signs.dot} '.join(what)}".rstrip()
        yield from _arrow_lines(arrows(state), labels, rows, rows[name], signs)
    if any_state:
        yield "  (any)"
        yield from _arrow_lines(any_state, labels, {}, -1, signs)


def _arrow_lines(
    found: list[Arrow], width: int, rows: Mapping[str, int], row: int, signs: GraphSymbols
) -> Iterator[str]:
    """Yield a line per transition; one to the same or an earlier state is marked."""
    for arrow in found:
        branch = signs.last if arrow is found[-1] else signs.more
        back = f" {signs.back}" if rows.get(arrow.target, row + 1) <= row else ""
        yield f"    {branch} {arrow.label:<{width}}{signs.to} {arrow.target}{back}"


def _actions(loop: FSMLoop, signs: GraphSymbols) -> dict[str, str]:
    """Return a short description of each state's action, with the author's values filled in."""
    filling = Filling(loop)
    return {name: _action(loop, name, action, signs) for name, action in filling.actions.items()}


def _action(loop: FSMLoop, name: str, action: Action, signs: GraphSymbols) -> str:
    """Return the first line of an action, shortened, with a sign for who runs it."""
    lines = (loop.states[name].label or text_of(action)).strip().splitlines() or [""]
    text = visible(lines[0][: LONGEST_ACTION + 1])
    if len(lines) > 1 or len(text) > LONGEST_ACTION:
        text = f"{text[:LONGEST_ACTION]}{signs.cut}"
    state = loop.states[name]
    if state.branches is not None and state.branches.named:
        return text
    each = "each: " if state.branches is not None else ""
    return f"{each}{prompt_sign(action, loop.host.under(state.host).host)}{text}"


def visible(text: str) -> str:
    """Return the text on one line, with control characters made visible."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def as_mermaid(loop: FSMLoop) -> str:
    """Return a `stateDiagram-v2`; states get generated ids, because some names are keywords."""
    ids = _ids(loop)
    lines = ["stateDiagram-v2"]
    actions = _actions(loop, GraphSymbols())
    for name in loop.states:
        label = "\n".join([name, *filter(None, [actions.get(name)])])
        lines.append(f'    state "{_mermaid(label)}" as {ids[name]}')
    lines += [f"    [*] --> {ids[loop.initial]}"] if loop.initial in ids else []
    for source, arrow in all_arrows(loop):
        target = source if arrow.target == CURRENT else arrow.target
        if target in ids:
            lines.append(f"    {ids[source]} --> {ids[target]}: {_mermaid(arrow.label)}")
    ends = outcomes(loop)
    lines += [f"    {ids[name]} --> [*]: {_mermaid(end)}" for name, end in ends.items()]
    return "\n".join(lines)


def as_dot(loop: FSMLoop) -> str:
    """Return a graph for `dot`."""
    ids = _ids(loop)
    lines = [f"digraph {_dot(loop.name)} {{", "    rankdir=TB;", "    node [shape=box];"]
    ends, actions = outcomes(loop), _actions(loop, GraphSymbols())
    for name, state in loop.states.items():
        label = [name, *filter(None, [ends.get(name), actions.get(name)])]
        shape = ", peripheries=2" if state.terminal else ""
        lines.append(f"    {ids[name]} [label={_dot(*label)}{shape}];")
    lines += ["    start [shape=point];"]
    lines += [f"    start -> {ids[loop.initial]};"] if loop.initial in ids else []
    for source, arrow in all_arrows(loop):
        target = source if arrow.target == CURRENT else arrow.target
        if target in ids:
            lines.append(f"    {ids[source]} -> {ids[target]} [label={_dot(arrow.label)}];")
    return "\n".join([*lines, "}"])


def _ids(loop: FSMLoop) -> dict[str, str]:
    return {name: f"s{number}" for number, name in enumerate(loop.states)}


def all_arrows(loop: FSMLoop) -> Iterator[tuple[str, Arrow]]:
    """Yield every transition between two states, including the loop's own handlers."""
    for name, state in loop.states.items():
        own = arrows(state)
        yield from ((name, arrow) for arrow in own)
        labels = {arrow.label for arrow in own}
        for arrow in handlers(loop):
            applies = not state.terminal and arrow.label not in labels and arrow.target != name
            if applies and (arrow.label != "interrupt" or state.action is not None):
                yield name, arrow


def _mermaid(text: str) -> str:
    """Escape everything but plain characters with Mermaid's `#code;`."""
    plain = " .,/_-"
    return "".join(
        char if (char.isalnum() and char.isascii()) or char in plain else _mermaid_code(char)
        for char in text
    )


def _mermaid_code(char: str) -> str:
    return "<br>" if char == "\n" else f"#{ord(char)};"


def _dot(*lines: str) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'
