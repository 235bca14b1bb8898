"""The generated pages are what the code says, and say something about all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from little_loops.authoring.codes import catalogue
from little_loops.authoring.fields.table import CONDITIONS, HOST, LOOP, OWN, RETRY, STATE
from little_loops.cli.commands import VERBS
from little_loops.fsm.events import KINDS, event_types
from little_loops.reporting.lines import PlainLines
from tests.entries import event as stand_in
from tools.pages import ROOT, Page
from tools.reference import SCHEMA, current, generated
from tools.reference_events import MEANINGS, SAMPLES, plain_lines
from tools.reference_screens import COMPARED

EVENTS = event_types()
GENERATED = generated()


def page(name: str) -> str:
    return GENERATED[f"docs/reference/{name}.md"]


@pytest.mark.parametrize("path", GENERATED)
def test_nothing_has_drifted(path: str) -> None:
    assert current(path) == GENERATED[path], "run `make docs`"


def test_the_schema_is_the_one_the_command_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "little_loops", "schema"],
        env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout == GENERATED[SCHEMA]
    assert json.loads(printed.stdout)["$id"].endswith(":v1")


def test_every_field_has_its_row() -> None:
    of_all = [*LOOP.fields, *STATE.fields, *RETRY.fields, *HOST.fields]
    of_all += [field for fields in OWN.values() for field in fields]
    rows = [line.split("|")[1] for line in page("fields").splitlines() if line.startswith("| `")]
    names = {name.strip(" `") for row in rows for name in row.split(",")}
    assert {field.name for field in of_all} - names == set()


def test_every_condition_verb_and_code_has_its_part() -> None:
    assert set(CONDITIONS) - Page("", page("conditions")).anchors == set()
    assert {f"ll-loop-{verb}" for verb in VERBS} - Page("", page("commands")).anchors == set()
    headings = [line for line in page("error-codes").splitlines() if line.startswith("### LL")]
    assert [line[4:9] for line in headings] == list(catalogue())


def test_the_screens_that_a_user_meets_first_are_compared() -> None:
    verbs = "run resume status list history logs attach show graph validate explain doctor trust init demo --help"
    assert [one.verb for one in COMPARED] == verbs.split()


def test_every_field_of_an_event_has_a_meaning() -> None:
    used = {field for event in EVENTS.values() for field in (*event.fields, *event.optional)}
    assert used == set(MEANINGS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_event_has_a_sample_or_no_line(kind: str) -> None:
    if not any(type(event) is KINDS[kind] for event in SAMPLES):
        assert PlainLines("x", 1).lines(stand_in(kind)) == []


def test_every_sample_has_a_line() -> None:
    assert all(plain_lines(event) for event in SAMPLES)
