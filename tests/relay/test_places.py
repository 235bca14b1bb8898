"""Which paths belong to a relay itself."""

from __future__ import annotations

import pytest

from little_loops.authoring.load import load
from little_loops.fsm.schema import FSMLoop
from little_loops.relay.places import RelayPlaces, places_of


def relay(**fields: str) -> FSMLoop:
    lines = [f"{name}: '{value}'" for name, value in fields.items()]
    loop = load("\n".join(["paradigm: relay", "agent: work", *lines]), "x.yaml", "x").loop
    assert loop is not None
    return loop


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        pytest.param(
            relay(plan="plan.md"),
            RelayPlaces(
                (), ("/.return-meta.json", "/.postflight-loop-guard", "/.postflight-pending")
            ),
            id="in the project",
        ),
        pytest.param(
            relay(plan="specs/886/plan.md"),
            RelayPlaces(
                ("specs/886",),
                (
                    "/specs/886/.return-meta.json",
                    "/specs/886/.postflight-loop-guard",
                    "/specs/886/.postflight-pending",
                ),
            ),
            id="in a directory",
        ),
        pytest.param(
            relay(plan="plans/p.md", metadata="./my [meta]/$${x}!.json"),
            RelayPlaces(
                ("./my [meta]", "plans"),
                (
                    r"/my\ \[meta\]/$${x}\!.json",
                    r"/my\ \[meta\]/.postflight-loop-guard",
                    r"/my\ \[meta\]/.postflight-pending",
                ),
            ),
            id="in two, with signs of patterns and templates",
        ),
        pytest.param(
            FSMLoop.from_dict({"name": "x", "initial": "a", "states": {"a": {"terminal": True}}}),
            RelayPlaces(),
            id="no relay",
        ),
    ],
)
def test_the_places_of_a_relay(loop: FSMLoop, expected: RelayPlaces) -> None:
    assert places_of(loop) == expected
