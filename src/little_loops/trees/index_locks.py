"""Wait for the lock that a git holds while it changes an index, and find out that a killed one has left
it.

Git processes outlive a killed run for as long as they take, and a killed git leaves its lock.
"""

from __future__ import annotations

import os
import time

from little_loops.errors import StoreError
from little_loops.trees.git import Git

WAIT_S = 10.0
"""How long another git may take. Git offers no way to see whether it is still at work."""
POLL_S = 0.05


def lock_of_index(git: Git, directory: str) -> str:
    """Return the file that exists while a git changes the index of a repository or worktree."""
    words = ["rev-parse", "--path-format=absolute", "--git-path", "index.lock"]
    answer = git.read(directory, words)
    if answer.code != 0:
        raise StoreError(f"git cannot find the index: {answer.complaint}")
    return os.fsdecode(answer.out).rstrip("\n")


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
    if not os.path.lexists(f"{place}/.git"):
        return
    lock = lock_of_index(git, place)
    if not wait_until_gone(git, lock, wait_s):
        try:
            os.unlink(lock)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot delete `{lock}`: {error.strerror}") from error
