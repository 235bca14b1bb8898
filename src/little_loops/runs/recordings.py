"""Read a run as a recording: its whole log, and the definitions it had.

Unlike a view, which shows what can be read, this is strict: a log with a gap, an unreadable line or
events of another run raises `DamagedRun`. Of a sealed run, only what it wrote itself counts.

Not here: following a recording (`engine.following`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from little_loops import __version__
from little_loops.errors import DamagedRun
from little_loops.fsm.events import Entry, LoopStart
from little_loops.fsm.schema import FSMLoop
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.runs.layout import RunFiles
from little_loops.runs.storage import read_log, read_start
from little_loops.runs.view import RunView
from little_loops.templates.splice import with_data

EARLIER = "earlier"
VERSION = "version"


class RecordedDefinition(NamedTuple):
    """A definition that a run had up to an event, None for its last one."""

    loop: FSMLoop
    until: int | None = None


class RecordedRun(NamedTuple):
    """A run as its files describe it; `data` is the directory with its stored outputs.

    `version` is that of `ll-loop`, None if it is not known. Another version may have written other
    details, so only what the events say about the path counts.
    """

    entries: Sequence[Entry]
    definitions: Sequence[RecordedDefinition]
    context: Mapping[str, Any]
    data: str | None = None
    version: str | None = __version__

    @property
    def is_of_this_version(self) -> bool:
        return self.version == __version__


def read_recording(view: RunView) -> RecordedRun:
    """Return the recording of a run. Raises `DamagedRun` if its log is not whole, or the definition
    is missing."""
    files = view.files
    log = read_log(files)
    if not log.entries or not isinstance(log.entries[0].event, LoopStart):
        raise DamagedRun(f"`{files.events}` does not begin with the start of a run")
    _check_length(view, log.entries[-1].seq)
    start = read_start(files)
    definitions = _definitions(files, start)
    version = start.get(VERSION)
    context = with_data(start.get("context", {}), start.get("data", ()))
    return RecordedRun(log.entries, definitions, context, files.data, version)


def _check_length(view: RunView, last: int) -> None:
    """Raise `DamagedRun` if the log lacks events that the snapshot includes. A run that is alive
    writes both, one after the other."""
    summary = view.summary
    if summary is not None and not view.is_alive and summary.seq > last:
        raise DamagedRun(
            f"`{view.files.events}` is incomplete: it ends with event {last},"
            f" but the run has written {summary.seq}"
        )


def _definitions(files: RunFiles, start: Mapping[str, Any]) -> Sequence[RecordedDefinition]:
    """Return the definitions that the run had, oldest first. Raises `DamagedRun`."""
    try:
        earlier = [
            RecordedDefinition(FSMLoop.from_dict(each["loop"]), int(each["until"]))
            for each in start.get(EARLIER, ())
        ]
        return [*earlier, RecordedDefinition(FSMLoop.from_dict(start["loop"]))]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"`{files.run_json}`, the loop the run started with, is missing or damaged"
        raise DamagedRun(why) from error


def with_definition(start: Mapping[str, Any], loop: FSMLoop, seq: int) -> dict[str, Any]:
    """Return what a run was started with, after a resume replaced its definition. The earlier ones
    are kept, each with the number of its last event."""
    new = loop.to_dict()
    if start.get("loop") in (None, new):
        return {**start, "loop": new}
    earlier = [each for each in start.get(EARLIER, ()) if each["until"] < seq]
    return {**start, "loop": new, EARLIER: [*earlier, {"until": seq, "loop": start["loop"]}]}
