"""A clean copy of a merged commit, in which a check runs before anything of the user's moves.

It has the files of the commit, as git checks them out. What git ignores in the project is there as
in the clean copy of a check: directories as links, small files as they were when the run started.
Its `.git` has the commit as its only ref. It is created again for each commit, and removed after the check.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from little_loops.errors import StoreError
from little_loops.system.files import PRIVATE_FOLDER, failure
from little_loops.system.user_state import key_of
from little_loops.trees.bringing import bring
from little_loops.trees.copies import CLEAN as CLEAN
from little_loops.trees.copies import CopiedFiles
from little_loops.trees.copy_git import CopyRepository
from little_loops.trees.copy_plan import LONG_AGO_NS, CopyRoot, Planner
from little_loops.trees.files import COPIES
from little_loops.trees.git import REPOSITORY_VARIABLES, Git, is_inside
from little_loops.trees.placing import OpenDirectory
from little_loops.trees.python_paths import StandIn
from little_loops.trees.rules import Rules
from little_loops.trees.shadows import replace_path
from little_loops.trees.store import TreeStore
from little_loops.trees.worktrees import delete_directory, run_git

MERGED = "merged"


class MergedCopy:
    """The copy for the merged commits of one run; `project` is the project's directory in it, and
    `stand_in` makes programs use its files."""

    def __init__(
        self, git: Git, owner: str, project: str, run: str, home: str, start: Rules | None = None
    ) -> None:
        """Describe the copy in the state directory `home`; only the rules of the project are read,
        which is `owner`, or the same in a worktree of it. `start` are those of the start of the run,
        if they are known: what has been made since then and is ignored belongs to nobody's work."""
        self._git = git
        self._home = os.path.realpath(home)
        self._store = TreeStore.open(owner, home, git, work_tree=project)
        self._rules = start or self._store.rules(run, (".",), ())
        self._real = self._rules.project
        prefix = self._rules.prefix.rstrip("/")
        repository = self._real[: len(self._real) - len(prefix)].rstrip("/")
        self._base = os.path.join(self._home, COPIES, key_of(self._real), MERGED, run)
        self._top = os.path.join(self._base, os.path.basename(repository) or "root")
        self.project = os.path.join(self._top, prefix) if prefix else self._top
        self._repository = repository
        original = os.path.realpath(owner).removesuffix(prefix).rstrip("/")
        worktrees = StandIn.of(owner, self._real).worktrees
        self.stand_in = StandIn(original, self._top, prefix, worktrees)

    def lay_out(self, commit: str, *, links: bool) -> None:
        """Write the copy. Without `links`, directories that git ignores are left out. Raises
        `StoreError`, and its subclass `NotClean` if one cannot be linked."""
        self.remove()
        try:
            os.makedirs(self.project, mode=PRIVATE_FOLDER)
            self._check_out(commit)
            self._lay_ignored(links)
            kept = os.path.dirname(self._base)
            CopyRepository(self._rules, self._top, kept).lay_out(self._git, commit)
        except OSError as error:
            plain = failure(error, "write", self._top)
            raise StoreError(plain.message, plain.help) from error

    def _check_out(self, commit: str) -> None:
        """Let git write the files of the commit, with an index of our own."""
        own = self._git._replace(own_index=os.path.join(self._base, "index"))
        run_git(own, self._repository, ["read-tree", commit], "read the merged commit")
        words = ["checkout-index", "--quiet", "--force", "--all", f"--prefix={self._top}/"]
        run_git(own, self._repository, words, "check out the merged commit")

    def _lay_ignored(self, links: bool) -> None:
        """Write what git ignores in the project: small files, and directories as links."""
        rules = self._rules
        now = self._store.snapshot(rules).project
        planner = Planner(self._store, rules, CopyRoot(self._real, self.project))
        contents = planner.plan(now, None, links, True).contents
        wanted = {
            path: one
            for path, one in contents.items()
            if one.time_ns == LONG_AGO_NS or _is_linked(rules, path)
        }
        with OpenDirectory(self.project) as ground:
            missing = {path: one for path, one in wanted.items() if ground.lstat(path) is None}
            CopiedFiles(self._store, rules, self.project, "").fill(ground, missing)

    def bring(self, copy: Sequence[str], link: Sequence[str]) -> None:
        """Bring paths along as into a worktree."""
        prefix = self._rules.prefix
        bring(self._git, CopyRoot(self._repository, self._top, prefix), copy, link)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables for a check: in every value, the path of the project is replaced by
        that of the copy; variables that point git to a repository are left out."""
        real, copy = os.fsencode(self._real), os.fsencode(self.project)
        return {
            name: os.fsdecode(replace_path(os.fsencode(text), real, copy))
            for name, text in environ.items()
            if name not in REPOSITORY_VARIABLES
        }

    def remove(self) -> None:
        delete_directory(self._base)


def _is_linked(rules: Rules, path: str) -> bool:
    """Return whether a path stands for something that git ignores as a whole."""
    return any(is_inside(path, each) for each in rules.linked)
