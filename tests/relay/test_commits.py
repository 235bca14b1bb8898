"""Commits with real repositories: what is in them, what is left alone, what is said when not."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from little_loops.errors import DamagedRun
from little_loops.relay.commits import (
    CommitBounds,
    Committed,
    NotCommitted,
    WorkTree,
    check_can_commit,
    commit,
    find_repository,
    take_snapshot,
)
from little_loops.relay.git import git
from tests.relay.conftest import call_in

MESSAGE = "implement-886: phase 1 of 2 (turn 1)\n\nSession: sess_iter1\n"


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    (tmp_path / "run").mkdir()
    return str(tmp_path / "run")


def repository(project, run_dir="") -> WorkTree:
    found = find_repository(call_in(project.root, run_dir))
    assert found is not None
    return found


EVERYWHERE = CommitBounds()


def committed(project, run_dir, bounds=EVERYWHERE) -> Committed:
    return commit(repository(project, run_dir), MESSAGE, bounds)


def names(project, commit="HEAD") -> list[str]:
    listed = project.git("show", "--name-status", "--format=", commit)
    return [line.replace("\t", " ") for line in listed.splitlines()]


def test_what_the_turn_changed_is_committed(project, run_dir):
    project.write("old.txt", "old\n")
    project.git("add", "old.txt")
    project.git("commit", "--quiet", "--message=Old")
    take_snapshot(repository(project, run_dir))
    project.write("README.md", "changed\n")
    project.write("src/new.py", "new\n")
    (project.root / "old.txt").unlink()
    done = committed(project, run_dir)
    assert done == Committed(project.git("rev-parse", "--short", "HEAD"))
    assert names(project) == ["M README.md", "D old.txt", "A src/new.py"]
    assert project.git("log", "-1", "--format=%B%an") == f"{MESSAGE}Ada"
    assert project.status() == []


def test_what_was_dirty_before_stays_dirty(project, run_dir):
    project.write("README.md", "my own draft\n")
    project.write("notes.txt", "my own\n")
    project.write("staged.txt", "mine, staged\n")
    project.git("add", "staged.txt")
    take_snapshot(repository(project, run_dir))
    project.write("work.txt", "the agent's\n")
    committed(project, run_dir)
    assert names(project) == ["A work.txt"]
    assert project.status() == ["M README.md", "A  staged.txt", "?? notes.txt"]


def test_what_was_dirty_and_is_changed_again_is_the_turns(project, run_dir):
    project.write("README.md", "draft\n")
    project.write("same.txt", "same\n")
    take_snapshot(repository(project, run_dir))
    project.write("README.md", "draft, worked over\n")
    os.utime(project.write("same.txt", "same\n"), (1, 1))  # touched, not changed
    committed(project, run_dir)
    assert names(project) == ["M README.md"]
    assert project.status() == ["?? same.txt"]


def test_a_dirty_file_that_is_removed_made_executable_or_made_a_link(project, run_dir):
    for name in ("README.md", "a.sh", "b.txt", "c.txt"):
        project.write(name, "draft\n")
    (project.root / "c.txt").unlink()
    (project.root / "c.txt").symlink_to("a.sh")
    take_snapshot(repository(project, run_dir))
    (project.root / "README.md").unlink()
    (project.root / "a.sh").chmod(0o755)
    (project.root / "b.txt").unlink()
    (project.root / "b.txt").symlink_to("a.sh")
    committed(project, run_dir)
    assert names(project) == ["D README.md", "A a.sh", "A b.txt"]
    assert project.status() == ["?? c.txt"]


def test_renamed_removed_and_staged_by_the_agent_itself(project, run_dir):
    project.write("one.txt", "one\n" * 9)
    project.write("two.txt", "two\n")
    project.git("add", ".")
    project.git("commit", "--quiet", "--message=Two files")
    take_snapshot(repository(project, run_dir))
    project.git("mv", "one.txt", "renamed.txt")
    project.git("rm", "--quiet", "two.txt")
    project.write("three.txt", "three\n")
    project.git("add", "three.txt")
    committed(project, run_dir)
    assert names(project) == ["R100 one.txt renamed.txt", "A three.txt", "D two.txt"]
    assert project.status() == []


def test_nothing_to_commit_is_fine(project, run_dir):
    take_snapshot(repository(project, run_dir))
    assert committed(project, run_dir) == Committed(None)
    assert project.log() == []


def test_what_the_agent_committed_itself_is_done(project, run_dir):
    take_snapshot(repository(project, run_dir))
    project.write("work.txt", "done\n")
    project.git("add", "work.txt")
    project.git("commit", "--quiet", "--message=The agent's own")
    assert committed(project, run_dir) == Committed(None)
    assert project.log() == ["The agent's own"]


def test_a_second_try_finds_the_commit_of_the_first(project, run_dir):
    take_snapshot(repository(project, run_dir))
    project.write("work.txt", "done\n")
    first = committed(project, run_dir)
    assert first.id is not None
    assert committed(project, run_dir) == first
    assert len(project.log()) == 1


def test_a_change_that_git_does_not_see_as_one(project, run_dir):
    project.write(".gitattributes", "*.txt text eol=lf\n")
    project.write("a.txt", "a\n")
    project.git("add", ".")
    project.git("commit", "--quiet", "--message=Text")
    take_snapshot(repository(project, run_dir))
    (project.root / "a.txt").write_bytes(b"a\r\n")
    assert committed(project, run_dir) == Committed(None)


def test_ignored_and_state_files_are_never_added(project, run_dir):
    take_snapshot(repository(project, run_dir))
    for path in (
        "debug.log",
        ".loops/.running/x.state.json",
        ".loops/.history/x/y",
        "specs/.return-meta.json",
        "specs/.postflight-pending",
        "specs/.postflight-loop-guard.12.tmp",
        "specs/summary.md",
    ):
        project.write(path, "x\n")
    bounds = CommitBounds((".",), ("specs/.return-meta.json", "specs/.postflight-*"))
    committed(project, run_dir, bounds)
    assert names(project) == ["A specs/summary.md"]


def test_only_what_lies_in_the_scope(project, run_dir):
    take_snapshot(repository(project, run_dir))
    for path in ("src/api/a.py", "src/api2/b.py", "specs/plan.md", "other.txt"):
        project.write(path, "x\n")
    committed(project, run_dir, CommitBounds(("src/api", "specs/plan.md")))
    assert names(project) == ["A specs/plan.md", "A src/api/a.py"]


def test_a_project_in_a_part_of_the_repository(project, run_dir):
    inner = project.root / "inner"
    project.write("inner/.loops/x.yaml", "x\n")
    found = find_repository(call_in(inner, run_dir))
    assert found is not None
    assert found.prefix == "inner/"
    take_snapshot(found)
    project.write("inner/work.txt", "x\n")
    project.write("inner/.loops/.running/x.pid", "x\n")
    project.write("outside.txt", "somebody else's\n")
    commit(found, MESSAGE, CommitBounds())
    assert names(project) == ["A inner/work.txt"]


HOSTILE = [
    "-rf",
    ":(exclude)README.md",
    "*",
    "a b",
    "line\nbreak",
    "ünï",
    '"quoted"',
    "$(touch pwned)",
    "back\\slash",
]


def test_names_are_taken_letter_for_letter(project, run_dir):
    project.write("README.md", "my own draft\n")
    take_snapshot(repository(project, run_dir))
    for name in HOSTILE:
        project.write(name, "x\n")
    (project.root / os.fsdecode(b"latin-\xe9")).write_text("x\n")
    committed(project, run_dir)
    added = project.git("show", "--name-only", "--format=", "-z").split("\0")
    assert sorted(filter(None, added)) == sorted([*HOSTILE, os.fsdecode(b"latin-\xe9")])
    assert project.status() == ["M README.md"]


def test_the_first_commit_of_a_repository(bare_project, run_dir):
    bare_project.git("init", "--quiet")
    bare_project.write("mine.txt", "staged\n")
    bare_project.git("add", "mine.txt")
    take_snapshot(repository(bare_project, run_dir))
    bare_project.write("work.txt", "x\n")
    committed(bare_project, run_dir)
    assert names(bare_project) == ["A work.txt"]
    assert bare_project.status() == ["A  mine.txt"]


def test_a_repository_inside_is_left_alone(project, run_dir):
    take_snapshot(repository(project, run_dir))
    project.write("vendor/lib/a.txt", "x\n")
    project.git("-C", "vendor/lib", "init", "--quiet")
    project.git("-C", "vendor/lib", "add", ".")
    project.git("-C", "vendor/lib", "commit", "--quiet", "--message=Lib")
    assert committed(project, run_dir) == Committed(None, ("vendor/lib/",))
    project.write("work.txt", "x\n")
    assert committed(project, run_dir).left == ("vendor/lib/",)
    assert names(project) == ["A work.txt"]


def test_no_other_branch_is_touched(project, run_dir):
    project.git("branch", "other")
    before = project.git("rev-parse", "main", "other")
    take_snapshot(repository(project, run_dir))
    project.git("switch", "--quiet", "--create", "feature")
    project.write("work.txt", "x\n")
    committed(project, run_dir)
    assert project.git("branch", "--show-current") == "feature"
    assert project.git("rev-parse", "main", "other") == before


def test_a_detached_head(project, run_dir):
    project.git("switch", "--quiet", "--detach")
    take_snapshot(repository(project, run_dir))
    project.write("work.txt", "x\n")
    assert committed(project, run_dir).id == project.git("rev-parse", "--short", "HEAD")


def test_a_work_tree_of_its_own(project, run_dir, tmp_path):
    project.git("worktree", "add", "--quiet", str(tmp_path / "tree"), "-b", "side")
    found = find_repository(call_in(tmp_path / "tree", run_dir))
    assert found is not None
    take_snapshot(found)
    (tmp_path / "tree" / "work.txt").write_text("x\n")
    commit(found, MESSAGE, CommitBounds())
    assert names(project, "side") == ["A work.txt"]
    assert project.log() == []


# ── hooks ──────────────────────────────────────────────────────────────────────────────────────


def test_hooks_run(project, run_dir):
    project.hook("pre-commit", "echo ran >> .git/hooks-ran")
    take_snapshot(repository(project, run_dir))
    project.write("work.txt", "x\n")
    committed(project, run_dir)
    assert (project.root / ".git/hooks-ran").read_text() == "ran\n"


def test_a_hook_that_refuses(project, run_dir):
    project.hook("pre-commit", "echo checking >&2\necho 'line too long: work.txt' >&2\nexit 1")
    project.write("staged.txt", "mine\n")
    project.git("add", "staged.txt")
    take_snapshot(repository(project, run_dir))
    project.write("work.txt", "x\n")
    project.write("README.md", "changed\n")
    with pytest.raises(NotCommitted) as caught:
        committed(project, run_dir)
    assert caught.value.message == "git refused the commit: checking | line too long: work.txt"
    assert project.log() == []
    assert (project.root / "work.txt").read_text() == "x\n"
    assert project.status() == ["M README.md", "A  staged.txt", "?? work.txt"]


def test_a_hook_that_mends_what_it_refuses_is_asked_once_more(project, run_dir):
    project.hook("pre-commit", "grep -q tidy work.txt || { echo tidy > work.txt; exit 1; }")
    take_snapshot(repository(project, run_dir))
    project.write("work.txt", "untidy?\n".replace("tidy", "kempt"))
    committed(project, run_dir)
    assert project.git("show", "HEAD:work.txt") == "tidy"


def test_a_hook_that_leaves_something_running_does_not_keep_us(project, run_dir):
    project.hook("post-commit", "sleep 30 & echo $! > .git/left")
    take_snapshot(repository(project, run_dir))
    project.write("work.txt", "x\n")
    assert committed(project, run_dir).id is not None
    os.kill(int((project.root / ".git/left").read_text()), 9)


# ── what is in the way ─────────────────────────────────────────────────────────────────────────


def diverge(project) -> None:
    project.git("switch", "--quiet", "--create", "other")
    project.write("README.md", "theirs\n")
    project.git("commit", "--quiet", "--all", "--message=Theirs")
    project.git("switch", "--quiet", "main")
    project.write("README.md", "ours\n")
    project.git("commit", "--quiet", "--all", "--message=Ours")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["merge", "other"], "merge"),
        (["rebase", "other"], "rebase"),
        (["cherry-pick", "other"], "cherry-pick"),
    ],
)
def test_in_the_middle_of_something(project, run_dir, words, what):
    diverge(project)
    take_snapshot(repository(project, run_dir))
    git(call_in(project.root), words, str(project.root))  # stops at the conflict
    with pytest.raises(NotCommitted) as caught:
        check_can_commit(repository(project))
    assert caught.value.message == f"the repository is in the middle of a {what}"
    assert caught.value.help == f"finish or abort the {what}"
    project.write("work.txt", "x\n")
    with pytest.raises(NotCommitted, match=what):
        committed(project, run_dir)
    assert (project.root / "work.txt").read_text() == "x\n"


def test_nobody_knows_who_commits(project, monkeypatch):
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.delenv(name)
    project.git("config", "user.useConfigOnly", "true")
    with pytest.raises(NotCommitted) as caught:
        check_can_commit(repository(project))
    assert caught.value.message == "git has no user name and email configured"


def test_no_repository(bare_project, tmp_path, monkeypatch):
    assert find_repository(call_in(bare_project.root)) is None
    bare_project.git("init", "--quiet", "--bare", "bare.git")
    assert find_repository(call_in(bare_project.root / "bare.git")) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_repository(call_in(bare_project.root)) is None


def test_a_repository_that_cannot_be_used(project):
    project.write(".git/config", "[core\n")
    with pytest.raises(NotCommitted) as caught:
        find_repository(call_in(project.root))
    assert caught.value.message.startswith("git cannot be used here: fatal: bad config line 1")
    assert caught.value.help == "fix that, or write `commit: false` in the loop"


def test_a_damaged_index(project, run_dir):
    project.write(".git/index", "garbage that is longer than a header")
    with pytest.raises(NotCommitted, match="git cannot list the changes"):
        take_snapshot(repository(project, run_dir))


@pytest.mark.parametrize("name", [".git/HEAD", ".git/index", ".gitignore"])
def test_a_pipe_that_git_would_wait_for(project, name):
    place = project.root / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    with pytest.raises(NotCommitted) as caught:
        find_repository(call_in(project.root, ""))
    assert caught.value.message == f"git cannot be used here: `{place}` is not a regular file"


def test_another_git_that_holds_the_index_for_a_moment(project, run_dir):
    take_snapshot(repository(project, run_dir))
    project.write("work.txt", "x\n")
    lock = project.write(".git/index.lock", "")
    timer = threading.Timer(0.3, lock.unlink)
    timer.start()
    try:
        assert committed(project, run_dir).id is not None
    finally:
        timer.join()


def test_another_git_that_holds_the_index_for_good(project, run_dir):
    take_snapshot(repository(project, run_dir))
    project.write("work.txt", "x\n")
    project.write(".git/index.lock", "")
    with pytest.raises(NotCommitted) as caught:
        committed(project, run_dir)
    assert caught.value.message == (
        "the git index is locked by another git process, or by one that was killed"
    )
    lock = project.root / ".git/index.lock"
    assert caught.value.help == f"if no git process is running, remove `{lock}`"
    assert project.status() == ["?? work.txt"]


def test_a_file_too_large_to_read_is_known_by_its_time(project, run_dir):
    huge = project.write("huge.bin", "")
    os.truncate(huge, 65 << 20)
    take_snapshot(repository(project, run_dir))
    assert committed(project, run_dir) == Committed(None)


def test_a_snapshot_that_is_gone(project, run_dir):
    with pytest.raises(DamagedRun) as caught:
        committed(project, run_dir)
    assert caught.value.message == (
        f"`{run_dir}/relay-before.json` does not describe the files before the turn"
    )


def test_a_git_that_takes_too_long(project):
    project.hook("pre-commit", "exec sleep 30")
    answer = git(
        call_in(project.root),
        ["commit", "--allow-empty", "--message=x"],
        str(project.root),
        timeout_s=0.5,
    )
    assert answer is not None
    assert (answer.code, answer.complaint) == (124, "git commit took more than 0.5 s")
