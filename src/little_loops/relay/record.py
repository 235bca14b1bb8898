"""What a relay remembers between its turns, and the two files that say a relay is under way.

`relay.json` in the run's directory is the memory.  Beside the metadata `.postflight-loop-guard`
holds the number of the turn, and `.postflight-pending` stays until the relay has come to its final
end; should the memory be lost, a resume reads the session from them.

Everything is written whole or not at all, and over a planted link, never through it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from little_loops.errors import DamagedRun, StorageError
from little_loops.records import NamedTuple
from little_loops.relay.rules import HandOver, Turn

FORMAT = 1
MEMORY = "relay.json"
REPORT = "relay-report.txt"
GUARD = ".postflight-loop-guard"
MARKER = ".postflight-pending"
LARGEST = 64 << 20


class Relay(NamedTuple):
    """A relay so far.  `number` and what follows it belong to the turn under way."""

    run: str
    session: str
    number: int = 0
    started_ns: int = 0
    started: HandOver = HandOver(1, None, "")
    turns: tuple[Turn, ...] = ()
    not_before_ms: int = 0
    wait_ms: int = 0
    commits: bool = True
    ended: bool = False

    def before(self) -> tuple[Turn, ...]:
        """The turns before the one under way; settling it twice must not count it twice."""
        return tuple(turn for turn in self.turns if turn.number < self.number)


def load(run_dir: str) -> Relay | None:
    path = os.path.join(run_dir, MEMORY)
    content = read_small(path, LARGEST)
    if content is None:
        return None
    try:
        return _relay(json.loads(content))
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise DamagedRun(
            f"`{path}` is damaged: {problem}", "move it away to start counting turns anew"
        ) from problem


def _relay(data: dict[str, Any]) -> Relay:
    fields = dict(data)
    if fields.pop("format") != FORMAT:
        raise ValueError(f"format {data['format']!r} is not {FORMAT}")
    fields["started"] = HandOver(**fields["started"])
    fields["turns"] = tuple(_turn(turn) for turn in fields["turns"])
    return Relay(**fields)


def _turn(data: Mapping[str, Any]) -> Turn:
    lists = ("errors", "notes", "artifacts")
    fields: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in data.items()}
    return Turn(**fields)


def save(run_dir: str, relay: Relay) -> None:
    data = {
        "format": FORMAT,
        **relay._asdict(),
        "started": relay.started._asdict(),
        "turns": [turn._asdict() for turn in relay.turns],
    }
    write_whole(os.path.join(run_dir, MEMORY), json.dumps(data, indent=1) + "\n")


# ── guard and marker ───────────────────────────────────────────────────────────────────────────


class Pending(NamedTuple):
    """A relay that has not come to its end, by its marker and guard."""

    run: str
    session: str
    number: int


def pending_at(metadata: str) -> Pending | None:
    """What an earlier process left beside the metadata; what cannot be read says nothing."""
    try:
        marker = read_small(_beside(metadata, MARKER), 4096)
        count = (read_small(_beside(metadata, GUARD), 4096) or "").strip()
    except StorageError:
        return None
    if marker is None:
        return None
    lines = [*marker.splitlines(), "", ""]
    number = int(count) if count.isascii() and count.isdigit() and len(count) < 10 else 0
    return Pending(lines[0].strip(), lines[1].strip(), number)


def mark_pending(metadata: str, relay: Relay) -> int:
    """Write marker and guard; the answer is the time of writing, by the file system's own clock."""
    _make_parent(metadata)
    write_whole(_beside(metadata, MARKER), f"{relay.run}\n{relay.session}\n")
    guard = _beside(metadata, GUARD)
    write_whole(guard, f"{relay.number}\n")
    # A program's clock runs ahead of the one files are stamped with.
    return os.stat(guard).st_mtime_ns


def unmark(metadata: str) -> None:
    """The final end; the marker goes last."""
    for name in (GUARD, MARKER):
        path = _beside(metadata, name)
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as problem:
            raise _failure("remove", path, problem) from problem


def _beside(metadata: str, name: str) -> str:
    return os.path.join(os.path.dirname(metadata), name)


def _make_parent(path: str) -> None:
    parent = os.path.dirname(path) or "."
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError as problem:
        raise _failure("make", parent, problem) from problem


# ── files ──────────────────────────────────────────────────────────────────────────────────────


def read_small(path: str, limit: int) -> str | None:
    """The text of a plain file, or None if there is none."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(path, flags), "rb") as stream:
            content = stream.read(limit + 1)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise _failure("read", path, problem) from problem
    if len(content) > limit:
        raise StorageError(f"`{path}` is larger than {limit} bytes")
    return content.decode("utf-8", "replace")


def write_whole(path: str, text: str) -> None:
    """Put a file in place: after a crash it is the old one or the new one."""
    temporary = f"{path}.tmp"  # one name, so that what a killed process left is written over
    try:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(temporary, path)
    except OSError as problem:
        with suppress(OSError):
            os.unlink(temporary)
        raise _failure("write", path, problem) from problem


def _failure(doing: str, path: str, problem: OSError) -> StorageError:
    return StorageError(f"cannot {doing} `{path}`: {(problem.strerror or str(problem)).lower()}")
