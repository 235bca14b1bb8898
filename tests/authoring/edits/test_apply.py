"""One edit at a time: what it changes in the text, as a difference, and why it is refused."""

from __future__ import annotations

from difflib import unified_diff
from textwrap import dedent

import pytest

from little_loops.authoring.edits.apply import apply
from little_loops.authoring.edits.operations import (
    OPERATIONS,
    AddState,
    Connect,
    DeleteState,
    Disconnect,
    Operation,
    RemoveField,
    RenameState,
    SetField,
    SetInitial,
    operation_of,
)
from little_loops.authoring.edits.plan import Refused
from tests.authoring.edits.files import COMMENTED, FLOW, FOUR, ROUTES

SMALL = """\
initial: a
states:
  a: {action: x, next: b}  # one
  b:
    terminal: true
"""
LISTS = """\
paradigm: goal
goal: No errors
tools:
- mypy src   # check
-
  # the first fix
  action: make fix

  timeout: 5m
- - nested
- action: last
"""


def difference(text: str, operation: Operation) -> str:
    new = apply(text, operation).text
    lines = unified_diff(text.splitlines(), new.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


@pytest.mark.parametrize(
    ("text", "operation", "expected"),
    [
        pytest.param(
            "initial: a\nstates:\n  a:\n    next: b\n\n  b:\n    terminal: true\n",
            AddState("c", {"terminal": True}, "a"),
            "+  c: {terminal: true}\n+",
            id="a state after the first stands apart as the others do",
        ),
        pytest.param(
            "states:\n  a:\n    action: x\n    choices:\n      - k\n      - m\n    next: a\n",
            SetField(("states", "a", "choices", 2), "z"),
            "+      - z",
            id="an item is added to an indented list",
        ),
        pytest.param(
            "states:\n  a:\n    route: {x: a}\n    next: a\n",
            Connect("a", "y", "a"),
            "+    on_y: a",
            id="a verdict beside a route without words",
        ),
        pytest.param(
            COMMENTED,
            Connect("check", "pass", "done"),
            """\
            -    on_pass: tests
            +    on_pass: done""",
            id="a transition is changed",
        ),
        pytest.param(
            COMMENTED,
            Connect("fix", "next", "$current"),
            """\
            -    next: check    # again
            +    next: $current    # again""",
            id="a transition to the state itself",
        ),
        pytest.param(
            ROUTES.replace("    on_unsure: look\n", ""),
            Connect("ask", "error", "look"),
            """\
            +    on_error: look""",
            id="a verdict beside a route",
        ),
        pytest.param(
            COMMENTED,
            Connect("check", "error", "broken"),
            """\
            +    on_error: broken""",
            id="a transition is added",
        ),
        pytest.param(
            COMMENTED,
            Disconnect("fix", "next"),
            """\
            -    next: check    # again""",
            id="a transition is removed with its comment",
        ),
        pytest.param(
            FLOW,
            Disconnect("check", "pass"),
            """\
            -  check: {action: "make check", on_pass: done, on_fail: fix},  # one
            +  check: {action: "make check", on_fail: fix},  # one""",
            id="one between others in braces is removed",
        ),
        pytest.param(
            FLOW,
            Disconnect("check", "fail"),
            """\
            -  check: {action: "make check", on_pass: done, on_fail: fix},  # one
            +  check: {action: "make check", on_pass: done},  # one""",
            id="the last one in braces is removed",
        ),
        pytest.param(
            COMMENTED,
            AddState("retry", {"action": "sleep 1\nexit 1", "next": "check"}, "check"),
            """\
            +
            +  retry:
            +    action: |-
            +      sleep 1
            +      exit 1
            +    next: check""",
            id="a state is added after another",
        ),
        pytest.param(
            COMMENTED,
            AddState("stop", {"terminal": True}, "tests"),
            """\
            +  stop: {terminal: true}
            +""",
            id="a state is added where blank lines and comments separate them",
        ),
        pytest.param(
            COMMENTED,
            AddState("stop", {"terminal": True}),
            """\
            +  stop: {terminal: true}""",
            id="a terminal state is added on one line",
        ),
        pytest.param(
            FOUR,
            AddState("stop", {"action": "x", "env": {"A": "b" * 80}}),
            """\
            +    stop:
            +        action: x
            +        env:
            +            A: """
            + "b" * 80,
            id="a state is added with the file's own indentation",
        ),
        pytest.param(
            FLOW,
            AddState("stop", {"terminal": True}),
            """\
            -  done: {terminal: true}, broken: {terminal: true, outcome: failure},
            +  done: {terminal: true}, broken: {terminal: true, outcome: failure}, stop: {terminal: true},""",
            id="a state is added in braces",
        ),
        pytest.param(
            COMMENTED,
            RenameState("check", "types"),
            """\
            -initial: check
            +initial: types
            -  check:
            +  types:
            -      echo "errors: ${captured.check.output:q}"
            +      echo "errors: ${captured.types.output:q}"
            -    next: check    # again
            +    next: types    # again""",
            id="a state is renamed wherever it is named",
        ),
        pytest.param(
            FOUR,
            RenameState("pruefen", "yes"),
            """\
            -initial: 'pruefen'
            +initial: 'yes'
            -    before_state: {action: ./lease.sh, states: [fix, "pruefen"]}
            +    before_state: {action: ./lease.sh, states: [fix, "yes"]}
            -    "pruefen":
            +    "yes":""",
            id="quotes stay",
        ),
        pytest.param(
            FLOW,
            RenameState("check", "no"),
            """\
            -{name: flow, initial: check, # first
            +{name: flow, initial: "no", # first
            -  check: {action: "make check", on_pass: done, on_fail: fix},  # one
            -  fix: {action: 'make fix', next: check, env: {LEVEL: high}},
            +  "no": {action: "make check", on_pass: done, on_fail: fix},  # one
            +  fix: {action: 'make fix', next: "no", env: {LEVEL: high}},
            -  other: {action: "cat ${captured.check.file}", next: done}, decide: {condition: {type: exit_code, source: check}, on_pass: done, on_fail: fix},
            +  other: {action: "cat ${captured.no.file}", next: done}, decide: {condition: {type: exit_code, source: "no"}, on_pass: done, on_fail: fix},""",
            id="a name that needs quotes gets them",
        ),
        pytest.param(
            COMMENTED,
            DeleteState("fix"),
            """\
            -    on_fail: fix
            -  fix:   # by an agent
            -    action: |
            -      # not a comment
            -      echo "errors: ${captured.check.output:q}"
            -
            -      echo '$${captured.check.output}'
            -    timeout: 5m
            -    next: check    # again
            -    on_fail: fix""",
            id="a state is deleted with the transitions to it",
        ),
        pytest.param(
            FLOW,
            DeleteState("broken"),
            """\
            -  done: {terminal: true}, broken: {terminal: true, outcome: failure},
            +  done: {terminal: true},""",
            id="the last state in braces is deleted",
        ),
        pytest.param(
            FOUR,
            DeleteState("check-2"),
            """\
            -        next: check-2
            -    check-2:
            -        action: 'echo ''it'' ${captured.fix.output}'
            -        next: gate
            -        env:
            -            GRUPPE: "x"
            -        choices: [fix, check-2]
            +        choices: [fix]""",
            id="a choice is deleted with its state",
        ),
        pytest.param(
            FOUR,
            DeleteState("kaputt"),
            """\
            -on_error: kaputt
            -    kaputt:
            -        terminal: true   # 終わり""",
            id="the last lines of a file without a line break at its end are deleted",
        ),
        pytest.param(
            ROUTES,
            Connect("ask", "messy", "look"),
            """\
            -      messy: tidy      # most of the time
            +      messy: look      # most of the time""",
            id="a route is changed",
        ),
        pytest.param(
            ROUTES,
            Connect("ask", "unsure", "done"),
            """\
            -    on_unsure: look
            +    on_unsure: done""",
            id="a word with a field of its own keeps it",
        ),
        pytest.param(
            ROUTES.replace("    on_unsure: look\n", ""),
            Connect("ask", "unsure", "look"),
            """\
            +      unsure: look""",
            id="a word is added to the route",
        ),
        pytest.param(
            ROUTES.replace("      messy: tidy      # most of the time\n", ""),
            Disconnect("ask", "clean"),
            """\
            -    route:
            -      clean: done""",
            id="a route without words is removed",
        ),
        pytest.param(
            ROUTES.replace("      messy: tidy      # most of the time\n", "").replace(
                "[clean, messy, unsure]", "[clean, unsure]"
            ),
            DeleteState("done"),
            """\
            -    route:
            -      clean: done
            -    on_fail: done
            -    next: |-
            -      done
            -  done:
            -    terminal: true
            -    x-note: keep ${captured.ask.output}""",
            id="a route to a deleted state is removed",
        ),
        pytest.param(
            ROUTES,
            AddState("new", {"terminal": True}, "tidy"),
            """\
            +  new: {terminal: true}""",
            id="a state is added after one with a block",
        ),
        pytest.param(
            ROUTES.replace("    next: ask\n  look", "  look"),
            SetField(("states", "tidy", "timeout"), "5m"),
            """\
            +    timeout: 5m""",
            id="a field is added before a text that keeps its blank lines",
        ),
        pytest.param(
            FOUR,
            Connect("gate", "choice", "done"),
            """\
            -        choices: [fix, check-2]
            +        choices: [fix, check-2, done]""",
            id="a choice is added",
        ),
        pytest.param(
            FOUR,
            Disconnect("gate", "choice", "fix"),
            """\
            -        choices: [fix, check-2]
            +        choices: [check-2]""",
            id="a choice is removed",
        ),
        pytest.param(
            FOUR.replace("[fix, check-2]", "[fix]"),
            Disconnect("gate", "choice", "fix"),
            """\
            -        choices: [fix]""",
            id="the last choice is removed with its field",
        ),
        pytest.param(
            SMALL,
            Connect("b", "choice", "a"),
            """\
            +    choices: [a]""",
            id="the first choice",
        ),
        pytest.param(
            COMMENTED,
            SetInitial("tests"),
            """\
            -initial: check
            +initial: tests""",
            id="another initial state",
        ),
        pytest.param(
            COMMENTED,
            SetField(("backoff",), "2s"),
            """\
            +backoff: 2s""",
            id="a field of the loop is added before its states",
        ),
        pytest.param(
            "states:\n  a: {terminal: true}\ninitial: a\n",
            SetField(("backoff",), 2),
            """\
            +backoff: 2""",
            id="a field of the loop is added at the end",
        ),
        pytest.param(
            COMMENTED,
            SetField(("states", "check", "action"), "first\nsecond\n"),
            """\
            -    action: mypy ${context.target}   # fast
            +    action: |   # fast
            +      first
            +      second""",
            id="a text becomes a block, and its comment stays",
        ),
        pytest.param(
            COMMENTED,
            SetField(("states", "fix", "action"), "make fix"),
            """\
            -    action: |
            -      # not a comment
            -      echo "errors: ${captured.check.output:q}"
            -
            -      echo '$${captured.check.output}'
            +    action: make fix""",
            id="a block becomes a text",
        ),
        pytest.param(
            COMMENTED,
            SetField(("states", "tests", "condition"), {"type": "exit_code", "fail": ["x" * 70]}),
            """\
            -    condition: {type: exit_code, fail: [1, 2, 5]}
            +    condition:
            +      type: exit_code
            +      fail:
            +        - """
            + "x" * 70,
            id="a mapping on one line becomes a block",
        ),
        pytest.param(
            COMMENTED,
            SetField(("states", "broken"), {"terminal": True}),
            """\
            -  broken:
            -    terminal: true
            -    outcome: failure
            +  broken: {terminal: true}""",
            id="a block becomes a mapping on one line",
        ),
        pytest.param(
            COMMENTED,
            SetField(("states", "check", "retry", "max"), 3),
            """\
            +    retry: {max: 3}""",
            id="what is missing above a field is added",
        ),
        pytest.param(
            COMMENTED,
            SetField(("states", "tests", "condition", "fail", 3), 7),
            """\
            -    condition: {type: exit_code, fail: [1, 2, 5]}
            +    condition: {type: exit_code, fail: [1, 2, 5, 7]}""",
            id="an item is added in brackets",
        ),
        pytest.param(
            COMMENTED,
            SetField(("states", "tests", "condition", "fail", 1), {"a": [1, {"b": None}]}),
            """\
            -    condition: {type: exit_code, fail: [1, 2, 5]}
            +    condition: {type: exit_code, fail: [1, {a: [1, {b: null}]}, 5]}""",
            id="an item is changed in brackets",
        ),
        pytest.param(
            COMMENTED,
            RemoveField(("states", "tests", "condition", "fail", 0)),
            """\
            -    condition: {type: exit_code, fail: [1, 2, 5]}
            +    condition: {type: exit_code, fail: [2, 5]}""",
            id="an item is removed in brackets",
        ),
        pytest.param(
            "context: {until: friday}\ninitial: a\nstates:\n  a: {terminal: true}\n",
            SetField(("context", "condition"), "monday"),
            """\
            -context: {until: friday}
            +context: {until: friday, condition: monday}""",
            id="a variable with the name of a field has no aliases",
        ),
        pytest.param(
            COMMENTED,
            RemoveField(("context", "target")),
            """\
            -context: {target: src/}  # where
            +context: {}  # where""",
            id="an empty mapping is left",
        ),
        pytest.param(
            COMMENTED.replace("{target: src/}", "{}"),
            SetField(("context", "n"), 3),
            """\
            -context: {}  # where
            +context: {n: 3}  # where""",
            id="the first entry in braces",
        ),
        pytest.param(
            COMMENTED.replace("{target: src/}", ""),
            SetField(("context", "n"), 3),
            """\
            -context:   # where
            +context: {n: 3}   # where""",
            id="the first entry where nothing is",
        ),
        pytest.param(
            COMMENTED,
            SetField(("context",), {"long": "x" * 80}),
            """\
            -context: {target: src/}  # where
            +context:  # where
            +  long: """
            + "x" * 80,
            id="a mapping that is too long for one line",
        ),
        pytest.param(FOUR, SetField(("states", "pruefen", "on_pass"), "done"), "", id="no change"),
        pytest.param(
            FOUR,
            SetField(("states", "pruefen", "on_pass"), "fix"),
            """\
            -        on_met: 'done'
            +        on_met: 'fix'""",
            id="an alias stays",
        ),
        pytest.param(
            FOUR,
            SetField(("states", "pruefen", "action"), 'say "x"'),
            """\
            -        action: "echo 'ÄÖÜ 🎉'"   # ✓ gut
            +        action: "say \\"x\\""   # ✓ gut""",
            id="double quotes stay",
        ),
        pytest.param(
            FOUR,
            SetField(("states", "pruefen", "action"), "a\nb"),
            """\
            -        action: "echo 'ÄÖÜ 🎉'"   # ✓ gut
            +        action: |-   # ✓ gut
            +          a
            +          b""",
            id="a text in quotes becomes a block",
        ),
        pytest.param(
            FOUR,
            SetField(("states", "check-2", "action"), "a\tb"),
            """\
            -        action: 'echo ''it'' ${captured.fix.output}'
            +        action: "a\\tb\"""",
            id="single quotes cannot stay",
        ),
        pytest.param(
            LISTS,
            SetField(("tools", 0), "pytest"),
            """\
            -- mypy src   # check
            +- pytest   # check""",
            id="an item is changed",
        ),
        pytest.param(
            LISTS,
            SetField(("tools", 1), "make fix"),
            """\
            --
            -  # the first fix
            -  action: make fix
            -
            -  timeout: 5m
            +- make fix""",
            id="an item below its dash is changed",
        ),
        pytest.param(
            LISTS,
            SetField(("tools", 3), {"action": "a\nb\n"}),
            """\
            -- action: last
            +-
            +  action: |
            +    a
            +    b""",
            id="an item beside its dash is changed",
        ),
        pytest.param(
            LISTS,
            SetField(("tools", 4), "a\nb"),
            """\
            +- |-
            +  a
            +  b""",
            id="an item is added",
        ),
        pytest.param(
            LISTS,
            RemoveField(("tools", 1)),
            """\
            --
            -  # the first fix
            -  action: make fix
            -
            -  timeout: 5m""",
            id="an item is removed",
        ),
        pytest.param(
            LISTS,
            RemoveField(("tools", 2, 0)),
            """\
            -- - nested
            +- []""",
            id="an empty list is left",
        ),
        pytest.param(
            LISTS.replace("- - nested", "- - nested\n  - more"),
            RemoveField(("tools", 2, 0)),
            """\
            -- - nested
            -  - more
            +- - more""",
            id="the first item of a list beside a dash",
        ),
        pytest.param(
            LISTS.replace("action: last", "action: last\n  env: {A: b}"),
            RemoveField(("tools", 3, "action")),
            """\
            -- action: last
            -  env: {A: b}
            +- env: {A: b}""",
            id="the first field beside a dash",
        ),
        pytest.param(
            "{a: 1, # one\n b: 2}\n",
            RemoveField(("b",)),
            """\
            - b: 2}
            + }""",
            id="the comment on what stays is kept in braces",
        ),
        pytest.param(
            "a: 1\nb: |\n  x\n  \n\n# c\nc: 2\n",
            SetField(("b",), "y\n"),
            """\
            -  x
            +  y""",
            id="blank lines after a block stay",
        ),
        pytest.param(
            "a: |+\n  x\nb: 1\n\n\nc: 2\n",
            RemoveField(("b",)),
            """\
            -b: 1
            -
            -""",
            id="blank lines do not become part of a text",
        ),
        pytest.param(
            "a: 1\nb : 2\n",
            SetField(("b",), 3),
            """\
            -b : 2
            +b : 3""",
            id="a blank before a colon",
        ),
        pytest.param(
            "a: |\n\n# c\nc: 2\n",
            SetField(("a",), "y"),
            """\
            -a: |
            +a: y""",
            id="an empty block",
        ),
    ],
)
def test_edit(text, operation, expected):
    assert difference(text, operation) == dedent(expected)


@pytest.mark.parametrize(
    ("text", "operation", "message", "help"),
    [
        pytest.param(
            "a: &x 1\nb: *x\n",
            SetField(("a",), 2),
            "line 1: anchors are not allowed: `&x`",
            "fix this in the text first",
            id="anchors",
        ),
        pytest.param(
            b"a: \xff\n".decode(errors="surrogateescape"),
            SetField(("a",), 2),
            "line 1: the character U+DCFF is not allowed in YAML",
            "fix this in the text first",
            id="not a character",
        ),
        pytest.param(
            "x" * (1 << 20) + "x",
            SetField(("a",), 2),
            "`` is larger than 1 MiB",
            "fix this in the text first",
            id="too large",
        ),
        pytest.param(
            "- a\n",
            SetField(("a",), 2),
            "the file is not a mapping of fields",
            "edit the text instead",
            id="not a mapping",
        ),
        pytest.param(
            "? a\n: 1\nb: 2\n",
            SetField(("a",), 2),
            "this part of the file has an unusual layout",
            "edit the text instead",
            id="a key on a line of its own",
        ),
        pytest.param(
            "? a\n: 1\nb: 2\n",
            RemoveField(("a",)),
            "this part of the file has an unusual layout",
            "edit the text instead",
            id="removing a key on a line of its own",
        ),
        pytest.param(
            "a: 1\n",
            RemoveField(("a",)),
            "this part of the file has an unusual layout",
            "edit the text instead",
            id="the only field",
        ),
        pytest.param(
            "a:\n- b: |+\n    x\n\n",
            SetField(("a", 0, "c"), 1),
            "this part of the file has an unusual layout",
            "edit the text instead",
            id="a text that keeps its blank lines beside a dash",
        ),
        pytest.param(
            SMALL.replace("action: x", 'action: "echo ${captured.\\x62.output}"'),
            RenameState("b", "c"),
            "this edit would change more than it should",
            "edit the text instead",
            id="a name with an escape",
        ),
        pytest.param(
            LISTS,
            AddState("a", {}),
            "this loop is not written with states",
            "edit its own fields, or convert it to states first",
            id="no states",
        ),
        pytest.param(
            "states: 1\n",
            AddState("a", {}),
            "`states` is not a mapping",
            "fix it in the text",
            id="states are not a mapping",
        ),
        pytest.param(
            "states: {a: 1}\n",
            DeleteState("a"),
            "state `a` is not a mapping of fields",
            "fix it in the text",
            id="a state is not a mapping",
        ),
        pytest.param(
            SMALL, SetInitial("c"), "there is no state `c`", None, id="no such initial state"
        ),
        pytest.param(
            SMALL, Connect("a", "pass", "c"), "there is no state `c`", None, id="no such target"
        ),
        pytest.param(
            SMALL,
            RenameState("a", "b"),
            "there is already a state `b`",
            "choose another name",
            id="a name that is taken",
        ),
        pytest.param(
            SMALL,
            AddState("c", {}, "nowhere"),
            "there is no state `nowhere`",
            None,
            id="after a state that there is not",
        ),
        pytest.param(
            SMALL,
            AddState("a b", {}),
            "`a b` is not a valid state name",
            "use letters, digits, `_` and `-`; begin with a letter or `_`",
            id="not a name",
        ),
        pytest.param(
            SMALL,
            DeleteState("a"),
            "`a` is the initial state",
            "choose another initial state first",
            id="the initial state",
        ),
        pytest.param(
            FOUR.replace("[fix, ", "[kaputt, ").replace(', "pruefen"]', "]"),
            DeleteState("kaputt"),
            "`hooks.before_state` is only for state `kaputt`",
            "remove the hook, or name other states there",
            id="a hook for one state",
        ),
        pytest.param(
            SMALL,
            Disconnect("a", "pass"),
            "there is no `states.a.on_pass` in this file",
            None,
            id="no such transition",
        ),
        pytest.param(
            SMALL,
            Disconnect("a", "choice", "b"),
            "state `a` has no choice `b`",
            None,
            id="no such choice",
        ),
        pytest.param(
            LISTS,
            SetField(("tools", 0, "timeout"), 5),
            "`tools.0` cannot contain `timeout`",
            "set the whole value instead",
            id="a field of a text",
        ),
        pytest.param(
            LISTS,
            SetField(("tools", 9), 5),
            "`tools` cannot contain `9`",
            "set the whole value instead",
            id="an item far after the last",
        ),
    ],
)
def test_refused(text, operation, message, help):
    with pytest.raises(Refused) as caught:
        apply(text, operation)
    assert (caught.value.message, caught.value.help) == (message, help)


REFERENCES = """\
name: all
initial: a
on_error: a
hooks:
  before_state: {action: ./x.sh, states: [a, b]}
  events: {loop_paused: ./a}
notify:
- {to: "echo a ${captured.a.output}"}
result: {n: "${captured.a.output}"}
states:
  a:
    action: "x"
  b:
    condition:
      type: all
      of:
      - {type: exit_code, source: a}
      - type: not
        of: {type: output_contains, pattern: a, source: "${captured.a.output}"}
    on_pass: a
    choices: [a]
    x-own: a
  c:
    branches:
      a: {action: "echo a ${captured.a.output}"}
      b: a
    before: {action: a}
  d:
    loop:
      initial: a
      states: {a: {action: "${captured.a.output}"}}
    with: {a: "${captured.a.output}"}
  e:
    condition: {type: verdict, words: [one], source: [a]}
    route: {one: a}
    on_one: a
    timeout: 5
    next: {a: a}
  f: a
"""


def test_rename_finds_every_reference():
    """Names of branches, of states in a definition in place, and the user's own keys stay."""
    new = apply(REFERENCES, RenameState("a", "start")).text
    assert new == (
        REFERENCES.replace("initial: a\non_error: a", "initial: start\non_error: start")
        .replace("[a, b]", "[start, b]")
        .replace("\n  a:\n", "\n  start:\n")
        .replace("source: a}", "source: start}")
        .replace("on_pass: a\n    choices: [a]", "on_pass: start\n    choices: [start]")
        .replace("route: {one: a}\n    on_one: a", "route: {one: start}\n    on_one: start")
        .replace("${captured.a.", "${captured.start.")
        .replace('{a: {action: "${captured.start.', '{a: {action: "${captured.a.')
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"op": "set_initial", "state": "a"}, SetInitial("a")),
        ({"op": "set_field", "path": ["a", 0], "value": None}, SetField(("a", 0), None)),
        ({"op": "remove_field", "path": ["a"]}, RemoveField(("a",))),
        ({"op": "add_state", "name": "a", "fields": {}}, AddState("a", {})),
        (
            {"op": "disconnect", "state": "a", "on": "pass", "target": None},
            Disconnect("a", "pass", None),
        ),
        (
            {"op": "set_field", "path": ["a"], "yaml": "{b: [1, x]}"},
            SetField(("a",), {"b": [1, "x"]}),
        ),
        ({"op": "set_field", "path": ["a"], "yaml": ""}, SetField(("a",), None)),
        (
            {"op": "set_field", "path": ["a"], "yaml": "{a: 1"},
            "the value is not valid YAML: this `{` is not closed",
        ),
        (
            {"op": "set_field", "path": ["a"], "yaml": 1},
            "the value is not valid YAML: it is not a string",
        ),
        ([], "an operation must be an object"),
        (
            {"op": []},
            "`op` must be one of " + ", ".join(OPERATIONS),
        ),
        ({"op": "set_initial"}, "`set_initial` has no valid `state`"),
        ({"op": "set_initial", "state": 1}, "`set_initial` has no valid `state`"),
        ({"op": "set_initial", "state": "a", "x": 1}, "`set_initial` has no valid `x`"),
        ({"op": "remove_field", "path": [True]}, "`remove_field` has no valid `path`"),
        ({"op": "remove_field", "path": []}, "`remove_field` has no valid `path`"),
        ({"op": "remove_field", "path": "name"}, "`remove_field` has no valid `path`"),
    ],
)
def test_operation_of_json(data, expected):
    assert operation_of(data) == expected


@pytest.mark.parametrize(
    ("length", "lines"), [(62, 6), (63, 7)], ids=["80 columns are one line", "81 are two"]
)
def test_a_mapping_is_written_on_one_line_if_it_fits(length, lines):
    text = "initial: a\nstates:\n  a:\n    action: x\n    next: a\n"
    new = apply(text, SetField(("states", "a", "retry"), {"max": "x" * length})).text
    assert len(new.splitlines()) == lines


def test_a_number_is_no_name_of_a_state():
    text = (
        'initial: a\nstates:\n  a: {action: x, next: "3", on_error: 3}\n  "3": {terminal: true}\n'
    )
    new = apply(text, RenameState("3", "end")).text
    assert new == text.replace('"3"', '"end"')
