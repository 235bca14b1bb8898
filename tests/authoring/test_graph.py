"""A loop drawn, as whole pictures."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given

from little_loops.authoring.graph import as_dot, as_mermaid, as_text
from little_loops.fsm.schema import FSMLoop, HostOptions, StateConfig
from tests.authoring.machines import loops

LINT = FSMLoop(
    "lint",
    "check",
    {
        "check": StateConfig(action="ruff check src/", on_pass="done", on_fail="fix"),
        "fix": StateConfig(action="/ll:check_code fix", next="check"),
        "done": StateConfig(terminal=True),
    },
)
ODD = FSMLoop(
    "odd",
    "end",
    {
        "state": StateConfig(condition=None, next="end", on_interrupt="$error"),
        "end": StateConfig(
            action='echo "${context.what}" \\ <b>; #1\x1b[2J\n# more',
            on_pass="$current",
            on_words={"part": "note"},
            route={"rest": "nowhere"},
        ),
        "note": StateConfig(
            action="Look " + "closely " * 20,
            action_type="prompt",
            host=HostOptions("codex"),
            terminal=True,
            on_maintain="state",
        ),
        "x": StateConfig(action="ls", terminal=True, outcome="failure"),
        "blank": StateConfig(action=" ", on_error="x"),
    },
    context={"what": "it"},
    on_error="note",
    on_interrupt="x",
)


@pytest.mark.parametrize(
    ("loop", "ascii_only", "expected"),
    [
        pytest.param(
            LINT,
            False,
            """\
            ▶ check    $ ruff check src/
                ├ pass  → done
                └ fail  → fix
              fix      claude: /ll:check_code fix
                └ next  → check ↑
            ■ done     success""",
            id="as in the manual",
        ),
        pytest.param(
            LINT,
            True,
            """\
            > check    $ ruff check src/
                |- pass  -> done
                `- fail  -> fix
              fix      claude: /ll:check_code fix
                `- next  -> check ^
            # done     success""",
            id="in plain letters",
        ),
        pytest.param(
            FSMLoop(
                "gate",
                "ask",
                {
                    "ask": StateConfig(
                        terminal=True, outcome="review", on_rejected="no", choices=("ask", "no")
                    ),
                    "no": StateConfig(terminal=True),
                },
            ),
            False,
            """\
            ▶ ask      review
                ├ rejected  → no
                ├ choice    → ask ↑
                └ choice    → no
            ■ no       success, failure when entered via on_rejected""",
            id="a gate",
        ),
        pytest.param(
            FSMLoop(
                "all",
                "a",
                {
                    "a": StateConfig(
                        action="ls",
                        on_pass="b",
                        on_fail="b",
                        on_target="b",
                        on_progress="b",
                        on_stall="b",
                        next="b",
                        on_error="b",
                        on_timeout="b",
                        on_tampered="b",
                        on_out_of_scope="b",
                        on_flaky="b",
                        on_stalled="b",
                        on_conflict="b",
                        on_rejected="b",
                        on_interrupt="b",
                        on_maintain="b",
                    ),
                    "b": StateConfig(terminal=True),
                },
            ),
            True,
            """\
            > a        $ ls
                |- pass          -> b
                |- fail          -> b
                |- target        -> b
                |- progress      -> b
                |- stall         -> b
                |- next          -> b
                |- error         -> b
                |- timeout       -> b
                |- tampered      -> b
                |- out_of_scope  -> b
                |- flaky         -> b
                |- stalled       -> b
                |- conflict      -> b
                |- rejected      -> b
                |- interrupt     -> b
                `- maintain      -> b
            # b        success, failure when entered via on_conflict or on_error or on_flaky or \
on_out_of_scope or on_stall or on_stalled or on_tampered or on_timeout""",
            id="every transition",
        ),
        pytest.param(
            ODD,
            False,
            """\
              state    decides
                ├ next       → end
                └ interrupt  → $error
            ▶ end      $ echo "it" \\ <b>; #1\\x1b[2J…
                ├ part       → note
                ├ rest       → nowhere
                └ pass       → $current
            ■ note     success, failure when entered via on_error · codex: Look closely closely \
closely closely closely closely closely…
                └ maintain   → state ↑
            ■ x        failure · $ ls
              blank    $
                └ error      → x ↑
              (any)
                ├ error      → note
                └ interrupt  → x""",
            id="odd",
        ),
    ],
)
def test_as_text(loop: FSMLoop, ascii_only: bool, expected: str) -> None:
    assert as_text(loop, ascii_only=ascii_only) == dedent(expected)


def test_a_label_is_shown_instead_of_the_script() -> None:
    script = StateConfig(action="probe || exit 127\npytest -q", label="pytest -q", next="done")
    loop = FSMLoop("labelled", "check", {"check": script, "done": StateConfig(terminal=True)})
    assert as_text(loop).splitlines()[0] == "▶ check    $ pytest -q"


@pytest.mark.parametrize(
    ("given", "first"),
    [
        pytest.param(
            {"branches": {"lint": {"action": "ruff"}, "types": {"action": "mypy"}}},
            "▶ checks   lint, types",
            id="named",
        ),
        pytest.param(
            {"for_each": ["a", "b"], "action": "cat ${branch.item}"},
            "▶ checks   each: $ cat ${branch.item}",
            id="for each item",
        ),
    ],
)
def test_branches_are_named(given: dict[str, object], first: str) -> None:
    states = {"checks": given | {"on_pass": "done", "on_fail": "done"}, "done": {"terminal": True}}
    loop = FSMLoop.from_dict({"name": "g", "initial": "checks", "states": states})
    assert as_text(loop).splitlines()[0] == first


def test_as_mermaid() -> None:
    assert as_mermaid(ODD) == dedent("""\
        stateDiagram-v2
            state "state" as s0
            state "end<br>#36; echo #34;it#34; #92; #60;b#62;#59; #35;1#92;x1b#91;2J#8230;" as s1
            state "note<br>codex#58; Look closely closely closely closely closely closely \
closely#8230;" as s2
            state "x<br>#36; ls" as s3
            state "blank<br>#36; " as s4
            [*] --> s1
            s0 --> s1: next
            s0 --> s2: error
            s1 --> s2: part
            s1 --> s1: pass
            s1 --> s2: error
            s1 --> s3: interrupt
            s2 --> s0: maintain
            s4 --> s3: error
            s4 --> s3: interrupt
            s2 --> [*]: success, failure when entered via on_error
            s3 --> [*]: failure""")


def test_as_dot() -> None:
    assert as_dot(LINT) == dedent("""\
        digraph "lint" {
            rankdir=TB;
            node [shape=box];
            s0 [label="check\\n$ ruff check src/"];
            s1 [label="fix\\nclaude: /ll:check_code fix"];
            s2 [label="done\\nsuccess", peripheries=2];
            start [shape=point];
            start -> s0;
            s0 -> s2 [label="pass"];
            s0 -> s1 [label="fail"];
            s1 -> s0 [label="next"];
        }""")
    assert r's1 [label="end\n$ echo \"it\" \\ <b>; #1\\x1b[2J…"];' in as_dot(ODD)


def test_a_start_that_does_not_exist_is_not_drawn() -> None:
    lost = LINT._replace(initial="nowhere")
    assert "[*] --> s0" not in as_mermaid(lost)
    assert "start ->" not in as_dot(lost)


@given(loops)
def test_every_state_is_drawn_and_no_control_character(loop: FSMLoop) -> None:
    for drawn in (as_text(loop), as_text(loop, ascii_only=True), as_mermaid(loop), as_dot(loop)):
        assert all(name in drawn for name in loop.states)
        assert all(char.isprintable() for char in drawn.replace("\n", ""))


def test_letters_of_other_alphabets_are_escaped_for_mermaid():
    loop = FSMLoop("l", "prüfen", {"prüfen": StateConfig(terminal=True)})
    assert "ü" not in as_mermaid(loop)
    assert "pr#252;fen" in as_mermaid(loop)
