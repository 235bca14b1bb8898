"""A small model of what a run's files mean, told in a few lines and by other means.

The engine is asked the same questions: what is there to go on with, and which steps are done?
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from little_loops.runs.layout import RunFiles
from tests.simulation.histories import parsed

Record = dict[str, Any]


class Nothing(NamedTuple):
    """There is no run."""


class Damaged(NamedTuple):
    """There is one, and its files do not tell a whole story."""


class At(NamedTuple):
    """There is one, and it has come as far as this event."""

    seq: int


View = Nothing | Damaged | At


def view(files: RunFiles) -> View:
    """The newest of snapshot and log; a log alone must begin at 1; neither may have holes.

    The first event may be there in part.  More than one line that is no event is somebody's doing.
    """
    snapshot, text = _snapshot(files), _text(files)
    log = [record["seq"] for record in parsed(text)]
    if isinstance(snapshot, int):
        behind = [seq for seq in log if seq > snapshot]
        whole = behind == list(range(snapshot + 1, snapshot + len(behind) + 1))
        return At(max([snapshot, *behind])) if whole else Damaged()
    if not log:
        torn = [line for line in text.split(b"\n")[:-1] if line]
        return Nothing() if snapshot is None and len(torn) <= 1 else Damaged()
    return At(log[-1]) if log == list(range(1, len(log) + 1)) else Damaged()


def _snapshot(files: RunFiles) -> int | str | None:
    """The number it stands for; a string if it is there and cannot be read."""
    try:
        with open(files.state, "rb") as file:
            return int(json.load(file)["seq"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return "damaged"


def whose(files: RunFiles) -> str | None:
    """Which run these files are of."""
    try:
        with open(files.state, "rb") as file:
            return str(json.load(file)["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return next((str(record["run"]) for record in parsed(_text(files))), None)


def _text(files: RunFiles) -> bytes:
    try:
        with open(files.events, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


class Story:
    """All that was ever recorded of the run under way."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}

    def add(self, record: Record) -> None:
        self.records[record["seq"]] = record

    def cut(self, seq: int) -> None:
        """What lay behind was lost by somebody's hand."""
        self.records = {each: self.records[each] for each in self.records if each <= seq}

    def done(self) -> list[str]:
        """The steps whose results are known."""
        return [r["state"] for r in self._all() if r["event"] == "action_complete" and _passed(r)]

    def owes_a_failure(self) -> bool:
        """The last that is known is a result that failed: what it means is still to be told."""
        records = self._all()
        last = records[-1] if records else {}
        return last.get("event") == "action_complete" and not _passed(last)

    def ended(self) -> tuple[str, str] | None:
        last = [r for r in self._all() if "reason" in r and "status" in r]
        resumed = [r["seq"] for r in self._all() if r["event"] == "resume"]
        if not last or (resumed and resumed[-1] > last[-1]["seq"]):
            return None
        return last[-1]["status"], last[-1]["reason"]

    def _all(self) -> list[Record]:
        return [self.records[seq] for seq in sorted(self.records)]


def _passed(record: Record) -> bool:
    return bool(record["exit_code"] == 0)
