"""Wait for the lock that a git holds while it changes an index, and find out that a killed one has left
it.

Git processes outlive a killed run for as long as they take, and a killed git leaves its lock.
"""

from __future__ import annotations

import os
import time

from little_loops.errors import StoreError
from little_loops.trees.git import Git
from little_loops.trees.repository_files import GIT, lock_of_index

WAIT_S = 10.0
"""How long another git process may take. Git offers no way to see whether it is still working."""
POLL_S = 0.05


def wait_until_gone(git: Git, lock: str, wait_s: float = WAIT_S) -> bool:
    """Wait until a lock file is gone, for `wait_s` at most; return whether it is gone. Raises
    `Interrupted` on a stop."""
    until = time.monotonic() + wait_s
    while os.path.lexists(lock):
        if time.monotonic() >= until:
            return False
        git.check()
        time.sleep(POLL_S)
    return True


def unlock_index(git: Git, place: str, wait_s: float = WAIT_S) -> None:
    """Delete the lock that a killed git has left in a worktree of ours, in which nobody else works
    at this time. A git that is still at work has `wait_s` to end. Raises `StoreError`."""
    # Without a `.git` of its own, it would be another repository's.
    lock = lock_of_index(place) if os.path.lexists(os.path.join(place, GIT)) else None
    if lock is not None and not wait_until_gone(git, lock, wait_s):
        try:
            os.unlink(lock)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot delete `{lock}`: {error.strerror}") from error
