"""The index of the user's repository: one of ours in its place, and what to do with it after git was
killed in the middle of a fast-forward.

Not here: what is committed and merged (`merging`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from little_loops.trees.git import Git
from little_loops.trees.rules import GITLINK
from little_loops.trees.worktrees import run_git


@contextmanager
def index_of_ours(git: Git, project: str) -> Iterator[Git]:
    """Yield a git that uses an index of ours instead of the user's, and delete that index at the
    end."""
    words = ["rev-parse", "--absolute-git-dir"]
    where = os.fsdecode(run_git(git, project, words, "find the repository").out).strip()
    index = os.path.join(where, f"ll-loop-{os.getpid()}.index")
    try:
        yield git._replace(own_index=index)
    finally:
        for path in (index, f"{index}.lock"):
            if os.path.lexists(path):
                os.unlink(path)


def add_files_as_in(git: Git, project: str, old: str, new: str) -> bool:
    """Put those files into the user's index that differ between two commits and are exactly as in
    the new one; return whether there were any.

    They are what a fast-forward that was killed has written: it changes the index last, and git
    would take them for edits of the user. What the user has staged stays as it is.
    """
    top = os.fsdecode(run_git(git, project, ["rev-parse", "--show-toplevel"], "find the top").out)
    top = top.rstrip("\n")
    with index_of_ours(git, top) as own:
        run_git(own, top, ["read-tree", new], "read the commit")
        own.change(top, ["update-index", "-q", "--refresh"])  # files that differ are no failure
        words = ["diff-files", "-z", "--name-only"]
        others = set(run_git(own, top, words, "compare the files").out.split(b"\0"))
        entries = run_git(own, top, ["ls-files", "-z", "--stage"], "list the files").out.split(
            b"\0"
        )
    words = ["diff-index", "--cached", "-z", "--name-only", "--no-renames", old]
    others.update(run_git(git, top, words, "compare the index").out.split(b"\0"))
    words = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new]
    written = set(run_git(git, top, words, "compare the commits").out.split(b"\0")) - others
    found = [
        line
        for line in entries
        if line.partition(b"\t")[2] in written and not line.startswith(GITLINK)
    ]
    if found:
        words = ["update-index", "--add", "-z", "--index-info"]
        run_git(git, top, words, "add the files", b"".join(line + b"\0" for line in found))
    return bool(found)
