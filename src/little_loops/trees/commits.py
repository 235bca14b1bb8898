"""Which commits the user's repository has gained since a run started. Nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.records import NamedTuple
from little_loops.trees.git import Git
from little_loops.trees.reading import parse_raw
from little_loops.trees.rules import head_of


class NewCommits(NamedTuple):
    """How many commits HEAD has gained since `start`; None if there was no commit then."""

    number: int
    start: str | None


def new_commits(git: Git, project: str, start: str | None) -> NewCommits:
    """Return how many commits there are since `start`; none if HEAD is not a descendant of it."""
    head = head_of(git, project)
    if head is None or head == start:
        return NewCommits(0, start)
    if start is not None:
        ancestor = git.read(project, ["merge-base", "--is-ancestor", start, head])
        if ancestor.code != 0:  # another branch was checked out, or history was rewritten
            return NewCommits(0, start)
    words = ["rev-list", "--count", head, *([] if start is None else [f"^{start}"])]
    answer = git.read(project, words)
    return NewCommits(int(answer.out or b"0") if answer.code == 0 else 0, start)


def commit_at(
    git: Git, project: str, start: str | None, wall_ms: int, content: Mapping[str, str]
) -> str | None:
    """Return the commit that was checked out at that time, as far as it can be told: the newest one
    since `start` that had been made by then, else `start`.

    Git records whole seconds, so a commit of the same second counts only if all that it changed has
    that `content`, ids by path, at that time. None if there was no commit.
    """
    if not new_commits(git, project, start).number:
        return start
    since = [] if start is None else [f"^{start}"]
    answer = git.read(project, ["log", "--first-parent", "--format=%H %ct", "HEAD", *since])
    second = wall_ms // 1000
    for line in answer.out.decode("ascii", "replace").splitlines():
        commit, _, made = line.partition(" ")
        if int(made) < second:
            return commit
        if int(made) == second and _is_in(git, project, commit, content):
            return commit
    return start


def _is_in(git: Git, project: str, commit: str, content: Mapping[str, str]) -> bool:
    """Return whether everything that a commit changed has this content."""
    words = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--relative", "--root"]
    answer = git.read(project, [*words, "--no-commit-id", commit])
    return answer.code == 0 and all(
        content.get(change.path, "") == change.content for change in parse_raw(answer.out)
    )
