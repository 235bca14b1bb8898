"""The verbs that go back in time, for a run that has started others and for those it has started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_undo import said, users
from tests.project import Project
from tests.receipts.kept_run import KeptProject
from tests.trees.projects import fingerprint

INNER = """\
    context: {word: none}
    evidence: {protect: [tests/]}
    initial: write
    states:
      write: {action: "echo ${context.word} > inner.txt; chmod 700 inner.txt; rm notes.txt", next: check}
      check: {action: "test -e inner.txt; seq 30000", check: true, on_pass: more, on_fail: bad}
      more: {action: "echo 'x = 2' > code.py", next: end}
      end: {terminal: true}
      bad: {terminal: true, outcome: failure}
"""
OUTER = """\
    initial: first
    states:
      first: {action: "echo first > first.txt; echo 'a b; touch pwned'", next: kid}
      kid:
        loop: inner
        with: {word: "${captured.first.output}"}
        on_pass: last
        on_fail: bad
      last: {action: "tail -n 1 ${captured.kid.file} > last.txt", next: done}
      done: {terminal: true}
      bad: {terminal: true, outcome: failure}
"""


def made(path: Path) -> KeptProject:
    """A run without agents, whose child, also without agents, keeps evidence."""
    project = KeptProject(path)
    (project.root / "notes.txt").write_text("untracked\n")
    project.loop("inner", INNER)
    project.loop("outer", OUTER)
    project.commit("loops")
    done = project.ll("run", "outer")
    assert done.returncode == 0, done.stdout + done.stderr
    return project


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[KeptProject]:
    project = made(tmp_path)
    yield project
    project.end_actions()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> KeptProject:
    """For tests that change nothing in it but new runs."""
    return made(tmp_path_factory.mktemp("shared"))


def files(project: Project) -> dict[str, tuple[str, str]]:
    """Everything in the project with its permissions and content, but not what runs write down."""
    return fingerprint(project.root, skip=[".git", ".running", ".history"])


def rows(project: Project, name: str) -> list[list[object]]:
    """State, verdict, and whether there is a tree, for each step."""
    steps = json.loads(project.ll("steps", name, "--json").stdout)["steps"]
    return [[one["state"], one["verdict"], one["tree"] is not None] for one in steps]


# ── undo ───────────────────────────────────────────────────────────────────────────────────────


def test_undo_of_a_parent_undoes_its_child_and_twice_is_the_identity(fresh):
    before, git = files(fresh), users(fresh)
    assert said(fresh, "undo", "outer") == (
        0,
        (
            "restored 5 files as they were before the run\n"
            "  changed   code.py\n"
            "  removed   first.txt\n"
            "  removed   inner.txt\n"
            "  removed   last.txt\n"
            "  restored  notes.txt\n"
        ),
        "next: ll-loop undo outer   (undoes this)\n",
    )
    assert fresh.file("code.py") == "x = 0\n"
    assert said(fresh, "undo", "outer")[0] == 0
    assert files(fresh) == before
    assert users(fresh) == git


def test_undo_of_a_parent_to_one_of_its_steps(fresh):
    before = files(fresh)
    assert said(fresh, "undo", "outer", "--to", "2")[1] == (
        "restored 1 file as it was after step 2\n  removed   last.txt\n"
    )
    assert said(fresh, "undo", "outer", "--to", "1")[1] == (
        "restored 3 files as they were after step 1\n"
        "  changed   code.py\n"
        "  removed   inner.txt\n"
        "  restored  notes.txt\n"
    )
    assert (fresh.root / "first.txt").exists()
    assert said(fresh, "undo", "outer", "--to", "3")[0] == 0
    assert files(fresh) == before


def test_a_child_is_not_undone_alone(fresh):
    before = files(fresh)
    assert said(fresh, "undo", "outer/kid") == (
        2,
        "",
        (
            "error: `outer/kid` was started by `outer`, and cannot be undone separately\n"
            "   = help: `ll-loop undo outer` undoes both; `--to STEP` goes back to one of the steps"
            " of `outer`\n"
        ),
    )
    assert files(fresh) == before


# ── steps, diff, replay ────────────────────────────────────────────────────────────────────────


def test_the_steps_of_both(shared):
    assert rows(shared, "outer") == [
        ["first", "pass", True],
        ["kid", "pass", True],
        ["last", "pass", True],
        ["done", None, False],
    ]
    assert rows(shared, "outer/kid") == [
        ["write", "pass", True],
        ["check", "pass", True],
        ["more", "pass", True],
        ["end", None, False],
    ]


def test_the_diff_of_a_step_of_both(shared):
    of_parent = shared.ll("diff", "outer", "2").stdout
    assert "+a b; touch pwned" in of_parent
    assert "+x = 2" in of_parent
    of_child = shared.ll("diff", "outer/kid", "2..3").stdout
    assert [line for line in of_child.splitlines() if line[:1] in "+-"][2:] == ["-x = 0", "+x = 2"]


@pytest.mark.parametrize(("name", "count"), [("outer", 3), ("outer/kid", 4)])
def test_a_replay_of_both_finds_no_difference(shared, name, count):
    code, text, _ = said(shared, "replay", name)
    assert (code, text.count("\n")) == (0, 1)
    assert text.endswith(f": no difference in {count} transitions\n")
    assert said(shared, "replay", name, "--all") == (code, text, "")


def test_a_replay_of_a_changed_parent_uses_the_ending_of_its_child(shared):
    other = shared.root / "other.yaml"
    shared.loop("inner2", INNER.replace("test -e", "test -f"))
    other.write_text(OUTER.replace("on_pass: last", "on_pass: bad").replace(": inner", ": inner2"))
    code, text, _ = said(shared, "replay", "outer", "--with", str(other))
    assert code == 0
    assert "recorded:  kid → last (on_pass)" in text
    assert "replayed:  kid → bad (on_pass)" in text
    assert "the loop of `kid` has changed; its recorded results were used" in text


def test_a_removed_line_of_a_childs_log_is_found(tmp_path):
    project = made(tmp_path)
    (log,) = project.root.glob(".loops/.history/outer/*.d/runs/00002-1-kid/run.events.jsonl")
    lines = log.read_text().splitlines(keepends=True)
    for number in (1, 5, len(lines) - 2):
        log.write_text("".join(lines[:number] + lines[number + 1 :]))
        assert said(project, "replay", "outer/kid")[0] == 1, lines[number]
        assert said(project, "replay", "outer")[0] == 0
    log.write_text("".join(lines))
    assert said(project, "replay", "outer/kid")[0] == 0


# ── forks ──────────────────────────────────────────────────────────────────────────────────────


def test_a_fork_of_a_child_is_a_root_run(fresh):
    before = files(fresh)
    done = fresh.ll("fork", "outer/kid", "--at", "2", "--id", "again")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Loop completed: end" in done.stdout
    assert files(fresh) == before
    assert rows(fresh, "inner@again") == rows(fresh, "outer/kid")
    assert said(fresh, "replay", "inner@again")[0] == 0
    (kept,) = fresh.root.glob(".loops/.history/inner@again/*.d/run.json")
    assert "parent" not in json.loads(kept.read_text())
    history = json.loads(fresh.ll("history", "inner@again", "--json").stdout)["runs"]
    parents = [(run["forked_from"]["name"], run["forked_from"]["step"]) for run in history]
    assert parents == [("outer/kid", 2)]
    trees = [
        json.loads(fresh.ll("steps", name, "--json").stdout)["steps"][2]["tree"]
        for name in ("inner@again", "outer/kid")
    ]
    assert trees[0] == trees[1]


def test_data_in_a_child_stays_data_in_its_fork(fresh):
    """The output of an action must not become part of a script."""
    variant = fresh.root.parent / "variant.yaml"
    variant.write_text(INNER.replace("'x = 2' > code.py", "${context.word} > again.txt"))
    done = fresh.ll("fork", "outer/kid", "--at", "2", "--with", str(variant), "--id", "v")
    assert done.returncode == 0, done.stdout + done.stderr
    (place,) = (fresh.home / ".cache/little-loops/worktrees").glob("*/inner@v")
    assert (place / "again.txt").read_text() == "a b; touch pwned\n"
    assert not (place / "pwned").exists()
    assert not (fresh.root / "pwned").exists()


@pytest.mark.parametrize("step", [1, 2])
def test_a_fork_of_a_parent_runs_its_child_in_the_worktree(fresh, step):
    before = files(fresh)
    done = fresh.ll("fork", "outer", "--at", str(step))
    assert done.returncode == 0, done.stdout + done.stderr
    assert files(fresh) == before
    name = f"outer@step{step}"
    (place,) = (fresh.home / ".cache/little-loops/worktrees").glob(f"*/{name}")
    made_there = {path: (place / path).read_text() for path in ("inner.txt", "code.py", "last.txt")}
    assert made_there == {path: fresh.file(path) for path in made_there}
    assert not (place / "notes.txt").exists()
    steps = [
        json.loads(fresh.ll("steps", each, "--json").stdout)["steps"] for each in (name, "outer")
    ]
    assert [each["tree"] for each in steps[0]] == [each["tree"] for each in steps[1]]
    assert fresh.file("last.txt") == "30000\n"
    assert rows(fresh, f"{name}/kid") == rows(fresh, "outer/kid")
    if step == 1:
        assert said(fresh, "undo", name, "--dry-run")[1].startswith("would restore 4 files")


# ── reports ────────────────────────────────────────────────────────────────────────────────────


def test_reports_of_both(shared):
    parent = shared.ll("report", "outer", "--markdown").stdout
    child = shared.ll("report", "outer/kid", "--markdown").stdout
    assert parent.startswith("## `outer`: completed\n")
    assert child.startswith("## `outer/kid`: completed\n")
    assert "Verified on tree" in child
    assert "Verified on tree" not in parent  # no check of its own has passed


# ── run files ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "alone"),
    [pytest.param("outer", "outer", id="both"), pytest.param("outer/kid", "inner", id="the child")],
)
def test_what_a_user_sees_of_an_imported_run(shared, tmp_path, name, alone):
    """The child alone becomes a run of its own."""
    there = KeptProject(tmp_path)
    done = shared.ll("export", name, cwd=shared.root)
    assert done.returncode == 0, done.stderr
    done = there.ll("import", str(shared.root / f"{name.replace('/', '-')}.llrun"))
    assert done.returncode == 0, done.stderr
    pairs = [("outer", "outer"), ("outer/kid", "outer/kid")] if name == alone else [(name, alone)]
    for here, other in pairs:
        for words in (["steps"], ["logs"], ["diff", "2..3"]):
            verb, *more = words
            mine = shared.ll(verb, here, *more)
            assert mine.returncode == 0, mine.stderr
            assert there.ll(verb, other, *more).stdout == mine.stdout
        assert said(there, "replay", other)[0] == 0
    assert said(there, "fork", pairs[-1][1], "--at", "2", "-qq")[0] == 0


# ── branches ───────────────────────────────────────────────────────────────────────────────────

ONE = """\
    context: {item: none}
    evidence: true
    initial: write
    states:
      write: {action: "echo ${context.item} > out-${context.item}.txt; seq 30000", next: check}
      check: {action: "test -e out-${context.item}.txt; seq 9", check: true, on_pass: end, on_fail: bad}
      end: {terminal: true}
      bad: {terminal: true, outcome: failure}
"""
THREE = """\
    initial: list
    states:
      list: {action: "printf 'a\\nb b\\nc\\n'", next: each}
      each:
        for_each: "${captured.list.output}"
        loop: one
        with: {item: "${branch.item}"}
        on_pass: acts
        on_fail: bad
      acts:
        branches: {lint: {action: "echo lint > lint.txt"}, types: {action: "exit 1"}}
        join: any
        on_pass: last
        on_fail: bad
      last: {action: "echo ${captured.each.passed} of ${captured.each.total} > last.txt", next: done}
      done: {terminal: true}
      bad: {terminal: true, outcome: failure}
"""


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory) -> KeptProject:
    project = KeptProject(tmp_path_factory.mktemp("branched"))
    project.loop("one", ONE)
    project.loop("three", THREE)
    project.commit("loops")
    done = project.ll("run", "three")
    assert done.returncode == 0, done.stdout + done.stderr
    return project


def test_undo_of_branches_and_twice_is_the_identity(branched):
    before, git = files(branched), users(branched)
    assert said(branched, "undo", "three", "--to", "2")[1] == (
        "restored 2 files as they were after step 2\n  removed   last.txt\n  removed   lint.txt\n"
    )
    assert said(branched, "undo", "three", "--to", "2")[0] == 0
    assert files(branched) == before
    assert said(branched, "undo", "three")[1] == (
        "restored 5 files as they were before the run\n"
        "  removed   last.txt\n"
        "  removed   lint.txt\n"
        "  removed   out-a.txt\n"
        "  removed   out-b b.txt\n"
        "  removed   out-c.txt\n"
    )
    assert said(branched, "undo", "three")[0] == 0
    assert (files(branched), users(branched)) == (before, git)
    assert said(branched, "undo", "three/each/a")[0] == 2


def test_branches_are_replayed_by_their_recorded_results(branched):
    for name in ("three", "three/each/b-b", "three/acts/lint"):
        assert said(branched, "replay", name)[0] == 0, name
    other = branched.root / "other.yaml"
    other.write_text(THREE.replace("join: any", "join: all"))  # what was stopped, has not passed
    code, text, _ = said(branched, "replay", "three", "--with", str(other))
    assert (code, "replayed:  acts → bad (on_fail)" in text) == (0, True), text


def test_a_fork_of_a_run_with_branches(branched):
    """A branch shares the files of the others, so that it cannot be forked alone."""
    before = files(branched)
    done = branched.ll("fork", "three", "--at", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert files(branched) == before
    (place,) = (branched.home / ".cache/little-loops/worktrees").glob("*/three@step2")
    assert (place / "last.txt").read_text() == "3 of 3\n"
    assert rows(branched, "three@step2") == rows(branched, "three")
    assert rows(branched, "three@step2/each/b-b") == rows(branched, "three/each/b-b")
    assert said(branched, "fork", "three/each/a", "--at", "1") == (
        2,
        "",
        (
            "error: no snapshots of the files were recorded for `three/a`\n"
            "   = help: its snapshots may be stored with `three`, which started it\n"
        ),
    )


def test_a_run_with_branches_is_the_same_elsewhere(branched, tmp_path):
    there = KeptProject(tmp_path)
    assert branched.ll("export", "three", "-o", str(tmp_path / "three.llrun")).returncode == 0
    done = there.ll("import", str(tmp_path / "three.llrun"))
    assert done.returncode == 0, done.stderr
    for name in ("three", "three/each/b-b", "three/acts/types"):
        for verb in ("steps", "logs"):
            assert there.ll(verb, name).stdout == branched.ll(verb, name).stdout
        assert said(there, "replay", name)[0] == 0
    assert said(branched, "export", "three/acts/lint") == (
        2,
        "",
        (
            "error: `three/acts/lint` is a single action of `three`, not a separate run\n"
            "   = help: `ll-loop export three` exports both\n"
        ),
    )
