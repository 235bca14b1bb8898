"""The index of the history: one line for each past run, for lists of thousands of runs.

A run that ends appends its line, and a line that comes later replaces an earlier one of the same
run. The index only saves time: a run that it lacks is read from its files, and a line without a run
is ignored (`past_runs`). So writing it never fails a run, and it can be deleted at any time.

Not here: which past runs there are (`history`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from little_loops import light_json as json
from little_loops.errors import StorageError
from little_loops.fsm.timestamps import wall_ms_of
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.runs.layout import INDEX, STATE
from little_loops.runs.state_file import MAX_BYTES
from little_loops.system.files import Folder, to_json, write_all

MAX_INDEX_BYTES = 1 << 30


class PastRun(NamedTuple):
    """What the index has of a past run."""

    name: str
    stem: str
    run: str
    loop: str
    status: str
    reason: str | None
    state: str
    started_ms: int
    updated_ms: int
    ran_ms: int
    iteration: int
    cost_usd: float
    tokens: int

    @property
    def place(self) -> tuple[str, str]:
        return self.name, self.stem


def is_index(history: Folder, name: str) -> bool:
    """Return whether a name in the history is the index, and not a loop that is called like it."""
    if name != INDEX:
        return False
    try:
        os.close(history.open(name, os.O_RDONLY))
    except (StorageError, FileNotFoundError):
        return False
    return True


def add_to_index(history: Folder, folder: Folder, name: str, stem: str) -> None:
    """Append the line of a run that was just archived to `folder`. Takes no lock, and never fails:
    what cannot be written is missing."""
    with suppress(StorageError, OSError, FileNotFoundError):
        found = _past_run(folder.read(stem + STATE, MAX_BYTES), name, stem)
        if found is not None:
            _append(history, _line(found))


def _append(history: Folder, line: bytes) -> None:
    descriptor = history.open(INDEX, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line  # a crash left half a line
        write_all(descriptor, line)
    finally:
        os.close(descriptor)


def write_index(history: Folder, runs: Iterable[PastRun]) -> None:
    """Replace the index. Raises `StorageError` if it cannot be written."""
    data = b"".join(map(_line, runs))
    history.replace(INDEX, data, f"{INDEX}.tmp-{os.urandom(8).hex()}", mode=0o600)


def drop_from_index(history: Folder, gone: Callable[[PastRun], bool]) -> None:
    """Remove the lines of deleted runs; does nothing if there is no index, or it cannot be
    written."""
    with suppress(StorageError):
        raw = history.read(INDEX, MAX_INDEX_BYTES)
        if raw is not None:
            write_index(history, (each for each in parse_lines(raw) if not gone(each)))


def _line(run: PastRun) -> bytes:
    return to_json(run._asdict()) + b"\n"


def parse_lines(data: bytes) -> list[PastRun]:
    """Return the runs of these lines; lines that are not valid are skipped."""
    found = (_parse(line) for line in data.split(b"\n") if line)
    return [run for run in found if run is not None]


def _parse(line: bytes) -> PastRun | None:
    try:
        fields = json.loads(line)
        return _checked(PastRun(**fields)) if isinstance(fields, dict) else None
    except (ValueError, RecursionError, TypeError):
        return None


def _checked(run: PastRun) -> PastRun | None:
    """Return the run if its fields have the right types, because anybody can edit the file."""
    texts = (run.name, run.stem, run.run, run.loop, run.status, run.state, run.reason or "")
    numbers = (run.started_ms, run.updated_ms, run.ran_ms, run.iteration, run.tokens)
    is_right = all(type(text) is str for text in texts) and all(type(n) is int for n in numbers)
    return run if is_right and type(run.cost_usd) in (int, float) else None


def _past_run(raw: bytes | None, name: str, stem: str) -> PastRun | None:
    """Return the line for a run with this state file; None if the file is missing or damaged, or was
    written before the run ended: then other files say how it ended.

    Only a few fields are read: decoding all of them would take longer than everything else here.
    """
    try:
        state: dict[str, Any] = json.loads(raw or b"")
        costs = state.get("costs", {}).values()
        found = PastRun(
            name,
            stem,
            state.get("run", ""),
            state.get("loop", ""),
            state.get("status", ""),
            state.get("reason"),
            state.get("current_state", ""),
            wall_ms_of(state.get("started_at", "")),
            wall_ms_of(state.get("updated_at", "")),
            state.get("ran_ms", 0),
            state.get("iteration", 0),
            round(float(sum(each.get("cost_usd", 0) for each in costs)), 6),
            sum(each.get("tokens", 0) for each in costs),
        )
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    return None if found.status == "running" else _checked(found)
