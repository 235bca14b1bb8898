"""The loops of a project as lists show them: from their files, with what is wrong with each.

A source and its compiled form are one loop. Any other two files with the same name are both listed,
with the conflict: neither can be run by that name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from little_loops.authoring.load import Definition
from little_loops.definitions.loading import COMPILED_MARK, read_definition, shown_path
from little_loops.errors import UsageError
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.reporting.lines import one_line
from little_loops.runs.project import is_loop_name
from little_loops.runs.view import RunView
from little_loops.system.plain_files import read_plain


class LoopEntry(NamedTuple):
    """A line of the list: a loop, with the problem of its file, if any, its last run, and the
    variables that its file has."""

    name: str
    path: str | None = None
    paradigm: str | None = None
    description: str = ""
    errors: int = 0
    warnings: int = 0
    wrong: str | None = None
    fix: str = ""
    last: RunView | None = None
    context: Mapping[str, Any] = {}


def entry_of(path: str) -> LoopEntry:
    """Return the entry for a loop file, with its problem if it is invalid."""
    stem = os.path.splitext(os.path.basename(path))[0]
    try:
        definition = read_definition(path)
    except UsageError as error:
        return LoopEntry(stem, path, wrong="unreadable", fix=error.message)
    errors = _count(definition, "error")
    loop = definition.loop
    if loop is None or errors:
        wrong = f"invalid ({_plural(errors, 'error')})"
        fix = f"ll-loop validate {stem}" if is_loop_name(stem) else "rename the file"
        return LoopEntry(stem, path, errors=errors, wrong=wrong, fix=fix)
    return LoopEntry(
        loop.name,
        path,
        loop.paradigm,
        one_line(loop.description or ""),
        warnings=_count(definition, "warning"),
        context=loop.context,
    )


def _count(definition: Definition, severity: str) -> int:
    return sum(problem.severity == severity for problem in definition.problems)


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def resolve_duplicates(entries: Sequence[LoopEntry]) -> list[LoopEntry]:
    """Merge a source with its compiled form, and mark other files with the same name as wrong."""
    kept = []
    for entry in entries:
        same = [each for each in entries if each.name == entry.name and not each.wrong]
        if entry.wrong or len(same) == 1:
            kept.append(entry)
            continue
        sources = [each for each in same if not _is_compiled(each.path)]
        if len(same) == 2 and len(sources) == 1:
            kept += [entry] if entry in sources else []
            continue
        others = [shown_path(each.path or "") for each in same if each.path != entry.path]
        wrong = f"same name as {' and '.join(others)}"
        kept.append(entry._replace(wrong=wrong, fix="give one of them another name"))
    return kept


def _is_compiled(path: str | None) -> bool:
    """Return whether a file is the output of `ll-loop compile`."""
    try:
        return read_plain(path or "", len(COMPILED_MARK)) == COMPILED_MARK
    except OSError:  # it was removed meanwhile
        return False
