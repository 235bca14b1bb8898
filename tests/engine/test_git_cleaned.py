"""Agents that tidy up with git: a live run stays, or says that it was removed."""

from __future__ import annotations

import json
import os
import shlex

import pytest

from tests.project import Project

LOOP = """\
name: tidy
initial: work
host: {host}
evidence: false
states:
  work: {{action: tidy up, action_type: prompt, next: again}}
  again: {{action: tidy up again, action_type: prompt, next: last}}
  last: {{action: git status --short > said, next: done}}
  done: {{terminal: true}}
"""
AGENT = """\
#!/bin/sh
# Tidies the project up as its first line says, at every turn.
{script}
"""


@pytest.fixture
def repository(project: Project) -> Project:
    for name in ("one", "two"):
        (project.root / name).write_text(f"{name}\n")
    host = {"name": "command", "command": [str(project.home / "agent"), "{prompt}"]}
    project.loop("tidy", LOOP.format(host=json.dumps(host)))
    project.git("init", "-q", "-b", "main")
    project.git("config", "user.email", "a@example.invalid")
    project.git("config", "user.name", "a")
    project.git("add", "-A")
    project.git("commit", "-qm", "first")
    return project


def agent(project: Project, script: str) -> None:
    path = project.home / "agent"
    path.write_text(AGENT.format(script=script))
    path.chmod(0o755)


TIDYING = {
    "git clean": "git clean -qfd; git clean -qfd",
    "git clean with the ignore file removed": "rm .loops/.gitignore; git clean -qfd",
    "everything committed on a branch": (
        "git checkout -qb work-$LL_STEP_ID; git add -A; git commit -qm work --allow-empty"
        "; git checkout -q main; git add -A; git commit -qm main --allow-empty"
        "; git checkout -q work-$LL_STEP_ID; git checkout -q main"
    ),
    "everything stashed": "git stash -qu; git stash drop -q || true",
    "everything reset": "git reset -q --hard; git clean -qfd; git clean -qfd",
}


@pytest.mark.parametrize("script", TIDYING.values(), ids=TIDYING)
def test_a_live_run_outlives_an_agent_that_tidies_up(repository, script):
    agent(repository, f"{script} && echo tidy")
    ran = repository.ll("run", "tidy")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    tracked = repository.git("ls-files", "--", ".loops/.running", ".loops/.history")
    assert (tracked, repository.events("tidy")[-1]["status"]) == ("", "completed")
    assert ".running" not in repository.file("said")


REMOVED = """\
error: `.loops/.running` was removed while `tidy` was running, and the run's files with it
   = help: `git clean -fdx` removes it; `git clean -fdx -e .loops/.running` does not
"""


def test_a_run_that_was_cleaned_away_ends_in_words(repository):
    agent(repository, "(sleep 600 &); git clean -qfdx; echo tidy")
    ran = repository.ll("run", "tidy")
    assert (ran.returncode, ran.stderr) == (1, REMOVED)
    assert sorted(os.listdir(repository.root / ".loops")) == ["tidy.yaml"]
    agent(repository, "git clean -qfdx -e .loops/.running; echo tidy")
    assert repository.ll("run", "tidy").returncode == 0


def test_nothing_of_another_run_is_put_away_by_one_that_was_cleaned_away(repository):
    """The claim goes with the directory, so a second run of that name begins in its place."""
    environ = " ".join(f"{name}={shlex.quote(text)}" for name, text in repository.environ().items())
    second = shlex.join(repository.argv("run", "tidy"))
    agent(
        repository,
        f"[ -e {repository.home}/second ] && exec echo CONTEXT_HANDOFF: the second run\n"
        f"touch {repository.home}/second; git clean -qfdx\n"
        f"env -i {environ} {second} > {repository.home}/said 2>&1; echo tidy",
    )
    ran = repository.ll("run", "tidy")
    assert (ran.returncode, ran.stderr) == (1, REMOVED)
    assert "Loop paused" in (repository.home / "said").read_text()
    assert repository.state("tidy")["continuation_prompt"] == "the second run"
    assert repository.running("tidy", ".state.json").exists()
    assert not (repository.root / ".loops/.history").exists()
