"""Paradigm `relay`, as the document it becomes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from little_loops.authoring.fields.reader import Reader
from little_loops.authoring.load import load
from little_loops.authoring.paradigms import native
from little_loops.authoring.paradigms.relay import (
    ABOUT_CHECK,
    CONTRACT,
    FAILED_CHECK,
    HANDED_OVER,
    expand,
)
from little_loops.authoring.yaml.nodes import Map, node_of, plain, walk
from little_loops.authoring.yaml.places import Source
from little_loops.authoring.yaml.source import parse
from little_loops.fsm.actions import BUILTINS, Builtin, parse_action
from little_loops.fsm.schema import FSMLoop, VerdictWords, outcome_of
from little_loops.relay import rules, turns
from little_loops.templates.render import lookup_in, render_text

EXAMPLE = """\
paradigm: relay
name: implement-886
agent: "/ll:implement-turn specs/886/plan.md"
metadata: specs/886/.return-meta.json
plan: specs/886/plan.md
max_iterations: 5
commit: true
session: sess_123_abc
"""

COMPILED = """\
paradigm: relay
name: implement-886
max_iterations: 5
on_handoff: continue
initial: prepare
states:
  prepare:
    action: relay.prepare
    action_type: builtin
    label: the preparation of a turn
    context: &given
      metadata: specs/886/.return-meta.json
      plan: specs/886/plan.md
      session: sess_123_abc
    condition: {type: verdict, words: [ready]}
    on_ready: turn
  turn:
    action: /ll:implement-turn specs/886/plan.md
    next: settle
    on_error: settle
    on_interrupt: settle
    context:
      resume_phase: ${captured.prepare.structured.resume_phase}
      phases_total: ${captured.prepare.structured.phases_total}
      handoff_path: ${captured.prepare.structured.handoff_path}
      iteration: ${captured.prepare.structured.iteration}
      session_id: ${captured.prepare.structured.session_id}
      plan_path: ${captured.prepare.structured.plan_path}
      metadata_path: ${captured.prepare.structured.metadata_path}
      return_metadata: CONTRACT
    env:
      LL_RESUME_PHASE: ${captured.prepare.structured.resume_phase}
      LL_PHASES_TOTAL: ${captured.prepare.structured.phases_total}
      LL_HANDOFF_PATH: ${captured.prepare.structured.handoff_path}
      LL_SESSION_ID: ${captured.prepare.structured.session_id}
      LL_PLAN_PATH: ${captured.prepare.structured.plan_path}
      LL_METADATA_PATH: ${captured.prepare.structured.metadata_path}
  settle:
    action: relay.settle
    action_type: builtin
    label: the evaluation of the turn
    context:
      <<: *given
      started_ns: ${captured.prepare.structured.started_ns:-}
      after: ${prev.state}
      exit: ${prev.exit_code}
      output: ${captured.turn.file:-}
    condition: {type: verdict, words: [implemented, partial, review, blocked, failed, invalid]}
    on_implemented: done
    on_partial: prepare
    on_review: review
    on_blocked: stopped
    on_failed: stopped
    on_invalid: prepare
  done:
    action: relay.report
    action_type: builtin
    label: the relay's report
    terminal: true
    outcome: success
  review:
    action: relay.report
    action_type: builtin
    label: the relay's report
    terminal: true
    outcome: review
    next: prepare
  stopped:
    action: relay.report
    action_type: builtin
    label: the relay's report
    terminal: true
    outcome: failure
"""


def nodes(source: str) -> Map:
    root = parse(source, "relay.yaml").root
    assert isinstance(root, Map)
    return expand(root, "the-stem")


def expanded(source: str) -> Any:
    return plain(nodes(source))


def read(source: str) -> FSMLoop:
    reader = Reader(Source("relay.yaml", tuple(source.splitlines())))
    loop = native.read(nodes(source), reader, "the-stem").loop
    assert reader.problems == []
    assert loop is not None
    return loop


MINIMAL = "{paradigm: relay, agent: ./turn.sh, metadata: meta.json, plan: plan.md}"


def test_the_example_of_the_manual() -> None:
    states = yaml.safe_load(COMPILED)
    states["states"]["turn"]["context"]["return_metadata"] = CONTRACT
    assert expanded(EXAMPLE) == states


def test_it_reads_back_as_a_machine() -> None:
    loop = read(EXAMPLE)
    assert list(loop.states) == ["prepare", "turn", "settle", "done", "review", "stopped"]
    outcomes = {
        name: outcome_of(name, state, None) for name, state in loop.states.items() if state.terminal
    }
    assert outcomes == {"done": "success", "review": "review", "stopped": "failure"}
    settle = loop.states["settle"]
    assert settle.condition == VerdictWords(tuple(settle.on_words))


def test_every_word_of_the_rules_has_a_way() -> None:
    words = read(EXAMPLE).states["settle"].on_words
    assert set(words) == set(rules.Word.__args__)  # type: ignore[attr-defined] # a Literal
    assert read(EXAMPLE).states["prepare"].on_words == {turns.READY: "turn"}


def test_each_built_in_action_is_there_and_used() -> None:
    states = read(EXAMPLE).states.values()
    actions = {parse_action(state.action or "", state.action_type) for state in states}
    used = {action.name for action in actions if isinstance(action, Builtin)}
    assert used == set(BUILTINS) == set(turns.ACTIONS)


def test_an_action_understands_all_it_is_given() -> None:
    task = "task: {id: 886, state: specs/state.json, todo: TODO.md}\n"
    for source in (EXAMPLE, f"{EXAMPLE}check: make test\n{task}"):
        for name in ("prepare", "settle"):
            assert read(source).states[name].context.keys() <= set(turns.Inputs._fields)


def test_what_is_left_out_has_its_default() -> None:
    compiled = expanded(MINIMAL)
    assert (compiled["name"], compiled["max_iterations"]) == ("the-stem", 5)
    prepare = compiled["states"]["prepare"]
    assert prepare["context"] == {"metadata": "meta.json", "plan": "plan.md"}
    assert read(MINIMAL).max_iterations == 5


@pytest.mark.parametrize(
    ("plan", "metadata"),
    [
        pytest.param("plan.md", ".return-meta.json", id="in the project"),
        pytest.param("specs/886/plan.md", "specs/886/.return-meta.json", id="in a directory"),
        pytest.param(
            "specs/$${x}/plan.md", "specs/$$${x}/.return-meta.json", id="as it is written"
        ),
    ],
)
def test_the_metadata_is_left_beside_the_plan(plan: str, metadata: str) -> None:
    states = expanded(f"{{paradigm: relay, agent: ./turn.sh, plan: '{plan}'}}")["states"]
    assert states["prepare"]["context"]["metadata"] == metadata


def test_a_check_stands_between_implemented_and_done() -> None:
    states = expanded(f"{MINIMAL[:-1]}, check: make test}}")["states"]
    assert list(states) == ["prepare", "turn", "settle", "check", "done", "review", "stopped"]
    assert states["check"] == {
        "action": "make test",
        "on_pass": "done",
        "on_fail": "prepare",
        "check": True,
    }
    assert states["settle"]["on_implemented"] == "check"
    assert states["settle"]["context"]["checked"] is True
    assert states["prepare"]["context"]["check_log"] == "${captured.check.log_file:-}"
    told = states["turn"]["context"]
    assert list(told) == [*HANDED_OVER, *FAILED_CHECK, "return_metadata"]
    assert told["return_metadata"] == CONTRACT + ABOUT_CHECK
    at = "${captured.prepare.structured.check_output}"
    assert told["check_output"] == states["turn"]["env"]["LL_CHECK_OUTPUT"] == at


def test_a_check_with_fields_of_its_own() -> None:
    source = f"{MINIMAL[:-1]}, check: {{action: pytest, timeout: 10m, on_pass: nowhere}}}}"
    assert expanded(source)["states"]["check"] == {
        "action": "pytest",
        "timeout": "10m",
        "on_pass": "done",
        "on_fail": "prepare",
        "check": True,
    }


@pytest.mark.parametrize(
    ("task", "inputs"),
    [
        pytest.param("{id: 886}", {"task_id": "886"}, id="a number"),
        pytest.param("{id: FEAT-091, todo: TODO.md}", {"task_id": "FEAT-091", "task_todo": "TODO.md"}, id="a name and a list"),
        pytest.param("{id: 0886, state: specs/state.json}", {"task_id": "0886", "task_state": "specs/state.json"}, id="as it is written"),
        pytest.param("{id: 1, x-own: 2, other: 3}", {"task_id": "1"}, id="keys that are not ours"),
        pytest.param("{id: [1], state: {a: b}}", {}, id="odd values"),
        pytest.param("text", {}, id="odd"),
    ],
)  # fmt: skip
def test_a_task(task: str, inputs: dict[str, str]) -> None:
    states = expanded(f"{MINIMAL[:-1]}, task: {task}}}")["states"]
    for name in ("prepare", "settle"):
        given = states[name]["context"]
        assert {key: given[key] for key in given if key.startswith("task_")} == inputs


@pytest.mark.parametrize("written", ["false", "no"])
def test_no_commits(written: str) -> None:
    states = expanded(f"{MINIMAL[:-1]}, commit: {written}}}")["states"]
    for name in ("prepare", "settle"):
        assert states[name]["context"]["commit"] is False


def test_a_directory_of_the_loops_is_for_the_turn() -> None:
    states = expanded(f"{MINIMAL[:-1]}, cwd: src/api}}")["states"]
    for name in ("prepare", "settle"):
        assert states[name]["context"]["cwd"] == "src/api"
    assert "cwd" not in states["turn"]


def test_a_directory_of_the_agents() -> None:
    source = "{agent: {action: ./turn.sh, cwd: tools}, metadata: m, plan: p, cwd: src}"
    states = expanded(source)["states"]
    assert states["prepare"]["context"]["cwd"] == "tools"
    assert states["turn"]["cwd"] == "tools"


def test_an_agent_with_fields_of_its_own() -> None:
    turn = expanded("""
        agent:
          action: Go on with the plan
          action_type: prompt
          timeout: 2h
          host: {name: codex}
          context: {tone: terse, plan_path: elsewhere.md}
          env: {DEBUG: "1", LL_PLAN_PATH: elsewhere.md}
          next: nowhere
        metadata: m.json
        plan: p.md
    """)["states"]["turn"]
    context, env = turn.pop("context"), turn.pop("env")
    assert turn == {
        "action": "Go on with the plan",
        "action_type": "prompt",
        "timeout": "2h",
        "host": {"name": "codex"},
        "next": "settle",
        "on_error": "settle",
        "on_timeout": "settle",
        "on_interrupt": "settle",
    }
    assert list(context) == [
        *("tone", "plan_path"),
        *(name for name in HANDED_OVER if name != "plan_path"),
        "return_metadata",
    ]
    assert context["plan_path"] == env["LL_PLAN_PATH"] == "elsewhere.md"
    assert env["DEBUG"] == "1"


def test_values_stay_what_they_are() -> None:
    states = expanded("""
        agent: ./turn.sh
        metadata: "specs/$${x}/meta.json"
        plan: "-my plan's.md"
    """)["states"]
    given = states["prepare"]["context"]
    assert given == {"metadata": "specs/$$${x}/meta.json", "plan": "-my plan's.md"}
    filled = [render_text(value, lookup_in({}), {}) for value in given.values()]
    assert filled == ["specs/$${x}/meta.json", "-my plan's.md"]


@pytest.mark.parametrize(
    "source",
    [
        "{paradigm: relay}",
        "{agent: ./turn.sh, plan: [p], check: [c], task: [t]}",
        "{agent: [a], metadata: {b: c}, plan: 3, commit: maybe, session: [s], scope: {d: e}}",
        "{agent: {action: a, context: text, env: [e], cwd: [x]}, metadata: m, cwd: [y]}",
    ],
)
def test_odd_shapes_are_the_readers_to_report(source: str) -> None:
    assert set(expanded(source)["states"]) >= {"prepare", "turn", "settle"}


def test_every_piece_stands_somewhere() -> None:
    assert [node for node in walk(nodes(EXAMPLE)) if node.mark is None] == []
    root = node_of(yaml.safe_load(EXAMPLE))
    assert isinstance(root, Map)
    assert plain(expand(root, "x"))["initial"] == "prepare"


@pytest.mark.parametrize(
    "source",
    [
        EXAMPLE,
        MINIMAL,
        """
        paradigm: relay
        agent: {action: ./turn.sh, timeout: 2h, cwd: tools}
        metadata: specs/886/meta.json
        plan: specs/plan.md
        context: {issue: "886"}
        scope: [src, specs]
        commit: false
        check: {action: make test, timeout: 10m}
        task: {id: 886, state: specs/state.json, todo: TODO.md}
        """,
    ],
    ids=["the manual's", "minimal", "with everything"],
)
def test_nothing_is_wrong_with_the_machine(source: str) -> None:
    definition = load(source, "relay.yaml", "relay")
    assert definition.problems == ()
    assert definition.loop is not None
