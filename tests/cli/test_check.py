"""`ll-loop check`: the checks of a loop, once, without starting a run."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from little_loops.definitions.loading import load_loop
from little_loops.engine.checking import Checked, run_checks_in_copy
from little_loops.system.stops import StopFlag
from tests.project import Project, until
from tests.stand_ins import tree

GOAL = """\
    name: fix
    paradigm: goal
    goal: It is there
    tools:
      - "echo looking; echo aside >&2; test -e there"
      - touch there
"""
TWO = """\
    name: two
    paradigm: invariants
    constraints:
      - {name: first, check: test -e one, fix: touch one}
      - {name: second, check: "{check}", fix: touch two}
"""
NATIVE = """\
    name: native
    initial: look
    states:
      look: {{action: {action}, check: true, next: done}}
      done: {{terminal: true}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_check_that_fails_is_shown_with_what_it_printed(project):
    project.loop("fix", GOAL)
    done = project.ll("check", "fix")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "✗ evaluate: echo looking; echo aside >&2; test -e there\n"
        "       | looking\n"
        "       | aside\n"
    )


def test_a_check_that_passes_exits_with_0(project):
    project.loop("fix", GOAL)
    (project.root / "there").touch()
    done = project.ll("check", "fix")
    line = "✓ evaluate: echo looking; echo aside >&2; test -e there\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, line, "")


def test_nothing_is_written_claimed_or_fixed(project):
    project.loop("fix", GOAL)
    before = tree(project.root)
    project.ll("check", "fix")
    assert tree(project.root) == before
    assert list((project.root / ".loops").iterdir()) == [project.root / ".loops" / "fix.yaml"]


def test_checks_run_in_order_until_one_fails(project):
    project.loop("two", TWO.replace("{check}", "echo second; exit 1"))
    assert project.ll("check", "two", "-q").stdout == "✗ check_first: test -e one\n"
    (project.root / "one").touch()
    assert project.ll("check", "two", "-q").stdout == (
        "✓ check_first: test -e one\n✗ check_second: echo second; exit 1\n"
    )


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        pytest.param("exit 9", "exit 9", id="an error"),
        pytest.param("gone", "exit 127: sh: 1: gone: not found", id="not found"),
        pytest.param(
            "/review", "`look` is checked by an agent, which only happens in a run", id="an agent"
        ),
    ],
)
def test_what_cannot_judge_exits_with_3(action, reason, project):
    project.loop("native", NATIVE.format(action=action))
    done = project.ll("check", "native")
    assert (done.returncode, done.stderr) == (3, f"could not judge: {reason}\n")


@pytest.mark.parametrize(
    ("action", "code", "said"),
    [
        pytest.param(
            "exit 0",
            3,
            "could not judge: a pass of `look` needs a judge, which is only asked in a run\n",
            id="pass",
        ),
        pytest.param("exit 1", 1, "", id="fail"),
    ],
)
def test_a_judge_is_not_asked(action, code, said, project):
    judged = "check: true, condition: {type: judge, question: Is it right, host: codex}"
    project.loop("native", NATIVE.format(action=action).replace("check: true", judged))
    done = project.ll("check", "native")
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize(
    ("bugs", "code", "sign"),
    [pytest.param("3", 1, "✗", id="fail"), pytest.param("0", 0, "✓", id="pass")],
)
def test_a_step_is_judged_by_the_condition_of_its_loop(bugs, code, sign, project):
    project.loop(
        "steps",
        """\
        paradigm: imperative
        steps: [{name: count, action: cat bugs}, "true"]
        until: {type: output_numeric, source: count, operator: eq, target: 0}
        """,
    )
    (project.root / "bugs").write_text(f"{bugs}\n")
    done = project.ll("check", "steps")
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(f"{sign} count: cat bugs\n")


def test_a_loop_without_a_check_is_refused(project):
    project.loop("native", NATIVE.format(action="make").replace(", check: true", ""))
    done = project.ll("check", "native")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: `native` has no check\n   = help: add `check: true` to the state that decides\n"
    )


def test_it_answers_as_json_and_hides_secrets(project):
    project.loop("fix", GOAL.replace("echo looking", "echo $MY_TOKEN"))
    done = project.ll("check", "fix", "--json", env={"MY_TOKEN": "hunter2-hunter2"})
    answer = json.loads(done.stdout)
    assert (answer["loop"], answer["answer"], answer["reason"]) == ("fix", "fail", "")
    [check] = answer["checks"]
    assert (check["state"], check["verdict"], check["exit_code"]) == ("evaluate", "fail", 1)
    assert check["output"] == "***\naside"


def test_a_long_output_is_shown_from_its_end(project):
    project.loop("fix", GOAL.replace("echo looking", "seq 100000"))
    lines = project.ll("check", "fix").stdout.splitlines()
    assert lines[-2:] == ["       | 100000", "       | aside"]
    assert len(lines) < 3000


def test_an_interrupt_ends_the_check(project):
    project.loop("native", NATIVE.format(action='"touch begun; sleep 60"'))
    with project.started("check", "native") as child:
        until((project.root / "begun").exists, "check")
        os.kill(child.pid, signal.SIGINT)
        child.communicate(timeout=30)
    assert child.returncode == 130


def test_what_a_check_leaves_running_is_ended(project):
    project.loop("native", NATIVE.format(action='"sleep 600 & echo $! > pid"'))
    assert project.ll("check", "native").returncode == 0
    pid = int(project.file("pid"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_loop_named_like_a_new_command_is_not_run_by_its_name_alone(project):
    project.loop("check", GOAL.replace("name: fix", "name: check"))
    done = project.ll("check")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: `check` is both a command of ll-loop and a loop in this project\n"
        "   = help: `ll-loop run check` runs the loop; `ll-loop check --help` shows help on the command\n"
    )
    assert project.ll("check", "--help").returncode == 0
    assert project.ll("check", "check", "-qq").returncode == 1
    warned = project.ll("validate", "check")
    assert warned.returncode == 0
    assert warned.stdout.startswith("warning[LL016]: `check` is also a command of ll-loop, so ")


# ── in a clean copy ────────────────────────────────────────────────────────────────────────────

IN_COPY = """\
    name: fix
    paradigm: goal
    goal: It is delivered
    tools:
      - "{check}"
      - touch there
    evidence: {{clean: true}}
    {more}
"""


def with_clean_copy(project: Project, check: str, more: str = "") -> None:
    project.git("init", "-q", "-b", "main")
    project.loop("fix", IN_COPY.format(check=check, more=more))
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")


@pytest.mark.parametrize(
    ("check", "more", "env"),
    [
        pytest.param("test ROOT -ef .", "", {}, id="in the command"),
        pytest.param("test $AT -ef .", "", {"AT": "ROOT"}, id="in the environment"),
        pytest.param("test $AT -ef .", "env: {AT: 'ROOT'}", {}, id="in the loop's environment"),
    ],
)
def test_the_path_of_the_project_leads_to_the_clean_copy(check, more, env, project):
    root = str(project.root)
    with_clean_copy(project, check.replace("ROOT", root), more.replace("ROOT", root))
    env = {name: text.replace("ROOT", root) for name, text in env.items()}
    done = project.ll("check", "fix", env=env)
    assert done.returncode == 0, done.stdout


def test_without_a_clean_copy_nothing_can_be_judged(project):
    with_clean_copy(project, "true")
    head = project.root / ".git/HEAD"
    head.unlink()
    os.mkfifo(head)
    done = project.ll("check", "fix")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(
        f"could not judge: cannot make a clean copy: `{head}` is not a regular file (remove it, "
    )


def test_a_stop_while_the_copy_is_made_is_no_verdict(project):
    with_clean_copy(project, "true")
    loop = load_loop("fix", str(project.root)).loop
    stop = StopFlag()
    stop.ask(signal.SIGINT)
    checked = run_checks_in_copy(loop, ["evaluate"], str(project.root), project.environ(), stop)
    stop.close()
    assert checked == Checked("error", (), "stopped while the clean copy was made")


def test_in_a_git_hook_the_check_does_not_touch_what_is_committed(project):
    """Git names its index to a hook; a check that uses git in the copy must not write there."""
    with_clean_copy(project, "touch new && git add -A && git status --short")
    hook = project.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nexec {sys.executable} -P -m little_loops check fix\n")
    hook.chmod(0o755)
    (project.root / "mine").write_text("")
    (project.root / "later").write_text("")
    project.git("add", "mine")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "mine", "mine")
    assert project.git("show", "--format=", "--name-only", "HEAD") == "mine"
    assert project.git("status", "--short") == "?? later"
