"""The tables of fields, against what is published of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from little_loops.authoring.fields import table
from little_loops.authoring.fields.kinds import LONGEST_S, MOST, ListOf, Table
from little_loops.authoring.fields.schema_json import schema
from little_loops.authoring.fields.table import BRANCH, COMMAND, LOOP, STATE
from little_loops.authoring.load import load_data
from little_loops.authoring.paradigms.goal import PREPOSITIONS
from little_loops.fsm.schema import PROOF_VERDICTS, RESERVED_WORDS, WORKING_TREE

SCHEMA = Path(__file__).parents[3] / "schemas" / "loop.schema.json"


def test_the_published_schema_is_that_of_the_tables():
    assert schema() == json.loads(SCHEMA.read_text())


@pytest.mark.parametrize("table", [LOOP, STATE, COMMAND, BRANCH], ids=lambda table: table.title)
def test_a_table_has_each_field_once(table):
    names = [field.name for field in table.fields]
    assert sorted(names) == sorted(set(names))


def test_the_bounds_of_values():
    assert (LONGEST_S, MOST, ListOf(LOOP.fields[0].kind).least) == (315_360_000, 1_000_000_000, 0)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *((word, "on_pass") for word in ("on_success", "on_ok")),
        ("on_failure", "on_fail"),
        *((word, "action") for word in ("command", "cmd", "run", "script")),
        *((word, "next") for word in ("goto", "then")),
        *((word, "cwd") for word in ("working_directory", "workdir", "dir")),
        *((word, "terminal") for word in ("final", "end")),
        *((word, "retry") for word in ("retries", "max_retries")),
        ("environment", "env"),
        ("transitions", "route"),
        *((word, "condition") for word in ("evaluate", "evaluator")),
    ],
)
def test_what_others_call_a_field_of_a_state(written, meant):
    states = {"a": {"action": "x", "next": "b", written: "b"}, "b": {"terminal": True}}
    (problem, *_) = load_data({"initial": "a", "states": states}, "loop").problems
    assert (problem.code, problem.help) == ("LL102", f"did you mean `{meant}`?")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *((word, "initial") for word in ("start", "initial_state", "start_state")),
        *((word, "context") for word in ("variables", "vars")),
        ("iterations", "max_iterations"),
        *((word, "max_cost_usd") for word in ("max_cost", "budget", "max_budget")),
        ("title", "name"),
        ("paths", "scope"),
    ],
)
def test_what_others_call_a_field_of_a_loop(written, meant):
    machine = {"initial": "a", "states": {"a": {"terminal": True}}, written: "x"}
    (problem, *_) = load_data(machine, "loop").problems
    assert (problem.code, problem.help) == ("LL102", f"did you mean `{meant}`?")


def test_the_words_that_end_the_name_of_a_goal():
    assert " ".join(sorted(PREPOSITIONS)) == (
        "across at by for from in into of on through to under with within"
    )


def _tables(found: object) -> list[Table]:
    """The tables among the values of a module, also those in mappings."""
    if isinstance(found, Table):
        return [found]
    return [t for each in found.values() for t in _tables(each)] if isinstance(found, dict) else []


def _words(kind: object) -> set[str]:
    """The words that a kind of value, or one inside it, accepts."""
    found = set(getattr(kind, "words", ())) if not isinstance(kind, type) else set()
    inner = [each for each in kind if isinstance(each, tuple)] if isinstance(kind, tuple) else []
    return {word for word in found if isinstance(word, str)}.union(*map(_words, inner))


def test_no_field_and_no_word_is_a_boolean_a_number_or_null_in_yaml():
    """Another reader of YAML 1.1, such as an editor's, sees the same words in a loop file."""
    rows = [row for each in vars(table).values() for one in _tables(each) for row in one.fields]
    names = {row.name for row in rows} | {alias for row in rows for alias in row.aliases}
    words = set[str]().union(*(_words(row.kind) for row in rows))
    words |= {*PROOF_VERDICTS, *RESERVED_WORDS, WORKING_TREE, "all", "any"}
    assert {"loop", "for_each", "before_run", "setup", "resolve"} <= names
    assert {"squash", "failed", "pause", "bash"} <= words
    assert [word for word in sorted(names | words) if yaml.safe_load(word) != word] == []
