"""Git, as a worker and the reader of a fleet's runs start it.

Not here: what it is asked for (`workspace`, `outputs`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from little_loops.errors import LittleLoopsError

GIT_S = 600.0
"""How long one git command may take; it may fetch or push a whole repository."""
SAFE = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "gc.auto=0"),
)


class WorkspaceError(LittleLoopsError):
    """Git could not do what a workspace needs."""


def git(cwd: str, environ: Mapping[str, str], *words: str, stdin: str = "", umask: int = -1) -> str:
    """Run git, and return what it prints. Raises `WorkspaceError`."""
    try:
        done = subprocess.run(
            ["git", *SAFE, *words],
            cwd=cwd,
            env=dict(environ),
            input=stdin,
            capture_output=True,
            umask=umask,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=GIT_S,
        )
    except subprocess.TimeoutExpired as late:
        raise WorkspaceError(f"`git {_verb(words)}` did not finish within {GIT_S:g} s") from late
    if done.returncode:
        why = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise WorkspaceError(f"`git {_verb(words)}` failed: {'; '.join(why[-3:])}")
    return done.stdout.rstrip("\n")


def _verb(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def restore(own: str, environ: Mapping[str, str], tree: str, folder: str) -> None:
    """Write the files of a tree, in the repository `own`, into a folder, readable by this user only.
    Raises `WorkspaceError`."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    index = os.path.join(folder, ".restored.index")
    use = {**environ, "GIT_DIR": own, "GIT_WORK_TREE": folder, "GIT_INDEX_FILE": index}
    git(folder, use, "read-tree", "--reset", tree)
    git(folder, use, "checkout-index", "-q", "-a", "-f", umask=0o077)
    os.remove(index)
