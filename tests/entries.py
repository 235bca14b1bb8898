"""Events for tests that care about some of their fields only."""

from __future__ import annotations

from typing import Any

from little_loops.fsm.codec import decode_event
from little_loops.fsm.events import Entry, Event, event_types
from little_loops.runs.folders import event_log
from little_loops.runs.journal import Records
from little_loops.runs.layout import RunFiles

WALL_MS = 1_768_473_000_000  # 2026-01-15T10:30:00Z
STAND_INS: dict[str, Any] = {
    "state": "check",
    "hook": "before_state",
    "iteration": 1,
    "iterations": 1,
    "step": 1,
    "action": "true",
    "action_type": "shell",
    "attempt": 1,
    "exit_code": 0,
    "duration_ms": 2300,
    "output": "",
    "stderr": "",
    "wait_ms": 5000,
    "until_wall_ms": WALL_MS + 5000,
    "elapsed_ms": 9000,
    "signal": 15,
    "cycle": 2,
    "tokens": 0,
    "cost_usd": 0.0,
    "turns": 0,
    "status": "failed",
    "reason": "error",
    "error": "error",
    "final_state": "check",
    "loop": "fix",
    "initial": "check",
    "scope": ["."],
    "from": "check",
    "to": "check",
    "cause": "stop",
    "type": "exit_code",
    "result": "pass",
    "payload": "",
    "continuation": "",
    "message": "",
    "text": "",
    "when": "before",
    "id": "3f9c2ab1d04e",
    "project": "3f9c2ab1d04e",
    "guard": "5d1e07c8a9b2",
    "verdict": "pass",
    "before": "3f9c2ab1d04e",
    "after": "3f9c2ab1d04e",
    "files": 1,
    "paths": ["a.py"],
    "of": "protected",
    "parent": "20260115T103000-0a1b2c3d",
    "parent_name": "fix",
    "value": 3,
    "repeat": 3,
    "decision": "kept",
    "child": "types",
    "names": ["types"],
    "host": "codex",
    "fallback": 1,
    "stage": "pass",
    "path": "/cache/worktrees/shop/r-types",
    "branch": "ll/fix/r/types",
    "base": "4ac19d41e0aa",
    "head": "4ac19d41e0aa",
    "onto": "main",
    "commit": "9d41e0aa3f9c",
    "merged": ["types"],
    "passed": True,
    "number": 1,
    "question": "is it done?",
    "session_id": "s",
    "wait_for": "slot",
    "tampering": "fail",
    "scope_writes": "fail",
    "by": "agent",
    "place": "here",
    "why": "a pass counts twice",
    "gate": 2,
}
_TYPES = event_types()


def whole(kind: str, **fields: Any) -> dict[str, Any]:
    """The fields of an event: those given, and a stand-in for each that it must have."""
    needed = _TYPES[kind].fields if kind in _TYPES else ()
    own = {name: STAND_INS[name] for name in needed if name not in fields}
    return {"event": kind, **own, **fields}


def event(kind: str, **fields: Any) -> Event:
    return decode_event(whole(kind, **fields))


def log_of(files: RunFiles) -> list[dict[str, Any]]:
    """The events of a run as they are written."""
    return list(Records(event_log(files)))


def entry(kind: str, **fields: Any) -> Entry:
    return Entry(event(kind, **fields), WALL_MS, 0, "r", 1)


def entries_like(text: str) -> list[Entry]:
    """Entries from lines with a kind and, for some, a step, a tree or a place."""
    found = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        kind, *rest = line.split()
        fields: dict[str, Any] = {}
        for word in rest:
            name = {"state_enter": "step", "tree": "project", "action_start": "place"}[kind]
            fields[name] = int(word) if name == "step" else word
        found.append(Entry(event(kind, **fields), WALL_MS, number, "run", number))
    return found
