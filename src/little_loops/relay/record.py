"""The turns of a relay so far, and the two files that mark a relay as running.

`relay.json` in the run's directory lists the settled turns, for decisions and for the report, and
what to clean up when the run has ended. It is a file because it grows with every turn, which the
run's state must not; the current turn is in the state, as the output of `prepare`. Beside the
metadata, `.postflight-loop-guard` contains the number of the turn, and `.postflight-pending` exists
until the run has ended.

Files are written atomically, and replace a planted link instead of following it. Paths are relative
to `home`, and appear in messages as they are given.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress

from little_loops.errors import DamagedRun, StorageError
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.relay.rules import RelayTurn
from little_loops.system.plain_files import open_plain

FORMAT = 1
MEMORY = "relay.json"
REPORT = "relay-report.txt"
GUARD = ".postflight-loop-guard"
MARKER = ".postflight-pending"
LARGEST = 64 << 20
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Task(NamedTuple):
    """The task that the plan belongs to, and the files with its status; empty if there is none."""

    id: str = ""
    state: str = ""
    todo: str = ""


class Relay(NamedTuple):
    """A relay so far: its settled turns, and the number of the last one that was prepared.

    `metadata` is empty if version one wrote the file.
    """

    session: str = ""
    turns: tuple[RelayTurn, ...] = ()
    metadata: str = ""
    task: Task = Task()
    prepared: int = 0

    def before(self, number: int) -> tuple[RelayTurn, ...]:
        """Return the turns before `number`, so that settling a turn twice does not count it twice."""
        return tuple(turn for turn in self.turns if turn.number < number)


def load(run_dir: str) -> Relay:
    """Load the relay of a run; an empty one before the first turn.

    Raises `DamagedRun` if the file is damaged.
    """
    path = os.path.join(run_dir, MEMORY)
    content = read_small(path, LARGEST)
    if content is None:
        return Relay()
    try:
        return _relay(json.loads(content))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise DamagedRun(
            f"`{path}` is damaged: {problem}", "move it away to start counting turns from 1"
        ) from problem


def _relay(data: dict[str, Any]) -> Relay:
    """Parse a relay. Version one also stored the current turn here; the run's state has it now."""
    if data["format"] != FORMAT:
        raise ValueError(f"format {data['format']!r} is not {FORMAT}")
    turns = tuple(_turn(turn) for turn in data["turns"])
    task = Task(**{name: str(text) for name, text in data.get("task", {}).items()})
    metadata, prepared = str(data.get("metadata", "")), int(data.get("prepared", 0))
    return Relay(str(data["session"]), turns, metadata, task, prepared)


def _turn(data: Mapping[str, Any]) -> RelayTurn:
    """Parse a turn."""
    lists = ("errors", "notes", "artifacts")
    fields: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in data.items()}
    return RelayTurn(**fields)


def save(run_dir: str, relay: Relay) -> None:
    turns = [turn._asdict() for turn in relay.turns]
    data = {"format": FORMAT, **relay._asdict(), "turns": turns, "task": relay.task._asdict()}
    write_atomically(os.path.join(run_dir, MEMORY), json.dumps(data, indent=1) + "\n")


def kept_metadata(run_dir: str, turn: int) -> str:
    """Return where the metadata of a turn is kept; for turn 0, a file from before the first turn."""
    return os.path.join(run_dir, f"metadata-turn-{turn}.json")


# ── guard and marker ───────────────────────────────────────────────────────────────────────────


class Pending(NamedTuple):
    """A turn that has not ended, according to the marker and the guard."""

    run: str
    session: str
    number: int


def pending_at(metadata: str, home: str = "") -> Pending | None:
    """Return the turn that an earlier process left unfinished; its number is 0 if unknown.

    None if there is none, or its marker is unreadable.
    """
    try:
        marker = read_small(_beside(metadata, MARKER), 4096, home)
        count = (read_small(_beside(metadata, GUARD), 4096, home) or "").strip()
    except StorageError:
        return None
    if marker is None:
        return None
    lines = [*marker.splitlines(), "", ""]
    number = int(count) if count.isascii() and count.isdigit() and len(count) < 10 else 0
    return Pending(lines[0].strip(), lines[1].strip(), number)


def mark_pending(metadata: str, turn: Pending, home: str = "") -> int:
    """Write marker and guard. Return the time of writing, by the file system's clock.

    Creates their directory. Raises `StorageError` if that fails.
    """
    _make_parent(metadata, home)
    write_atomically(_beside(metadata, MARKER), f"{turn.run}\n{turn.session}\n", home)
    guard = _beside(metadata, GUARD)
    write_atomically(guard, f"{turn.number}\n", home)
    # The clock of file timestamps lags behind `time.time_ns`.
    return os.stat(os.path.join(home, guard)).st_mtime_ns


def marked_at(metadata: str, home: str = "") -> int | None:
    """Return when the current turn was marked; None if its guard is gone."""
    try:
        return os.lstat(os.path.join(home, _beside(metadata, GUARD))).st_mtime_ns
    except OSError:
        return None


def unmark(metadata: str, home: str = "") -> None:
    """Remove guard and marker when the run has ended; the marker last."""
    for name in (GUARD, MARKER):
        _remove(_beside(metadata, name), home)


def _remove(path: str, home: str = "") -> None:
    """Remove a file if it exists; raise `StorageError` if that fails."""
    try:
        os.unlink(os.path.join(home, path))
    except FileNotFoundError:
        pass
    except OSError as problem:
        raise _failure("remove", path, problem) from problem


def _beside(metadata: str, name: str) -> str:
    return os.path.join(os.path.dirname(metadata), name)


def _make_parent(path: str, home: str) -> None:
    """Create the directory that contains a path; raise `StorageError` if that fails."""
    parent = os.path.dirname(path) or "."
    try:
        os.makedirs(os.path.join(home, parent), exist_ok=True)
    except OSError as problem:
        raise _failure("make", parent, problem) from problem


# ── files ──────────────────────────────────────────────────────────────────────────────────────


def read_small(path: str, limit: int, home: str = "") -> str | None:
    """Return the text of a regular file; None if there is none."""
    content = read_plain(path, limit, home)
    return None if content is None else content.decode("utf-8", "replace")


def read_plain(path: str, limit: int, home: str = "") -> bytes | None:
    """Return the content of a regular file; None if there is none.

    Raises `StorageError` if it cannot be read or is larger than `limit`.
    """
    try:
        descriptor = open_plain(os.path.join(home, path), os.O_RDONLY | os.O_NOFOLLOW)
        with open(descriptor, "rb") as stream:
            content = stream.read(limit + 1)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _failure("read", path, problem) from problem
    if len(content) > limit:
        raise StorageError(f"`{path}` is larger than {limit} bytes")
    return content


def write_atomically(path: str, text: str, home: str = "", *, mode: int = 0o600) -> None:
    """Write a file so that after a crash it is either the old one or the new one.

    Raises `StorageError` if that fails.
    """
    full = os.path.join(home, path)
    # Always the same name, so that what a killed process left is replaced; and nobody else's.
    temporary = f"{full}.ll-loop.tmp"
    try:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        with open(os.open(temporary, NEW, mode), "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(temporary, full)
    except OSError as problem:
        with suppress(OSError):
            os.unlink(temporary)
        raise _failure("write", path, problem) from problem


def _failure(doing: str, path: str, problem: OSError) -> StorageError:
    return StorageError(f"cannot {doing} `{path}`: {(problem.strerror or str(problem)).lower()}")
