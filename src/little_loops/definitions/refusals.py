"""Count for each Claude Code session how often it was kept from ending."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from little_loops.errors import StorageError
from little_loops.system.files import Folder, to_json
from little_loops.system.lock_files import guarded
from little_loops.system.user_state import state_home

FOLDER = "stop-hook"
FILE = "refusals.json"
MAX_BYTES = 1 << 16
KEPT_SESSIONS = 200


def count_refusal(session: str, environ: Mapping[str, str]) -> int:
    """Count one more refusal for the session, and save it. Return their number."""
    with _counts(environ) as counts:
        count = counts.pop(session, 0) + 1
        counts[session] = count  # the newest is last
    return count


def forget_refusals(session: str, environ: Mapping[str, str]) -> None:
    with _counts(environ) as counts:
        counts.pop(session, None)


@contextmanager
def _counts(environ: Mapping[str, str]) -> Iterator[dict[str, int]]:
    """Yield the counts by session, under a lock, and save them when the block ends.

    Only the latest sessions are kept. Raises `StorageError` if the directory has just been removed.
    """
    path = os.path.join(state_home(environ), FOLDER)
    os.makedirs(path, mode=0o700, exist_ok=True)
    folder = Folder.at(path)
    if folder is None:
        raise StorageError(f"`{path}` no longer exists")
    with folder, guarded(folder):
        counts = _read(folder)
        yield counts
        latest = dict(list(counts.items())[-KEPT_SESSIONS:])
        folder.replace(FILE, to_json(latest), f"{FILE}.tmp")


def _read(folder: Folder) -> dict[str, int]:
    """Return the saved counts by session, the newest last; {} if they are missing or damaged."""
    try:
        kept = json.loads(folder.read(FILE, MAX_BYTES) or b"{}")
        return {str(session): int(count) for session, count in kept.items()}
    except (ValueError, TypeError, AttributeError):
        return {}  # damaged: the sessions are counted from 1 again
