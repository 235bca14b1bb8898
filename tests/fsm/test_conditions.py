"""From what was seen to a verdict with its reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.fsm.conditions import Observation, judge, leaves, needs_bound, reading
from little_loops.fsm.schema import (
    All,
    AnyOf,
    Convergence,
    ExitCode,
    Not,
    OutputContains,
    OutputJson,
    OutputNumeric,
    VerdictWords,
)
from little_loops.fsm.state import Judgement, Metric

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=60)


def printed(output, *, exit_code=0, truncated=False):
    return Observation(exit_code, None, output, truncated)


def ended(code):
    return Observation(code, None, "")


def say(judgement):
    return f"{judgement.verdict}: {judgement.reason}"


# Exit codes


@pytest.mark.parametrize(
    ("condition", "code", "said"),
    [
        pytest.param(ExitCode(), 0, "pass: exit 0", id="0"),
        pytest.param(ExitCode(), 1, "fail: exit 1", id="1"),
        pytest.param(ExitCode(), 2, "error: exit 2", id="2"),
        pytest.param(ExitCode(), 127, "error: exit 127", id="127"),
        pytest.param(ExitCode(target=2), 2, "pass: exit 2", id="target"),
        pytest.param(ExitCode(target=2), 0, "fail: exit 0, expected 2", id="0 is not the target"),
        pytest.param(ExitCode(target=2), 1, "fail: exit 1, expected 2", id="1 is not the target"),
        pytest.param(ExitCode(target=2), 3, "error: exit 3, expected 2", id="neither"),
        pytest.param(ExitCode(target=1), 0, "fail: exit 0, expected 1", id="the other way round"),
        pytest.param(ExitCode(fail=(1, 2, 5)), 5, "fail: exit 5", id="pytest"),
        pytest.param(ExitCode(fail=(1, 2, 5)), 3, "error: exit 3", id="not listed"),
        pytest.param(ExitCode(fail="1-125"), 101, "fail: exit 101", id="in a range"),
        pytest.param(ExitCode(fail="1-125"), 125, "fail: exit 125", id="last of a range"),
        pytest.param(ExitCode(fail="1-125"), 126, "error: exit 126", id="behind a range"),
        pytest.param(ExitCode(fail=(1, "3-4")), 3, "fail: exit 3", id="first of a range"),
        pytest.param(
            ExitCode(fail=(1, "3-4")), 2, "error: exit 2", id="between a code and a range"
        ),
        pytest.param(ExitCode(fail=(2,)), 1, "error: exit 1", id="1 is not listed"),
        pytest.param(ExitCode(fail=()), 1, "error: exit 1", id="nothing is a failure"),
        pytest.param(ExitCode(fail=(0,)), 0, "pass: exit 0", id="the target wins"),
        pytest.param(ExitCode(target="2"), 2, "pass: exit 2", id="a filled template"),
        pytest.param(
            ExitCode(target="two"),
            2,
            "error: `target` is not a number: 'two'; the output is empty",
            id="a template that is no number",
        ),
    ],
)
def test_exit_codes(condition, code, said):
    assert say(judge(condition, ended(code))) == said


@pytest.mark.parametrize(
    ("condition", "seen", "said"),
    [
        pytest.param(
            ExitCode(target=137),
            Observation(None, 9, ""),
            "error: ended by signal 9",
            id="a signal is an error whatever the target",
        ),
        pytest.param(
            ExitCode(),
            Observation(None, None, "x"),
            "error: there is no exit code; the output is 'x'",
            id="no code",
        ),
        pytest.param(
            ExitCode(source="1"),
            Observation(None, None, "1"),
            "fail: exit 1",
            id="code as a string",
        ),
        pytest.param(
            ExitCode(source="?"),
            Observation(None, None, "?"),
            "error: expected a number, got '?'",
            id="a string that is no code",
        ),
        pytest.param(
            ExitCode(source="build"), ended(1), "fail: exit 1", id="the code of a named state"
        ),
    ],
)
def test_exit_codes_that_are_not_there(condition, seen, said):
    assert say(judge(condition, seen)) == said


@pytest.mark.parametrize(
    "condition",
    [
        OutputContains("ok"),
        OutputContains("ok", negate=True),
        OutputJson(".", 1),
        OutputNumeric(1),
        Convergence(1),
        VerdictWords(),
    ],
    ids=["contains", "contains not", "json", "numeric", "convergence", "verdict"],
)
@pytest.mark.parametrize(
    ("code", "signal", "said"),
    [
        (126, None, "error: exit 126: not executable"),
        (127, None, "error: exit 127: not found"),
        (None, 15, "error: ended by signal 15"),
    ],
)
def test_no_output_is_asked_of_what_did_not_run(condition, code, signal, said):
    assert say(judge(condition, Observation(code, signal, "1"))) == said


@pytest.mark.parametrize("code", [0, 1, 2, 125, 128, 255, None])
def test_other_exit_codes_leave_it_to_the_condition(code):
    assert judge(OutputNumeric(1), Observation(code, None, "1")).verdict == "pass"


# Patterns


NO_PATTERN = "error: the pattern is empty and would match anything; the output is 'x'"


@pytest.mark.parametrize(
    ("condition", "output", "said"),
    [
        pytest.param(
            OutputContains("All tests passed"),
            "…\nAll tests passed\n",
            "pass: `All tests passed` found",
            id="substring",
        ),
        pytest.param(
            OutputContains("All tests passed"),
            "1 failed",
            "fail: `All tests passed` not found",
            id="no substring",
        ),
        pytest.param(
            OutputContains("error", negate=True),
            "error: x",
            "fail: `error` found",
            id="negated, found",
        ),
        pytest.param(
            OutputContains("error", negate=True),
            "fine",
            "pass: `error` not found",
            id="negated, not found",
        ),
        pytest.param(
            OutputContains("^[0-9]+ passed$"),
            "x\n12 passed\n",
            "pass: `^[0-9]+ passed$` found",
            id="regex",
        ),
        pytest.param(
            OutputContains("a.c", regex=False), "abc", "fail: `a.c` not found", id="by hand: text"
        ),
        pytest.param(
            OutputContains("abc", regex=True), "abc", "pass: `abc` found", id="by hand: regex"
        ),
        pytest.param(
            OutputContains("[ok"), "is [ok]", "pass: `[ok` found", id="does not compile: text"
        ),
        pytest.param(
            OutputContains("[ok", regex=True),
            "[ok",
            "error: `[ok` is not a valid pattern: missing `]`; the output is '[ok'",
            id="does not compile, by hand",
        ),
        pytest.param(
            OutputContains("ok(?!ay)"),
            "ok",
            "error: `ok(?!ay)` is not a valid pattern: invalid perl operator `(?!`; the output is 'ok'",
            id="look-around",
        ),
        pytest.param(
            OutputContains(r"(a)\1"),
            "aa",
            r"error: `(a)\1` is not a valid pattern: invalid escape sequence `\1`; the output is 'aa'",
            id="back-reference",
        ),
        pytest.param(OutputContains(""), "x", NO_PATTERN, id="nothing is everywhere"),
        pytest.param(OutputContains("", negate=True), "x", NO_PATTERN, id="nothing, negated"),
        pytest.param(OutputContains("", regex=True), "x", NO_PATTERN, id="nothing, by hand"),
        pytest.param(
            OutputContains("x" * 300), "", f"fail: `{'x' * 200}…` not found", id="a long pattern"
        ),
    ],
)
def test_output_contains(condition, output, said):
    assert say(judge(condition, printed(output))) == said


@pytest.mark.parametrize(
    ("negate", "output", "said"),
    [
        pytest.param(False, "ok", "pass: `ok` found", id="found is certain"),
        pytest.param(True, "ok", "fail: `ok` found", id="found is certain, negated"),
        pytest.param(
            False,
            "…",
            "error: `ok` not found, but the output was cut off; the output is '…'",
            id="it could lie beyond",
        ),
        pytest.param(
            True,
            "…",
            "error: `ok` not found, but the output was cut off; the output is '…'",
            id="it could lie beyond, negated",
        ),
    ],
)
def test_output_contains_in_a_cut_output(negate, output, said):
    seen = printed(output, truncated=True)
    assert say(judge(OutputContains("ok", negate), seen)) == said


@pytest.mark.parametrize(
    ("pattern", "regex", "read_as"),
    [
        ("All tests passed", None, "substring"),
        ("0 errors, 0 warnings", None, "substring"),
        ("done.", None, "regex"),
        ("a|b", None, "regex"),
        ("^ok", None, "regex"),
        (r"C:\users", None, "substring"),
        (r"C:\1", None, "substring"),
        ("*** done", None, "substring"),
        ("[", None, "substring"),
        ("(?<=a)b", None, "regex"),
        ("plain", True, "regex"),
        ("a.*b", False, "substring"),
    ],
)
def test_readings(pattern, regex, read_as):
    assert reading(OutputContains(pattern, regex=regex)) == read_as


class Kept:
    """An output that is kept elsewhere."""

    def holds(self, pattern, reading):
        return (pattern, reading) in (("beyond", "substring"), ("bey.nd", "regex"))

    def text(self):
        return '{"n": 5}'


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        pytest.param(OutputContains("beyond"), "pass: `beyond` found", id="a string"),
        pytest.param(OutputContains("bey.nd"), "pass: `bey.nd` found", id="a pattern"),
        pytest.param(OutputContains("x"), "fail: `x` not found", id="neither"),
        pytest.param(OutputJson(".n", 5), "pass: `.n`: 5 is 5", id="a path"),
        pytest.param(OutputNumeric(7), "pass: 7 is 7", id="a number at its end"),
    ],
)
def test_a_large_output_is_asked_itself(condition, said):
    assert say(judge(condition, printed("…\n7")._replace(large=Kept()))) == said


# Numbers


@pytest.mark.parametrize(
    ("operator", "value", "target", "verdict"),
    [
        ("eq", "12", 12, "pass"),
        ("eq", "12", 0, "fail"),
        ("ne", "12", 0, "pass"),
        ("lt", "-1", 0, "pass"),
        ("lt", "0", 0, "fail"),
        ("le", "0", 0, "pass"),
        ("gt", "0.5", 0.25, "pass"),
        ("gt", "0.25", 0.25, "fail"),
        ("ge", "1e3", 1000, "pass"),
        ("eq", "9007199254740993", 9007199254740992, "fail"),
    ],
)
def test_output_numeric(operator, value, target, verdict):
    judgement = judge(OutputNumeric(target, operator), printed(f"{value}\n"))
    assert judgement.verdict == verdict


@pytest.mark.parametrize(
    ("condition", "seen", "said"),
    [
        pytest.param(OutputNumeric(0), printed("12\n"), "fail: 12 is not 0", id="reason"),
        pytest.param(
            OutputNumeric("5.0", "le"), printed("4"), "pass: 4 is at most 5", id="a filled template"
        ),
        pytest.param(
            OutputNumeric(""),
            printed("4"),
            "error: `target` is not a number: ''; the output is '4'",
            id="an empty template",
        ),
        pytest.param(
            OutputNumeric(0),
            printed("no such file"),
            "error: expected a number, got 'no such file'",
            id="no number",
        ),
        pytest.param(
            OutputNumeric(0),
            printed("0\n", truncated=True),
            "error: the output was cut off before its end; the output is '0\\n'",
            id="cut off",
        ),
    ],
)
def test_output_numeric_reasons(condition, seen, said):
    assert say(judge(condition, seen)) == said


def told(condition, *outputs):
    """The story of several measurements in one state."""
    memory, lines = None, []
    for output in outputs:
        judgement = judge(condition, printed(output), memory)
        lines.append(say(judgement))
        memory = judgement.metric
    return lines


@pytest.mark.parametrize(
    ("condition", "outputs", "story"),
    [
        pytest.param(
            Convergence(0),
            ["12", "8", "0"],
            [
                "progress: first measurement: 12 (target: 0)",
                "progress: 8 is closer to 0 than 12",
                "target: 0 meets the target 0",
            ],
            id="it converges",
        ),
        pytest.param(
            Convergence(0),
            ["0"],
            ["target: 0 meets the target 0"],
            id="already there",
        ),
        pytest.param(
            Convergence(0),
            ["12", "12", "13", "11"],
            [
                "progress: first measurement: 12 (target: 0)",
                "stall: no improvement: still 12, target 0 (1 of 1)",
                "stall: no improvement: 13 (best: 12), target 0 (2 in a row)",
                "progress: 11 is closer to 0 than 12",
            ],
            id="it stalls and recovers",
        ),
        pytest.param(
            Convergence(0, patience=2),
            ["5", "6", "4", "4", "7"],
            [
                "progress: first measurement: 5 (target: 0)",
                "progress: no improvement: 6 (best: 5), target 0 (1 of 2)",
                "progress: 4 is closer to 0 than 5",
                "progress: no improvement: still 4, target 0 (1 of 2)",
                "stall: no improvement: 7 (best: 4), target 0 (2 of 2)",
            ],
            id="patience",
        ),
        pytest.param(
            Convergence(100),
            ["90", "108", "99"],
            [
                "progress: first measurement: 90 (target: 100)",
                "progress: 108 is closer to 100 than 90",
                "progress: 99 is closer to 100 than 108",
            ],
            id="from both sides",
        ),
        pytest.param(
            Convergence(1, tolerance=0.1),
            ["1.1", "0.89", "0.9"],
            [
                "target: 1.1 meets the target 1",
                "stall: no improvement: 0.89 (best: 1.1), target 1 (1 of 1)",
                "target: 0.9 meets the target 1",
            ],
            id="the edge of the tolerance is inside",
        ),
        pytest.param(
            Convergence(80, direction="max"),
            ["79", "95"],
            [
                "progress: first measurement: 79 (target: 80)",
                "target: 95 meets the target 80",
            ],
            id="beyond a maximum",
        ),
        pytest.param(
            Convergence(10, direction="min"),
            ["11", "3"],
            [
                "progress: first measurement: 11 (target: 10)",
                "target: 3 meets the target 10",
            ],
            id="beyond a minimum",
        ),
        pytest.param(
            Convergence(10, tolerance=2, direction="min"),
            ["12"],
            ["target: 12 meets the target 10"],
            id="a tolerance before a minimum",
        ),
        pytest.param(
            Convergence("10", tolerance="0.5"),
            ["10.5"],
            ["target: 10.5 meets the target 10"],
            id="filled templates",
        ),
        pytest.param(
            Convergence("ten"),
            ["10"],
            ["error: `target` is not a number: 'ten'; the output is '10'"],
            id="a target that is no number",
        ),
        pytest.param(
            Convergence(10, tolerance="some"),
            ["10"],
            ["error: `tolerance` is not a number: 'some'; the output is '10'"],
            id="a tolerance that is no number",
        ),
        pytest.param(
            Convergence(10, tolerance="-1"),
            ["10"],
            ["error: `tolerance` is below zero: -1; the output is '10'"],
            id="a negative tolerance",
        ),
        pytest.param(
            Convergence(0),
            ["lots"],
            ["error: expected a number, got 'lots'"],
            id="no number",
        ),
    ],
)
def test_convergence(condition, outputs, story):
    assert told(condition, *outputs) == story


def test_the_judgement_carries_the_memory():
    first = judge(Convergence(0), printed("12"))
    assert first.metric == Metric(12)
    assert judge(Convergence(0), printed("20"), first.metric).metric == Metric(12, 1)
    assert judge(Convergence(0), printed("?"), first.metric).metric is None


@given(st.lists(st.integers(-50, 50), min_size=1), st.integers(1, 4))
def test_stall_is_exactly_patience_measurements_without_a_new_best(values, patience):
    memory, best, without = None, None, 0
    for value in values:
        judgement = judge(Convergence(0, patience=patience), printed(str(value)), memory)
        memory = judgement.metric
        if value == 0:
            expected, best, without = "target", 0, 0
        elif best is None or abs(value) < best:
            expected, best, without = "progress", abs(value), 0
        else:
            without += 1
            expected = "stall" if without >= patience else "progress"
        assert judgement.verdict == expected


# JSON


BOTH_LARGE = "pass: `.n`: 100000000000000000000 is 1e+20"


@pytest.mark.parametrize(
    ("condition", "output", "said"),
    [
        pytest.param(
            OutputJson(".summary.failed", 0),
            '{"summary": {"failed": 0}}',
            "pass: `.summary.failed`: 0 is 0",
            id="the manual's",
        ),
        pytest.param(OutputJson(".n", 0), '{"n": 3}', "fail: `.n`: 3 is not 0", id="a number"),
        pytest.param(
            OutputJson(".n", 2.5, "lt"), '{"n": 2}', "pass: `.n`: 2 is less than 2.5", id="order"
        ),
        pytest.param(
            OutputJson(".s", "open", "ne"),
            '{"s": "shut"}',
            'pass: `.s`: "shut" is not "open"',
            id="text",
        ),
        pytest.param(
            OutputJson(".s", "b", "lt"),
            '{"s": "a"}',
            'pass: `.s`: "a" is less than "b"',
            id="order of texts",
        ),
        pytest.param(OutputJson(".b", True), '{"b": true}', "pass: `.b`: true is true", id="true"),
        pytest.param(
            OutputJson(".b", True),
            '{"b": 1}',
            "fail: `.b`: 1 is not true: a number is not true or false",
            id="1 is not true",
        ),
        pytest.param(
            OutputJson(".b", 1),
            '{"b": true}',
            "fail: `.b`: true is not 1: true or false is not a number",
            id="true is not 1",
        ),
        pytest.param(
            OutputJson(".n", 5),
            '{"n": "5"}',
            'fail: `.n`: "5" is not 5: a string is not a number',
            id="a string is no number",
        ),
        pytest.param(
            OutputJson(".n", 5, "ne"),
            '{"n": "5"}',
            'pass: `.n`: "5" is not 5: a string is not a number',
            id="nor is it equal",
        ),
        pytest.param(
            OutputJson(".n", "010"),
            '{"n": 10}',
            'fail: `.n`: 10 is not "010": a number is not a string',
            id="filled: zeros in front",
        ),
        pytest.param(
            OutputJson(".n", "-0.5"),
            '{"n": -0.5}',
            "pass: `.n`: -0.5 is -0.5",
            id="filled: one zero",
        ),
        pytest.param(OutputJson(".n", "5"), '{"n": 5}', "pass: `.n`: 5 is 5", id="filled: number"),
        pytest.param(
            OutputJson(".n", "five"),
            '{"n": 5}',
            'fail: `.n`: 5 is not "five": a number is not a string',
            id="filled: no number",
        ),
        pytest.param(
            OutputJson(".b", "true"), '{"b": true}', "pass: `.b`: true is true", id="filled: true"
        ),
        pytest.param(
            OutputJson(".b", "yes"),
            '{"b": true}',
            'fail: `.b`: true is not "yes": true or false is not a string',
            id="filled: word",
        ),
        pytest.param(OutputJson(".x", None), "{}", "pass: `.x`: null is null", id="null wanted"),
        pytest.param(
            OutputJson(".x", None, "ne"),
            '{"x": [1]}',
            "pass: `.x`: a list is not null",
            id="not null",
        ),
        pytest.param(
            OutputJson(".x", None), '{"x": {}}', "fail: `.x`: an object is not null", id="an object"
        ),
        pytest.param(
            OutputJson(".", 9007199254740993),
            "9007199254740993",
            "pass: `.`: 9007199254740993 is 9007199254740993",
            id="more digits than jq keeps",
        ),
        pytest.param(
            OutputJson(".n", "9007199254740992"),
            '{"n": 9007199254740993}',
            "fail: `.n`: 9007199254740993 is not 9007199254740992",
            id="one beside it",
        ),
        pytest.param(
            OutputJson(".n[1]", -9007199254740993, "lt"),
            '{"n": [1, -9007199254740994]}',
            "pass: `.n[1]`: -9007199254740994 is less than -9007199254740993",
            id="below",
        ),
        pytest.param(
            OutputJson(".n", 1e20), '{"n": 1e20, "m": 9007199254740993}', BOTH_LARGE, id="a double"
        ),
        pytest.param(
            OutputJson(".t", "naïve"),
            '{"t": "日本"}',
            'fail: `.t`: "日本" is not "naïve"',
            id="not ASCII",
        ),
        pytest.param(
            OutputJson(".t", "x"),
            f'{{"t": "{"y" * 300}"}}',
            f'fail: `.t`: "{"y" * 199}… is not "x"',
            id="long",
        ),
    ],
)
def test_output_json(condition, output, said):
    assert say(judge(condition, printed(output))) == said


@pytest.mark.parametrize(
    ("condition", "output", "reason"),
    [
        pytest.param(OutputJson(".x", 0), "{}", "`.x` gave null; the output is '{}'", id="null"),
        pytest.param(
            OutputJson(".x", 0, "ne"), "{}", "`.x` gave null; the output is '{}'", id="null, ne"
        ),
        pytest.param(OutputJson(".", 0), "nan", "`.` gave null; the output is 'nan'", id="NaN"),
        pytest.param(OutputJson(".", 0), "[]", "`.` gave a list; the output is '[]'", id="list"),
        pytest.param(
            OutputJson(".", 0), "{}", "`.` gave an object; the output is '{}'", id="object"
        ),
        pytest.param(
            OutputJson(".[]", 0), "[]", "`.[]` gave no value; the output is '[]'", id="no value"
        ),
        pytest.param(
            OutputJson(".[]", 1),
            "[1,1]",
            "`.[]` gave more than one value; the output is '[1,1]'",
            id="two",
        ),
        pytest.param(
            OutputJson(".", 1),
            "1e999",
            "`.` is not a finite number; the output is '1e999'",
            id="overflow",
        ),
        pytest.param(
            OutputJson(".", 10**400),
            "1",
            "`target` is not a finite number; the output is '1'",
            id="huge target",
        ),
        pytest.param(
            OutputJson(".", 1, "lt"),
            '"a"',
            "`lt` needs two numbers or two strings, got a string and a number; the output is '\"a\"'",
            id="order of different kinds",
        ),
        pytest.param(
            OutputJson(".", None, "ge"),
            "1",
            "`ge` needs two numbers or two strings, got a number and null; the output is '1'",
            id="order with null",
        ),
        pytest.param(
            OutputJson(".", True, "gt"),
            "true",
            "`gt` needs two numbers or two strings, got true or false and true or false; the output is 'true'",
            id="order of truths",
        ),
        pytest.param(
            OutputJson(".a + 1", 9007199254740993),
            '{"a": 9007199254740993}',
            "`.a + 1` is too large for jq, which keeps about 15 digits; "
            "the output is '{\"a\": 9007199254740993}'",
            id="worked out from more digits than jq keeps",
        ),
        pytest.param(
            OutputJson(".[0]", 1),
            "[9007199254740993, nan]",
            "`.[0]` is too large for jq, which keeps about 15 digits; "
            "the output is '[9007199254740993, nan]'",
            id="more digits in what only jq reads",
        ),
        pytest.param(OutputJson(" ", 1), "1", "the path is empty; the output is '1'", id="no path"),
        pytest.param(
            OutputJson(".", 1),
            "Traceback",
            "not JSON: Invalid numeric literal at EOF at line 1, column 9; the output is 'Traceback'",
            id="prose",
        ),
    ],
)
def test_output_json_that_cannot_be_judged(condition, output, reason):
    assert judge(condition, printed(output)) == Judgement("error", reason)


def test_json_that_was_cut_off():
    seen = printed("1 ", truncated=True)
    reason = "the output was cut off, so it is not complete JSON; the output is '1 '"
    assert judge(OutputJson(".", 1), seen) == Judgement("error", reason)


def test_a_value_too_deep_to_be_written():
    deep = "[" * 9000 + "]" * 9000
    assert judge(OutputJson(".", None, "ne"), printed(deep)).verdict == "pass"


# Words


@pytest.mark.parametrize(
    ("output", "said"),
    [
        pytest.param("VERDICT: pass", "pass: the verdict is `pass`", id="alone"),
        pytest.param("I did it.\n\n  VERDICT:fail \n\n", "fail: the verdict is `fail`", id="last"),
        pytest.param(
            "VERDICT: pass\nThanks!",
            "error: no verdict was given; the output is 'VERDICT: pass\\nThanks!'",
            id="not the last line",
        ),
        pytest.param(
            "My VERDICT: pass",
            "error: no verdict was given; the output is 'My VERDICT: pass'",
            id="not at the start",
        ),
        pytest.param(
            "verdict: pass",
            "error: no verdict was given; the output is 'verdict: pass'",
            id="marker",
        ),
        pytest.param(
            "VERDICT:", "error: no verdict was given; the output is 'VERDICT:'", id="no word"
        ),
        pytest.param("", "error: no verdict was given; the output is empty", id="nothing"),
        pytest.param(
            "VERDICT: PASS",
            "error: unknown verdict 'PASS'; expected `pass`, `fail`; the output is 'VERDICT: PASS'",
            id="letter for letter",
        ),
        pytest.param(
            "VERDICT: pass.",
            "error: unknown verdict 'pass.'; expected `pass`, `fail`; the output is 'VERDICT: pass.'",
            id="nothing but the word",
        ),
    ],
)
def test_verdict_lines(output, said):
    assert say(judge(VerdictWords(), printed(output))) == said


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        pytest.param("partial", "partial: the verdict is `partial`", id="a word of its own"),
        pytest.param(" blocked ", "blocked: the verdict is `blocked`", id="blanks"),
        pytest.param("", "partial: the verdict is `partial`", id="empty: the line counts"),
        pytest.param(
            "pass",
            "error: unknown verdict 'pass'; expected `partial`, `blocked`; the output is 'VERDICT: partial'",
            id="not one of them",
        ),
    ],
)
def test_structured_verdicts(verdict, said):
    seen = Observation(0, None, "VERDICT: partial", verdict=verdict)
    assert say(judge(VerdictWords(("partial", "blocked")), seen)) == said


def test_a_verdict_in_a_cut_output():
    reason = "the output was cut off before its verdict; the output is 'VERDICT: pass'"
    cut_off = Observation(0, None, "VERDICT: pass", truncated=True)
    assert judge(VerdictWords(), cut_off) == Judgement("error", reason)
    assert judge(VerdictWords(), cut_off._replace(verdict="fail")).verdict == "fail"


# Combinations

YES = OutputContains("yes")
NO = OutputContains("nope")
BAD = OutputNumeric(0)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        pytest.param(All((YES, YES)), "pass: `yes` found; `yes` found", id="all pass"),
        pytest.param(All((YES, NO)), "fail: `nope` not found", id="one of all fails"),
        pytest.param(
            All((NO, BAD)), "fail: `nope` not found", id="a fail decided before the error"
        ),
        pytest.param(
            All((BAD, NO)), "error: expected a number, got 'yes'", id="the error was first"
        ),
        pytest.param(AnyOf((NO, YES)), "pass: `yes` found", id="any passes"),
        pytest.param(AnyOf((NO, NO)), "fail: `nope` not found; `nope` not found", id="none passes"),
        pytest.param(AnyOf((YES, BAD)), "pass: `yes` found", id="a pass decided before the error"),
        pytest.param(AnyOf((BAD, YES)), "error: expected a number, got 'yes'", id="error in any"),
        pytest.param(
            AnyOf((NO, BAD)), "error: expected a number, got 'yes'", id="error after a no"
        ),
        pytest.param(Not(NO), "pass: `nope` not found", id="not a fail"),
        pytest.param(Not(YES), "fail: `yes` found", id="not a pass"),
        pytest.param(Not(BAD), "error: expected a number, got 'yes'", id="not an error"),
        pytest.param(
            All((ExitCode(), Not(AnyOf((NO, NO))))),
            "pass: exit 0; `nope` not found; `nope` not found",
            id="nested",
        ),
        pytest.param(All(()), "error: there is nothing to judge", id="all of nothing"),
        pytest.param(AnyOf(()), "error: there is nothing to judge", id="any of nothing"),
        pytest.param(
            Not(VerdictWords(("maybe",))),
            "error: `verdict` gave `maybe`, not pass or fail",
            id="only pass and fail combine",
        ),
    ],
)
def test_combinations(condition, said):
    assert say(judge(condition, Observation(0, None, "yes", verdict="maybe"))) == said


def test_reasons_do_not_grow_without_end():
    judgement = judge(All((YES,) * 500), printed("yes"))
    assert (judgement.verdict, len(judgement.reason)) == ("pass", 1000)


def test_each_condition_may_have_a_source_of_its_own():
    condition = All((ExitCode(source="build"), OutputNumeric(0, source="count"), YES))
    sources = {"build": ended(0), "count": printed("0")}
    assert judge(condition, printed("yes"), None, sources).verdict == "pass"
    sources["build"] = ended(1)
    assert judge(condition, printed("yes"), None, sources).verdict == "fail"


def test_a_source_that_is_not_listed_has_been_seen_to():
    assert judge(OutputNumeric(0, source="${captured.n.output}"), printed("0")).verdict == "pass"


@pytest.mark.parametrize(
    ("condition", "needed"),
    [
        (ExitCode(), False),
        (OutputNumeric(0), False),
        (Convergence(0), False),
        (VerdictWords(), False),
        (OutputContains("plain"), False),
        (OutputContains("a.b", regex=False), False),
        (OutputContains("a.b"), True),
        (OutputContains("plain", regex=True), True),
        (OutputJson(".", 0), True),
        (All((ExitCode(), OutputJson(".", 0))), True),
        (AnyOf((ExitCode(), OutputNumeric(0))), False),
        (Not(OutputContains("^a")), True),
    ],
)
def test_what_needs_a_bound(condition, needed):
    assert needs_bound(condition) is needed


def test_leaves():
    assert list(leaves(All((YES, Not(AnyOf((NO, BAD))))))) == [YES, NO, BAD]


# Laws

conditions = st.recursive(
    st.one_of(
        st.builds(ExitCode, target=st.none() | ANY_TEXT | st.integers(0, 255)),
        st.builds(OutputContains, ANY_TEXT, st.booleans(), st.none() | st.booleans()),
        st.builds(
            OutputJson,
            st.sampled_from([".", ".a", ".[]", "..", "length", "keys", "oops", ".a."]) | ANY_TEXT,
            st.none() | st.booleans() | st.floats() | st.integers() | ANY_TEXT,
            st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]),
        ),
        st.builds(OutputNumeric, st.integers() | ANY_TEXT),
        st.builds(
            Convergence,
            st.integers() | ANY_TEXT,
            st.integers(0) | ANY_TEXT,
            st.sampled_from([None, "min", "max"]),
            st.integers(1, 3),
        ),
        st.just(VerdictWords()),
    ),
    lambda inner: st.one_of(
        st.builds(All, st.lists(inner, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=4,
)
observations = st.builds(
    Observation,
    st.none() | st.integers(0, 255),
    st.none() | st.integers(1, 31),
    ANY_TEXT | st.sampled_from(["1", "0\n0", '{"a": 1}', "[1, 2]", "VERDICT: pass", "1e999"]),
    st.booleans(),
    st.none() | ANY_TEXT,
    st.none(),
)


@given(conditions, observations, st.none() | st.builds(Metric, st.integers(), st.integers(0, 9)))
def test_any_text_has_a_verdict_and_a_reason(condition, seen, memory):
    judgement = judge(condition, seen, memory)
    assert judgement.verdict in ("pass", "fail", "error", "target", "progress", "stall")
    assert judgement.reason
