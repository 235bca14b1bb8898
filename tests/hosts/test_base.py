from __future__ import annotations

import signal
from typing import get_args

import pytest

from little_loops import hosts
from little_loops.errors import UsageError
from little_loops.fsm.schema import HostOptions
from little_loops.hosts.base import (
    HOST_NAMES,
    SESSION_VARIABLES,
    TRANSITIONS,
    Kind,
    Launch,
    Outcome,
    Probe,
    Tokens,
    agent_result_of,
    argv_with_files,
    ask_version,
    check_options,
    environment,
    file_place,
    host_named,
)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_where_an_ending_leads(kind):
    assert agent_result_of(Outcome(kind, "why")) == TRANSITIONS[kind]


def test_every_kind_leads_somewhere():
    assert set(TRANSITIONS) == set(get_args(Kind))


def test_an_outer_session_is_left_out_of_the_environment():
    launch = Launch(("x",), {"A": "ours"}, b"", None, env_unless_set={"B": "ours", "C": "ours"})
    outer = dict.fromkeys(SESSION_VARIABLES, "outer")
    login = {"CLAUDE_CODE_OAUTH_TOKEN": "t", "CLAUDE_CONFIG_DIR": "d"}
    inherited = {**outer, **login, "A": "theirs", "B": "theirs"}
    assert environment(launch, inherited) == {**login, "A": "ours", "B": "theirs", "C": "ours"}


def test_files_are_named_where_they_lie():
    argv = ("x", "--schema", file_place("a.json"), "see {file:a.json}", file_place("other"))
    launch = Launch(argv, {}, b"", None, files={"a.json": "{}"})
    named = ("x", "--schema", "/run/a.json", "see {file:a.json}", "{file:other}")
    assert argv_with_files(launch, "/run") == named


@pytest.mark.parametrize("name", HOST_NAMES)
def test_hosts_have_names(name):
    assert host_named(name).name == name
    assert host_named(name).has_slash == (name == "claude")


def test_what_hosts_report_of_what_they_spend():
    assert {name: host_named(name).counts for name in HOST_NAMES} == {
        "claude": ("max_cost_usd", "max_tokens"),
        "codex": ("max_tokens",),
        "command": (),
    }


def test_an_unknown_host():
    with pytest.raises(UsageError) as caught:
        host_named("gemini")
    assert (caught.value.message, caught.value.help) == (
        "unknown host `gemini`",
        "known hosts: `claude`, `codex`, `command`",
    )
    assert check_options(HostOptions(name="gemini")) == [
        "unknown host `gemini`; known hosts: `claude`, `codex`, `command`"
    ]


def test_options_are_checked_by_the_host_they_name():
    assert check_options(HostOptions()) == []
    assert check_options(HostOptions(name="codex", max_turns=3)) == ["`codex` has no `max_turns`"]


@pytest.mark.parametrize("name", HOST_NAMES)
def test_an_agent_is_stopped_gently_first(name):
    plan = ((signal.SIGINT, 5.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 0.0))
    assert host_named(name).stop_plan(5.0) == plan


@pytest.mark.parametrize(
    ("path", "answer", "probe"),
    [
        pytest.param(
            None, (0, ""), Probe(None, None, False, "`x` is not on PATH; get it"), id="absent"
        ),
        pytest.param("/bin/x", (0, "2.1.197 (X)\n"), Probe("/bin/x", "2.1.197", True), id="there"),
        pytest.param("/bin/x", (0, "x-cli 0.1\n"), Probe("/bin/x", "0.1", True), id="name first"),
        pytest.param(
            "/bin/x",
            (1, "2.0"),
            Probe("/bin/x", None, False, "`x --version` exited with code 1"),
            id="broken",
        ),
        pytest.param(
            "/bin/x",
            (0, "hello\n"),
            Probe("/bin/x", None, False, "`x --version` printed no version"),
            id="another program",
        ),
    ],
)
def test_probe(path, answer, probe):
    asked = []

    def run(argv):
        asked.append(argv)
        return answer

    assert ask_version("x", "get it", {"x": path}.get, run) == probe
    assert asked == ([["/bin/x", "--version"]] if path else [])


def test_tokens_add_up():
    assert Tokens(1, 20, 300, 4000).total == 4321


def test_names_are_found_late():
    assert hosts.host_named is host_named
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = hosts.nothing
