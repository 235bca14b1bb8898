"""Whether a project has seals, and what a file that does not match them is called in messages.

Every command that reads runs asks this. Most projects have no seals, and then the rest (`seals`) is not
loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from little_loops.light_typing import TYPE_CHECKING, Final
from little_loops.system.user_state import key_of, shown_name, state_home

if TYPE_CHECKING:
    from little_loops.runs.seals import SealedRun, Seals

SEALS: Final = "seals"


def find_seals(root: str, environ: Mapping[str, str] = os.environ) -> Seals | None:
    """Return the seals of a project, or None if it certainly has none.

    Compares only the readable part of its key: a project of the same name may be the one with seals.
    """
    home, project = os.path.join(state_home(environ), SEALS), os.path.realpath(root)
    try:
        known = os.listdir(home)
    except OSError:
        return None
    begins = f"{shown_name(project)}-"
    if not any(name.startswith(begins) for name in known):
        return None  # and no hash has to be computed
    from little_loops.runs.seals import Seals  # only projects with evidence have some

    return Seals(os.path.join(home, key_of(project)))


def seal_of(root: str, run: str) -> SealedRun | None:
    """Return what the runner of one run has sealed; None if it was not sealed here."""
    seals = find_seals(root)
    return None if seals is None else seals.of(run)


def release_name(root: str, name: str, environ: Mapping[str, str]) -> None:
    """Let another run than the newest sealed one take the name."""
    seals = find_seals(root, environ)
    if seals is not None:
        seals.release(name)


def not_written_by(path: str) -> str:
    """Return the message for a file of a sealed run that its runner did not write."""
    return f"`{path}` was not written by this run"


def not_the_newest(run: str) -> str:
    """Return the message for files of a name that belong to another run than its newest."""
    return f"the last run's files ({run}) were replaced by other files"
