"""How a run reads in plain text: one event, its lines.

These lines are an interface: where the design prints a line, this is that line, so that people can
`grep '^\\['`.  The log and any output that is not a terminal get exactly these.

Not here: colours, live lines, widths (`cli`); masking and escaping, which the caller has done.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from little_loops.fsm.actions import (
    Action,
    Agent,
    Builtin,
    Shell,
    action_told,
    is_agents,
    text_of,
)
from little_loops.fsm.events import wall_ms_of
from little_loops.fsm.values import duration_text

INDENT = "       "
LONGEST = 200

Record = Mapping[str, Any]


class Teller:
    """Turns records into lines; remembers only what the next line needs to say."""

    def __init__(
        self, loop: str, max_iterations: int, *, ascii_only: bool = False, detailed: bool = False
    ) -> None:
        """`detailed`: with whole commands, how long they took, and why each verdict was given."""
        self.loop = loop
        self.detailed = detailed
        self.max_iterations = max_iterations
        self.iteration = 1
        self.agent = False
        self.signs = _ASCII if ascii_only else _UTF8

    def lines(self, record: Record) -> list[str]:
        tell = _TELL.get(record["event"])
        return [] if tell is None else tell(self, record)

    def _state_enter(self, record: Record) -> list[str]:
        self.iteration = record["iteration"]
        return []

    def _action_start(self, record: Record) -> list[str]:
        action = action_told(record)
        self.agent = is_agents(action)
        shown = shortened(action)
        where = f"[{self.iteration}/{self.max_iterations}] {record['state']}"
        whole = whole_command(record) if self.detailed else []
        return [f"{where} {self.signs['to']} running {shown}...", *whole]

    def _action_complete(self, record: Record) -> list[str]:
        ended_well = record.get("exit_code") == 0 and record.get("agent") in (None, "success")
        sign = self.signs["good" if record.get("good", ended_well) else "bad"]
        took = f" in {duration_text(record['duration_ms'])}" if self.detailed else ""
        return [f"{INDENT}{sign} {_how_it_ended(record, self.agent)}{took}"]

    def _condition_eval(self, record: Record) -> list[str]:
        """A condition that could not judge says why; of the others the way taken says enough."""
        if record["result"] != "error" and not self.detailed:
            return []
        return [f"{INDENT}{record['result']}: {one_line(record['reason'])}"]

    def _action_interrupted(self, record: Record) -> list[str]:
        return [f"{INDENT}{self.signs['bad']} interrupted ({record['cause']})"]

    def _transition(self, record: Record) -> list[str]:
        reason = record["reason"]
        why = "" if reason == "next" else f" ({reason})"
        return [f"{INDENT}{self.signs['to']} {record['to']}{why}"]

    def _iteration(self, record: Record) -> list[str]:
        return self._wait(record, "the next iteration") if record.get("wait_ms") else []

    def _cycle(self, record: Record) -> list[str]:
        return self._wait(record, f"cycle {record['cycle']}")

    def _retry_wait(self, record: Record) -> list[str]:
        return self._wait(record, f"attempt {record['attempt']}")

    def _wait(self, record: Record, before: str) -> list[str]:
        return [f"{INDENT}waiting {duration_text(record['wait_ms'])} before {before}"]

    def _host_wait(self, record: Record) -> list[str]:
        left = duration_text(max(0, record["until_wall_ms"] - wall_ms_of(record["ts"])))
        return [f"{INDENT}waiting {left}: {one_line(record['reason'])}"]

    def _handoff_detected(self, record: Record) -> list[str]:
        text = one_line(record["continuation"] or "")
        lines = [f"{INDENT}{self.signs['to']} context handoff{': ' + text if text else ''}"]
        return lines + (self._wait(record, "a fresh session") if record.get("wait_ms") else [])

    def _warning(self, record: Record) -> list[str]:
        return [f"warning: {one_line(record['message'])}"]

    def _resume(self, record: Record) -> list[str]:
        state, iteration = record["state"], record["iteration"]
        self.iteration = iteration
        lines = [f"Resuming loop '{self.loop}' from state '{state}' (iteration {iteration})"]
        if record.get("again"):
            lines.append("It failed there: the state is run once more")
        if record.get("orphans"):
            left = one_line(", ".join(record["orphans"]))
            lines.append(f"Ended what was left of the action: {left}")
        if record.get("continuation"):
            lines.append(f"Continuation context: {one_line(record['continuation'])}")
        if wait := record.get("wait"):
            lines += self._wait(record, _BEFORE.get(wait, "it goes on"))
        return lines

    def _last(self, record: Record) -> list[str]:
        return ["", last_line(record)]


_BEFORE = {
    "backoff": "the next iteration",
    "retry": "the next attempt",
    "maintain": "the next cycle",
    "host": "the agent is asked again",
    "handoff": "a fresh session",
}
_UTF8 = {"to": "→", "good": "✓", "bad": "✗"}
_ASCII = {"to": "->", "good": "ok", "bad": "FAIL"}

_TELL = {
    "state_enter": Teller._state_enter,
    "action_start": Teller._action_start,
    "action_complete": Teller._action_complete,
    "action_interrupted": Teller._action_interrupted,
    "condition_eval": Teller._condition_eval,
    "transition": Teller._transition,
    "iteration": Teller._iteration,
    "cycle": Teller._cycle,
    "retry_wait": Teller._retry_wait,
    "host_wait": Teller._host_wait,
    "handoff_detected": Teller._handoff_detected,
    "warning": Teller._warning,
    "resume": Teller._resume,
    "loop_complete": Teller._last,
    "loop_error": Teller._last,
    "loop_timeout": Teller._last,
    "loop_paused": Teller._last,
    "loop_interrupted": Teller._last,
    "handoff": Teller._last,
}


def last_line(record: Record) -> str:
    """The true ending, in one line; "completed" is said of a success state and nothing else."""
    count = record["iterations"]
    times = f"{count} iteration{'' if count == 1 else 's'}"
    figures = f"({times}, {duration_text(record['duration_ms'])})"
    return f"{_ending(record)} {figures}"


def _ending(record: Record) -> str:
    state = record["final_state"]
    text = one_line(record.get("error") or record.get("message") or "")
    match record["status"], record["reason"]:
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
            return f"Loop interrupted: {signal_name(record['signal'])} in state '{state}'"
        case "awaiting_continuation", _:
            return f"Loop paused: context handoff in state '{state}'" + (
                f": {text}" if text else ""
            )
        case _:
            return f"Loop needs review: {text or state}"


def _how_it_ended(record: Record, agent: bool) -> str:
    if record.get("failure"):
        return one_line(record["failure"])
    if record.get("cut_by", "none") != "none":
        return f"timed out after {duration_text(record['duration_ms'])}"
    said = _said(record)
    if agent:
        return one_line(said or record.get("reason") or record.get("kind") or "done")
    died = record.get("signal")
    how = f"killed by {signal_name(died)}" if died else _exit(record["exit_code"])
    return f"{said} ({how})" if said else f"({how})"


def _exit(code: int | None) -> str:
    why = {126: ": not executable", 127: ": not found"}.get(code or 0, "")
    return f"exit {code}{why}"


def _said(record: Record) -> str:
    """The reason a structured answer gives, else the last line that is not a verdict."""
    structured = record.get("structured")
    if isinstance(structured, Mapping) and isinstance(structured.get("reason"), str):
        return one_line(structured["reason"])
    text = output_of(record).rstrip()
    before, _, last = text.rpartition("\n")
    said = last_said(before) if last.startswith("VERDICT:") else one_line(last)
    return said or last_said(record.get("stderr"))


def output_of(record: Record) -> str:
    """What an action printed, or the end of it; of an agent without an answer nothing.

    Its tail would be the protocol of its CLI.
    """
    output: str | None = record.get("output")
    return (record.get("tail") or "") if output is None else output


def last_said(text: str | None) -> str:
    """The last line that is not blank."""
    return one_line((text or "").rstrip().rpartition("\n")[2])


def one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + "…"


def shortened(action: Action) -> str:
    """A command's first line; of a slash command its name says enough."""
    line = text_of(action).strip().partition("\n")[0]
    match action:
        case Agent(is_slash=True) if line:
            return line.split()[0]
        case Shell() | Agent() | Builtin():
            return one_line(line)


def whole_command(record: Record) -> list[str]:
    """All of an action, where its first line is not all of it."""
    lines = record["action"].strip().splitlines()
    return (
        [] if lines == [shortened(action_told(record))] else [f"{INDENT}$ {line}" for line in lines]
    )


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
