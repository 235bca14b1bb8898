"""What `run` and `resume` can be given for one run: agent, model, money; and what an unfinished run asks."""

from __future__ import annotations

import json
from textwrap import dedent

import pexpect
import pytest

from tests.engine.test_bounded_agents import result, says, stage, started
from tests.project import Project

PAID = says(result(total_cost_usd=0.25, usage={"input_tokens": 100, "output_tokens": 0}))


def paid_twice(project: Project) -> dict[str, str]:
    """A loop of two turns; each costs $0.25 and 100 tokens."""
    env = stage(project, [PAID])
    project.loop(
        "port",
        """\
        name: port
        initial: work
        host: {permission_mode: plan}
        max_cost_usd: 5
        states:
          work: {action: "/port it", next: again}
          again: {action: "/port it", next: done}
          done: {terminal: true}
        """,
    )
    return env


# ── limits ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "higher", "reason", "hint"),
    [
        pytest.param(
            *(("--max-cost", "0.2"), ("--max-cost", "$1"), "max_cost"),
            "next: ll-loop resume port --max-cost USD",
            id="cost",
        ),
        pytest.param(
            *(("--max-tokens", "50"), ("--max-tokens", "500"), "max_tokens"),
            "next: ll-loop resume port --max-tokens N",
            id="tokens",
        ),
    ],
)
def test_what_agents_may_use_is_given_for_a_run_and_raised_by_resume(
    project: Project, given, higher, reason, hint
):
    env = paid_twice(project)
    limited = project.ll("run", "port", *given, env=env)
    assert (limited.returncode, started(project)["turn"]) == (3, 1)
    assert limited.stderr.splitlines()[-1] == hint
    assert project.events("port")[-1]["reason"] == reason
    assert project.ll("resume", "port", env=env).returncode == 3, "the limit holds for the run"
    assert project.ll("resume", "port", *higher, env=env).returncode == 0
    assert started(project)["turn"] == 2


@pytest.mark.parametrize("verb", ["run", "resume"])
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--max-cost", "much"), "'much' is not an amount in US dollars (for example, 5 or 0.50)"),
        (("--max-cost", "0"), "must be more than 0, and at most 1,000,000"),
        (("--max-cost", "nan"), "must be more than 0, and at most 1,000,000"),
        (("--max-tokens", "0"), "must be at least 1"),
    ],
)
def test_a_limit_that_is_none(project: Project, verb, words, error):
    said = project.ll(verb, "port", *words)
    assert said.returncode == 2
    assert said.stderr == (
        f"error: argument {words[0]}: {error}\n   = help: see `ll-loop {verb} --help`\n"
    )


# ── context ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("context", "help"),
    [
        pytest.param("{}", "the loop has no context variables", id="none"),
        pytest.param("{word: a}", "known: `word`", id="another"),
    ],
)
def test_a_context_variable_that_the_loop_does_not_have(project: Project, context, help):
    project.loop(
        "say",
        f"initial: a\ncontext: {context}\nstates:\n  a: {{action: 'true', next: b}}\n  b: {{terminal: true}}\n",
    )
    refused = project.ll("run", "say", "--context", "foo=1")
    assert (refused.returncode, refused.stdout, refused.stderr) == (
        2,
        "",
        f"error: the loop has no context variable `foo`\n   = help: {help}\n",
    )


# ── agents ─────────────────────────────────────────────────────────────────────────────────────

PROMPT = """\
name: ask
initial: work
host: {model: small, permission_mode: plan, allow: [Bash]}
states:
  work: {action: Do it, action_type: prompt, next: done}
  done: {terminal: true}
"""


def planned(project: Project, *words: str) -> str:
    said = project.ll("run", "ask", "--dry-run", *words, env={"PATH": "/nowhere"})
    assert said.returncode == 0, said.stderr
    return said.stdout


def test_another_agent_and_model_for_one_run(project: Project):
    project.loop("ask", PROMPT)
    assert "claude not found on PATH · permissions: plan" in planned(project)
    assert "codex not found on PATH" in planned(project, "--host", "codex")
    run = json.loads(planned(project, "--max-cost", "2", "--max-tokens", "10", "--json"))
    assert (run["limits"]["max_cost_usd"], run["limits"]["max_tokens"]) == (2, 10)


def test_the_run_keeps_the_model_it_was_given(project: Project):
    env = stage(project, [says(result(subtype="error_during_execution", is_error=True)), PAID])
    program = project.home / "bin" / "claude"
    program.write_text(
        program.read_text().replace(
            "prompt=$(cat)", f'echo "$*" >> {project.home}/argv; cat > /dev/null'
        )
    )
    project.loop("ask", PROMPT)
    assert project.ll("run", "ask", "--model", "large", env=env).returncode == 1
    resumed = project.ll("resume", "ask", env=env)
    assert resumed.returncode == 0, resumed.stderr
    calls = (project.home / "argv").read_text().splitlines()
    assert ["--model large" in call or "--model=large" in call for call in calls] == [True, True]
    assert all("Bash" in call for call in calls), "the same agent keeps its other options"


ABOVE = """\
name: above
initial: start
states:
  start: {loop: ask, next: done}
  done: {terminal: true}
"""


@pytest.mark.parametrize(
    ("name", "error"),
    [
        pytest.param("gpt", "invalid choice: 'gpt' (choose from", id="unknown"),
        pytest.param("codex", "no slash commands", id="cannot do what the loop asks"),
    ],
)
def test_an_agent_that_will_not_do(project: Project, name, error):
    project.loop("ask", PROMPT.replace("Do it, action_type: prompt", "/port it"))
    project.loop("above", ABOVE)
    for loop in ("ask", "above"):
        said = project.ll("run", loop, "--host", name)
        assert said.returncode == 2
        assert error in said.stderr


# ── an unfinished run ──────────────────────────────────────────────────────────────────────────

GATE = """\
name: gate
initial: work
states:
  work: {action: echo worked >> trace, next: ask}
  ask: {terminal: true, outcome: review, next: more}
  more: {action: echo more >> trace, next: done}
  done: {terminal: true}
"""
QUESTION = """\
`gate` has an unfinished run: needs review in state `ask`
Resume it? [Y/n/fresh] """


def answered(project: Project, answer: str, *words: str) -> pexpect.spawn[str]:
    argv = project.argv("run", "gate", *words)
    child = pexpect.spawn(
        *(argv[0], argv[1:]),
        cwd=str(project.root),
        env=project.environ(COLUMNS="200"),
        encoding="utf-8",
        timeout=30,
        echo=False,
    )
    child.expect_exact("[Y/n/fresh] ")
    assert f"{child.before}{child.after}".replace("\r\n", "\n") == QUESTION
    child.send(answer)
    child.expect(pexpect.EOF)
    child.close()
    return child


@pytest.fixture
def gate(project: Project) -> Project:
    project.loop("gate", GATE)
    assert project.ll("run", "gate").returncode == 4
    return project


@pytest.mark.parametrize(
    ("answer", "code", "trace"),
    [
        pytest.param("\n", 0, "worked more", id="Enter"),
        pytest.param("y\n", 0, "worked more", id="yes"),
        pytest.param("fresh\n", 4, "worked worked", id="fresh"),
        pytest.param("n\n", 2, "worked", id="no"),
        pytest.param("what?\n", 2, "worked", id="anything else"),
        pytest.param("\x04", 2, "worked", id="no answer"),
    ],
)
def test_a_person_is_asked_about_an_unfinished_run(gate: Project, answer, code, trace):
    child = answered(gate, answer)
    assert (child.exitstatus, gate.file("trace").split()) == (code, trace.split()), child.before


def test_a_resumed_run_keeps_its_agent(gate: Project):
    child = answered(gate, "y\n", "--host", "codex")
    assert child.exitstatus == 2
    assert str(child.before).replace("\r\n", "\n") == dedent("""\
        error: a resumed run keeps its agent, scope and worktree; you passed --host
           = help: leave them out, or start again with `ll-loop run gate --fresh`
        """)


def test_without_a_terminal_nobody_is_asked(gate: Project):
    said = gate.ll("run", "gate")
    assert said.returncode == 2
    assert said.stderr == (
        "error: `gate` has an unfinished run: needs review in state `ask`\n"
        "   = help: `ll-loop resume gate` continues it; `ll-loop run gate --fresh` starts a new run\n"
    )
