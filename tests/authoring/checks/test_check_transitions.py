"""What is said about ways that lead nowhere, and states nothing leads to."""

from __future__ import annotations

import pytest

from tests.authoring.telling import row, told

TRANSITIONS = [
    row(
        "a state nothing leads to",
        """\
        initial: check
        states:
          check: {action: pytest, next: done}
          cleanup: {action: make clean, next: done}
          done: {terminal: true}
        """,
        """
        warning[LL301] 4:3 cleanup
          state `cleanup` can never be reached
          help: add a transition to it, or remove it
        """,
    ),
    row(
        "no end",
        """\
        initial: check
        states:
          check: {action: pytest, next: check}
        """,
        """
        warning[LL302] 2:1 states
          no state is terminal, so a run can only end at a limit or with an error
          help: add a state with `terminal: true`
        """,
    ),
    row(
        "no way when the action fails",
        """\
        initial: check
        states:
          check: {action: pytest, on_pass: ask}
          ask: {action: /ask, on_fail: measure}
          measure: {action: count, condition: {type: convergence, target: 0}, on_target: decide}
          decide: {condition: {type: exit_code, source: check}, on_pass: review}
          review:
            action: /review
            condition: {type: verdict, words: [good, bad]}
            on_good: stuck
          stuck: {action: ls}
          done: {terminal: true}
        """,
        """
        warning[LL303] 3:3 check
          state `check` has no transition for when its action fails
          help: add `on_fail: <state>`, or `next: <state>` to continue regardless
        warning[LL303] 4:3 ask
          state `ask` has no transition for when its action passes
          help: add `on_pass: <state>`, or `next: <state>` to continue regardless
        warning[LL303] 5:3 measure
          state `measure` has no transition for when its number gets closer to its target
          help: add `on_progress: <state>`, or `next: <state>` to continue regardless
        warning[LL303] 5:3 measure
          state `measure` has no transition for when its number stops getting closer to its target
          help: add `on_stall: <state>`, or `next: <state>` to continue regardless
        warning[LL303] 6:3 decide
          state `decide` has no transition for when its condition fails
          help: add `on_fail: <state>`, or `next: <state>` to continue regardless
        warning[LL303] 7:3 review
          state `review` has no transition for the word `bad`
          help: add `on_bad: <state>`
        warning[LL303] 11:3 stuck
          state `stuck` has no transition
          help: add `next: <state>`, or `terminal: true` if the run ends here
        warning[LL301] 12:3 done
          state `done` can never be reached
          help: add a transition to it, or remove it
        """,
    ),
    row(
        "ways that are never taken",
        """\
        initial: check
        on_timeout: done
        states:
          check: {action: pytest, on_pass: count, on_fail: done, next: done, on_timeout: done}
          count:
            action: count
            condition: {type: convergence, target: 0}
            next: judged
            on_pass: done
          judged: {action: pytest, capture_exit: true, next: plain, on_fail: done}
          plain: {action: pytest, condition: {type: exit_code}, next: done, on_stall: done}
          done: {terminal: true}
        """,
        """
        warning[LL308] 2:1 on_timeout
          `on_timeout` is never taken: neither the loop nor a state has a `timeout`
          help: add `timeout: <time>`
        warning[LL308] 4:58 next
          `next` of state `check` is never taken: every verdict has its own transition
          help: remove it
        warning[LL308] 4:70 on_timeout
          `on_timeout` of state `check` is never taken: the state has no `timeout`
          help: add `timeout: <time>`
        warning[LL308] 9:5 on_pass
          `on_pass` of state `count` is never taken: the verdicts here are `target`, `progress`, \
`stall`
          help: use `on_target`, `on_progress` or `on_stall`
        warning[LL308] 10:61 on_fail
          `on_fail` of state `judged` is never taken: with `capture_exit` the result is judged later
          help: use `next`
        warning[LL308] 11:69 on_stall
          `on_stall` of state `plain` is never taken: the verdicts here are `pass`, `fail`
          help: a condition of type `convergence` gives `target`, `progress` and `stall`
        """,
    ),
    row(
        "a timeout of what is silent",
        """\
        initial: check
        on_timeout: done
        idle_timeout: 10m
        states:
          check: {action: pytest, on_pass: done, on_fail: done, on_timeout: done}
          decide: {condition: {source: check}, idle_timeout: 1m, on_pass: done, on_fail: done}
          done: {terminal: true}
        """,
        """
        warning[LL301] 6:3 decide
          state `decide` can never be reached
          help: add a transition to it, or remove it
        warning[LL310] 6:40 idle_timeout
          `idle_timeout` of state `decide` has no effect: the state has no action
          help: remove it, or add an `action`
        """,
    ),
    row(
        "states that only evidence leads to",
        """\
        initial: check
        states:
          check: {action: pytest, on_pass: done, on_fail: fix, on_flaky: flaky, on_stalled: stuck}
          fix: {action: /fix, next: check, on_tampered: caught, on_out_of_scope: caught}
          flaky: {terminal: true}
          stuck: {terminal: true}
          caught: {terminal: true}
          done: {terminal: true}
        """,
        "",
    ),
    row(
        "ways that are taken after all",
        """\
        initial: check
        on_timeout: done
        states:
          check:
            action: pytest
            timeout: 1m
            on_pass: done
            on_fail: $current
            retry: {max: 3}
            next: gave_up
          gave_up: {terminal: true}
          done: {terminal: true}
        """,
        "",
    ),
    row(
        "fields without effect",
        """\
        initial: check
        timeout: 1m
        states:
          check: {action: pytest, retry: {max: 3}, timeout: 90s, next: decide}
          decide:
            condition: {type: exit_code, source: check}
            capture: x
            capture_exit: true
            timeout: 10s
            action_type: shell
            on_pass: done
            on_fail: $current
            retry: {max: 3}
          done: {terminal: true}
        """,
        """
        warning[LL310] 4:27 retry
          `retry` of state `check` has no effect: no transition leads to `$current`
          help: add a transition that runs the state again, such as `on_error: $current`
        warning[LL309] 4:53 90s
          the `timeout` of state `check` (90 s) is longer than the loop's (60 s)
          help: the loop's timeout ends the run first
        warning[LL310] 7:5 capture
          `capture` of state `decide` has no effect: the state has no action
          help: remove it, or add an `action`
        warning[LL310] 8:5 capture_exit
          `capture_exit` of state `decide` has no effect: the state has no action
          help: remove it, or add an `action`
        warning[LL310] 9:5 timeout
          `timeout` of state `decide` has no effect: the state has no action
          help: remove it, or add an `action`
        warning[LL310] 10:5 action_type
          `action_type` of state `decide` has no effect: the state has no action
          help: remove it, or add an `action`
        """,
    ),
    row(
        "all that only an action has",
        """\
        initial: decide
        states:
          decide:
            label: Decide
            check: true
            before: echo
            after: echo
            condition: {type: output_contains, source: "${context.x}", pattern: a}
            on_pass: done
            on_fail: done
          done: {terminal: true}
        context: {x: a}
        """,
        """
        warning[LL310] 4:5 label
          `label` of state `decide` has no effect: the state has no action
          help: remove it, or add an `action`
        warning[LL310] 5:5 check
          `check` of state `decide` has no effect: the state has no action
          help: remove it, or add an `action`
        warning[LL310] 6:5 before
          `before` of state `decide` has no effect: the state has no action
          help: remove it, or add an `action`
        warning[LL310] 7:5 after
          `after` of state `decide` has no effect: the state has no action
          help: remove it, or add an `action`
        """,
    ),
    row(
        "of a way to nowhere nothing else is concluded",
        """\
        initial: check
        states:
          check: {action: pytest, next: fxi}
          fix: {action: "echo ${captured.done.output}", next: done}
          done: {action: ls, terminal: true}
        """,
        """
        error[LL202] 3:33 fxi
          `next` of state `check` names a state that does not exist: `fxi`
          help: did you mean `fix`?
        """,
    ),
    row(
        "words a goal has no ways for",
        """\
        paradigm: goal
        goal: The text is good
        tools:
          - {action: /review, condition: {type: verdict, words: [good, bad]}}
          - {action: /rewrite, condition: {type: verdict, words: [good, bad]}}
        """,
        """
        error[LL214] 4:34 {type: verdict, words: [good, bad]}
          this condition gives `good` and `bad`, but paradigm `goal` expects `pass` and \
`fail` here
          help: use a condition that gives the expected verdicts, or write the loop with `states`
        error[LL214] 5:35 {type: verdict, words: [good, bad]}
          this condition gives `good` and `bad`, but paradigm `goal` expects `pass` and \
`fail` here
          help: use a condition that gives the expected verdicts, or write the loop with `states`
        """,
    ),
    row(
        "a goal that can never pass",
        """\
        paradigm: goal
        goal: The text is good
        tools: [{action: /review, condition: {type: verdict, words: [fail]}}]
        """,
        """
        error[LL214] 3:38 {type: verdict, words: [fail]}
          this condition never gives `pass`, but paradigm `goal` expects `pass` and \
`fail` here
          help: use a condition that gives the expected verdicts, or write the loop with `states`
        """,
    ),
    row(
        "a number that is judged as pass or fail",
        """\
        paradigm: convergence
        check: {action: count, condition: {type: exit_code}}
        toward: 0
        using: /fix
        """,
        """
        error[LL214] 2:35 {type: exit_code}
          this condition gives `pass` and `fail`, but paradigm `convergence` expects \
`target`, `progress` and `stall` here
          help: use a condition that gives the expected verdicts, or write the loop with `states`
        """,
    ),
    row(
        "a goal whose judge only passes",
        """\
        paradigm: goal
        goal: The text is good
        tools: [{action: /review, condition: {type: verdict, words: [pass]}}]
        """,
        "",
    ),
    row(
        "judged here and later",
        """\
        paradigm: goal
        goal: Up
        tools: [{action: pytest, capture_exit: true}, {action: make, capture_exit: true}]
        """,
        """
        error[LL215] 3:26 capture_exit
          the result of this command is judged here, so it cannot be judged later
          help: remove `capture_exit`
        """,
    ),
    row(
        "judged later, but not the same way whatever its exit code",
        """\
        initial: test
        states:
          test: {action: pytest, capture_exit: true, on_pass: decide}
          ask: {action: /ask, capture_exit: true, on_pass: decide, on_fail: test}
          decide: {condition: {source: test}, on_pass: done, on_fail: ask}
          done: {terminal: true}
        """,
        """
        error[LL215] 3:46 on_pass
          state `test` has `capture_exit`, so it takes `next` and never `on_pass`
          help: write `next: decide`; a later state judges the result
        """,
    ),
    row(
        "a failed check that ends as a success",
        """\
        initial: check
        states:
          check: {action: pytest, on_pass: done, on_fail: gave_up, on_error: gave_up}
          done: {terminal: true}
          gave_up: {terminal: true}
        """,
        """
        warning[LL317] 5:3 gave_up
          only `on_fail` leads to `gave_up`, but a run that ends there counts as a success
          help: add `outcome: failure`, or `outcome: success` if that is what you want
        """,
    ),
    row(
        "what a name, an outcome or another transition says is not doubted",
        """\
        initial: first
        states:
          first: {action: ls, on_pass: second, on_fail: check_failed}
          second: {action: ls, on_pass: third, on_fail: enough}
          third: {action: ls, on_pass: done, on_fail: done}
          check_failed: {terminal: true}
          enough: {terminal: true, outcome: success}
          done: {terminal: true}
        """,
        "",
    ),
    row(
        "nor is a loop that begins at its end",
        """\
        initial: done
        maintain: true
        states:
          done: {terminal: true, on_maintain: check}
          check: {action: ls, on_pass: check, on_fail: done}
        """,
        "",
    ),
]


@pytest.mark.parametrize(("source", "expected"), TRANSITIONS)
def test_each_problem_has_its_words_and_its_place(source: str, expected: str) -> None:
    assert told(source) == expected
