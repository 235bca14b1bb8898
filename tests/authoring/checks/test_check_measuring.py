"""What is said about `repeat` and `keep: best` where they cannot work."""

from __future__ import annotations

import pytest

from tests.authoring.telling import row, told


def tuning(measure: str, condition: str = "", more: str = "") -> str:
    return f"""\
        initial: measure
        {more}
        states:
          measure:
            {measure}
            condition: {{type: convergence, target: 9, {condition}}}
            on_target: done
            on_progress: tune
            on_stall: done
          tune: {{action: /tune, next: measure}}
          done: {{terminal: true}}
        """


def paradigm(*lines: str) -> str:
    own = ("paradigm: convergence", "toward: 9", "using: ./tune.sh", *lines)
    return "".join(f"        {line}\n" for line in own)


ROWS = [
    row("the best is kept", tuning("action: bench\n            check: true", "keep: best"), ""),
    row(
        "all of it",
        paradigm("check: {action: ./b.sh, repeat: 5}", "keep: best", "min_gain: 2.5"),
        "",
    ),
    row("noise", paradigm("check: ./b.sh", "keep: best", "min_gain: noise"), ""),
    row("only repeated", paradigm("check: {action: ./b.sh, repeat: 2}"), ""),
    row(
        "not a check",
        tuning("action: bench", "keep: best"),
        """
        error[LL218] 6:53 best
          `keep: best` needs a check, but state `measure` is not one
          help: add `check: true` to state `measure`
        """,
    ),
    row(
        "an agent's number",
        tuning('action: "/rate"\n            check: true', "keep: best"),
        """
        error[LL218] 7:53 best
          `keep: best` needs a shell command that prints a number, but state `measure` has none
          help: write the command as its `action`, or remove `keep: best`
        """,
    ),
    row(
        "the number of another state",
        tuning("action: bench\n            check: true", "keep: best, source: tune"),
        """
        error[LL218] 7:53 best
          `keep: best` measures the output of the state's own action
          help: remove `source` and `capture_exit`; another state can use the result
        warning[LL304] 7:67 tune
          state `measure` can be reached before `tune` is captured
          help: capture it on every path to this state
        """,
    ),
    row(
        "without evidence",
        tuning("action: bench\n            check: true", "keep: best", "evidence: false"),
        """
        error[LL218] 7:53 best
          `keep: best` needs evidence, which the loop turns off
          help: remove `evidence: false`, or `keep: best`
        """,
    ),
    row(
        "two of them",
        tuning("action: bench\n            check: true", "keep: best").replace(
            "          tune:",
            """\
          size:
            action: wc -c out
            check: true
            condition: {type: convergence, target: 9, keep: best}
            on_target: measure
            on_progress: tune
            on_stall: done
          tune:""",
        ),
        """
        warning[LL301] 11:3 size
          state `size` can never be reached
          help: add a transition to it, or remove it
        error[LL218] 14:53 best
          states `measure` and `size` both have `keep: best`
          help: remove one of them: only one measurement can decide which files are the best
        """,
    ),
    row(
        "repeated without a number",
        paradigm("check: ./b.sh").replace("./tune.sh", "{action: ./tune.sh, repeat: 3}"),
        """
        error[LL218] 3:36 3
          `repeat` of state `apply` needs a number, of which the median counts
          help: add a condition of type `convergence` or `output_numeric`, or remove `repeat`
        """,
    ),
    row(
        "never",
        paradigm("check: {action: ./b.sh, repeat: 0}"),
        """
        error[LL104] 4:33 0
          `repeat` must be at least 1, not `0`
          help: write, for example, `repeat: 5`
        """,
    ),
    row(
        "a gain for nothing",
        paradigm("check: ./b.sh", "min_gain: 3"),
        """
        error[LL120] 5:11 3
          `min_gain` has no effect without `keep: best`
          help: add `keep: best`, or remove `min_gain`
        """,
    ),
    row(
        "a gain for nothing, in a condition",
        """
        initial: a
        states:
          a: {action: ./b.sh, condition: {type: convergence, target: 0, min_gain: 3}, next: b}
          b: {terminal: true}
        """,
        """
        error[LL120] 4:75 3
          `min_gain` has no effect without `keep: best`
          help: add `keep: best`, or remove `min_gain`
        """,
    ),
    row(
        "a gain in words",
        paradigm("check: ./b.sh", "keep: best", "min_gain: some"),
        """
        error[LL103] 6:11 some
          `min_gain` must be a number or `noise`, not text
          help: write, for example, `min_gain: 2.5`
        """,
    ),
    row(
        "a negative gain",
        paradigm("check: ./b.sh", "keep: best", "min_gain: -1"),
        """
        error[LL104] 6:11 -1
          `min_gain` must be at least 0, not `-1`
          help: write, for example, `min_gain: 2.5`
        """,
    ),
    row(
        "the worst",
        paradigm("check: ./b.sh", "keep: worst"),
        """
        error[LL105] 5:7 worst
          `keep` must be `best`, not `worst`
          help: write, for example, `keep: best`
        """,
    ),
    row(
        "judged later",
        tuning(
            "action: bench\n            check: true\n            capture_exit: true", "keep: best"
        ),
        """
        error[LL218] 8:53 best
          `keep: best` measures the output of the state's own action
          help: remove `source` and `capture_exit`; another state can use the result
        """,
    ),
]


@pytest.mark.parametrize(("source", "expected"), ROWS)
def test_measuring(source, expected):
    assert told(source) == expected
