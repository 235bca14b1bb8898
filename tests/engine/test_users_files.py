"""A landing that succeeds, over a user's unfinished work: everything else stays byte for byte.

Git itself writes three things when it moves a branch that is checked out: the branch, a line in the
reflogs of that branch and of HEAD, and the index, whose entries for the files that land it replaces
(and with them the trees it has cached). It also notes in ORIG_HEAD where the branch was. All the
rest is compared as bytes, and of the index every entry, with what git knows of its file.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.engine.test_worktrees import LINES, MANY, OWN, STATE, Repository, told
from tests.simulation.command import in_memory

LANDS = "echo landed >> a.py; echo x > fresh.py; rm gone.py"
EACH = "test ${branch.item} = one && { " + LANDS + "; } || echo y > second.py"
LANDED = {"a.py", "fresh.py", "gone.py"}
MOVED_BY_GIT = {"index", "ORIG_HEAD", "logs/HEAD", "logs/refs/heads/main", "refs/heads/main"}
LONG_AGO_S = 1_000_000_000
"""Files that are older than the index: git does not have to doubt what it knows of them."""


@pytest.fixture
def busy():
    """A repository in the middle of the user's work, with every kind of entry that an index has."""
    with in_memory() as place:
        made = Repository(place)
        for name in ("gone.py", "half.py", "flagged.py", "unseen.py", "dir/deep.py"):
            made.write(name, LINES)
        made.git("add", "gone.py", "half.py", "flagged.py", "unseen.py", "dir")
        made.quietly("commit", "-q", "-m", "second")
        made.git("branch", "other")
        made.quietly("tag", "-a", "-m", "a tag", "v1")
        made.git("update-ref", "refs/custom/mine", "HEAD")
        made.git("pack-refs", "--all")
        made.git("branch", "later")
        made.write("half.py", LINES + "staged\n")
        made.git("add", "half.py")
        made.write("half.py", LINES + "staged\nnot staged\n")
        made.write("intended.py", "intended\n")
        made.git("add", "-N", "intended.py")
        made.git("rm", "-q", "--cached", "dir/deep.py")
        made.write("flagged.py", "not to be looked at\n")
        made.git("update-index", "--assume-unchanged", "flagged.py")
        made.git("update-index", "--skip-worktree", "unseen.py")
        made.write(".env", "ignored\n")
        for path in made.root.rglob("*.py"):
            os.utime(path, (LONG_AGO_S, LONG_AGO_S))
        made.git("status")  # refreshes the index, as any shell prompt does
        yield made
        made.end_actions()


def entries(repository: Repository) -> dict[str, str]:
    """Every entry of the index: mode, content, stage, flags, and what git knows of the file."""
    text = repository.git("ls-files", "--stage", "--debug", "-v", "-f", "--full-name", ":/")
    found = [block for block in text.replace("\n  ", "\0 ").split("\n") if block]
    return {block.partition("\t")[2].partition("\0")[0]: block for block in found}


def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """The mode and the content of every file below a directory."""
    files = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes()) for path in files
    }


def internals(repository: Repository) -> dict[str, tuple[int, bytes]]:
    """All files of `.git`, but for the objects, which are only added to."""
    found = files_of(repository.root / ".git")
    return {name: each for name, each in found.items() if not name.startswith("objects/")}


def work_tree(repository: Repository) -> dict[str, tuple[int, bytes]]:
    found = files_of(repository.root)
    ours = (".git/", ".loops/")
    return {name: each for name, each in found.items() if not name.startswith(ours)}


def without(found: dict[str, tuple[int, bytes]], names: set[str]) -> dict[str, tuple[int, bytes]]:
    return {name: each for name, each in found.items() if name not in names}


@pytest.mark.parametrize(
    ("text", "new"),
    [
        pytest.param(OWN.format(action=LANDS, worktree="{merge: merge}"), set(), id="a loop"),
        pytest.param(STATE.format(action=LANDS, worktree="true"), set(), id="a state"),
        pytest.param(
            MANY.format(items="[one, two]", action=EACH, worktree="{check: test -e a.py}"),
            {"second.py"},
            id="branches",
        ),
        pytest.param(
            STATE.format(action=LANDS, worktree="{from: working-tree}"),
            set(),
            id="from the working tree",
        ),
    ],
)
def test_a_landing_leaves_every_other_byte_of_the_users_as_it_was(busy: Repository, text, new):
    busy.loop("w", text)
    before, index, files = internals(busy), entries(busy), work_tree(busy)
    head = busy.git("rev-parse", "HEAD")
    done = busy.ll("run", "w")
    assert done.returncode == 0, told(done)
    landed = LANDED | new
    assert busy.git("rev-parse", "ORIG_HEAD") == head
    assert busy.git("merge-base", "--is-ancestor", head, "main") == ""
    assert set(busy.git("diff", "--name-only", head, "main").split()) == landed
    after = internals(busy)
    assert {name for name in after if after[name] != before.get(name)} == MOVED_BY_GIT
    assert without(after, MOVED_BY_GIT) == without(before, MOVED_BY_GIT)
    for log in ("logs/HEAD", "logs/refs/heads/main"):
        added = after[log][1].removeprefix(before[log][1])
        assert (added != after[log][1], added.count(b"\n")) == (True, 1)
    assert entries_without(entries(busy), landed) == entries_without(index, landed)
    assert without(work_tree(busy), landed) == without(files, landed)


def entries_without(found: dict[str, str], names: set[str]) -> dict[str, str]:
    return {name: each for name, each in found.items() if name not in names}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(OWN.format(action=LANDS, worktree="{}"), id="a loop that does not merge"),
        pytest.param(
            STATE.format(action=LANDS, worktree="{check: exit 1}"), id="a state with a red check"
        ),
    ],
)
def test_without_a_landing_nothing_of_the_users_changes_at_all(busy: Repository, text):
    busy.loop("w", text)
    before, files = internals(busy), work_tree(busy)
    done = busy.ll("run", "w")
    assert done.returncode in (0, 1), told(done)
    kept = {name for name in internals(busy) if name not in before}
    assert all(
        name.startswith(("refs/heads/ll/", "logs/refs/heads/ll/", "worktrees/")) for name in kept
    )
    assert without(internals(busy), kept) == before
    assert work_tree(busy) == files
