"""The catalogue of codes: complete, and its examples are what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import little_loops
from little_loops.authoring.check import HostRules, check
from little_loops.authoring.codes import Code, catalogue
from little_loops.authoring.load import load
from little_loops.fsm.schema import HostOptions

ENTRIES = list(catalogue().values())
SOURCES = Path(little_loops.__file__).parent
CANNOT_BE_SHOWN = {"LL001", "LL002", "LL005", "LL123"}


HOSTS = HostRules(
    has_slash=lambda name: name == "claude",
    wrong_with=lambda options: ["`command` is missing"] if options == _NO_COMMAND else [],
)
_NO_COMMAND = HostOptions(name="command")


def codes_of(text: str) -> set[str]:
    definition = load(text, "demo.yaml", "demo")
    found = [*definition.problems]
    if definition.loop is not None:
        found += check(definition.loop, definition.places, HOSTS)
    return {problem.code for problem in found}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_the_wrong_example_has_the_mistake_and_the_right_one_none(entry: Code) -> None:
    if entry.wrong:
        assert entry.code in codes_of(entry.wrong)
    if entry.right:
        assert entry.code not in codes_of(entry.right)
        assert load(entry.right, "demo.yaml", "demo").loop is not None


@pytest.mark.parametrize(
    "entry", [each for each in ENTRIES if each.code < "LL200"], ids=lambda entry: entry.code
)
def test_a_right_example_is_right_in_every_way(entry: Code) -> None:
    assert codes_of(entry.right) == set()


def test_every_code_in_the_sources_is_in_the_catalogue_and_the_reverse() -> None:
    used = {
        code
        for path in SOURCES.rglob("*.py")
        if not path.name.startswith("codes")
        for code in re.findall(r'"(LL\d{3})"', path.read_text())
    }
    assert used == set(catalogue())


def test_codes_are_in_order_and_say_something() -> None:
    assert [entry.code for entry in ENTRIES] == sorted(entry.code for entry in ENTRIES)
    for entry in ENTRIES:
        assert entry.title == entry.title.strip().rstrip(".")
        assert entry.text.endswith(".")


def test_what_cannot_be_shown_is_found_all_the_same() -> None:
    assert {entry.code for entry in ENTRIES if not entry.wrong} == CANNOT_BE_SHOWN
    large = "#" + "x" * (1 << 20)
    crowded = "x-list: [" + "1, " * 50_000 + "]"
    states = "".join(f"  s{number}: {{terminal: true}}\n" for number in range(1_001))
    assert codes_of(large) == {"LL001"}
    assert {p.code for p in load(b"\xff", "demo.yaml", "demo").problems} == {"LL002"}
    assert codes_of(crowded) == {"LL005"}
    assert codes_of(f"initial: s0\nstates:\n{states}") == {"LL123"}
