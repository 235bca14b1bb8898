"""The recorded streams: what the real CLIs printed, and how they ended (`tests.live.record_streams`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from little_loops.hosts.base import Cut, HostEvent, Outcome, Request, host_named
from tests.live.scenes import SESSION

STREAMS = Path(__file__).parent / "streams"


class Played(NamedTuple):
    events: list[HostEvent]
    outcome: Outcome


def endings(host: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((STREAMS / host / "endings.json").read_text("utf-8"))
    return found


def lines(host: str, scene: str) -> list[bytes]:
    return (STREAMS / host / f"{scene}.jsonl").read_bytes().splitlines(keepends=True)


def request(host: str, scene: str) -> Request:
    ending = endings(host)[scene]
    words = tuple(ending["words"]) if ending["words"] else None
    return Request(ending["action"], ending["kind"], "/project", SESSION, words)


def play(host: str, scene: str, cut_by: Cut = "none") -> Played:
    """Feed a recorded stream to a reader, as the engine would."""
    ending, reader = endings(host)[scene], host_named(host).reader(request(host, scene))
    events = [event for line in lines(host, scene) for event in reader.feed(line)]
    return Played(
        events, reader.finish(ending["exit_code"], ending["signal"], ending["stderr"], cut_by)
    )
