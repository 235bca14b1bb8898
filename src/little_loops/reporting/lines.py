"""How a run reads in plain text: one event, its lines.

These lines are an interface: where the design prints a line, this is that line, so that people can
`grep '^\\['`.  The log and any output that is not a terminal get exactly these.

Not here: colours, live lines, widths (`cli`); masking and escaping, which the caller has done.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import Any

from little_loops.fsm.actions import action_told, is_agents
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    ConditionEval,
    Cycle,
    Event,
    FinalEvent,
    Handoff,
    HandoffDetected,
    HostWait,
    Iteration,
    LoopComplete,
    LoopError,
    LoopInterrupted,
    LoopPaused,
    LoopTimeout,
    OutOfScope,
    PartialResult,
    Recheck,
    ReferenceMoved,
    Restored,
    Resume,
    RetryWait,
    RunWarning,
    StateEnter,
    Tampered,
    Transition,
    Tree,
    message_of,
)
from little_loops.fsm.evidence import listed
from little_loops.fsm.state import Result, WaitKind
from little_loops.fsm.values import duration_text
from little_loops.reporting.action_line import running

INDENT = "       "
LONGEST = 200


class Teller:
    """Turns events into lines; remembers only what the next line needs to say."""

    def __init__(
        self, loop: str, max_iterations: int, *, ascii_only: bool = False, detailed: bool = False
    ) -> None:
        """`detailed`: with whole commands, how long they took, and why each verdict was given."""
        self.loop = loop
        self.detailed = detailed
        self.max_iterations = max_iterations
        self.iteration = 1
        self.agent = False
        self.check = ""
        self.changed_by = ""
        self.tree = ""
        self.signs = _ASCII if ascii_only else _UTF8

    def lines(self, event: Event, passed: bool | None = None) -> list[str]:
        """`passed`: the verdict on the action that the event ends, if it is known."""
        if isinstance(event, ActionComplete):
            return self._action_complete(event.result, passed)
        tell = _TELL.get(type(event))
        return [] if tell is None else tell(self, event)

    def _state_enter(self, event: StateEnter) -> list[str]:
        self.iteration = event.iteration
        return []

    def _action_start(self, event: ActionStart) -> list[str]:
        self.agent = is_agents(action_told(event.action, event.action_type))
        self.check = _place_and_tree(event, self.tree)
        where = f"[{self.iteration}/{self.max_iterations}] {event.state}"
        whole = whole_command(event) if self.detailed else []
        return [f"{where} {self.signs['to']} {running(event)}", *whole]

    def _action_complete(self, result: Result, passed: bool | None) -> list[str]:
        if passed is None:
            passed = result.exit_code == 0 and result.agent in (None, "success")
        sign = self.signs["good" if passed else "bad"]
        took = f" in {duration_text(result.duration_ms)}" if self.detailed else ""
        return [f"{INDENT}{sign} {_how_it_ended(result, self.agent)}{self.check}{took}"]

    def _condition_eval(self, event: ConditionEval) -> list[str]:
        """A condition that could not judge says why; of the others the way taken says enough."""
        if event.result != "error" and not self.detailed:
            return []
        return [f"{INDENT}{event.result}: {one_line(event.reason)}"]

    def _action_interrupted(self, event: ActionInterrupted) -> list[str]:
        return [f"{INDENT}{self.signs['bad']} interrupted ({event.cause})"]

    def _transition(self, event: Transition) -> list[str]:
        why = "" if event.reason == "next" else f" ({event.reason})"
        return [f"{INDENT}{self.signs['to']} {event.to}{why}"]

    def _iteration(self, event: Iteration) -> list[str]:
        return _wait(event.wait_ms, "the next iteration") if event.wait_ms else []

    def _cycle(self, event: Cycle) -> list[str]:
        return _wait(event.wait_ms, f"cycle {event.cycle}")

    def _retry_wait(self, event: RetryWait) -> list[str]:
        return _wait(event.wait_ms, f"attempt {event.attempt}")

    def _host_wait(self, event: HostWait) -> list[str]:
        left = "" if event.wait_ms is None else f" {duration_text(event.wait_ms)}"
        return [f"{INDENT}waiting{left}: {one_line(event.reason)}"]

    def _handoff_detected(self, event: HandoffDetected) -> list[str]:
        text = one_line(event.continuation)
        lines = [f"{INDENT}{self.signs['to']} context handoff{': ' + text if text else ''}"]
        return lines + (_wait(event.wait_ms, "a fresh session") if event.wait_ms else [])

    def _warning(self, event: RunWarning) -> list[str]:
        return [f"warning: {one_line(event.message)}"]

    def _tree(self, event: Tree) -> list[str]:
        self.tree = event.id
        return []

    def _tampered(self, event: Tampered) -> list[str]:
        who = "by the agent" if event.by == "agent" else "while the check ran"
        self.changed_by = f"{listed(event.paths, event.files)} {_was(event.files)} changed {who}"
        return [] if event.tampering == "restore" else [f"{INDENT}! {self.changed_by}"]

    def _out_of_scope(self, event: OutOfScope) -> list[str]:
        paths = listed(event.paths, event.files)
        self.changed_by = f"outside the scope, the agent changed {paths}"
        return [] if event.scope_writes == "enforce" else [f"{INDENT}! {self.changed_by}"]

    def _restored(self, event: Restored) -> list[str]:
        lines = [f"{INDENT}! {self.changed_by}: restored"] if event.paths else []
        return [*lines, *(f"{INDENT}! not restored: {one_line(why)}" for why in event.failed)]

    def _reference_moved(self, event: ReferenceMoved) -> list[str]:
        paths = listed(event.paths, event.files)
        by = event.by if event.by.startswith("while") else f"by {event.by}"
        return [f"{INDENT}! {paths} changed {by}: taken as the new reference"]

    def _recheck(self, event: Recheck) -> list[str]:
        where = " in a clean copy" if event.place == "clean" else ""
        why = "" if event.place == "clean" else f": {event.why}"
        return [f"{INDENT}{self.signs['to']} {event.state} again{where}{why}"]

    def _resume(self, event: Resume) -> list[str]:
        self.iteration = event.iteration
        where = f"from state '{event.state}' (iteration {event.iteration})"
        lines = [f"Resuming loop '{self.loop}' {where}"]
        if event.again:
            lines.append("It failed there: the state is run once more")
        if event.orphans:
            lines.append(f"Ended what was left of the action: {one_line(', '.join(event.orphans))}")
        if event.continuation:
            lines.append(f"Continuation context: {one_line(event.continuation)}")
        if event.wait is not None:
            lines += _wait(event.wait_ms, _BEFORE[event.wait])
        return lines

    def _last(self, event: FinalEvent) -> list[str]:
        return ["", last_line(event)]


def _place_and_tree(event: ActionStart, tree: str) -> str:
    """What a check has judged, if the run knows its trees."""
    if not event.is_check:
        return ""
    return f"{' · clean copy' if event.place == 'clean' else ''} · tree {tree[:6]}"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _wait(wait_ms: int, before: str) -> list[str]:
    return [f"{INDENT}waiting {duration_text(wait_ms)} before {before}"]


_BEFORE: Mapping[WaitKind, str] = {
    "backoff": "the next iteration",
    "retry": "the next attempt",
    "maintain": "the next cycle",
    "host": "the agent is asked again",
    "handoff": "a fresh session",
}
_UTF8 = {"to": "→", "good": "✓", "bad": "✗"}
_ASCII = {"to": "->", "good": "ok", "bad": "FAIL"}

_TELL: Mapping[type, Callable[[Teller, Any], list[str]]] = {
    StateEnter: Teller._state_enter,
    ActionStart: Teller._action_start,
    ActionInterrupted: Teller._action_interrupted,
    ConditionEval: Teller._condition_eval,
    Transition: Teller._transition,
    Iteration: Teller._iteration,
    Cycle: Teller._cycle,
    RetryWait: Teller._retry_wait,
    HostWait: Teller._host_wait,
    HandoffDetected: Teller._handoff_detected,
    RunWarning: Teller._warning,
    Tree: Teller._tree,
    Tampered: Teller._tampered,
    OutOfScope: Teller._out_of_scope,
    Restored: Teller._restored,
    ReferenceMoved: Teller._reference_moved,
    Recheck: Teller._recheck,
    Resume: Teller._resume,
    LoopComplete: Teller._last,
    LoopError: Teller._last,
    LoopTimeout: Teller._last,
    LoopPaused: Teller._last,
    LoopInterrupted: Teller._last,
    Handoff: Teller._last,
}


def last_line(event: FinalEvent) -> str:
    """The true ending, in one line; "completed" is said of a success state and nothing else."""
    count = event.iterations
    times = f"{count} iteration{'' if count == 1 else 's'}"
    return f"{_ending(event)} ({times}, {duration_text(event.duration_ms)})"


def _ending(event: FinalEvent) -> str:
    state, text = event.final_state, one_line(message_of(event))
    match event.status, event.reason:
        case "completed", _:
            return f"Loop completed: {state}"
        case "failed", "terminal":
            said = "" if text == "terminal" else f": {text}"
            return f"Loop failed: ended in state '{state}'{said}"
        case "failed", "loop_timeout":
            return f"Loop timed out in state '{state}'"
        case "failed", "max_iterations" | "max_cost" | "max_tokens":
            return f"Loop reached its limit: {text}"
        case "failed", reason:
            return f"Loop failed: {reason} in state '{state}'" + (f": {text}" if text else "")
        case "stopped", _:
            return f"Loop stopped: {text}" if text else f"Loop stopped in state '{state}'"
        case "interrupted", _:
            return f"Loop interrupted: {signal_of(event)} in state '{state}'"
        case "awaiting_continuation", _:
            return f"Loop paused: context handoff in state '{state}'" + (
                f": {text}" if text else ""
            )
        case _:
            return f"Loop needs review: {text or state}"


def signal_of(event: FinalEvent) -> str:
    """The name of the signal that interrupted a run."""
    return signal_name(event.signal if isinstance(event, LoopInterrupted) else 0)


def _how_it_ended(result: Result, agent: bool) -> str:
    if result.failure:
        return one_line(result.failure)
    if result.cut_by == "silence":
        return f"silent, ended after {duration_text(result.duration_ms)}"
    if result.cut_by != "none":
        return f"timed out after {duration_text(result.duration_ms)}"
    said = _said(result)
    if agent:
        return one_line(said or result.reason or result.kind or "done")
    died = result.signal
    how = f"killed by {signal_name(died)}" if died else _exit(result.exit_code)
    return f"{said} ({how})" if said else f"({how})"


def _exit(code: int | None) -> str:
    why = {126: ": not executable", 127: ": not found"}.get(code or 0, "")
    return f"exit {code}{why}"


def _said(result: Result) -> str:
    """The reason a structured answer gives, else the last line that is not a verdict."""
    structured = result.structured
    if isinstance(structured, Mapping) and isinstance(structured.get("reason"), str):
        return one_line(structured["reason"])
    text = output_of(result).rstrip()
    before, _, last = text.rpartition("\n")
    said = last_said(before) if last.startswith("VERDICT:") else one_line(last)
    return said or last_said(result.stderr)


def output_of(result: Result | PartialResult) -> str:
    """What an action printed, or the end of it; of an agent without an answer nothing.

    Its tail would be the protocol of its CLI.
    """
    if result.output is not None:
        return result.output
    return (result.tail or "") if isinstance(result, Result) else ""


def last_said(text: str | None) -> str:
    """The last line that is not blank."""
    return one_line((text or "").rstrip().rpartition("\n")[2])


def one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + "…"


def whole_command(event: ActionStart) -> list[str]:
    """All of an action, where the line that says it is running does not show all of it."""
    lines = event.action.strip().splitlines()
    is_all = [running(event)] == [f"running {line}..." for line in lines]
    return [] if is_all else [f"{INDENT}$ {line}" for line in lines]


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
