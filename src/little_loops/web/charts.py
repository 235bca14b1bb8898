"""A run over time: a row for each state or branch, marks for what happened to it, and its charts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from little_loops.fsm.events import (
    AgentWait,
    ChildEnd,
    ChildStart,
    ConditionEval,
    Cost,
    Cycle,
    Entry,
    Event,
    FinalEvent,
    Forked,
    GateAnswered,
    HandoffDetected,
    HostWait,
    Iteration,
    KeepBest,
    LoopPaused,
    NoteReceived,
    Resume,
    RetryWait,
    RunWarning,
    StateEnter,
)
from little_loops.fsm.limit_kinds import BY_REASON
from little_loops.fsm.schema import Convergence, FSMLoop
from little_loops.fsm.state import Status
from little_loops.light_typing import TYPE_CHECKING, Any, assert_never
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.reporting.lines import last_line
from little_loops.runs.scanning import entries_of_kinds
from little_loops.runs.view import RunView
from little_loops.terminal.durations import now_ms
from little_loops.terminal.summaries import money
from little_loops.web.keys import run_key
from little_loops.web.kinds import MarkKind, Tone
from little_loops.web.questions import Query, Question
from little_loops.web.rows import queued_ms, tone_of
from little_loops.web.steps import Window, by_step, step_rows, window_of

if TYPE_CHECKING:
    from little_loops.web.site import Project, Site

REFERENCE = re.compile(r"\$\{context\.(\w+)\}")
STEPS = 500
MOST_STEPS = 2000
POINTS = 2000
CHARTED_BYTES = 64 << 20


def questions() -> list[Question]:
    return [
        Question("/api/runs/{run}/timeline", timeline),
        Question("/api/runs/{run}/charts", charts),
    ]


# ── the timeline ───────────────────────────────────────────────────────────────────────────────


def timeline(site: Site, query: Query) -> Mapping[str, Any]:
    """Return the steps of a run as bars, by state or branch, and marks."""
    project, view = site.run(query.path["run"])
    window = window_of(project, view, query, STEPS, MOST_STEPS)
    entries, machine = window.entries, project.runs.machine(view)
    is_last = window.last == window.total
    rows = _below_their_states(_bars(entries, machine), _branches(project, view, entries))
    begins = entries[0].wall_ms if entries else view.started_ms
    ends = now_ms() if view.is_alive and is_last else entries[-1].wall_ms if entries else begins
    return {
        "schema": 1,
        "rows": rows,
        "marks": [*_marks(entries), *(_in_queue(view, window, ends) if is_last else ())],
        "from_ms": begins,
        "to_ms": ends,
        "first": window.first,
        "last": window.last,
        "total": window.total,
    }


def _bars(entries: Sequence[Entry], machine: FSMLoop | None) -> dict[str, dict[str, Any]]:
    """Return a row for each state that was entered, in the order of the machine."""
    rows: dict[str, dict[str, Any]] = {}
    groups = by_step(entries)
    for step in step_rows(entries, machine):
        name = step["state"]
        found = rows.setdefault(name, {"name": name, "kind": "state", "state": name, "bars": []})
        begins = step["started_ms"]
        for pause in _pauses(groups[step["step"]]):
            bar = _bar(step, begins, pause.from_ms)
            found["bars"].append(
                bar | {"verdict": pause.verdict, "tone": pause.tone, "cost_usd": 0}
            )
            begins = pause.to_ms
        found["bars"].append(_bar(step, begins, step["ended_ms"]))
    order = {} if machine is None else {name: n for n, name in enumerate(machine.states)}
    return dict(sorted(rows.items(), key=lambda row: order.get(row[0], len(order))))


def _bar(step: Mapping[str, Any], from_ms: int, to_ms: int | None) -> dict[str, Any]:
    return {
        "step": step["step"],
        "from_ms": from_ms,
        "to_ms": to_ms,
        "verdict": step["verdict"],
        "tone": step["tone"],
        "cost_usd": step["cost_usd"],
        "key": None,
    }


class Pause(NamedTuple):
    """A time in which the run had stopped within a step, and how it had."""

    from_ms: int
    to_ms: int
    verdict: str
    tone: Tone


def _pauses(entries: Sequence[Entry]) -> Iterator[Pause]:
    """Yield when the run was resumed within these events, which are of one step."""
    ended: Entry | None = None
    for entry in entries:
        if isinstance(entry.event, FinalEvent):
            ended = entry
        elif isinstance(entry.event, Resume) and ended is not None:
            assert isinstance(ended.event, FinalEvent), "only a final event is stored as `ended`"
            verdict, tone = _ended_as(ended.event.status, ended.event.reason)
            yield Pause(ended.wall_ms, entry.wall_ms, verdict, tone)
            ended = None


def _ended_as(status: Status, reason: str) -> tuple[str, Tone]:
    """Return the word and the tone of an ending from which the run was resumed."""
    match status:
        case "awaiting_continuation":
            return "handoff", "waiting"
        case "needs_review":
            return "review", "waiting"
        case "failed" if reason in BY_REASON:
            return BY_REASON[reason].name, "warn"
        case "failed" | "interrupted":
            return status, "bad"
        case "completed":
            return status, "good"
        case "stopped" | "running":
            return status, "none"
        case _:
            assert_never(status)


def _branches(
    project: Project, view: RunView, entries: Sequence[Entry]
) -> dict[str, dict[str, Any]]:
    """Return a row for each run that the run has started in these steps."""
    rows: dict[str, dict[str, Any]] = {}
    for number, group in by_step(entries).items():
        for entry in group:
            match entry.event:
                case ChildStart(state=state, child=child):
                    name = child if child == state else f"{state}/{child}"
                    path = f"{view.path}/{name}" if view.path else name
                    key = run_key(project.key, view.files, path)
                    bar: dict[str, Any] = {"step": number, "from_ms": entry.wall_ms, "to_ms": None}
                    bar |= {"verdict": None, "tone": "running", "cost_usd": 0, "key": key}
                    row = {"name": name, "kind": "branch", "state": state, "bars": []}
                    rows.setdefault(name, row)["bars"].append(bar)
                case ChildEnd(state=state, child=child) as end:
                    name = child if child == state else f"{state}/{child}"
                    if name in rows:
                        _end_bar(rows[name]["bars"][-1], entry, end)
                case _:
                    continue
    return rows


def _below_their_states(
    states: Mapping[str, dict[str, Any]], branches: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows of the states, each followed by those of its branches."""
    order = {name: place for place, name in enumerate(states)}
    rows = {**states, **branches}.values()
    return sorted(rows, key=lambda row: (order[row["state"]], row["kind"] == "branch"))


def _end_bar(bar: dict[str, Any], entry: Entry, end: ChildEnd) -> None:
    tone: Tone = (
        "good" if end.status == "completed" else "bad" if end.status == "failed" else "warn"
    )
    bar |= {"to_ms": entry.wall_ms, "verdict": end.status, "tone": tone, "cost_usd": end.cost_usd}


def _marks(entries: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    """Yield what happened to the run: waits, handoffs, stops, resumes, money."""
    step, state = 0, None
    for entry in entries:
        if isinstance(entry.event, StateEnter):
            step, state = entry.event.step, entry.event.state
        found = _mark(entry)
        if found is not None:
            kind, text, until_ms = found
            yield {
                "kind": kind,
                "at_ms": entry.wall_ms,
                "until_ms": until_ms,
                "step": step,
                "state": state,
                "text": visible(text),
            }


def _in_queue(view: RunView, window: Window, until_ms: int) -> Iterator[dict[str, Any]]:
    """Yield since when a run is queued."""
    since_ms = queued_ms(view)
    if since_ms is not None:
        mark = {"kind": "wait", "at_ms": since_ms, "until_ms": until_ms}
        yield mark | {"step": window.last, "state": None, "text": "queued"}


def _mark(entry: Entry) -> tuple[MarkKind, str, int | None] | None:
    """Return the kind and text of a mark, and until when it lasts; None for other events."""
    at_ms = entry.wall_ms
    match entry.event:
        case HandoffDetected(continuation=text):
            return "handoff", text or "context handoff", None
        case HostWait(reason=reason, until_wall_ms=until_ms):
            return "wait", reason, until_ms
        case AgentWait(reason=reason, until_wall_ms=until_ms):
            return "wait", reason, until_ms
        case RetryWait(wait_ms=wait_ms):
            return "wait", "before the next attempt", at_ms + wait_ms
        case Iteration(wait_ms=wait_ms) if wait_ms:
            return "wait", "between iterations", at_ms + wait_ms
        case Cycle(wait_ms=wait_ms):
            return "wait", "until the next cycle", at_ms + wait_ms
        case event:
            found = _plain_mark(event)
            return None if found is None else (*found, None)


def _plain_mark(event: Event) -> tuple[MarkKind, str] | None:
    """Return the kind and text of a mark for one moment; None for other events."""
    match event:
        case Resume(status=status):
            return "resume", f"resumed; it was {status.replace('_', ' ')}"
        case Cost(cost_usd=cost_usd, tokens=tokens):
            return "cost", f"{money(cost_usd, '$0')}, {tokens:,} tokens"
        case GateAnswered(answer=answer):
            return "gate", f"{answer.verdict} {answer.text}".strip()
        case Forked(parent_name=name, step=step):
            return "fork", f"forked from {name} after step {step}"
        case NoteReceived(text=text):
            return "note", text
        case RunWarning(message=message):
            return "warning", message
        case LoopPaused():
            return "gate", last_line(event)
        case _ if isinstance(event, FinalEvent):
            is_stop = event.status == "interrupted"
            return ("stop" if is_stop else "end"), last_line(event)
        case _:
            return None


# ── charts ─────────────────────────────────────────────────────────────────────────────────────


def charts(site: Site, query: Query) -> Mapping[str, Any]:
    """Return what a convergence loop has measured, and the cost of each iteration."""
    project, view = site.run(query.path["run"])
    machine = project.runs.machine(view)
    kinds = ("condition_eval", "keep_best", "iteration", "cost", "state_enter")
    points, costs = _measured(entries_of_kinds(view.files, kinds, CHARTED_BYTES))
    return {
        "schema": 1,
        "points": _thinned(points),
        **_goal(machine, project.runs.context(view)),
        "costs": [
            {"iteration": number, "cost_usd": round(usd, 6), "tokens": tokens}
            for number, (usd, tokens) in sorted(costs.items())
        ],
    }


def _goal(machine: FSMLoop | None, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a machine converges to, and whether lower or higher values are better.

    Without a condition of its own, a state with `on_target` compares with `context.target`.
    """
    states = () if machine is None else machine.states.values()
    found = (state.condition for state in states)
    condition = next((each for each in found if isinstance(each, Convergence)), None)
    if condition is not None:
        return {
            "target": _number(_referred(condition.target, context)),
            "direction": condition.direction or "min",
        }
    if machine is None or all(state.on_target is None for state in states):
        return {"target": None, "direction": None}
    return {
        "target": _number(context.get("target")),
        "direction": "max" if context.get("direction") in ("max", "maximize") else "min",
    }


def _referred(target: Any, context: Mapping[str, Any]) -> Any:
    """Return the variable that a target names, as in `${context.target}`; else the target."""
    found = REFERENCE.fullmatch(str(target))
    return target if found is None else context.get(found[1])


def _number(target: Any) -> float | None:
    """Return a target that is a number; one that refers to a value is not known here."""
    try:
        return float(target)
    except (TypeError, ValueError):
        return None


Costs = dict[int, tuple[float, int]]
"""Dollars and tokens by iteration."""


def _measured(entries: Iterator[Entry]) -> tuple[list[dict[str, Any]], Costs]:
    """Return the values that `convergence` conditions measured, as points of the chart, and the
    cost of each iteration."""
    points: list[dict[str, Any]] = []
    costs: Costs = {}
    iteration = step = 1
    for entry in entries:
        match entry.event:
            case StateEnter() as entered:
                iteration, step = entered.iteration, entered.step
            case ConditionEval(type="convergence", value=float() | int() as value) as found:
                points.append(
                    {
                        "iteration": iteration,
                        "step": found.step or step,
                        "value": value,
                        "best": found.best,
                        "verdict": found.result,
                        "tone": tone_of(found.result),
                        "decision": None,
                    }
                )
            case KeepBest(best=best, decision=decision) if points:
                points[-1] |= {"best": best, "decision": decision}
            case Cost(cost_usd=usd, tokens=tokens) as cost:
                number = cost.iteration or iteration
                before = costs.get(number, (0.0, 0))
                costs[number] = (before[0] + usd, before[1] + tokens)
            case _:
                continue
    return points, costs


def _thinned(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return at most `POINTS` of the points, evenly chosen, with the first and the last."""
    if len(points) <= POINTS:
        return points
    last = len(points) - 1
    return [points[round(place * last / (POINTS - 1))] for place in range(POINTS)]
