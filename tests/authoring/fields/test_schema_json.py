"""The JSON Schema: sound, readable by older readers, and never stricter than the reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from little_loops.authoring.fields import table
from little_loops.authoring.fields.schema_json import schema
from little_loops.authoring.fields.schema_json import test_schema as make_test_schema
from little_loops.authoring.load import load, load_data
from little_loops.authoring.yaml.nodes import plain
from little_loops.authoring.yaml.source import parse
from tests.authoring.documents import damaged, documents

SCHEMA = schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
OLDER = jsonschema.Draft7Validator(SCHEMA)
MACHINE: dict[str, Any] = {
    "initial": "check",
    "states": {
        "check": {"action": "pytest", "on_pass": "done", "on_fail": "check"},
        "done": {"terminal": True},
    },
}


def accepted(document: Any) -> bool:
    problems = load_data(document, "loop").problems
    return all(problem.severity != "error" for problem in problems)


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(documents() | damaged())
def test_what_the_reader_accepts_the_schema_accepts(document: Any) -> None:
    if accepted(document):
        VALIDATOR.validate(document)
        OLDER.validate(document)


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(damaged())
def test_what_the_schema_rejects_the_reader_rejects(document: Any) -> None:
    if not VALIDATOR.is_valid(document):
        assert not accepted(document)


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(documents())
def test_most_made_documents_are_sound(document: Any) -> None:
    """So that the laws above are about something: what is not accepted is refused by checks."""
    codes = {p.code for p in load_data(document, "loop").problems if p.severity == "error"}
    assert not {code for code in codes if code < "LL200"} - {"LL124"}, codes


def test_it_is_a_schema_for_old_and_new_readers() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_its_id_has_a_version() -> None:
    assert SCHEMA["$id"] == "urn:little-loops:loop:v1"


def test_every_field_is_described() -> None:
    tables = [table.LOOP, table.STATE, table.HOST, *table.CONDITIONS.values()]
    fields = {field.name for each in tables for field in each.fields}
    described = {name for name, about in _properties(SCHEMA) if _description(about)}
    assert fields <= described


def _properties(node: Any) -> list[tuple[str, Any]]:
    if isinstance(node, list):
        return [found for each in node for found in _properties(each)]
    if not isinstance(node, dict):
        return []
    own = node.get("properties", {})
    pairs = list(own.items()) if isinstance(own, dict) else []
    return pairs + [found for each in node.values() for found in _properties(each)]


def _description(about: Any) -> str | None:
    if isinstance(about, dict) and "$ref" in about:
        about = SCHEMA["$defs"][about["$ref"].rpartition("/")[2]]
    return about.get("description") if isinstance(about, dict) else None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param(lambda it: it["states"]["check"].update(on_fial="x"), ["states", "check"],
                     id="misspelt way"),
        pytest.param(lambda it: it["states"]["done"].update(terminal="maybe"),
                     ["states", "done", "terminal"], id="text for a flag"),
        pytest.param(lambda it: it.update(max_iterations=0), ["max_iterations"], id="range"),
        pytest.param(lambda it: it.update(timeout="5 minutes"), ["timeout"], id="no time"),
        pytest.param(lambda it: it.update(colour="blue"), [], id="unknown key"),
        pytest.param(lambda it: it["states"]["check"].update(condition={"type": "output_json"}),
                     ["states", "check", "condition"], id="field of a condition missing"),
    ],
)  # fmt: skip
def test_an_editor_would_underline(change: Any, path: list[str]) -> None:
    document = {
        "initial": "check",
        "states": {name: dict(state) for name, state in MACHINE["states"].items()},
    }
    VALIDATOR.validate(document)
    change(document)
    (error,) = VALIDATOR.iter_errors(document)
    assert path in [list(each.absolute_path) for each in error.context]


def test_words_of_its_own_open_the_state_for_them() -> None:
    state = {
        "action": "/review",
        "condition": {"type": "verdict", "words": ["good", "bad"]},
        "on_good": "done",
        "on_bad": "$current",
    }
    VALIDATOR.validate({**MACHINE, "states": {**MACHINE["states"], "check": state}})


AS_YAML_1_2_HAS_IT: dict[str, Any] = {
    "yes": "yes", "No": "No", "ON": "ON", "off": "off", "true": True, "False": False,
    "1": 1, "0": 0, "-0": 0, "1.0": 1.0, "1.5": 1.5, "1e3": 1000.0, "0777": 777, "1_000": "1_000",
    "0x10": 16, "0o17": 15, "0b1": "0b1", "12:30:45": "12:30:45", "2024-01-15": "2024-01-15",
    "~": None, "null": None, "[0]": [0], "[1.0]": [1.0], "90s": "90s", "check": "check",
    "'1'": "1", "'true'": "true", "'${context.a}'": "${context.a}",
}  # fmt: skip
"""Scalars and small lists as editors read them, which follow YAML 1.2."""
LOOP_FIELDS = sorted(set(table.LOOP.by_name) - {"initial", "states"})


@pytest.mark.parametrize("written", AS_YAML_1_2_HAS_IT)
def test_what_is_written_reads_the_same_in_an_editor(written: str) -> None:
    value = AS_YAML_1_2_HAS_IT[written]
    for name in LOOP_FIELDS:
        text = f"{name}: {written}\ninitial: check\nstates: {{check: {{terminal: true}}}}\n"
        machine = {"initial": "check", "states": {"check": {"terminal": True}}}
        if load(text, "x", "x").loop is not None:
            VALIDATOR.validate({**machine, name: value})
    for name in (*table.STATE.by_name, "condition.target", "condition.fail", "condition.negate"):
        field, _, inner = name.partition(".")
        pattern = ", type: output_contains, pattern: a" if inner == "negate" else ""
        nested = f"{{{inner}: {written}{pattern}}}" if inner else written
        text = (
            "context: {a: 1, target: 0}\ninitial: a\nstates: {a: {action: x, next: check, "
            f"{field}: {nested}}}, check: {{terminal: true}}}}\n"
        )
        more = {"type": "output_contains", "pattern": "a"} if inner == "negate" else {}
        state = {"action": "x", "next": "check", field: {inner: value, **more} if inner else value}
        if load(text, "x", "x").loop is not None:
            machine = {"a": state, "check": {"terminal": True}}
            VALIDATOR.validate({"initial": "a", "states": machine})


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(st.sampled_from(["yes", "0777", "12:30:45", "2024-01-15", "1_000", "0x10", "1e3", "~"]))
def test_also_what_only_yaml_can_write(scalar: str) -> None:
    text = f"context: {{a: {scalar}}}\ninitial: a\nstates: {{a: {{terminal: true}}}}\n"
    root = parse(text, "x").root
    assert load(text, "x", "x").loop is not None
    assert root is not None
    VALIDATOR.validate(plain(root))


# ── test files ─────────────────────────────────────────────────────────────────────────────────

TEST_VALIDATOR = jsonschema.Draft202012Validator(make_test_schema())
EXAMPLE_TESTS = sorted((Path(__file__).parents[3] / "examples/tests").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLE_TESTS, ids=lambda path: path.name)
def test_the_schema_of_test_files_accepts_the_examples(path: Path) -> None:
    TEST_VALIDATOR.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    "wrong",
    [
        {"loop": "a"},
        {"loop": "a", "tests": []},
        {"loop": "a", "tests": [{"name": "b"}]},
        {"loop": "a", "tests": [{"name": "b", "expect": {"staus": "x"}}]},
        {"loop": "a", "tests": [{"name": "b", "given": {"c": "x"}, "expect": {"exit": 0}}]},
        {"loop": "a", "tests": [{"name": "b", "given": {"c": []}, "expect": {"exit": 0}}]},
        {"loop": "a", "tests": [{"name": "b", "kill": "once", "expect": {"exit": 0}}]},
        {"loop": "a", "tests": [{"name": "b", "expect": {"captured": {"c": 1}}}]},
    ],
)
def test_an_editor_would_underline_in_a_test_file(wrong: Any) -> None:
    jsonschema.Draft7Validator.check_schema(make_test_schema())
    assert not TEST_VALIDATOR.is_valid(wrong)


@pytest.mark.parametrize(
    ("answer", "is_valid"),
    [
        ("pass", True),
        ({"fail": "no tests"}, True),
        ({"fail": 7}, False),
        ({"fail": " "}, False),
        ({}, False),
        ({"fail": "no tests", "why": "x"}, False),
    ],
)
def test_what_a_judge_answers_in_a_test(answer: Any, is_valid: bool) -> None:
    one = {"name": "one", "given": {"check": {"exit": 0, "judge": answer}}}
    tests = {"loop": "fix", "tests": [one | {"expect": {"status": "completed"}}]}
    assert jsonschema.Draft202012Validator(make_test_schema()).is_valid(tests) is is_valid
