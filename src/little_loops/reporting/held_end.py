"""Hold the end of an action back until its verdict is known, so that it is told with its sign.

A command that exits with 1 may have passed and one that exits with 0 may have failed: the condition
says so, in the next event.  Nothing else is held back but what stands between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]

GOOD = ("pass", "target", "progress")
BAD = ("fail", "stall", "error", "timeout")
BETWEEN = ("cost", "signal", "warning")


class HeldEnd:
    """Records in, records out in the same order; an `action_complete` gains `good`."""

    def __init__(self) -> None:
        self._held: list[Record] = []

    def feed(self, record: Record) -> list[Record]:
        """What can be told now."""
        if not self._held and record["event"] != "action_complete":
            return [record]  # as most
        if self._held and record["event"] in BETWEEN:
            self._held.append(record)
            return []
        held, self._held = self._held, []
        verdict = _verdict(record)
        if held and verdict in GOOD + BAD:
            held[0] = {**held[0], "good": verdict in GOOD}
        if record["event"] != "action_complete":
            return [*held, record]
        self._held.append(record)
        return held


def _verdict(record: Record) -> str | None:
    if record["event"] == "condition_eval":
        return str(record["result"])
    if record["event"] == "transition":
        return str(record["reason"]).removeprefix("on_")
    return None
