"""Two runs side by side on disjoint scopes, killed and resumed: neither is blamed for the other's work."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.project import Project, until

AGENT = """\
#!/bin/sh
# $1: what it writes.  It says that it has begun, and waits to be let go.
touch "$HOME/$LL_LOOP-begun"
n=0; until [ -e "$HOME/$LL_LOOP-go" ] || [ $n -ge 1200 ]; do n=$((n+1)); sleep 0.05; done
echo 1 > "$1"
echo done
"""
LOOP = """\
    paradigm: goal
    name: {name}
    goal: there is a file
    scope: [{scope}]
    scope_writes: enforce
    tools: [test -e {scope}/done, {{action: {scope}/done, action_type: prompt}}]
    host: {{name: command, command: [../agent, "{{prompt}}"]}}
    {evidence}
"""
SHELL = "name: {name}\ninitial: a\nscope: [{scope}]\nstates: {{a: {{action: {action}, next: b}}, b: {{terminal: true}}}}\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    path = project.root.parent / "agent"
    path.write_text(AGENT)
    path.chmod(0o755)
    for name, scope in (("first", "src"), ("second", "other")):
        (project.root / scope).mkdir()
        (project.root / scope / "file").write_text("0\n")
        protect = "evidence: {protect: [other/]}" if name == "first" else ""
        project.loop(name, LOOP.format(name=name, scope=scope, evidence=protect))
    project.git("init", "-q")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
    return project


def let_go(project: Project, name: str) -> None:
    (project.home / f"{name}-go").touch()


def begun(project: Project, name: str) -> None:
    until((project.home / f"{name}-begun").exists, f"agent of {name}")


def killed(runner: subprocess.Popen[str]) -> None:
    runner.kill()
    runner.wait()


def accusations(project: Project) -> list[dict[str, Any]]:
    kinds = ("tampered", "out_of_scope", "restored")
    return [each for each in project.events("first") if each["event"] in kinds]


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_a_resume_does_not_blame_its_agent_for_what_another_run_did(project: Project, order):
    """The second run ends while the first one is dead."""
    with project.started("run", order[0]) as one:
        begun(project, order[0])
        with project.started("run", order[1]) as other:
            begun(project, order[1])
            first, second = (one, other) if order[0] == "first" else (other, one)
            killed(first)
            let_go(project, "second")
            assert second.wait(timeout=60) == 0
        project.end_actions()
    let_go(project, "first")
    said = project.ll("resume", "first")
    assert said.returncode == 0, said.stdout + said.stderr
    assert accusations(project) == []
    assert project.file("other/done") == "1\n"
    assert project.file("src/done") == "1\n"


def test_a_loop_without_agents_that_was_met_is_remembered(project: Project):
    script = '"until [ -e ../home/second-go ]; do sleep 0.05; done; echo 1 > other/done"'
    project.loop("second", SHELL.format(name="second", scope="other", action=script))
    with project.started("run", "second") as second:
        until(lambda: project.has_event("second", "action_start"), "second run")
        with project.started("run", "first") as first:
            begun(project, "first")
            killed(first)
            let_go(project, "second")
            assert second.wait(timeout=60) == 0
    let_go(project, "first")
    said = project.ll("resume", "first")
    assert said.returncode == 0, said.stdout + said.stderr
    assert accusations(project) == []
    assert project.file("other/done") == "1\n"


def test_what_nobody_else_did_is_put_back(project: Project):
    with project.started("run", "first") as first:
        begun(project, "first")
        (project.root / "other/file").write_text("1\n")
        killed(first)
        project.end_actions()
    let_go(project, "first")
    said = project.ll("resume", "first")
    assert "other/file" in said.stdout
    assert project.file("other/file") == "0\n"


def test_a_run_that_an_agent_starts_excuses_nothing(project: Project):
    """Also where the agent hides from it in which run it was started."""
    hides = "env -u LL_CLAIM -u LL_DEPTH -u LL_RUN_ID -u LL_DETACHED"
    nested = SHELL.format(name="nested", scope="other", action='"echo 1 > other/file"')
    project.loop("nested", nested)
    agent = project.root.parent / "agent"
    command = " ".join(project.argv("run", "nested"))
    agent.write_text(f"#!/bin/sh\n{hides} {command}\necho 1 > src/done\necho done\n")
    said = project.ll("run", "first")
    assert "other/file was changed by the agent: restored" in said.stdout
    assert project.file("other/file") == "0\n"


def test_a_claim_that_an_agent_edits_excuses_nothing(project: Project):
    forge = (
        "import json\n"
        'path = ".loops/.running/first.pid"\n'
        "claim = json.loads(open(path).read().splitlines()[1])\n"
        'claim |= {"run_id": "another", "pid": 1, "scope": ["other"]}\n'
        'open(path, "w").write("1\\n" + json.dumps(claim) + "\\n")\n'
        'open("other/file", "w").write("1\\n")\n'
        'open("src/done", "w").write("1\\n")\n'
        'print("done")\n'
    )
    (project.root.parent / "agent").write_text(f"#!/usr/bin/env python3\n{forge}")
    said = project.ll("run", "first")
    assert "other/file was changed by the agent: restored" in said.stdout
    assert project.file("other/file") == "0\n"


def test_a_user_who_edits_during_a_pause_loses_nothing(project: Project):
    with project.started("run", "first") as first:
        begun(project, "first")
        first.send_signal(signal.SIGINT)
        assert first.wait(timeout=60) == 128 + signal.SIGINT
    (project.root / "other/file").write_text("mine\n")
    (project.root / "other/new").write_text("mine\n")
    (project.root / "src/file").write_text("mine\n")
    let_go(project, "first")
    said = project.ll("resume", "first")
    assert said.returncode == 0, said.stdout + said.stderr
    for name in ("other/file", "other/new", "src/file"):
        assert project.file(name) == "mine\n"
