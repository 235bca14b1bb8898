from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from little_loops.hosts.plugin import is_enabled, plugin_directory, plugin_dirs

ROOT = Path(__file__).parents[2]
OURS = {"id": "ll@little-loops", "version": "1.0.0", "scope": "user", "enabled": True}
PROGRAMS = (f"/bin/claude-{n}" for n in count())


class Cli:
    """A CLI that lists these plugins and counts how often it is asked."""

    def __init__(self, printed: str, exit_code: int = 0) -> None:
        self.program = next(PROGRAMS)  # answers are remembered by program
        self.printed = printed
        self.exit_code = exit_code
        self.asked: list[Sequence[str]] = []

    def __call__(self, argv: Sequence[str]) -> tuple[int, str]:
        self.asked.append(argv)
        return self.exit_code, self.printed


def test_in_the_source_tree_it_lies_beside_the_source():
    assert plugin_directory() == str(ROOT / "plugin")


@pytest.mark.parametrize(
    "action",
    [
        pytest.param("/tidy src", id="another command"),
        pytest.param("/llm:ask", id="a name that only begins alike"),
        pytest.param("/ll", id="no command of it"),
        pytest.param("look at /ll:check_code", id="a prompt that mentions it"),
    ],
)
def test_an_action_of_no_plugin_asks_nobody(action: str):
    cli = Cli("[]")
    assert plugin_dirs(action, cli, cli.program) == ()
    assert cli.asked == []


def test_the_cli_is_asked_once():
    cli = Cli("[]")
    for _ in range(2):
        assert plugin_dirs(" /ll:check_code types", cli, cli.program) == (plugin_directory(),)
    assert cli.asked == [[cli.program, "plugin", "list", "--json"]]


def test_an_installed_plugin_is_left_alone():
    cli = Cli(json.dumps([OURS]))
    assert plugin_dirs("/ll:check_code", cli, cli.program) == ()


def test_a_cli_that_cannot_list_gets_the_directory():
    cli = Cli(json.dumps([OURS]), exit_code=1)
    assert plugin_dirs("/ll:check_code", cli, cli.program) == (plugin_directory(),)


@pytest.mark.parametrize(
    ("printed", "enabled"),
    [
        pytest.param(json.dumps([OURS]), True, id="switched on"),
        pytest.param(json.dumps([{**OURS, "id": "ll@elsewhere"}]), True, id="from elsewhere"),
        pytest.param(json.dumps([{**OURS, "enabled": False}]), False, id="switched off"),
        pytest.param(json.dumps([{**OURS, "enabled": "yes"}]), False, id="no true or false"),
        pytest.param(
            json.dumps([{**OURS, "enabled": False}, OURS]), True, id="on in one of two scopes"
        ),
        pytest.param(json.dumps([{**OURS, "id": "all@little-loops"}]), False, id="another name"),
        pytest.param("[]", False, id="none"),
        pytest.param('[1, null, "ll"]', False, id="not what it should be"),
        pytest.param('{"plugins": []}', False, id="no list"),
        pytest.param("error: unknown option", False, id="no JSON"),
        pytest.param("[" * 100_000, False, id="far too deep"),
    ],
)
def test_what_a_list_says(printed: str, enabled: bool):
    assert is_enabled(printed) is enabled
