"""Codes about keys, values and names: LL1xx."""

from __future__ import annotations

from little_loops.authoring.codes import Code
from little_loops.authoring.codes_yaml import MACHINE

_CHECK = """\
initial: check
states:
  check:
    action: pytest
    {}
    on_pass: done
    on_fail: fix
  fix: {{action: make fix, next: check}}
  done: {{terminal: true}}
"""
_WORDS = """\
initial: check
states:
  check:
    action: /review
    condition: {type: verdict, words: [good, bad]}
    route: {good: done, bad: $current}
  done: {terminal: true}
"""
_GOAL = """\
paradigm: goal
goal: Tests pass
tools: [pytest, {}]
"""

CODES = (
    Code(
        "LL101",
        "a field is missing",
        "Some fields have no default: a loop needs `initial` and `states`, a paradigm its own "
        "fields, a condition what it compares with.",
        _CHECK.format("condition: {type: output_contains}"),
        _CHECK.format("condition: {type: output_contains, pattern: passed}"),
    ),
    Code(
        "LL102",
        "an unknown key",
        "There is no field of this name here, so whatever it was to do would not happen. Keys of "
        "your own begin with `x-`.",
        _CHECK.format("on_eror: fix"),
        _CHECK.format("on_error: fix"),
    ),
    Code(
        "LL103",
        "a value of the wrong type",
        "The field wants another type of value than is written.",
        "max_iterations: many\n" + MACHINE,
        "max_iterations: 20\n" + MACHINE,
    ),
    Code(
        "LL104",
        "a number out of range",
        "The number is too small or too large for the field.",
        "max_iterations: 0\n" + MACHINE,
        "max_iterations: 1\n" + MACHINE,
    ),
    Code(
        "LL105",
        "not one of the words",
        "The field takes one of a few words.",
        "on_handoff: wait\n" + MACHINE,
        "on_handoff: pause\n" + MACHINE,
    ),
    Code(
        "LL106",
        "not a name",
        "Loops: letters, digits, `.`, `_`, `-`, beginning with a letter or digit. States and "
        "captures: letters, digits, `_`, `-`, beginning with a letter or `_`. Variables: letters, "
        "digits and `_`. Names become parts of paths and of templates, hence the rules.",
        "name: fix all types\n" + MACHINE,
        "name: fix-all-types\n" + MACHINE,
    ),
    Code(
        "LL107",
        "a key without a value",
        "Nothing stands behind the colon. Remove the key to have its default.",
        "description:\n" + MACHINE,
        "description: run the tests\n" + MACHINE,
    ),
    Code(
        "LL108",
        "two names of one field",
        "`on_met` is another name of `on_pass`, `on_unmet` of `on_fail`, `check_condition` of "
        "`condition`, `until` of an imperative loop's `condition`.",
        _CHECK.format("on_met: done"),
        _CHECK.format("on_error: fix"),
    ),
    Code(
        "LL109",
        "not a finite number",
        "`.nan` and `.inf` are numbers to YAML, but nothing can be compared with them.",
        "context: {limit: .inf}\n" + MACHINE,
        "context: {limit: 1000000}\n" + MACHINE,
    ),
    Code(
        "LL110",
        "not a time",
        "Times are seconds as a number, or text like `90s`, `10m`, `2h`, `1h30m`.",
        "timeout: 10 minutes\n" + MACHINE,
        "timeout: 10m\n" + MACHINE,
    ),
    Code(
        "LL111",
        "empty",
        "The text or list has nothing in it, and the field needs something.",
        "scope: []\n" + MACHINE,
        "scope: [src/]\n" + MACHINE,
    ),
    Code(
        "LL112",
        "`states` beside a paradigm's fields",
        "A file with `states` is taken as the machine itself; the fields of a paradigm would mean "
        "nothing in it.",
        "goal: Tests pass\n" + MACHINE,
        MACHINE,
    ),
    Code(
        "LL113",
        "the paradigm is not named",
        "The fields are those of a paradigm, but the file does not say which: then it counts as "
        "`fsm`, which has `states`.",
        "goal: Tests pass\ntools: [pytest, make fix]\n",
        _GOAL.format("make fix"),
    ),
    Code(
        "LL115",
        "a path that cannot be used",
        "Paths are relative to the project and lie inside it. `scope` takes paths, not patterns: "
        "everything below a directory belongs to it.",
        "scope: [src/**]\n" + MACHINE,
        "scope: [src/]\n" + MACHINE,
    ),
    Code(
        "LL116",
        "a word that cannot be a verdict",
        "Some words have a meaning of their own (error, timeout, target, progress, stall, "
        "interrupt, maintain, handoff), and each word is listed once.",
        _CHECK.format("condition: {type: verdict, words: [pass, fail, error]}"),
        _CHECK.format("condition: {type: verdict, words: [pass, fail]}"),
    ),
    Code(
        "LL117",
        "a `route` that does not fit",
        "`route` leads the words of a `verdict` condition to states: each word that is listed "
        "there, and either here or by `on_<word>`.",
        _CHECK.format("condition: {type: verdict, words: [good, bad]}\n    route: {god: done}"),
        _WORDS,
    ),
    Code(
        "LL118",
        "a transition in a command",
        "In a paradigm the paradigm says where a command leads. To say it yourself, write `states`.",
        _GOAL.format("{action: make fix, next: evaluate}"),
        _GOAL.format("{action: make fix, timeout: 5m}"),
    ),
    Code(
        "LL119",
        "nothing to do, nothing to judge",
        "A state has an action, or a condition that judges an earlier result (`source`), or it is "
        "terminal.",
        "initial: check\nstates:\n  check: {on_pass: done}\n  done: {terminal: true}\n",
        "initial: check\nstates:\n  check: {action: pytest, on_pass: done, on_fail: check}\n"
        "  done: {terminal: true}\n",
    ),
    Code(
        "LL120",
        "a condition that contradicts itself",
        "Two of its fields, or the condition and the place it stands in, cannot both be meant.",
        _CHECK.format("condition: {type: exit_code, target: 0, fail: [0, 1]}"),
        _CHECK.format("condition: {type: exit_code, target: 0, fail: [1, 2]}"),
    ),
    Code(
        "LL121",
        "YAML reads it as something else than text",
        "Without quotes YAML takes yes, no, on, off, true and false for booleans and digits for "
        "numbers. Quotes make them text.",
        "initial: check\n"
        "states:\n"
        '  check: {action: pytest, on_pass: "yes"}\n'
        "  yes: {terminal: true}\n",
        "initial: check\n"
        "states:\n"
        '  check: {action: pytest, on_pass: "yes", on_fail: failed}\n'
        '  "yes": {terminal: true}\n'
        "  failed: {terminal: true}\n",
    ),
    Code(
        "LL122",
        "a number that readers of YAML do not agree on",
        "`010` is 8 or 10, `1:30` is 90 or text, `1_000` is 1000 or text: it depends on the "
        "version of YAML. Plain decimal numbers are what they look like.",
        "timeout: 010\n" + MACHINE,
        "timeout: 10\n" + MACHINE,
    ),
    Code(
        "LL123",
        "too many of them",
        "A loop has at most 1,000 states, and a list that becomes states as many items; a verdict "
        "is one of at most 100 words.",
        right=MACHINE,
    ),
    Code(
        "LL124",
        "two states of one name",
        "A paradigm makes states out of names; two of them came out the same.",
        "paradigm: invariants\n"
        "constraints:\n"
        "  - {name: tests, check: pytest, fix: make fix}\n"
        "  - {name: tests, check: pytest tests, fix: make fix}\n",
        "paradigm: invariants\n"
        "constraints:\n"
        "  - {name: tests, check: pytest, fix: make fix}\n"
        "  - {name: lint, check: ruff check, fix: make fix}\n",
    ),
    Code(
        "LL125",
        "a special target in the wrong place",
        "`$current` runs a state again: it can stand where a state says where to go, not in "
        "`initial`, `on_maintain` or the loop's own handlers. `$error` is for `on_interrupt`.",
        "on_error: $current\n" + MACHINE,
        "on_error: fix\n" + MACHINE,
    ),
    Code(
        "LL126",
        "a NUL character",
        "The operating system ends every command, path and variable at a NUL character, so none "
        "can hold one.",
        'description: "a\\0b"\n' + MACHINE,
        "description: ab\n" + MACHINE,
    ),
)
