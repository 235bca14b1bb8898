"""Collect the facts for a receipt from a run's events: turns, checks, protected paths, ending.

Pure: log entries in, plain data out. Texts are as in the log, with secrets masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from little_loops.fsm.actions import action_of_event, is_agents
from little_loops.fsm.events import (
    ActionComplete,
    ActionStart,
    CheckResult,
    Cost,
    Entry,
    FinalEvent,
    HostChosen,
    JudgeComplete,
    JudgeStart,
    OutOfScope,
    Recheck,
    ReferenceMoved,
    Restored,
    RunWarning,
    StateEnter,
    Tampered,
    Tree,
)
from little_loops.fsm.plain import encode
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import FileRef, Result
from little_loops.fsm.timestamps import timestamp
from little_loops.fsm.turn_hosts import hosts_of
from little_loops.light_typing import Any
from little_loops.receipts.canonical import sha256

Plain = dict[str, Any]
Mask = Callable[[str], str]


class Story:
    """Collects what a receipt says from the entries of a log, in their order."""

    def __init__(self, machine: FSMLoop) -> None:
        self.machine = machine
        self.checks: list[Plain] = []
        self.turns: list[Plain] = []
        self.judges: list[Plain] = []
        self.rechecks: list[Plain] = []
        self.tampered: list[Plain] = []
        self.restored: list[Plain] = []
        self.moved: list[Plain] = []
        self.outside: list[Plain] = []
        self.warnings: list[str] = []
        self.trees: list[Tree] = []
        self.ending: FinalEvent | None = None
        self._step = 0
        self._fallback = 0
        self._action: Plain = {}
        self._paid: Plain = {}

    def read(self, entries: Iterable[Entry]) -> Story:
        """Take all entries of a log, and return the story itself."""
        for entry in entries:
            self._take(entry)
        return self

    def _take(self, entry: Entry) -> None:
        """Record what an entry says about actions, checks and trees."""
        match entry.event:
            case StateEnter(step=step):
                self._step, self._fallback = step, 0
            case HostChosen(fallback=fallback):
                self._fallback = fallback
            case ActionStart():
                self._start(entry.event, entry.wall_ms)
            case ActionComplete(result=result):
                self._complete(result)
            case CheckResult():
                self._check(entry.event)
            case JudgeStart() | JudgeComplete():
                self._judge(entry.event, entry.wall_ms)
            case Cost():
                self._paid |= {"cost_usd": entry.event.cost_usd, "tokens": entry.event.tokens}
            case Tree():
                self._tree(entry.event)
            case _:
                self._other(entry.event)

    def _start(self, event: ActionStart, at_ms: int) -> None:
        """Begin a new action; one by an agent is also a turn."""
        self._action = self._paid = {
            "state": event.state,
            "step": self._step,
            "attempt": event.attempt,
            "started": timestamp(at_ms),
        }
        if is_agents(action_of_event(event.action, event.action_type)):
            state = self.machine.states.get(event.state)
            hosts = hosts_of(self.machine, state)
            host = hosts[self._fallback if self._fallback < len(hosts) else 0]
            self._action |= {"host": host.host, "model": host.model}
            self.turns.append(self._action)
        else:
            self._action |= {"command": event.action, "place": event.place}

    def _complete(self, result: Result) -> None:
        """Add the duration of the current action, and for a command its exit code and output
        hashes."""
        self._action["duration_ms"] = result.duration_ms
        if "command" in self._action:
            self._action |= {
                "exit_code": result.exit_code,
                "stdout": _hash_of(result.output, result.output_file),
                "stderr": _hash_of(result.stderr, result.stderr_file),
            }

    def _judge(self, event: JudgeStart | JudgeComplete, at_ms: int) -> None:
        """Record a second opinion: who was asked what, and the answer with the lines it quotes."""
        if isinstance(event, JudgeStart):
            asked = {"state": event.state, "step": event.step, "attempt": event.attempt}
            about = {"question": event.question, "host": event.host, "started": timestamp(at_ms)}
            self._paid = asked | about
            self.judges.append(self._paid)
        elif self.judges:
            answer = {"verdict": event.verdict, "reason": event.reason}
            quotes = {"quotes": list(event.quotes), "duration_ms": event.duration_ms}
            self.judges[-1].update(answer | quotes)

    def _check(self, event: CheckResult) -> None:
        """Record a check result together with the action that it belongs to."""
        tree = {"before": event.before, "after": event.after}
        verdict = {"verdict": event.verdict, "reason": event.reason, "place": event.place}
        known = self._action if self._action.get("state") == event.state else {"state": event.state}
        self.checks.append({**known, **verdict, "tree": tree})

    def _tree(self, event: Tree) -> None:
        """Record a tree; the first one after a turn says what the turn changed."""
        self.trees.append(event)
        if event.when == "after" and "host" in self._action:
            # A second tree comes after something was restored.
            self._action.setdefault("changed", event.changed._asdict())

    def _other(self, event: object) -> None:
        """Record events about protected files, files outside the scope, warnings and the ending."""
        match event:
            case Recheck():
                self.rechecks.append(_plain(event))
            case Tampered():
                self.tampered.append(_plain(event))
            case Restored():
                self.restored.append(_plain(event))
            case ReferenceMoved():
                self.moved.append(_plain(event))
            case OutOfScope():
                self.outside.append(_plain(event))
            case RunWarning(message=message):
                self.warnings.append(message)
            case _ if isinstance(event, FinalEvent):
                self.ending = event
            case _:
                pass


def _plain(event: Any) -> Plain:
    """Return an event's fields without its type, which follows from the list it is in."""
    return {key: item for key, item in encode(event).items() if key != "event"}


def _hash_of(text: str | None, file: FileRef | None) -> str | None:
    """Return the hash of an output: that of its file, which may be cut, or of the text in the log,
    which lacks its last newline. None if there is neither."""
    if file is not None:
        return file.sha256
    return None if text is None else sha256(text.encode("utf-8", "surrogatepass"))


def masked(value: Any, mask: Mask) -> Any:
    """Return the value with every text in it masked, except the names of fields."""
    match value:
        case str():
            return mask(value)
        case dict():
            return {key: masked(item, mask) for key, item in value.items()}
        case list() | tuple():
            return [masked(item, mask) for item in value]
        case _:
            return value
