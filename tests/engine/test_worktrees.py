"""Runs in worktrees, with real git: what they merge, and what of the user's they leave alone."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.engine.kill_sweep import left_of_actions
from tests.project import Project, until
from tests.simulation.command import (
    GONE,
    At,
    InChildren,
    command,
    dies,
    in_memory,
    operations,
)
from tests.trees.projects import fingerprint

LINES = "".join(f"line {number}\n" for number in range(9))
OWN = """\
initial: work
states:
  work: {{action: "{action}", next: done}}
  done: {{terminal: true}}
worktree: {worktree}
"""
STATE = """\
initial: types
states:
  types:
    loop:
      initial: work
      states: {{work: {{action: "{action}", next: ok}}, ok: {{terminal: true}}}}
    worktree: {worktree}
    on_pass: done
  done: {{terminal: true}}
"""
HOOKS = ("pre-commit", "commit-msg", "post-commit", "post-merge", "post-checkout", "pre-rebase")
SOME = 23
"""Every so many operations, a run is killed in the usual tests; in the soak tests, at each."""


class Repository(Project):
    """A project in a git repository with hooks and a stash, and with edits that are not committed."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "a")
        self.git("config", "user.email", "a@example.org")
        self.git("config", "commit.gpgSign", "true")
        self.write("a.py", LINES)
        self.write("b.py", LINES)
        self.write("mine.py", "mine\n")
        self.write(".gitignore", ".env\nlib/\n*.log\n")
        self.save("first")
        self.write("b.py", "stashed\n")
        self.git("stash")
        for hook in HOOKS:
            path = self.root / ".git/hooks" / hook
            path.write_text(f"#!/bin/sh\necho {hook} >> {place}/hooks.log\n")
            path.chmod(0o755)
        self.write("mine.py", "my edit\n")
        self.write("new.py", "staged\n")
        self.git("add", "new.py")
        self.write("untracked.py", "untracked\n")
        self.hooks = place / "hooks.log"

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def save(self, message: str) -> None:
        self.git("add", "-A")
        self.quietly("commit", "-q", "-m", message)

    def quietly(self, *words: str) -> str:
        return self.git("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", *words)

    def run(self, text: str, *words: str) -> Any:
        self.loop("w", text)
        return self.ll("run", "w", *words)

    def users(self) -> dict[str, Any]:
        """What is the user's, but for the branch that is checked out and the files it has."""
        return {
            "status": self.git("status", "--porcelain", "--", "*.py"),
            "staged": self.git("diff", "--cached", "--name-status"),
            "stash": self.git("stash", "list"),
            "mine": (self.root / "mine.py").read_text(),
            "config": (self.root / ".git/config").read_text(),
            "hooks": self.hooks.exists(),
            "branches": self.git("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags"),
        }

    def reflogs(self) -> dict[str, str]:
        """The reflogs that are the user's, as they are on disk."""
        logs = self.root / ".git/logs"
        return {
            name: (logs / name).read_text() for name in ("HEAD", "refs/heads/main", "refs/stash")
        }

    def merged(self) -> list[str]:
        """The commits since the first, as the reflog of the branch and its history have them."""
        moves = self.git("reflog", "show", "--format=%gs", "main").split("\n")
        return [*moves, self.git("log", "--format=%s", "main")]

    def worktrees(self) -> list[Path]:
        found = self.git("worktree", "list", "--porcelain").split("\n")
        return [Path(line[9:]) for line in found if line.startswith("worktree ")][1:]


@pytest.fixture
def repository() -> Iterator[Repository]:
    with in_memory() as place:
        made = Repository(place)
        yield made
        made.end_actions()


def told(done: Any) -> str:
    return f"{done.returncode}\n{done.stdout}{done.stderr}"


# ── what lands ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", [OWN, STATE], ids=["a loop", "a state"])
@pytest.mark.parametrize("way", ["merge", "squash"])
def test_work_lands_by_one_fast_forward_and_nothing_else_of_the_users_changes(
    repository, text, way
):
    before, index = repository.users(), (repository.root / ".git/index").read_bytes()
    logs = repository.reflogs()
    action = "sed -i s/0/zero/ a.py; echo x > fresh.py; rm b.py; echo no > w.log"
    done = repository.run(
        text.format(action=action, worktree=f"{{merge: {way}, check: test -e fresh.py}}")
    )
    assert done.returncode == 0, told(done)
    assert repository.users() == before
    assert (repository.root / "a.py").read_text().startswith("line zero")
    assert (repository.root / "fresh.py").exists()
    assert not (repository.root / "b.py").exists()
    assert not (repository.root / "w.log").exists()
    moves = repository.git("reflog", "show", "--format=%gs", "main").split("\n")
    assert [move.split(":")[-1].strip() for move in moves[:-1]] == ["Fast-forward"]
    added = {name: text.removeprefix(logs[name]) for name, text in repository.reflogs().items()}
    assert {name: text.count("\n") for name, text in added.items()} == {
        "HEAD": 1,
        "refs/heads/main": 1,
        "refs/stash": 0,
    }
    assert (repository.root / ".git/index").read_bytes() != index
    assert repository.worktrees() == []
    parents = repository.git("log", "-1", "--format=%P", "main").split()
    assert len(parents) == (2 if way == "merge" else 1)
    run, name = repository.state("w")["run"], "w" if text == OWN else "types"
    for commit in ("main", *parents[1:]):
        trailers = repository.git("log", "-1", "--format=%(trailers:only)", commit)
        assert trailers == f"Loop: w\nRun: {run}\nBranch: {name}"
        assert repository.git("log", "-1", "--format=%an <%ae> %G?", commit) == (
            "a <a@example.org> N"
        )


@pytest.mark.parametrize("text", [OWN, STATE], ids=["a loop", "a state"])
def test_nothing_changed_lands_nothing(repository, text):
    head = repository.git("rev-parse", "HEAD")
    done = repository.run(text.format(action="true", worktree="{merge: merge}"))
    assert done.returncode == 0, told(done)
    assert repository.git("rev-parse", "HEAD") == head
    assert "nothing to commit: the run changed no files" in done.stdout
    assert repository.git("for-each-ref", "refs/heads/ll") == ""


@pytest.mark.parametrize("text", [OWN, STATE], ids=["a loop", "a state"])
def test_a_tree_that_turns_the_check_red_never_lands(repository, text):
    head, before = repository.git("rev-parse", "HEAD"), repository.users()
    index, logs = (repository.root / ".git/index").read_bytes(), repository.reflogs()
    red = "{merge: merge, check: 'echo not good; exit 1'}"
    done = repository.run(text.format(action="echo x >> a.py", worktree=red))
    assert done.returncode == 1, told(done)
    assert (repository.root / ".git/index").read_bytes() == index
    assert repository.reflogs() == logs
    assert "`check` failed after the merge: exit 1: not good" in done.stdout
    assert repository.git("rev-parse", "HEAD") == head
    [kept] = repository.worktrees()
    assert (kept / "a.py").read_text() == LINES + "x\n"
    branch = repository.git("for-each-ref", "--format=%(refname)", "refs/heads/ll")
    assert repository.users() == {**before, "branches": f"{branch}\n{before['branches']}"}


def test_the_check_sees_the_merged_tree_in_a_copy_with_what_git_ignores(repository):
    repository.write(".env", "KEY=1\n")
    repository.write("lib/x.js", "lib\n")
    check = "cat .env lib/x.js; test $LL_CLEAN = 1; git log -1 --format=%s; test ! -e w.log; pwd"
    tree = "{check: " + json.dumps(check) + "}"
    text = STATE.format(action="echo x > c.py; touch w.log", worktree=tree)
    done = repository.run(text, "-v")
    assert done.returncode == 0, told(done)
    shown = [line[9:] for line in done.stdout.split("\n") if line.startswith("       | ")]
    assert shown == ["KEY=1", "lib", "Merge `types`", str(repository.root)]


# ── several branches ───────────────────────────────────────────────────────────────────────────

MANY = """\
initial: all
states:
  all:
    for_each: {items}
    action: "{action}"
    worktree: {worktree}
    on_pass: done
    on_conflict: torn
  done: {{terminal: true}}
  torn: {{terminal: true}}
"""


def test_two_branches_that_are_green_alone_and_red_together_never_land_together(repository):
    """Each passes by itself; with both files, the check fails."""
    text = MANY.format(
        items="[one, two]",
        action="touch ${branch.item}.py; test $(ls one.py two.py 2>/dev/null | wc -l) = 1",
        worktree="{check: 'test ! -e one.py || test ! -e two.py'}",
    )
    done = repository.run(text)
    assert done.returncode == 1, told(done)
    assert "`two` is not merged: `check` failed after the merge: exit 1" in done.stdout
    assert (repository.root / "one.py").exists()
    assert not (repository.root / "two.py").exists()
    [kept] = repository.worktrees()
    assert (kept / "two.py").exists()


def test_of_twelve_branches_the_nine_without_a_conflict_land(repository):
    before = repository.users()
    names = [f"n{number:02}" for number in range(12)]
    torn = ("n03", "n07", "n10")
    action = (
        "echo ${branch.item} > ${branch.item}.py;"
        " case ${branch.item} in n01|n03|n07|n10) echo ${branch.item} >> a.py;; esac"
    )
    text = MANY.format(items=names, action=action, worktree="true")
    done = repository.run(text)
    assert done.returncode == 1, told(done)
    landed = [name for name in names if (repository.root / f"{name}.py").exists()]
    assert landed == [name for name in names if name not in torn]
    assert (repository.root / "a.py").read_text() == LINES + "n01\n"
    for name in torn:
        assert f"`{name}` is not merged: conflict (a.py)" in done.stdout
    moves = repository.git("reflog", "show", "--format=%gs", "main").split("\n")
    assert len(moves) == 2
    assert len(repository.worktrees()) == 3
    ours = repository.git("for-each-ref", "--format=%(refname)", "refs/heads/ll").split("\n")
    assert [ref.rpartition("/")[2] for ref in ours] == list(torn)
    after = repository.users()
    assert {**after, "branches": ""} == {**before, "branches": ""}


# ── resolving conflicts ────────────────────────────────────────────────────────────────────────

BOTH = "(echo line ${branch.item}; sed 1d a.py) > new; mv new a.py; echo x > ${branch.item}.py"
FITS = (
    "echo ${branch.conflict.reason} ${branch.name}; sed -i '/^[<=>]/d' ${branch.conflict.files.0}"
)


@pytest.mark.parametrize("settings", ["", "merge: squash, ", "from: working-tree, "])
def test_a_branch_that_is_in_conflict_is_resolved(repository, settings):
    before = repository.users()
    resolve = "{action: " + json.dumps(FITS) + "}"
    tree = f"{{{settings}check: test ! -e untracked.py, resolve: {resolve}}}"
    done = repository.run(MANY.format(items="[one, two]", action=BOTH, worktree=tree), "-v")
    assert done.returncode == 0, told(done)
    assert "[all/two.resolve-1]        | conflict two" in done.stdout
    assert (repository.root / "a.py").read_text().startswith("line one\nline two\nline 1\n")
    assert repository.users() == before
    changed = repository.git("diff", "--name-only", "HEAD@{1}", "HEAD").split("\n")
    assert changed == ["a.py", "one.py", "two.py"]
    assert repository.worktrees() == []
    assert repository.ll("status", "w/two.resolve-1").stdout.startswith("w/all/two.resolve-1  ✓")
    assert repository.ll("replay", "w").returncode == 0


def test_a_branch_that_fails_the_check_is_resolved_by_a_loop(repository):
    repository.loop(
        "fit",
        """\
        context: {why: ''}
        initial: fix
        states:
          fix: {action: "echo ${context.why}; rm one.py", next: done}
          done: {terminal: true}
        """,
    )
    resolve = "{loop: fit, with: {why: '${branch.conflict.reason}'}}"
    tree = f"{{check: 'test ! -e one.py || test ! -e two.py', resolve: {resolve}}}"
    action = "touch ${branch.item}.py"
    done = repository.run(MANY.format(items="[one, two]", action=action, worktree=tree), "-v")
    assert done.returncode == 0, told(done)
    assert "| `check` failed after the merge: exit 1" in done.stdout
    assert not (repository.root / "one.py").exists()
    assert (repository.root / "two.py").exists()


@pytest.mark.parametrize(
    ("resolve", "why"),
    [
        ("'true'", "conflict markers are left in a.py"),
        ("exit 1", "it failed"),
        ("exit 2", "exit 2"),
    ],
)
def test_a_branch_that_still_cannot_be_merged_is_left_out(repository, resolve, why):
    tree = f"{{resolve: {{action: {resolve}}}, tries: 2}}"
    done = repository.run(MANY.format(items="[one, two]", action=BOTH, worktree=tree))
    assert done.returncode == 1, told(done)
    assert "[all/two.resolve-2]" in done.stdout
    reason = f"conflict (a.py); `resolve` did not fix it: {why}"
    assert f"two cannot be merged: {reason}; running two.resolve-2" in done.stdout
    assert f"`two` is not merged: {reason}" in done.stdout
    assert "<<<<<<<" not in repository.git("show", "main:a.py")
    assert (repository.root / "one.py").exists()
    [kept] = repository.worktrees()
    assert "<<<<<<<" in (kept / "a.py").read_text()
    rows = rows_of(repository.ll("status", "w").stdout)
    assert rows["left out"] == [
        f"two: {reason}",
        "`ll-loop worktrees` lists the worktrees that were kept",
    ]
    report = repository.ll("report", "--markdown").stdout
    assert "**Merged into `main`:** `one`\n\n| left out | why |\n" in report
    assert f"| `two` | ``{reason}`` |\n" in report
    assert rows_of(repository.ll("status", "w/two").stdout)["worktree"] == [str(kept)]
    assert "worktree" not in rows_of(repository.ll("status", "w/one").stdout)


def rows_of(status: str) -> dict[str, list[str]]:
    """The rows of a status, by their labels."""
    rows: dict[str, list[str]] = {}
    label = ""
    for line in status.partition("\n\n")[0].split("\n")[1:]:
        label = line[2:13].strip() or label
        rows.setdefault(label, []).append(line[13:])
    return rows


def test_a_loop_whose_work_is_in_conflict_with_later_commits_is_resolved(repository):
    action = (
        "sed -i s/0/mine/ a.py; cd $LL_PROJECT; sed -i s/0/theirs/ a.py;"
        " git -c core.hooksPath=/dev/null -c commit.gpgSign=false commit -q -m theirs a.py"
    )
    resolve = "{action: \"grep -v '^[<=>]' a.py > new; mv new a.py\"}"
    done = repository.run(STATE.format(action=action, worktree=f"{{resolve: {resolve}}}"))
    assert done.returncode == 0, told(done)
    assert (repository.root / "a.py").read_text().startswith("line theirs\nline mine\nline 1\n")


def test_a_stop_while_it_is_resolved_leaves_nothing_running_and_a_resume_continues(repository):
    wait = "touch $LL_PROJECT/begun.log; while test -e $LL_PROJECT/go.log; do sleep 0.05; done"
    tree = "{resolve: {action: " + json.dumps(f"{wait}; {FITS}") + "}}"
    repository.write("go.log", "")
    repository.loop("w", MANY.format(items="[one, two]", action=BOTH, worktree=tree))
    with repository.started("run", "w") as child:
        until((repository.root / "begun.log").exists, "the run that resolves")
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 130, out
    assert left_of_actions(repository) == []
    (repository.root / "go.log").unlink()
    done = repository.ll("resume", "w")
    assert done.returncode == 0, told(done)
    assert (repository.root / "a.py").read_text().startswith("line one\nline two\nline 1\n")


GATED = """\
initial: fix
states:
  fix: {action: "sed -i '/^[<=>]/d' a.py; echo fixed >> $LL_PROJECT/fixes.log", next: look}
  look: {terminal: true, outcome: review, next: done}
  done: {terminal: true}
"""


@pytest.mark.parametrize(
    ("answer", "code", "lands"),
    [("approve", 0, "line one\nline two\n"), ("reject", 1, "line one\nline 1\n")],
)
def test_a_gate_of_the_run_that_resolves_it_pauses_the_run_until_it_is_answered(
    repository, answer, code, lands
):
    repository.loop("fit", GATED)
    tree = "{resolve: {loop: fit}}"
    done = repository.run(MANY.format(items="[one, two]", action=BOTH, worktree=tree))
    assert done.returncode == 4, told(done)
    assert repository.state("w")["status"] == "needs_review"
    assert repository.git("log", "--format=%s", "main") == "first"
    status = repository.ll("status", "w").stdout
    assert "w/all/two.resolve-1" in status
    done = repository.ll(answer, "w/two.resolve-1", "-m", "no")
    assert done.returncode == code, told(done)
    assert (repository.root / "a.py").read_text().startswith(lands)
    assert (repository.root / "fixes.log").read_text() == "fixed\n"


# ── what is left behind ────────────────────────────────────────────────────────────────────────

SERVES = (
    "import os, socket, time; s = socket.create_server(('127.0.0.1', int(os.environ['PORT'])));"
    " open(os.environ['LL_PROJECT'] + '/up-' + os.environ['PORT'], 'w'); time.sleep(600)"
)
SERVERS = """\
kill_grace: 0.2
{limit}
initial: all
states:
  all:
    branches:
      one: {{action: "{serve}"}}
      two: {{action: "{serve}"}}
      last: {{action: "{last}"}}
    {rule}
    worktree: {{ports: {{PORT: {port}}}}}
    next: done
    on_error: done
    on_timeout: done
  done: {{terminal: true}}
"""


def servers(repository: Repository) -> list[Path]:
    return list(repository.root.glob("up-*"))


@pytest.mark.parametrize(
    ("cause", "limit", "rule", "last"),
    [
        pytest.param("stop", "", "", "sleep 600", id="a stop"),
        pytest.param("", "", "timeout: 12", "sleep 600", id="the timeout of the state"),
        pytest.param("", "timeout: 12", "", "sleep 600", id="the timeout of the loop"),
        pytest.param("", "", "fail_fast: true", "UP; exit 1", id="fail_fast"),
        pytest.param("", "", "join: any", "UP", id="a join"),
    ],
)
def test_neither_processes_nor_locks_nor_ports_are_left(repository, cause, limit, rule, last):
    """Two branches start servers, in the background and not, each on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = f"trap '' TERM; {sys.executable} $LL_PROJECT/serve.py & wait"
    repository.write("serve.py", SERVES)
    up = "until [ $(ls $LL_PROJECT | grep -c ^up-) = 2 ]; do sleep 0.05; done"
    text = SERVERS.format(
        limit=limit, rule=rule, serve=serve, last=last.replace("UP", up), port=port
    )
    repository.loop("w", text)
    with repository.started("run", "w") as child:
        until(lambda: len(servers(repository)) == 2 or child.poll() is not None, "servers")
        if cause == "stop":
            assert repository.ll("stop", "w").returncode == 0
        out, _ = child.communicate(timeout=60)
    assert len(servers(repository)) == 2, out
    assert left_of_actions(repository) == []
    for number in (port, port + 1, port + 2):
        socket.create_server(("127.0.0.1", number)).close()
    locks = [path for path in (repository.root / ".loops").rglob("*") if path.is_file()]
    for path in (*locks, *(repository.home / ".cache").rglob("lock")):
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert list((repository.root / ".git").rglob("*.lock")) == []


PORTS = """\
initial: all
states:
  all:
    for_each: [a, b, c]
    action: "echo $WEB $API > $LL_PROJECT/../$1${{branch.item}}.ports; {then}"
    worktree: {{ports: {{WEB: 3000, API: 4000}}}}
    next: done
  done: {{terminal: true}}
"""


def ports(repository: Repository, name: str) -> list[tuple[int, ...]]:
    """The ports of the three branches of a run, in order."""
    files = sorted(repository.root.parent.glob(f"{name}?.ports"))
    return sorted(tuple(map(int, file.read_text().split())) for file in files)


def test_worktrees_that_are_there_at_once_have_ports_of_their_own(repository: Repository):
    """Also those of another run; what is removed gives its number back."""
    waits = "until test -e $LL_PROJECT/../go; do sleep 0.05; done"
    for name, then in (("first", waits), ("second", "true")):
        text = PORTS.format(then=then).replace("$1", name)
        repository.loop(name, f"{text}scope: [{name}]\n")
    lowest = [(3000, 4000), (3001, 4001), (3002, 4002)]
    with repository.started("run", "first") as child:
        until(lambda: len(ports(repository, "first")) == 3, "branches")
        done = repository.ll("run", "second")
        assert done.returncode == 0, told(done)
        (repository.root.parent / "go").touch()
        out, _ = child.communicate(timeout=60)
        assert child.returncode == 0, out
    assert ports(repository, "first") == lowest
    assert ports(repository, "second") == [(3003, 4003), (3004, 4004), (3005, 4005)]
    assert repository.ll("run", "second").returncode == 0
    assert ports(repository, "second") == lowest


# ── what is left alone ─────────────────────────────────────────────────────────────────────────


def other_branch(repository: Repository) -> None:
    repository.quietly("switch", "-q", "-c", "other")


def detached(repository: Repository) -> None:
    repository.quietly("switch", "-q", "--detach")


def edited(repository: Repository) -> None:
    repository.write("a.py", "my own edit\n")


def in_the_way(repository: Repository) -> None:
    repository.write("fresh.py", "mine\n")


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (other_branch, "`other` is checked out, not `main`"),
        (detached, "no branch is checked out, not `main`"),
        (edited, "Your local changes to the following files would be overwritten by merge: a.py"),
        (in_the_way, "untracked working tree files would be overwritten by merge: fresh.py"),
    ],
)
def test_a_landing_that_would_touch_the_users_files_prints_the_command_instead(
    repository, happens, why
):
    """It happens while the loop works."""
    repository.write("go", "")
    action = "while test -e $LL_PROJECT/go; do sleep 0.01; done; echo x >> a.py; echo x > fresh.py"
    repository.loop("w", OWN.format(action=action, worktree="{merge: merge}"))
    with repository.started("run", "w") as child:
        until(repository.worktrees, "worktree")
        happens(repository)
        before = fingerprint(repository.root, skip=(".loops", ".git"))
        head = repository.git("rev-parse", "main")
        (repository.root / "go").unlink()
        out, _ = child.communicate(timeout=60)
    before.pop("go")
    assert child.returncode == 1
    assert why in out
    assert fingerprint(repository.root, skip=(".loops", ".git")) == before
    assert repository.git("rev-parse", "main") == head
    [command] = [line.split(": ", 1)[1] for line in out.split("\n") if "to finish it" in line]
    assert "git merge " in command
    assert " --ff-only ll/w/merged/" in command
    assert ("--autostash" in command) is (happens is edited)
    shown = rows_of(repository.ll("status", "w").stdout)["merge"]
    assert shown[0].startswith("`main` was left alone: ")
    assert why in shown[0]
    assert shown[1:] == [f"to finish it: {command}"]
    tip = command.rpartition(" ")[2]
    assert repository.git("show", f"{tip}:fresh.py") == "x"


def test_commits_that_arrive_meanwhile_are_merged_first(repository):
    action = (
        "echo x >> a.py; cd $LL_PROJECT; git -c core.hooksPath=/dev/null"
        " -c commit.gpgSign=false commit -q -m theirs mine.py"
    )
    done = repository.run(OWN.format(action=action, worktree="{merge: merge}"))
    assert done.returncode == 0, told(done)
    log = repository.git("log", "--first-parent", "--format=%s", "main")
    assert log.split("\n") == ["Merge `w`", "theirs", "first"]


def test_a_worktree_of_the_working_tree_takes_nothing_uncommitted_into_history(repository):
    before = repository.users()
    seen = "cat mine.py new.py untracked.py"
    text = OWN.format(
        action=f"{seen}; echo x >> a.py", worktree="{from: working-tree, merge: merge}"
    )
    done = repository.run(text, "-v")
    assert done.returncode == 0, told(done)
    for word in ("my edit", "staged", "untracked"):
        assert f"       | {word}" in done.stdout
    assert repository.users() == before
    changed = repository.git("diff", "--name-only", "HEAD~1", "HEAD")
    assert changed == "a.py"
    assert len(repository.git("log", "--format=%h", "main").split("\n")) == 2


def test_the_user_is_not_known_to_git(repository):
    repository.git("config", "--unset", "user.name")
    repository.git("config", "--unset", "user.email")
    repository.git("config", "user.useConfigOnly", "true")
    done = repository.run(OWN.format(action="echo x >> a.py", worktree="{merge: squash}"))
    assert done.returncode == 0, told(done)
    who = repository.git("log", "-1", "--format=%an <%ae>", "main")
    assert who == "ll-loop <ll-loop@localhost>"


# ── the worktree itself ────────────────────────────────────────────────────────────────────────


def test_what_a_worktree_begins_with(repository):
    repository.write(".env", "KEY=1\n")
    repository.write("lib/x.js", "lib\n")
    settings = (
        "{setup: 'echo $PORT > port.log', copy: [.env, nothing], link: [lib], ports: {PORT: 3000}}"
    )
    action = "cat .env lib/x.js port.log; echo $LL_PROJECT; git branch --show-current"
    done = repository.run(OWN.format(action=action, worktree=settings), "-v")
    assert done.returncode == 0, told(done)
    shown = [line[9:] for line in done.stdout.split("\n") if line.startswith("       | ")]
    assert shown[:4] == ["KEY=1", "lib", "3000", str(repository.root)]
    assert shown[4].startswith("ll/w/")
    assert shown[4].endswith("/w")
    assert "not brought into the worktree, because missing: nothing" in done.stdout + done.stderr
    assert repository.git("for-each-ref", "refs/heads/ll") == ""


def test_a_project_below_the_top_of_its_repository(repository):
    below = repository.root / "web"
    (below / ".loops").mkdir(parents=True)
    (below / ".loops/w.yaml").write_text(
        OWN.format(
            action="pwd; cat ../a.py; echo x > c.py",
            worktree="{merge: merge, check: 'test -e c.py -a -e ../a.py'}",
        )
    )
    repository.git("add", "web")
    repository.quietly("commit", "-q", "-m", "web", "--", "web")
    done = repository.ll("run", "w", "-v", cwd=below)
    assert done.returncode == 0, told(done)
    assert (below / "c.py").exists()
    assert "/web\n" in done.stdout


def test_a_setup_that_fails_ends_the_run(repository):
    done = repository.run(OWN.format(action="true", worktree="{setup: 'echo no lib; exit 3'}"))
    assert done.returncode == 1
    assert "`setup` of the worktree: exit 3: no lib" in done.stdout + done.stderr


def test_without_a_repository_it_is_an_error_of_the_file(tmp_path):
    project = Project(tmp_path)
    project.loop("w", OWN.format(action="true", worktree="true"))
    done = project.ll("run", "w")
    assert done.returncode == 2
    assert "`worktree` needs a git repository, but this project is not in one" in done.stderr
    assert project.ll("validate", "w").returncode == 2


def test_a_git_that_is_too_old_is_named_before_anything_runs(repository):
    programs = repository.home / "bin"
    programs.mkdir()
    (programs / "git").write_text(
        '#!/bin/sh\n[ "$2" != --version ] || { echo git version 2.37.1; exit; }\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    (programs / "git").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    repository.loop("w", OWN.format(action="touch ran.py", worktree="true"))
    why = "git 2.37 cannot merge without a work tree"
    for words in (("validate", "w"), ("run", "w")):
        done = repository.ll(*words, env=env)
        assert done.returncode == 2
        assert f"`worktree` needs git 2.38 or newer: {why}" in done.stdout + done.stderr
    assert repository.worktrees() == []
    found = json.loads(repository.ll("doctor", "--json", env=env).stdout)["checks"]
    assert [each["text"] for each in found if each["id"] == "worktrees"] == [why]


def test_that_submodules_are_empty_is_said(repository):
    lib = repository.home / "library"
    repository.git("clone", "-q", str(repository.root), str(lib))
    repository.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(lib), "sub")
    repository.quietly("commit", "-q", "-m", "sub", "--", "sub", ".gitmodules")
    action = "ls -A sub; git -c protocol.file.allow=always submodule update -q --init; ls sub/a.py"
    done = repository.run(OWN.format(action=action, worktree="{merge: merge}"), "-v")
    assert done.returncode == 0, told(done)
    assert "submodules are empty in the worktree; `setup` can populate them" in done.stderr
    shown = [line[9:] for line in done.stdout.split("\n") if line.startswith("       | ")]
    assert shown == ["sub/a.py"]
    assert repository.worktrees() == []


def test_run_worktree_runs_any_loop_that_way(repository):
    plain = OWN.format(action="echo x >> a.py", worktree="false")
    done = repository.run(plain, "--worktree")
    assert done.returncode == 0, told(done)
    assert (repository.root / "a.py").read_text() == LINES
    [branch] = repository.git("for-each-ref", "--format=%(refname:short)", "refs/heads/ll").split(
        "\n"
    )
    assert repository.git("show", f"{branch}:a.py") == (LINES + "x").strip()
    done = repository.ll("run", "w", "--worktree", "--merge")
    assert done.returncode == 0, told(done)
    assert (repository.root / "a.py").read_text() == LINES + "x\n"
    done = repository.ll("run", "w", "--merge")
    assert (done.returncode, done.stderr.split("\n")[0]) == (2, "error: `--merge` needs a worktree")


def test_what_is_in_no_commit_is_never_removed(repository):
    """The run fails, so its worktree is kept; pruning keeps it until its files are committed."""
    done = repository.run(OWN.format(action="echo x >> a.py; exit 2", worktree="true"))
    assert done.returncode == 1
    [kept] = repository.worktrees()
    listed = repository.ll("worktrees").stdout
    assert listed.startswith("w: 1 file not committed\n")
    assert repository.ll("worktrees", "--prune").returncode == 0
    assert kept.exists()
    assert repository.ll("run", "w").returncode == 1
    repository.ll("worktrees", "--prune")
    assert kept.exists()
    for each in repository.worktrees():
        repository.git(
            "-C",
            str(each),
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "commit.gpgSign=false",
            "commit",
            "-qam",
            "x",
        )
    counted = [
        each["text"]
        for each in json.loads(repository.ll("doctor", "--json").stdout)["checks"]
        if each["id"] == "worktrees"
    ]
    assert counted[0].startswith("2 worktrees of runs hold ")
    pruned = repository.ll("history", "--prune", "1s", "--json")
    assert len(json.loads(pruned.stdout)["worktrees"]) == 2
    assert repository.worktrees() == []
    assert repository.ll("worktrees", "--json").stdout.strip() == '{"schema": 1, "worktrees": []}'
    assert repository.ll("worktrees").stdout == "no worktrees\n"


@pytest.mark.parametrize("keep", ["failed", "never"])
def test_a_repository_that_a_branch_has_made_is_never_removed(repository, keep):
    """Its commits are in no other repository; the rest of the work lands."""
    inner = "git -C inner -c user.name=a -c user.email=b -c core.hooksPath= -c commit.gpgSign=false"
    action = (
        "echo x > ${branch.item}.py; test ${branch.item} = one || { git init -q inner;"
        f" echo kept > inner/f; {inner} add f; {inner} commit -qm f; }}"
    )
    done = repository.run(
        MANY.format(items="[one, two]", action=action, worktree=f"{{keep: {keep}}}")
    )
    assert done.returncode == 0, told(done)
    [kept] = repository.worktrees()
    assert (kept / "inner/f").read_text() == "kept\n"
    landed = repository.git("diff", "--name-only", "HEAD@{1}", "HEAD").split("\n")
    assert landed == ["one.py", "two.py"]
    assert repository.ll("worktrees", "--prune").returncode == 0
    assert (kept / "inner/f").exists()


def test_commits_that_are_added_to_a_branch_after_it_was_merged_are_kept(repository):
    """Somebody commits in a worktree while the merged tree is checked."""
    late = (
        "cd $(git -C PROJECT worktree list --porcelain | sed -n 's/^worktree \\(.*-one\\)$/\\1/p')"
        " && echo late > late.py && git add late.py && git -c core.hooksPath=/dev/null"
        " -c commit.gpgSign=false commit -qm late"
    ).replace("PROJECT", str(repository.root))
    tree = "{check: " + json.dumps(f"test ! -e two.py || ({late})") + "}"
    action = "echo x > ${branch.item}.py"
    done = repository.run(MANY.format(items="[one, two]", action=action, worktree=tree))
    assert done.returncode == 0, told(done)
    assert repository.worktrees() == []
    [left] = repository.git("for-each-ref", "--format=%(refname:short)", "refs/heads/ll").split(
        "\n"
    )
    assert left.endswith("/one")
    assert repository.git("show", f"{left}:late.py") == "late"


def test_how_many_git_commands_a_branch_takes(repository: Repository):
    """What a worktree costs is mostly git's processes; listing all worktrees would cost more for
    each the more there are."""
    log = repository.home / "git.log"
    wrapper = repository.home / "bin/git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    path = {"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}

    def commands(count: int) -> list[str]:
        log.write_text("")
        items = [f"n{count}{number}" for number in range(count)]
        repository.loop(
            "w", MANY.format(items=items, action="echo > ${branch.item}.py", worktree="true")
        )
        done = repository.ll("run", "w", env=path)
        assert done.returncode == 0, told(done)
        return log.read_text().split("\n")

    few, many = commands(2), commands(4)
    assert len(many) - len(few) <= 2 * 21, many
    assert sum("--version" in each for each in many) == 1
    assert not any("worktree list" in each for each in many)


# ── killed anywhere ────────────────────────────────────────────────────────────────────────────

TRACE_MANY = "test ${branch.item} = other || { grep -q x a.py || echo x >> a.py; echo ran >> $LL_PROJECT/../trace; }"
TRACE = "grep -q x a.py || echo x >> a.py; echo x > fresh.py; echo ran >> $LL_PROJECT/../trace"
CHECK = "{merge: merge, check: 'echo checked >> $TRACE; test -e fresh.py'}"


TEARS = (
    "case ${branch.item} in fresh) echo x > fresh.py; grep -q x a.py || echo x >> a.py;;"
    " *) echo ran >> $LL_PROJECT/../trace; grep -q y a.py || echo y >> a.py;; esac"
)
"""Both branches add a line at the same place, and what resolves that takes the first one's."""
RESOLVED = "{check: 'test -e fresh.py', resolve: {action: \"sed -i '/^[<=>y]/d' a.py\"}, tries: 2}"


def finished(repository: Repository, out: str) -> None:
    """Resume or start a run that was killed until it is over; everything is as without the kill."""
    done: Any = None
    for _ in range(
        4
    ):  # a child that dies twice is an error of its state, and a resume starts another
        done = command(repository, "resume", "w")
        if done.code == 2 and not (repository.root / ".loops/.history/w").exists():
            done = command(repository, "run", "w")  # it had not begun
        if done.code in (0, 2):
            break
    landed = repository.git("show", "main:fresh.py", "main:a.py")
    assert landed == f"x\n{LINES}x", (out, done)
    moves = repository.git("reflog", "show", "--format=%gs", "main").split("\n")
    assert len(moves) == 2, moves
    assert (
        repository.git("status", "--porcelain", "--", "*.py")
        == "M mine.py\nA  new.py\n?? untracked.py"
    )
    assert not repository.hooks.exists()
    assert repository.git("for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"
    assert repository.worktrees() == []


def sweep(place: Path, text: str, numbers: Iterable[int], most: int) -> int:
    """Kill a run before one operation after the other, and finish it each time."""
    count = 0
    for number in numbers:
        home = place / str(number)
        home.mkdir()
        repository = Repository(home)
        repository.loop("w", text)
        killed = command(repository, "run", "w", at=At(number, dies))
        if killed.code != GONE:  # the operations of children are not those of this process
            break
        finished(repository, killed.reached or "")
        ran = (home / "trace").read_text().split("\n")
        assert 1 <= ran.count("ran") <= most, killed
        shutil.rmtree(home)
        count += 1
    return count


def sweep_children(place: Path, text: str, each: int, most: int) -> int:
    """Kill a child before one operation after the other, of those that all of them do. Its parent
    continues it, once; if it is killed itself meanwhile, a resume does."""
    for count, number in enumerate(range(1, 10_000, each)):
        home = place / str(number)
        home.mkdir()
        repository = Repository(home)
        repository.loop("w", text)
        said = command(repository, "run", "w", at=InChildren(number, dies))
        if said.reached is None:
            assert said.code == 0, said
            return count
        finished(repository, said.reached)
        ran = (home / "trace").read_text().split("\n")
        assert 1 <= ran.count("ran") <= most, said
        shutil.rmtree(home)
    raise AssertionError("it never came to its end")


def texts() -> dict[str, str]:
    tree = CHECK.replace("$TRACE", "/dev/null")
    many = "echo x > ${branch.item}.py; " + TRACE_MANY
    return {
        "loop": OWN.format(action=TRACE, worktree=tree),
        "state": STATE.format(action=TRACE, worktree=tree),
        "branches": MANY.format(items="[fresh, other]", action=many, worktree=tree),
        "train": MANY.format(items="[fresh, other]", action=TEARS, worktree=RESOLVED),
    }


def swept(text: str, each: int) -> int:
    with in_memory() as place:
        home = place / "whole"
        home.mkdir()
        whole = Repository(home)
        whole.loop("w", text)
        total = len(operations(whole, "run", "w"))
        # The process of a child dies at the same operation as its parent, and so does the next one.
        return sweep(
            place, text, range(1, total + 1, each), 2 if text.startswith("initial: work") else 4
        )


@pytest.mark.parametrize(
    ("shape", "each"),
    [("loop", SOME), ("state", SOME), ("branches", SOME), ("train", 3 * SOME)],
)
def test_a_run_that_is_killed_lands_the_same_tree_once(shape, each, record_property):
    count = swept(texts()[shape], each)
    record_property(f"figure: kills of a {shape} in a worktree", count)


@pytest.mark.parametrize("shape", ["state", "branches"])
def test_a_child_that_is_killed_is_continued_and_lands_the_same_tree_once(shape, record_property):
    with in_memory() as place:
        count = sweep_children(place, texts()[shape], 3 * SOME, 2)
    record_property(f"figure: kills of a child in a worktree of a {shape}", count)


@pytest.mark.soak
@pytest.mark.parametrize("shape", ["state", "branches", "train"])
def test_a_child_that_is_killed_anywhere_lands_the_same_tree_once(shape, record_property):
    with in_memory() as place:
        count = sweep_children(place, texts()[shape], 1, 2)
    record_property(f"figure: kills of a child in a worktree of a {shape}", count)


@pytest.mark.soak
@pytest.mark.parametrize("shape", ["loop", "state", "branches", "train"])
def test_a_run_that_is_killed_anywhere_lands_the_same_tree_once(shape, record_property):
    count = swept(texts()[shape], 1)
    record_property(f"figure: kills of a {shape} in a worktree", count)


SLOW = """\
initial: work
states:
  work: {{action: "for n in 1 2 3; do echo x >> $n.txt; echo x >> $n.slow; done; touch {hold}", next: done}}
  done: {{terminal: true}}
worktree: {{merge: merge}}
"""
SLOW_FILES = [f"{number}.{kind}" for number in (1, 2, 3) for kind in ("txt", "slow")]


def with_slow_files(repository: Repository) -> tuple[Path, Path]:
    """Let a filter of the user's wait while the first path exists; then the second one exists."""
    hold, begun = repository.home / "hold", repository.home / "begun"
    waits = f"test ! -e {hold} || {{ touch {begun}; while test -e {hold}; do sleep 0.05; done; }}"
    repository.git("config", "filter.slow.smudge", f"sh -c '{waits}; cat'")
    repository.write(".gitattributes", "*.slow filter=slow\n")
    for name in SLOW_FILES:
        repository.write(name, "before\n")
    repository.git("add", ".gitattributes", *SLOW_FILES)
    repository.quietly("commit", "-q", "-m", "slow", "--", ".gitattributes", *SLOW_FILES)
    return hold, begun


def kill_both(child: Any, word: str, *, is_git_killed: bool) -> None:
    """Kill a run while it waits for a git command with this word, and perhaps that, too."""
    below = psutil.Process(child.pid).children()
    [git] = [each for each in below if word in each.cmdline()]
    child.kill()
    if is_git_killed:
        git.kill()
    child.communicate(timeout=60)


@pytest.mark.parametrize("is_git_killed", [False, True], ids=["the run", "the run and git"])
def test_a_kill_while_git_moves_the_branch_leaves_nothing_in_the_way(repository, is_git_killed):
    """A filter of the user's holds git up in the middle of the files."""
    hold, begun = with_slow_files(repository)
    before = repository.users()
    repository.loop("w", SLOW.format(hold=hold))
    with repository.started("run", "w") as child:
        until(lambda: begun.exists() or child.poll() is not None, "landing")
        kill_both(child, "--ff-only", is_git_killed=is_git_killed)
    hold.unlink()
    if is_git_killed:
        (repository.root / ".git/index.lock").unlink()
    assert repository.git("status", "--porcelain", "--", "1.slow") != ""
    done = repository.ll("resume", "w")
    assert done.returncode == 0, told(done)
    assert repository.users() == before
    assert {(repository.root / name).read_text() for name in SLOW_FILES} == {"before\nx\n"}
    moves = repository.git("reflog", "show", "--format=%gs", "main").split("\n")
    assert [move.rpartition(" ")[2] for move in moves] == ["Fast-forward", "slow", "first"]


@pytest.mark.parametrize(
    "is_git_killed",
    [
        pytest.param(False, id="the run"),
        pytest.param(True, id="the run and git", marks=pytest.mark.soak),  # waits for ten seconds
    ],
)
def test_a_kill_while_git_writes_the_files_of_a_worktree(repository, is_git_killed):
    hold, begun = with_slow_files(repository)
    hold.touch()
    repository.loop("w", SLOW.format(hold="$PWD/../held"))
    with repository.started("run", "w") as child:
        until(lambda: begun.exists() or child.poll() is not None, "worktree")
        kill_both(child, "read-tree", is_git_killed=is_git_killed)
    hold.unlink()
    done = repository.ll("resume", "w")
    assert done.returncode == 0, told(done)
    assert {(repository.root / name).read_text() for name in SLOW_FILES} == {"before\nx\n"}
    assert repository.worktrees() == []


PROTECTS = """\
initial: fix
evidence: {{protect: [a.py]}}
host: {host}
states:
  fix:
    {runs}
    worktree: {{}}
    next: done
  done: {{terminal: true}}
"""
WEAKENS = (
    '{name: command, command: [sh, -c, "echo bad >> a.py; echo good >> b.py; echo ok", "{prompt}"]}'
)
ONE_ACTION = "for_each: [b.py]\n    action: fix it\n    action_type: prompt"
TURNED_OFF = (
    f"loop: {{evidence: false, host: {WEAKENS}, initial: work,"
    " states: {work: {action: fix it, action_type: prompt, next: ok}, ok: {terminal: true}}}"
)


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param(ONE_ACTION, id="an action"),
        pytest.param(TURNED_OFF, id="a loop that wants no evidence"),
    ],
)
def test_what_a_loop_protects_is_never_merged_from_a_worktree(repository: Repository, runs: str):
    done = repository.run(PROTECTS.format(host=WEAKENS, runs=runs))
    assert done.returncode == 0, done.stdout + done.stderr
    assert repository.git("show", "main:a.py") == LINES.rstrip("\n")
    assert repository.git("show", "main:b.py") == LINES + "good"


# ── what changes in the project meanwhile ──────────────────────────────────────────────────────

STRAYS = """\
initial: fix
scope_writes: {writes}
host: {{name: command, command: [./agent.sh, "{{prompt}}"]}}
states:
  fix: {runs}
  look: {{action: test -e made.py, next: done}}
  done: {{terminal: true}}
{more}
"""
STRAY_RUNS = {
    "a loop": "{action: fix it, action_type: prompt, next: look}",
    "branches": (
        "{for_each: [one, two, three], action: fix it, action_type: prompt, worktree: {},"
        " next: look}"
    ),
}
AGENT = """\
#!/bin/sh
echo made > made.py
for file in mine.py untracked.py new.py; do echo strayed > "$LL_PROJECT/$file"; done
echo noise > "$LL_PROJECT/some.log"
echo done
"""
REPORTED = (
    "! since agents started to work in worktrees, files in the original project have changed"
    " (their changes or yours): mine.py, new.py, untracked.py"
)


def with_agent(repository: Repository, writes: str, runs: str, agent: str = AGENT) -> None:
    repository.write("agent.sh", agent)
    (repository.root / "agent.sh").chmod(0o755)
    repository.git("add", "agent.sh")
    repository.quietly("commit", "-q", "-m", "agent", "agent.sh")
    more = "worktree: {merge: merge}" if runs == "a loop" else ""
    repository.loop("w", STRAYS.format(writes=writes, runs=STRAY_RUNS[runs], more=more))


@pytest.mark.parametrize("runs", STRAY_RUNS)
@pytest.mark.parametrize(
    ("writes", "code", "lines"),
    [
        ("report", 0, [f"{REPORTED}; project-changes-1.patch has the difference"]),
        ("ignore", 0, []),
        (
            "enforce",
            1,
            [f"{REPORTED}; nothing was restored; project-changes-1.patch has the difference"],
        ),
    ],
)
def test_files_of_the_project_that_change_meanwhile_are_reported_once_and_stay(
    repository, runs, writes, code, lines
):
    with_agent(repository, writes, runs)
    names = ("mine.py", "new.py", "untracked.py")
    before = {name: (repository.root / name).read_text() for name in names}
    done = repository.ll("run", "w", "--allow-skip-permissions")
    assert done.returncode == code, told(done)
    found = [line.strip() for line in done.stdout.split("\n") if "original project" in line]
    assert [line for line in found if line.startswith("!")] == lines
    assert {(repository.root / name).read_text() for name in names} == {"strayed\n"}
    assert repository.ll("replay", "w").returncode == 0
    for patch in (repository.root / ".loops").rglob("project-changes-1.patch"):
        repository.git("apply", "-R", str(patch))
        assert {name: (repository.root / name).read_text() for name in names} == before
    assert bool(lines) == (before == {name: (repository.root / name).read_text() for name in names})


BESIDE = """\
scope: [docs]
initial: write
states:
  write:
    action: >-
      while ! test -e go.log; do sleep 0.05; done; echo theirs > docs/x; touch begun.log;
      while test -e hold.log; do sleep 0.05; done
    next: done
  done: {terminal: true}
"""


@pytest.mark.parametrize("runs", STRAY_RUNS)
def test_what_another_run_that_is_alive_may_change_is_not_reported(repository, runs):
    """The agent waits until the other run has written its file, which it does meanwhile."""
    agent = "#!/bin/sh\necho made > made.py; touch $LL_PROJECT/go.log\n"
    agent += "while ! test -e $LL_PROJECT/begun.log; do sleep 0.05; done; echo done\n"
    with_agent(repository, "enforce", runs, agent)
    text = (repository.root / ".loops/w.yaml").read_text()
    (repository.root / ".loops/w.yaml").write_text(f"scope: [made.py]\n{text}")
    repository.write("docs/x", "")
    repository.write("hold.log", "")
    repository.loop("beside", BESIDE)
    with repository.started("run", "beside") as other:
        until(repository.running("beside", ".pid").exists, "the other run")
        done = repository.ll("run", "w", "--allow-skip-permissions")
        (repository.root / "hold.log").unlink()
        other.communicate(timeout=60)
    assert done.returncode == 0, told(done)
    assert (repository.root / "docs/x").read_text() == "theirs\n"
    assert "original project" not in done.stdout


@pytest.mark.parametrize("runs", STRAY_RUNS)
def test_what_changed_before_a_kill_is_reported_by_the_resume(repository, runs):
    agent = AGENT.replace(
        "echo done",
        "test -e $LL_PROJECT/again.log || { touch $LL_PROJECT/begun.log; sleep 600; }; echo done",
    )
    with_agent(repository, "report", runs, agent)
    with repository.started("run", "w", "--allow-skip-permissions") as child:
        until((repository.root / "begun.log").exists, "the agent")
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate(timeout=60)
    repository.write("again.log", "")
    done = repository.ll("resume", "w")
    assert done.returncode == 0, told(done)
    assert done.stdout.count(REPORTED) == 1
    assert (repository.root / "mine.py").read_text() == "strayed\n"


def test_a_repository_that_git_refuses_is_named_as_the_reason(repository):
    states = STATE.format(action="true", worktree="{}").replace("initial: types\nstates:\n", "")
    breaks = "  break: {action: 'echo [ > .git/config', next: types}\n"
    done = repository.run(f"initial: break\nstates:\n{breaks}{states}")
    assert done.returncode == 1, told(done)
    assert "git cannot be used here" in done.stdout
    assert "there is no commit" not in done.stdout
