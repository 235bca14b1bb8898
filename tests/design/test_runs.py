"""The design's examples run to their intended end, with stand-ins for their commands and agents."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.project import Project, until

HERE = Path(__file__).parent

# What is broken is counted in the file `left`; every fix mends some of it.
COUNT = "n=$(cat left 2>/dev/null || echo 0)"
MEND = f"{COUNT}; n=$((n > 4 ? n - 4 : 0)); echo $n > left"
PASSES_WHEN_MENDED = f'{COUNT}; echo "$n errors"; [ "$n" -eq 0 ]'

STAND_INS = {
    "mypy": f"""\
        {COUNT}
        case "$*" in
          *--json*) echo "{{\\"error_count\\": $n}}" ;;
          *) i=0; while [ $i -lt $n ]; do echo "f.py:1: error: wrong"; i=$((i + 1)); done ;;
        esac
        [ "$n" -eq 0 ]""",
    "ruff": f"""\
        {COUNT}
        case "$*" in
          *--fix*) {MEND} ;;
          *json*) echo "{{\\"count\\": $n}}" ;;
          *) echo "$n problems" ;;
        esac
        [ "$n" -eq 0 ]""",
    "jq": "sed 's/[^0-9]//g'",
    "pytest": PASSES_WHEN_MENDED,
    "npm": "echo built",
    "slack-notify": "cat >> told",
    # An agent: reads its prompt, mends what it is asked to mend, judges what it is asked to judge.
    "claude": f"""\
        [ "$1" = plugin ] && echo "[]" && exit
        prompt=$(cat)
        echo "$prompt" >> prompts
        case "$prompt" in
          *manage_issue*|*check_code*fix*) {MEND}; echo "mended, $n left" ;;
          *) {COUNT}; [ "$n" -eq 0 ] && echo "VERDICT: pass" || echo "VERDICT: fail" ;;
        esac""",
}


class Story(NamedTuple):
    file: str
    exit: int
    last: str
    left: int = 8
    env: tuple[tuple[str, str], ...] = ()
    scripts: tuple[tuple[str, str], ...] = ()


STORIES = {
    "goal": Story("goal", 0, "Loop completed: done (3 iterations"),
    "convergence": Story("convergence", 0, "Loop completed: done (3 iterations"),
    "imperative": Story("imperative", 0, "Loop completed: done (3 iterations"),
    "fsm": Story("lint-fix-cycle", 0, "Loop completed: done (3 iterations"),
    "analyze-and-fix": Story("analyze-and-fix", 0, "Loop completed: done (3 iterations"),
    "graduated-response never ends by itself": Story(
        "graduated-response", 3, "Loop reached its iteration limit in state"
    ),
    "ci-aware-loop": Story(
        "ci-aware-loop", 0, "Loop completed: done (1 iteration", left=0, env=(("CI", "true"),)
    ),
    "fix-types": Story("fix-types", 0, "Loop completed: done (3 iterations"),
    "quality-guard": Story("quality-guard", 0, "Loop completed: all_valid (3 iterations"),
    "create-loop": Story("create-loop", 0, "Loop completed: done (3 iterations"),
    "safe-deploy": Story(
        "safe-deploy",
        0,
        "Loop completed: done (1 iteration",
        left=0,
        scripts=(("deploy.sh", "true"), ("smoke-test.sh", "true"), ("rollback.sh", "false")),
    ),
    "safe-deploy rolls back": Story(
        "safe-deploy",
        1,
        "Loop failed: ended in state 'notify_fail'",
        left=0,
        scripts=(("deploy.sh", "true"), ("smoke-test.sh", "exit 1"), ("rollback.sh", "true")),
    ),
}


@pytest.fixture
def stage(project: Project) -> Project:
    programs = project.home / "bin"
    programs.mkdir()
    for name, body in STAND_INS.items():
        write_script(programs / name, body)
    (project.root / "src").mkdir()
    return project


def write_script(path: Path, body: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def environ(project: Project) -> dict[str, str]:
    path = f"{project.home / 'bin'}:{project.environ()['PATH']}"
    return {"PATH": path, "IS_SANDBOX": "1", "LL_ALLOW_SKIP_PERMISSIONS": "1", "LL_BACKOFF": "0"}


@pytest.mark.parametrize("story", [pytest.param(s, id=name) for name, s in STORIES.items()])
def test_it_runs_to_its_end(stage: Project, story: Story):
    stage.loop(story.file, (HERE / f"{story.file}.yaml").read_text())
    (stage.root / "left").write_text(str(story.left))
    for name, body in story.scripts:
        write_script(stage.root / "scripts" / name, body)
    said = stage.ll("run", story.file, env={**environ(stage), **dict(story.env)})
    last = said.stdout.rstrip().rpartition("\n")[2]
    assert (said.returncode, last.startswith(story.last)) == (story.exit, True), (
        said.stdout[-2000:] + said.stderr
    )
    if story.exit == 0:
        assert stage.file("left").strip() == "0"


def test_invariants_are_kept_for_ever(stage: Project):
    stage.loop("invariants", (HERE / "invariants.yaml").read_text())
    (stage.root / "left").write_text("8")
    name = "code-quality-guardian"
    env = {**environ(stage), "LL_MAINTAIN_INTERVAL": "1"}
    with stage.started("run", "invariants", env=env) as child:
        until(lambda: stage.has_event(name, "cycle", cycle=2), "second cycle")
        (stage.root / "left").write_text("3")
        until(lambda: stage.file("left").strip() == "0", "repair of what broke")
        until(lambda: stage.has_event(name, "cycle", cycle=4), "fourth cycle")
        assert stage.ll("stop", name).returncode == 0
        assert child.wait(timeout=30) == 143
    assert stage.state(name)["status"] == "interrupted"


def test_the_agent_gets_the_designs_context(stage: Project):
    stage.loop("analyze-and-fix", (HERE / "analyze-and-fix.yaml").read_text())
    (stage.root / "left").write_text("3")
    assert stage.ll("run", "analyze-and-fix", env=environ(stage)).returncode == 0
    prompt = stage.file("prompts")
    assert prompt.startswith("/ll:manage_issue bug fix\n\nerror_count: 3\niteration: 1\nelapsed: ")
