"""Check the texts of a state with the author's own values filled in.

Only then is it clear where data is in a script, and whether a value depends on another one that
this state does not have.

Not here: the rules for shell scripts (`templates.render`).
"""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.checks.check_values import circles, unreadable
from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.checks.references import covered
from little_loops.authoring.texts import LocatedText, templates
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
"""The limit for all shell text, at 3 µs per character; beyond it, only a run refuses."""
LEXED = "characters of shell scripts with values in them"


def check_filled(of: Inspection) -> Iterator[Problem]:
    """Report texts that cannot be filled in or become empty, and data in unsafe places of scripts."""
    lexed = 0
    sound = _variables_are_valid(of)
    for each in templates(of.loop):
        if each.state is None or "${" not in each.text:
            continue
        found = of.filled(each.state, each.text)
        if isinstance(found, Unresolved):
            yield from _undefined_in_state(of, each, found)
        elif isinstance(found, TemplateError) and sound and not of.read(each.text).errors:
            yield unreadable(of, "LL401", found, each)
        elif isinstance(found, tuple) and each.path[-1] in NEVER_EMPTY and _is_blank(found):
            message = f"`{each.path[-1]}` is empty once `context` is filled in"
            help = "give the variable a value, or the template a fallback: `${context.x:-…}`"
            yield of.inside("LL213", message, each, (0, 0), help)
        if is_script(of, each):
            script = each.text if isinstance(found, tuple) else _cover_errors(of, each)
            length = _to_lex(of, each, script)
            lexed += length
            if length and lexed > MOST_LEXED:
                of.stop_at(MOST_LEXED, LEXED)
            elif length:
                yield from _check_shell(of, each, script)


def _is_blank(pieces: tuple[Spliced, ...]) -> bool:
    return all(isinstance(piece, str) and not piece.strip() for piece in pieces)


def _to_lex(of: Inspection, each: LocatedText, script: str) -> int:
    """Return the length of a script that must be parsed; 0 if it contains no data or escapes."""
    found = of.filled(str(each.state), script)
    if not isinstance(found, tuple) or not any(map(_needs_parsing, found)):
        return 0
    return sum(len(written(piece)) for piece in found)


def _cover_errors(of: Inspection, each: LocatedText) -> str:
    """Return the text with invalid references replaced by letters, to check the others.

    Empty if the text may have been meant as a slash command.
    """
    found = of.read(each.text)
    wrong = [(error.start, error.end) for error in found.errors]
    wrong += [(one.start, one.end) for one in found.references if _is_undefined(of, each, one)]
    first = len(each.text) - len(each.text.lstrip())
    if any(start == first for start, _ in wrong):
        return ""  # it may be a slash command, which no shell runs
    return covered(each.text, wrong)


def _is_undefined(of: Inspection, each: LocatedText, reference: Reference) -> bool:
    """Return whether a reference is to a `context` value that does not exist."""
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


def _variables_are_valid(of: Inspection) -> bool:
    """Return whether the loop's variables can be parsed and have no circular references."""
    readable = all(not of.read(each.text).errors for each in of.variables)
    return readable and not any(circles(of.refers_to))


def is_script(of: Inspection, each: LocatedText) -> bool:
    """Return whether a text is a shell action, unless a gap makes that uncertain."""
    name = str(each.state)
    if each.path[2:] != ("action",) or not is_shells(of.actions[name]):
        return False
    return not (of.gaps.in_loop("shell") or of.gaps.in_state(name, "shell", "action_type"))


def _needs_parsing(piece: Spliced) -> bool:
    """Return whether a piece's handling depends on its place in the script."""
    return isinstance(piece, AuthorValue | Escape) or is_data(piece)


def _check_shell(of: Inspection, each: LocatedText, script: str) -> Iterator[Problem]:
    """Report values in unsafe places of a script."""
    name = str(each.state)
    shell = of.loop.states[name].shell or of.loop.shell
    for refusal in check_shell(script, of.context_of(name), shell):
        span = (refusal.reference.start, refusal.reference.end)
        if not refusal.warning:
            yield of.inside("LL407", refusal.message, each, span, refusal.help)
        else:
            code = "LL307" if getattr(refusal.reference, "modifier", None) == "raw" else "LL312"
            yield of.inside(code, refusal.message, each, span, refusal.help, "warning")


def _undefined_in_state(
    of: Inspection, each: LocatedText, problem: Unresolved
) -> Iterator[Problem]:
    """Report a loop variable that refers to a variable which only other states have."""
    key = problem.name.split(".")[1]
    own = {reference.path[0] for reference in of.read(each.text).references}
    if key in of.all_context and key not in own:
        message = (
            f"`context` has no `{key}` in state `{each.state}`, but a value used here refers to it"
        )
        yield of.inside("LL403", message, each, (0, 0), "add it to the loop's `context`")
