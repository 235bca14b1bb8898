"""The library's two entry points to authoring: compile a definition, and validate it."""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.authoring.load import load, load_data
from little_loops.errors import DefinitionError, Problem
from little_loops.fsm.schema import FSMLoop
from little_loops.light_typing import Any


def compile_paradigm(definition: Mapping[str, Any]) -> FSMLoop:
    """Return the machine that a definition in any paradigm compiles to. Raises
    `DefinitionError`."""
    read = load_data(definition, "loop")
    if read.loop is None:
        raise DefinitionError(read.problems)
    return read.loop


def checked(loop: FSMLoop) -> FSMLoop:
    """Return the machine if its fields are valid and its transitions lead to states.

    Raises `ValueError`. Values in scripts are not checked here but when the action is run, because
    an earlier version may have allowed more.
    """
    try:
        plain = loop.to_dict()
    except (AttributeError, TypeError) as error:  # built by hand from other types
        raise ValueError(f"loop `{loop.name}` is not built from `StateConfig`: {error}") from error
    problems = load_data(plain, loop.name).problems
    wrong = [p for p in problems if p.severity == "error" and not p.code.startswith("LL4")]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ValueError(f"loop `{loop.name}`: {wrong[0].message}{more}")
    return loop


def validate(definition: str | FSMLoop) -> list[Problem]:
    """Return all problems of a loop file's text, or of a machine built by a program."""
    if isinstance(definition, FSMLoop):
        return list(load_data(definition.to_dict(), definition.name).problems)
    return list(load(definition, "", "loop").problems)
