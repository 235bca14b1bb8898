"""Check what the texts of a state become once the author's own values are put in.

Only then can be said where data stands in a script, and only there does it show when a value needs
another one that this state does not have.

Not here: the shell rule itself (`fsm.interpolation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from little_loops.authoring.check_values import circles, read, refers_to, unreadable
from little_loops.authoring.inspection import Inspection
from little_loops.authoring.texts import Text, templates, values
from little_loops.errors import Problem
from little_loops.fsm.interpolation import (
    Escape,
    TemplateError,
    Unresolved,
    check_shell,
)
from little_loops.fsm.splicing import Own, Spliced, is_data, written

MOST_LEXED = 150_000
"""Characters of shell text in all: the lexer takes 3 µs for one.  A run refuses what is beyond."""


def check_filled(of: Inspection) -> Iterator[Problem]:
    """What the texts of a state become, and whether a shell may have the data in them."""
    lexed = 0
    sound = _is_sound(of.loop.context)
    for each in templates(of.loop):
        if each.state is None or "${" not in each.text:
            continue
        found = of.filled(each.state, each.text)
        if isinstance(found, Unresolved):
            yield from _not_here(of, each, found)
        elif isinstance(found, TemplateError):
            if sound and not read(each.text).errors:
                yield unreadable(of, "LL401", found, each)
        elif found is not None and _is_script(of, each) and any(map(_is_delicate, found)):
            lexed += sum(len(written(piece)) for piece in found)
            if lexed <= MOST_LEXED:
                yield from _shell(of, each, each.state)


def _is_sound(context: Mapping[str, Any]) -> bool:
    """Nothing is wrong with the loop's variables themselves."""
    readable = all(not read(each.text).errors for each in values(context, ()))
    return readable and not any(circles(refers_to(context)))


def _is_script(of: Inspection, each: Text) -> bool:
    return each.path[2:] == ("action",) and of.kinds[str(each.state)] == "shell"


def _is_delicate(piece: Spliced) -> bool:
    return isinstance(piece, Own | Escape) or is_data(piece)


def _shell(of: Inspection, each: Text, name: str) -> Iterator[Problem]:
    shell = of.loop.states[name].shell or of.loop.shell
    for refusal in check_shell(each.text, of.context_of(name), shell):
        snippet = each.text[refusal.reference.start : refusal.reference.end]
        if not refusal.warning:
            yield of.inside("LL407", refusal.message, each, snippet, refusal.help)
        else:
            code = "LL307" if getattr(refusal.reference, "modifier", None) == "raw" else "LL312"
            yield of.inside(code, refusal.message, each, snippet, refusal.help, "warning")


def _not_here(of: Inspection, each: Text, problem: Unresolved) -> Iterator[Problem]:
    """A variable of the loop's refers to one that only other states have."""
    key = problem.name.split(".")[1]
    own = {reference.path[0] for reference in read(each.text).references}
    if key in of.all_context and key not in own:
        message = (
            f"`context` has no `{key}` in state `{each.state}`, and a value used here needs it"
        )
        yield of.inside("LL403", message, each, "", "add it to the loop's `context`")
