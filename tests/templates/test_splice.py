"""The author's own values come first."""

from __future__ import annotations

import pytest

from little_loops.templates.parse import TemplateError
from little_loops.templates.render import render_text, splice
from little_loops.templates.splice import LONGEST, Unresolved, as_text, value_at


@pytest.mark.parametrize(
    ("text", "context", "result"),
    [
        pytest.param("${context.a}", {"a": "ls -l"}, "ls -l", id="a whole command"),
        pytest.param(
            "${context.cmd}",
            {"cmd": "mypy ${context.dir}", "dir": "src/"},
            "mypy src/",
            id="the design's self-reference",
        ),
        pytest.param(
            "${context.a}",
            {"a": "b ${captured.x.output} c"},
            "b ${captured.x.output} c",
            id="references to data stay",
        ),
        pytest.param("${context.a}", {"a": "$${b}"}, "$${b}", id="escapes stay"),
        pytest.param("${context.a.b.0}", {"a": {"b": ["x"]}}, "x", id="into maps and lists"),
        pytest.param("${context.a:-d}", {}, "d", id="a fallback for what is not there"),
        pytest.param("${context.a:-d}", {"a": None}, "d", id="a fallback for null"),
        pytest.param("${context.a:-d}", {"a": ""}, "d", id="a fallback for the empty text"),
        pytest.param("${context.a:-d}", {"a": 0}, "0", id="no fallback for zero"),
        pytest.param("${context.a:-d}", {"a": False}, "false", id="no fallback for false"),
        pytest.param("${context.a:raw}", {"a": "x y"}, "x y", id="raw changes nothing"),
        pytest.param("${context.a:q}", {"a": "x y"}, "${context.a:q}", id="q waits for its place"),
        pytest.param("${context.a}!", {"a": ["${context.b}"], "b": 1}, '["1"]!', id="in a list"),
        pytest.param("${prev.output}", {}, "${prev.output}", id="nothing of the author's"),
        pytest.param("${context.a}${context.a}", {"a": "x"}, "xx", id="twice"),
    ],
)
def test_context_is_spliced(text, context, result):
    assert splice(text, context) == result
    assert splice(result, context) == result


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.10", "0.10"),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (1.5, "1.5"),
        (-0.25, "-0.25"),
        ([1, "ä", None], '[1, "ä", null]'),
        ({"a": {"b": True}}, '{"a": {"b": true}}'),
    ],
)
def test_a_value_as_text(value, text):
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("context", "message"),
    [
        pytest.param(
            {"a": "${context.a}"},
            "circular reference between `context` values: `context.a` → `context.a`",
            id="itself",
        ),
        pytest.param(
            {"a": "${context.b}", "b": "x ${context.c:q}", "c": "${context.a}"},
            "circular reference between `context` values: "
            "`context.a` → `context.b` → `context.c` → `context.a`",
            id="a long way round",
        ),
        pytest.param(
            {"a": "${context.b}", "b": "${foo.x}"},
            "in `context.b`: unknown namespace `foo`",
            id="a mistake in a value",
        ),
        pytest.param(
            {f"{chr(97 + n)}": f"${{context.{chr(98 + n)}}}" * 2 for n in range(25)} | {"z": "zz"},
            "the message is longer than 1048576 characters once `context` is filled in",
            marks=pytest.mark.untraced,
            id="a value that grows without end",
        ),
        pytest.param(
            {f"{chr(97 + n)}": f"${{context.{chr(98 + n)}:q}}" * 2 for n in range(25)} | {"z": "z"},
            "the message is longer than 1048576 characters once `context` is filled in",
            marks=pytest.mark.untraced,
            id="one that grows in quotes",
        ),
        pytest.param(
            {"a": "${context.a0}", **{f"a{n}": f"${{context.a{n + 1}}}" for n in range(60)}},
            "`context` values refer to each other more than 50 levels deep",
            id="a chain",
        ),
    ],
)
def test_values_that_cannot_be_spliced(context, message):
    with pytest.raises(TemplateError) as caught:
        splice("say ${context.a}", context)
    assert (str(caught.value), caught.value.start, caught.value.end) == (message, 4, 16)


def test_the_longest_chain():
    context = {f"a{n}": f"${{context.a{n + 1}}}" for n in range(50)} | {"a50": "end"}
    assert splice("${context.a1}", context) == "end"
    with pytest.raises(TemplateError):
        splice("${context.a0}", context)


def test_a_mistake_in_the_text_itself_keeps_its_place():
    with pytest.raises(TemplateError) as caught:
        splice("say ${foo.a}", {})
    assert (str(caught.value), caught.value.start) == ("unknown namespace `foo`", 4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("${context.a}${captured.x.output}", "costs $", id="an escape nobody wrote"),
        pytest.param("${context.a}{captured.x.output}", "$", id="a reference nobody wrote"),
        pytest.param("${context.a}{foo.x}", "$", id="a mistake nobody made"),
    ],
)
def test_values_never_read_together_with_what_stands_beside_them(text, value):
    with pytest.raises(TemplateError) as caught:
        splice(text, {"a": value})
    assert str(caught.value) == (
        "a `context` value and the text next to it would together form a reference"
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param(
            ("chekc", "output"),
            "`captured.chekc.output` has no value; known: `captured.check`, `captured.fix`",
            id="no such name",
        ),
        pytest.param(
            ("check", "outptu"),
            "`captured.check.outptu` has no value; "
            "known: `captured.check.output`, `captured.check.list`",
            id="no such field",
        ),
        pytest.param(
            ("check", "list", "2"),
            "`captured.check.list.2` has no value; "
            "known: `captured.check.list.0`, `captured.check.list.1`",
            id="beyond a list",
        ),
        pytest.param(
            ("check", "list", "1" * 5000),
            f"`captured.check.list.{'1' * 5000}` has no value; "
            "known: `captured.check.list.1`, `captured.check.list.0`",
            id="far beyond a list",
        ),
        pytest.param(
            ("check", "output", "x"),
            "`captured.check.output.x` has no value",
            id="into a string",
        ),
    ],
)
def test_what_is_missing_is_named_with_what_is_there(path, message):
    captured = {"fix": {}, "check": {"output": "x", "list": ("a", "b")}}
    with pytest.raises(Unresolved) as caught:
        value_at(captured, path, "captured")
    assert str(caught.value) == message


def test_an_unknown_key_is_named():
    with pytest.raises(Unresolved) as caught:
        splice("${context.taget}", {"max": 1, "target": 2})
    assert str(caught.value) == (
        "`context.taget` has no value; known: `context.target`, `context.max`"
    )
    assert (caught.value.name, caught.value.known) == (
        "context.taget",
        ("context.target", "context.max"),
    )


def test_a_key_that_only_a_value_names_is_named():
    with pytest.raises(Unresolved) as caught:
        render_text("${context.a:words}", lambda _: "", {"a": ["${context.b}"]})
    assert caught.value.name == "context.b"


@pytest.mark.parametrize(("more", "fits"), [("", True), ("y", False)])
def test_how_long_a_text_may_become(more, fits):
    context = {"a": "x" * (1 << 20)}
    if fits:
        assert splice("${context.a}" + more, context) == context["a"]
    else:
        with pytest.raises(TemplateError, match="longer than 1048576 characters"):
            splice("${context.a}" + more, context)


@pytest.mark.parametrize(("levels", "fits"), [(50, True), (51, False)])
def test_how_deep_values_may_refer_to_each_other(levels, fits):
    context = {f"a{n}": f"${{context.a{n + 1}}}" for n in range(1, levels)} | {f"a{levels}": "x"}
    if fits:
        assert splice("${context.a1}", context) == "x"
    else:
        with pytest.raises(TemplateError, match="more than 50 levels deep"):
            splice("${context.a1}", context)


def test_a_text_that_gets_too_long_is_wrong_as_a_whole():
    text = "${context.a} ${context.a}"
    with pytest.raises(TemplateError, match="once `context` is filled in") as raised:
        splice(text, {"a": "x" * (LONGEST - 1)})
    assert (raised.value.start, raised.value.end) == (0, len(text))
