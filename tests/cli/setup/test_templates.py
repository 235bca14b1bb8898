"""What comes of the loops that `ll-loop init` writes, with stand-ins for tools and agent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from little_loops.definitions.loop_templates import TEMPLATES
from tests.project import Project
from tests.stand_ins import PROJECTS, StandIns, give_agent, last_event, lay_out, way
from tests.stand_ins import way as states_of


@pytest.fixture
def stand_ins(tmp_path: Path) -> StandIns:
    return StandIns(tmp_path / "bin")


def play(
    project: Project, stand_ins: StandIns, template: str, kind: str, tools: dict[str, list[str]]
) -> tuple[int, str, int]:
    """Write a loop, let stand-ins play its tools and its agent; how it went."""
    lay_out(project.root, PROJECTS[kind])
    # Before there are stand-ins: it looks for tools, and each call of a stand-in is a turn.
    assert project.ll("init", "--template", template).returncode == 0
    for name, parts in ({"agent": ["echo fixed"]} | tools).items():
        stand_ins.tool(name, *parts)
    loop = TEMPLATES[template].loop
    give_agent(project.root / ".loops" / f"{loop}.yaml", stand_ins)
    done = project.ll("run", loop, env=stand_ins.environ)
    return done.returncode, " ".join(way(project, loop)), stand_ins.times("agent")


TSC = 'echo "a.ts(1,2): error TS2322: no"; exit 2'
NODE = {"node": ["exit 0"]}


@pytest.mark.parametrize(
    ("template", "kind", "tools", "way"),
    [
        pytest.param(
            *("tests", "python", {"python3": ["exit 0", "exit 2", "exit 0"]}),
            "evaluate fix evaluate done",
            id="pytest: a file that cannot be imported, then all pass",
        ),
        pytest.param(
            *("tests", "unittest", {"python3": ["", "exit 1", "", "exit 0"]}),
            "evaluate fix evaluate done",
            id="unittest",
        ),
        pytest.param(
            *("tests", "typescript", {**NODE, "npm": ["exit 7", "exit 0"]}),
            "evaluate fix evaluate done",
            id="npm: as many as failed",
        ),
        pytest.param(
            *("tests", "make", {"make": ["", "exit 2", "", "exit 0"]}),
            "evaluate fix evaluate done",
            id="make",
        ),
        pytest.param(
            *("tests", "python", {"python3": ["exit 0", "exit 5", "exit 0"]}),
            "evaluate fix evaluate done",
            id="pytest: the tests are gone, then all pass",
        ),
        pytest.param(
            *("tests", "rust", {"cargo": ["", "exit 101", "", "exit 0"]}),
            "evaluate fix evaluate done",
            id="cargo test",
        ),
        pytest.param(
            *("lint", "rust", {"cargo": ["", "exit 101", "", "exit 0"]}),
            "evaluate fix evaluate done",
            id="clippy",
        ),
        pytest.param(
            *("tests", "go", {"go": ["", "exit 1", "", "exit 0"]}),
            "evaluate fix evaluate done",
            id="go test",
        ),
        pytest.param(
            *("lint", "go", {"go": ["", "exit 1", "", "exit 0"]}),
            "evaluate fix evaluate done",
            id="go vet",
        ),
        pytest.param(
            *("lint", "python", {"ruff": ["", "exit 1", "", "exit 0"]}),
            "evaluate fix evaluate done",
            id="ruff",
        ),
        pytest.param(
            *("lint", "typescript", {**NODE, "npm": ["exit 1", "exit 0"]}),
            "evaluate fix evaluate done",
            id="eslint",
        ),
        pytest.param(
            *("types", "python"),
            {"python3": ["", "echo a.py:1: error: x; exit 1", "", "echo Success"]},
            "measure apply measure done",
            id="mypy",
        ),
        pytest.param(
            *("types", "typescript", {**NODE, "npm": [TSC, "exit 0"]}),
            "measure apply measure done",
            id="tsc",
        ),
    ],
)
def test_the_agent_is_asked_until_the_check_passes(project, stand_ins, template, kind, tools, way):
    assert play(project, stand_ins, template, kind, tools) == (0, way, 1)


@pytest.mark.parametrize(
    ("template", "kind", "tools", "error"),
    [
        pytest.param(
            *("tests", "python", {"python3": ["exit 1"]}),
            "pytest is not installed for python3",
            id="no pytest",
        ),
        pytest.param(
            *("tests", "python", {"python3": ["", "exit 4"]}), "exit 4", id="no such option"
        ),
        pytest.param(
            *("tests", "unittest", {"python3": ["exit 1"]}),
            "unittest found no tests",
            id="unittest without tests",
        ),
        pytest.param(
            *("tests", "typescript", {"node": ["exit 1"]}),
            "package.json has no script test",
            id="the script is gone",
        ),
        pytest.param(
            *("tests", "javascript", {**NODE, "npm": ["exit 1"]}),
            "node_modules is missing; run npm install",
            id="nothing installed",
        ),
        pytest.param(
            *("tests", "typescript", {**NODE, "npm": ["exit 127"]}), "exit 127", id="no vitest"
        ),
        pytest.param(
            *("tests", "rust", {"cargo": ["exit 127"]}), "cargo is not installed", id="no cargo"
        ),
        pytest.param(
            *("lint", "rust", {"cargo": ["exit 101"]}),
            "cargo-clippy is not installed",
            id="no clippy",
        ),
        pytest.param(*("tests", "go", {"go": ["exit 127"]}), "go is not installed", id="no go"),
        pytest.param(
            *("tests", "make", {"make": ["exit 2"]}), "make has no target test", id="no target"
        ),
        pytest.param(
            *("tests", "make"),
            {"make": ["", "echo 'make: *** [Makefile:2: test] Error 127' >&2; exit 2"]},
            "a program that make test needs is missing",
            id="make misses a program",
        ),
        pytest.param(*("tests", "empty", {}), "put the command for", id="no command known"),
        pytest.param(*("lint", "python", {}), "ruff is not installed", id="no ruff"),
        pytest.param(*("lint", "python", {"ruff": ["", "exit 2"]}), "exit 2", id="ruff fails"),
        pytest.param(
            *("types", "python", {"python3": ["exit 1"]}),
            "mypy is not installed for python3",
            id="no mypy",
        ),
        pytest.param(
            *("types", "python", {"python3": ["", "echo boom; exit 1"]}),
            "mypy could not check the types (exit 1)",
            id="mypy without a word of errors",
        ),
        pytest.param(
            *("types", "python", {"python3": ["", "echo 'mypy: error: x'; exit 2"]}),
            "mypy could not check the types (exit 2)",
            id="mypy called wrongly",
        ),
        pytest.param(
            *("types", "typescript", {**NODE, "npm": ["exit 127"]}),
            "tsc could not check the types (exit 127)",
            id="no tsc",
        ),
        pytest.param(*("types", "empty", {}), "put the command for", id="no type checker known"),
    ],
)
def test_a_check_that_cannot_be_made_is_an_error(project, stand_ins, template, kind, tools, error):
    code, states, turns = play(project, stand_ins, template, kind, tools)
    loop = TEMPLATES[template].loop
    assert (code, states.split()[1:], turns) == (1, [], 0)
    assert error in str(last_event(project, loop)["error"])


def test_type_errors_that_do_not_get_fewer_end_as_failed(project, stand_ins):
    tools = {"python3": ["", "echo a.py:1: error: x; exit 1"] * 3}
    code, states, turns = play(project, stand_ins, "types", "python", tools)
    assert (code, states, turns) == (1, "measure apply measure apply measure done", 2)


def test_another_type_checker_is_judged_by_its_exit_code(project, stand_ins):
    tools = {**NODE, "npm": ["exit 3", "exit 0"]}
    (project.root / "node_modules").mkdir()
    assert play(project, stand_ins, "types", "javascript", tools) == (
        *(0, "evaluate fix evaluate done"),
        1,
    )


@pytest.mark.parametrize(
    ("kind", "tools", "loop", "way"),
    [
        pytest.param(
            *("unittest", {"python3": ["", "exit 1", "", "exit 0"]}),
            *("fix-tests", "evaluate fix evaluate done"),
            id="Python",
        ),
        pytest.param(
            *("typescript", {**NODE, "npm": ["exit 1", "exit 0"]}),
            *("fix-tests", "evaluate fix evaluate done"),
            id="TypeScript",
        ),
        pytest.param("empty", {}, "my-loop", "check fix check done", id="nothing known"),
    ],
)
def test_two_commands_make_and_run_the_first_loop(project, stand_ins, kind, tools, loop, way):
    lay_out(project.root, PROJECTS[kind])
    for name, parts in ({"agent": ["echo fixed"]} | tools).items():
        stand_ins.tool(name, *parts)
    assert project.ll("init", "--yes", "--no-try", env=stand_ins.environ).returncode == 0
    give_agent(project.root / ".loops" / f"{loop}.yaml", stand_ins)
    done = project.ll("run", loop, env=stand_ins.environ)
    assert (done.returncode, " ".join(states_of(project, loop))) == (0, way), done.stdout


def test_a_real_project_is_fixed(project, stand_ins):
    lay_out(
        project.root,
        {
            "calc.py": "def double(x):\n    return x + 2\n",
            "test_calc.py": dedent("""\
                import unittest

                from calc import double

                class Doubling(unittest.TestCase):
                    def test_it(self):
                        self.assertEqual(double(3), 6)
                """),
        },
    )
    stand_ins.add("python3", f'exec "{sys.executable}" -B "$@"\n')
    stand_ins.tool("agent", "printf 'def double(x):\\n    return 2 * x\\n' > calc.py; echo fixed")
    assert project.ll("init", "--yes", env=stand_ins.environ).returncode == 0
    give_agent(project.root / ".loops" / "fix-tests.yaml", stand_ins)
    done = project.ll("run", "fix-tests", env=stand_ins.environ)
    assert (done.returncode, way(project, "fix-tests")) == (
        *(0, ["evaluate", "fix", "evaluate", "done"]),
    )
    prompt = (stand_ins.bin / "agent.log").read_text()
    assert "python3 -m unittest" in prompt


READ_THE_FILE = """\
line=$(printf '%s\\n' "$1" | grep -o 'in the file .*')
cat "${line#in the file }" > seen
echo fixed
"""


@pytest.mark.parametrize("template", ["tests", "lint", "types"])
def test_the_agent_is_sent_to_a_file_with_both_streams(project, stand_ins, template):
    printed = "echo one; echo two >&2; exit 1"
    tools = {"node": ["exit 0"], "npm": [printed, "exit 0"], "agent": [READ_THE_FILE]}
    (project.root / "node_modules").mkdir()
    assert play(project, stand_ins, template, "javascript", tools)[0] == 0
    assert project.file("seen") == "one\ntwo\n"


def test_the_relay_hands_the_plan_on(project, stand_ins):
    def turn(told: dict[str, object]) -> str:
        return f"echo '{json.dumps(told)}' > .return-meta.json; echo ended"

    lay_out(project.root, {"plan.md": "1. a\n2. b\n"})
    progress = {"phases_completed": 1, "phases_total": 2}
    tools = {
        "agent": [
            turn({"status": "partial", "partial_progress": progress}),
            turn({"status": "implemented"}),
        ]
    }
    assert play(project, stand_ins, "relay", "empty", tools) == (
        *(0, "prepare turn settle prepare turn settle done"),
        2,
    )
    prompts = (stand_ins.bin / "agent.log").read_text()
    assert "resume_phase: 1" in prompts
    assert "resume_phase: 2" in prompts


DEPLOY = {
    "make": ["exit 0"],
    "deploy.sh": ["exit 0"],
    "smoke-test.sh": ["exit 0"],
    "rollback.sh": ["exit 0"],
}


@pytest.mark.parametrize(
    ("tools", "code", "states"),
    [
        pytest.param({}, 0, "ready test deploy smoke_test deployed", id="all is well"),
        pytest.param({"make": ["exit 1"]}, 1, "ready test not_deployed", id="tests fail"),
        pytest.param(
            *({"deploy.sh": ["exit 3"]}, 1),
            "ready test deploy rollback rolled_back",
            id="half a deployment",
        ),
        pytest.param(
            *({"smoke-test.sh": ["exit 127"]}, 1),
            "ready test deploy smoke_test rollback rolled_back",
            id="a check that cannot be made",
        ),
        pytest.param(
            *({"smoke-test.sh": ["exit 1"], "rollback.sh": ["exit 1"]}, 4),
            "ready test deploy smoke_test rollback rollback_failed",
            id="somebody has to look",
        ),
    ],
)
def test_a_deployment(project, stand_ins, tools, code, states):
    for name in DEPLOY:
        if name.endswith(".sh"):
            stand_ins.lend(name, project.root)
    assert play(project, stand_ins, "deploy", "empty", DEPLOY | tools) == (code, states, 0)


def test_a_deployment_without_its_scripts_is_not_begun(project, stand_ins):
    assert play(project, stand_ins, "deploy", "empty", {}) == (1, "ready", 0)
    assert last_event(project, "safe-deploy")["error"] == "cannot run ./deploy.sh"


def test_a_deployment_that_was_cut_short_is_rolled_back(project, stand_ins):
    for name in DEPLOY:
        if name.endswith(".sh"):
            stand_ins.lend(name, project.root)
        stand_ins.tool(name, *DEPLOY[name])
    stand_ins.tool("deploy.sh", "kill -9 $(cat .loops/.running/safe-deploy.pid | head -n 1)")
    project.ll("init", "--template", "deploy", env=stand_ins.environ)
    assert project.ll("run", "safe-deploy", env=stand_ins.environ).returncode == -9
    done = project.ll("resume", "safe-deploy", env=stand_ins.environ)
    assert done.returncode == 1, done.stderr
    assert way(project, "safe-deploy") == ["ready", "test", "deploy", "rollback", "rolled_back"]
    assert stand_ins.times("deploy.sh") == 1


def test_the_empty_one_works_as_it_stands(project, stand_ins):
    assert play(project, stand_ins, "empty", "empty", {}) == (0, "check fix check done", 0)


@pytest.mark.parametrize("kind", ["python", "rust", "typescript", "empty"])
@pytest.mark.parametrize("template", TEMPLATES)
def test_every_loop_comes_with_tests_that_pass(project, template, kind):
    lay_out(project.root, PROJECTS[kind])
    done = project.ll("init", "--template", template, "--no-try")
    assert done.returncode == 0, done.stderr
    tested = project.ll("test")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    name = TEMPLATES[template].loop
    assert tested.stdout.startswith(f".loops/tests/{name}.test.yaml  ..")
