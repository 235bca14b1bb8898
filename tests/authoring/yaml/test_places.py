"""From a path into the machine to a place in the file."""

from __future__ import annotations

from textwrap import dedent

import pytest

from little_loops.authoring.yaml.places import Part, Places, Source
from little_loops.authoring.yaml.source import parse
from little_loops.errors import Place

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
