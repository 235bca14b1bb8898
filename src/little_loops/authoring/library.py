"""The library's two doors to authoring: compile a definition, check a definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from little_loops.authoring.load import load, load_data
from little_loops.errors import DefinitionError, Problem
from little_loops.fsm.schema import FSMLoop


def compile_paradigm(definition: Mapping[str, Any]) -> FSMLoop:
    """The machine a definition in any paradigm compiles to; raises `DefinitionError`."""
    read = load_data(definition, "loop")
    if read.loop is None:
        raise DefinitionError(read.problems)
    return read.loop


def checked(loop: FSMLoop) -> FSMLoop:
    """The machine, if its fields are of their kinds and its transitions lead somewhere.

    Raises `ValueError`.  What a value may do in a script is left to the action: an earlier version
    may have allowed more.
    """
    try:
        plain = loop.to_dict()
    except (AttributeError, TypeError) as error:  # made by hand, of something else
        raise ValueError(f"loop `{loop.name}` is not built from `StateConfig`: {error}") from error
    problems = load_data(plain, loop.name).problems
    wrong = [p for p in problems if p.severity == "error" and not p.code.startswith("LL4")]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise ValueError(f"loop `{loop.name}`: {wrong[0].message}{more}")
    return loop


def validate(definition: str | FSMLoop) -> list[Problem]:
    """Every problem of a loop file's text, or of a machine made by a program."""
    if isinstance(definition, FSMLoop):
        return list(load_data(definition.to_dict(), definition.name).problems)
    return list(load(definition, "", "loop").problems)
