"""The catalogue of codes: complete, and the examples about files and fields are what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import little_loops
from little_loops.authoring.codes import ErrorCode, catalogue
from little_loops.authoring.fields.kinds import MOST_ITEMS, MOST_STATES, MOST_WORDS
from little_loops.authoring.load import load

ENTRIES = list(catalogue().values())
OF_FILES = [entry for entry in ENTRIES if entry.code < "LL200"]
SOURCES = Path(little_loops.__file__).parent
CANNOT_BE_SHOWN = {"LL001", "LL002", "LL003", "LL005", "LL014", "LL015", "LL016", "LL123"}


def codes_of(text: str) -> set[str]:
    return {problem.code for problem in load(text, "demo.yaml", "demo").problems}


@pytest.mark.parametrize("entry", OF_FILES, ids=lambda entry: entry.code)
def test_the_wrong_example_has_the_mistake_and_the_right_one_none(entry: ErrorCode) -> None:
    if entry.wrong:
        assert entry.code in codes_of(entry.wrong)
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
    assert {entry.code for entry in OF_FILES if not entry.wrong} == CANNOT_BE_SHOWN
    large = "#" + "x" * (1 << 20)
    crowded = "x-list: [" + "1, " * 50_000 + "]"
    states = "".join(f"  s{number}: {{terminal: true}}\n" for number in range(1_001))
    assert codes_of(large) == {"LL001"}
    assert {p.code for p in load(b"\xff", "demo.yaml", "demo").problems} == {"LL002"}
    assert codes_of("description: \x07") == {"LL003"}
    assert codes_of(crowded) == {"LL005"}
    assert codes_of(f"initial: s0\nstates:\n{states}") == {"LL123"}
    scope = ", ".join(f"s{number}" for number in range(1_001))
    assert "LL123" in codes_of(f"scope: [{scope}]\ninitial: a\nstates: {{a: {{terminal: true}}}}")


WRONG = sorted((Path(__file__).parent / "wrong").glob("*.yaml"))


def test_every_problem_has_a_way_out() -> None:
    texts = [path.read_text() for path in WRONG] + [entry.wrong for entry in ENTRIES]
    problems = [problem for text in texts for problem in load(text, "demo.yaml", "demo").problems]
    assert [problem for problem in problems if not problem.help] == []


def test_the_explanation_of_a_size_limit_names_the_limits():
    assert catalogue()["LL123"].text == (
        f"A loop can have at most {MOST_STATES:,} states, a list that becomes states at most "
        f"{MOST_ITEMS:,} items, and a condition at most {MOST_WORDS} words."
    )
