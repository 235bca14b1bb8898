"""What is said about a machine whose pieces do not fit together."""

from __future__ import annotations

import pytest

from little_loops.authoring.load import load_data
from tests.authoring.telling import row, told

SKELETON = [
    row(
        "initial, with a suggestion",
        """\
        initial: chekc        # typo
        states:
          check: {action: pytest, next: done}
          done: {terminal: true}
        """,
        """
        error[LL201] 1:10 chekc
          `initial` names a state that does not exist: `chekc`
          help: did you mean `check`?
        """,
    ),
    row(
        "initial, nothing near",
        """\
        initial: begin
        states: {done: {terminal: true}}
        """,
        """
        error[LL201] 1:10 begin
          `initial` names a state that does not exist: `begin`
          help: known: `done`
        """,
    ),
    row(
        "every kind of target",
        """\
        initial: check
        on_error: oops
        on_timeout: oops
        on_interrupt: oops
        timeout: 5m
        states:
          check:
            action: pytest
            timeout: 1m
            condition: {type: verdict, words: [good, bad, ugly]}
            on_good: doone
            route: {bad: dnoe, ugly: $current}
            on_error: oops
            on_timeout: oops
            on_interrupt: oops
          done: {terminal: true, on_maintain: oops}
        """,
        """
        error[LL202] 2:11 oops
          `on_error` names a state that does not exist: `oops`
          help: known: `check`, `done`
        error[LL202] 3:13 oops
          `on_timeout` names a state that does not exist: `oops`
          help: known: `check`, `done`
        error[LL202] 4:15 oops
          `on_interrupt` names a state that does not exist: `oops`
          help: known: `check`, `done`
        error[LL202] 11:14 doone
          `on_good` of state `check` names a state that does not exist: `doone`
          help: did you mean `done`?
        error[LL202] 12:18 dnoe
          `route` of state `check` names a state that does not exist: `dnoe`
          help: did you mean `done`?
        error[LL202] 13:15 oops
          `on_error` of state `check` names a state that does not exist: `oops`
          help: known: `check`, `done`
        error[LL202] 14:17 oops
          `on_timeout` of state `check` names a state that does not exist: `oops`
          help: known: `check`, `done`
        error[LL202] 15:19 oops
          `on_interrupt` of state `check` names a state that does not exist: `oops`
          help: known: `check`, `done`
        error[LL202] 16:39 oops
          `on_maintain` of state `done` names a state that does not exist: `oops`
          help: known: `check`, `done`
        """,
    ),
    row(
        "a terminal state with ways out",
        """\
        initial: check
        states:
          check: {action: pytest, next: done}
          done:
            action: /review
            condition: {type: verdict, words: [good, bad]}
            terminal: true
            next: check
            on_error: check
            on_good: check
            route: {bad: check}
        """,
        """
        error[LL203] 8:5 next
          state `done` is terminal, so `next` has no effect
          help: remove it, or remove `terminal: true`; to wait for a review here, add `outcome: review`
        error[LL203] 9:5 on_error
          state `done` is terminal, so `on_error` has no effect
          help: remove it, or remove `terminal: true`
        error[LL203] 10:5 on_good
          state `done` is terminal, so `on_good` has no effect
          help: remove it, or remove `terminal: true`
        error[LL203] 11:5 route
          state `done` is terminal, so `route` has no effect
          help: remove it, or remove `terminal: true`
        """,
    ),
    row(
        "what a terminal state may have",
        """\
        initial: check
        maintain: true
        states:
          check: {action: pytest, on_pass: done, on_fail: ask}
          ask: {terminal: true, outcome: review, next: check, on_interrupt: $error, action: ls}
          done: {terminal: true, on_maintain: check}
        """,
        "",
    ),
    row(
        "what only a terminal state may have",
        """\
        initial: check
        states:
          check: {action: pytest, next: done, on_maintain: check, outcome: failure}
          done: {terminal: true}
        """,
        """
        error[LL204] 3:39 on_maintain
          `on_maintain` is set on state `check`, which does not end a cycle
          help: move it to the terminal state that ends a cycle
        error[LL205] 3:59 outcome
          `outcome` is set on state `check`, which is not terminal
          help: add `terminal: true`, or remove `outcome`
        """,
    ),
    row(
        "answers where there is no gate",
        """\
        initial: check
        states:
          check: {action: pytest, on_rejected: check, next: done}
          done: {terminal: true, choices: [check]}
        """,
        """
        error[LL217] 3:27 on_rejected
          `on_rejected` is set on state `check`, which is not a gate
          help: add `terminal: true` and `outcome: review`, or remove `on_rejected`
        error[LL217] 4:26 choices
          `choices` is set on state `done`, which is not a gate
          help: add `terminal: true` and `outcome: review`, or remove `choices`
        """,
    ),
    row(
        "a gate with answers",
        """\
        initial: check
        states:
          check: {action: pytest, next: look}
          look: {terminal: true, outcome: review, next: check, on_rejected: chek, choices: [check, nope]}
        """,
        """
        error[LL202] 4:69 chek
          `on_rejected` of state `look` names a state that does not exist: `chek`
          help: did you mean `check`?
        error[LL202] 4:92 nope
          `choices` of state `look` names a state that does not exist: `nope`
          help: known: `check`, `look`
        """,
    ),
    row(
        "a capture named as another state",
        """\
        initial: check
        states:
          check: {action: pytest, capture: fix, next: fix}
          fix: {action: make fix, capture: fix, next: done}
          done: {terminal: true}
        """,
        """
        error[LL206] 3:36 fix
          state `check` captures into `fix`, which is the name of another state
          help: choose another name: `captured.fix` is that state's result
        """,
    ),
    row(
        "in a compiled state the author's line is shown",
        """\
        paradigm: goal
        goal: Up
        tools:
          - {action: "pytest ${captured.evluate.output}", capture: fix}
          - make fix
        on_error: evaluat
        """,
        """
        error[LL404] 4:22 ${captured.evluate.output}
          there is no capture named `evluate`
          help: did you mean `evaluate`?
        error[LL206] 4:60 fix
          state `evaluate` captures into `fix`, which is the name of another state
          help: choose another name: `captured.fix` is that state's result
        error[LL202] 6:11 evaluat
          `on_error` names a state that does not exist: `evaluat`
          help: did you mean `evaluate`?
        """,
    ),
]


@pytest.mark.parametrize(("source", "expected"), SKELETON)
def test_each_problem_has_its_words_and_its_place(source: str, expected: str) -> None:
    assert told(source) == expected


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("https://hooks.example.org/T0/B0/x", "the URL of a webhook is a secret"),
        ("ntfy://me:word@ntfy.example.org/loops", "this address contains a password"),
        ("ntfy://ntfy.example.org/loops", None),
        ("https://hooks.example.org/${env.HOOK}", None),
        ("${env.HOOK}", None),
        ("curl https://hooks.example.org/x", None),
    ],
)
def test_a_secret_among_the_recipients_is_a_warning(to, message):
    loop = {"initial": "a", "states": {"a": {"terminal": True}}, "notify": [{"to": to}]}
    found = [p for p in load_data(loop, "demo").problems if p.code == "LL319"]
    assert [problem.message for problem in found] == ([] if message is None else [message])
