"""The pages `fields.md` and `conditions.md`, from the table of fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from little_loops.authoring.fields.kinds import (
    LONGEST_S,
    MOST,
    MOST_STATES,
    ActionKind,
    AnyScalar,
    BranchMap,
    CodeKind,
    Codes,
    Commands,
    ConditionKind,
    Environment,
    EventCommands,
    Field,
    Flag,
    ForEach,
    HookCommand,
    HostKind,
    Identifier,
    InProject,
    Join,
    Kind,
    ListOf,
    Machine,
    Matrix,
    Name,
    Num,
    OneOf,
    OtherKind,
    OwnTree,
    PartKind,
    PatternKind,
    Plain,
    Ports,
    Proof,
    Protected,
    Recipient,
    Resolver,
    Route,
    Str,
    SubLoop,
    Table,
    TargetKind,
    Time,
    Variables,
    Whole,
    Words,
)
from little_loops.authoring.fields.reader import default_text
from little_loops.authoring.fields.table import (
    BRANCH,
    CHECK_FIX,
    COMMAND,
    COMMON,
    CONDITIONS,
    CONSTRAINT,
    EVIDENCE,
    HOOK_TABLES,
    HOOKS,
    HOST,
    LIMITS,
    LOOP,
    NOTIFY,
    OPERATORS,
    OWN,
    RETRY,
    RUNS_ON,
    STATE,
    TASK,
    TRANSITIONS,
    WORKSPACE,
    WORKTREE_TABLES,
)
from little_loops.authoring.loop_tests import EXPECT, FILE, OUTCOME, TEST
from little_loops.authoring.paradigms.relay import DEFAULT_TURNS
from little_loops.cli.topics import CONDITION_HELP
from little_loops.fsm.schema import RESERVED_WORDS
from tools.markdown import code, sentence, table

# ── kinds of values ────────────────────────────────────────────────────────────────────────


_NAMED_ALIKE = ("retry", "hooks", "limits", "notify", "workspace", "runs_on")
"""Tables whose fields have their names."""


def kind_text(kind: Kind) -> str:
    if isinstance(kind, OtherKind):
        return kind.words
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
    words = "".join(f", or {code(word)}" for word in kind.words)
    return f"number{bounds}" + _or_template(kind.template) + words


def _bound(kind: Time) -> str:
    if kind.least:
        return f", at least {kind.least} s"
    return ", also 0" if kind.zero else ""


def _or_template(template: bool) -> str:
    return ", or a template" if template else ""


def _one_of(kind: OneOf) -> str:
    *most, last = map(code, kind.words)
    return f"{', '.join(most)} or {last}" if most else last


def _target(kind: TargetKind) -> str:
    return ", ".join(["a state", *map(code, kind.special)])


def _list(kind: ListOf) -> str:
    item = kind_text(kind.item)
    return f"list, not empty: {item}" if kind.least else f"list: {item}"


_KINDS: Mapping[type, Callable[[Any], str]] = {
    Str: lambda kind: "text",
    Plain: lambda kind: "text without `${…}`",
    Identifier: lambda kind: "a whole number, or text without `${…}`",
    CodeKind: lambda kind: "an exit code, or a range such as `1-125`",
    Codes: lambda kind: "a list of exit codes and ranges such as `1-125`; or one range",
    Flag: lambda kind: "`true` or `false`",
    Whole: _whole,
    Num: _num,
    Time: lambda kind: "[time](#times)" + _bound(kind),
    OneOf: _one_of,
    Name: lambda kind: f"[{kind.what} name](#names)",
    TargetKind: _target,
    InProject: lambda kind: "path inside the project",
    PatternKind: lambda kind: "gitignore pattern",
    Protected: lambda kind: "list of gitignore patterns, or `{existing: […]}`",
    Proof: lambda kind: "`true`, `false` or a [mapping](#evidence)",
    Words: lambda kind: "list of words",
    Route: lambda kind: "mapping: word to state",
    Variables: lambda kind: "mapping of [your names](#names)",
    Environment: lambda kind: "mapping of variables",
    AnyScalar: lambda kind: "number, text, `true`, `false` or null",
    ListOf: _list,
    ConditionKind: lambda kind: "[condition](conditions.md)",
    HostKind: lambda kind: "`claude`, `codex`, `command` or a [mapping](#host)",
    PartKind: lambda kind: (
        f"[{kind.table}](#{'' if kind.table in _NAMED_ALIKE else 'a-'}{kind.table})"
    ),
    ActionKind: lambda kind: "[command](#a-command)" + (" or loop" if kind.loops else ""),
    Commands: lambda kind: (
        "a command or loop, or a list of them" if kind.loops else "a command, or a list of commands"
    ),
    HookCommand: lambda kind: "a [hook](#a-hook)",
    EventCommands: lambda kind: "mapping: kind of [event](events.md) to [hook](#a-hook)",
    Recipient: lambda kind: "an address or a command",
    Machine: lambda kind: "mapping: name to [state](#a-state)",
    SubLoop: lambda kind: "name or path of a loop, or a definition",
    ForEach: lambda kind: "a list, text, or `{glob: pattern}`",
    Matrix: lambda kind: "mapping: [name](#names) to a list of values",
    Join: lambda kind: "`all`, `any`, a whole number, or a percentage such as `80%`",
    BranchMap: lambda kind: "mapping: name to [branch](#a-branch)",
    Resolver: lambda kind: "name of a loop, or a [branch](#a-branch)",
    OwnTree: lambda kind: "`true`, `false` or a [mapping](#worktree)",
    Ports: lambda kind: "mapping: variable to number",
}


# ── tables ─────────────────────────────────────────────────────────────────────────────────────


def field_rows(fields: tuple[Field, ...]) -> Iterator[tuple[str, str, str, str]]:
    for field in fields:
        names = ", ".join(code(name) for name in (field.name, *field.aliases))
        needed = "required" if field.required else _default(field)
        example = f" Example: {code(field.example)}." if field.example else ""
        yield names, kind_text(field.kind), needed, sentence(field.help) + example


def _default(field: Field) -> str:
    """A default in YAML is shown as code, a default in words as text."""
    return "" if field.default is None else default_text(field.default)


def fields_table(fields: tuple[Field, ...]) -> list[str]:
    return table(("field", "value", "default", "meaning"), field_rows(fields))


# ── the page of fields ─────────────────────────────────────────────────────────────────────────

INTRO = """\
These are the fields of a loop file. Any other key is an error, except keys that start with `x-`, which are ignored and free for your own use.
`ll-loop schema` prints the same information as a JSON Schema for editors.
"""

COMMAND_INTRO = """\
Where a paradigm takes a command (`tools`, `steps`, `check`, `fix`, `using`, `agent`), write text, or a mapping with `action` and
other fields of a state, except transitions. What fixes, improves or is a step (`fix`, `using`, `steps`, and `tools` after the first) can
also be another loop: a mapping with `loop` instead of `action`, and `with` and `limits` as in a [state](#a-state). The fields of a command:
"""

BRANCH_INTRO = """\
An entry of `branches`: an `action` or a `loop`, with these fields of a state.
[Many files, many agents](../howto/branches.md) explains branches.
"""

STATE_INTRO = """\
A state has an `action`, or a `condition` with a `source` (it then only decides), or it is `terminal`. `next` and `on_…` name the next
state; [the machine](../explanation/the-machine.md#transitions) explains how a transition is selected.
"""

ON_WORD = """\
A condition with your own `words` needs a transition for each of them: `on_<word>: state`, or an entry in `route`. These words are reserved:
"""

HOOKS_INTRO = """\
Commands that run before and after the run and its states, and alongside it on events. `before_run` runs whenever the run is started or resumed, and
`after_run` whenever it ends, pauses or is stopped, but not after a kill. `before_state` and `after_state` run once for each entry of a state
with an action: not for each attempt, and not when a check runs again to confirm its pass.

If a hook before something fails or takes too long, what follows does not happen: the run ends as failed (`before_run`), or the state has the
verdict `error` (`before_state`, `before`). If a hook after something fails, that is a warning. `required` changes either, but in a terminal
state a failure is always a warning. `events` run one at a time, in the order of the events, and never hold up the run; at its end they get
ten seconds.
"""

HOOK_INTRO = """Write the command alone, or a mapping. Only `before_state` and `after_state` have `states`; `after_run` and the hooks in `events` have no
`required`. `${…}` is left to the shell: a hook gets what it is about as JSON on its standard input (an event as it is in the
[log](events.md); the others have the fields `event`, `ts`, `run`, `loop`, `state`, `iteration`, `step`, `context`, and `resumed`, or
`verdict`, `reason`, `exit_code` and `duration_ms`, or `status`, `reason` and `message`), and the variables `LL_HOOK`, `LL_EVENT_ID` and, before a
resumed run, `LL_RESUMED=1`. A hook that was interrupted runs again, with the same `LL_EVENT_ID` for a state.
"""

WORKTREE_INTRO = """\
A git worktree for the run, outside the project, in your cache directory. `true` takes all defaults. It needs git 2.38 or newer.
The table is that of a state; for a loop, `merge` is `none` by default. See
[run without touching your files](../howto/worktrees.md).
"""
WORKSPACE_INTRO = """\
For runs on a [fleet](../howto/many-machines.md). Files that git ignores, such as installed packages, do not move between machines, so `setup` runs
each time a worker picks up the run, and should do nothing if its work is already done. If it fails, the run ends as failed. A run on one computer
works in your own files and ignores this field.
"""
RUNS_ON_INTRO = """\
For runs on a [fleet](../howto/many-machines.md), in a loop, or in a state that starts a loop or branches. A run waits until there is a worker that
was started with all of the labels. A run on one computer ignores this field.
"""
NOTIFY_INTRO = """\
Who is notified about runs, in a loop or in the user's config file; both apply. `waits`: the run paused for a review, a handoff or the budget,
or it waits for an agent for more than ten minutes. `failed`: every ending but a completed one, and a crash, which the next command that
sees it reports. `completed`: a success state was reached. [Run loops overnight](../howto/run-overnight.md#be-notified) has examples.

A notification has the loop, the ending, the reason and the cost, but never output. It is sent once the event is on disk, and the run does not
wait for it; at the end of a run, sending takes at most ten seconds, with at most three tries. Then a failure is a warning. A try is only
repeated if the message has certainly not arrived. Runs that another run started send no notifications; the outer run does.
"""

EVIDENCE_INTRO = """\
How a run proves that its check passed on the delivered files; [proof](../explanation/proof.md) explains the rules. It needs a git
repository. `.loops/.config.yaml` can set a default for each key, for loops with an agent action and loops with their own `evidence`.
"""

NAMES = f"""\
- a loop: letters, digits, `.`, `_` and `-`, at most 100 characters, starting with a letter or digit
- a state or capture: letters, digits, `_` and `-`, at most 100 characters, starting with a letter or `_`
- a key of `context` or `env`: letters, digits and `_`, not starting with a digit

A loop has at most {MOST_STATES:,} states. A file must be UTF-8 and at most 1 MiB in size.
"""

TIMES = f"""\
A number of seconds, or text with units: `90s`, `10m`, `2h`, `1h30m`; at most {LONGEST_S // (365 * 86_400)} years.
"""

CHECK_FIX_INTRO = (
    "The short form of a [goal](#goal), for a file without `paradigm`: the checks run in order, the"
    " first that fails leads to `fix`, and then all of them run again. A shell check without a"
    " `condition` passes on exit code 0 and fails on 1 to 125."
)
PARADIGM_INTROS = {
    "goal": "Makes something true: the first command is the check; the rest fix.",
    "convergence": "Brings a number to its target, and stops when there is no more progress.",
    "invariants": "Keeps several things true, each with its check and its fix.",
    "imperative": "Repeats steps in order until a condition is met.",
    "relay": "Gives one plan to a series of fresh agents until it is implemented. Here `max_iterations` counts turns and is "
    f"{DEFAULT_TURNS} by default. The [return-metadata file](return-metadata.md) has its own page.",
}


def fields_page() -> Iterator[str]:
    yield from ("# Fields of a loop file", "", *INTRO.splitlines(), "")
    yield from ("## The loop", "", "These fields apply to every paradigm:", "")
    own = tuple(field for field in LOOP.fields if field.name not in ("initial", "states"))
    yield from fields_table(own)
    yield from (
        "## Paradigms",
        "",
        "In addition to the fields above, each paradigm has its own.",
        "",
    )
    yield from (
        "### `fsm`",
        "",
        "The machine itself; the default for a file with `states`.",
        "",
    )
    yield from fields_table(LOOP.fields[:2])
    yield from ("### `check` and `fix`", "", CHECK_FIX_INTRO, "")
    yield from fields_table(CHECK_FIX.fields[:3])
    for name, fields in OWN.items():
        yield from (f"### `{name}`", "", PARADIGM_INTROS[name], "")
        yield from fields_table(fields)
    yield from ("## A constraint", "", "For [invariants](#invariants).", "")
    yield from fields_table(CONSTRAINT.fields)
    yield from ("## A task", "", "For a [relay](#relay).", "")
    yield from fields_table(TASK.fields)
    yield from ("## A command", "", *COMMAND_INTRO.splitlines(), "")
    fields = COMMAND.fields
    yield ", ".join(code(name) for each in fields for name in (each.name, *each.aliases)) + "."
    yield ""
    yield from _state_part()
    yield from (
        "## `retry`",
        "",
        "How often and with what delays a transition to `$current` repeats its state.",
        "",
    )
    yield from fields_table(RETRY.fields)
    yield from ("## A branch", "", *BRANCH_INTRO.splitlines(), "")
    yield (
        ", ".join(code(name) for each in BRANCH.fields for name in (each.name, *each.aliases)) + "."
    )
    yield ""
    yield from (
        "## `limits`",
        "",
        "For a state that starts a loop, or has branches. They can only lower the limits of that loop.",
        "",
    )
    yield from fields_table(LIMITS.fields)
    yield from ("## `worktree`", "", *WORKTREE_INTRO.splitlines(), "")
    yield from fields_table(WORKTREE_TABLES["worktree"].fields)
    yield from ("## `workspace`", "", *WORKSPACE_INTRO.splitlines(), "")
    yield from fields_table(WORKSPACE.fields)
    yield from ("## `runs_on`", "", *RUNS_ON_INTRO.splitlines(), "")
    yield from fields_table(RUNS_ON.fields)
    yield from ("## `evidence`", "", *EVIDENCE_INTRO.splitlines(), "")
    yield from fields_table(EVIDENCE.fields)
    yield from ("## `hooks`", "", *HOOKS_INTRO.splitlines(), "")
    yield from fields_table(HOOKS.fields)
    yield from ("### A hook", "", *HOOK_INTRO.splitlines(), "")
    yield from fields_table(HOOK_TABLES["states_hook"].fields)
    yield from ("## `notify`", "", *NOTIFY_INTRO.splitlines(), "")
    yield from fields_table(NOTIFY.fields)
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
    yield from ("### Transitions and endings", "")
    yield from fields_table(transitions)
    yield from ("### Your own verdicts", "", *ON_WORD.splitlines())
    yield ", ".join(map(code, RESERVED_WORDS)) + "."
    yield ""


def _of_a_state(field: Field) -> Field:
    return field._replace(default="the loop's") if field in COMMON else field


# ── the page of conditions ─────────────────────────────────────────────────────────────────────

CONDITIONS_INTRO = """\
A `condition` turns the result of an action into a verdict. Without one, the exit code judges a shell action: 0 passes, 1 fails, 2 and above
is an error. An agent has to give its verdict if pass and fail lead to different states.

A condition that cannot judge gives the verdict `error`, never `fail`, with a reason and the beginning of the output. If an action timed out,
was killed, was not found (127) or could not be executed (126), the verdict is `timeout` or `error`, and no condition is evaluated.
"""

CONDITION_NOTES = {
    "exit_code": "With `target`, that code passes. `fail` lists codes that are failures rather than errors; for pytest use `[1, 2, 5]`.",
    "output_contains": "The pattern is a regular expression if it is a valid one and contains a special character, otherwise plain text. Set `regex` to "
    "decide this yourself; `ll-loop validate` prints how it reads the pattern. `^` and `$` match the start and end of a line. Lookarounds and backreferences are not supported.",
    "output_json": "The path is a jq expression and must give exactly one value.",
    "output_numeric": "The number is the whole output, or its last non-blank line.",
    "convergence": "The verdict is `target` if the number is within `tolerance` of the target, or with a `direction` at or beyond it. Otherwise it is `progress` for the first "
    "measurement and whenever the number is closer than the best so far, and `stall` after `patience` measurements without progress. A state with `on_target` and no "
    "condition uses this condition with `context.target` and `context.tolerance`.",
    "verdict": "If the host supports it, the agent gives its verdict as structured output; otherwise the last line `VERDICT: word` counts. A missing verdict is an error. Only a program that prints plain text, such as `host: {name: command}`, may leave it out if the words are `pass` and `fail`: then its exit code decides, 0 for `pass` and 1 for `fail`.",
    "judge": "A second agent, which may only read, answers the question before a pass counts. It can only veto: it is asked when everything else has passed, it stands alone (the exit code or the agent's own verdict must pass first) or as the last condition of `all`, and it is an error in `any`, `not` and in states without an action. It does not get the `args` of the host. Of a diff above 400,000 characters, it sees the short changes whole and the beginnings of the others, which a warning names; if too many files have changed for that, it has not judged. It must quote the lines that it rests on; if one of them does not exist, or it gives no verdict, it has not judged. Then it is asked once more, and after that the verdict is `error`. If `ll-loop` is killed meanwhile, the judge continues, and `resume` collects its answer: it is asked once. A veto is the verdict `fail`. Until the check runs again, each agent is told the reason, after its prompt.",
    "all": "The conditions are evaluated in order; the first that fails or is an error decides.",
    "any": "The conditions are evaluated in order; the first that passes or is an error decides.",
    "not": "An error stays an error.",
}
CONDITION_EXAMPLES = {
    "exit_code": "{type: exit_code, fail: [1, 2, 5]}",
    "output_contains": '{type: output_contains, pattern: "^OK$"}',
    "output_json": "{type: output_json, path: .summary.failed, target: 0}",
    "output_numeric": "{type: output_numeric, operator: le, target: 5}",
    "convergence": "{type: convergence, target: 0, patience: 2}",
    "verdict": "{type: verdict, words: [approve, revise, reject]}",
    "judge": "{type: judge, question: Is the cause fixed, host: codex, sees: [diff, output]}",
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
        for line in fields_table(own):
            yield line.replace("](#", "](fields.md#")
        yield from (CONDITION_NOTES[name], "")
    yield from ("## `source`", "", *_source(next(iter(CONDITIONS.values()))), "")
    yield from ("## `operator`", "")
    yield f"One of {', '.join(map(code, OPERATORS.words))}. The last four need two numbers or two strings."


def _source(of: Table) -> Iterator[str]:
    field = of.by_name["source"]
    yield f"Every condition can have a `source`: {field.help}."
    yield f"Default: {field.default}. Example: `source: {field.example}`."


# ── the page of test files ─────────────────────────────────────────────────────────────────────

TESTS_INTRO = """\
A test file says what the actions of a loop do, and how its run ends. Test files are `.loops/tests/NAME.test.yaml`; `ll-loop test` runs
them, and [test your loop](../howto/test-your-loop.md) shows how. `ll-loop schema --tests` prints the format as a JSON Schema.

```yaml
loop: fix-types
tests:
  - name: two rounds are enough
    given:
      check: [{exit: 1, output: "3 errors"}, 0]
      fix: {agent: success, changes: [src/a.py], cost_usd: 0.4}
    expect: {status: completed, path: [check, fix, check, done], iterations: 2}
```
"""

TEST_NOTES = """\
- Each state uses its outcomes in order, and the last one repeats. If a state runs its action and the test gives it no outcome, the test fails.
- Where a file has no `changes`, every action except a check changes a separate file. `changes: []` means that nothing changed.
- A check that runs again in a clean copy gives the same result there. A check that runs again in the project uses its next outcome.
- Time passes only through `takes` and through waits, which end immediately.
- A loop with `maintain` is tested up to the end of its first cycle.
- In a relay, give outcomes to `turn`, `settle` (such as `{verdict: implemented}`) and `check`.
"""

OUTCOME_INTRO = """\
A number is an exit code: `1` is `{exit: 1}`. For a state that runs an agent, `0` is `{agent: success}` and any other number
`{agent: failed}`. An action can end in only one way, so a mapping has at most one of `exit`, `signal`, `timeout` and `agent`.
"""


def test_files_page() -> Iterator[str]:
    for line in _test_files():  # names and times are explained with the fields of loops
        yield line.replace("](#names)", "](fields.md#names)").replace(
            "](#times)", "](fields.md#times)"
        )


def _test_files() -> Iterator[str]:
    yield from ("# Test files", "", *TESTS_INTRO.splitlines(), "", *fields_table(FILE.fields))
    yield from ("## A test", "", *fields_table(TEST.fields), *TEST_NOTES.splitlines(), "")
    yield from ("## An outcome", "", *OUTCOME_INTRO.splitlines(), "")
    yield from (*fields_table(OUTCOME.fields), "## What to expect", "")
    yield from ("Only the fields that a test has are compared.", "", *fields_table(EXPECT.fields))
