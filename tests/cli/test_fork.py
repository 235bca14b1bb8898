"""`ll-loop fork` on real runs: what it prints and makes, and what it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.test_undo import files, said, store_of, users
from tests.project import Project, until
from tests.receipts.kept_run import KeptProject
from tests.simulation.command import GONE, At, command, dies, in_memory, operations
from tests.trees.projects import fingerprint

AGENT = """\
#!/bin/sh
echo "turn in $(basename $PWD)"
n=$(cat count.txt)
echo $((n + 1)) > count.txt
echo "$n" > "new-$n.txt"
"""
LOOP = """\
    name: count
    paradigm: goal
    goal: It counts to three
    tools:
      - test "$(cat count.txt)" = {until}
      - {{action: "Count", action_type: prompt}}
    host: {host}
    context: {{who: me}}
    max_iterations: 10
"""


class Counting(KeptProject):
    """A project whose agent counts, with an environment that git ignores."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (root / "agent").write_text(AGENT)
        (self.root / "count.txt").write_text("0\n")
        (self.root / ".gitignore").write_text(".venv/\n.env\n")
        (self.root / ".venv/lib").mkdir(parents=True)
        (self.root / ".venv/lib/tool.py").write_text("tool\n")
        (self.root / ".venv/lib/own.pth").write_text(f"{self.root}/src\n")
        (self.root / ".env").write_text("KEY=1\n")
        (self.root / "script.sh").write_text("true\n")
        (self.root / "script.sh").chmod(0o750)
        self.define("count")
        self.commit("count")
        (self.root / "untracked.txt").write_text("untracked\n")

    def define(self, name: str, until: int = 3) -> Path:
        host = json.dumps(
            {"name": "command", "command": [str(self.root.parent / "agent"), "{prompt}"]}
        )
        return self.loop(name, LOOP.format(host=host, until=until))

    def counted(self) -> Counting:
        done = self.ll("run", "count")
        assert done.returncode == 0, done.stdout + done.stderr
        return self

    def worktree(self, name: str) -> Path:
        [base] = (self.home / ".cache/little-loops/worktrees").iterdir()
        return base / name


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Counting]:
    made = Counting(tmp_path).counted()
    yield made
    made.end_actions()


def parents_files(project: Project) -> dict[str, tuple[str, str]]:
    return fingerprint(project.root / ".loops/.history/count")


FROM_STEP_2 = """\
forked as count@step2, on branch ll/fork/count@step2
worktree: {place}
Resuming loop 'count' from state 'fix' (iteration 2)
[2/10] evaluate → running test "$(cat count.txt)" = 3...
       ✗ (exit 1) · tree TREE
       → fix (on_fail)
[2/10] fix → running "Count"...
       ✓ turn in count@step2
       → evaluate
[3/10] evaluate → running test "$(cat count.txt)" = 3...
       ✗ (exit 1) · tree TREE
       → fix (on_fail)
[3/10] fix → running "Count"...
       ✓ turn in count@step2
       → evaluate
[4/10] evaluate → running test "$(cat count.txt)" = 3...
       ✓ (exit 0) · tree TREE
       → done (on_pass)

Loop completed: done (4 iterations, TIME)
Files changed: count.txt, new-0.txt, new-1.txt and 1 more (+4 -1)
Verified on tree TREE; for a receipt: ll-loop receipt count@step2
"""


def others(found: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the files that are not the fork's; the index has a line for each run that has ended."""
    own = ("@step2", ".history/index.jsonl")
    return {name: one for name, one in found.items() if not any(part in name for part in own)}


def settled(text: str) -> str:
    import re

    return re.sub(r"tree [0-9a-f]{6}", "tree TREE", re.sub(r", [0-9.]+s\)", ", TIME)", text))


def test_a_fork_continues_in_a_worktree(project):
    before, git, parent = files(project), users(project), parents_files(project)
    code, out, err = said(project, "fork", "count", "--at", "2")
    place = project.worktree("count@step2")
    assert (code, settled(out), err) == (0, FROM_STEP_2.format(place=place), "")
    assert (place / "count.txt").read_text() == "3\n"
    assert (place / "untracked.txt").read_text() == "untracked\n"
    assert (place / "script.sh").stat().st_mode & 0o777 == 0o750
    # What is ignored is linked, and an editable install leads into the worktree.
    assert (place / ".venv/lib/tool.py").read_text() == "tool\n"
    assert (place / ".venv/lib/own.pth").read_text() == f"{place}/src\n"
    assert (place / ".env").read_text() == "KEY=1\n"
    assert project.git("-C", str(place), "status", "--short").splitlines() == [
        "M count.txt",
        "?? .loops/.gitignore",
        "?? new-0.txt",
        "?? new-1.txt",
        "?? new-2.txt",
        "?? untracked.txt",
    ]
    # Nothing of the user's has changed but the branch, and nothing of the other run.
    after = users(project)
    assert after.pop("refs").replace(branch_line(project), "").strip() == git.pop("refs")
    assert after == git
    assert others(files(project)) == others(before)
    assert parents_files(project) == parent


def branch_line(project: Project) -> str:
    head = project.git("rev-parse", "HEAD")
    return f"{head} commit\trefs/heads/ll/fork/count@step2\n"


def test_the_family_is_shown(project):
    project.ll("fork", "count", "--at", "2", "-q")
    place = project.worktree("count@step2")
    [fork, parent] = json.loads(project.ll("history", "--json").stdout)["runs"]
    assert fork["forked_from"] == {"run": parent["run"], "name": "count", "step": 2}
    assert parent["forked_from"] is None
    shown = project.ll("history").stdout.splitlines()
    assert shown[0].split()[-3:] == ["FORK", "OF", "RUN"]
    assert "count, step 2" in shown[1]
    rows = project.ll("status", "count@step2").stdout.splitlines()
    assert "  fork of    count, after step 2" in rows
    assert f"  worktree   {place}" in rows
    assert "  forks      count@step2" in project.ll("status", "count").stdout.splitlines()
    found = json.loads(project.ll("status", "count", "--json").stdout)
    assert (found["forks"], found["worktree"]) == (["count@step2"], None)
    found = json.loads(project.ll("status", "count@step2", "--json").stdout)
    assert (found["forks"], found["worktree"]) == ([], str(place))
    log = project.events("count@step2")
    [event] = [one for one in log if one["event"] == "forked"]
    assert (event["parent"], event["parent_name"], event["step"]) == (parent["run"], "count", 2)
    assert {one["run"] for one in log} == {fork["run"]}
    assert [one["seq"] for one in log] == list(range(1, len(log) + 1))
    assert "Forked from count after step 2" in project.ll("logs", "count@step2").stdout
    steps = json.loads(project.ll("steps", "count@step2", "--json").stdout)["steps"]
    assert [step["number"] for step in steps] == list(range(1, 9))
    assert "step 2: fix" in project.ll("diff", "count@step2").stdout


def test_made_first_and_resumed_later(project):
    place_of = project.worktree
    code, out, err = said(project, "fork", "count", "--at", "4", "--no-start")
    place = place_of("count@step4")
    assert (code, out, err) == (
        0,
        f"forked as count@step4, on branch ll/fork/count@step4\nworktree: {place}\n",
        "next: ll-loop resume count@step4\n",
    )
    assert (place / "count.txt").read_text() == "2\n"
    assert "! forked" in project.ll("status").stdout
    # The same command again gives the same fork, until it has started.
    found = json.loads(project.ll("fork", "count", "--at", "4", "--no-start", "--json").stdout)
    assert (found["name"], found["place"]) == ("count@step4", str(place))
    assert project.ll("resume", "count@step4", "-qq").returncode == 0
    assert (place / "count.txt").read_text() == "3\n"
    assert said(project, "fork", "count", "--at", "4", "--no-start", "-qq") == (0, "", "")
    assert place_of("count@step4-2").exists()
    assert said(project, "fork", "count", "--at", "4", "--id", "step4") == (
        2,
        "",
        (
            "error: there is already a run named `count@step4`\n"
            "   = help: choose another name with `--id ID`\n"
        ),
    )
    assert project.ll("fork", "count", "--at", "4", "--id", "mine", "-qq").returncode == 0
    assert (place_of("count@mine") / "count.txt").read_text() == "3\n"


def test_what_git_ignores_can_be_left_out(project):
    assert project.ll("fork", "count", "--at", "4", "--no-start", "-qq").returncode == 0
    words = ("fork", "count", "--at", "4", "--no-start", "--no-links", "--id", "bare", "-qq")
    assert project.ll(*words).returncode == 0
    assert (project.worktree("count@step4") / ".venv/lib/tool.py").exists()
    assert not (project.worktree("count@bare") / ".venv").exists()


def test_in_the_background(project):
    done = project.ll("fork", "count", "--at", "2", "--background", "--json")
    assert done.returncode == 0, done.stderr
    assert project.ll("wait", "count@step2").returncode == 0


def test_a_fork_of_a_fork(project):
    project.ll("fork", "count", "--at", "4", "--id", "one", "-qq")
    assert project.ll("fork", "count@one", "--at", "2", "--id", "two", "-qq").returncode == 0
    assert (project.worktree("count@two") / "count.txt").read_text() == "3\n"
    found = json.loads(project.ll("status", "count@two", "--json").stdout)["forked_from"]
    assert (found["name"], found["step"]) == ("count@one", 2)
    assert project.ll("replay", "count@two").returncode == 0


def test_another_definition_and_context(project):
    other = project.define("count", until=2)
    shutil.move(other, project.root.parent / "other.yaml")
    project.define("count")
    words = ("fork", "count", "--at", "2", "--with", "../other.yaml", "--context", "who=you")
    assert project.ll(*words, "-qq").returncode == 0
    assert (project.worktree("count@step2") / "count.txt").read_text() == "2\n"
    assert project.state("count@step2")["context"] == {"who": "you"}
    assert project.ll("replay", "count@step2").returncode == 0
    # A resume compares with that file, not with the loop's own.
    assert project.ll("fork", "count", "--at", "4", *words[4:], "--no-start").returncode == 0
    assert project.ll("resume", "count@step4", "-qq").returncode == 0


def test_a_definition_without_the_next_state_is_refused(project):
    path = project.root.parent / "other.yaml"
    path.write_text(
        "name: other\ninitial: one\nstates:\n  one: {action: pwd, next: done}\n"
        "  done: {terminal: true}\n"
    )
    assert said(project, "fork", "count", "--at", "2", "--with", str(path)) == (
        2,
        "",
        "error: cannot fork after step 2: its state `fix` is not in the definition\n",
    )
    assert not (project.home / ".cache/little-loops/worktrees").exists()


def test_a_project_below_the_top_of_its_repository(tmp_path):
    project = Counting(tmp_path)
    shutil.rmtree(project.root / ".git")
    top = project.root.parent
    (top / "around.txt").write_text("around\n")
    (top / ".gitignore").write_text("home/\nagent\n")
    project.git("init", "-q", str(top))
    project.commit("all")
    project.counted()
    assert project.ll("fork", "count", "--at", "2", "-qq").returncode == 0
    place = project.worktree("count@step2")
    assert (place / "project/count.txt").read_text() == "3\n"
    assert (place / "around.txt").read_text() == "around\n"
    assert project.git("-C", str(place), "status", "--short", "around.txt") == ""


def test_commits_that_agents_made_before_the_step_are_in_its_branch(tmp_path):
    project = Counting(tmp_path)
    agent = project.root.parent / "agent"
    who = "git -c user.name=a -c user.email=a@example.invalid"
    agent.write_text(f"{AGENT}git add -A; {who} commit -qm $n\n")
    project.counted()
    assert project.ll("fork", "count", "--at", "4", "--no-start", "-qq").returncode == 0
    log = project.git("log", "--format=%s", "ll/fork/count@step4")
    assert log.splitlines() == ["1", "0", "count", "start"]


# ── in the project ─────────────────────────────────────────────────────────────────────────────


def test_here_and_back(project):
    before, git = files(project), users(project)
    code, out, err = said(project, "fork", "count", "--at", "2", "--here", "--no-start")
    assert (code, out, err) == (
        0,
        "forked as count@step2, in the project\n",
        "next: ll-loop resume count@step2\n",
    )
    assert (project.file("count.txt"), project.file("new-1.txt")) == ("1\n", "")
    assert users(project) == git
    assert project.ll("undo", "count@step2").stdout.startswith("restored 3 files as they were")
    assert others(files(project)) == others(before)
    project.ll("undo", "count@step2")
    assert project.ll("resume", "count@step2", "-qq").returncode == 0
    assert project.file("count.txt") == "3\n"
    assert users(project) == git


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param("echo mine > count.txt", "count.txt", id="an edit"),
        pytest.param("echo mine > mine.txt", "mine.txt", id="a new file"),
        pytest.param("rm script.sh", "script.sh", id="a deleted file"),
    ],
)
def test_here_needs_files_as_the_run_left_them_or_as_committed(change, path, project):
    os.system(f"cd {project.root} && {change}")
    before = files(project)
    assert said(project, "fork", "count", "--at", "2", "--here") == (
        2,
        "",
        (
            "error: `--here` would overwrite uncommitted changes that the run did not make:"
            f" {path}\n"
            "   = help: commit or stash them, or leave out `--here` to fork into a worktree\n"
        ),
    )
    assert files(project) == before


def test_here_is_fine_with_what_is_committed(project):
    (project.root / "count.txt").write_text("7\n")
    project.commit("seven")
    assert project.ll("fork", "count", "--at", "2", "--here", "--no-start").returncode == 0
    assert project.file("count.txt") == "1\n"


def test_here_takes_the_claim(project):
    project.loop(
        "other",
        """\
        name: other
        initial: wait
        states:
          wait: {action: "touch ../up; exec sleep 60", next: done}
          done: {terminal: true}
        """,
    )
    project.commit("other")
    with project.started("run", "other"):
        until((project.root.parent / "up").exists, "run")
        code, out, err = said(project, "fork", "count", "--at", "2", "--here")
        assert (code, out) == (5, "")
        assert err.startswith(
            "error: Cannot start 'count@step2' - loop 'other' is running with overlapping scope\n"
        )
        assert project.file("count.txt") == "3\n"
        # A worktree is in nobody's way.
        assert project.ll("fork", "count", "--at", "2", "-qq").returncode == 0


# ── what is refused ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(
            (),
            "error: `fork` needs the step that the new run starts after: `--at STEP`\n"
            "   = help: `ll-loop steps count` lists the steps\n",
            id="no step",
        ),
        pytest.param(
            ("--at", "99"),
            "error: `count` has no step 99\n   = help: `ll-loop steps count` lists its steps\n",
            id="no such step",
        ),
        pytest.param(
            ("--at", "8"),
            "error: cannot fork after step 8: the run ended in step 8, in state `done`\n",
            id="the last step",
        ),
        pytest.param(
            ("--at", "2", "--context", "gone=1"),
            "error: the loop has no context variable `gone`\n   = help: known: `who`\n",
            id="unknown context",
        ),
    ],
)
def test_what_cannot_be_forked_is_said(words, error, project):
    assert said(project, "fork", "count", *words) == (2, "", error)
    assert project.git("for-each-ref", "refs/heads/ll") == ""


def test_a_run_without_evidence_cannot_be_forked(project):
    project.ll("run", "count", "--no-evidence", "--fresh", "-qq")
    assert said(project, "fork", "count", "--at", "1") == (
        2,
        "",
        (
            "error: no snapshots of the files were recorded for `count`\n"
            "   = help: evidence was off for this run\n"
        ),
    )


def test_without_a_commit_nothing_is_made(tmp_path):
    """The same step can be forked in the project then, under the same name."""
    project = Counting(tmp_path)
    shutil.rmtree(project.root / ".git")
    project.git("init", "-q")
    project.counted()
    before = files(project)
    assert said(project, "fork", "count", "--at", "2") == (
        2,
        "",
        (
            "error: a fork in a worktree needs a commit to start from\n"
            "   = help: commit something first, or fork with `--here`\n"
        ),
    )
    assert files(project) == before
    done = project.ll("fork", "count", "--at", "2", "--here", "--no-start")
    assert done.stdout == "forked as count@step2, in the project\n"


def test_a_damaged_store_and_a_worktree_that_is_gone_are_said(project):
    project.ll("fork", "count", "--at", "2", "--no-start")
    place = project.worktree("count@step2")
    shutil.rmtree(place)
    assert said(project, "resume", "count@step2") == (
        2,
        "",
        (
            f"error: the worktree of `count@step2` is gone: `{place}`\n"
            "   = help: fork the original run again\n"
        ),
    )
    for pack in (store_of(project) / "git/objects/pack").iterdir():
        pack.unlink()
    code, out, err = said(project, "fork", "count", "--at", "4")
    assert (code, out) == (1, "")
    assert "error: " in err
    assert "Traceback" not in err


def test_outputs_come_along_with_what_the_log_hides(tmp_path):
    project = KeptProject(tmp_path)
    project.loop(
        "secret",
        """\
        name: secret
        initial: one
        evidence: true
        states:
          one: {action: "echo key $A_TOKEN; seq 9999", next: two}
          two: {action: "true", check: true, on_pass: three}
          three: {action: "cat ${captured.one.file} | head -1 > found.txt", next: done}
          done: {terminal: true}
        """,
    )
    project.ll("run", "secret", env={"A_TOKEN": "hunter2-hunter2"})
    assert project.ll("fork", "secret", "--at", "2", "-qq").returncode == 0
    [base] = (project.home / ".cache/little-loops/worktrees").iterdir()
    assert (base / "secret@step2/found.txt").read_text() == "key hunter2-hunter2\n"
    assert "hunter2" not in json.dumps(project.events("secret@step2"))


# ── a fork ends as the recording did ───────────────────────────────────────────────────────────


def test_a_fork_at_every_step_ends_as_the_run_did_with_the_same_tree(project):
    """The agent and the checks are the same, so each fork has to find what the run found."""
    last = [one for one in project.events("count") if one["event"] == "tree"][-1]
    ending = project.events("count")[-1]
    recorded = [one["state"] for one in project.events("count") if one["event"] == "state_enter"]
    for step in range(1, 8):
        assert project.ll("fork", "count", "--at", str(step), "-qq").returncode == 0
        events = project.events(f"count@step{step}")
        tree = [one for one in events if one["event"] == "tree"][-1]
        assert (tree["id"], tree["project"]) == (last["id"], last["project"]), step
        # A pass of the other run is repeated before it counts, without a new step.
        assert [one["state"] for one in events if one["event"] == "state_enter"] == recorded
        same = ("event", "status", "reason", "final_state", "iterations", "evidence")
        assert {name: events[-1].get(name) for name in same} == {
            name: ending.get(name) for name in same
        }
        assert project.ll("replay", f"count@step{step}").returncode == 0


# ── kills ──────────────────────────────────────────────────────────────────────────────────────

WORKTREE = ("fork", "count", "--at", "2", "--no-start")
HERE = (*WORKTREE, "--here")


def killed_and_done_again(
    words: tuple[str, ...], home: Path, each: int, check: Callable[[Counting], None]
) -> int:
    """Kill a fork at one file operation after the other; the same command finishes it."""
    first = Counting(_made(home / "first")).counted()
    count = len(operations(first, *words))
    shutil.rmtree(first.root.parent)
    for number in range(each, count + 1, each):
        place = _made(home / "again")
        project = Counting(place).counted()
        parent, git = parents_files(project), users(project)
        killed = command(project, *words, at=At(number, dies))
        assert killed.code in (0, GONE), killed
        done = command(project, *words)
        assert done.code == 0, (number, killed.reached, done.err)
        try:
            check(project)
            assert parents_files(project) == parent
            assert users(project)["head"] == git["head"]
            assert users(project)["index"] == git["index"]
            resumed = command(project, "resume", "count@step2", "-qq")
            assert resumed.code == 0, resumed.err
        except AssertionError as error:
            raise AssertionError(f"killed at {number}: {killed.reached}") from error
        shutil.rmtree(place)
    return count // each


def _made(place: Path) -> Path:
    place.mkdir()
    return place


def is_one_worktree(project: Counting) -> None:
    place = project.worktree("count@step2")
    assert os.listdir(place.parent) == ["count@step2"]
    assert (place / "count.txt").read_text() == "1\n"
    assert not [path for path in fingerprint(place) if ".ll-restore" in path]
    assert project.git("worktree", "list").count("\n") == 1
    assert only_one(project)


def is_in_project(project: Counting) -> None:
    assert project.file("count.txt") == "1\n"
    assert not (project.root / "new-1.txt").exists()
    assert not [path for path in files(project) if ".ll-restore" in path]
    assert only_one(project)


def only_one(project: Counting) -> bool:
    runs = json.loads(project.ll("status", "--json").stdout)["runs"]
    return [(run["name"], run["reason"]) for run in runs] == [("count@step2", "fork")]


@pytest.mark.parametrize(
    ("words", "check"),
    [
        pytest.param(WORKTREE, is_one_worktree, id="worktree"),
        pytest.param(HERE, is_in_project, id="here"),
    ],
)
def test_a_fork_killed_at_an_operation_is_finished_by_the_same_command(words, check):
    with in_memory() as home:
        assert killed_and_done_again(words, home, 29, check) > 2


@pytest.mark.soak
@pytest.mark.parametrize(
    ("words", "check"),
    [
        pytest.param(WORKTREE, is_one_worktree, id="worktree"),
        pytest.param(HERE, is_in_project, id="here"),
    ],
)
def test_a_fork_killed_at_every_operation_is_finished_by_the_same_command(
    words, check, record_property
):
    with in_memory() as home:
        reached = killed_and_done_again(words, home, 1, check)
        record_property("figure: kills of a fork, every operation", reached)
