"""Where this program keeps what it remembers about a user, outside of any project."""

from __future__ import annotations

import os
from collections.abc import Mapping


def state_home(environ: Mapping[str, str]) -> str:
    """`$XDG_STATE_HOME/little-loops`, or the same place under the home directory."""
    given = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):
        return os.path.join(given, "little-loops")
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(home, ".local", "state", "little-loops")
