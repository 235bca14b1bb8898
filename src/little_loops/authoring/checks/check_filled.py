"""Check what the texts of a state become once the author's own values are put in.

Only then can be said where data stands in a script, and only there does it show when a value needs
another one that this state does not have.

Not here: the shell rule itself (`templates.render`).
"""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.checks.check_values import circles, unreadable
from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.checks.references import covered
from little_loops.authoring.texts import Text, templates
from little_loops.errors import Problem
from little_loops.fsm.actions import is_shells
from little_loops.templates.render import (
    Escape,
    Reference,
    TemplateError,
    Unresolved,
    check_shell,
)
from little_loops.templates.splice import AuthorValue, Spliced, is_data, value_at, written

NEVER_EMPTY = ("action", "source", "pattern", "path")
MOST_LEXED = 150_000
"""Characters of shell text in all: the lexer takes 3 µs for one.  A run refuses what is beyond."""
LEXED = "characters of shell scripts with values in them"


def check_filled(of: Inspection) -> Iterator[Problem]:
    """What the texts of a state become, and whether a shell may have the data in them."""
    lexed = 0
    sound = _is_sound(of)
    for each in templates(of.loop):
        if each.state is None or "${" not in each.text:
            continue
        found = of.filled(each.state, each.text)
        if isinstance(found, Unresolved):
            yield from _not_here(of, each, found)
        elif isinstance(found, TemplateError) and sound and not of.read(each.text).errors:
            yield unreadable(of, "LL401", found, each)
        elif isinstance(found, tuple) and each.path[-1] in NEVER_EMPTY and _is_blank(found):
            message = f"`{each.path[-1]}` is empty once `context` is filled in"
            help = "give the variable a value, or the template a fallback: `${context.x:-…}`"
            yield of.inside("LL213", message, each, (0, 0), help)
        if is_script(of, each):
            script = each.text if isinstance(found, tuple) else _without_mistakes(of, each)
            length = _to_lex(of, each, script)
            lexed += length
            if length and lexed > MOST_LEXED:
                of.stop_at(MOST_LEXED, LEXED)
            elif length:
                yield from _shell(of, each, script)


def _is_blank(pieces: tuple[Spliced, ...]) -> bool:
    return all(isinstance(piece, str) and not piece.strip() for piece in pieces)


def _to_lex(of: Inspection, each: Text, script: str) -> int:
    """How much of a script has to be read: nothing of one without anything delicate in it."""
    found = of.filled(str(each.state), script)
    if not isinstance(found, tuple) or not any(map(_is_delicate, found)):
        return 0
    return sum(len(written(piece)) for piece in found)


def _without_mistakes(of: Inspection, each: Text) -> str:
    """The text with a plain word for each reference that is a mistake, to look at the others."""
    found = of.read(each.text)
    wrong = [(error.start, error.end) for error in found.errors]
    wrong += [(one.start, one.end) for one in found.references if _leads_nowhere(of, each, one)]
    first = len(each.text) - len(each.text.lstrip())
    if any(start == first for start, _ in wrong):
        return ""  # perhaps it was a slash command, which no shell reads
    return covered(each.text, wrong)


def _leads_nowhere(of: Inspection, each: Text, reference: Reference) -> bool:
    if reference.namespace != "context" or reference.fallback is not None:
        return False
    context = of.context_of(str(each.state))
    if reference.path[0] not in context:
        return True
    try:
        value_at(context, reference.path, "context")
    except Unresolved:
        return True
    return False


def _is_sound(of: Inspection) -> bool:
    """Nothing is wrong with the loop's variables themselves."""
    readable = all(not of.read(each.text).errors for each in of.variables)
    return readable and not any(circles(of.refers_to))


def is_script(of: Inspection, each: Text) -> bool:
    """A text that a shell reads, as far as that can be said."""
    name = str(each.state)
    if each.path[2:] != ("action",) or not is_shells(of.actions[name]):
        return False
    return not (of.gaps.in_loop("shell") or of.gaps.in_state(name, "shell", "action_type"))


def _is_delicate(piece: Spliced) -> bool:
    return isinstance(piece, AuthorValue | Escape) or is_data(piece)


def _shell(of: Inspection, each: Text, script: str) -> Iterator[Problem]:
    name = str(each.state)
    shell = of.loop.states[name].shell or of.loop.shell
    for refusal in check_shell(script, of.context_of(name), shell):
        span = (refusal.reference.start, refusal.reference.end)
        if not refusal.warning:
            yield of.inside("LL407", refusal.message, each, span, refusal.help)
        else:
            code = "LL307" if getattr(refusal.reference, "modifier", None) == "raw" else "LL312"
            yield of.inside(code, refusal.message, each, span, refusal.help, "warning")


def _not_here(of: Inspection, each: Text, problem: Unresolved) -> Iterator[Problem]:
    """A variable of the loop's refers to one that only other states have."""
    key = problem.name.split(".")[1]
    own = {reference.path[0] for reference in of.read(each.text).references}
    if key in of.all_context and key not in own:
        message = (
            f"`context` has no `{key}` in state `{each.state}`, but a value used here refers to it"
        )
        yield of.inside("LL403", message, each, (0, 0), "add it to the loop's `context`")
