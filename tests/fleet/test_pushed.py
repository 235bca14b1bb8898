"""What a worker pushes, and what it keeps to itself."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from little_loops.definitions.loading import load_loop
from little_loops.fleet.runtime import FleetRuntime
from tests.fleet.fleet import SECRET, Fleet
from tests.project import DEADLINE_S, Project

NEW = "mkdir -p deep; for f in .env .env.local deep/key.pem deep/id_rsa; do echo private words > $f; done"


def ended(
    fleet: Fleet, project: Project, states: dict[str, Any], **more: Any
) -> tuple[FleetRuntime, Path]:
    """Carry out a run of these states in a row; return its runtime and the bare repository."""
    names = [*states, "done"]
    linked = {
        name: {**state, "next": after}
        for (name, state), after in zip(states.items(), names[1:], strict=True)
    }
    text = {"initial": names[0], "states": {**linked, "done": {"terminal": True}}, **more}
    project.loop("pushes", yaml.safe_dump(text))
    (project.root / ".env.example").write_text("A=1\n")
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
    runtime = fleet.runtime(project)
    runtime.start(load_loop("pushes", str(project.root)).loop)
    found = runtime.wait("pushes", DEADLINE_S)
    assert found is not None
    assert found.status == "completed", runtime.details("pushes")
    return runtime, project.root.parent / "bare.git"


def everything_in(project: Project, bare: Path) -> tuple[list[str], str]:
    """Return the paths that a repository has, in any commit, and all contents, referred to or not."""
    names = project.git("-C", str(bare), "log", "--all", "-m", "--name-only", "--format=")
    words = ("git", "-C", str(bare), "cat-file", "--batch-all-objects", "--batch")
    done = subprocess.run(words, capture_output=True, timeout=DEADLINE_S, check=True)
    return sorted(set(filter(None, names.split("\n")))), done.stdout.decode("latin-1")


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("true", id="new"),
        pytest.param("git add -f .", id="staged"),
        pytest.param(
            "git add -f . && git -c user.name=a -c user.email=b commit -qm x", id="commit"
        ),
    ],
)
def test_files_with_names_of_secrets_are_reported_and_not_pushed(
    then: str, fleet: Fleet, project: Project
):
    states = {
        "write": {"action": f"{NEW}; echo B=2 >> .env.example; echo right > value; {then}"},
        "more": {"action": "echo more > more; git add -f .env; test -e .env"},
    }
    runtime, bare = ended(fleet, project, states)
    details = runtime.details("pushes") or {}
    assert set(details["left_out"]) == {
        *(".env", ".env.example", ".env.local", "deep/id_rsa", "deep/key.pem")
    }
    names, data = everything_in(project, bare)
    assert "\nprivate words\n" not in data
    assert [name for name in names if "env" in name or "deep" in name] == [".env.example"]
    branch = f"{details['branch']}"
    assert project.git("-C", str(bare), "show", f"{branch}:value") == "right"
    assert project.git("-C", str(bare), "show", f"{branch}:more") == "more"
    assert project.git("-C", str(bare), "show", f"{branch}:.env.example") == "A=1"
    runtime.close()


def test_a_printed_secret_is_not_pushed(fleet: Fleet, project: Project):
    states = {
        "short": {"action": 'echo "token: $DEPLOY_TOKEN"; echo 1 > value'},
        "long": {"action": 'for n in $(seq 500); do echo "$n $DEPLOY_TOKEN"; done; echo 2 > value'},
    }
    runtime, bare = ended(fleet, project, states)
    _, data = everything_in(project, bare)
    assert f"499 {'*' * len(SECRET)}" in data
    assert SECRET not in data
    runtime.close()
