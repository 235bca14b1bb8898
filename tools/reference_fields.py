"""The pages `fields.md` and `conditions.md`, from the table of fields that the reader itself uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from little_loops.authoring.fields.kinds import (
    LONGEST_S,
    MOST,
    MOST_STATES,
    Agent,
    AnyScalar,
    Code,
    Codes,
    Command,
    Commands,
    Environment,
    Field,
    Flag,
    Identifier,
    InProject,
    Judge,
    Kind,
    ListOf,
    Machine,
    Name,
    Num,
    OneOf,
    Part,
    Pattern,
    Plain,
    Proof,
    Protected,
    Route,
    Str,
    Table,
    Target,
    Time,
    Variables,
    Whole,
    Words,
)
from little_loops.authoring.fields.table import (
    CHECK_FIX,
    COMMAND,
    COMMON,
    CONDITIONS,
    CONSTRAINT,
    EVIDENCE,
    HOST,
    LOOP,
    OPERATORS,
    OWN,
    RETRY,
    STATE,
    TASK,
    TRANSITIONS,
)
from little_loops.authoring.paradigms.relay import DEFAULT_TURNS
from little_loops.cli.topics import CONDITION_HELP
from little_loops.fsm.schema import RESERVED_WORDS
from tools.markdown import code, sentence, table

# ── what a value may be ────────────────────────────────────────────────────────────────────────


def kind_text(kind: Kind) -> str:
    return _KINDS[type(kind)](kind)


def _whole(kind: Whole) -> str:
    if kind.most == MOST or kind.most > MOST:
        bounds = f", at least {kind.least}"
    else:
        bounds = f" from {kind.least} to {kind.most}"
    return f"whole number{bounds}" + _or_template(kind.template)


def _num(kind: Num) -> str:
    least = "" if kind.least is None else f"{kind.least:g}"
    bounds = f", {'more than' if kind.above else 'at least'} {least}" if least else ""
    return f"number{bounds}" + _or_template(kind.template)


def _bound(kind: Time) -> str:
    if kind.least:
        return f", at least {kind.least} s"
    return ", also 0" if kind.zero else ""


def _or_template(template: bool) -> str:
    return ", or a template" if template else ""


def _one_of(kind: OneOf) -> str:
    *most, last = map(code, kind.words)
    return f"{', '.join(most)} or {last}" if most else last


def _target(kind: Target) -> str:
    return ", ".join(["a state", *map(code, kind.special)])


def _list(kind: ListOf) -> str:
    item = kind_text(kind.item)
    return f"list, not empty: {item}" if kind.least else f"list: {item}"


_KINDS: Mapping[type, Callable[[Any], str]] = {
    Str: lambda kind: "text",
    Plain: lambda kind: "text without `${…}`",
    Identifier: lambda kind: "a whole number, or text without `${…}`",
    Code: lambda kind: "an exit code, or a range such as `1-125`",
    Codes: lambda kind: "a list of exit codes and ranges such as `1-125`; or one range",
    Flag: lambda kind: "`true` or `false`",
    Whole: _whole,
    Num: _num,
    Time: lambda kind: "[time](#times)" + _bound(kind),
    OneOf: _one_of,
    Name: lambda kind: f"[{kind.what} name](#names)",
    Target: _target,
    InProject: lambda kind: "path inside the project",
    Pattern: lambda kind: "gitignore pattern",
    Protected: lambda kind: "list of gitignore patterns, or `{existing: […]}`",
    Proof: lambda kind: "`true`, `false` or a [mapping](#evidence)",
    Words: lambda kind: "list of words",
    Route: lambda kind: "mapping: word to state",
    Variables: lambda kind: "mapping of [your names](#names)",
    Environment: lambda kind: "mapping of variables",
    AnyScalar: lambda kind: "number, text, `true`, `false` or null",
    ListOf: _list,
    Judge: lambda kind: "[condition](conditions.md)",
    Agent: lambda kind: "`claude`, `codex`, `command` or a [mapping](#host)",
    Part: lambda kind: f"[{kind.table}](#{'' if kind.table == 'retry' else 'a-'}{kind.table})",
    Command: lambda kind: "[command](#a-command)",
    Commands: lambda kind: "a command, or a list of commands",
    Machine: lambda kind: "mapping: name to [state](#a-state)",
}


# ── tables ─────────────────────────────────────────────────────────────────────────────────────


def field_rows(fields: tuple[Field, ...]) -> Iterator[tuple[str, str, str, str]]:
    for field in fields:
        names = ", ".join(code(name) for name in (field.name, *field.aliases))
        needed = "required" if field.required else _default(field)
        example = f" Example: {code(field.example)}." if field.example else ""
        yield names, kind_text(field.kind), needed, sentence(field.help) + example


def _default(field: Field) -> str:
    """A default that is YAML is set as code, one that is words stays words."""
    if field.default is None:
        return ""
    words = " " in field.default and field.default[0] not in "[{"
    return field.default if words or field.default == "none" else code(field.default)


def fields_table(fields: tuple[Field, ...]) -> list[str]:
    return table(("field", "value", "default", "meaning"), field_rows(fields))


# ── the page of fields ─────────────────────────────────────────────────────────────────────────

INTRO = """\
What may stand in a loop file. A key that is not here is an error, except keys that begin with `x-`, which are your own.
`ll-loop schema` prints the same as a JSON Schema for editors.
"""

COMMAND_INTRO = """\
Where a paradigm takes a command (`tools`, `steps`, `check`, `fix`, `using`, `agent`), it takes text, or a mapping with `action` and
the other fields of a state that are not transitions:
"""

STATE_INTRO = """\
A state has an `action`, or a `condition` with a `source` (then it only decides), or it is `terminal`. Where a state leads is said by
`next` and `on_…`; [the machine](../explanation/the-machine.md) tells how a way is found.
"""

ON_WORD = """\
A condition with `words` of its own has a way for each of them: `on_<word>: state`, or all of them in `route`. Words that are taken:
"""

EVIDENCE_INTRO = """\
How a run proves that its check passed on what is delivered; [proof](../explanation/proof.md) explains the rules. It needs a git
repository. `.loops/.config.yaml` may have defaults, which count key by key for loops with an agent action and for loops with an `evidence` of
their own.
"""

NAMES = f"""\
- a loop: letters, digits, `.`, `_` and `-`, at most 100 of them, beginning with a letter or digit
- a state or capture: letters, digits, `_` and `-`, at most 100, beginning with a letter or `_`
- a key of `context` or `env`: letters, digits and `_`, not beginning with a digit

A loop has at most {MOST_STATES:,} states. A file has at most 1 MiB and is UTF-8.
"""

TIMES = f"""\
Seconds as a number, or text with units: `90s`, `10m`, `2h`, `1h30m`; at most {LONGEST_S // (365 * 86_400)} years.
"""

CHECK_FIX_INTRO = (
    "The short form of a [goal](#goal), for a file without `paradigm`: the checks run in order, the"
    " first that fails leads to `fix`, and then all of them run again. A shell check without a"
    " `condition` passes on exit code 0 and fails on 1 to 125."
)
PARADIGM_INTROS = {
    "goal": "Something is to be true: the first tool judges, the others make it so.",
    "convergence": "A number is to come near its target, as long as it still comes nearer.",
    "invariants": "Several things are to hold, each with its check and its fix.",
    "imperative": "Steps in order, again and again, until a condition is met.",
    "relay": "One plan, handed to fresh agents until it is implemented. `max_iterations` counts turns here and is "
    f"{DEFAULT_TURNS} by default. The [file each turn leaves](return-metadata.md) has a page of its own.",
}


def fields_page() -> Iterator[str]:
    yield from ("# Fields of a loop file", "", *INTRO.splitlines(), "")
    yield from ("## The loop", "", "Of every loop, whatever its paradigm:", "")
    own = tuple(field for field in LOOP.fields if field.name not in ("initial", "states"))
    yield from fields_table(own)
    yield from ("## Paradigms", "", "Beside the fields above, each paradigm has its own.", "")
    yield from (
        "### `fsm`",
        "",
        "The machine itself; also the default where there are `states`.",
        "",
    )
    yield from fields_table(LOOP.fields[:2])
    yield from ("### `check` and `fix`", "", CHECK_FIX_INTRO, "")
    yield from fields_table(CHECK_FIX.fields[:3])
    for name, fields in OWN.items():
        yield from (f"### `{name}`", "", PARADIGM_INTROS[name], "")
        yield from fields_table(fields)
    yield from ("## A constraint", "", "Of [invariants](#invariants).", "")
    yield from fields_table(CONSTRAINT.fields)
    yield from ("## A task", "", "Of [relay](#relay).", "")
    yield from fields_table(TASK.fields)
    yield from ("## A command", "", *COMMAND_INTRO.splitlines(), "")
    fields = COMMAND.fields
    yield ", ".join(code(name) for each in fields for name in (each.name, *each.aliases)) + "."
    yield ""
    yield from _state_part()
    yield from ("## `retry`", "", "How a state repeats that leads to `$current`.", "")
    yield from fields_table(RETRY.fields)
    yield from ("## `evidence`", "", *EVIDENCE_INTRO.splitlines(), "")
    yield from fields_table(EVIDENCE.fields)
    yield from ("## `host`", "", "A state's `host` overrides the loop's, key by key.", "")
    yield from fields_table(HOST.fields)
    yield from ("## Names", "", *NAMES.splitlines(), "")
    yield from ("## Times", "", *TIMES.splitlines())


def _state_part() -> Iterator[str]:
    yield from ("## A state", "", *STATE_INTRO.splitlines(), "")
    transitions = tuple(field for field in STATE.fields if field.name in TRANSITIONS)
    yield from fields_table(
        tuple(map(_of_a_state, (f for f in STATE.fields if f not in transitions)))
    )
    yield from ("### Transitions and ends", "")
    yield from fields_table(transitions)
    yield from ("### Words of one's own", "", *ON_WORD.splitlines())
    yield ", ".join(map(code, RESERVED_WORDS)) + "."
    yield ""


def _of_a_state(field: Field) -> Field:
    return field._replace(default="the loop's") if field in COMMON else field


# ── the page of conditions ─────────────────────────────────────────────────────────────────────

CONDITIONS_INTRO = """\
A `condition` makes a verdict of what an action left. Without one, a shell action is judged by its exit code: 0 passes, 1 fails, 2 and above
is an error. An agent is asked for its verdict where pass and fail lead to different states.

A condition that cannot judge gives the verdict `error` with the reason and the beginning of what it saw, never a `fail`. An action that timed out,
was not found (127), could not be executed (126) or was killed is an error before any condition is asked.
"""

CONDITION_NOTES = {
    "exit_code": "With `target`, that code passes. `fail` lists codes that are failures and not errors; pytest's are `[1, 2, 5]`.",
    "output_contains": "The pattern is a regular expression if it compiles as one and has a special character, else plain text; `regex` decides it by "
    "hand, and `ll-loop validate` says which reading it took. `^` and `$` are the ends of a line. There is no look-around and there are no back-references.",
    "output_json": "The path is jq's own language and must give exactly one value.",
    "output_numeric": "The number is the whole of the output, or else its last line that is not blank.",
    "convergence": "Verdicts: `target` within `tolerance` of the target (or at or beyond it with a `direction`), else `progress` at the first measurement and "
    "whenever the number is nearer than the best so far, `stall` when it has not been for `patience` measurements. A state with `on_target` and no "
    "condition has this one, with `context.target` and `context.tolerance`.",
    "verdict": "A host that can is asked for structured output; for others the last line `VERDICT: word` counts. No verdict is an error.",
    "all": "They are asked in order; the first that fails or is an error decides.",
    "any": "They are asked in order; the first that passes or is an error decides.",
    "not": "An error stays an error.",
}
CONDITION_EXAMPLES = {
    "exit_code": "{type: exit_code, fail: [1, 2, 5]}",
    "output_contains": '{type: output_contains, pattern: "^OK$"}',
    "output_json": "{type: output_json, path: .summary.failed, target: 0}",
    "output_numeric": "{type: output_numeric, operator: le, target: 5}",
    "convergence": "{type: convergence, target: 0, patience: 2}",
    "verdict": "{type: verdict, words: [approve, revise, reject]}",
    "all": "{type: all, of: [{type: exit_code}, {type: output_contains, pattern: ready}]}",
    "any": "{type: any, of: [{type: exit_code}, {type: output_contains, pattern: skipped}]}",
    "not": "{type: not, of: {type: output_contains, pattern: deprecated}}",
}


def conditions_page() -> Iterator[str]:
    yield from ("# Conditions", "", *CONDITIONS_INTRO.splitlines(), "")
    for name, of in CONDITIONS.items():
        yield from (f"## `{name}`", "", sentence(CONDITION_HELP[name]), "")
        yield from ("```yaml", f"condition: {CONDITION_EXAMPLES[name]}", "```", "")
        own = tuple(field for field in of.fields if field.name not in ("type", "source"))
        yield from fields_table(own)
        yield from (CONDITION_NOTES[name], "")
    yield from ("## `source`", "", *_source(next(iter(CONDITIONS.values()))), "")
    yield from ("## `operator`", "")
    yield f"One of {', '.join(map(code, OPERATORS.words))}. Order wants two numbers or two texts."


def _source(of: Table) -> Iterator[str]:
    field = of.by_name["source"]
    yield f"Every condition may have a `source`: {field.help}."
    yield f"Default: {field.default}. Example: `source: {field.example}`."
