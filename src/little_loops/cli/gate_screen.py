"""What a person needs to answer a gate: what it asks, what has changed, and which checks passed.

Not here: the rest of a run's page (`terminal.status_page`), answering (`answering`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from little_loops.errors import LittleLoopsError
from little_loops.fsm.events import ActionComplete, CheckResult, Entry, Tree
from little_loops.fsm.gates import open_gate
from little_loops.fsm.schema import PASS
from little_loops.fsm.state import Answer, Changed
from little_loops.light_typing import Any
from little_loops.receipts.run_trees import trees_of
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.reporting.lines import changed_text, output_of
from little_loops.runs.answers import quoted_answer
from little_loops.runs.reading import Runs
from little_loops.runs.view import RunDetail, RunView
from little_loops.terminal.tables import Style

MOST_ASKED = 20
MOST_DIFF = 60


class GateView(NamedTuple):
    """The gate that a run waits at, and what its log has about it.

    `answer` is stored and not used yet: its run has not been resumed.
    """

    seq: int
    state: str
    choices: tuple[str, ...]
    asks: str
    trees: tuple[Tree, ...]
    checks: tuple[CheckResult, ...]
    answer: Answer | None


def gate_of(runs: Runs, detail: RunDetail) -> GateView | None:
    """Return the gate that a run waits at; None if it waits at none, or its loop is not known."""
    view, machine = detail.view, detail.machine
    if machine is None or view.summary is None:
        return None
    seq, state = open_gate(view.summary), machine.states.get(view.summary.current_state)
    if seq is None or state is None:
        return None
    name = view.summary.current_state
    told = _read(runs.events(view), name)
    return GateView(seq, name, state.choices, *told, runs.answer(view))


# ── for programs ───────────────────────────────────────────────────────────────────────────────


def gate_document(gate: GateView) -> dict[str, Any]:
    """Return the gate as JSON data."""
    first, last = (gate.trees[0], gate.trees[-1]) if gate.trees else (None, None)
    compared = Changed() if last is None or first is last or not last.compared else last.compared[0]
    answer = gate.answer
    return {
        "state": gate.state,
        "seq": gate.seq,
        "asks": gate.asks,
        "choices": list(gate.choices),
        "changed": None if last is None else compared._asdict(),
        "checks": [_check_document(check, last) for check in gate.checks],
        "answer": None if answer is None else {**answer._asdict(), "gate": gate.seq},
    }


def _check_document(check: CheckResult, last: Tree | None) -> dict[str, Any]:
    """Return the latest verdict of a check; `is_current` if the files have not changed since."""
    return {
        "state": check.state,
        "verdict": check.verdict,
        "reason": check.reason,
        "tree": check.after,
        "is_current": last is not None and check.after == last.id,
    }


# ── for people ─────────────────────────────────────────────────────────────────────────────────


def gate_lines(gate: GateView, view: RunView, style: Style) -> list[str]:
    """Return the lines about a gate: question, changes, checks, choices, and its answer."""
    return [
        *_asked(gate.asks, style),
        *_changes(view, gate.trees, style),
        *_checks(gate, style),
        *_choices(view.name, gate),
        *_answered(gate.answer),
    ]


def _read(
    entries: Iterable[Entry], gate: str
) -> tuple[str, tuple[Tree, ...], tuple[CheckResult, ...]]:
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
    return asks, tuple(trees), tuple(checks.values())


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


def _checks(gate: GateView, style: Style) -> Iterator[str]:
    """Yield each check's latest verdict, and whether the files are still the ones it judged."""
    if not gate.checks:
        return
    now = gate.trees[-1].id if gate.trees else ""
    yield "Checks:"
    for check in gate.checks:
        sign = style.signs.good if check.verdict == PASS else style.signs.bad
        changed = "" if check.after == now else ", and the files have changed since"
        reason = visible(check.reason, newlines=False)
        yield f"  {sign} {check.state}: {reason} (tree {check.after[:6]}{changed})"


def _choices(name: str, gate: GateView) -> Iterator[str]:
    if gate.choices:
        yield f"Choices: ll-loop approve {name} --to {'|'.join(gate.choices)}"


def _answered(answer: Answer | None) -> Iterator[str]:
    if answer is not None:
        yield f"Answer: {visible(quoted_answer(answer), newlines=False)}"
