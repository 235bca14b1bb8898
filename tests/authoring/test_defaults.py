"""The defaults that the field table documents are those of the machine."""

from __future__ import annotations

import pytest

from little_loops.authoring.fields.table import COMMON
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
