"""An action as a type, and its words in files, events and on screens."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from little_loops.engine import local_world, runner_world
from little_loops.fsm.actions import (
    Action,
    Agent,
    Builtin,
    Loop,
    Shell,
    action_of_event,
    is_agents,
    is_shells,
    parse_action,
    prompt_sign,
    text_of,
    type_of,
)
from little_loops.fsm.commands import Command, Finish, RunBuiltin
from little_loops.fsm.next_action import action_due
from little_loops.fsm.schema import ActionType, FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.fsm.timestamps import Moment
from tests.fsm import scripted


@pytest.mark.parametrize(
    ("action", "word", "text", "sign", "who"),
    [
        pytest.param(Shell("make"), "shell", "make", "$ ", "script", id="shell"),
        pytest.param(Agent("/fix", True), "slash", "/fix", "codex: ", "agent", id="slash"),
        pytest.param(Agent("Fix it", False), "prompt", "Fix it", "codex: ", "agent", id="prompt"),
        pytest.param(Loop("fix-types"), "loop", "fix-types", "loop ", "us", id="loop"),
        pytest.param(Builtin("relay.settle"), "builtin", "relay.settle", "", "us", id="builtin"),
    ],
)
def test_each_action(action: Action, word: ActionType, text: str, sign: str, who: str):
    assert (type_of(action), text_of(action), prompt_sign(action, "codex")) == (word, text, sign)
    assert (is_shells(action), is_agents(action)) == (who == "script", who == "agent")
    read = parse_action(text, word)
    assert (read, type(read)) == (action, type(action))
    assert action_of_event(text, word) == action


def test_every_word_is_some_actions():
    words: tuple[ActionType, ...] = get_args(ActionType)
    assert [type_of(parse_action("x", word)) for word in words] == list(words)


def test_a_type_of_a_newer_version_is_shown_as_a_command():
    assert action_of_event("x", "dance") == Shell("x")


@pytest.mark.parametrize("world", [local_world, runner_world, scripted], ids=lambda it: it.__name__)
def test_every_world_carries_out_every_command(world: Any):
    """`drive` itself ends with the last of them."""
    assert set(world.PERFORM) == set(get_args(Command)) - {Finish}


def test_a_built_in_action_has_a_command_of_its_own():
    states = {
        "a": {"action": "relay.prepare", "action_type": "builtin", "next": "b"},
        "b": {"terminal": True},
    }
    loop = FSMLoop.from_dict({"name": "l", "initial": "a", "paradigm": "relay", "states": states})
    run = LoopState("r", "l", "a", "", "")
    due = action_due(loop, run, Moment(0, 0))
    assert isinstance(due.command, RunBuiltin)
    assert due.command.name == "relay.prepare"
