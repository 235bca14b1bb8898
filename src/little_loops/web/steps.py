"""The steps of a run, in windows: rows, one step with everything about it, and its diff."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from little_loops.fsm.actions import action_of_event
from little_loops.fsm.codec import to_record
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    CheckResult,
    ChildrenJoined,
    ConditionEval,
    Cost,
    Entry,
    Event,
    GateAnswered,
    HandoffDetected,
    HostChosen,
    JudgeComplete,
    LoopError,
    OutOfScope,
    Sampled,
    StateEnter,
    Tampered,
    TransitionTaken,
)
from little_loops.fsm.evidence import scope_finding, tampered_finding
from little_loops.fsm.schema import PROOF_VERDICTS, FSMLoop, Outcome, outcome_of
from little_loops.fsm.state import Changed
from little_loops.light_typing import TYPE_CHECKING, Any, assert_never
from little_loops.receipts.file_versions import span_of
from little_loops.receipts.run_trees import trees_of
from little_loops.receipts.story import Story
from little_loops.records import NamedTuple
from little_loops.reporting.escape import visible
from little_loops.reporting.masking import Masker
from little_loops.runs.outputs import Outputs, open_outputs
from little_loops.runs.refusals import Refusal
from little_loops.runs.steps import RunStep, steps_of
from little_loops.runs.view import RunView
from little_loops.web.abilities import abilities, can
from little_loops.web.errors import LoopNotRecorded, not_found
from little_loops.web.graph import kind_of
from little_loops.web.kinds import StateKind, Tone
from little_loops.web.questions import Query, Question
from little_loops.web.rows import tone_of
from little_loops.web.run_page import child_rows, last_step, recent_events

if TYPE_CHECKING:
    from little_loops.web.site import FoundRun, Project, Site

WINDOW = 100
MOST = 500
SHORT_TREE = 6
MAX_DIFF = 1 << 20
MAX_EVENTS = 500


def questions() -> list[Question]:
    return [
        Question("/api/runs/{run}/steps", steps),
        Question("/api/runs/{run}/steps/{step:int}", step_detail),
        Question("/api/runs/{run}/steps/{step:int}/diff", diff),
        Question("/api/runs/{run}/diff", run_diff),
    ]


class Window(NamedTuple):
    """Some steps of a run, with their events."""

    first: int
    last: int
    total: int
    entries: Sequence[Entry]


def window_of(project: Project, view: RunView, query: Query, default: int, most: int) -> Window:
    """Return the steps that a query asks for: before one, after one, or the last ones."""
    total = last_step(recent_events(project, view))
    count = max(query.number("limit", default, most), 1)
    if "after" in query.query:
        first = max(query.number("after", 0), 0) + 1
        last = min(first + count - 1, total)
    else:
        last = min(query.number("before", total + 1) - 1, total)
        first = max(last - count + 1, 1)
    if not total or last < first:
        return Window(0, 0, total, ())
    return Window(first, last, total, list(project.runs.events_of_steps(view, first, last)))


def steps(site: Site, query: Query) -> Mapping[str, Any]:
    project, view = site.run(query.path["run"])
    window = window_of(project, view, query, WINDOW, MOST)
    machine = project.runs.machine(view)
    return {
        "schema": 1,
        "steps": step_rows(window.entries, machine),
        "first": window.first,
        "last": window.last,
        "total": window.total,
    }


def step_rows(entries: Sequence[Entry], machine: FSMLoop | None) -> list[dict[str, Any]]:
    """Return a row for each step of these events."""
    by_number = {step.number: step for step in steps_of(entries)}
    groups = by_step(entries)
    return [_row(by_number[number], group, machine) for number, group in groups.items()]


def by_step(entries: Iterable[Entry]) -> dict[int, list[Entry]]:
    """Return the events of each step, from the one that enters it."""
    number = 0

    def step_number(entry: Entry) -> int:
        nonlocal number
        if isinstance(entry.event, StateEnter):
            number = entry.event.step
        return number

    return {step: list(group) for step, group in groupby(entries, step_number) if step}


def _row(step: RunStep, entries: Sequence[Entry], machine: FSMLoop | None) -> dict[str, Any]:
    """Return a step as a row, from its events."""
    starts = [each.event for each in entries if isinstance(each.event, ActionStart)]
    left = next((e for e in reversed(entries) if isinstance(e.event, TransitionTaken)), None)
    transition = (
        left.event if left is not None and isinstance(left.event, TransitionTaken) else None
    )
    costs = [each.event for each in entries if isinstance(each.event, Cost)]
    reason, value = _judged(entries)
    return {
        "step": step.number,
        "iteration": step.iteration,
        "state": step.state,
        "kind": _kind(step.state, starts, machine),
        "action": _first_line(starts[-1]) if starts else None,
        "verdict": step.verdict,
        "tone": _tone(step, starts, machine, entries[0]),
        "reason": reason,
        "to": transition.to if transition else None,
        "by": transition.reason if transition else None,
        "started_ms": entries[0].wall_ms,
        "ended_ms": _ended_ms(entries, left),
        "duration_ms": step.duration_ms,
        "cost_usd": round(step.cost_usd, 6),
        "tokens": sum(cost.tokens for cost in costs),
        "changed": changed_json(step.changed),
        "tree": step.tree,
        "decision": step.decision,
        "attempts": len(starts),
        "value": value,
        "handoff": any(isinstance(each.event, HandoffDetected) for each in entries),
    }


def _tone(
    step: RunStep, starts: Sequence[ActionStart], machine: FSMLoop | None, first: Entry
) -> Tone:
    """Return the tone of a step: that of its verdict, or of the end that it is."""
    config = machine.states.get(step.state) if machine is not None else None
    if config is not None and config.terminal and not starts and step.verdict is None:
        by = first.event.reason if isinstance(first.event, StateEnter) else None
        return _tone_of_end(outcome_of(step.state, config, by))
    return tone_of(step.verdict) if starts or step.verdict else "none"


def _tone_of_end(outcome: Outcome) -> Tone:
    match outcome:
        case "success":
            return "good"
        case "failure":
            return "bad"
        case "review":
            return "waiting"
        case _:
            assert_never(outcome)


def _ended_ms(entries: Sequence[Entry], left: Entry | None) -> int | None:
    """Return when a step ended: when it was left, else when its action ended."""
    if left is not None:
        return left.wall_ms
    ends = (ActionComplete, ActionInterrupted)
    last = next((e for e in reversed(entries) if isinstance(e.event, (*ends, ActionStart))), None)
    if last is not None and isinstance(last.event, ActionStart):
        return None
    return (last or entries[-1]).wall_ms


def _kind(state: str, starts: Sequence[ActionStart], machine: FSMLoop | None) -> StateKind:
    """Return what a step ran."""
    config = machine.states.get(state) if machine is not None else None
    action = action_of_event(starts[-1].action, starts[-1].action_type) if starts else None
    return kind_of(config, action)


def _first_line(start: ActionStart) -> str:
    lines = visible((start.label or start.action).strip()).splitlines()
    return lines[0][:200] if lines else ""


def _judged(entries: Sequence[Entry]) -> tuple[str | None, float | None]:
    """Return the reason of the last verdict, and the last measured value."""
    reason: str | None = None
    value: float | None = None
    for entry in entries:
        match entry.event:
            case ConditionEval() as found:
                reason, value = found.reason, found.value if found.value is not None else value
            case CheckResult(reason=text) | JudgeComplete(reason=text) if text:
                reason = text
            case ChildrenJoined(reason=text) | HandoffDetected(continuation=text):
                reason = text
            case GateAnswered(answer=answer):
                reason = answer.text or None
            case event if (found_later := _found(event)) is not None:
                reason = found_later[1]
            case Sampled(value=measured):
                value = measured
            case ActionComplete(result=result) if reason is None:
                reason = result.failure or result.reason or _exit(result.exit_code, result.signal)
            case ActionInterrupted(cause=cause):
                reason = cause
            case _:
                continue
    return (None if reason is None else visible(reason)), value


def _exit(code: int | None, signal: int | None) -> str | None:
    if signal is not None:
        return f"signal {signal}"
    return None if code is None else f"exit {code}"


def changed_json(changed: Changed | None) -> dict[str, Any] | None:
    if changed is None:
        return None
    return {
        "files": changed.files,
        "added": changed.added,
        "removed": changed.removed,
        "paths": [visible(path, newlines=False) for path in changed.paths],
    }


# ── one step ───────────────────────────────────────────────────────────────────────────────────


def step_detail(site: Site, query: Query) -> Mapping[str, Any]:
    """Return everything about a step: its attempts, verdicts, evidence, transition and events."""
    found = site.run(query.path["run"])
    project, view = found
    number = int(query.path["step"])
    entries = list(project.runs.events_of_steps(view, number, number))
    machine = project.runs.machine(view)
    if not entries:
        raise _no_step(view, number)
    rows = step_rows(entries, machine)
    outputs = open_outputs(view.files)
    try:
        attempts = _attempts(entries, outputs, machine)
    finally:
        if outputs is not None:
            outputs.close()
    row = rows[-1]
    return {
        "schema": 1,
        "step": row,
        "attempts": attempts,
        "verdicts": _verdicts(entries),
        "transition": None
        if row["to"] is None
        else {"from": row["state"], "to": row["to"], "by": row["by"]},
        "evidence": _evidence(entries),
        "events": [to_record(entry) for entry in entries[:MAX_EVENTS]],
        "children": _children_of_step(site, found, row),
        "can": _can(site, view, row),
    }


def _no_step(view: RunView, number: int) -> Exception:
    return not_found("unknown_step", f"`{view.name}` has no step {number}")


def _children_of_step(site: Site, found: FoundRun, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    if row["kind"] not in ("loop", "branches"):
        return []
    state = row["state"]
    below = f"{found.view.name}/"
    return [
        each
        for each in child_rows(site, found)
        if each["name"].removeprefix(below).split("/")[0] == state or row["kind"] == "loop"
    ]


def _can(site: Site, view: RunView, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return whether the run can be forked after this step, or undone to it."""
    found = {each["verb"]: each for each in abilities(site.policy, view)}
    kept = [found["fork"], found["undo"]]
    if row["tree"] is not None:
        return kept
    why = Refusal(f"no snapshot shows the files as they were after step {row['step']}")
    return [each if not each["allowed"] else can(each["verb"], why) for each in kept]


def _attempts(
    entries: Sequence[Entry], outputs: Outputs | None, machine: FSMLoop | None
) -> list[dict[str, Any]]:
    """Return what ran in a step, one after the other."""
    found: list[dict[str, Any]] = []
    host: str | None = None
    for entry in entries:
        match entry.event:
            case HostChosen(host=chosen):
                host = chosen
            case ActionStart() as start:
                found.append(_attempt(entry, start, host, machine))
            case ActionComplete(result=result) if found:
                found[-1] |= {
                    "ended_ms": entry.wall_ms,
                    "exit_code": result.exit_code,
                    "signal": result.signal,
                    "timed_out": result.cut_by in ("action", "silence", "loop"),
                    "agent": result.agent,
                    "duration_ms": result.duration_ms,
                    "tokens": result.tokens,
                    "cost_usd": result.cost_usd or 0,
                    "turns": result.turns or 0,
                    **_sizes(outputs, result),
                }
            case ActionInterrupted(cause=cause, result=partial) if found:
                found[-1] |= {"ended_ms": entry.wall_ms, "interrupted": cause}
                if partial is not None:
                    found[-1] |= {"duration_ms": partial.duration_ms, **_sizes(outputs, partial)}
            case Cost(child=None, tokens=tokens, cost_usd=cost_usd, turns=turns) if found:
                found[-1] |= {"tokens": tokens, "cost_usd": cost_usd, "turns": turns}
            case _:
                continue
    return found


def _attempt(
    entry: Entry, start: ActionStart, host: str | None, machine: FSMLoop | None
) -> dict[str, Any]:
    action = action_of_event(start.action, start.action_type)
    state = machine.states.get(start.state) if machine is not None else None
    kind = kind_of(state, action)
    if host is None and kind == "agent" and machine is not None:
        host = machine.host.under(state.host if state else None).host
    return {
        "attempt": start.attempt,
        "action": visible(start.filled or start.action),
        "kind": kind,
        "host": host if kind == "agent" else None,
        "place": start.place,
        "started_ms": entry.wall_ms,
        "ended_ms": None,
        "exit_code": None,
        "signal": None,
        "timed_out": False,
        "interrupted": None,
        "agent": None,
        "duration_ms": None,
        "cost_usd": 0,
        "tokens": 0,
        "turns": 0,
        "stdout_bytes": 0,
        "stderr_bytes": 0,
    }


def _sizes(outputs: Outputs | None, result: Any) -> dict[str, int]:
    if outputs is None:
        return {}
    output = outputs.of(result)
    return {"stdout_bytes": output.stdout.size, "stderr_bytes": output.stderr.size}


class StepVerdict(NamedTuple):
    """A verdict of a step, and who gave it: a condition, or a part of the engine."""

    verdict: str
    reason: str
    type: str
    value: float | None = None


def _found(event: Event) -> StepVerdict | None:
    """Return the verdict that replaced the one of an action, because of what was found after it."""
    match event:
        case Tampered():
            found = tampered_finding(event.tampering, event.by, event.paths, event.files)
            return None if found is None else StepVerdict(*found, "protected files")
        case OutOfScope(beside=""):
            found = scope_finding(event.scope_writes, event.paths, event.files)
            return None if found is None else StepVerdict(*found, "scope")
        case LoopError(reason=verdict, error=error) if verdict in (
            *PROOF_VERDICTS,
            "error",
            "timeout",
        ):
            return StepVerdict(verdict, error, f"no `on_{verdict}`")
        case _:
            return None


def _judgement(event: Event) -> StepVerdict | None:
    """Return the verdict that an event gives a step: by a condition, judge, check, gate or finding. None
    for other events."""
    match event:
        case ConditionEval():
            return StepVerdict(event.result, event.reason, event.type, event.value)
        case JudgeComplete():
            return StepVerdict(str(event.verdict), event.reason, "judge")
        case CheckResult():
            return StepVerdict(event.verdict, event.reason, "check")
        case ChildrenJoined():
            return StepVerdict(event.verdict, event.reason, "branches")
        case HandoffDetected():
            return StepVerdict("handoff", event.continuation, "agent")
        case GateAnswered(answer=answer):
            return StepVerdict(answer.verdict, answer.text, "gate")
        case _:
            return _found(event)


def _verdicts(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the verdicts of a step, each with its reason; not those that only repeat the last one."""
    found: list[StepVerdict] = []
    for entry in entries:
        each = _judgement(entry.event)
        if each is not None and (not found or each[:2] != found[-1][:2]):
            found.append(each)
    return [
        {
            "verdict": each.verdict,
            "tone": tone_of(each.verdict),
            "reason": visible(each.reason),
            "type": each.type,
            "value": each.value,
        }
        for each in found
    ]


def _evidence(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return what checks have shown: `passed on tree 9f3c2a, clean copy`."""
    words = {"pass": "passed", "fail": "failed"}
    found = []
    for entry in entries:
        if isinstance(entry.event, CheckResult):
            check = entry.event
            where = "clean copy" if check.place == "clean" else "working copy"
            how = words.get(check.verdict, check.verdict)
            found.append(
                {
                    "text": f"{how} on tree {check.before[:SHORT_TREE]}, {where}",
                    "verdict": check.verdict,
                    "tree": check.before,
                    "place": check.place,
                }
            )
    return found


def diff(site: Site, query: Query) -> Mapping[str, Any]:
    """Return what a step changed, like `git diff`, with secrets of the environment masked."""
    project, view = site.run(query.path["run"])
    number = int(query.path["step"])
    return _diff(site, view, project, number, number)


def run_diff(site: Site, query: Query) -> Mapping[str, Any]:
    """Return what all steps of a run changed together."""
    project, view = site.run(query.path["run"])
    return _diff(site, view, project, 1, last_step(recent_events(project, view)))


def _diff(site: Site, view: RunView, project: Project, first: int, last: int) -> Mapping[str, Any]:
    machine = project.runs.machine(view)
    if machine is None:
        raise LoopNotRecorded(view.name)
    story = Story(machine).read(project.runs.events_of_steps(view, first, last))
    span = span_of(story, first, last)
    same = span.before.id == span.after.id
    store = trees_of(view.files, site.environ).store
    text = b"" if same else store.diff(span.before.id, span.after.id)
    shown = Masker(os.environ).mask(text[:MAX_DIFF].decode("utf-8", "replace"))
    return {
        "schema": 1,
        "first": span.first,
        "last": span.last,
        "text": visible(shown),
        "truncated": len(text) > MAX_DIFF,
    }
