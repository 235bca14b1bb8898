"""The plugin's Stop hook: a session does not end while the check fails, at most five times."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.project import DEADLINE_S, Project

PLUGIN = Path(__file__).parents[2] / "plugin"
LOOP = """\
    name: fix
    paradigm: goal
    goal: It is there
    tools: ["echo looking for $A_TOKEN; test -e there", touch there]
"""
ON = {"LL_CHECK_ON_STOP": "fix"}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.loop("fix", LOOP)
    return project


def stop(project: Project, session: str = "s1", env: dict[str, str] | None = None) -> Any:
    """What the hook answers to a session that is about to end; None for nothing."""
    asked = {"session_id": session, "cwd": str(project.root), "hook_event_name": "Stop"}
    done = subprocess.run(
        project.argv("stop-hook"),
        cwd=project.root,
        env=project.environ(**(ON if env is None else env)),
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout) if done.stdout else None


def test_a_session_goes_on_while_the_check_fails(project):
    answer = stop(project, env={**ON, "A_TOKEN": "hunter2-hunter2"})
    assert answer == {
        "decision": "block",
        "reason": "`ll-loop check fix` fails:\n"
        "✗ evaluate: echo looking for $A_TOKEN; test -e there\n"
        "       | looking for ***",
    }
    (project.root / "there").touch()
    assert stop(project) is None


def test_it_is_refused_five_times_at_most_and_each_session_counts_for_itself(project):
    assert [stop(project)["decision"] for _ in range(5)] == ["block"] * 5
    assert stop(project, "s2")["decision"] == "block"
    assert stop(project) == {
        "systemMessage": "ll-loop check fix still fails; the session ends anyway"
    }
    assert stop(project)["decision"] == "block"  # a new conversation in the same session


def test_a_pass_starts_the_count_again(project):
    for _ in range(4):
        stop(project)
    (project.root / "there").touch()
    stop(project)
    (project.root / "there").unlink()
    assert [stop(project)["decision"] for _ in range(5)] == ["block"] * 5


@pytest.mark.parametrize(
    ("env", "why"),
    [
        pytest.param({}, "nobody asked for it", id="off by default"),
        pytest.param({**ON, "LL_RUN_ID": "x"}, "its loop checks it", id="inside a run"),
    ],
)
def test_it_stays_out_of_the_way(env, why, project):
    assert stop(project, env=env) is None, why


def test_what_cannot_judge_does_not_hold_anybody_up(project):
    project.loop("fix", LOOP.replace("test -e there", "exit 9"))
    assert stop(project) == {"systemMessage": "ll-loop check fix could not judge: exit 9"}
    assert stop(project, env={"LL_CHECK_ON_STOP": "gone"}) == {
        "systemMessage": "ll-loop check gone could not run: no loop named `gone`"
    }


def test_counts_that_are_damaged_start_again(project):
    stop(project)
    [counts] = project.home.rglob("refusals.json")
    counts.write_text("[")
    assert stop(project)["decision"] == "block"


def test_the_plugin_asks_only_where_the_variable_is_set(project):
    """Without it, `ll-loop` need not even be installed."""
    hooks = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]
    [command] = [hook["command"] for group in hooks["Stop"] for hook in group["hooks"]]
    for value, code in (("", 0), ("fix", 127)):
        env = {"PATH": "", "LL_CHECK_ON_STOP": value}
        done = subprocess.run(["/bin/sh", "-c", command], env=env, capture_output=True, check=False)
        assert done.returncode == code
