"""Check the variables in an action's environment: `env`, and a state's own `context`.

Their values may be data. Some variables contain code for the shell, so they must not contain data.
The author may use the others freely; a simple search of the script finds those used where the shell
evaluates them.

Not here: reading scripts (`templates.render`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from little_loops.authoring.checks.check_filled import LEXED, MOST_LEXED, is_script
from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.texts import LocatedText, Path, templates
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
    """Report data in environment variables that the shell evaluates."""
    for each in templates(of.loop):
        if each.path[-2] == "env":
            yield from _check_variable(of, each)


def _check_variable(of: Inspection, each: LocatedText) -> Iterator[Problem]:
    """Report the problems with one variable of `env`."""
    context = of.loop.context if each.state is None else of.context_of(each.state)
    try:
        refusals = check_variable(str(each.path[-1]), each.text, context)
    except (Unresolved, TemplateError):  # reported by the other checks
        return
    for refusal in refusals:
        span = (refusal.reference.start, refusal.reference.end)
        yield of.inside("LL407", refusal.message, each, span, refusal.help)


def check_variables_in_code(of: Inspection) -> Iterator[Problem]:
    """Warn about variables with data that a script uses where the shell evaluates them."""
    characters, reported = 0, set[Path]()
    for name in of.actions:
        state = of.loop.states[name]
        action = LocatedText(state.action or "", ("states", name, "action"), name)
        if not is_script(of, action) or not isinstance(of.filled(name, action.text), tuple):
            continue
        texts = _environment(of, name, action.text)
        held = {variable: _data_in(of, name, texts[variable]) for variable in texts}
        known = {variable: reference for variable, reference in held.items() if reference}
        characters += len(action.text) if known else 0
        if known and characters > MOST_LEXED:
            of.stop_at(MOST_LEXED, LEXED)
        elif known:
            shell = state.shell or of.loop.shell
            refusals = check_held(action.text, known, of.context_of(name), shell)
            for variable, refusal in refusals.items():
                each, span = texts[variable], (known[variable].start, known[variable].end)
                if each.path not in reported:
                    reported.add(each.path)
                    yield of.inside("LL312", refusal.message, each, span, refusal.help, "warning")


def _environment(of: Inspection, name: str, script: str) -> Mapping[str, LocatedText]:
    """Return the variables of a state's environment that its script names, with their values."""
    loop, state, at = of.loop, of.loop.states[name], ("states", name)
    own = {f"LL_CONTEXT_{key.upper()}": key for key in state.context}
    if not (own or state.env or loop.env):
        return {}
    found = {}
    for variable in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", script, re.ASCII)):
        if variable in own and isinstance(state.context[own[variable]], str):
            path = (*at, "context", own[variable])
            found[variable] = LocatedText(state.context[own[variable]], path, name)
        elif variable in state.env:
            found[variable] = LocatedText(state.env[variable], (*at, "env", variable), name)
        elif variable in loop.env:
            found[variable] = LocatedText(loop.env[variable], ("env", variable))
    return found


def _data_in(of: Inspection, name: str, each: LocatedText) -> Reference | None:
    """Return the first reference to data in a text; None if there is none."""
    filled = of.filled(name, each.text) if "${" in each.text else None
    for piece in filled if isinstance(filled, tuple) else ():
        if isinstance(piece, AuthorValue | Reference) and is_data(piece):
            return piece.reference if isinstance(piece, AuthorValue) else piece
    return None
