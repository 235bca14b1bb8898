"""Texts with the author's values in them: what kind of action they make, and how much is looked at."""

from __future__ import annotations

import pytest

from little_loops.authoring.checks.check import check
from little_loops.authoring.filling import Filling
from little_loops.authoring.yaml.places import Places, Source
from little_loops.fsm.actions import Action, Agent, Builtin, Shell, action_of, is_agents, type_of
from little_loops.fsm.schema import FSMLoop, StateConfig
from little_loops.fsm.values import author_context
from little_loops.templates.render import TemplateError, Unresolved

NOWHERE = Places(Source("", ()), None)
CONTEXT = {"command": "/review", "script": "ls", "word": "all"}


def loop_of(*actions: str, **context: str) -> FSMLoop:
    states = {f"s{number}": StateConfig(action=action) for number, action in enumerate(actions)}
    return FSMLoop("a", "s0", states, context=context)


@pytest.mark.parametrize(
    ("state", "action"),
    [
        (StateConfig(action="pytest"), Shell("pytest")),
        (StateConfig(action="/ll:fix ${context.word}"), Agent("/ll:fix all", is_slash=True)),
        (StateConfig(action="  ${context.command} it"), Agent("  /review it", is_slash=True)),
        (StateConfig(action="${context.script}"), Shell("ls")),
        (
            StateConfig(action="${context.script}", context={"script": "/own"}),
            Agent("/own", is_slash=True),
        ),
        (StateConfig(action="/usr/bin/env"), Shell("/usr/bin/env")),
        (StateConfig(action="${env.COMMAND}"), Shell("${env.COMMAND}")),
        (StateConfig(action="Look", action_type="prompt"), Agent("Look", is_slash=False)),
        (StateConfig(action="relay.report", action_type="builtin"), Builtin("relay.report")),
    ],
)
def test_the_action_is_what_the_machine_will_make_of_it(state: StateConfig, action: Action) -> None:
    filling = Filling(FSMLoop("a", "a", {"a": state, "b": StateConfig()}, context=CONTEXT))
    assert filling.actions == {"a": action}
    assert type(filling.actions["a"]) is type(action)
    assert action_of(state, author_context(CONTEXT, state)) == action
    assert filling.agents == (frozenset({"a"}) if is_agents(action) else frozenset())
    assert type_of(action) in (state.action_type, "shell", "slash")


def test_what_cannot_be_filled_in_stands_as_it_is() -> None:
    filling = Filling(loop_of("${context.no}", "${a.b}", "${context.word}", word="x"))
    assert isinstance(filling.filled("s0", "${context.no}"), Unresolved)
    assert isinstance(filling.filled("s1", "${a.b}"), TemplateError)
    assert filling.as_text("s0", "${context.no}") == "${context.no}"
    assert filling.as_text("s2", "${context.word} ${prev.output}") == "x ${prev.output}"


@pytest.mark.parametrize(
    ("context", "looked_at"),
    [
        pytest.param({"big": "x" * 600_000}, 4, id="long"),
        pytest.param({"big": "${context.b}" * 9, "b": "x" * 200_000}, 2, id="too long"),
    ],
)
def test_so_much_is_looked_at_and_no_more(context: dict[str, str], looked_at: int) -> None:
    texts = [f"{number} ${{context.big}}" for number in range(10)]
    filling = Filling(loop_of("ls", **context))
    found = [filling.filled("s0", text) for text in texts]
    assert [each is not None for each in found] == [number < looked_at for number in range(10)]


@pytest.mark.parametrize(("count", "is_looked_at"), [(25_000, True), (25_001, False)])
def test_so_many_references_are_looked_at(count: int, is_looked_at: bool) -> None:
    filling = Filling(loop_of("ls"))
    assert (filling.filled("s0", "${env.A}" * count) is not None) is is_looked_at
    assert list(filling.unchecked) == ([] if is_looked_at else ["more than 25,000 references"])


@pytest.mark.parametrize(("count", "is_looked_at"), [(25_000, True), (25_001, False)])
def test_so_many_references_may_be_in_variables(count: int, is_looked_at: bool) -> None:
    filling = Filling(loop_of("ls", many="${env.A}" * count, word="x"))
    assert (filling.filled("s0", "${context.word}") is not None) is is_looked_at
    assert filling.filled("s0", "${env.A}") is not None or not is_looked_at


def test_scripts_beyond_a_length_are_left_to_the_run() -> None:
    script = "sh -c ${prev.output} " + "x" * 100_000
    loop = loop_of(script, f"{script}y")
    assert [each.code for each in check(loop, NOWHERE)].count("LL407") == 1
