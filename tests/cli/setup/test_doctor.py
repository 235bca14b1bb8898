"""`ll-loop doctor`: each thing that can be wrong, what is said about it, and that it only looks."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from little_loops import __version__
from little_loops.cli.setup.checkup import CheckupInputs, CheckupResult, examine
from little_loops.cli.setup.doctor import TIMED_OUT, page, summary, version_of
from little_loops.definitions.trust import AgentAction, agree
from little_loops.reporting.amounts import size_text
from little_loops.terminal.tables import ASCII, Style
from tests.project import Project, until
from tests.stand_ins import StandIns, lay_out, tree

AGENT_LOOP = """\
name: asks
initial: ask
states:
  ask: {action: do it, action_type: prompt, next: end}
  end: {terminal: true}
"""
PLAIN_LOOP = "name: plain\ninitial: end\nstates: {end: {terminal: true}}\n"
BAD_LOOP = "name: bad\ninitial: nowhere\nstates: {end: {terminal: true}}\n"


class Answers:
    """Programs that are there, with what they answer when asked for their version."""

    def __init__(self, **versions: str) -> None:
        self.versions = {"ll-loop": "", "git": "", "sh": "", "bash": ""} | versions
        self.asked: list[Sequence[str]] = []

    def which(self, name: str) -> str | None:
        return f"/bin/{name}" if name in self.versions else None

    def run(self, argv: Sequence[str]) -> tuple[int, str]:
        self.asked.append(argv)
        said = self.versions[os.path.basename(argv[0])]
        return (0 if said else 1), said


def patient(
    project: Project,
    answers: Answers,
    *,
    euid: int = 1000,
    encoding: str = "utf-8",
    environ: Mapping[str, str] | None = None,
) -> CheckupInputs:
    own = {"HOME": str(project.home), **(environ or {})}
    root = str(project.root)
    return CheckupInputs(root, own, answers.which, answers.run, euid, encoding)


def found(one: CheckupInputs, *ids: str) -> list[CheckupResult]:
    """What is said under these ids; without any, what is not well."""
    everything = examine(one)
    if not ids:
        return [each for each in everything if each.level in ("warning", "problem")]
    return [each for each in everything if each.id in ids]


# ── rows ───────────────────────────────────────────────────────────────────────────────────────


def test_a_healthy_project(project: Project):
    project.loop("asks", AGENT_LOOP)
    (project.root / ".git").mkdir()
    one = patient(project, Answers(claude="2.1.303 (Claude Code)"))
    agree(one.root, [AgentAction("claude", "do it")], "2026-11-02T00:00:00Z", one.environ)
    lines = page(examine(one), Style())
    version = ".".join(map(str, sys.version_info[:3]))
    assert [line for line in lines if "file system" not in line] == [
        f"✓ ll-loop {__version__} · python {version} · jq · re2 · psutil · YAML",
        f"✓ project: {project.root} · 1 loop · git",
        "✓ claude 2.1.303 on PATH",
        "– codex not found: only needed for host: codex",
        "✓ consent: 1 agent action without permission prompts",
        "✓ output: utf-8",
        "no problems",
    ]


def test_of_an_agent_only_the_version_is_asked(project: Project):
    project.loop("asks", AGENT_LOOP)
    answers = Answers(claude="2.1.303", codex="codex-cli 0.50.0")
    examine(patient(project, answers))
    assert answers.asked == [["/bin/claude", "--version"], ["/bin/codex", "--version"]]


@pytest.mark.parametrize(
    ("text", "answers", "finding"),
    [
        pytest.param(
            PLAIN_LOOP,
            Answers(),
            CheckupResult(
                "agent:claude", "note", "claude not found", "only needed for host: claude"
            ),
            id="an agent nobody asks for",
        ),
        pytest.param(
            AGENT_LOOP,
            Answers(),
            CheckupResult(
                "agent:claude",
                "problem",
                "claude not found",
                "needed by asks",
                "install it with `npm install -g @anthropic-ai/claude-code`",
            ),
            id="an agent that is missing",
        ),
        pytest.param(
            AGENT_LOOP,
            Answers(claude=""),
            CheckupResult(
                "agent:claude",
                "problem",
                "claude does not respond",
                "`claude --version` exited with code 1",
                "install it again",
            ),
            id="an agent that is broken",
        ),
        pytest.param(
            AGENT_LOOP + 'host: {name: command, command: [my-agent, "{prompt}"]}\n',
            Answers(),
            CheckupResult("agent:command", "problem", "my-agent not found", "needed by asks"),
            id="a command of the user's",
        ),
        pytest.param(
            BAD_LOOP,
            Answers(),
            CheckupResult("loops", "warning", "1 loop, 1 invalid", "it.yaml", "ll-loop validate"),
            id="an invalid loop",
        ),
        pytest.param(
            AGENT_LOOP,
            Answers(claude="1.0"),
            CheckupResult(
                "consent",
                "note",
                "no consent yet",
                "needed for 1 of 1 agent action; `ll-loop run` will ask",
                "ll-loop trust",
            ),
            id="no consent",
        ),
    ],
)
def test_what_is_said_of_a_loop(
    project: Project, text: str, answers: Answers, finding: CheckupResult
):
    project.loop("it", text)
    assert finding in found(patient(project, answers), finding.id)


TESTED = """\
name: fix-tests
initial: check
states:
  check: {action: %s, on_pass: done, on_fail: check}
  done: {terminal: true}
"""


def test_a_tool_that_a_loop_needs_is_missing(project: Project):
    (project.root / "Cargo.toml").write_text("[package]\n")
    project.loop("fix-tests", TESTED % "cargo test -q")
    assert found(patient(project, Answers()), "tool") == [
        CheckupResult("tool", "problem", "cargo is not installed", "needed by fix-tests")
    ]
    assert found(patient(project, Answers(cargo="")), "tool") == []


def test_a_python_of_the_project_is_not_started(project: Project):
    """A cloned repository must not have code run by a page that only reads."""
    lay_out(project.root, {".venv/bin/python3": "#!/bin/sh\ntouch ran\n", "pytest.ini": ""})
    (project.root / ".venv/bin/python3").chmod(0o755)
    project.loop("fix-tests", TESTED % ".venv/bin/python3 -m pytest -q")
    assert found(patient(project, Answers()), "tool") == []
    assert not (project.root / "ran").exists()


@pytest.mark.parametrize(
    ("command", "is_blind"),
    [
        pytest.param(".venv/bin/python3 -m pytest -q", True, id="imports the copy"),
        pytest.param("PYTHONPATH=src .venv/bin/python3 -m pytest -q", False, id="is led to src"),
        pytest.param("make test", False, id="nobody knows"),
    ],
)
def test_tests_that_do_not_see_the_projects_files(project: Project, command: str, is_blind: bool):
    copy = ".venv/lib/python3.11/site-packages/leap"
    lay_out(project.root, {"src/leap/__init__.py": "", f"{copy}/__init__.py": ""})
    project.loop("fix-tests", TESTED % command)
    finding = CheckupResult(
        "imports",
        "warning",
        f"tests import `leap` from {copy}, not from src",
        "fix-tests would not see a fix",
        ".venv/bin/python3 -m pip install -e .",
    )
    assert found(patient(project, Answers()), "imports") == ([finding] if is_blind else [])


def test_a_shell_that_is_missing(project: Project):
    project.loop("it", PLAIN_LOOP + "shell: bash\n")
    answers = Answers()
    del answers.versions["bash"]
    assert found(patient(project, answers), "shell") == [
        CheckupResult("shell", "problem", "bash not found", "needed by plain")
    ]


def test_root_must_say_that_it_is_a_sandbox(project: Project):
    project.loop("asks", AGENT_LOOP)
    answers = Answers(claude="1.0")
    as_root = patient(project, answers, euid=0)
    assert [one.level for one in found(as_root, "root")] == ["problem"]
    in_sandbox = patient(project, answers, euid=0, environ={"IS_SANDBOX": "1"})
    assert found(in_sandbox, "root") == []


def test_consent_by_a_variable(project: Project):
    project.loop("asks", AGENT_LOOP)
    one = patient(project, Answers(), environ={"LL_ALLOW_SKIP_PERMISSIONS": "1"})
    assert found(one, "consent") == [
        CheckupResult("consent", "ok", "consent: LL_ALLOW_SKIP_PERMISSIONS=1")
    ]


def test_a_damaged_file_of_consent_is_a_finding(project: Project):
    project.loop("asks", AGENT_LOOP)
    kept = project.home / ".local" / "state" / "little-loops"
    kept.mkdir(parents=True, mode=0o700)
    (kept / "trust.json").write_text("[")
    [finding] = found(patient(project, Answers(claude="1")), "consent")
    assert (finding.level, finding.fix) == (
        "problem",
        "it holds your consent for all projects: delete it, then run `ll-loop trust` again in each project",
    )


@pytest.mark.parametrize(
    ("environ", "config", "finding"),
    [
        pytest.param({}, "", None, id="none"),
        pytest.param(
            {"LL_TIMEOUT": "soon"},
            "",
            (
                "problem",
                "LL_* variables and config files: `timeout` must be a duration, not `soon`",
            ),
            id="a variable that is wrong",
        ),
        pytest.param(
            {"LL_TIMEOUT": "10m"}, "", ("ok", "settings from LL_TIMEOUT"), id="a variable"
        ),
        pytest.param({}, "- a list", ("problem", None), id="a config that is none"),
    ],
)
def test_settings(project: Project, environ, config, finding):
    if config:
        (project.root / ".loops" / ".config.yaml").write_text(config)
    seen = found(patient(project, Answers(), environ=environ), "settings")
    told = [(one.level, one.text if finding and finding[1] else None) for one in seen]
    assert told == ([finding] if finding else [])


def test_outside_of_any_project(project: Project):
    (project.root / ".loops").rmdir()
    assert found(patient(project, Answers()), "project", "locks", "git") == [
        CheckupResult("project", "note", "no loops here yet", str(project.root), "ll-loop init"),
        CheckupResult("locks", "note", "file system: not checked", "there is no .loops yet"),
    ]


def test_what_is_missing_around_it(project: Project):
    answers = Answers()
    del answers.versions["ll-loop"], answers.versions["git"]
    seen = found(patient(project, answers, encoding="ascii"), "path", "git", "terminal")
    assert [(one.id, one.level, one.text) for one in seen] == [
        ("path", "note", "`ll-loop` is not on PATH"),
        ("git", "note", "git not found"),
        ("terminal", "note", "output: ascii"),
    ]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        pytest.param(1, "1 kB", id="little"),
        pytest.param(3 << 20, "3 MB", id="some"),
        pytest.param(3 << 29, "1.5 GB", id="much"),
    ],
)
def test_sizes(size, text):
    assert size_text(size) == text


def test_a_large_history(project: Project):
    past = project.root / ".loops" / ".history" / "x"
    past.mkdir(parents=True)
    with open(past / "2026-01-15T10-30-00.log", "wb") as stream:
        stream.truncate(3 << 29)  # a hole, not a gigabyte
    assert found(patient(project, Answers()), "history") == [
        CheckupResult(
            "history",
            "warning",
            ".loops/.history holds 1.5 GB",
            fix="ll-loop history --prune 30d",
        )
    ]


# ── on the screen ──────────────────────────────────────────────────────────────────────────────

SEEN = [
    CheckupResult("a", "ok", "one", together="x"),
    CheckupResult("b", "ok", "alone"),
    CheckupResult("c", "ok", "two", together="x"),
    CheckupResult("d", "warning", "three", "because", "do this", together="x"),
    CheckupResult("e", "problem", "bad \x1b[2J name", fix="do that"),
    CheckupResult("f", "note", "four"),
]


@pytest.mark.parametrize(
    ("style", "only_bad", "lines"),
    [
        pytest.param(
            Style(),
            False,
            [
                "✓ one · two",
                "✓ alone",
                "! three: because",
                "    fix: do this",
                "✗ bad \\x1b[2J name",
                "    fix: do that",
                "– four",
                "1 problem, 1 warning",
            ],
            id="all",
        ),
        pytest.param(
            Style(ASCII),
            True,
            [
                "warn three: because",
                "    fix: do this",
                "FAIL bad \\x1b[2J name",
                "    fix: do that",
                "1 problem, 1 warning",
            ],
            id="quiet, in ASCII",
        ),
    ],
)
def test_the_page(style, only_bad, lines):
    assert page(SEEN, style, only_bad=only_bad) == lines


def test_colour_repeats_what_a_sign_says():
    [line, _] = page([CheckupResult("a", "problem", "bad")], Style(colour=True))
    assert line == "\x1b[31m✗\x1b[0m bad"


def test_the_summary():
    assert [summary([]), summary(SEEN), summary(SEEN * 2)] == [
        "no problems",
        "1 problem, 1 warning",
        "2 problems, 2 warnings",
    ]


# ── for real ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def stand_ins(tmp_path: Path) -> StandIns:
    return StandIns(tmp_path / "bin")


def test_a_run_that_was_killed_is_found_and_nothing_is_touched(
    project: Project, stand_ins: StandIns
):
    project.loop(
        "slow",
        "name: slow\ninitial: s\nstates: {s: {action: sleep 60, next: e}, e: {terminal: true}}\n",
    )
    with project.started("run", "slow") as child:
        until(lambda: project.has_event("slow", "action_start"), "action")
        until(project.running("slow", ".state.json").exists, "snapshot")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    before = tree(project.root)
    done = project.ll("doctor", "-q", env=stand_ins.environ)
    assert (done.returncode, done.stdout.splitlines()) == (
        1,
        [
            f"✗ slow (pid {child.pid}) is marked as running, but its process no longer exists",
            "    fix: ll-loop resume slow    or    ll-loop run slow --fresh",
            "1 problem",
        ],
    )
    assert tree(project.root) == before


def test_a_run_that_is_alive_is_well(project: Project, stand_ins: StandIns):
    project.loop(
        "slow",
        "name: slow\ninitial: s\nstates: {s: {action: sleep 60, next: e}, e: {terminal: true}}\n",
    )
    with project.started("run", "slow"):
        until(lambda: project.has_event("slow", "action_start"), "action")
        done = project.ll("doctor", env=stand_ins.environ)
    assert (done.returncode, "✓ runs: 1 running" in done.stdout) == (0, True)


def test_a_damaged_run_and_a_file_nobody_holds(project: Project, stand_ins: StandIns):
    running = project.root / ".loops" / ".running"
    running.mkdir(mode=0o700)
    (running / "old.pid").write_text("77\n{}\n")
    (running / "odd.state.json").write_text("[")
    done = project.ll("doctor", "--json", env=stand_ins.environ)
    told = json.loads(done.stdout)
    bad = [each for each in told["checks"] if each["level"] in ("warning", "problem")]
    assert (done.returncode, told["schema"], told["problems"], told["warnings"]) == (1, 1, 1, 1)
    assert [(each["id"], each["text"], each["fix"]) for each in bad] == [
        (
            "damaged",
            "run odd is damaged",
            "ll-loop resume odd repairs it if its log is complete; ll-loop run odd --fresh moves it to the history",
        ),
        ("pid", ".loops/.running/old.pid is left over", "rm .loops/.running/old.pid"),
    ]


def test_warnings_alone_are_exit_0(project: Project, stand_ins: StandIns):
    project.loop("bad", BAD_LOOP)
    done = project.ll("doctor", "-q", env=stand_ins.environ)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 warning")
    assert project.ll("doctor", "-qq", env=stand_ins.environ).stdout == ""


def test_an_agent_is_started_for_its_version_and_nothing_else(
    project: Project, stand_ins: StandIns
):
    stand_ins.tool("claude", "echo '2.1.303 (Claude Code)'")
    project.loop("asks", AGENT_LOOP)
    env = {**stand_ins.environ, "IS_SANDBOX": "1"}
    done = project.ll("doctor", env=env)
    assert (done.returncode, "✓ claude 2.1.303 on PATH" in done.stdout) == (0, True)
    assert stand_ins.calls("claude") == ["--version"]


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        pytest.param("echo 1.2", (0, "1.2\n"), id="a version"),
        pytest.param("exit 3", (3, ""), id="a failure"),
        pytest.param("sleep 60 & sleep 60", (TIMED_OUT, ""), id="no answer"),
    ],
)
def test_a_program_is_asked_for_its_version(stand_ins: StandIns, script, answer):
    stand_ins.add("it", script)
    within_s = 0.2 if answer[0] == TIMED_OUT else 30.0
    assert version_of([str(stand_ins.bin / "it")], within_s) == answer


def test_a_program_that_cannot_be_started(tmp_path: Path):
    assert version_of([str(tmp_path)]) == (126, "")
