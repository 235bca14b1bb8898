"""The defaults that the field table documents are those of the machine."""

from __future__ import annotations

import pytest

from little_loops.authoring.fields.table import COMMON, EVIDENCE
from little_loops.fsm.evidence import DEFAULT_STALL_AFTER
from little_loops.fsm.schema import FSMLoop

DEFAULTS = FSMLoop._field_defaults
NUMERIC = [
    field
    for field in COMMON
    if type(DEFAULTS.get(field.name)) in (int, float) and field.default is not None
]


@pytest.mark.parametrize("field", NUMERIC, ids=lambda field: field.name)
def test_a_documented_number_is_the_one_that_applies(field):
    assert float(field.default) == DEFAULTS[field.name]


def test_there_are_such_fields():
    names = {field.name for field in NUMERIC}
    assert names >= {"max_iterations", "maintain_interval", "max_continuations"}


def test_the_documented_default_of_stall_after_is_the_one_of_each_paradigm():
    (field,) = (field for field in EVIDENCE.fields if field.name == "stall_after")
    (number,) = set(DEFAULT_STALL_AFTER.values())
    goal, invariants, convergence = DEFAULT_STALL_AFTER
    assert field.default == f"{number} for {goal}, {invariants} and {convergence}, else 0"
