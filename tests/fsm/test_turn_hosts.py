"""Which agents may have a turn, which one has it, and what they are called."""

from __future__ import annotations

import pytest

from little_loops.fsm.schema import HostOptions
from little_loops.fsm.state import Hosts, LoopState
from little_loops.fsm.turn_hosts import host_of, hosts_of, name_of
from tests.fsm.test_fallbacks import loop_of


@pytest.mark.parametrize(
    ("fields", "state", "names"),
    [
        pytest.param({}, {}, ["claude", "codex"], id="of the loop"),
        pytest.param({}, {"fallback": []}, ["claude"], id="none in this state"),
        pytest.param(
            {}, {"fallback": [{"model": "haiku"}]}, ["claude", "claude haiku"], id="its own"
        ),
        pytest.param({}, {"host": {"name": "codex"}}, ["codex"], id="one of them twice"),
        pytest.param({"fallback": []}, {}, ["claude"], id="none at all"),
        pytest.param(
            {"fallback": [{"name": "command", "command": ["my-agent", "{prompt}"]}]},
            {},
            ["claude", "command my-agent"],
            id="a program of your own",
        ),
        pytest.param(
            {"fallback": [{"env": {"CLAUDE_CONFIG_DIR": "/b"}}]},
            {},
            ["claude", "claude env 1019dba4"],
            id="another account",
        ),
    ],
)
def test_the_agents_of_a_state(fields, state, names):
    loop = loop_of(**fields)
    read = loop_of(states={"fix": {"action": "x", **state}}).states["fix"]
    assert [name_of(each) for each in hosts_of(loop, read)] == names


def test_an_agent_of_another_program_takes_over_the_permission_mode_only():
    first = {"name": "claude", "permission_mode": "plan", "max_turns": 3}
    loop = loop_of(host=first, fallback=[{"name": "codex"}, {"model": "haiku"}])
    _, codex, haiku = hosts_of(loop, loop.states["fix"])
    assert codex == HostOptions("codex", permission_mode="plan")
    assert haiku == HostOptions("claude", "haiku", "plan", max_turns=3)
    own = loop_of(host=first, fallback=[{"name": "codex", "permission_mode": "acceptEdits"}])
    assert hosts_of(own, None)[1].permission_mode == "acceptEdits"


def test_a_choice_for_another_state_does_not_count_here():
    loop = loop_of()
    run = LoopState(run="r", loop="l", current_state="fix", started_at="", updated_at="")
    chosen = Hosts("fix", 1, 1, 1)
    assert name_of(host_of(loop, run._replace(hosts=chosen))) == "codex"
    assert name_of(host_of(loop, run._replace(hosts=chosen._replace(state="check")))) == "claude"


def test_variables_that_are_not_utf8_have_a_name_too():
    one, other = (HostOptions("claude", env={"HOME": text}) for text in ("/\udce4", "/\udcf6"))
    assert name_of(one) != name_of(other)
