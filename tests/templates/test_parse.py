"""What is a reference, and what is only text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.templates.parse import (
    FIELDS,
    NAMESPACES,
    NUMBERS,
    Escape,
    Reference,
    TemplateError,
    classify,
    listed,
    nearest_first,
    parse,
    references,
    template_errors,
)


def told(text: str) -> list[str]:
    """The pieces of a string in few words: text, `escape`, or what a reference says."""
    pieces = []
    for piece in parse(text):
        match piece:
            case str():
                pieces.append(piece)
            case Escape():
                pieces.append("escape")
            case Reference():
                extra = [f":{piece.modifier}"] if piece.modifier else []
                extra += [f":-{piece.fallback}"] if piece.fallback is not None else []
                pieces.append(" ".join([">".join((piece.namespace, *piece.path)), *extra]))
    return pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("plain", ["plain"], id="text"),
        pytest.param("${context.a}", ["context>a"], id="a reference"),
        pytest.param("x${env.HOME}y", ["x", "env>HOME", "y"], id="in the middle"),
        pytest.param("${prev.output}${prev.state}", ["prev>output", "prev>state"], id="two"),
        pytest.param("${captured.check-it.output}", ["captured>check-it>output"], id="a dash"),
        pytest.param("${captured.a.structured.0.b}", ["captured>a>structured>0>b"], id="deep"),
        pytest.param("${captured.a.structured.größe}", ["captured>a>structured>größe"], id="ö"),
        pytest.param("${context.a:-b}", ["context>a :-b"], id="fallback"),
        pytest.param("${context.a:-}", ["context>a :-"], id="empty fallback"),
        pytest.param("${context.a:-a: b:-c}", ["context>a :-a: b:-c"], id="colons in a fallback"),
        pytest.param("${context.a:-{}}", ["context>a :-{}"], id="braces in a fallback"),
        pytest.param('${context.a:-{"b":{}}}!', ['context>a :-{"b":{}}', "!"], id="more braces"),
        pytest.param("${context.a:-$HOME}", ["context>a :-$HOME"], id="a dollar in a fallback"),
        pytest.param("${context.a:q}", ["context>a :q"], id="modifier"),
        pytest.param("${context.a:words:-b c}", ["context>a :words :-b c"], id="both"),
        pytest.param("$${", ["escape"], id="escape"),
        pytest.param("$${context.a}", ["escape", "context.a}"], id="escaped reference"),
        pytest.param("$$${context.a}", ["$", "escape", "context.a}"], id="dollar before an escape"),
        pytest.param("$$$${", ["$$", "escape"], id="dollars before an escape"),
        pytest.param("$$ ${context.a}", ["$$ ", "context>a"], id="process id"),
        pytest.param("${HOME} ${F%.txt} ${x:-y}", ["${HOME} ${F%.txt} ${x:-y}"], id="shell's own"),
        pytest.param("${#x} ${x##*.} ${x-a.b}", ["${#x} ${x##*.} ${x-a.b}"], id="with a dot"),
        pytest.param("${x[0]} ${!x} ${1} $x.y", ["${x[0]} ${!x} ${1} $x.y"], id="and more"),
        pytest.param("${ context.a }", ["${ context.a }"], id="blanks make it no reference"),
    ],
)
def test_a_text_is_read(text, pieces):
    assert told(text) == pieces


@pytest.mark.parametrize(
    ("text", "span", "message", "help"),
    [
        pytest.param(
            "a ${context.${key}}",
            "${context.${",
            "a reference inside a reference: `${context.…`",
            "references cannot be nested; write one after the other",
            id="nested in a path",
        ),
        pytest.param(
            "${context.a.${key}}",
            "${context.a.${",
            "a reference inside a reference: `${context.a…`",
            "references cannot be nested; write one after the other",
            id="nested at the end of a path",
        ),
        pytest.param(
            "${env.a:-${env.b}}",
            "${env.a:-${",
            "a reference inside a reference: `${env.a:-…`",
            "references cannot be nested; write one after the other",
            id="nested in a fallback",
        ),
        pytest.param(
            "${foo.bar}",
            "${foo.bar}",
            "unknown namespace `foo`",
            "did you mean `loop`? known: `context`, `captured`, `prev`, `state`, `loop`, `branch`, `env`; "
            "write `$${` for a literal `${`",
            id="unknown namespace",
        ),
        pytest.param(
            "${CONTEXT.bar}",
            "${CONTEXT.bar}",
            "unknown namespace `CONTEXT`",
            "did you mean `context`? known: `context`, `captured`, `prev`, `state`, `loop`, `branch`, `env`; "
            "write `$${` for a literal `${`",
            id="capitals",
        ),
        pytest.param(
            "${env.HOME:upper}",
            "${env.HOME:upper}",
            "unknown modifier `:upper`",
            "known: `:int`, `:number`, `:raw`, `:q`, `:words`; a fallback is written `:-text`",
            id="unknown modifier",
        ),
        pytest.param(
            "${env.N:int:-none}",
            "${env.N:int:-none}",
            "the fallback `none` of `:int` is not a whole number",
            "write a number, like `:-0`",
            id="a fallback that is not a number",
        ),
        pytest.param(
            "${env.HOME and",
            "${env.HOME ",
            "` ` is not allowed in a reference: `${env.HOME `",
            "write `${namespace.name}` or `${namespace.name:-fallback}`; `$${` gives a literal `${`",
            id="a blank",
        ),
        pytest.param(
            "${env.}",
            "${env.}",
            "`}` is not allowed in a reference: `${env.}`",
            "write `${namespace.name}` or `${namespace.name:-fallback}`; `$${` gives a literal `${`",
            id="no name",
        ),
        pytest.param(
            "${env.F%.txt}",
            "${env.F%",
            "`%` is not allowed in a reference: `${env.F%`",
            "write `${namespace.name}` or `${namespace.name:-fallback}`; `$${` gives a literal `${`",
            id="shell operators",
        ),
        pytest.param(
            "x ${env.HOME",
            "${env.HOME",
            "`${env.HOME` has no closing brace",
            "close it with `}`, or write `$${` for a literal `${`",
            id="not closed",
        ),
        pytest.param(
            "${env.HOME:-a\nb}",
            "${env.HOME:-a",
            "`${env.HOME:-a` has no closing brace",
            "close it with `}`, or write `$${` for a literal `${`",
            id="a fallback over two lines",
        ),
        pytest.param(
            "${env.HOME:-{a}",
            "${env.HOME:-{a}",
            "`${env.HOME:-{a}` has no closing brace",
            "close it with `}`, or write `$${` for a literal `${`",
            id="one brace too few in a fallback",
        ),
    ],
)
def test_a_mistake_is_explained(text, span, message, help):
    with pytest.raises(TemplateError) as caught:
        parse(text)
    problem = caught.value
    shown = text[problem.start : problem.end]
    assert (shown.startswith(span), str(problem), problem.help) == (True, message, help)


def test_all_mistakes_are_found():
    text = "${foo.a} ${env.HOME} ${context.${bar.x}} ${env.A:b}"
    assert [str(problem) for problem in template_errors(text)] == [
        "unknown namespace `foo`",
        "a reference inside a reference: `${context.…`",
        "unknown namespace `bar`",
        "unknown modifier `:b`",
    ]


def test_a_reference_knows_where_it_was_written():
    text = "a ${env.A:q:-b} c"
    (found,) = references(text)
    assert found == Reference("env", ("A",), "q", "b", "${env.A:q:-b}", 2, 15)
    assert text[found.start : found.end] == found.text
    assert found.name == "env.A"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *[(f"context.{name}", "code") for name in ("a", "a.b")],
        *[(f"state.{name}", "inert") for name in ("name", "iteration", "attempt")],
        *[(f"loop.{name}", "inert") for name in ("name", "cycle", "elapsed", "elapsed_ms")],
        *[(f"loop.{name}", "inert") for name in ("started_at", "run_id")],
        *[(f"loop.{name}", "data") for name in ("run_dir", "continuation", "name.x")],
        *[(f"prev.{name}", "inert") for name in ("state", "exit_code", "duration_ms")],
        *[(f"prev.{name}", "data") for name in ("output", "stderr", "file", "state.x")],
        *[(f"captured.x.{name}", "inert") for name in ("exit_code", "duration_ms")],
        *[(f"captured.x.{name}", "data") for name in ("output", "stderr", "file", "session_id")],
        *[(f"captured.x.{name}", "data") for name in ("turns", "structured.exit_code", "result.n")],
        *[(f"captured.x.{name}", "inert") for name in ("cost_usd", "status", "reason")],
        *[(f"captured.x.{name}", "inert") for name in ("final_state", "iterations", "total")],
        *[(f"captured.x.{name}", "inert") for name in ("passed", "failed")],
        *[(f"branch.{name}", "inert") for name in ("index", "name")],
        *[(f"branch.{name}", "data") for name in ("item", "name.x", "item.index")],
        ("captured.exit_code", "data"),
        *[
            (f"{name}:{modifier}", "inert")
            for name in ("env.A", "context.a")
            for modifier in NUMBERS
        ],
        ("captured.structured.exit_code", "inert"),
        ("env.exit_code", "data"),
    ],
)
def test_how_far_a_value_is_trusted(name, kind):
    (found,) = references(f"${{{name}:-0}}")
    assert classify(found) == kind


def test_every_field_has_a_kind():
    inert = {"state": 3, "loop": 6, "prev": 11}
    for namespace, fields in FIELDS.items():
        kinds = [classify(references(f"${{{namespace}.{field}}}")[0]) for field in fields]
        assert kinds.count("inert") == inert[namespace]


def test_names_are_sorted_by_likeness():
    assert nearest_first("chekc", ("fix", "check", "chuck")) == ("check", "chuck", "fix")
    assert nearest_first("evn", ("state", "context", "prev", "env"))[:2] == ("env", "prev")
    unlike = ("context", "branch", "env")
    assert nearest_first("stat", unlike) == unlike


def test_a_long_list_is_cut():
    assert listed(("a", "b", "c"), most=2) == "`a`, `b` and 1 more"
    assert listed(("a", "b"), most=2) == "`a`, `b`"
    assert listed(tuple("abcdefghij")).endswith(", `j`")
    assert listed(tuple("abcdefghijk")).endswith(", `j` and 1 more")


def test_a_long_mistake_is_cut():
    (problem,) = template_errors("${env.A:-" + "x" * 1000)
    assert str(problem) == "`${env.A:-" + "x" * 71 + "` has no closing brace"


templates = st.lists(
    st.one_of(
        st.sampled_from(["$", "{", "}", "$${", "${", "${HOME}", ":-", ":q", ".", "\n", "\\"]),
        st.sampled_from([f"${{{name}.a" for name in NAMESPACES]),
        st.text(max_size=3),
    )
).map("".join)


@given(templates)
def test_the_pieces_of_a_text_give_it_back(text):
    problems = template_errors(text)
    assert all(0 <= problem.start < problem.end <= len(text) for problem in problems)
    if problems:
        with pytest.raises(TemplateError) as caught:
            parse(text)
        assert caught.value.message == problems[0].message
        return
    pieces = parse(text)
    assert "".join(p if isinstance(p, str) else p.text for p in pieces) == text
    for piece in pieces:
        if not isinstance(piece, str):
            assert text[piece.start : piece.end] == piece.text
