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


def validate(definition: str | FSMLoop) -> list[Problem]:
    """Every problem of a loop file's text, or of a machine made by a program."""
    if isinstance(definition, FSMLoop):
        return list(load_data(definition.to_dict(), definition.name).problems)
    return list(load(definition, "", "loop").problems)
