"""What is said about results that may not be there in time."""

from __future__ import annotations

import pytest

from little_loops.authoring.load import load
from tests.authoring.telling import row, told


def reporting(text: str, more: str = "") -> str:
    return f"""\
        initial: look
        states:
          look: {{action: ls, on_pass: count, on_fail: report}}
          count: {{action: wc -l x, capture: lines, next: report}}
          report: {{action: '{text}', next: done}}
          done: {{terminal: true}}
        {more}
        """


RESULTS = [
    row(
        "a capture that some path skips",
        reporting(
            "echo ${captured.lines.output} ${captured.lines.stderr} ${captured.count.output}"
        ),
        """
        warning[LL304] 5:26 ${captured.lines.output}
          state `report` can be reached before `lines` is captured
          help: for example by `look` → `report`; add a fallback: `${captured.lines.output:-}` \
is empty then
        warning[LL304] 5:76 ${captured.count.output}
          state `report` can be reached before `count` is captured
          help: for example by `look` → `report`; add a fallback: `${captured.count.output:-}` \
is empty then
        """,
    ),
    row(
        "in a result of the loop, which the end of the run may read early",
        reporting("date", 'result: {count: "${captured.lines.output}"}'),
        "",
    ),
    row("a fallback", reporting("echo ${captured.lines.output:-0}"), ""),
    row("captured on every way", reporting("echo ${captured.look.output} ${prev.output}"), ""),
    row(
        "by a variable of the author's",
        reporting(
            "echo ${context.lines} ${context.lines:q}",
            'context: {lines: "${captured.lines.output}"}',
        ),
        """
        warning[LL304] 5:26 ${context.lines}
          state `report` can be reached before `lines` is captured
          help: for example by `look` → `report`; capture it on every path to this state
        """,
    ),
    row(
        "by a variable as one word",
        reporting(
            "echo ${context.lines:q}", 'context: {lines: "${captured.lines.output} ${state.name}"}'
        ),
        """
        warning[LL304] 5:26 ${context.lines:q}
          state `report` can be reached before `lines` is captured
          help: for example by `look` → `report`; capture it on every path to this state
        """,
    ),
    row(
        "by a variable of the state's own",
        """\
        initial: look
        context: {what: nothing}
        states:
          look: {action: 'ls ${context.what}', on_pass: count, on_fail: report}
          count: {action: wc -l x, capture: lines, next: report}
          report:
            action: echo ${context.what}
            context: {what: "${captured.lines.output}"}
            next: done
          done: {terminal: true}
        """,
        """
        warning[LL304] 7:18 ${context.what}
          state `report` can be reached before `lines` is captured
          help: for example by `look` → `report`; capture it on every path to this state
        warning[LL304] 8:22 ${captured.lines.output}
          state `report` can be reached before `lines` is captured
          help: for example by `look` → `report`; add a fallback: \
`${captured.lines.output:-}` is empty then
        """,
    ),
    row(
        "where a number is needed",
        """\
        initial: look
        states:
          look: {action: ls, on_pass: count, on_fail: report}
          count: {action: wc -l x, capture: lines, next: report}
          report:
            action: count
            condition:
              type: convergence
              target: "${captured.lines.output}"
              tolerance: "${captured.lines.stderr}"
            next: again
          again:
            action: count
            condition: {type: convergence, target: 0, tolerance: "${captured.lines.stderr}"}
            next: done
          done: {terminal: true}
        """,
        """
        warning[LL304] 9:16 ${captured.lines.output}
          state `report` can be reached before `lines` is captured
          help: for example by `look` → `report`; add a fallback: \
`${captured.lines.output:-0}` gives 0 then
        warning[LL304] 10:19 ${captured.lines.stderr}
          state `report` can be reached before `lines` is captured
          help: for example by `look` → `report`; add a fallback: \
`${captured.lines.stderr:-0}` gives 0 then
        warning[LL304] 14:59 ${captured.lines.stderr}
          state `again` can be reached before `lines` is captured
          help: for example by `look` → `report` → `again`; add a fallback: \
`${captured.lines.stderr:-0}` gives 0 then
        """,
    ),
    row(
        "prev, at the very start",
        """\
        initial: check
        env: {LAST: "${prev.output}", FIRST: "${captured.check.output:-}"}
        states:
          check: {action: "echo ${prev.state}", next: done}
          done: {terminal: true}
        """,
        """
        warning[LL304] 2:14 ${prev.output}
          `prev` may be unset: state `check` can be reached before any action has run
          help: add a fallback: `${prev.output:-}` is empty then
        warning[LL304] 4:25 ${prev.state}
          `prev` may be unset: state `check` can be reached before any action has run
          help: add a fallback: `${prev.state:-}` is empty then
        """,
    ),
    row(
        "a source that some path skips, and the state's own result",
        """\
        initial: look
        states:
          look:
            action: ls
            condition: {type: output_numeric, target: 0, source: "${captured.look.stderr}"}
            on_pass: count
            on_fail: decide
          count: {action: wc -l x, capture: lines, next: decide}
          decide:
            condition: {type: output_numeric, target: 0, source: lines}
            on_pass: done
            on_fail: look
          done: {terminal: true}
        """,
        """
        warning[LL304] 10:58 lines
          state `decide` can be reached before `lines` is captured
          help: for example by `look` → `decide`; capture it on every path to this state
        """,
    ),
    row(
        "what an interruption, an error or a timeout may skip",
        """\
        initial: build
        timeout: 1h
        on_error: alert
        on_timeout: late
        states:
          build: {action: make, next: deploy}
          deploy: {action: make deploy, on_interrupt: rollback, next: done}
          rollback: {action: 'echo ${captured.build.output} ${captured.deploy.output}', next: failed}
          alert: {action: 'echo ${captured.build.output} ${captured.deploy.output}', next: failed}
          late: {action: 'echo ${captured.build.output}', next: failed}
          failed: {terminal: true}
          done: {terminal: true}
        """,
        """
        warning[LL304] 8:53 ${captured.deploy.output}
          state `rollback` can be reached before `deploy` is captured
          help: for example by `build` → `deploy` → `rollback`; add a fallback: \
`${captured.deploy.output:-}` is empty then
        warning[LL304] 9:50 ${captured.deploy.output}
          state `alert` can be reached before `deploy` is captured
          help: for example by `build` → `alert`; add a fallback: \
`${captured.deploy.output:-}` is empty then
        warning[LL304] 10:24 ${captured.build.output}
          state `late` can be reached before `build` is captured
          help: for example by `build` → `late`; add a fallback: \
`${captured.build.output:-}` is empty then
        """,
    ),
]


@pytest.mark.parametrize(("source", "expected"), RESULTS)
def test_each_problem_has_its_words_and_its_place(source: str, expected: str) -> None:
    assert told(source) == expected


def test_an_example_path_is_given_for_the_first_problems_only():
    texts = " ".join(f"${{captured.c{number}.output}}" for number in range(22))
    states = "".join(
        f"  c{number}: {{action: ls, next: {f'c{number + 1}' if number < 21 else 'use'}}}\n"
        for number in range(22)
    )
    loop = (
        "initial: look\nstates:\n  look: {action: ls, on_pass: c0, on_fail: use}\n"
        f"{states}  use: {{action: 'echo {texts}', next: done}}\n  done: {{terminal: true}}\n"
    )
    problems = load(loop, "x", "x").problems
    assert ["for example by" in (each.help or "") for each in problems] == [True] * 20 + [False] * 2
