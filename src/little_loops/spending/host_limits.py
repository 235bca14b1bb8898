"""Until when agents are limited, as the user's runs have met it: one small file outside of projects.

It saves a run with a fallback from trying an agent that another run has just seen refuse. It is a
hint: a file that is missing, damaged or cannot be written costs an attempt, and nothing else.

Not here: choosing an agent (`fsm.fallbacks`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from little_loops.errors import StorageError
from little_loops.system.files import PRIVATE_FOLDER, Folder, to_json
from little_loops.system.lock_files import guarded
from little_loops.system.user_state import state_home

FOLDER = "hosts"
FILE = "limits.json"
MAX_BYTES = 1 << 16
MOST_HOSTS = 100
LONGEST_MS = 8 * 24 * 3_600_000
"""The longest limits last a week; a later reset is a mistake, or the clock was changed."""


def known(environ: Mapping[str, str], now_ms: int) -> dict[str, int]:
    """Return until when agents are limited, by name; without limits that are over, and {} if that
    cannot be read."""
    try:
        folder = Folder.at(os.path.join(state_home(environ), FOLDER))
    except StorageError:
        return {}
    if folder is None:
        return {}
    with folder:
        return _read(folder, now_ms)


def remember(environ: Mapping[str, str], host: str, until_ms: int, now_ms: int) -> None:
    """Record that an agent is limited until then. Raises `StorageError`."""

    def add(limits: dict[str, int]) -> None:
        limits.pop(host, None)  # the newest is last
        limits[host] = min(until_ms, now_ms + LONGEST_MS)

    _update(environ, now_ms, add)


def forget(environ: Mapping[str, str], host: str, now_ms: int) -> None:
    """Remove the limit of an agent that has just worked. Raises `StorageError`."""
    if host in known(environ, now_ms):
        _update(environ, now_ms, lambda limits: limits.pop(host, None))


def _update(
    environ: Mapping[str, str], now_ms: int, change: Callable[[dict[str, int]], object]
) -> None:
    """Change the limits under a lock, and replace the file. Raises `StorageError`."""
    path = os.path.join(state_home(environ), FOLDER)
    try:
        os.makedirs(path, mode=PRIVATE_FOLDER, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create `{path}`: {error.strerror}") from error
    folder = Folder.at(path)
    if folder is None:
        raise StorageError(f"`{path}` no longer exists")
    with folder, guarded(folder):
        limits = _read(folder, now_ms)
        change(limits)
        latest = dict(list(limits.items())[-MOST_HOSTS:])
        folder.replace(FILE, to_json(latest) + b"\n", f".{FILE}.{os.urandom(8).hex()}")


def _read(folder: Folder, now_ms: int) -> dict[str, int]:
    """Return the limits that last; {} if the file is missing or damaged."""
    try:
        kept = json.loads(folder.read(FILE, MAX_BYTES) or b"{}")
        limits = {str(host): int(until_ms) for host, until_ms in kept.items()}
    except (StorageError, ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return {}
    return {
        host: until_ms
        for host, until_ms in limits.items()
        if now_ms < until_ms <= now_ms + LONGEST_MS
    }
