"""YAML text to nodes: places, kinds, limits, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from little_loops.authoring.yaml.nodes import List, Map, Mark, Node, Text, plain
from little_loops.authoring.yaml.places import Source
from little_loops.authoring.yaml.pyyaml import FASTEST, PureParser
from little_loops.authoring.yaml.source import parse
from little_loops.errors import Problem

SECOND = "LL007 2:1+3 a second document begins here; a loop file can have only one"
both = pytest.mark.parametrize("parser", [FASTEST, PureParser], ids=["C", "pure"])


def read(text: str | bytes, parser: Any = FASTEST) -> Node:
    document = parse(text, "x.yaml", parser)
    assert document.problems == ()
    assert document.root is not None
    return document.root


def told(text: str | bytes, parser: Any = FASTEST) -> list[str]:
    return [_told(problem) for problem in parse(text, "x.yaml", parser).problems]


def _told(problem: Problem) -> str:
    place = problem.place
    at = f"{place.line}:{place.column}+{place.length} " if place is not None else ""
    return f"{problem.code} {at}{problem.message}"


@both
def test_a_document_as_nodes(parser: Any) -> None:
    root = read("a: 1\nb:\n  - 'x'\n  - {c: yes}\nd: |\n  one\n  two\n", parser)
    assert isinstance(root, Map)
    assert plain(root) == {"a": 1, "b": ["x", {"c": True}], "d": "one\ntwo\n"}
    assert root.mark == Mark(0, 0, 1, 0)
    first, second, third = root.entries
    assert first.key == Text("a", "str", "a", Mark(0, 0, 1, 0))
    assert first.value == Text("1", "int", 1, Mark(0, 3, 4, 0))
    assert isinstance(second.value, List)
    assert second.value.mark == Mark(2, 2, 7, 2)
    assert second.value.items[0] == Text("x", "str", "x", Mark(2, 4, 7, 2), quoted=True)
    assert second.value.items[1].mark == Mark(3, 4, 12, 3)
    assert third.value == Text("one\ntwo\n", "str", "one\ntwo\n", Mark(4, 3, 0, 7), quoted=True)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        pytest.param("\ufeffa: 1", {"a": 1}, id="byte order mark"),
        pytest.param(b"\xef\xbb\xbfa: 1", {"a": 1}, id="byte order mark in bytes"),
        pytest.param("---\na: 1\n", {"a": 1}, id="document start"),
        pytest.param("%YAML 1.1\n---\na: 1\n", {"a": 1}, id="YAML directive"),
        pytest.param("a: 1\n...\n", {"a": 1}, id="document end"),
        pytest.param("a: é日✓\n", {"a": "é日✓"}, id="not ASCII"),
        pytest.param("a: x\tb\n", {"a": "x\tb"}, id="tab inside a string"),
        pytest.param("a: ~ !\n", {"a": "~ !"}, id="the first and the last of ASCII"),
        pytest.param("a: \u00a0b\n", {"a": "\u00a0b"}, id="the first beyond the C1 characters"),
        pytest.param("a: \ud7ff\ue000\ufffd\n", {"a": "\ud7ff\ue000\ufffd"}, id="around halves"),
        pytest.param("a: \U0001f600\U0010ffff\n", {"a": "\U0001f600\U0010ffff"}, id="large"),
        pytest.param("a:\r\n  b: 1\r\n", {"a": {"b": 1}}, id="lines of Windows"),
        pytest.param("a:\n", {"a": None}, id="nothing"),
        pytest.param("{}", {}, id="empty mapping"),
        pytest.param("[]", [], id="empty list"),
        pytest.param("text", "text", id="only text"),
        pytest.param('"<<": 1', {"<<": 1}, id="a quoted merge key is a key"),
        pytest.param("[" * 50 + "]" * 50, eval("[" * 50 + "]" * 50), id="as deep as it may be"),
        pytest.param("[" + "1, " * 49_998 + "1]", [1] * 49_999, id="as many as there may be"),
    ],
)
def test_accepted(text: str | bytes, data: Any) -> None:
    assert plain(read(text)) == data


@pytest.mark.parametrize("text", ["", "# comment\n", "---\n...\n", "\ufeff"])
def test_nothing_in_it(text: str) -> None:
    document = parse(text, "x.yaml")
    assert document.root is None or document.root == Text("", "null", None, document.root.mark)
    assert document.problems == ()


@both
@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("a: &x 1", ["LL008 1:4+2 anchors are not allowed: `&x`"], id="anchor"),
        pytest.param("a: &x\n  b: 1", ["LL008 1:4+2 anchors are not allowed: `&x`"],
                     id="anchor of a mapping"),
        pytest.param("a: *x", ["LL008 1:4+2 aliases are not allowed: `*x`"], id="alias"),
        pytest.param("*x : 1\n*y : 2", ["LL008 1:1+2 aliases are not allowed: `*x`",
                                        "LL008 2:1+2 aliases are not allowed: `*y`"],
                     id="aliases as keys"),
        pytest.param("a: !x 1", ["LL009 1:4+2 tags are not allowed: `!x`"], id="tag"),
        pytest.param("a: !!set {b, c}", ["LL009 1:4+5 tags are not allowed: `!!set`"],
                     id="tag of a mapping"),
        pytest.param("a: !\n", ["LL009 1:4+1 tags are not allowed: `!`"], id="bare tag"),
        pytest.param("%TAG ! tag:x,1:\n---\na: 1", ["LL009 1:1+4 tags are not allowed: `%TAG`"],
                     id="tag directive"),
        pytest.param("<<: {a: 1}", ["LL010 1:1+2 merge keys (`<<`) are not allowed"], id="merge"),
        pytest.param("{[a]: 1}", ["LL011 1:2+3 a key must be a string, not a list or a mapping"],
                     id="list as key"),
        pytest.param("? {a: 1}\n: 2", ["LL011 1:3+6 a key must be a string, not a list or a mapping"],
                     id="mapping as key"),
        pytest.param("a: 1\nb: 2\na: 3", ["LL012 3:1+1 the key `a` is given twice"], id="twice"),
        pytest.param("1: a\n'1': b", ["LL012 2:1+3 the key `1` is given twice"],
                     id="twice, once as a number"),
        pytest.param("a: 1\n--- \nb: 2", [SECOND], id="two documents"),
        pytest.param("[" * 51, ["LL006 1:51+1 more than 50 levels deep"], id="too deep"),
        pytest.param("- " * 60, ["LL006 1:101+1 more than 50 levels deep"], id="too deep in blocks"),
        pytest.param("a: x\x07", ["LL003 1:5+1 the character U+0007 is not allowed in YAML"],
                     id="control character"),
        pytest.param("a: 1\r\nb: \x9f", ["LL003 2:4+1 the character U+009F is not allowed in YAML"],
                     id="C1 character"),
        pytest.param("a: é\n\ufeff", ["LL003 2:1+1 the character U+FEFF is not allowed in YAML"],
                     id="byte order mark inside"),
        pytest.param("a: \ud800", ["LL003 1:4+1 the character U+D800 is not allowed in YAML"],
                     id="half a character"),
        pytest.param(b"a: 1\nb: \xff\n", [
            "LL002 2:4+1 the file is not UTF-8: byte 0xff is not allowed here"], id="not UTF-8"),
        pytest.param("a: é".encode("latin-1"), [
            "LL002 1:4+1 the file is not UTF-8: byte 0xe9 is not allowed here"], id="latin-1"),
        pytest.param("#" * ((1 << 20) + 1), ["LL001 `x.yaml` is larger than 1 MiB"], id="too large"),
        pytest.param("é" * (1 << 19) + "x", ["LL001 `x.yaml` is larger than 1 MiB"],
                     id="too large in bytes"),
    ],
)  # fmt: skip
def test_refused(text: str | bytes, words: list[str], parser: Any) -> None:
    assert told(text, parser) == words


NOT_ALLOWED = [*range(9), 11, 12, *range(14, 32), *range(127, 0x85), *range(0x86, 0xA0)]
NOT_ALLOWED += [0xD800, 0xDFFF, 0xFEFF, 0xFFFE, 0xFFFF]


@pytest.mark.parametrize("number", NOT_ALLOWED, ids=lambda number: f"U+{number:04X}")
def test_a_character_that_yaml_does_not_allow(number: int) -> None:
    words = f"LL003 1:5+1 the character U+{number:04X} is not allowed in YAML"
    assert told(f"a: x{chr(number)}y") == [words]
    assert told(f"a: é{chr(number)}y") == [words]


def test_what_cannot_be_used_leaves_gaps() -> None:
    root = parse("*x : 1\nb: !t 2\n? [c]\n: 3\n", "x.yaml").root
    broken = Text("", "broken", None)
    assert isinstance(root, Map)
    assert [
        (key._replace(mark=None), value._replace(mark=None)) for key, value in root.entries
    ] == [
        (Text("b", "str", "b"), broken),
        (broken, broken),
        (broken, broken),
    ]


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        pytest.param("key: 1", Mark(0, 0, 3, 0), id="its first piece"),
        pytest.param("- |\n  x\n", Mark(0, 0, 1, 0), id="one that spans several lines"),
        pytest.param("- *x", Mark(0, 0, 4, 0), id="one that is refused"),
        pytest.param("[a,\n b]", Mark(0, 0, 3, 1), id="brackets"),
    ],
)
def test_where_a_block_stands(text: str, mark: Mark) -> None:
    root = parse(text, "x.yaml").root
    assert root is not None
    assert root.mark == mark


def test_too_many_nodes() -> None:
    assert told("[" + "1, " * 50_000 + "1]") == [
        "LL005 1:149999+1 more than 50,000 nodes (keys, values, items) in one file"
    ]


def test_what_is_refused_does_not_stop_the_reading() -> None:
    document = parse("a: &x 1\nb: *x\nc: !t 2\n<<: {d: 1}\na: 5\ne: 6\n", "x.yaml")
    assert [problem.code for problem in document.problems] == [
        "LL008",
        "LL008",
        "LL009",
        "LL010",
        "LL012",
    ]
    assert document.root is not None
    assert plain(document.root) == {"a": 1, "b": None, "c": None, "e": 6}


def test_lines_are_those_the_parser_counts() -> None:
    document = parse("a: 1\u2028b: 2\x85c: 3\rd: *x\n", "x.yaml")
    assert document.source == Source("x.yaml", ["a: 1", "b: 2", "c: 3", "d: *x"])
    assert told("a: 1\u2028b: 2\x85c: 3\rd: *x\n") == ["LL008 4:4+2 aliases are not allowed: `*x`"]


@settings(deadline=None)
@given(st.text(max_size=40))
def test_both_parsers_agree_on_what_a_text_says(text: str) -> None:
    fast, pure = parse(text, "x.yaml"), parse(text, "x.yaml", PureParser)
    if fast.root is not None and pure.root is not None:
        assert plain(fast.root) == plain(pure.root)


def test_the_line_that_is_not_utf_8_is_shown() -> None:
    (problem,) = parse(b"a: 1\nb: 2\nc: \xff d\ne: 3\n", "x.yaml").problems
    assert problem.place is not None
    assert (problem.place.line, problem.place.source) == (3, "c: \ufffd d")
