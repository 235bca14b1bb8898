"""All problems of a loop file: those in its text, and those that depend on hosts and the project."""

from __future__ import annotations

import os
from collections.abc import Iterator

from little_loops.authoring.load import Definition
from little_loops.definitions.agent_checks import agent_problems
from little_loops.definitions.evidence_checks import evidence_problems
from little_loops.definitions.loading import namesakes, shown_path
from little_loops.errors import Problem
from little_loops.fsm.schema import has_worktree


def all_problems(definition: Definition, path: str | None, root: str) -> tuple[Problem, ...]:
    """Return all problems of a definition; `path` is its file, if it has one."""
    if definition.loop is None:
        return definition.problems
    return (
        *definition.problems,
        *agent_problems(definition, root),
        *evidence_problems(definition, root, os.environ),
        *_worktree_problems(definition, root),
        *(_same_name(definition, path, root) if path is not None else ()),
    )


def _worktree_problems(definition: Definition, root: str) -> tuple[Problem, ...]:
    """Return the problem with the worktrees of a loop, if it has any."""
    if definition.loop is None or not has_worktree(definition.loop):
        return ()
    from little_loops.definitions.worktree_checks import worktree_problems  # few loops have one

    return worktree_problems(definition, root, os.environ)


def _same_name(definition: Definition, path: str, root: str) -> Iterator[Problem]:
    """Yield an error if another file has a loop of the same name."""
    assert definition.loop is not None, "only a valid loop has a name"
    others = namesakes(definition.loop.name, path, root)
    if others:
        listed = " and ".join(f"`{shown_path(other)}`" for other in others)
        message = f"the loop name `{definition.loop.name}` is also used by {listed}"
        place = definition.places.at("name")
        yield Problem("LL015", message, place, "give one of them another `name`")
