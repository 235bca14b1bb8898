"""One run: how it stands, its children, its machine, its events, and files to download."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    Entry,
    LoopComplete,
    StateEnter,
    TransitionTaken,
    Tree,
)
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.step_trees import latest_tree, project_before
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.receipts.gathering import make_receipt
from little_loops.reporting.escape import visible
from little_loops.reporting.masking import Masker
from little_loops.runs import refusals
from little_loops.runs.answers import quoted_answer
from little_loops.runs.follow import open_events
from little_loops.runs.layout import RULES
from little_loops.runs.refusals import Refusal
from little_loops.runs.scanning import Counts, counts_of, first_events
from little_loops.runs.view import RunDetail, RunView
from little_loops.sharing.run_record import open_record
from little_loops.templates.splice import as_text
from little_loops.terminal.markdown_report import markdown_report
from little_loops.terminal.summaries import final_line, next_steps
from little_loops.web.commands import command_name, output_of
from little_loops.web.errors import LoopNotRecorded, bad_request
from little_loops.web.graph import machine_json
from little_loops.web.keys import run_key
from little_loops.web.questions import Download, Query, Question
from little_loops.web.rows import limits, row

if TYPE_CHECKING:
    from little_loops.web.site import FoundRun, Project, Site

RECENT = 200
"""How many of the last events are read to tell what a run is doing."""
FURTHER = 5000
"""The same, for a step in which an agent's turn or many branches have recorded more events than that."""
SNAPSHOTS = ("tree", "forked")
"""The kinds of events that record what the files were before a run."""
KEPT_COUNTS = 8
EVENTS_AT_ONCE = 500
MOST_EVENTS = 2000


def questions() -> list[Question]:
    counts = CountCache()
    return [
        Question("/api/runs/{run}", run_detail),
        Question("/api/runs/{run}/children", children),
        Question("/api/runs/{run}/machine", counts.run_machine),
        Question("/api/runs/{run}/events", events),
        Question("/api/runs/{run}/receipt", receipt),
        Question("/api/runs/{run}/report", report),
    ]


def is_newest(found: FoundRun) -> bool:
    """Return whether no later run has the name of this one."""
    project, view = found
    if view.files.stem is None:
        return True
    current = project.runs.view(view.root_name)
    if view.status == "queued" or current is None:
        return True
    return current.files.stem == view.files.stem


def run_row(
    site: Site, found: FoundRun, machine: FSMLoop | None = None, untouched: Refusal | None = None
) -> dict[str, Any]:
    project, view = found
    newest = is_newest(found)
    return row(
        site.policy, project, view, machine, is_newest=newest, in_list=False, untouched=untouched
    )


def why_untouched(project: Project, view: RunView, entries: Sequence[Entry]) -> Refusal | None:
    """Return why there is nothing to undo in a run; None if there may be something. `entries` are
    its last events."""
    if view.is_alive or view.summary is None or project.runs.has_children(view):
        return None  # what its children changed is in their logs
    first = first_events(view.files, SNAPSHOTS)
    if view.summary.fork is not None and not first.is_all:
        return None  # its own events come after those that were copied
    before = project_before(first.entries)
    latest = latest_tree(entries)
    if before is None and first.is_all:
        has_rules = os.path.exists(os.path.join(view.files.data, RULES))
        found = refusals.before_snapshots if has_rules else refusals.without_snapshots
        return found(view.name)
    if latest.tree is not None and latest.is_current and latest.tree.project == before:
        return refusals.nothing_changed(view.name)
    return None


def run_detail(site: Site, query: Query) -> Mapping[str, Any]:
    """Return everything about a run that fits on one screen."""
    found = site.run(query.path["run"])
    project, view = found
    entries = recent_events(project, view)
    last = entries[-1] if entries else None
    detail = _detail(project, view)
    machine, summary = detail.machine, view.summary
    texts = project.runs.texts(view, entries)
    return {
        "schema": 1,
        "run": run_row(site, found, machine, why_untouched(project, view, entries)),
        "final_line": None if view.is_alive else final_line(view, last),
        "next_commands": next_steps(view),
        "scope": list(summary.scope) if summary else [],
        "context": _context(project, view),
        "limits": _no_limits() if machine is None else limits(view, machine),
        **_loop_of(project, view),
        "continuation": texts.continuation,
        **_gate(project, view, machine, texts.error),
        "worktree": detail.worktree,
        "session_pid": detail.session.pid if detail.session else None,
        "evidence": _evidence(last),
        "steps": last_step(entries),
        "has_diff": any(isinstance(entry.event, Tree) for entry in entries),
        "first_ms": view.started_ms or None,
        "last_ms": last.wall_ms if last else None,
        "last_seq": last.seq if last else 0,
        "action": _action(view, entries, detail.last_output_ms),
        "forks": [row(site.policy, project, each) for each in project.runs.forks(view)],
        "parent": _parent(project, view),
    }


def recent_events(project: Project, view: RunView) -> list[Entry]:
    """Return the last events of a run, with the one that entered its current state if possible; a
    new run that is queued has none."""
    if view.is_blank:
        return []
    entries = list(project.runs.last_events(view, RECENT))
    if last_step(entries) == 0 and len(entries) == RECENT:
        entries = list(project.runs.last_events(view, FURTHER))
    return entries


def last_step(entries: list[Entry]) -> int:
    """Return the number of the last step that was entered; 0 if none of the events entered one."""
    for entry in reversed(entries):
        if isinstance(entry.event, StateEnter):
            return entry.event.step
    return 0


def _detail(project: Project, view: RunView) -> RunDetail:
    """Return what the other files of a run say; of a past run or a child only its machine."""
    if view.files.stem is None and not view.path and view.status != "queued":
        found = project.runs.detail(view.name, 1)
        if found is not None and found.view.files == view.files:
            return found
    return RunDetail(view, machine=project.runs.machine(view))


def _context(project: Project, view: RunView) -> list[dict[str, str]]:
    """Return the variables that the run was started with, as they are put into its actions."""
    mask = Masker(os.environ).mask
    values = project.runs.context(view)
    return [{"name": name, "text": mask(visible(as_text(values[name])))} for name in values]


def _no_limits() -> dict[str, Any]:
    names = ("max_iterations", "timeout_s", "max_cost_usd", "max_tokens", "max_continuations")
    return dict.fromkeys(names)


def _loop_of(project: Project, view: RunView) -> dict[str, Any]:
    """Return the file of a run's loop, if it still exists."""
    for entry in project.loops.entries():
        if entry.name == view.loop and entry.path is not None:
            file = os.path.relpath(entry.path, project.root)
            return {"file": file, "loop_key": project.loop_key(entry.path)}
    return {"file": None, "loop_key": None}


def _gate(
    project: Project, view: RunView, machine: FSMLoop | None, message: str | None
) -> dict[str, Any]:
    """Return what the gate that a run waits at says, and where it can lead; if it has been answered
    already, what remains to be done."""
    if (answer := project.runs.answer(view)) is not None:
        text = f"it was {visible(quoted_answer(answer))}, but has not continued yet; resume it"
        return {"gate_message": text, "gate_choices": []}
    state = None
    if machine is not None and view.summary is not None and view.status == "needs_review":
        state = machine.states.get(view.summary.current_state)
    if state is None:
        return {"gate_message": None, "gate_choices": []}
    return {"gate_message": message, "gate_choices": list(state.choices)}


def _evidence(last: Entry | None) -> str | None:
    event = None if last is None else last.event
    return event.evidence if isinstance(event, LoopComplete) else None


def _action(
    view: RunView, entries: list[Entry], last_output_ms: int | None
) -> dict[str, Any] | None:
    """Return the action that is running; None if none is."""
    if view.status != "running":
        return None
    for entry in reversed(entries):
        match entry.event:
            case ActionStart() as start:
                return {
                    "state": start.state,
                    "step": last_step(entries),
                    "attempt": start.attempt,
                    "text": visible(start.label or start.action),
                    "started_ms": entry.wall_ms,
                    "last_output_ms": last_output_ms,
                }
            case ActionComplete() | ActionInterrupted():
                return None
            case _:
                continue
    return None


def _parent(project: Project, view: RunView) -> dict[str, Any] | None:
    """Return the run that has started this one."""
    if not view.path:
        return None
    above = view.name.rpartition("/")[0]
    files = view.files._replace(below=())
    return {"key": run_key(project.key, files, above.partition("/")[2]), "name": above}


def children(site: Site, query: Query) -> Mapping[str, Any]:
    """Return the runs that a run has started."""
    found = site.run(query.path["run"])
    return {"schema": 1, "runs": child_rows(site, found)}


def child_rows(site: Site, found: FoundRun) -> list[dict[str, Any]]:
    project, view = found
    if not project.runs.has_children(view):
        return []
    views = project.runs.children_of(view)
    return [row(site.policy, project, each) for each in views]


class CountCache:
    """How often the states and edges of some runs were used, so that only new events are counted."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Counts] = {}

    def run_machine(self, site: Site, query: Query) -> Mapping[str, Any]:
        """Return the machine of a run, with how often it was used, and the current state."""
        project, view = site.run(query.path["run"])
        machine = project.runs.machine(view)
        if machine is None and view.is_blank:
            return {"schema": 1, "machine": None, "counted_seq": 0}
        if machine is None:
            raise LoopNotRecorded(view.name)
        counts = self._counts(view)
        entries = recent_events(project, view)
        last = {
            (entry.event.from_, entry.event.to): entry.seq
            for entry in entries
            if isinstance(entry.event, TransitionTaken)
        }
        current = view.summary.current_state if view.summary else None
        return {
            "schema": 1,
            "machine": machine_json(machine, counts.visits, counts.taken, current, last),
            "counted_seq": entries[-1].seq if entries else 0,
        }

    def _counts(self, view: RunView) -> Counts:
        place = (view.files.root, view.summary.run if view.summary else "", view.name)
        found = counts_of(view.files, self._kept.pop(place, None))
        self._kept[place] = found
        while len(self._kept) > KEPT_COUNTS:
            self._kept.pop(next(iter(self._kept)))
        return found


def events(site: Site, query: Query) -> Mapping[str, Any]:
    """Return events after a number, as they are in the log."""
    project, view = site.run(query.path["run"])
    after, limit = query.number("after", 0), query.number("limit", EVENTS_AT_ONCE, MOST_EVENTS)
    if after < 0 or limit < 1:
        raise bad_request("`after` and `limit` must not be negative")
    found: list[Mapping[str, Any]] = []
    last = after
    with open_events(project.runs, view)[1] as log:
        log.skip(after)
        for seq, record in log.numbered():
            if seq > after:
                if len(found) == limit:
                    return {"schema": 1, "events": found, "next": last, "more": True}
                found.append(record)
                last = seq
    return {"schema": 1, "events": found, "next": last, "more": False}


# ── downloads ──────────────────────────────────────────────────────────────────────────────────


def receipt(site: Site, query: Query) -> Download:
    project, view = site.run(query.path["run"])
    data = make_receipt(project.runs, view, site.environ)
    return Download(f"{_file_name(view)}.receipt.json", "application/json", data)


def report(site: Site, query: Query) -> Download:
    """Return a report about a run: as a page, or as Markdown."""
    project, view = site.run(query.path["run"])
    form = query.query.get("format", "html")
    if form not in ("html", "markdown"):
        raise bad_request("`format` must be `html` or `markdown`")
    if form == "html":
        data = output_of(project, "report", *command_name(view))
        return Download(f"{_file_name(view)}.html", "text/html; charset=utf-8", data)
    with open_record(project.runs, view, site.environ) as record:
        data = markdown_report(record).encode("utf-8", "replace")
    return Download(f"{_file_name(view)}.md", "text/markdown; charset=utf-8", data)


def _file_name(view: RunView) -> str:
    """Return the name of a file about a run."""
    stem = "" if view.files.stem is None else f"-{view.files.stem}"
    kept = (c if c.isalnum() or c in "._-" else "-" for c in f"{view.name}{stem}")
    return "".join(kept)
