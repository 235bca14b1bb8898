"""What an error says of the problems behind it."""

from __future__ import annotations

import pytest

from little_loops import errors
from little_loops.errors import DefinitionError, Problem

FIRST = Problem("LL101", "`initial` is missing")
SECOND = Problem("LL102", "unknown key `x`")
WARNING = Problem("LL301", "this state is never reached", severity="warning")


@pytest.mark.parametrize(
    ("problems", "message"),
    [
        pytest.param([], "invalid definition", id="none"),
        pytest.param([WARNING], "invalid definition", id="only warnings"),
        pytest.param([FIRST], "`initial` is missing", id="one"),
        pytest.param([WARNING, FIRST], "`initial` is missing", id="one and a warning"),
        pytest.param([FIRST, SECOND], "`initial` is missing (and 1 more)", id="two"),
        pytest.param([FIRST, SECOND, SECOND], "`initial` is missing (and 2 more)", id="three"),
    ],
)
def test_a_definition_error_says_the_first_problem_and_counts_the_others(problems, message):
    error = DefinitionError(problems)
    assert (str(error), error.problems) == (message, tuple(problems))


def test_exit_codes_are_those_that_scripts_rely_on():
    codes = {name: value for name, value in vars(errors).items() if isinstance(value, int)}
    assert codes == {
        "OK": 0,
        "FAILED": 1,
        "USAGE": 2,
        "LIMIT": 3,
        "PAUSED": 4,
        "CONFLICT": 5,
        "STOPPED_BY_ACTION": 6,
        "INTERNAL": 70,
        "SIGNALLED": 128,
        "TYPE_CHECKING": False,
    }
