"""What a person needs to answer a gate: what it asks, what has changed, and which checks passed.

Not here: the rest of a run's page (`terminal.status_page`), answering (`answering`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from little_loops.errors import LittleLoopsError
from little_loops.fsm.events import ActionComplete, CheckResult, Entry, Tree
from little_loops.fsm.schema import PASS, FSMLoop, StateConfig
from little_loops.receipts.run_trees import trees_of
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.reporting.lines import changed_text, output_of
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunDetail, RunView
from little_loops.terminal.tables import Style

MOST_ASKED = 20
MOST_DIFF = 60


class Told(NamedTuple):
    """What the log of a run has about its gate."""

    asks: str
    trees: tuple[Tree, ...]
    checks: tuple[CheckResult, ...]


def gate_lines(runs: Runs, detail: RunDetail, style: Style) -> list[str]:
    """Return the lines about the gate that a run waits at: question, changes, checks, choices.

    Empty if the run's state or its loop is not known.
    """
    view, machine = detail.view, detail.machine
    gate = _gate_of(view, machine)
    if gate is None or view.summary is None:
        return []
    told = _read(runs.events(view), view.summary.current_state)
    return [
        *_asked(told.asks, style),
        *_changes(view, told.trees, style),
        *_checks(told, style),
        *_choices(view.name, gate),
    ]


def _gate_of(view: RunView, machine: FSMLoop | None) -> StateConfig | None:
    if machine is None or view.summary is None:
        return None
    return machine.states.get(view.summary.current_state)


def _read(entries: Iterable[Entry], gate: str) -> Told:
    """Collect the gate's question, the trees and the check results from the log."""
    asks, trees, checks = "", [], {}
    for entry in entries:
        match entry.event:
            case ActionComplete(state=state, result=result) if state == gate:
                asks = output_of(result)
            case Tree() as tree:
                trees.append(tree)
            case CheckResult() as check:
                checks[check.state] = check
            case _:
                pass
    return Told(asks, tuple(trees), tuple(checks.values()))


def _asked(text: str, style: Style) -> Iterator[str]:
    """Yield the end of the gate's question."""
    lines = text.rstrip().splitlines()
    if not lines:
        return
    yield "The gate asks:"
    if len(lines) > MOST_ASKED:
        yield f"  {style.signs.more}"
    for line in lines[-MOST_ASKED:]:
        yield f"  {visible(line, newlines=False)}".rstrip()


def _changes(view: RunView, trees: tuple[Tree, ...], style: Style) -> Iterator[str]:
    """Yield the lines about what changed between the first and the last snapshot."""
    if not trees:
        return
    first, last = trees[0], trees[-1]
    if first.project == last.project:
        yield "Changed since the start: nothing"
        return
    total = f" {changed_text(last.compared[0])}" if last.compared else ""
    yield f"Changed since the start:{visible(total, newlines=False)}"
    try:
        text = trees_of(view.files, os.environ).store.diff(first.project, last.project)
    except LittleLoopsError as error:
        yield f"  the diff cannot be read: {visible(error.message, newlines=False)}"
        return
    lines = text.decode("utf-8", "replace").splitlines()
    for line in lines[:MOST_DIFF]:
        yield f"  {visible(line, newlines=False)}".rstrip()
    if len(lines) > MOST_DIFF:
        yield f"  {style.signs.more} {len(lines) - MOST_DIFF} more lines: ll-loop diff {view.name}"


def _checks(told: Told, style: Style) -> Iterator[str]:
    """Yield each check's latest verdict, and whether the files are still the ones it judged."""
    if not told.checks:
        return
    now = told.trees[-1].id if told.trees else ""
    yield "Checks:"
    for check in told.checks:
        sign = style.signs.good if check.verdict == PASS else style.signs.bad
        changed = "" if check.after == now else ", and the files have changed since"
        reason = visible(check.reason, newlines=False)
        yield f"  {sign} {check.state}: {reason} (tree {check.after[:6]}{changed})"


def _choices(name: str, gate: StateConfig) -> Iterator[str]:
    if gate.choices:
        yield f"Choices: ll-loop approve {name} --to {'|'.join(gate.choices)}"
