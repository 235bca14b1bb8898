"""Sound values as the machine gets them; what is wrong with values is in `wrong/`."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.authoring.fields.read_values import INVALID, seconds
from little_loops.authoring.fields.reader import READ, Reader
from little_loops.authoring.fields.schema_json import _KINDS
from little_loops.authoring.fields.table import STATE
from little_loops.authoring.load import load, load_data
from little_loops.authoring.yaml.nodes import Text, node_of
from little_loops.authoring.yaml.places import Source
from little_loops.fsm.schema import Evidence, FSMLoop, HostOptions, Not, Retry, StateConfig

MACHINE = """
initial: a
states:
  a: {action: make, on_pass: done, on_fail: done, on_error: done, capture: kept}
  done: {terminal: true}
"""


def loop_with(fields: str) -> FSMLoop:
    definition = load(fields + MACHINE, "x.yaml", "stem")
    assert definition.loop is not None, definition.problems
    return definition.loop


def state_with(fields: str) -> StateConfig:
    text = MACHINE.replace("  a: {action: make, on_pass: done, on_fail: done, on_error: done, "
                           "capture: kept}", f"  a:\n{indent(fields, '    ')}\n    next: done")  # fmt: skip
    definition = load("context: {limit: 5}\n" + text, "x.yaml", "stem")
    assert definition.loop is not None, definition.problems
    return definition.loop.states["a"]


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        pytest.param("", "name", "stem", id="named after the file"),
        pytest.param("name: my.loop-1", "name", "my.loop-1", id="name"),
        pytest.param("name: '2024'", "name", "2024", id="quoted digits"),
        pytest.param("description: 2024-01-15", "description", "2024-01-15", id="a date is text"),
        pytest.param("description: 12:30:45", "description", "12:30:45", id="base 60 is text"),
        pytest.param("paradigm: goal", "paradigm", "goal", id="a label beside states"),
        pytest.param("timeout: 90s", "timeout", 90, id="seconds"),
        pytest.param("timeout: 1h30m", "timeout", 5400, id="hours and minutes"),
        pytest.param("timeout: 1.5", "timeout", 1.5, id="number of seconds"),
        pytest.param("backoff: 0", "backoff", 0, id="zero"),
        pytest.param("kill_grace: 0s", "kill_grace", 0, id="zero seconds"),
        pytest.param("maintain: yes", "maintain", True, id="yes is true where a boolean belongs"),
        pytest.param("scope: [src/, a/../b]", "scope", ("src/", "a/../b"), id="scope as written"),
        pytest.param("max_cost_usd: 0.5", "max_cost_usd", 0.5, id="cost"),
        pytest.param("host: codex", "host", HostOptions(name="codex"), id="host by name"),
        pytest.param("host: {model: opus, allow: [Read], max_wait: 1h, env: {A: 1}}", "host",
                     HostOptions(model="opus", allow=("Read",), max_wait=3600, env={"A": "1"}),
                     id="host with options"),
        pytest.param("env: {A: 08, B: yes, C: 1.10, D: ''}", "env",
                     {"A": "08", "B": "yes", "C": "1.10", "D": ""}, id="env as written"),
        pytest.param("context: {a: 1.10, b: yes, c: 0x10, d: 1e3, e: +5, f: ~, g: true, h: 12}",
                     "context", {"a": "1.10", "b": "yes", "c": "0x10", "d": "1e3", "e": "+5",
                                 "f": None, "g": True, "h": 12}, id="context as written"),
        pytest.param("context: {a: [1.10, yes, {b: ~}]}", "context",
                     {"a": [1.1, True, {"b": None}]}, id="lists and mappings as data"),
        pytest.param("idle_timeout: 10m", "idle_timeout", 600, id="idle timeout"),
        pytest.param("scope_writes: enforce", "scope_writes", "enforce", id="scope writes"),
        pytest.param("", "evidence", Evidence(), id="no word about evidence"),
        pytest.param("evidence: true", "evidence", Evidence(enabled=True), id="evidence"),
        pytest.param("evidence: off", "evidence", Evidence(enabled=False), id="no evidence"),
        pytest.param("evidence: {}", "evidence", Evidence(enabled=True), id="bare evidence"),
        pytest.param("evidence: {protect: [tests/, '!tests/new'], tampering: fail, confirm: 2}",
                     "evidence", Evidence(True, ("tests/", "!tests/new"), tampering="fail",
                                          confirm=2), id="evidence with settings"),
        pytest.param("evidence: {protect: [./tests/, '!./tests/new', '!x', a/./b]}",
                     "evidence", Evidence(True, ("/tests/", "!/tests/new", "!x", "a/./b")),
                     id="a pattern that starts with ./"),
        pytest.param("evidence: {protect: {existing: [tests/]}, clean: true, setup: npm ci}",
                     "evidence", Evidence(True, ("tests/",), True, clean=True, setup="npm ci"),
                     id="new files allowed"),
        pytest.param("evidence: {enabled: false, stall_after: 0, strict: true}", "evidence",
                     Evidence(False, stall_after=0, strict=True), id="evidence switched off"),
        pytest.param("x-mine: {any: [.nan, ~]}", "name", "stem", id="keys of one's own"),
        pytest.param("on_interrupt: $error", "on_interrupt", "$error", id="special target"),
    ],
)  # fmt: skip
def test_loop_fields(fields: str, name: str, value: Any) -> None:
    assert getattr(loop_with(fields), name) == value


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param("action: x\ncheck_condition: {type: exit_code}\non_met: done",
                     {"condition": {"type": "exit_code"}, "on_pass": "done"}, id="aliases"),
        pytest.param("action: x\ncondition: {fail: [1, 5]}",
                     {"condition": {"type": "exit_code", "fail": [1, 5]}}, id="type left out"),
        pytest.param("action: x\ncondition: {fail: 1-125}",
                     {"condition": {"type": "exit_code", "fail": "1-125"}}, id="range"),
        pytest.param("action: x\ncondition: {fail: [1, 3-125]}",
                     {"condition": {"type": "exit_code", "fail": [1, "3-125"]}}, id="code and range"),
        pytest.param("action: x\ncondition: {type: output_json, path: .a, target: null}",
                     {"condition": {"type": "output_json", "path": ".a", "target": None}},
                     id="null as target"),
        pytest.param("action: x\ncondition: {type: output_json, path: .a, target: 5, operator: lt}",
                     {"condition": {"type": "output_json", "path": ".a", "target": 5,
                                    "operator": "lt"}}, id="order"),
        pytest.param('action: x\ncondition: {type: output_numeric, target: "${context.limit}"}',
                     {"condition": {"type": "output_numeric", "target": "${context.limit}"}},
                     id="template as number"),
        pytest.param("action: x\nretry: {max: 3, backoff: 10s, x-why: flaky}",
                     {"retry": {"max": 3, "backoff": 10}}, id="retry"),
        pytest.param("action: x\ncondition: {type: verdict, words: [good, pass]}\non_good: done",
                     {"condition": {"type": "verdict", "words": ["good", "pass"]},
                      "on_good": "done"}, id="a word of its own"),
        pytest.param("action: x\ncondition: {type: verdict}\nroute: {pass: done, fail: $current}",
                     {"condition": {"type": "verdict"},
                      "route": {"pass": "done", "fail": "$current"}}, id="route"),
        pytest.param("action: x\nx-note: [anything]", {}, id="key of one's own"),
        pytest.param("action: x\nidle_timeout: 5m\ncheck: true\non_tampered: done\n"
                     "on_out_of_scope: done\non_flaky: $current\non_stalled: done\n"
                     "on_conflict: done",
                     {"idle_timeout": 300, "check": True, "on_tampered": "done",
                      "on_out_of_scope": "done", "on_flaky": "$current", "on_stalled": "done",
                      "on_conflict": "done"}, id="what evidence finds"),
    ],
)  # fmt: skip
def test_state_fields(fields: str, expected: dict[str, Any]) -> None:
    assert state_with(fields).to_dict() == {"action": "x", "next": "done", **expected}


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(),
        Evidence(enabled=True),
        Evidence(enabled=False),
        Evidence(None, ("tests/",), clean=True),
        Evidence(False, ("tests/",), existing_only=True),
        Evidence(True, ("a", "b"), True, "report", True, "make", 3, 0, True),
    ],
)
def test_evidence_written_and_read_again_is_the_same(evidence: Evidence) -> None:
    loop = loop_with("")._replace(evidence=evidence)
    assert FSMLoop.from_dict(loop.to_dict()) == loop


def test_conditions_in_each_other() -> None:
    text = "action: x\ncondition: {type: not, of: {type: any, of: [{}, {type: verdict}]}}"
    condition = state_with(text).condition
    assert isinstance(condition, Not)


@pytest.mark.parametrize(
    "condition",
    [
        "{type: output_numeric, target: 0, source: kept}",
        "{type: all, of: [{source: kept}, {type: not, of: {source: kept}}]}",
        "{type: all, source: kept, of: [{}]}",
    ],
)
def test_a_decision_needs_a_source_for_all_it_judges(condition: str) -> None:
    text = MACHINE.replace("on_error: done", "on_error: decide").replace(
        "  done:", f"  decide: {{condition: {condition}, on_pass: done, on_fail: a}}\n  done:"
    )
    assert load(text.replace("on_pass: done,", "on_pass: decide,", 1), "x", "x").loop is not None


def test_retry_has_its_defaults() -> None:
    assert state_with("action: x\nretry: {}").retry == Retry()


@pytest.mark.parametrize(
    ("text", "value"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400), ("1h30m", 5400), ("1.5s", 1.5),
     ("1d2h3m4s", 93784), ("0s", 0), ("", None), ("90", None), ("s", None), ("1m1h", None),
     ("-1s", None), ("1 h", None), ("1s\n", None), ("٣s", None), ("9" * 5000 + "s", float("inf"))],
)  # fmt: skip
def test_seconds(text: str, value: float | None) -> None:
    assert seconds(text) == value


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_times_add_up(hours: int, minutes: int, rest: int) -> None:
    assert seconds(f"{hours}h{minutes}m{rest}s") == hours * 3600 + minutes * 60 + rest


def test_every_kind_of_value_can_be_read_and_described() -> None:
    assert set(READ) == set(_KINDS)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param({"description": 5}, "`description` must be text, not a number", id="no YAML"),
        pytest.param({"description": b"x"}, "`description` must be text, not a value of type `bytes`",
                     id="bytes"),
        pytest.param({"context": {"a": {1, 2}}}, "`a` must be plain data, not a value of type `set`",
                     id="a set"),
        pytest.param({"context": {"a": [{1, 2}]}}, "`a` must be plain data, not a value of type `set`",
                     id="a set inside"),
        pytest.param({"context": {1: 2}}, "this name must be text, not a number", id="key"),
        pytest.param({"context": {"a": 1, 5: 2, None: 3}}, "this name must be text, not a number",
                     id="keys"),
        pytest.param({"max_iterations": 10**400}, "`max_iterations` is not a finite number",
                     id="huge"),
        pytest.param({"env": {"A": {1}}}, "`A` must be text, not a value of type `set`", id="env"),
        pytest.param({"description": None}, "`description` has no value", id="nothing"),
        pytest.param({"scope": [None]}, "an item in `scope` has no value", id="no item"),
    ],
)  # fmt: skip
def test_data_of_a_program(data: dict[str, Any], words: str) -> None:
    machine = {"initial": "a", "states": {"a": {"terminal": True}}}
    problems = load_data({**machine, **data}, "x").problems
    assert problems[0].message == words
    assert problems[0].place is None


def test_a_key_twice_in_data() -> None:
    data = {"initial": "a", "states": {"a": {"terminal": True}}, "env": {"A": 1}, "context": {}}
    twice = node_of(data)
    twice = twice._replace(entries=(*twice.entries, *twice.entries))  # type: ignore[union-attr,call-arg]
    reader = Reader(Source("", ()))
    reader.record(twice, STATE, "a state")
    assert "the key `env` is given twice" in [each.message for each in reader.problems]


@pytest.mark.parametrize("field", ["env", "context", "route"])
def test_names_twice_in_data(field: str) -> None:
    entry = node_of({"a": "b"}).entries[0]  # type: ignore[union-attr]
    inner = node_of({})._replace(entries=(entry, entry))  # type: ignore[call-arg]
    reader = Reader(Source("", ()))
    reader.read(STATE.by_name[field].kind, inner, f"`{field}`")
    assert [each.message for each in reader.problems] == ["the key `a` is given twice"]


def test_what_has_been_told_is_not_told_again() -> None:
    broken = Text("", "broken", None)
    reader = Reader(Source("", ()))
    for field in STATE.fields:
        assert reader.read(field.kind, broken, f"`{field.name}`") is INVALID
    assert reader.problems == []


def test_suggestions_end_where_nobody_reads_on_also_for_words() -> None:
    states = "".join(f"  s{number}: {{terminal: true, shell: bsh}}\n" for number in range(150))
    problems = load(f"initial: s0\nstates:\n{states}", "x.yaml", "x").problems
    helps = [problem.help for problem in problems]
    assert helps == ["did you mean `sh`?"] * 120 + ["the default for `shell` is `sh`"] * 30


def test_suggestions_end_where_nobody_reads_on() -> None:
    keys = "".join(f"on_fial{number}: x\n" for number in range(400))
    problems = load(keys + MACHINE, "x.yaml", "x").problems
    helps = [problem.help for problem in problems]
    assert helps == ["your own keys begin with `x-`"] * 120 + [None] * 280


@pytest.mark.parametrize("value", ["-5", "0"])
def test_a_time_that_is_not_greater_than_zero(value):
    [problem] = load(f"timeout: {value}{MACHINE}", "x.yaml", "x").problems
    assert problem.message == f"`timeout` must be greater than 0, not `{value}`"
