"""A goal loop from the command line: its name, its fix, the document it stands for, its bound."""

from __future__ import annotations

import pytest

from little_loops.authoring.dump import dump_document
from little_loops.authoring.load import load, load_data
from little_loops.authoring.until import (
    UntilCommand,
    UntilLimits,
    bound,
    document,
    fix_of,
    proposal,
    run_name_of,
    same_command,
)
from little_loops.fsm.schema import FSMLoop

ALL = ("max_cost_usd", "max_tokens")


@pytest.mark.parametrize(
    ("check", "name"),
    [
        ("pytest -q", "until-pytest-q"),
        ("cargo test --workspace --all-features", "until-cargo-test-workspace-all"),
        (".venv/bin/python -m pytest -q", "until-python-m-pytest-q"),
        ("CI=1 PYTHONPATH=src npm test", "until-npm-test"),
        ("Make Test", "until-make-test"),
        ("./check.sh", "until-check-sh"),
        ("[ -e x ]", "until-e-x"),
        ("!", "until-check"),
        ("A=1", "until-check"),
        ("x" * 99, "until-" + "x" * 54),
        (f"{'x' * 53} y", "until-" + "x" * 53),
    ],
)
def test_a_run_is_named_after_the_first_words_of_its_check(check: str, name: str) -> None:
    assert run_name_of(check) == name


@pytest.mark.parametrize(
    ("text", "check", "fix"),
    [
        pytest.param(
            "Fix it.",
            "pytest -q",
            {
                "action": "Fix it.",
                "action_type": "prompt",
                "context": {"check": "pytest -q", "check_output": "${prev.log_file}"},
            },
            id="a prompt, with what the agent has not seen",
        ),
        pytest.param(
            "Fix it.",
            "test ${loop.iteration} = 3",
            {
                "action": "Fix it.",
                "action_type": "prompt",
                "context": {"check_output": "${prev.log_file}"},
            },
            id="a check that would be filled in for the agent, too",
        ),
        pytest.param("/ll:check_code fix", "x", "/ll:check_code fix", id="a slash command"),
        pytest.param(
            "$ ruff --fix", "x", {"action": "ruff --fix", "action_type": "shell"}, id="a command"
        ),
        pytest.param(
            "$ /fix it",
            "x",
            {"action": "/fix it", "action_type": "shell"},
            id="not a slash command",
        ),
    ],
)
def test_the_text_decides_what_a_fix_is(text: str, check: str, fix: object) -> None:
    assert fix_of(text, check) == fix


FULL = UntilCommand(
    "pytest -q", "Fix it.", "codex", "best", ("tests/",), ("src",), "acceptEdits", ("Read",)
)


@pytest.mark.parametrize(("seconds", "text"), [(61, "61s"), (60, "1m"), (0.5, 0.5), (61.5, 61.5)])
def test_a_time_is_written_with_its_unit_if_it_is_whole(seconds: float, text: object) -> None:
    assert document("a", UntilCommand("make", "$ fix"), UntilLimits(3, seconds))["timeout"] == text


def test_a_document_has_only_what_was_given() -> None:
    assert document("a", UntilCommand("make", "$ fix"), UntilLimits()) == {
        "name": "a",
        "check": "make",
        "fix": {"action": "fix", "action_type": "shell"},
    }
    whole = document("a", FULL, UntilLimits(3, 5400, 0.5), clean=True)
    assert {key: value for key, value in whole.items() if key not in ("name", "check", "fix")} == {
        "max_iterations": 3,
        "timeout": "90m",
        "max_cost_usd": 0.5,
        "host": {
            "name": "codex",
            "model": "best",
            "permission_mode": "acceptEdits",
            "allow": ["Read"],
        },
        "scope": ["src"],
        "evidence": {"protect": ["tests/"], "clean": True},
    }


@pytest.mark.parametrize(
    ("command", "limits"),
    [
        (FULL, UntilLimits(3, 0.5, 5)),
        (UntilCommand("make", "/fix it"), UntilLimits()),
        (UntilCommand("echo \"'\n#", "a: b\n  c"), UntilLimits(10, 7200)),
    ],
)
def test_written_to_a_file_it_is_the_same_loop(command: UntilCommand, limits: UntilLimits) -> None:
    data = document("a", command, limits)
    read = load(dump_document(data), "a.yaml", "a")
    assert (read.loop, read.problems) == (load_data(data, "a").loop, ())


@pytest.mark.parametrize(
    ("limits", "counts", "agent", "words"),
    [
        ({}, ALL, "claude", "at most 10 iterations, 2 h, $5"),
        ({}, ("max_tokens",), "codex", "at most 10 iterations, 2 h; cost unknown for codex"),
        ({}, (), None, "at most 10 iterations, 2 h"),
        (
            {"max_iterations": 1, "timeout": 90.0, "max_cost_usd": 0.5},
            ALL,
            "claude",
            "at most 1 iteration, 90 s, $0.5",
        ),
        (
            {"max_tokens": 20_000, "timeout": None},
            ("max_tokens",),
            "codex",
            "at most 10 iterations, 20,000 tokens; cost unknown for codex",
        ),
        ({"timeout": 600.0, "max_cost_usd": None}, ALL, "claude", "at most 10 iterations, 10 min"),
    ],
)
def test_the_bound_names_only_limits_that_hold(
    limits: dict[str, object], counts: tuple[str, ...], agent: str | None, words: str
) -> None:
    loop = load_data(document("a", UntilCommand("x", "y"), UntilLimits(10, 7200, 5)), "a").loop
    assert isinstance(loop, FSMLoop)
    assert bound(loop._replace(**limits), counts, agent) == words  # type: ignore[arg-type]


def test_a_proposal_says_what_happens_to_tests() -> None:
    assert proposal(("tests/", "conftest.py")) == (
        "This project's check fails.\n"
        "Find the cause and fix the code. Changes in tests/ and conftest.py will be reverted. "
        "The check will be run again when you finish."
    )
    assert "Never delete or skip a test" in proposal(())


def test_limits_are_no_part_of_a_command() -> None:
    assert same_command(FULL.to_dict(), FULL)
    assert not same_command(FULL.to_dict(), FULL._replace(fix="Fix it!"))
    assert not same_command(FULL.to_dict(), FULL._replace(permission_mode=None))


def test_a_run_from_before_there_were_permission_modes_is_the_same_command() -> None:
    kept = FULL.to_dict()
    del kept["permission_mode"], kept["allow"]
    assert same_command(kept, FULL._replace(permission_mode=None, allow=()))
    assert not same_command(kept, FULL)
