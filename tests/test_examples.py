"""Every example is valid, does what it says, and does not lie where its tools are missing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.project import Project
from tests.stand_ins import StandIns, exits, give_agent, last_event, way

EXAMPLES = Path(__file__).parents[1] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))

Tools = dict[str, tuple[str, ...]]


class Part(NamedTuple):
    """What the tools play, and how the run ends then."""

    tools: Tools
    exit_code: int
    way: str
    agent_turns: int


@pytest.fixture
def stand_ins(tmp_path: Path) -> StandIns:
    return StandIns(tmp_path / "bin")


def copy(project: Project, name: str, **changes: str) -> Path:
    project.git("init", "-q")
    project.git("config", "user.name", "me")
    project.git("config", "user.email", "me@example.org")
    (project.root / "tests").mkdir(exist_ok=True)
    for each in started_by(name):
        project.loop(each, (EXAMPLES / f"{each}.yaml").read_text())
    text = (EXAMPLES / f"{name}.yaml").read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    if "worktree:" in text:
        (project.root / "tests/test_a.py").write_text("import unittest\n")
        project.git("init", "-q", "-b", "main")
        project.git("add", ".")
        project.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first")
    return project.loop(name, text)


def started_by(name: str) -> list[str]:
    """The examples that the states of this one start."""
    return re.findall(r"^ +loop: (\S+)$", (EXAMPLES / f"{name}.yaml").read_text(), re.MULTILINE)


def play(project: Project, stand_ins: StandIns, name: str, tools: Tools, *more: str) -> int:
    path = copy(project, name, **CHANGES)
    for each in (path, *(path.with_stem(inner) for inner in started_by(name))):
        give_agent(each, stand_ins)
    (project.root / "plan.md").write_text("1. all of it\n")
    stand_ins.tool("agent", *tools.get("agent", ("echo fixed > code; echo done",)))
    for tool, parts in tools.items():
        stand_ins.tool(tool, *parts)
        if tool.endswith(".sh"):
            stand_ins.lend(tool, project.root)
    return project.ll("run", name, *more, env=stand_ins.environ).returncode


CHANGES = {
    "maintain: true": "maintain: false",
    "{who: [claude, codex], take: [1, 2]}": "{who: [command], take: [1]}",
    ", permission_mode: plan}": "}",
}
"""What a test does not need: more cycles, more than one agent at a time, and options that the
stand-in does not have."""


def test_all_are_listed_for_people():
    table = (EXAMPLES / "README.md").read_text()
    assert [name for name in NAMES if f"[{name}]({name}.yaml)" not in table] == []


@pytest.mark.parametrize("name", NAMES)
def test_is_valid_without_a_warning(project: Project, name: str):
    copy(project, name)
    found = project.ll("validate", "--strict", name)
    assert (found.returncode, found.stdout.splitlines()[-1]) == (0, "checked 1 loop: no problems")


MYPY = r"printf 'a.py:1: error: x\nb.py:2: error: y\n'; exit 1"
AUDIT = {"metadata": {"vulnerabilities": {"total": 0}}}


def metadata(status: str, **progress: int) -> str:
    told = {"status": status, "partial_progress": progress}
    return f"echo '{json.dumps(told)}' > .return-meta.json; echo ended"


GOOD = {
    "fix-tests": Part({"pytest": ("exit 1", "exit 0")}, 0, "evaluate fix evaluate done", 1),
    "fix-types": Part({"mypy": (MYPY, "echo Success; exit 0")}, 0, "measure apply measure done", 1),
    "raise-coverage": Part(
        {"coverage": ("exit 0", "echo 72", "exit 0", "echo 91")},
        *(0, "measure apply measure done", 1),
    ),
    "tune-benchmark": Part(
        {"make": ("exit 0",), "bench.sh": (*["echo 140"] * 10, *["echo 150"] * 5, "echo 99")},
        *(0, "measure apply measure apply measure done", 2),
    ),
    "quality-guard": Part(
        {"ruff": (*exits(1), "echo x > formatted", *exits(0, 1, 0, 0)), "pytest": ("exit 0",)},
        0,
        "check_formatted fix_formatted check_formatted check_lint fix_lint"
        " check_formatted check_lint check_tests all_valid",
        1,
    ),
    "update-dependencies": Part(
        {"npm": ("exit 0", f"echo '{json.dumps(AUDIT)}'")},
        *(0, "step_0 step_1 step_2 evaluate done", 1),
    ),
    "implement-plan": Part(
        {
            "agent": (metadata("partial", phases_completed=1), metadata("implemented")),
            "make": ("exit 1", "exit 0"),
        },
        *(0, "prepare turn settle " * 2 + "check prepare turn settle check done", 3),
    ),
    "find-flaky": Part(
        {"pytest": ("exit 0", "exit 0", "exit 1")}, 4, "run run run explain found", 1
    ),
    "review-changes": Part(
        {
            "pytest": ("exit 0",),
            "agent": ("echo 'VERDICT: changes'", "echo fixed", "echo 'VERDICT: approve'"),
        },
        *(0, "test review fix_review test review done", 3),
    ),
    "find-cause": Part(
        {
            "pytest": ("exit 1", "exit 0"),
            "agent": ("echo 'VERDICT: pass'", "echo fixed > code; echo fixed"),
        },
        *(0, "test search fix test done", 2),
    ),
    "migrate-files": Part(
        {"pytest": ("exit 0",), "agent": ("echo import pytest > tests/test_a.py; echo done",)},
        *(0, "list migrate list test done", 1),
    ),
    "nightly": Part(
        {"mypy": (MYPY, "echo Success; exit 0"), "pytest": ("exit 1", "exit 0")},
        *(0, "types tests check_types check_tests done", 2),
    ),
    "safe-deploy": Part(
        {
            "make": ("exit 0",),
            "deploy.sh": ("exit 0",),
            "smoke-test.sh": ("exit 0", "exit 1"),
            "rollback.sh": ("exit 0",),
        },
        1,
        "ready test deploy_staging smoke_staging deploy_production smoke_production"
        " rollback_production rolled_back",
        0,
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_does_what_it_says(project: Project, stand_ins: StandIns, name: str):
    part = GOOD[name]
    code = play(project, stand_ins, name, part.tools)
    assert (code, " ".join(way(project, name)), stand_ins.times("agent")) == part[1:]


def test_a_suite_that_always_passes_is_stable(project: Project, stand_ins: StandIns):
    assert play(project, stand_ins, "find-flaky", {"pytest": ("exit 0",)}) == 0
    assert (stand_ins.times("pytest"), way(project, "find-flaky")[-1]) == (20, "stable")


SCRIPTS: Tools = {
    "deploy.sh": ("exit 0",),
    "smoke-test.sh": ("exit 0",),
    "rollback.sh": ("exit 0",),
}
LIES = [
    pytest.param("fix-tests", Part({}, 1, "evaluate", 0), id="no pytest"),
    pytest.param("fix-tests", Part({"pytest": ("exit 4",)}, 1, "evaluate", 0), id="no such option"),
    pytest.param("fix-types", Part({}, 1, "measure", 0), id="no mypy"),
    pytest.param(
        "fix-types",
        Part({"mypy": ("echo No module named mypy >&2; exit 1",)}, 1, "measure", 0),
        id="mypy fails and finds nothing",
    ),
    pytest.param(
        "fix-types",
        Part({"mypy": ("echo 'mypy: error: no such option'; exit 2",)}, 1, "measure", 0),
        id="mypy is called wrongly",
    ),
    pytest.param("raise-coverage", Part({}, 1, "measure", 0), id="no coverage"),
    pytest.param(
        "raise-coverage",
        Part({"coverage": ("exit 0", "echo No data to report.; exit 1")}, 1, "measure", 0),
        id="no number",
    ),
    pytest.param("tune-benchmark", Part({}, 1, "measure", 0), id="no tests"),
    pytest.param(
        "tune-benchmark",
        Part({"make": ("exit 0",), "bench.sh": ("echo slow",)}, 1, "measure", 0),
        id="a benchmark without a number",
    ),
    pytest.param("quality-guard", Part({}, 1, "check_formatted", 0), id="no ruff"),
    pytest.param("update-dependencies", Part({}, 1, "step_0 step_1", 1), id="no npm"),
    pytest.param(
        "update-dependencies",
        Part(
            {"npm": ("exit 0", """echo '{"error": {"code": "ENOAUDIT"}}'; exit 1""")},
            *(1, "step_0 step_1 step_2 evaluate", 1),
        ),
        id="no report",
    ),
    pytest.param("find-flaky", Part({}, 1, "run", 0), id="no suite to be flaky"),
    pytest.param("review-changes", Part({}, 1, "test", 0), id="nothing tested"),
    pytest.param(
        "review-changes",
        Part({"pytest": ("exit 0",), "agent": ("echo looks good to me",)}, 1, "test review", 1),
        id="a review without a verdict",
    ),
    pytest.param("find-cause", Part({}, 1, "test", 0), id="nothing to find the cause of"),
    pytest.param(
        "find-cause",
        Part({"pytest": ("exit 1",), "agent": ("exit 127",)}, 1, "test search", 1),
        id="no agent to find the cause",
    ),
    pytest.param(
        "migrate-files",
        Part({"agent": ("exit 127",)}, 1, "list migrate", 1),
        id="no agent to migrate a file",
    ),
    pytest.param("nightly", Part({}, 1, "types", 0), id="nothing to check the types with"),
    pytest.param(
        "nightly",
        Part({"mypy": ("exit 0",), "pytest": ("exit 3",)}, 1, "types tests", 0),
        id="a crash of pytest in an inner loop",
    ),
    pytest.param("safe-deploy", Part({}, 1, "ready", 0), id="no scripts"),
    pytest.param(
        "safe-deploy",
        Part(
            {**SCRIPTS, "make": ("exit 0",), "smoke-test.sh": ("exit 127",)},
            *(1, "ready test deploy_staging smoke_staging rollback_staging rolled_back", 0),
        ),
        id="a smoke test that cannot be made",
    ),
    pytest.param(
        "implement-plan",
        Part({"agent": (metadata("implemented"),)}, 1, "prepare turn settle check", 1),
        id="nothing to check the plan with",
    ),
]


@pytest.mark.parametrize(("name", "part"), LIES)
def test_does_not_lie(project: Project, stand_ins: StandIns, name: str, part: Part):
    code = play(project, stand_ins, name, part.tools)
    assert (code, " ".join(way(project, name)), stand_ins.times("agent")) == part[1:]
    assert last_event(project, name)["status"] == "failed"


WEAKENS = "echo pass > tests/test_it.py; echo fixed"


@pytest.mark.parametrize(
    ("name", "turns"),
    [
        ("fix-tests", (WEAKENS,)),
        ("find-cause", ("echo 'VERDICT: pass'", WEAKENS)),
    ],
)
def test_what_agents_change_in_the_tests_is_undone(
    project: Project, stand_ins: StandIns, name: str, turns: tuple[str, ...]
):
    test = project.root / "tests/test_it.py"
    test.parent.mkdir()
    test.write_text("assert False\n")
    play(project, stand_ins, name, {"pytest": ("exit 1", "exit 0"), "agent": turns})
    assert test.read_text() == "assert False\n"
    assert way(project, name)[-1] == "done"
    assert last_event(project, name)["evidence"] == "verified"


def test_a_turn_of_the_relay_that_leaves_nothing_is_no_success(
    project: Project, stand_ins: StandIns
):
    code = play(project, stand_ins, "implement-plan", {}, "--max-iterations", "1")
    last = last_event(project, "implement-plan")
    assert (code, last["status"], last["reason"]) == (3, "failed", "max_iterations")


def test_every_example_is_caught_in_a_lie_by_some_row():
    assert {str(row.values[0]) for row in LIES} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_its_cost_can_be_estimated_with_the_options_that_are_asked_for(project: Project, name: str):
    copy(project, name)
    asked = project.ll("simulate", name)
    assert asked.returncode == 2, asked.stdout
    _, _, options = asked.stderr.partition("   = help: to give your own estimate: ")
    done = project.ll("simulate", name, "-n", "20", "--json", *options.split())
    assert done.returncode == 0, done.stderr
    reasons = {ending["reason"] for ending in json.loads(done.stdout)["endings"]}
    assert reasons <= {"terminal", "review", "max_iterations"}


def test_the_tests_of_the_examples_pass_and_take_every_transition(tmp_path):
    project = Project(tmp_path)
    shutil.copytree(EXAMPLES, project.root / ".loops", dirs_exist_ok=True)
    done = project.ll("test", "--require-coverage")
    assert done.returncode == 0, done.stdout + done.stderr
    tested = {path.name.removesuffix(".test.yaml") for path in EXAMPLES.glob("tests/*.test.yaml")}
    assert tested == set(NAMES)
