"""Recorded streams with another text in them: what the agent said, and what its tools printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.hosts.recorded import endings, lines

Event = dict[str, Any]
UNKNOWN = "Unknown command"


class Part(NamedTuple):
    """What a program plays: its streams, and how it ends."""

    stdout: bytes
    stderr: str = ""
    exit_code: int | None = 0
    signal: int | None = None
    hangs: bool = False
    action_type: str = "prompt"


def play_claude(scene: str, said: str, printed: str) -> Part:
    """The agent's last words are `said`, and a tool has printed something else before."""
    return _part("claude", scene, said, _claude_tool(printed), _claude_text, _in_claude)


def play_codex(scene: str, said: str, printed: str) -> Part:
    if scene in WRITTEN:
        return _written_codex(WRITTEN[scene], play_codex("success", said, printed))
    return _part("codex", scene, said, _codex_tool(printed), _codex_text, _in_codex)


def play_command(ending: str, said: str, printed: str) -> Part:
    """A program of one's own has no protocol: its stdout is the text, whatever is on stderr."""
    codes = {"exits 0": 0, "exits 1": 1, "exits 3": 3, "is killed": None, "is silent": 1}
    silent = ending == "is silent"
    signal = 9 if ending == "is killed" else None
    return Part(b"" if silent else said.encode(), printed, codes[ending], signal)


def _part(
    host: str,
    scene: str,
    said: str,
    tool: Event,
    text: Callable[[str], Event],
    replace: Callable[[Event, str], bool],
) -> Part:
    ending = endings(host)[scene]
    events = [json.loads(line) for line in lines(host, scene) if line.startswith(b"{")]
    if events:
        events.insert(1, tool)
    replaced = [event for event in events if replace(event, said)]
    if events and not replaced:
        # It failed without a word of its own; what it said before changes nothing.
        events.insert(2, text(said))
    stream = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    ended = (ending["stderr"], ending["exit_code"], ending["signal"])
    return Part(stream, *ended, action_type="slash" if UNKNOWN.encode() in stream else "prompt")


# ── Claude Code ────────────────────────────────────────────────────────────────────────────────


def _claude_tool(printed: str) -> Event:
    result = {"tool_use_id": "toolu_9", "type": "tool_result", "content": printed}
    return {
        "type": "user",
        "message": {"role": "user", "content": [result]},
        "parent_tool_use_id": None,
        "tool_use_result": {"stdout": printed, "stderr": ""},
    }


def _claude_text(said: str) -> Event:
    message = {"role": "assistant", "content": [{"type": "text", "text": said}]}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None}


def _in_claude(event: Event, said: str) -> bool:
    """Put the text into the event that ends a turn well, and into the message it repeats."""
    if event["type"] == "result" and not event["is_error"] and event.get("result"):
        if event["result"].startswith(UNKNOWN):
            return False  # the program's words, not an agent's
        event["result"] = said
        return True
    content = event.get("message", {}).get("content") if event["type"] == "assistant" else None
    for part in content or ():
        if part["type"] == "text":
            part["text"] = said
    return False


# ── Codex ──────────────────────────────────────────────────────────────────────────────────────


def _codex_tool(printed: str) -> Event:
    item = {"id": "item_9", "type": "command_execution", "command": "cat old.log"}
    done = {"aggregated_output": printed, "exit_code": 0, "status": "completed"}
    return {"type": "item.completed", "item": {**item, **done}}


def _codex_text(said: str) -> Event:
    return {"type": "item.completed", "item": {"id": "x", "type": "agent_message", "text": said}}


def _in_codex(event: Event, said: str) -> bool:
    item = event.get("item", {})
    if item.get("type") == "agent_message":
        item["text"] = said
        return True
    return False


DECLINED = {"type": "command_execution", "command": "rm x", "status": "declined"}
WRITTEN: dict[str, Event] = {
    "declined": {"type": "item.completed", "item": {"id": "item_8", **DECLINED}},
    "refusal": {"type": "turn.failed", "error": {"message": "it violates our usage policy"}},
    "400": {"type": "turn.failed", "error": {"message": "unexpected status 400 Bad Request"}},
}
"""What could not be provoked in the real program, and so is in no recorded stream."""


def _written_codex(event: Event, success: Part) -> Part:
    *before, last = success.stdout.splitlines(keepends=True)
    is_end = event["type"] == "turn.failed"
    after = b"" if is_end else last
    stream = b"".join([*before, json.dumps(event).encode() + b"\n", after])
    return success._replace(stdout=stream, exit_code=int(is_end))
