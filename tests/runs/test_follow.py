"""A run is followed while it writes: every event, and what its actions print between them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from little_loops.fsm.events import Entry
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.reporting.masking import Masker
from little_loops.runs.follow import RECENT_BYTES, Following, follow
from little_loops.runs.output_files import RunOutput, rescue
from little_loops.runs.playback import AgentActivity, Item, PrintedText, ToolEnded, UsageSoFar
from little_loops.runs.reading import Runs
from little_loops.runs.storage import create
from tests.entries import whole

SECRET = "hunter22-is-secret"
AT = "2026-01-15T10:30:00.000Z"
LOOP = {
    "name": "fix",
    "initial": "a",
    "states": {
        "a": {"action": "x", "next": "b"},
        "b": {"action": "Fix it.", "action_type": "prompt", "next": "a"},
    },
}


class Writing:
    """A run that is written a piece at a time, as its engine does it."""

    def __init__(self, root: str) -> None:
        self._writer = create(root, "fix", {"loop": FSMLoop.from_dict(LOOP).to_dict()})
        self._seq = self._step = 0
        self.output = RunOutput(self._writer.data, Masker({"API_TOKEN": SECRET}))
        self._runs = Runs(root)

    def event(self, kind: str, **fields: Any) -> None:
        self._seq += 1
        common = {"seq": self._seq, "run": "r1", "ts": AT, "ran_ms": 0}
        self._writer.append([{**whole(kind, **fields), **common}])
        run = LoopState("r1", "fix", "a", AT, AT, phase="ended", seq=self._seq)
        self._writer.save(run)

    def begin(self, state: str, action_type: str = "shell", attempt: int = 1) -> None:
        if attempt == 1:
            self._step += 1
            self.event("state_enter", state=state, step=self._step)
        self.event("action_start", state=state, action_type=action_type, attempt=attempt)
        self.action = self.output.action(self._step, attempt)

    def end(self, **how: Any) -> None:
        out, err, order, _ = self.action.end(**how)
        fields: dict[str, Any] = {
            "output": None if out.text is None else out.text.removesuffix("\n"),
            "stderr": None if err.text is None else err.text.removesuffix("\n"),
            "order": order,
        }
        if out.path is not None:
            name = "stream_file" if how else "output_file"
            kept = {"path": out.path, "size": out.size, "sha256": out.sha256}
            fields[name] = kept | {"has_secrets": out.has_secrets}
        self.event("action_complete", **fields)

    def crash(self) -> None:
        """Its process is gone; another one continues."""
        rescue(self._writer.data, self._step, 1)
        self.output = RunOutput(self._writer.data)
        self.event("action_interrupted", attempt=1, cause="crash")

    def follow(self, most: int | None = None) -> Following:
        view = self._runs.view("fix")
        assert view is not None
        return follow(self._runs, view, most)

    def close(self) -> None:
        self.output.close()
        self._writer.close()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Writing]:
    run = Writing(str(tmp_path))
    yield run
    run.close()


def story(items: list[Item]) -> list[str]:
    told = []
    for item in items:
        match item:
            case Entry(event=event):
                told.append(type(event).__name__)
            case PrintedText(stream, data):
                told.append(f"{stream}: {data.decode()}")
            case AgentActivity(text):
                told.append(f"doing: {text}")
            case ToolEnded(text):
                told.append(f"did: {text}")
            case UsageSoFar(tokens):
                told.append(f"used: {tokens}")
    return told


def test_output_is_told_within_its_action(run):
    run.begin("a")
    run.action.stdout(b"one\ntw")
    with run.follow(RECENT_BYTES) as following:
        assert story(following.begin()) == ["StateEnter", "ActionStart", "stdout: one\ntw"]
        assert following.began_ms is not None
        assert following.news() == []
        run.action.stdout(b"o\n")
        run.action.stderr(b"aside\n")
        run.action.stdout(b"three\n")
        assert story(following.news()) == ["stdout: o\n", "stderr: aside\n", "stdout: three\n"]
        run.action.stdout(b"four\n")
        run.end()
        run.begin("a")
        run.action.stdout(b"five\n")
        assert story(following.news()) == [
            *("stdout: four\n", "ActionComplete", "StateEnter", "ActionStart"),
        ]
        assert story(following.news()) == ["stdout: five\n"]
        run.end()
        assert story(following.news()) == ["ActionComplete"]
        assert following.began_ms is None


def test_what_was_printed_before_the_present_state_is_old(run):
    run.begin("a")
    run.action.stdout(b"old\n")
    run.end()
    run.begin("a")
    run.action.stdout(b"new\n")
    with run.follow(RECENT_BYTES) as following:
        assert story(following.begin()) == ["StateEnter", "ActionStart", "stdout: new\n"]


def test_all_of_a_run(run):
    run.begin("a")
    run.action.stderr(b"first\n")
    run.action.stdout(b"second\n")
    run.end()
    run.begin("a")
    run.action.stdout(b"x" * 5000)
    run.end()
    with run.follow() as following:
        told = story(list(following.all()))
    assert told == [
        *("StateEnter", "ActionStart", "stderr: first\n", "stdout: second\n", "ActionComplete"),
        *("StateEnter", "ActionStart", f"stdout: {'x' * 5000}", "ActionComplete"),
    ]


def test_an_action_that_was_lost_with_its_runner(run):
    run.begin("a")
    run.action.stdout(b"so far")
    run.crash()
    run.begin("a", attempt=2)
    run.action.stdout(b"again")
    run.end()
    with run.follow() as following:
        assert story(list(following.all())) == [
            *("StateEnter", "ActionStart", "stdout: so far", "ActionInterrupted"),
            *("ActionStart", "stdout: again\n", "ActionComplete"),
        ]


def test_a_secret_is_not_shown_however_it_comes(run):
    run.begin("a")
    with run.follow() as following:
        following.begin()
        run.action.stdout(b"it is " + SECRET[:9].encode())
        assert story(following.news()) == ["stdout: it is "]
        run.action.stdout(SECRET[9:].encode() + b" indeed\n")
        assert story(following.news()) == ["stdout: *** indeed\n"]
        run.end()
        assert story(following.news()) == ["ActionComplete"]
    with run.follow() as following:
        assert "stdout: it is *** indeed\n" in story(list(following.all()))


def test_a_very_long_output_comes_in_pieces(run):
    run.begin("a")
    run.action.stdout(b"a" * 200_000)
    with run.follow() as following:
        items = [item for item in following.begin() if isinstance(item, PrintedText)]
    assert b"".join(item.data for item in items) == b"a" * 200_000
    assert max(len(item.data) for item in items) <= 1 << 16


SAID = [
    {"type": "system", "subtype": "init", "session_id": "s", "model": "m"},
    {
        "type": "assistant",
        "message": {
            "id": "1",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "name": "Read", "input": {"file_path": "src/a.py"}},
            ],
            "usage": {"input_tokens": 5, "output_tokens": 2},
        },
    },
]


def test_what_an_agent_says_and_does_is_read_from_its_stream(run):
    lines = b"".join(json.dumps(event).encode() + b"\n" for event in SAID)
    run.begin("b", "prompt")
    run.action.stdout(lines[:80])
    with run.follow() as following:
        following.begin()
        run.action.stdout(lines[80:])
        told = story(following.news())
        assert [line for line in told if not line.startswith("used")] == [
            *("stdout: I look.\n", "doing: Reading src/a.py"),
        ]
        run.end(suffix="jsonl", always_kept=True)
        assert story(following.news()) == ["ActionComplete"]
    with run.follow() as following:
        assert "stdout: I look.\n" in story(list(following.all()))
