"""From a path into the machine to a place in the file."""

from __future__ import annotations

from textwrap import dedent

import pytest

from little_loops.authoring.fields import table
from little_loops.authoring.fields.kinds import (
    BranchMap,
    Environment,
    EventCommands,
    ListOf,
    Machine,
    Matrix,
    Ports,
    Route,
    Table,
    Variables,
)
from little_loops.authoring.yaml.places import (
    DATA_OF_AUTHOR,
    NAMED_BY_AUTHOR,
    Part,
    Places,
    Source,
)
from little_loops.authoring.yaml.source import parse
from little_loops.errors import Place

OWN_NAMES = dedent("""\
    context: {until: 1, a: {until: 2}}
    states:
      until: {on_met: done, route: {on_met: done}}
      context: {until: {type: exit_code}}
    """)
TEXT = dedent("""\
    name: x
    scope: [src/, tests/]
    states:
      check:
        action: |
          echo one
          echo ${captured.a.output} two
        check_condition: {type: exit_code}
        on_met: done
        on_fail:
      done: {terminal: true}
      other: {on_unmet: done, label: ""}
    """)


def field_names(*kinds: type) -> set[str]:
    """The names of all fields of these kinds, in loops and what is in them."""
    tables = [each for each in vars(table).values() if isinstance(each, Table)]
    tables += [
        *table.PARADIGM_TABLES.values(),
        *table.HOOK_TABLES.values(),
        *table.WORKTREE_TABLES.values(),
    ]
    fields = [field for each in tables for field in each.fields]
    items = [(f.name, f.kind.item if isinstance(f.kind, ListOf) else f.kind) for f in fields]
    return {name for name, kind in items if isinstance(kind, kinds)}


def test_the_fields_with_names_of_the_author_are_those_of_the_table():
    assert field_names(Machine, BranchMap, EventCommands) == NAMED_BY_AUTHOR
    assert field_names(Variables, Environment, Matrix, Ports, Route) == DATA_OF_AUTHOR


@pytest.mark.parametrize(
    ("path", "exists"),
    [
        pytest.param(("context", "condition"), False, id="a variable"),
        pytest.param(("context", "a", "condition"), False, id="data of a variable"),
        pytest.param(("states", "condition"), False, id="a state"),
        pytest.param(("states", "until", "on_pass"), True, id="a field of a state"),
        pytest.param(("states", "until", "route", "on_pass"), False, id="a word of a condition"),
        pytest.param(
            ("states", "context", "condition"), True, id="a state with the name of a field"
        ),
    ],
)
def test_only_fields_have_aliases(path: tuple[str, ...], exists: bool):
    assert places(OWN_NAMES).has(*path) == exists


def places(text: str = TEXT) -> Places:
    document = parse(text, "x.yaml")
    return Places(document.source, document.root)


def pointed(place: Place | None) -> str:
    assert place is not None
    part = place.source[place.column - 1 : place.column - 1 + place.length]
    return f"{place.line}:{place.column} {part}"


@pytest.mark.parametrize(
    ("path", "part", "expected"),
    [
        (("name",), "value", "1:7 x"),
        (("name",), "key", "1:1 name"),
        (("scope", 1), "value", "2:15 tests/"),
        (("scope", 1), "key", "2:15 tests/"),
        (("states", "check"), "key", "4:3 check"),
        (("states", "check", "action"), "value", "5:13 |"),
        (("states", "check", "condition", "type"), "value", "8:29 exit_code"),
        (("states", "check", "on_pass"), "key", "9:5 on_met"),
        (("states", "check", "on_fail"), "value", "10:5 on_fail"),
        (("states", "check", "timeout"), "value", "4:3 check"),
        (("states", "other", "on_fail"), "key", "12:11 on_unmet"),
        (("states", "other", "label"), "value", '12:34 ""'),
        (("states", "check", "condition", "of", 0), "value", "8:5 check_condition"),
        (("states", "nowhere", "action"), "value", "3:1 states"),
        (("scope", 7), "value", "2:1 scope"),
        (("scope", "first"), "value", "2:1 scope"),
        (("context", "a"), "value", "1:1 name"),
    ],
)
def test_at(path: tuple[str | int, ...], part: Part, expected: str) -> None:
    assert pointed(places().at(*path, part=part)) == expected


@pytest.mark.parametrize(
    ("snippet", "path", "expected"),
    [
        ("${captured.a.output}", ("states", "check", "action"), ["7:12 ${captured.a.output}"]),
        ("echo", ("states", "check", "action"), ["6:7 echo", "7:7 echo"]),
        ("nowhere", ("states", "check", "action"), []),
        ("", ("name",), []),
        ("one\n", ("states", "check", "action"), []),
        ("check", ("states", "check", "timeout"), []),
        ("code", ("states", "check", "condition", "type"), ["8:34 code"]),
    ],
)
def test_spots(snippet: str, path: tuple[str, ...], expected: list[str]) -> None:
    found = places()
    assert [pointed(found.source.place(each)) for each in found.spots(snippet, *path)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: |  # ab\n  ab ab\nab: ab\n", ["2:3", "2:6"], id="block"),
        pytest.param("a: >-\n  ab\n  ab\n\nb: ab\n", ["2:3", "3:3"], id="folded"),
        pytest.param("a: 'ab it''s ab'  # ab\n", ["1:5", "1:14"], id="single quotes"),
        pytest.param('a: "ab \\x61b\n  ab"\n', ["1:5", "2:3"], id="double quotes"),
        pytest.param("a: ab\n  ab # ab\n", ["1:4", "2:3"], id="plain, over two lines"),
        pytest.param("{a: aab ab, b: ab}\n", ["1:6", "1:9"], id="in braces"),
    ],
)
def test_spots_of_every_style(text: str, expected: list[str]) -> None:
    found = places(text).spots("ab", "a")
    assert [f"{each.line + 1}:{each.column + 1}" for each in found] == expected


def test_has() -> None:
    found = places()
    assert found.has("states", "check", "condition")
    assert found.has("scope", 0)
    assert not found.has("states", "check", "timeout")
    assert not found.has("scope", 2)


def test_without_a_document_there_are_no_places() -> None:
    assert Places(Source("", ()), None).at("name") is None
    assert Places(Source("", ()), None).spots("x", "name") == []


def test_a_mark_beyond_the_lines_is_shown_without_one() -> None:
    place = places().at("name")
    assert place is not None
    beyond = Places(Source("x.yaml", ()), places().root).at("name")
    assert beyond == place._replace(source="")
