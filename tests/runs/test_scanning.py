"""Counting in a log: every transition and state once, also in a log that grows."""

from __future__ import annotations

import json
from pathlib import Path

from little_loops.runs.layout import RunFiles
from little_loops.runs.scanning import Counts, counts_of


def line(event: str, **fields: object) -> str:
    return json.dumps({"event": event, **fields}, separators=(",", ":")) + "\n"


ENTER = line("state_enter", state="check", step=1)
# What an action prints is no event, whatever it looks like.
OUTPUT = line("action_complete", state="check", output='x\n{"event":"state_enter","state":"fake"')
LEAVE = {"from": "check", "to": "fix-2"}


def test_the_states_and_transitions_of_a_log_are_counted_once(tmp_path: Path):
    folder = tmp_path / ".loops" / ".running"
    folder.mkdir(parents=True)
    log = folder / "loop.events.jsonl"
    files = RunFiles(str(tmp_path), "loop")
    assert counts_of(files) == Counts()
    taken = line("transition", **LEAVE, reason="fail")
    log.write_text(ENTER + OUTPUT + taken + ENTER[:20])
    first = counts_of(files)
    assert (first.visits, first.taken) == ({"check": 1}, {("check", "fix-2"): 1})
    log.write_text(ENTER + OUTPUT + taken + ENTER + taken)
    again = counts_of(files, first)
    assert (again.visits, again.taken) == ({"check": 2}, {("check", "fix-2"): 2})
    assert again == counts_of(files)
