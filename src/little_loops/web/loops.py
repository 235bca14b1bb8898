"""The loops of the projects: a list with the record of each, one loop, and its charts."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence

from little_loops.authoring.load import Definition
from little_loops.authoring.worst_case import worst_case
from little_loops.definitions.consent import actions_needing_consent
from little_loops.definitions.loading import load_variant, read_definition
from little_loops.definitions.loop_entries import LoopEntry
from little_loops.definitions.trust import trust_of
from little_loops.errors import LittleLoopsError, Problem
from little_loops.fsm.schema import FSMLoop
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.reporting.escape import visible
from little_loops.runs.history_index import PastRun
from little_loops.runs.view import RunView
from little_loops.system.plain_files import read_plain
from little_loops.terminal.history_table import median
from little_loops.web.abilities import can_edit, can_run
from little_loops.web.errors import ApiError, not_found
from little_loops.web.graph import machine_json
from little_loops.web.keys import loop_key, parse_loop
from little_loops.web.questions import Query, Question
from little_loops.web.rows import GROUPS, ending, group_of, row

if TYPE_CHECKING:
    from little_loops.web.site import Project, Site

STRIP = 20
COUNTED = 1000
CHARTED = 200
CURRENT = 3
"""How many of a loop's current runs to list; there may be hundreds."""
LARGEST = 1 << 20


def questions() -> list[Question]:
    return [
        Question("/api/loops", loops),
        Question("/api/loops/{loop}", loop_detail),
        Question("/api/loops/{loop}/charts", loop_charts),
    ]


def loops(site: Site, _: Query) -> Mapping[str, Any]:
    """Return all loops of all projects: those with files, and those of which only runs are left."""
    found = [each for project in site.projects for each in _rows(site, project)]
    return {"schema": 1, "loops": found}


def _rows(site: Site, project: Project) -> list[dict[str, Any]]:
    past, current = _by_loop(project)
    entries, loops = project.loops.entries(), project.loops.by_name()
    known = {entry.name for entry in entries}
    rest = sorted({*past, *current} - known)
    everything = [*entries, *(LoopEntry(name) for name in rest)]
    return [
        _row(site, project, entry, past.get(entry.name, ()), current.get(entry.name, ()), loops)
        for entry in sorted(everything, key=lambda entry: entry.name)
    ]


def _by_loop(
    project: Project,
) -> tuple[Mapping[str, Sequence[PastRun]], Mapping[str, Sequence[RunView]]]:
    """Return the past and the current runs of each loop, the newest first."""
    current: dict[str, list[RunView]] = {}
    for view in project.current():
        current.setdefault(view.loop, []).append(view)
    return project.past.gathered().of_loop, current


def _row(
    site: Site,
    project: Project,
    entry: LoopEntry,
    past: Sequence[PastRun],
    current: Sequence[RunView],
    loops: Mapping[str, LoopEntry],
) -> dict[str, Any]:
    """Return one loop with its record."""
    counted = past[:COUNTED]
    completed = sum(run.status == "completed" for run in counted)
    name = entry.name if entry.path is None else os.path.basename(entry.path)
    gone = "its file no longer exists" if entry.path is None else None
    wrong = None if entry.wrong is None else visible(entry.wrong, newlines=False)
    return {
        "key": loop_key(project.key, name),
        "project": project.key,
        "name": entry.name,
        "file": None if entry.path is None else os.path.relpath(entry.path, project.root),
        "paradigm": entry.paradigm,
        "description": visible(entry.description, newlines=False),
        "problem": wrong or gone,
        "fix": visible(entry.fix, newlines=False) or None,
        "errors": entry.errors,
        "warnings": entry.warnings,
        "endings": [ending(project, run) for run in reversed(past[:STRIP])],
        "runs": len(past),
        "completed": completed,
        "counted": len(counted),
        "success_rate": completed / len(counted) if counted else None,
        "median_duration_ms": median([run.ran_ms for run in counted]),
        "median_cost_usd": median([run.cost_usd for run in counted if run.cost_usd]),
        "median_iterations": median([run.iteration for run in counted]),
        "current": [row(site.policy, project, view, loops=loops) for view in _first(current)],
        "current_count": len(current),
        "can": [
            can_run(site.policy, wrong or gone, visible(entry.fix, newlines=False) or None),
            can_edit(site.policy),
        ],
    }


def _first(current: Sequence[RunView]) -> list[RunView]:
    """Return the current runs that a reader should see first."""
    return sorted(current, key=lambda view: (GROUPS.index(group_of(view)), -view.updated_ms))[
        :CURRENT
    ]


# ── one loop ───────────────────────────────────────────────────────────────────────────────────


def loop_detail(site: Site, query: Query) -> Mapping[str, Any]:
    """Return a loop with its definition, its problems, and the machine that it compiles to."""
    place = site.loop(query.path["loop"])
    project, path = place
    entry = next((each for each in project.loops.entries() if each.path == path), None)
    if entry is None:  # the compiled form of another file
        entry = LoopEntry(os.path.splitext(os.path.basename(path))[0], path)
    past, current = _by_loop(project)
    row_of_loop = _row(
        site,
        project,
        entry,
        past.get(entry.name, ()),
        current.get(entry.name, ()),
        project.loops.by_name(),
    )
    try:
        raw = read_plain(path, LARGEST + 1)
    except OSError as error:
        raise ApiError(500, "storage", f"cannot read `{path}`: {error.strerror}") from error
    definition = read_definition(path)
    machine = _machine(project, path)
    return {
        "schema": 1,
        "loop": row_of_loop,
        "source": _text(raw),
        "hash": hashlib.sha256(raw).hexdigest(),
        "problems": [problem_json(problem) for problem in definition.problems],
        "machine": None if machine is None else machine_json(machine),
        **_about(project, definition, machine),
    }


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _machine(project: Project, path: str) -> FSMLoop | None:
    """Return the machine with the project's settings; None if the file has errors."""
    try:
        return load_variant(path, project.root).loop
    except LittleLoopsError:
        return None


def _about(project: Project, definition: Definition, machine: FSMLoop | None) -> dict[str, Any]:
    """Return what is known of a loop without errors; empty for one with errors."""
    loop = machine or definition.loop
    if loop is None:
        return {"context": [], "limits": None, "scope": [], "worst_case": None, "consent": None}
    return {
        "context": [
            {"name": name, "value": value, "text": _as_text(value)}
            for name, value in loop.context.items()
        ],
        "limits": {
            "max_iterations": loop.max_iterations,
            "timeout_s": loop.timeout,
            "max_cost_usd": loop.max_cost_usd,
            "max_tokens": loop.max_tokens,
            "max_continuations": loop.max_continuations,
        },
        "scope": list(loop.scope),
        "worst_case": str(worst_case(loop)),
        "consent": _consent(project, loop),
    }


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _consent(project: Project, loop: FSMLoop) -> dict[str, Any] | None:
    """Return whether agents may skip permission prompts, if they would."""
    wanted = actions_needing_consent(loop, {}, project.root)
    if not wanted:
        return None
    trust = trust_of(project.root, os.environ)
    return {
        "given": trust.covers(wanted) or os.environ.get("LL_ALLOW_SKIP_PERMISSIONS") == "1",
        "command": f"ll-loop trust {loop.name}",
        "agents": sorted({action.host for action in wanted}),
    }


def problem_json(problem: Problem) -> dict[str, Any]:
    """Return a problem with its position."""
    place = problem.place
    return {
        "code": problem.code,
        "severity": problem.severity,
        "message": problem.message,
        "help": problem.help,
        "line": place and place.line,
        "column": place and place.column,
        "end_line": place and place.line,
        "end_column": place and place.column + place.length,
        "state": None,
    }


# ── charts ─────────────────────────────────────────────────────────────────────────────────────


def loop_charts(site: Site, query: Query) -> Mapping[str, Any]:
    """Return the past runs of a loop, for charts; its file may be gone."""
    key = parse_loop(query.path["loop"])
    if key is None:
        raise not_found("unknown_loop", f"there is no loop file `{query.path['loop']}`")
    project = site.project(key.project)
    names = [
        each.name
        for each in project.loops.entries()
        if each.path is not None and os.path.basename(each.path) == key.file
    ]
    name = names[0] if names else key.file
    runs = project.past.gathered().of_loop.get(name, ())
    if not names and not runs:
        raise not_found("unknown_loop", f"there is no loop named `{name}`, nor a run of it")
    shown = [ending(project, run) for run in runs[: query.number("last", CHARTED, 2000)]]
    counts = Counter((each["word"], each["tone"]) for each in shown)
    return {
        "schema": 1,
        "runs": shown[::-1],
        "endings": [
            {"word": word, "tone": tone, "count": count}
            for (word, tone), count in counts.most_common()
        ],
    }
