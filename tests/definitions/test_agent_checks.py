"""What is said about agents and their hosts: the option that is wrong, not the host around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from little_loops.authoring.load import load
from little_loops.definitions.agent_checks import agent_problems

LOOP = """\
{loop}
initial: ask
states:
  ask: {{action: Is it good, action_type: prompt, {state}next: done}}
  done: {{terminal: true}}
"""
OWN = '{name: command, command: [my-agent, "{prompt}"]'
NO_TURNS = "`host: command` does not support `max_turns`; pass the option in `command` instead"
NO_COST = "`max_cost_usd` cannot limit host `command`, which does not report cost"


def row(name: str, loop: str, state: str, *told: str):
    return pytest.param(loop, state, list(told), id=name)


@pytest.mark.parametrize(
    ("loop", "state", "told"),
    [
        row("of the loop", f"host: {OWN}, max_turns: 3}}", "", f"LL230 1 max_turns: {NO_TURNS}"),
        row("of the state", "", f"host: {OWN}, max_turns: 3}}, ", f"LL230 4 max_turns: {NO_TURNS}"),
        row("of the loop, for a state", "host: {max_turns: 3}", f"host: {OWN}}}, ",
            f"LL230 1 max_turns: {NO_TURNS}"),
        row("none that is written", "host: {name: command}", "",
            "LL230 1 {name: command}: `host: command` needs a `command` that contains `{prompt}`"),
        row("a value", "host: {permission_mode: mild}", "",
            "LL230 1 {permission_mode: mild}: `claude` has no permission mode `mild`; known: `a"),
        row("cost nobody reports", f"max_cost_usd: 5\nhost: {OWN}}}", "", f"LL233 1 5: {NO_COST}"),
        row("tokens nobody reports", f"max_tokens: 5\nhost: {OWN}}}", "",
            "LL233 1 5: `max_tokens` cannot limit host `command`, which does not report tokens"),
        row("cost of codex", "host: codex\nmax_tokens: 7\nmax_cost_usd: 5", "",
            "LL233 3 5: `max_cost_usd` cannot limit host `codex`, which does not report cost"),
        row("a fallback", "host: {max_turns: 3}\nfallback: [{name: codex, max_turns: 3}]", "",
            "LL230 2 max_turns: `codex` has no `max_turns`"),
        row("a fallback of the state", "fallback: [codex]", f"fallback: [{OWN}, model: x}}], ",
            "LL230 4 model: `host: command` does not support `model`"),
        row("a mode that another agent does not have", "host: {permission_mode: plan}",
            f"fallback: [codex, {OWN}}}], ",
            "LL230 4 command: `host: command` does not support `permission_mode`"),
        row("a wait of its own", "fallback: [{name: codex, max_wait: 1h}]", "",
            "LL230 1 max_wait: `max_wait` has no effect in `fallback`"),
        row("a cost limit that holds for one of two", "max_cost_usd: 5\nfallback: [codex]", "",
            "LL233 1 5: `max_cost_usd` cannot limit host `codex`"),
        row("what claude reports", "max_tokens: 7\nmax_cost_usd: 5", ""),
    ],
)  # fmt: skip
def test_the_place_is_what_is_wrong(tmp_path: Path, loop: str, state: str, told: list[str]) -> None:
    definition = load(LOOP.format(loop=loop, state=state), "a.yaml", "a")
    assert definition.problems == ()
    found = []
    for problem in agent_problems(definition, str(tmp_path)):
        place = problem.place
        assert place is not None
        marked = place.source[place.column - 1 :][: place.length]
        found.append(f"{problem.code} {place.line} {marked}: {problem.message}")
    assert [one[: len(words)] for one, words in zip(found, told, strict=True)] == told


def test_no_agent_of_several_may_lack_slash_commands(tmp_path: Path) -> None:
    text = LOOP.format(loop="fallback: [codex]", state="")
    text = text.replace("action: Is it good, action_type: prompt", "action: /review")
    definition = load(text, "a.yaml", "a")
    assert [problem.message for problem in agent_problems(definition, str(tmp_path))] == [
        "host `codex` has no slash commands"
    ]
