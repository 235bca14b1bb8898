"""What is said of an action that has ended."""

from __future__ import annotations

from typing import Any

import pytest

from little_loops.reporting.lines import Teller

REFUSED = {"agent": "wait", "reason": "a rate limit was reached"}


def row(name: str, kind: str, told: str, **fields: Any):
    return pytest.param(kind, fields, told, id=name)


@pytest.mark.parametrize(
    ("kind", "fields", "told"),
    [
        row("a command", "shell", "✓ two (exit 0)", output="one\ntwo\n"),
        row("a command that printed much", "shell", "✓ the end (exit 0)", output=None, tail="the end"),
        row("a command without a word", "shell", "✓ (exit 0)", output=""),
        row("an agent", "prompt", "✓ I mended it", output="I mended it", agent="success"),
        row("an agent without an answer", "prompt", "✗ a rate limit was reached",
            output="", tail='{"type": "result", "is_error": true}\n', **REFUSED),
    ],
)  # fmt: skip
def test_an_action_ends_with_what_it_said(kind: str, fields: dict[str, Any], told: str) -> None:
    teller = Teller("demo", 9)
    start = {"state": "a", "attempt": 1, "action": "x", "action_type": kind}
    teller.lines({"event": "action_start", **start})
    end = {"event": "action_complete", "exit_code": 0, "duration_ms": 3, "stderr": "", **fields}
    assert teller.lines(end) == [f"       {told}"]
