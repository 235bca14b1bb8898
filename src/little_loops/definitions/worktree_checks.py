"""Whether git can provide the worktrees that a loop asks for."""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.authoring.load import Definition
from little_loops.errors import Problem, StoreError
from little_loops.fsm.schema import has_worktree
from little_loops.light_typing import Any
from little_loops.trees.git import find_git
from little_loops.trees.merging import check_git
from little_loops.trees.repository_files import repository_of


def worktree_problems(
    definition: Definition, root: str, environ: Mapping[str, str]
) -> tuple[Problem, ...]:
    """Return the problem with the worktrees of a loop, if there is one."""
    if definition.loop is None or not has_worktree(definition.loop):
        return ()
    if repository_of(root) is None:
        message = "`worktree` needs a git repository, but this project is not in one"
        return (_problem(definition, message, "`git init`, or remove `worktree`"),)
    try:
        check_git(find_git(root, environ))
    except StoreError as error:
        message = f"`worktree` needs git 2.38 or newer: {error.message}"
        return (_problem(definition, message, error.help),)
    return ()


def _problem(definition: Definition, message: str, help: str | None) -> Problem:
    """Return the problem at the first `worktree` of the file."""
    path: tuple[Any, ...] = ("worktree",)
    loop = definition.loop
    if loop is not None and loop.worktree is None:
        states = [name for name, state in loop.states.items() if state.worktree is not None]
        path = ("states", states[0], "worktree") if states else ("states",)
    return Problem("LL235", message, definition.places.at(*path, part="key"), help)
