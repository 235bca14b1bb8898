"""Commands that take the path of a run that another run started, with real processes and agents."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from tests.project import Project, until

GO = "touch started; until [ -e go ]; do sleep 0.01; done"
HOST = 'host: {name: command, command: [sh, ../agent, "{prompt}"]}'
AGENT = 'printf "%s\\036" "$1" >> ../prompts; echo done\n'
INNER = f"""\
initial: check
evidence: false
{HOST}
states:
  check: {{action: "{GO}; false", on_pass: done, on_fail: fix}}
  fix: {{action: Fix it., action_type: prompt, next: done}}
  done: {{terminal: true}}
"""
MIDDLE = "initial: in\nstates:\n  in: {loop: inner, on_pass: done, on_fail: bad}\n"
ENDS = "  done: {terminal: true}\n  bad: {terminal: true, outcome: failure}\n"
OUTER = "initial: kid\nstates:\n  kid: {loop: middle, on_pass: done, on_fail: bad}\n"


def three_levels(project: Project, inner: str = INNER) -> None:
    project.loop("inner", inner)
    project.loop("middle", MIDDLE + ENDS)
    project.loop("outer", OUTER + ENDS)
    (project.root.parent / "agent").write_text(AGENT)


def begin(project: Project) -> None:
    begun = project.ll("run", "outer", "--background", "--allow-skip-permissions")
    assert begun.returncode == 0, begun.stderr
    until((project.root / "started").exists, "action of the innermost run")


def prompts(project: Project) -> list[str]:
    return (project.root.parent / "prompts").read_text().split("\036")[:-1]


def test_a_note_reaches_the_agent_of_an_inner_run(project: Project):
    three_levels(project)
    begin(project)
    told = project.ll("tell", "outer/kid/in", "be brief")
    assert (told.returncode, told.stdout, told.stderr) == (
        0,
        "outer/kid/in: the next agent turn will receive this note\n",
        "",
    )
    (project.root / "go").touch()
    assert project.ll("wait", "outer").returncode == 0
    assert prompts(project) == ["Fix it.\n\nbe brief"]


def test_an_inner_run_is_watched_to_its_end(project: Project):
    three_levels(project)
    begin(project)
    with project.started("attach", "outer/kid/in") as watching:
        assert watching.stdout is not None
        first = watching.stdout.readline()
        assert first.startswith("[1/50] check → running touch started;")
        (project.root / "go").touch()
        rest = watching.stdout.read()
        assert watching.wait(60) == 0
    assert re.sub(r"\d\.\ds", "T", rest) == (
        "       ✗ (exit 1)\n"
        "       → fix (on_fail)\n"
        '[1/50] fix → running "Fix it."...\n'
        "       ✓ done\n"
        "       → done\n"
        "\n"
        "Loop completed: done (1 iteration, T)\n"
        "Not verified: evidence is off\n"
    )
    assert project.ll("wait", "outer").returncode == 0


@pytest.mark.parametrize(
    ("path", "stopped_in"),
    [
        pytest.param("outer/kid/in", "outer/kid", id="the innermost"),
        pytest.param("outer/kid", "outer", id="the one in between"),
    ],
)
def test_stopping_an_inner_run_is_a_failure_of_its_state(
    project: Project, path: str, stopped_in: str
):
    three_levels(project)
    begin(project)
    said = project.ll("stop", path)
    assert (said.returncode, said.stderr) == (0, "")
    assert re.sub(r"pid \d+|\d\.\ds", "N", said.stdout) == (
        f"{path}: asked to stop (N), action ended, state saved   N\n"
    )
    assert project.ll("wait", "outer").returncode == 1
    log = project.ll("logs", stopped_in, "--json").stdout.splitlines()
    ends = [each for each in map(json.loads, log) if each["event"] == "child_end"]
    assert [(each["stage"], each["reason"]) for each in ends] == [("fail", "stopped")]


GATED = """\
initial: ask
states:
  ask: {terminal: true, outcome: review, next: after, on_rejected: bad}
  after: {action: "echo ${loop.answer} >> trace", next: done}
  done: {terminal: true}
  bad: {terminal: true, outcome: failure}
"""


@pytest.mark.parametrize(
    ("answer", "exit_code", "wrote"),
    [
        pytest.param(("approve", "outer/kid/in", "-m", "yes"), 0, "yes\n", id="approve"),
        pytest.param(("reject", "outer/kid/in", "-m", "no"), 1, "", id="reject"),
        pytest.param(("approve", "outer/kid", "-m", "yes"), 0, "yes\n", id="the only gate below"),
    ],
)
def test_a_gate_two_levels_down(project: Project, answer: Any, exit_code: int, wrote: str):
    three_levels(project, GATED)
    assert project.ll("run", "outer").returncode == 4
    said = project.ll(*answer)
    assert said.returncode == exit_code, said.stderr
    assert project.file("trace") == wrote


@pytest.mark.parametrize("verb", ["tell", "approve", "stop", "attach", "logs", "status", "steps"])
def test_a_path_that_does_not_exist_is_an_error_in_words(project: Project, verb: str):
    three_levels(project, GATED)
    assert project.ll("run", "outer").returncode == 4
    said = project.ll(verb, "outer/kid/nope", *(["hello"] if verb == "tell" else []))
    assert said.returncode == 2
    assert said.stderr.startswith("error: ")
    assert "outer/kid/nope" in said.stderr
    assert "Traceback" not in said.stderr


# ── agents that do what they should not ────────────────────────────────────────────────────────

CHEAT_THEN_FIX = """\
case $(cat ../turns 2>/dev/null) in
"") echo pass > tests/check.py; echo 1 > ../turns ;;
*) echo right > src/value ;;
esac
echo finished
"""
PROVED = f"""\
paradigm: goal
goal: the value is right
tools:
  - {sys.executable} tests/check.py
  - {{action: Fix the value, action_type: prompt}}
{HOST}
max_iterations: 5
evidence: {{clean: true, protect: [tests]}}
"""
TEST = 'assert open("src/value").read() == "right\\n", "the value is wrong"\n'


def test_an_inner_run_keeps_evidence(project: Project):
    """Its agent edits the test first: that is put back, and only the fix counts, in a clean copy."""
    three_levels(project, PROVED)
    for name, text in {"tests/check.py": TEST, "src/value": "wrong\n"}.items():
        path = project.root / name
        path.parent.mkdir()
        path.write_text(text)
    (project.root.parent / "agent").write_text(CHEAT_THEN_FIX)
    project.git("init", "-q")
    project.git("add", ".")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "first")
    said = project.ll("run", "outer", "--allow-skip-permissions")
    assert said.returncode == 0, said.stdout + said.stderr
    assert project.file("tests/check.py") == TEST
    assert project.file("src/value") == "right\n"
    assert "[kid/in] Verified on tree" in said.stdout
    log = project.ll("logs", "outer/kid/in", "--json").stdout.splitlines()
    events = [json.loads(line) for line in log]
    assert [each["paths"] for each in events if each["event"] == "restored"] == [["tests/check.py"]]
    places = [each["place"] for each in events if each["event"] == "recheck"]
    assert "clean" in places


HANDS_OFF = """\
printf "%s\\036" "$1" >> ../prompts
if [ -e ../handed ]; then echo done; else touch ../handed; echo "CONTEXT_HANDOFF: 3 left"; fi
"""
WITH_AGENT = f"""\
initial: fix
evidence: false
{HOST}
states:
  fix: {{action: Fix it., action_type: prompt, next: done}}
  done: {{terminal: true}}
"""


@pytest.mark.parametrize("behaviour", ["pause", "spawn"])
def test_a_handoff_two_levels_down_pauses_all_and_a_resume_continues(
    project: Project, behaviour: str
):
    """`spawn` pauses an inner run, too: only the root starts sessions."""
    three_levels(project, f"on_handoff: {behaviour}\n{WITH_AGENT}")
    (project.root.parent / "agent").write_text(HANDS_OFF)
    said = project.ll("run", "outer", "--allow-skip-permissions")
    assert said.returncode == 4, said.stdout + said.stderr
    assert project.state("outer")["status"] == "awaiting_continuation"
    said = project.ll("resume", "outer", "--allow-skip-permissions")
    assert said.returncode == 0, said.stdout + said.stderr
    first, second = prompts(project)
    assert first == "Fix it."
    assert "its notes are in" in second
    [notes] = project.root.glob(".loops/.history/outer/**/continue.md")
    assert "3 left" in notes.read_text()


def test_a_handoff_that_continues_stays_in_the_inner_run(project: Project):
    three_levels(project, f"on_handoff: continue\n{WITH_AGENT}")
    (project.root.parent / "agent").write_text(HANDS_OFF)
    said = project.ll("run", "outer", "--allow-skip-permissions")
    assert said.returncode == 0, said.stdout + said.stderr
    assert len(prompts(project)) == 2
