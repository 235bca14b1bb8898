"""Check the variables that an action finds in its environment: `env`, and a state's own `context`.

Their values may be data.  Some variables hold code for the shell, so no data goes there; the others
are the author's to use, and a flat look at the script finds those it names where the shell
evaluates them.

Not here: reading scripts (`templates.render`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from little_loops.authoring.checks.check_filled import LEXED, MOST_LEXED, is_script
from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.texts import Path, Text, templates
from little_loops.errors import Problem
from little_loops.templates.render import (
    Reference,
    TemplateError,
    Unresolved,
    check_held,
    check_variable,
)
from little_loops.templates.splice import AuthorValue, is_data


def check_environment(of: Inspection) -> Iterator[Problem]:
    """Some variables of the environment hold code for the shell: no data goes there."""
    for each in templates(of.loop):
        if each.path[-2] == "env":
            yield from _evaluated(of, each)


def _evaluated(of: Inspection, each: Text) -> Iterator[Problem]:
    context = of.loop.context if each.state is None else of.context_of(each.state)
    try:
        refusals = check_variable(str(each.path[-1]), each.text, context)
    except (Unresolved, TemplateError):  # reported by the other checks
        return
    for refusal in refusals:
        span = (refusal.reference.start, refusal.reference.end)
        yield of.inside("LL407", refusal.message, each, span, refusal.help)


def check_variables_in_code(of: Inspection) -> Iterator[Problem]:
    """A variable that holds data should not be named where the shell evaluates it."""
    lexed, reported = 0, set[Path]()
    for name in of.actions:
        state = of.loop.states[name]
        action = Text(state.action or "", ("states", name, "action"), name)
        if not is_script(of, action) or not isinstance(of.filled(name, action.text), tuple):
            continue
        texts = _environment(of, name, action.text)
        held = {variable: _data_in(of, name, texts[variable]) for variable in texts}
        known = {variable: reference for variable, reference in held.items() if reference}
        lexed += len(action.text) if known else 0
        if known and lexed > MOST_LEXED:
            of.stop_at(MOST_LEXED, LEXED)
        elif known:
            shell = state.shell or of.loop.shell
            said = check_held(action.text, known, of.context_of(name), shell)
            for variable, refusal in said.items():
                each, span = texts[variable], (known[variable].start, known[variable].end)
                if each.path not in reported:
                    reported.add(each.path)
                    yield of.inside("LL312", refusal.message, each, span, refusal.help, "warning")


def _environment(of: Inspection, name: str, script: str) -> Mapping[str, Text]:
    """The variables of a state's environment that its script names."""
    loop, state, at = of.loop, of.loop.states[name], ("states", name)
    own = {f"LL_CONTEXT_{key.upper()}": key for key in state.context}
    found = {}
    for variable in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", script, re.ASCII)):
        if variable in own and isinstance(state.context[own[variable]], str):
            path = (*at, "context", own[variable])
            found[variable] = Text(state.context[own[variable]], path, name)
        elif variable in state.env:
            found[variable] = Text(state.env[variable], (*at, "env", variable), name)
        elif variable in loop.env:
            found[variable] = Text(loop.env[variable], ("env", variable))
    return found


def _data_in(of: Inspection, name: str, each: Text) -> Reference | None:
    filled = of.filled(name, each.text) if "${" in each.text else None
    for piece in filled if isinstance(filled, tuple) else ():
        if isinstance(piece, AuthorValue | Reference) and is_data(piece):
            return piece.reference if isinstance(piece, AuthorValue) else piece
    return None
