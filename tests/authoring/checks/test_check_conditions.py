"""What is said about conditions that cannot judge."""

from __future__ import annotations

import pytest

from little_loops.authoring.checks.check_conditions import Compiler
from tests.authoring.telling import row, told


def judging(condition: str, context: str = "{}") -> str:
    return f"""\
        initial: check
        context: {context}
        states:
          check: {{action: ls, capture: count, on_pass: decide, on_fail: check}}
          decide:
            condition: {{{condition}}}
            on_pass: done
            on_fail: check
          done: {{terminal: true}}
        """


CONDITIONS = [
    row(
        "source, misspelt",
        judging("type: output_numeric, target: 0, source: cuont"),
        """
        error[LL207] 6:58 cuont
          `source` does not name a state or capture: `cuont`
          help: did you mean `count`?
        """,
    ),
    row(
        "source without a result",
        judging("type: not, of: {type: exit_code, source: done}"),
        """
        error[LL207] 6:58 done
          `source` names state `done`, which has no action and therefore no result
          help: name a state with an action, or a capture
        """,
    ),
    row("source, a state", judging("type: exit_code, source: check"), ""),
    row("source, a capture", judging("type: exit_code, source: count"), ""),
    row(
        "source, a check that judges itself, too",
        judging("type: output_contains, source: count, pattern: x").replace(
            "on_pass: decide, on_fail: check", "check: true, next: decide"
        ),
        """
        warning[LL326] 6:40 source
          this judges what `check` printed, but a repeated check counts by its own condition
          help: move this condition to `check`, or give it `capture_exit: true` and `next`
        """,
    ),
    row(
        "source, a check that only stores its result",
        judging("type: output_contains, source: check, pattern: x").replace(
            "on_pass: decide, on_fail: check", "check: true, capture_exit: true, next: decide"
        ),
        "",
    ),
    row(
        "a code that is known later, beside those that fail",
        judging(
            'type: exit_code, source: check, target: "${context.code}", fail: [1]', "{code: 3}"
        ),
        "",
    ),
    row("source, a template", judging('type: exit_code, source: "${prev.exit_code}"'), ""),
    row(
        "a target that is no number",
        judging('type: output_numeric, target: "${context.most}", source: check', "{most: a few}"),
        """
        error[LL208] 6:47 "${context.most}"
          `target` is not a number: `a few`
          help: write a number, or a template that gives one
        """,
    ),
    row(
        "a target that is known later",
        judging('type: output_numeric, target: "${captured.count.output}", source: check'),
        "",
    ),
    row(
        "a target that is no number, and need not be",
        judging('type: output_json, path: .a, target: "${context.a}", source: check', "{a: text}"),
        "",
    ),
    row(
        "a pattern with look-around",
        judging("type: output_contains, pattern: 'ok(?!ay)', source: check"),
        """
        error[LL209] 6:49 'ok(?!ay)'
          `ok(?!ay)` is not a valid pattern: invalid perl operator `(?!`
          help: lookarounds and backreferences are not supported; `regex: false` matches the text literally
        """,
    ),
    row(
        "a variable that is no pattern, and one that is",
        judging(
            "type: any, source: check, of: ["
            "{type: output_contains, pattern: '${context.words}'}, "
            "{type: output_contains, pattern: '${context.look}'}]",
            "{words: all (, look: ok(?!ay)}",
        ),
        """
        error[LL209] 6:135 '${context.look}'
          `ok(?!ay)` is not a valid pattern: invalid perl operator `(?!`
          help: lookarounds and backreferences are not supported; `regex: false` matches the text literally
        """,
    ),
    row(
        "a broken pattern that must be one, twice",
        judging(
            "type: all, source: check, of: [{type: output_contains, pattern: '(', regex: true}, "
            "{type: output_contains, pattern: '(', regex: true}]"
        ),
        """
        error[LL209] 6:81 '('
          `(` is not a valid pattern: missing `)`
          help: lookarounds and backreferences are not supported; `regex: false` matches the text literally
        error[LL209] 6:133 '('
          `(` is not a valid pattern: missing `)`
          help: lookarounds and backreferences are not supported; `regex: false` matches the text literally
        """,
    ),
    row(
        "patterns there is nothing to say about",
        judging(
            "type: any, source: check, of: [{type: output_contains, pattern: 'all ('}, "
            "{type: output_contains, pattern: 'ok'}, {type: output_contains, pattern: '^ok$'}, "
            "{type: output_contains, pattern: '(${env.X}'}]"
        ),
        "",
    ),
    row(
        "no jq filter",
        judging("type: output_json, path: '.a[', target: 0, source: check"),
        """
        error[LL210] 6:42 '.a['
          `.a[` is not a valid jq filter: syntax error, unexpected end of file
          help: try it on some output: `… | jq '<path>'`
        """,
    ),
    row(
        "the same filter twice",
        judging(
            "type: any, source: check, of: [{type: output_json, path: .a, target: 0}, "
            "{type: output_json, path: .a, target: 1}]"
        ),
        "",
    ),
    row(
        "filters that are not compiled",
        judging(
            "type: any, source: check, of: [{type: output_json, path: '\"x\" * 1000000000', "
            "target: 0}, {type: output_json, path: '.[${context.i}]', target: 0}, "
            "{type: output_json, path: .a, target: 0}]",
            "{i: 1}",
        ),
        "",
    ),
    row(
        "a pattern, a filter, a code and a tolerance that variables make wrong",
        """\
        initial: check
        context: {pattern: "ok(?!ay)", path: ".a[", code: 256, near: "-1", dollar: "$${x"}
        states:
          check:
            action: make
            condition:
              type: all
              of:
                - {type: output_contains, pattern: "^${context.pattern}$"}
                - {type: output_json, path: "${context.path}", target: 0}
                - {type: exit_code, target: "${context.code}"}
                - {type: output_contains, pattern: "${context.dollar}("}
            next: measure
          measure:
            action: make
            condition: {type: convergence, target: 0, tolerance: "${context.near}"}
            next: done
          done: {terminal: true}
        """,
        """
        error[LL209] 9:44 "^${context.pattern}$"
          `^ok(?!ay)$` is not a valid pattern: invalid perl operator `(?!`
          help: lookarounds and backreferences are not supported; `regex: false` matches the text literally
        error[LL210] 10:37 "${context.path}"
          `.a[` is not a valid jq filter: syntax error, unexpected end of file
          help: try it on some output: `… | jq '<path>'`
        error[LL208] 11:37 "${context.code}"
          `target` is not an exit code: `256`
          help: write a number, or a template that gives one
        error[LL208] 16:58 "${context.near}"
          `tolerance` must be at least 0, not `-1`
          help: write a number, or a template that gives one
        """,
    ),
    row(
        "on_target without a target",
        """\
        initial: measure
        states:
          measure: {action: count, on_target: done, on_progress: measure, on_stall: done}
          done: {terminal: true}
        """,
        """
        error[LL211] 3:28 on_target
          state `measure` has `on_target` but no condition, and `context` has no `target`
          help: add `target: <number>` to `context`, or a condition of type `convergence`
        """,
    ),
    row(
        "an implied target that is no number",
        """\
        initial: measure
        context: {target: none, tolerance: 1}
        states:
          measure: {action: count, on_target: done, on_progress: measure, on_stall: done}
          done: {terminal: true}
        """,
        """
        error[LL208] 2:19 none
          `target` is not a number: `none`
          help: write a number, or a template that gives one
        """,
    ),
    row(
        "an implied tolerance of the state's own that is no number",
        """\
        initial: measure
        context: {target: 0}
        states:
          measure:
            action: count
            context: {tolerance: little}
            on_target: done
            on_progress: measure
            on_stall: done
          done: {terminal: true}
        """,
        """
        error[LL208] 6:26 little
          `tolerance` is not a number: `little`
          help: write a number, or a template that gives one
        """,
    ),
]


@pytest.mark.parametrize(("source", "expected"), CONDITIONS)
def test_each_problem_has_its_words_and_its_place(source: str, expected: str) -> None:
    assert told(source) == expected


@pytest.mark.parametrize(("length", "is_looked_at"), [(399_999, True), (400_000, False)])
def test_so_much_of_wrong_patterns_is_looked_at(length: int, is_looked_at: bool) -> None:
    compiler = Compiler()
    compiler.pattern_error("(" + "a" * (length - 1))
    assert (compiler.pattern_error("(b") is not None) is is_looked_at


def test_so_many_patterns_that_are_too_large_are_looked_at() -> None:
    compiler = Compiler()
    errors = [compiler.pattern_error(f"\\pL{{1000}}{number}") for number in range(5)]
    assert [error is not None for error in errors] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("path", "is_looked_at"),
    [
        pytest.param("[" * 10_000, True, id="as long as it may be"),
        pytest.param("[" * 10_001, False, id="longer"),
        pytest.param('.a * "x" [', False, id="a text that is repeated"),
        pytest.param(".a * 2 [", True, id="a product"),
        pytest.param('"x" [', True, id="a text"),
    ],
)
def test_which_filters_are_looked_at(path: str, is_looked_at: bool) -> None:
    assert (Compiler().filter_error(path) is not None) is is_looked_at


def test_so_many_filters_are_looked_at() -> None:
    compiler = Compiler()
    errors = [compiler.filter_error(f"[{number}") for number in range(101)]
    assert [error is not None for error in errors] == [True] * 100 + [False]
