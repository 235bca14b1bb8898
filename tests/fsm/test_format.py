"""What is written to disk stays readable: names of events, and defaults of what is left out.

A field that has its default is not written.  So a default is a part of the format: changing one
changes what every old log says.  `format.txt` has them all; a change there needs a reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from little_loops import fsm
from little_loops.fsm import commands, events, happenings, schema, state, timestamps
from little_loops.fsm.limit_kinds import LIMITS

FORMAT = Path(__file__).parent / "format.txt"


def lines() -> list[str]:
    found = [f"event {name}: {kind.__name__}" for name, kind in events.KINDS.items()]
    for module in (events, commands, happenings, state, schema, timestamps):
        for name, item in vars(module).items():
            if getattr(item, "__module__", None) == module.__name__ and hasattr(item, "_fields"):
                fields = (_field(each, item._field_defaults) for each in item._fields)
                found.append(f"{name}({', '.join(fields)})")
    return sorted(found)


def _field(name: str, defaults: dict[str, object]) -> str:
    return f"{name}={defaults[name]!r}" if name in defaults else name


def test_the_format_is_as_it_was():
    assert lines() == FORMAT.read_text().splitlines()


@pytest.mark.parametrize("name", fsm.__all__)
def test_each_name_of_the_package_is_found_where_it_is_said_to_be(name):
    assert getattr(fsm, name) is not None


def test_the_names_of_the_package_are_those_of_the_design():
    assert " ".join(sorted(fsm.__all__)) == (
        "ActionResult ActionRunner DefaultActionRunner DetectedSignal ERROR_SIGNAL ExecutionResult"
        " FSMExecutor FSMLoop HANDOFF_SIGNAL HandoffBehavior HandoffHandler HandoffResult LoopState"
        " PersistentExecutor STOP_SIGNAL SignalDetector SignalPattern StateConfig compile_paradigm"
        " validate"
    )


def test_the_limits_of_a_run():
    assert [tuple(limit) for limit in LIMITS] == [
        ("max_iterations", "max_iterations", "iterations", "iteration limit", "--max-iterations"),
        ("timeout", "loop_timeout", "time", "time limit", "--timeout"),
        ("max_cost_usd", "max_cost", "cost", "cost limit", "--max-cost"),
        ("max_tokens", "max_tokens", "tokens", "token limit", "--max-tokens"),
    ]
