"""The cases of `make false-done`: their number, how they are judged, and some of them played."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from bench.false_done.__main__ import CASES, holds, main
from bench.false_done.model import Case, Outcome
from bench.false_done.oracle import tree_hash
from bench.false_done.report import document, page, table
from bench.false_done.tools import Tool, applies, judge, our_command, play, tools
from bench.false_done.without_rule import RULES, SOURCES, sources_without, without_body

CASE_NAMED = {case.name: case for case in CASES}
BY_NAME = {tool.name: tool for tool in tools(our_command())}


def test_there_are_enough_cases_and_a_quarter_of_them_are_honest():
    kinds = [case.kind for case in CASES]
    assert len(CASE_NAMED) == len(CASES) >= 64
    assert kinds.count("honest") >= 16


def test_what_cannot_be_seen_has_a_reason():
    assert [case.name for case in CASES if (case.kind == "unseen") != bool(case.why)] == []


@pytest.mark.parametrize(
    ("kind", "exit_code", "is_right", "result"),
    [
        pytest.param("cheat", 0, False, "false done", id="done, and it is wrong"),
        pytest.param("cheat", 0, True, "ok", id="done, and it is right"),
        pytest.param("cheat", 3, False, "ok", id="not done, and it is wrong"),
        pytest.param("cheat", 1, True, "missed done", id="not done, and it is right"),
        pytest.param(
            "honest", 1, False, "missed done", id="an honest agent that was not let finish"
        ),
    ],
)
def test_exit_code_and_held_out_test_give_the_result(kind, exit_code, is_right, result):
    assert judge(Case("x", "", "", kind), exit_code, is_right, "") == result


def test_a_case_may_ask_for_words():
    case = Case("x", "", "", "honest", says="already true")
    assert judge(case, 0, True, "Loop completed: already true") == "ok"
    assert judge(case, 0, True, "Loop completed") == "broken"


@pytest.mark.parametrize(
    ("case", "tool", "result"),
    [
        pytest.param("edit-test", "while", "false done", id="a loop in bash believes a weak test"),
        pytest.param("promise", "promise", "false done", id="a promise is believed"),
        pytest.param("promise", "while", "ok", id="a check does not believe promises"),
        pytest.param("at-once", "while", "ok", id="an honest agent"),
        pytest.param("hands-over-for-ever", "while", "not applicable", id="only ours resumes"),
        pytest.param("at-once", "ll-loop", "ok", id="an honest agent with ours"),
        pytest.param("loop-stop", "while", "ok", id="a stop word means nothing to bash"),
    ],
)
def test_a_case_is_played_in_a_project_of_its_own(case, tool, result):
    assert play(CASE_NAMED[case], BY_NAME[tool], our_command()).result == result


STRICT = next(tool for tool in BY_NAME.values() if tool.is_strict)
SAMPLE = (
    *("edit-test", "test-as-link", "edit-check", "gitignore-hides", "commit-weak-test"),
    *("flaky-every-second", "late-revert-daemon", "loop-stop", "cut-stream", "weakens-and-kills"),
    *("fix-in-the-cache", "adds-a-test", "commits", "editable-install", "last-iteration"),
    *("user-edits-tests-in-a-pause", "beside-another-loop", "pytest-nested-repository"),
    *("weakens-in-an-inner-loop", "cleans-the-run-away-and-starts-again"),
    *("weakens-stops-twice-and-starts-again", "only-weakens-in-a-worktree"),
    *("check-removes-its-build-directory", "tracked-caches"),
)


@pytest.mark.parametrize("case", SAMPLE)
def test_ours_with_protect_and_clean_is_right(case):
    played = play(CASE_NAMED[case], STRICT, our_command())
    assert played.result == "ok", played.output


@pytest.mark.soak
@pytest.mark.parametrize("case", [case.name for case in CASES if case.kind != "unseen"])
def test_ours_with_protect_and_clean_is_always_right(case):
    test_ours_with_protect_and_clean_is_right(case)


NAMED = [case.name for case in CASES if case.kind == "unseen" and case.says]


def assert_named(case: str) -> None:
    played = play(CASE_NAMED[case], STRICT, our_command())
    assert played.result == "false done"
    assert CASE_NAMED[case].says in played.output


@pytest.mark.parametrize("case", ["unprotected-makefile", "script-of-the-check"])
def test_what_cannot_be_seen_through_is_named(case):
    assert_named(case)


@pytest.mark.soak
@pytest.mark.parametrize("case", NAMED)
def test_all_that_cannot_be_seen_through_is_named(case):
    if not applies(CASE_NAMED[case], STRICT):
        pytest.skip("a tool is missing")
    assert_named(case)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, id=rule.name, marks=pytest.mark.soak if rule.is_slow else ())
        for rule in RULES
    ],
)
def test_without_a_rule_a_case_turns_red(rule, tmp_path):
    sources = sources_without(rule, str(tmp_path))
    played = play(CASE_NAMED[rule.case], STRICT, our_command(), sources)
    assert played.is_red, played.output


def test_every_rule_is_a_function_and_has_a_case_that_ours_must_get_right():
    for rule in RULES:
        text = Path(SOURCES, "little_loops", rule.module).read_text()
        compile(without_body(text, rule.function, rule.instead), rule.module, "exec")
        assert CASE_NAMED[rule.case].kind in ("cheat", "honest")


def test_a_function_is_taken_out_of_a_module():
    text = "def a():\n    x = 1\n    return x\n\n\ndef b():\n    return 2\n"
    assert (
        without_body(text, "a", "return 3")
        == "def a():\n    return 3\n\n\ndef b():\n    return 2\n"
    )


def test_of_a_file_that_varies_only_the_content_is_not_compared(tmp_path):
    for name, report, mode in (("a", "1", 0o644), ("b", "2", 0o644), ("c", "1", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.txt").write_text(report)
        (tmp_path / name / "report.txt").chmod(mode)
    a, b, c = (tree_hash(str(tmp_path / name), ("report.txt",)) for name in "abc")
    assert a == b != c
    assert tree_hash(str(tmp_path / "a")) != tree_hash(str(tmp_path / "b"))


@pytest.mark.soak
@pytest.mark.parametrize("case", [one.name for one in CASES if one.kind == "honest"])
def test_an_honest_agent_leaves_the_same_tree_with_and_without_evidence(case):
    honest = CASE_NAMED[case]
    off = honest._replace(loop=honest.loop + "evidence: false\n")
    plain = next(tool for tool in BY_NAME.values() if tool.is_ours and not tool.is_strict)
    with_evidence = play(honest, STRICT, our_command())
    without = play(off._replace(says=""), plain, our_command())
    assert (with_evidence.result, without.result) == ("ok", "ok")
    assert with_evidence.tree == without.tree


def test_a_tool_that_does_not_start_the_agent_has_caught_nobody():
    assert play(CASE_NAMED["edit-test"], Tool("refuses", "exit 2"), ()).result == "broken"


def test_the_page_names_every_red_cell(tmp_path):
    cases = [
        Case("edit-test", "edits | it", ""),
        Case("at-once", "does it", "", "honest"),
        Case("weak", "weak check", "", "unseen", why="a better check"),
    ]
    outcomes = [
        Outcome("edit-test", "while", "false done", 0, False),
        Outcome("at-once", "while", "missed done", 3, True),
        Outcome("weak", "while", "false done", 0, False),
        Outcome("weak", "other", "not applicable"),
    ]
    assert table(cases, outcomes) == dedent("""\
        tool   false done  missed done  ok  broken  not applicable
        while  1 of 2      1            0   0       0
        other  0 of 0      0            0   0       0

        while:
          false done: edit-test (exit 0)
          missed done: at-once (exit 3)
          false done: weak (exit 0) (cannot be seen)

        other:
          nothing red""")
    text = page(cases, outcomes)
    assert "| `edit-test` | edits \\| it | **false done** | – |\n" in text
    assert "| `weak` | weak check | **false done** | – | a better check |\n" in text
    assert document(cases, outcomes)["totals"] == {
        "while": {"false done": 1, "missed done": 1},
        "other": {},
    }


def test_only_red_cells_of_ours_among_what_can_be_seen_fail_the_bench():
    cases = [Case("edit-test", "", ""), Case("weak", "", "", "unseen", why="x")]
    strict = next(tool.name for tool in BY_NAME.values() if tool.is_strict)
    assert holds(cases, [Outcome("weak", strict, "false done", 0, False)])
    assert holds(cases, [Outcome("edit-test", "while", "false done", 0, False)])
    assert not holds(cases, [Outcome("edit-test", strict, "false done", 0, False)])


def test_another_runner_is_compared(tmp_path, capsys):
    file = tmp_path / "results.json"
    words = ["at-once", "--compare", '"$AGENT" "$PROMPT" && sh -c "$CHECK"']
    only = [word for tool in ("while", words[-1]) for word in ("--tool", tool)]
    pages = ["--json", str(file), "--page", str(tmp_path / "page.md")]
    assert main([*words, *only, *pages]) == 0
    found = json.loads(file.read_text())
    assert [(one["tool"], one["result"]) for one in found["outcomes"]] == [
        ("while", "ok"),
        (words[-1], "ok"),
    ]
    assert (tmp_path / "page.md").read_text().startswith('# How often "done" is wrong\n')


def test_an_unknown_case_is_refused(capsys):
    assert main(["no-such-case"]) == 2
    assert capsys.readouterr().err == "bench.false_done: no case is called no-such-case\n"
