"""Where this program stores its data about a user, outside of any project."""

from __future__ import annotations

import os
from collections.abc import Mapping

from little_loops.errors import StorageError
from little_loops.light_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from little_loops.system.files import Folder

SHOWN_NAME = 40
EDITING = "editing.json"
"""Which loops are being edited; few users have this file."""


def has_edits(environ: Mapping[str, str]) -> bool:
    """Return whether the user may be editing a loop, in any project."""
    return os.path.exists(os.path.join(state_home(environ), EDITING))


def state_home(environ: Mapping[str, str]) -> str:
    """Return `$XDG_STATE_HOME/little-loops`, or its default below the home directory; a relative
    path there is ignored. Nothing is created."""
    given = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        return os.path.join(given, "little-loops")
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(home, ".local", "state", "little-loops")


def cache_home(environ: Mapping[str, str]) -> str:
    """Return `$XDG_CACHE_HOME/little-loops`, or its default below the home directory; a relative
    path there is ignored. Nothing is created."""
    given = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(given):
        return os.path.join(given, "little-loops")
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(home, ".cache", "little-loops")


def check_owner(folder: Folder) -> None:
    """Raise `StorageError` if the directory belongs to another user or others can write to it."""
    seen = os.fstat(folder.fd)
    if seen.st_uid != os.geteuid() or seen.st_mode & 0o022:
        raise StorageError(
            f"`{folder.path}` is writable by other users",
            f"chown it to yourself and `chmod 700 {folder.path}`",
        )


def key_of(project: str) -> str:
    """Return a readable and unique name for a project, by its real path."""
    import hashlib  # 2 ms, only needed for evidence

    digest = hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
    return f"{shown_name(project)}-{digest}"


def shown_name(project: str) -> str:
    """Return the readable part of a project's key, which other projects may share."""
    name = os.path.basename(project)[:SHOWN_NAME]
    kept = (each if each.isascii() and (each.isalnum() or each in "._-") else "_" for each in name)
    return "".join(kept) or "root"
