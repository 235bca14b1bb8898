"""Machines as YAML: readable, and the same machine when read again."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from little_loops.authoring.dump import dump
from little_loops.authoring.fields.reader import Reader
from little_loops.authoring.load import load, load_data
from little_loops.authoring.paradigms import native
from little_loops.authoring.yaml.nodes import Map
from little_loops.authoring.yaml.source import parse
from little_loops.fsm.schema import FSMLoop
from tests.authoring.documents import documents


def loop_of(text: str) -> FSMLoop:
    definition = load(text, "x.yaml", "x")
    assert definition.loop is not None, definition.problems
    return definition.loop


def unchecked(text: str) -> FSMLoop:
    """Read without looking at templates, of which any text may hold half a one."""
    document = parse(text, "x.yaml")
    assert isinstance(document.root, Map), document.problems
    reader = Reader(document.source)
    loop = native.read(document.root, reader, "x").loop
    assert loop is not None, reader.problems
    return loop


def with_context(**context: Any) -> FSMLoop:
    data = {"name": "x", "initial": "a", "context": context, "states": {"a": {"terminal": True}}}
    return FSMLoop.from_dict(data)


@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(documents())
def test_compiled_written_and_read_again_it_is_the_same(document: Any) -> None:
    loop = load_data(document, "loop").loop
    if loop is None:
        return
    written = dump(loop, ["compiled from a law"])
    assert loop_of(written) == loop
    assert dump(loop_of(written), ["compiled from a law"]) == written


@settings(deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_text_comes_back_as_it_was(text: str) -> None:
    assert unchecked(
        dump(with_context(a=text, b=[text], c={"k": [text, {"l": text}]}))
    ).context == {
        "a": text,
        "b": [text],
        "c": {"k": [text, {"l": text}]},
    }


@settings(deadline=None)
@given(st.text(alphabet="ab:#-'\"\\|>&*!%@`{}[],?~ \t\n\r\x85\u2028y0.", max_size=12))
def test_text_full_of_signs_comes_back_as_it_was(text: str) -> None:
    loop = with_context(a=text, b={text: text})
    assert unchecked(dump(loop)).context == loop.context


@settings(deadline=None)
@given(st.text(alphabet="ab:#-'\"\\|>&*!%@`{}[],?~ \ty0.", min_size=1, max_size=8))
def test_another_reader_of_yaml_reads_the_same(text: str) -> None:
    loop = with_context(a=text, b=[1, 2.5, True, None, text])
    assert yaml.safe_load(dump(loop))["context"] == loop.context


def test_what_it_looks_like() -> None:
    source = """\
        name: look
        initial: check
        context: {dir: src/, version: 1.10, deep: {list: [1, {a: b, c: []}], none: null}}
        scope: [src/, tests/]
        states:
          check:
            action: |
              cd ${context.dir}
              pytest # all
            condition: {type: verdict, words: [good, bad]}
            on_good: done
            on_bad: $current
            timeout: 1h30m
            env: {PORT: 8080, "ON": "yes"}
          done:
            action: "echo 'bye: now'"
            terminal: true
        """
    assert dump(loop_of(dedent(source)), ["compiled from look.yaml", "", "by hand"]) == dedent("""\
        # compiled from look.yaml
        #
        # by hand
        name: look
        initial: check
        context:
          dir: src/
          version: "1.10"
          deep:
            list:
              - 1
              - a: b
                c: []
            none: null
        scope: [src/, tests/]
        states:
          check:
            action: |
              cd ${context.dir}
              pytest # all
            condition:
              type: verdict
              words: [good, bad]
            timeout: 5400
            env:
              PORT: "8080"
              "ON": "yes"
            on_good: done
            on_bad: $current
          done:
            action: "echo 'bye: now'"
            terminal: true
        """)


def test_what_a_reader_looks_for_comes_first() -> None:
    loop = loop_of(
        "scope: [src]\ncontext: {a: 1}\ntimeout: 5\nstates: {a: {terminal: true}}\ninitial: a\n"
        "paradigm: goal\ndescription: d\nname: n\n"
    )
    first = ["name", "description", "paradigm", "initial", "context", "scope"]
    assert list(yaml.safe_load(dump(loop))) == [*first, "timeout", "states"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("plain text", "plain text", id="plain"),
        pytest.param("/ll:check_code fix", "/ll:check_code fix", id="slash command"),
        pytest.param("yes", '"yes"', id="taken for a boolean"),
        pytest.param("12", '"12"', id="taken for a number"),
        pytest.param("2024-01-15", '"2024-01-15"', id="a date to others"),
        pytest.param("", '""', id="empty"),
        pytest.param("a: b", '"a: b"', id="colon"),
        pytest.param("x #y", '"x #y"', id="comment"),
        pytest.param(r"\d+", r"'\d+'", id="backslash"),
        pytest.param(r"it's \d", r'"it' + "'" + r's \\d"', id="backslash and quote"),
        pytest.param("bell\x07", r'"bell\u0007"', id="control character"),
        pytest.param("\U000e0001", r'"\U000e0001"'.replace(r"\U000e0001", "\U000e0001"), id="tag"),
        pytest.param("one\ntwo", "|-\n    one\n    two", id="block without end"),
        pytest.param("one\n\ntwo\n\n", "|+\n    one\n\n    two\n", id="block with more ends"),
        pytest.param(" one\ntwo", r'" one\ntwo"', id="no block can begin with a blank"),
        pytest.param("\n", r'"\n"', id="only a line end"),
        pytest.param(True, "true", id="true"),
        pytest.param(False, "false", id="false"),
        pytest.param(None, "null", id="null"),
        pytest.param(1.5, "1.5", id="number"),
        pytest.param([], "[]", id="empty list"),
        pytest.param({}, "{}", id="empty mapping"),
        pytest.param([[1], {}], "\n    - [1]\n    - {}", id="list of lists"),
        pytest.param(["long " * 5] * 4, "\n" + "\n".join(['    - "' + "long " * 5 + '"'] * 4),
                     id="long list"),
    ],
)  # fmt: skip
def test_values(value: Any, written: str) -> None:
    text = dump(with_context(key=value))
    start = text.index("key:") + len("key:")
    assert text[start : text.index("\nstates:")].removeprefix(" ") == written
    assert loop_of(text).context == {"key": value}
