"""List the loops of a project as a table: from their files, and from runs without a file.

A source and its compiled form are one loop. Any other two files with the same name are both listed,
with the conflict: neither can be run by that name.
"""

from __future__ import annotations

from collections.abc import Iterable

from little_loops.definitions.loop_entries import LoopEntry, entry_of, resolve_duplicates
from little_loops.light_typing import Any
from little_loops.reporting.escape import visible
from little_loops.runs.project import loop_files
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunView, as_json
from little_loops.terminal.durations import ago, compact, moment
from little_loops.terminal.summaries import signed, since, word_of
from little_loops.terminal.tables import Column, Style, table

COLUMNS = (
    Column("NAME", least=30),
    Column("PARADIGM", leaves=2),
    Column("LAST RUN", least=22),
    Column("DESCRIPTION", least=24, leaves=1),
)


def loops_of(root: str) -> list[LoopEntry]:
    """Return every loop with its last run, sorted by name.

    There is one more entry for each further run (`NAME@ID`), and for each run whose file is gone.
    """
    from_files = resolve_duplicates([entry_of(path) for path in loop_files(root)])
    runs = _runs_by_loop(Runs(root), {entry.name for entry in from_files})
    entries = []
    for entry in from_files:
        mine = runs.pop(entry.name, [])
        entries.append(entry._replace(last=mine[0] if mine else None))
        entries += [_more(entry, one) for one in mine[1:]]
    entries += [LoopEntry(one.name, last=one) for rest in runs.values() for one in rest]
    return sorted(entries, key=lambda entry: entry.name)


# ── runs ───────────────────────────────────────────────────────────────────────────────────────


def _runs_by_loop(runs: Runs, loops: set[str]) -> dict[str, list[RunView]]:
    """Return the runs to list for each loop: the newest, then others that are unfinished.

    For a loop without a file, all runs are listed.
    """
    current = {view.name: view for view in runs.list()}
    by_loop: dict[str, list[RunView]] = {}
    for name in sorted({*runs.past_names(), *current}):
        view = current.get(name) or runs.view(name)
        if view is not None:
            by_loop.setdefault(name.partition("@")[0], []).append(view)
    for loop, mine in by_loop.items():
        mine.sort(key=_importance, reverse=True)
        if loop in loops:
            by_loop[loop] = [mine[0], *(view for view in mine[1:] if view.files.stem is None)]
    return by_loop


def _importance(view: RunView) -> tuple[bool, int]:
    return view.is_alive, view.updated_ms


def _more(entry: LoopEntry, view: RunView) -> LoopEntry:
    return LoopEntry(view.name, entry.path, entry.paradigm, last=view)


# ── shown ──────────────────────────────────────────────────────────────────────────────────────


def lines(entries: Iterable[LoopEntry], style: Style, now: int, verbose: int = 0) -> list[str]:
    return table(COLUMNS, [_row(entry, style, now, verbose) for entry in entries], style)


def first_fix(entries: Iterable[LoopEntry]) -> str | None:
    """Return the command that shows what is wrong with a loop or several; else None."""
    wrong = [entry.fix for entry in entries if entry.wrong and entry.fix.startswith("ll-loop ")]
    return wrong[0] if len(wrong) == 1 else "ll-loop validate" if wrong else None


def _row(entry: LoopEntry, style: Style, now: int, verbose: int) -> list[str]:
    """Return the cells of an entry."""
    paradigm = visible(entry.paradigm) if entry.paradigm else style.signs.none
    last, about = _last(entry, style, now, verbose), visible(entry.description, newlines=False)
    if entry.wrong is not None:
        complaint = visible(f"{style.signs.bad} {entry.wrong}", newlines=False)
        fix = visible(entry.fix, newlines=False)
        if entry.last is not None and entry.last.is_alive:
            about = f"{complaint}: {fix}"
        else:
            last, about = complaint, fix
    elif entry.path is None:
        has_file = entry.last is None or entry.last.has_file
        about = "its file no longer exists" if has_file else "(no file)"
    return [visible(entry.name), paradigm, last, about]


def _last(entry: LoopEntry, style: Style, now: int, verbose: int) -> str:
    """Describe the last run of an entry."""
    view = entry.last
    if view is None:
        return style.signs.none
    run = view.summary
    if run is None:
        return signed(view, word_of(view), style)
    if view.status == "running":
        state = visible(run.current_state, newlines=False)
        return signed(view, f"{since(view, now)}, {state}", style)
    when = moment(view.updated_ms) if verbose else ago(view.updated_ms, now)
    if view.status in ("completed", "failed") and word_of(view) != "limit":
        summary = f"{when}, {run.iteration} it, {compact(run.ran_ms)}"
    else:
        summary = f"{word_of(view)} {when}"
    return signed(view, summary, style)


def document(entries: Iterable[LoopEntry], runs: Runs, now: int) -> dict[str, Any]:
    """Return the entries as JSON data; `valid` is null for a run whose file is gone."""
    return {
        "loops": [
            {
                "name": entry.name,
                "file": entry.path,
                "paradigm": entry.paradigm,
                "description": entry.description,
                "valid": None if entry.path is None else entry.wrong is None,
                "errors": entry.errors,
                "warnings": entry.warnings,
                "problem": entry.wrong,
                "last_run": None
                if entry.last is None
                else as_json(entry.last, runs.texts(entry.last), now),
            }
            for entry in entries
        ]
    }
