"""The table of fields: which fields a loop file can have.

There is one row per field, with its kind of value, default, help and example. The reader, the JSON
Schema and the reference page are all generated from these rows; a field that is not here does not
exist.

Not here: the kinds of values (`kinds`).
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.authoring.fields.kinds import (
    LOOP_NAME,
    STATE_NAME,
    Agent,
    AnyScalar,
    Codes,
    Command,
    Commands,
    Environment,
    Field,
    Flag,
    Identifier,
    InProject,
    Judge,
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
    table,
)
from little_loops.fsm.schema import AS_ERROR, CURRENT, DEFAULT_HOST, HOST_NAMES

PARADIGMS = ("goal", "convergence", "invariants", "imperative", "relay", "fsm")
TO_STATE = Target()
OR_AGAIN = Target((CURRENT,))
ON_RESUME = Target((CURRENT, AS_ERROR))
ACTION_TYPES = ("shell", "slash", "prompt")
OPERATORS = OneOf(("eq", "ne", "lt", "le", "gt", "ge"))

# Settings for actions, allowed in the loop and in a state.
_ENV = Field("env", Environment(), "environment variables for actions", "{}", "{PYTHONPATH: src}")
_CWD = Field("cwd", InProject(globs=True), "directory inside the project", "the project", "web")
_SHELL = Field("shell", OneOf(("sh", "bash")), "the shell that runs shell actions", "sh")
_GRACE = Field(
    "kill_grace", Time(zero=True), "time between TERM and KILL when an action is ended", "5", "10s"
)
_IDLE = Field(
    "idle_timeout",
    Time(),
    "longest time an action may print nothing and use less than 1% of a CPU",
    "none",
    "10m",
)
_HOST = Field("host", Agent(), "the agent CLI that runs slash commands and prompts", DEFAULT_HOST)
_ACTION_SETTINGS = (_ENV, _CWD, _SHELL, _GRACE, _IDLE, _HOST)

COMMON = (
    Field("name", Name("loop", LOOP_NAME), "identifies the loop and its runs", "the file's name"),
    Field("description", Str(), "one-line description, shown by `ll-loop list`"),
    Field("paradigm", OneOf(PARADIGMS), "how the loop is written; compiled to `fsm`", "fsm"),
    Field(
        "context",
        Variables(),
        "your variables: `${context.name}`; they may refer to each other",
        "{}",
        "{target_dir: src/}",
    ),
    Field(
        "scope",
        ListOf(InProject(), 1),
        "paths the loop works on; two loops with overlapping scopes do not run together",
        '["."]',
        "[src/, tests/]",
    ),
    Field(
        "scope_writes",
        OneOf(("report", "enforce", "ignore")),
        "what to do when an agent changes files outside `scope`: warn, restore them, or nothing",
        "report",
        "enforce",
    ),
    Field(
        "evidence",
        Proof(),
        "whether and how the run proves that the check passed on the files it leaves",
        "true for loops with an agent action",
        "{protect: [tests/], clean: true}",
    ),
    Field("max_iterations", Whole(1), "maximum number of iterations", "50", "20"),
    Field("backoff", Time(zero=True), "wait between iterations", "0", "2s"),
    Field("timeout", Time(), "maximum running time of the run, across all resumes", "none", "30m"),
    Field("maintain", Flag(), "start again after success", "false"),
    Field("maintain_interval", Time(least=1), "wait between the cycles of `maintain`", "60", "10m"),
    Field("on_error", TO_STATE, "state for any error that no state handles", "end the run"),
    Field("on_timeout", TO_STATE, "state for any timeout that no state handles", "end the run"),
    Field(
        "on_interrupt",
        ON_RESUME,
        "what a resume does with an interrupted action, unless the state overrides it",
        "$current",
        "$error",
    ),
    Field(
        "on_handoff",
        OneOf(("pause", "spawn", "continue", "terminate")),
        "what happens when an agent runs out of context",
        "pause",
    ),
    Field(
        "max_continuations",
        Whole(1),
        "consecutive handoffs of one state before the run pauses",
        "10",
    ),
    *_ACTION_SETTINGS,
    Field(
        "max_cost_usd",
        Num(0, above=True),
        "maximum cost of the run's agents, in US dollars",
        "none",
        "5",
    ),
    Field(
        "max_tokens",
        Whole(1, 10**15),
        "maximum number of tokens the run's agents may use",
        "none",
        "2000000",
    ),
)

LOOP = table(
    "the loop",
    Field("initial", TO_STATE, "the state a run starts in", required=True, example="check"),
    Field("states", Machine(), "the states of the machine, by name", required=True),
    *COMMON,
)

_STATE_SETTINGS = (
    Field(
        "action",
        Str(),
        "the command: shell text, a slash command of an agent, or a prompt",
        example="pytest -q",
    ),
    Field(
        "action_type",
        OneOf(ACTION_TYPES),
        "who runs the action",
        "slash if it starts with a slash command, else shell",
    ),
    Field(
        "condition",
        Judge(),
        "how the result becomes a verdict",
        "{type: exit_code}",
        aliases=("check_condition",),
    ),
    Field("capture", Name("capture", STATE_NAME), "also store the result under this name"),
    Field("capture_exit", Flag(), "the result is judged by a later state", "false"),
    Field(
        "check",
        Flag(),
        "the action only judges: it runs again when the files it judged have changed, "
        "and after the last iteration",
        "false",
    ),
    Field(
        "label",
        Plain(),
        "text shown instead of the action: `running LABEL...`",
        "the line of the action that does the work",
        "pytest -q",
    ),
    Field("timeout", Time(), "maximum time for this action", "none", "5m"),
    Field(
        "retry",
        Part("retry"),
        "how transitions to `$current` are retried",
        example="{max: 3, backoff: 10s}",
    ),
    Field("context", Variables(), "variables of this state; they override the loop's", "{}"),
)
_TRANSITIONS = (
    Field("next", OR_AGAIN, "the next state when no `on_…` applies", example="check"),
    Field("on_pass", OR_AGAIN, "the next state after a pass", aliases=("on_met",), example="done"),
    Field(
        "on_fail", OR_AGAIN, "the next state after a failure", aliases=("on_unmet",), example="fix"
    ),
    Field("on_target", OR_AGAIN, "the next state when the number reaches its target"),
    Field("on_progress", OR_AGAIN, "the next state when the number gets closer to its target"),
    Field("on_stall", OR_AGAIN, "the next state when the number stops getting closer"),
    Field("on_error", OR_AGAIN, "the next state after an error; never falls back to `next`"),
    Field("on_timeout", OR_AGAIN, "the next state after a timeout; never falls back to `next`"),
    Field("on_tampered", OR_AGAIN, "the next state when an agent changed protected files"),
    Field("on_out_of_scope", OR_AGAIN, "the next state when an agent wrote outside `scope`"),
    Field(
        "on_flaky", OR_AGAIN, "the next state when a check both passes and fails on the same tree"
    ),
    Field("on_stalled", OR_AGAIN, "the next state when nothing changes any more"),
    Field("on_conflict", OR_AGAIN, "the next state when work cannot be merged"),
    Field(
        "on_rejected",
        OR_AGAIN,
        "on a gate (`outcome: review`): the next state after `ll-loop reject`",
        "end the run as failed",
        "fix",
    ),
    Field(
        "on_interrupt",
        ON_RESUME,
        "what a resume does if this action was interrupted: run it again, fail, or go to a state",
        "the loop's",
        "rollback",
    ),
    Field("on_maintain", TO_STATE, "on a terminal state: where the next cycle starts", "initial"),
    Field("route", Route(), "for a condition with `words`: the next state for each word"),
    Field("terminal", Flag(), "the run ends here, after the action, if there is one", "false"),
    Field(
        "outcome",
        OneOf(("success", "failure", "review")),
        "on a terminal state: what reaching it means",
        "failure if its name contains a word such as `fail` or `error`, or if a transition such as"
        " `on_error` led to it; otherwise success",
    ),
    Field(
        "choices",
        ListOf(TO_STATE, 1),
        "on a gate (`outcome: review`): the states that `ll-loop approve --to` may choose",
        None,
        "[ship, polish]",
    ),
)
STATE = table(
    "a state",
    _STATE_SETTINGS[0],
    _STATE_SETTINGS[1]._replace(kind=OneOf(ACTION_TYPES, made=("builtin",))),
    _STATE_SETTINGS[2],
    *_TRANSITIONS,
    *_STATE_SETTINGS[3:],
    *_ACTION_SETTINGS,
)
COMMAND = table(
    "a command",
    _STATE_SETTINGS[0]._replace(required=True),
    *_STATE_SETTINGS[1:],
    *_ACTION_SETTINGS,
)
STEP = table(
    "a step",
    Field("name", Name("step", STATE_NAME), "the name of its state", "step_0, step_1, …"),
    *COMMAND.fields,
)
COMMANDS: Mapping[str, Table] = {"command": COMMAND, "step": STEP}
TRANSITIONS = frozenset(name for field in _TRANSITIONS for name in (field.name, *field.aliases))

RETRY = table(
    "`retry`",
    Field(
        "max",
        Whole(1),
        "maximum number of runs; then the verdict falls back to `next`",
        "no limit",
        "3",
    ),
    Field("backoff", Time(zero=True), "the first wait", "the loop's, else 1", "5s"),
    Field("factor", Num(1), "factor by which each wait grows", "2"),
    Field("max_backoff", Time(zero=True), "the longest wait", "60", "5m"),
)

EVIDENCE = table(
    "`evidence`",
    Field("enabled", Flag(), "false turns evidence off and keeps the settings", "true"),
    Field(
        "protect",
        Protected(),
        "gitignore patterns of files that agents may not change, add or delete; "
        "with `{existing: […]}` they may add files",
        "the loop's own files and what the check's command names",
        "[tests/, conftest.py]",
    ),
    Field(
        "tampering",
        OneOf(("restore", "fail", "report")),
        "what to do when a protected file was changed: restore it, "
        "give the verdict `tampered`, or only report it",
        "`restore` if `protect` is set, otherwise `report`",
        "fail",
    ),
    Field("clean", Flag(), "confirm the deciding pass in a clean copy of the project", "false"),
    Field("setup", Plain(), "a command to run in the clean copy first", None, "npm ci"),
    Field(
        "confirm",
        Whole(1, 100),
        "consecutive passes on the same tree that count as one pass",
        "1",
        "2",
    ),
    Field(
        "stall_after",
        Whole(0),
        "consecutive failures on trees that already failed before the run ends; 0: never",
        "3 for goal, invariants and convergence, else 0",
        "5",
    ),
    Field(
        "strict",
        Flag(),
        "treat a pass on files that have changed since as a failure",
        "false",
    ),
)
EXISTING = table(
    "`protect`",
    Field(
        "existing",
        ListOf(Pattern(), 1),
        "existing files are protected; new files are allowed",
        None,
        "[tests/]",
        required=True,
    ),
)

HOST = table(
    "`host`",
    Field("name", OneOf(HOST_NAMES), "which agent CLI", DEFAULT_HOST),
    Field("model", Str(), "the model to use", "the CLI's own", "sonnet"),
    Field(
        "permission_mode",
        Str(),
        "permission mode to use instead of skipping permission prompts",
        None,
        "acceptEdits",
    ),
    Field("allow", ListOf(Str()), "tools the agent may use", example="[Read, Edit]"),
    Field("deny", ListOf(Str()), "tools the agent may not use", example="[WebFetch]"),
    Field("max_turns", Whole(1), "maximum number of agent turns in one action", "none", "30"),
    Field(
        "max_cost_usd",
        Num(0, above=True),
        "maximum cost of one action, in US dollars",
        "none",
        "1.5",
    ),
    Field("max_wait", Time(zero=True), "longest wait for a usage limit to end", "6h", "1h"),
    Field("args", ListOf(Str()), "additional arguments for the CLI"),
    Field(
        "command",
        ListOf(Str(), 1),
        "for host `command`: the program and its arguments; `{prompt}` is replaced",
        example='[my-agent, "{prompt}"]',
    ),
    Field("env", Environment(), "environment variables for the agent", "{}"),
)

_TYPE = Field(
    "type",
    OneOf(
        (
            "exit_code",
            "output_contains",
            "output_json",
            "output_numeric",
            "convergence",
            "verdict",
            "all",
            "any",
            "not",
        )
    ),
    "what kind of condition",
    "exit_code",
)
_SOURCE = Field(
    "source",
    Str(),
    "what to judge instead of this action's output: a template, or the name of a state or capture",
    "stdout of the action",
    "${captured.count.output}",
)
_OPERATOR = Field("operator", OPERATORS, "how to compare the value with the target", "eq", "le")
_NUMBER_TARGET = Field(
    "target", Num(template=True), "the number to compare with", None, "0", required=True
)


def _condition(name: str, *fields: Field) -> Table:
    return table(f"a condition of type `{name}`", _TYPE, *fields, _SOURCE)


CONDITIONS: Mapping[str, Table] = {
    "exit_code": _condition(
        "exit_code",
        Field("target", Whole(0, 255, template=True), "the exit code that counts as a pass", "0"),
        Field(
            "fail",
            Codes(),
            "codes that are failures, not errors; `1-125` is a range",
            "0 and 1, except the target",
            "[1, 2, 5]",
        ),
    ),
    "output_contains": _condition(
        "output_contains",
        Field(
            "pattern", Str(), "the text or pattern to find", None, "All tests passed", required=True
        ),
        Field("negate", Flag(), "pass when it is not found", "false"),
        Field(
            "regex",
            Flag(),
            "whether the pattern is a regular expression",
            "detected from the pattern",
        ),
    ),
    "output_json": _condition(
        "output_json",
        Field(
            "path", Str(), "a jq expression that gives one value", None, ".failed", required=True
        ),
        Field("target", AnyScalar(), "the value to compare with", None, "0", required=True),
        _OPERATOR,
    ),
    "output_numeric": _condition("output_numeric", _NUMBER_TARGET, _OPERATOR),
    "convergence": _condition(
        "convergence",
        _NUMBER_TARGET._replace(help="the target value"),
        Field("tolerance", Num(0, template=True), "how close to the target is close enough", "0"),
        Field(
            "direction",
            OneOf(("min", "max")),
            "with `min`, the target or less is enough; with `max`, the target or more",
        ),
        Field("patience", Whole(1), "measurements without progress that count as a stall", "1"),
    ),
    "verdict": _condition(
        "verdict",
        Field("words", Words(), "the verdicts the agent may give", "[pass, fail]"),
    ),
    "all": _condition(
        "all",
        Field(
            "of",
            ListOf(Judge(inside=True), 1),
            "conditions that must all pass",
            None,
            "[{type: exit_code}, {type: output_contains, pattern: ok}]",
            required=True,
        ),
    ),
    "any": _condition(
        "any",
        Field(
            "of",
            ListOf(Judge(inside=True), 1),
            "conditions of which at least one must pass",
            None,
            "[{type: exit_code}, {type: output_contains, pattern: ok}]",
            required=True,
        ),
    ),
    "not": _condition(
        "not",
        Field("of", Judge(inside=True), "the condition that must fail", required=True),
    ),
}

CONSTRAINT = table(
    "a constraint",
    Field("name", Plain(), "the name of its states", None, "tests-pass", required=True),
    Field("check", Command(), "the command that checks whether it holds", required=True),
    Field("fix", Command(), "the command that fixes it", "a violation ends the run as failed"),
)

TASK = table(
    "a task",
    Field("id", Identifier(), "its number or name in these files", None, "886", required=True),
    Field(
        "state",
        InProject(globs=True),
        "a JSON file; the object whose `id` or `project_number` is the id gets `status` and `artifacts`",
        None,
        "specs/state.json",
    ),
    Field(
        "todo",
        InProject(globs=True),
        "a Markdown file; the first heading or list line with the id gets `[STATUS]`",
        None,
        "TODO.md",
    ),
)

_COMMANDS = ListOf(Command(), 1)
OWN: Mapping[str, tuple[Field, ...]] = {
    "goal": (
        Field(
            "goal",
            Plain(),
            "what should become true",
            None,
            "No type errors in src/",
            required=True,
        ),
        Field(
            "tools",
            _COMMANDS,
            "the first command is the check; the others fix, in order",
            None,
            "[mypy src/, /ll:manage_issue bug fix]",
            required=True,
        ),
    ),
    "convergence": (
        Field("check", Command(), "the command that prints the number", required=True),
        Field("toward", Num(template=True), "the number to reach", None, "0", required=True),
        Field("using", Command(), "the command that improves the number", required=True),
        Field("tolerance", Num(0, template=True), "how close to the target is close enough", "0"),
        Field("patience", Whole(1), "measurements without progress before the run stops", "1"),
        Field(
            "direction",
            OneOf(("min", "max")),
            "with `min`, the target or less is enough; with `max`, the target or more",
        ),
    ),
    "invariants": (
        Field(
            "constraints",
            ListOf(Part("constraint"), 1),
            "what must hold, each with its check and its fix",
            None,
            "[{name: tests, check: make test, fix: make fix}]",
            required=True,
        ),
        Field("recheck", OneOf(("all",)), "`all`: check everything again after any fix"),
    ),
    "imperative": (
        Field(
            "steps",
            ListOf(Command("step"), 1),
            "the commands, in order",
            None,
            "[make build, {name: test, action: make test}]",
            required=True,
        ),
        Field(
            "condition",
            Judge(),
            "when to stop; `source` names a step, default the first",
            None,
            "{type: exit_code, source: step_0}",
            required=True,
            aliases=("until",),
        ),
    ),
    "relay": (
        Field("agent", Command(), "the action each turn runs", required=True),
        Field("plan", InProject(globs=True), "the plan to carry out", required=True),
        Field(
            "metadata",
            InProject(globs=True),
            "the report file that each turn writes",
            "`.return-meta.json` beside the plan",
            "specs/886/.return-meta.json",
        ),
        Field(
            "check",
            Command(),
            "the command that decides whether the plan is implemented",
            "the agent's own report",
            "make test",
        ),
        Field(
            "task",
            Part("task"),
            "the task the plan belongs to; its status is kept up to date",
            None,
            "{id: 886, state: specs/state.json, todo: TODO.md}",
        ),
        Field("commit", Flag(), "commit each turn's progress", "true in a git repository"),
        Field(
            "session", Plain(), "the prefix of the session ids", "a generated id", "sess_123_abc"
        ),
    ),
}
PARADIGM_TABLES: Mapping[str, Table] = {
    name: table(f"a loop of paradigm `{name}`", *own, *COMMON) for name, own in OWN.items()
}
CHECK_FIX = table(
    "a loop with `check` and `fix`",
    Field("goal", Plain(), "what should become true", None, "No type errors in src/"),
    Field(
        "check",
        Commands(),
        "what must pass: a command, or several that run in order",
        None,
        "pytest -q",
        required=True,
    ),
    Field(
        "fix",
        Commands(),
        "what runs when a check fails; then all checks run again",
        None,
        "{action: 'Fix the code, not the tests.', action_type: prompt}",
        required=True,
    ),
    *(field for field in COMMON if field.name != "paradigm"),
)
"""The short form of a goal, for a file with neither `paradigm` nor `states`."""
FORM_TABLES: Mapping[str, Table] = {**PARADIGM_TABLES, "check_fix": CHECK_FIX}
PARTS: Mapping[str, Table] = {"retry": RETRY, "constraint": CONSTRAINT, "task": TASK}

OTHER_WORDS = {
    "on_success": "on_pass",
    "on_ok": "on_pass",
    "on_failure": "on_fail",
    "command": "action",
    "cmd": "action",
    "run": "action",
    "script": "action",
    "goto": "next",
    "then": "next",
    "start": "initial",
    "initial_state": "initial",
    "start_state": "initial",
    "variables": "context",
    "vars": "context",
    "environment": "env",
    "working_directory": "cwd",
    "workdir": "cwd",
    "dir": "cwd",
    "final": "terminal",
    "end": "terminal",
    "retries": "retry",
    "max_retries": "retry",
    "iterations": "max_iterations",
    "max_cost": "max_cost_usd",
    "budget": "max_cost_usd",
    "max_budget": "max_cost_usd",
    "transitions": "route",
    "evaluate": "condition",
    "evaluator": "condition",
    "title": "name",
    "paths": "scope",
    "expected": "target",
    "regexp": "pattern",
    "contains": "pattern",
    "op": "operator",
    "target_value": "target",
    "target": "toward",
    "goal_value": "toward",
}
"""Names for our fields in other tools; only used for suggestions."""
