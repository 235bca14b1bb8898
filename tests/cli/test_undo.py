"""`ll-loop undo` on real runs: what it prints, what it changes, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_steps import project as project
from tests.project import Project, until
from tests.receipts.kept_run import KeptProject
from tests.trees.projects import fingerprint

AGENT = """\
#!/bin/sh
echo fixing
echo 'x = 1' > code.py
mkdir -p new && echo new > new/file.py
rm notes.txt
"""


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[KeptProject]:
    """A run whose agent changed, made and deleted a file."""
    made = KeptProject(tmp_path)
    (tmp_path / "agent").write_text(AGENT)
    (made.root / "notes.txt").write_text("untracked\n")
    yield made.fixed()
    made.end_actions()


def said(project: Project, *words: str) -> tuple[int, str, str]:
    done = project.ll(*words)
    return done.returncode, done.stdout, done.stderr


def files(project: Project) -> dict[str, tuple[str, str]]:
    """Everything in the project with its permissions and content, but not what a run writes down."""
    return fingerprint(project.root, skip=[".git", ".running"])


def users(project: Project) -> dict[str, str]:
    """What git keeps for the user: commits, branches, index, stash and configuration."""
    return {
        "refs": project.git("for-each-ref"),
        "head": project.git("rev-parse", "HEAD"),
        "index": project.git("ls-files", "--stage", "--debug"),
        "stash": project.git("stash", "list"),
        "config": project.git("config", "--local", "--list"),
    }


def test_undo_and_undo_again(fresh):
    before, git = files(fresh), users(fresh)
    assert said(fresh, "undo", "fix", "--dry-run") == (
        0,
        (
            "would restore 3 files as they were before the run\n"
            "  changed   code.py\n"
            "  removed   new/file.py\n"
            "  restored  notes.txt\n"
        ),
        "",
    )
    assert said(fresh, "undo", "fix") == (
        0,
        (
            "restored 3 files as they were before the run\n"
            "  changed   code.py\n"
            "  removed   new/file.py\n"
            "  restored  notes.txt\n"
        ),
        "next: ll-loop undo fix   (undoes this)\n",
    )
    assert (fresh.file("code.py"), fresh.file("notes.txt")) == ("x = 0\n", "untracked\n")
    assert not (fresh.root / "new").exists()
    assert said(fresh, "undo", "fix") == (
        0,
        (
            "restored 3 files as they were before the last `undo`\n"
            "  changed   code.py\n"
            "  restored  new/file.py\n"
            "  removed   notes.txt\n"
        ),
        "next: ll-loop undo fix   (undoes this)\n",
    )
    assert files(fresh) == before
    assert users(fresh) == git


def test_to_a_step_and_for_programs(fresh):
    assert said(fresh, "undo", "fix", "--to", "2") == (
        0,
        "nothing to do: what the run changed is as it was after step 2\n",
        "",
    )
    assert said(fresh, "undo", "fix", "--to", "1", "-q")[1:] == (
        (
            "restored 3 files as they were after step 1\n"
            "  changed   code.py\n"
            "  removed   new/file.py\n"
            "  restored  notes.txt\n"
        ),
        "",
    )
    found = json.loads(fresh.ll("undo", "fix", "--to", "4", "--json").stdout)
    assert found == {
        "schema": 1,
        "name": "fix",
        "step": 4,
        "doing": "undo",
        "dry_run": False,
        "changes": [
            {"path": "code.py", "change": "changed"},
            {"path": "new/file.py", "change": "restored"},
            {"path": "notes.txt", "change": "removed"},
        ],
        "conflicts": [],
        "failed": [],
        "commits": 0,
    }
    assert said(fresh, "undo", "fix", "--to", "4", "-qq")[1:] == ("", "")


def test_edits_since_are_named_and_only_replaced_by_force(fresh):
    (fresh.root / "code.py").write_text("mine\n")
    assert said(fresh, "undo", "fix") == (
        2,
        "",
        (
            "error: 1 file has changed since the run: code.py\n"
            "   = help: `--dry-run` lists everything; `--force` replaces your changes, too, and running"
            " the same command again brings them back\n"
        ),
    )
    assert (
        said(fresh, "undo", "fix", "--dry-run")[1].splitlines()[1]
        == "  changed   code.py  (changed since)"
    )
    assert fresh.ll("undo", "fix", "--force").returncode == 0
    assert fresh.file("code.py") == "x = 0\n"
    assert fresh.ll("undo", "fix").returncode == 0
    assert fresh.file("code.py") == "mine\n"


@pytest.mark.parametrize(
    ("commits", "note"),
    [
        pytest.param(1, "note: a commit was made", id="one"),
        pytest.param(2, "note: 2 commits were made", id="two"),
    ],
)
def test_commits_stay_and_the_command_for_them_is_printed(commits, note, fresh):
    start = fresh.git("rev-parse", "HEAD")
    for number in range(commits):
        (fresh.root / f"{number}.txt").touch()
        fresh.commit("more")
    git = users(fresh)
    assert fresh.ll("undo", "fix").stderr == (
        f"{note} since the run started; only files are restored\n"
        f"next: git reset --soft {start}   (moves the branch back, and leaves the files alone)\n"
    )
    assert users(fresh)["refs"] == git["refs"]
    assert users(fresh)["index"] == git["index"]


def test_another_branch_gets_no_hint_about_commits(fresh):
    fresh.git("checkout", "-q", "--orphan", "other")
    fresh.commit("unrelated")
    assert fresh.ll("undo", "fix").stderr == "next: ll-loop undo fix   (undoes this)\n"


def test_a_file_that_cannot_be_restored_is_named(fresh):
    (fresh.root / ".gitignore").write_text("")
    (fresh.root / ".git/info/exclude").write_text("*.log\n")
    shutil.rmtree(fresh.root / "new")
    (fresh.root / "notes.txt").mkdir()
    (fresh.root / "notes.txt/x.pipe").mkdir()
    os.mkfifo(fresh.root / "notes.txt/pipe")
    code, out, _ = said(fresh, "undo", "fix")
    assert code == 1
    assert out == (
        "restored 1 file as it was before the run\n"
        "  changed   code.py\n"
        "  failed    notes.txt: a directory with other content already exists there\n"
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(
            ("fix", "--to", "9"),
            "error: `fix` has no step 9\n   = help: `ll-loop steps fix` lists its steps\n",
            id="no such step",
        ),
        pytest.param(
            ("gone",),
            "error: no loop or run named `gone`\n   = help: available: `fix`\n",
            id="no such run",
        ),
        pytest.param(
            ("fix", "--run", "2020"),
            "error: `fix` has no run `2020`\n   = help: `ll-loop history fix` lists them\n",
            id="no such time",
        ),
    ],
)
def test_what_cannot_be_undone_is_said(words, error, project):
    done = project.ll("undo", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", error)


def test_a_run_without_evidence_cannot_be_undone(tmp_path):
    project = Project(tmp_path)
    project.loop("plain", "{name: plain, paradigm: goal, goal: x, tools: [pwd]}")
    project.ll("run", "plain")
    assert said(project, "undo", "plain") == (
        2,
        "",
        (
            "error: no snapshots of the files were recorded for `plain`\n"
            "   = help: evidence was off for this run\n"
        ),
    )


def test_a_step_without_a_snapshot_is_said(tmp_path):
    project = KeptProject(tmp_path)
    project.loop(
        "steps",
        """\
        name: steps
        initial: one
        evidence: true
        states:
          one: {action: echo 1 > one, next: two}
          two: {action: echo 2 > two, next: check}
          check: {action: test -f two, check: true, on_pass: done}
          done: {terminal: true}
        """,
    )
    assert project.ll("run", "steps").returncode == 0
    assert said(project, "undo", "steps", "--to", "1") == (
        2,
        "",
        (
            "error: no snapshot shows the files as they were after step 1\n"
            "   = help: `ll-loop steps steps` shows which steps have a snapshot\n"
        ),
    )
    assert project.ll("undo", "steps", "--to", "2").returncode == 0


def store_of(project: Project) -> Path:
    [store] = (project.home / ".local/state/little-loops/trees").iterdir()
    return store


def test_snapshots_that_are_elsewhere_or_gone_are_said(fresh):
    store = store_of(fresh)
    run = fresh.state("fix")["run"]
    (store / "runs" / run).unlink()
    assert said(fresh, "undo", "fix") == (
        2,
        "",
        (
            "error: the snapshots of `fix` were deleted to save space\n"
            "   = help: the limit is `trees` in `.loops/.config.yaml`; the oldest runs lose theirs first\n"
        ),
    )
    store.rename(store.with_name("elsewhere"))
    assert said(fresh, "undo", "fix") == (
        2,
        "",
        (
            f"error: the snapshots of `fix` are not in `{store}`\n"
            "   = help: they are on the machine that ran it, and belong to the user who ran it\n"
        ),
    )


def test_a_damaged_store_is_said_and_nothing_is_changed(fresh):
    before = files(fresh)
    for pack in (store_of(fresh) / "git/objects/pack").iterdir():
        pack.unlink()
    code, out, err = said(fresh, "undo", "fix")
    assert (code, out) == (1, "")
    assert "error: the tree store" in err
    assert "Traceback" not in err
    assert files(fresh) == before


WAITING = """\
    name: {name}
    initial: wait
    scope: [{scope}]
    states:
      wait: {{action: "touch ../up-{name}; exec sleep 60", next: done}}
      done: {{terminal: true}}
"""


def test_the_scope_must_be_free(fresh):
    fresh.loop("other", WAITING.format(name="other", scope="."))
    before = fresh.file("code.py")
    with fresh.started("run", "other"):
        until((fresh.root.parent / "up-other").exists, "run")
        assert said(fresh, "undo", "fix") == (
            5,
            "",
            (
                "error: Cannot undo 'fix' - loop 'other' is running with overlapping scope\n"
                "   = help: wait until it has ended, or stop it\n"
            ),
        )
        fresh.loop("fix", WAITING.format(name="fix", scope="elsewhere"))
    assert fresh.file("code.py") == before
    with fresh.started("run", "fix"):
        until((fresh.root.parent / "up-fix").exists, "run")
        assert said(fresh, "undo", "fix") == (
            5,
            "",
            "error: `fix` is running\n   = help: `ll-loop stop fix` first\n",
        )


def test_undo_takes_the_claim_only_while_it_works(fresh):
    fresh.ll("undo", "fix")
    assert sorted(os.listdir(fresh.root / ".loops/.running")) == [".gitignore", ".lock"]
