"""The table of fields: which fields a loop file can have.

There is one row per field, with its kind of value, default, help and example. The reader, the JSON
Schema and the reference page are all generated from these rows; a field that is not here does not
exist.

Not here: the kinds of values (`kinds`).
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.authoring.fields.kinds import (
    LABEL,
    LOOP_NAME,
    MOST_LABELS,
    STATE_NAME,
    VARIABLE_NAME,
    ActionKind,
    AnyScalar,
    BranchMap,
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
    ListOf,
    Machine,
    Matrix,
    Name,
    Num,
    OneOf,
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
    table,
)
from little_loops.fsm.schema import AS_ERROR, CURRENT, DEFAULT_HOST, HOST_NAMES, NOISE, OCCASIONS

PARADIGMS = ("goal", "convergence", "invariants", "imperative", "relay", "fsm")
TO_STATE = TargetKind()
OR_AGAIN = TargetKind((CURRENT,))
ON_RESUME = TargetKind((CURRENT, AS_ERROR))
ACTION_TYPES = ("shell", "slash", "prompt")
OPERATORS = OneOf(("eq", "ne", "lt", "le", "gt", "ge"))

# Settings for actions, allowed in the loop and in a state.
_ENV = Field("env", Environment(), "environment variables for actions", "{}", "{PYTHONPATH: src}")
_CWD = Field("cwd", InProject(globs=True), "directory inside the project", "the project", "web")
_SHELL = Field("shell", OneOf(("sh", "bash")), "the shell that runs shell actions", "sh")
_GRACE = Field(
    "kill_grace",
    Time(zero=True),
    "time between TERM and KILL when an action is stopped",
    "5",
    "10s",
)
_IDLE = Field(
    "idle_timeout",
    Time(),
    "how long an action may print nothing and use less than 1% of a CPU",
    "none",
    "10m",
)
_HOST = Field(
    "host", HostKind(), "the agent CLI that runs slash commands and prompts", DEFAULT_HOST
)
_FALLBACK = Field(
    "fallback",
    ListOf(HostKind(), most=10),
    "agents to try next, in this order, if `host` has hit a usage limit, is overloaded, or is not"
    " installed",
    "[]",
    "[codex]",
)
_FALLBACK_ON = Field(
    "fallback_on",
    ListOf(OneOf(("auth", "billing"))),
    "other failures after which the next agent in `fallback` takes the turn",
    "[]",
    "[auth, billing]",
)
_ACTION_SETTINGS = (_ENV, _CWD, _SHELL, _GRACE, _IDLE, _HOST, _FALLBACK, _FALLBACK_ON)

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
        "what to do when an agent changes files outside `scope`: warn, restore them, or nothing; project files that change while agents work in worktrees are never restored",
        "report",
        "enforce",
    ),
    Field(
        "evidence",
        Proof(),
        "whether and how the run proves that the check passed on the files it leaves behind",
        "true for loops with an agent action",
        "{protect: [tests/], clean: true}",
    ),
    Field(
        "hooks",
        PartKind("hooks"),
        "commands to run before and after the run and its states, and on events",
        None,
        "{before_run: ./up.sh, after_run: ./down.sh}",
    ),
    Field(
        "notify",
        ListOf(PartKind("notify"), 1, 10),
        "who is notified when a run waits, fails or completes",
        "only those in the user's config file",
        '[{to: "${env.LL_NTFY}", when: [waits, failed]}]',
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
        "what `resume` does with an interrupted action, unless the state overrides it",
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
        "maximum the run's cost's agents, in US dollars",
        "none",
        "5",
    ),
    Field(
        "result",
        Environment(),
        "values to return to the run that started this one, filled in when it ends",
        "{}",
        '{coverage: "${captured.measure.output}"}',
    ),
    Field(
        "worktree",
        OwnTree("own_worktree"),
        "run in a separate git worktree, outside the project",
        "false",
        "{setup: npm ci}",
    ),
    Field(
        "workspace",
        PartKind("workspace"),
        "how a fleet worker prepares the clone that the run works in; no effect without a fleet",
        None,
        "{setup: npm ci}",
    ),
    Field(
        "runs_on",
        PartKind("runs_on"),
        "which workers of a fleet may carry out the run; without a fleet, it does nothing",
        None,
        "{labels: [gpu]}",
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
    Field("initial", TO_STATE, "the state that a run starts in", required=True, example="check"),
    Field("states", Machine(), "the states, by name", required=True),
    *COMMON,
)

_STATE_SETTINGS = (
    Field(
        "action",
        Str(),
        "the command: a shell script, an agent's slash command, or a prompt",
        example="pytest -q",
    ),
    Field(
        "action_type",
        OneOf(ACTION_TYPES),
        "what runs the action",
        "slash if it starts with a slash command, else shell",
    ),
    Field(
        "condition",
        ConditionKind(),
        "how the result becomes a verdict",
        "{type: exit_code}",
        aliases=("check_condition",),
    ),
    Field("capture", Name("capture", STATE_NAME), "also store the result under this name"),
    Field("capture_exit", Flag(), "the result is judged by a later state", "false"),
    Field(
        "check",
        Flag(),
        "the action is a check: it runs again when the files it judged have changed, "
        "and after the last iteration",
        "false",
    ),
    Field(
        "repeat",
        Whole(1, 1000),
        "how many times the command runs for one measurement; the median is used",
        "1",
        "5",
    ),
    Field(
        "label",
        Plain(),
        "text to show instead of the action: `running LABEL...`",
        "the line of the action that does the work",
        "pytest -q",
    ),
    Field("timeout", Time(), "maximum time for this action", "none", "5m"),
    Field(
        "retry",
        PartKind("retry"),
        "how transitions to `$current` are retried",
        example="{max: 3, backoff: 10s}",
    ),
    Field("context", Variables(), "variables of this state; they override the loop's", "{}"),
    Field(
        "before",
        HookCommand("state_hook"),
        "a hook that runs before the action, after the loop's own `before_state`",
        None,
        "./lease.sh",
    ),
    Field(
        "after",
        HookCommand("state_hook"),
        "a hook that runs when the verdict is known, before the loop's own `after_state`",
        None,
        "./release.sh",
    ),
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
    Field("on_stalled", OR_AGAIN, "the next state when repeated turns have changed nothing"),
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
        "what `resume` does if this action was interrupted: run it again, fail, or go to a state",
        "the loop's",
        "rollback",
    ),
    Field("on_maintain", TO_STATE, "on a terminal state: where the next cycle starts", "initial"),
    Field("route", Route(), "for a condition with `words`: the next state for each word"),
    Field("terminal", Flag(), "the run ends here, after the action if there is one", "false"),
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
_RUNS = (
    Field(
        "loop",
        SubLoop(),
        "the loop to run instead of an action: one of this project by name or path, or a definition",
        example="fix-types",
    ),
    Field(
        "with",
        Variables(),
        "values for the `context` of that loop",
        "{}",
        '{dir: "${context.dir}"}',
    ),
    Field(
        "limits",
        PartKind("limits"),
        "limits for that loop, if lower than its own",
        None,
        "{max_iterations: 5, max_cost_usd: 1}",
    ),
)
_RUNS_ON = Field(
    "runs_on",
    PartKind("runs_on"),
    "which workers of a fleet may carry out that loop, or the branches; default: those of the loop"
    " that is started, else those of this one",
    None,
    "{labels: [gpu]}",
)
_BRANCHES = (
    Field(
        "for_each",
        ForEach(),
        "run the action or loop once for each of these items, several at a time: a list, a string"
        " that is a JSON array or has one item per line, or files",
        None,
        '"${captured.changed.output}"',
    ),
    Field(
        "as",
        Name("variable", VARIABLE_NAME),
        "with `for_each`: the name for the item, used as `${branch.NAME}`",
        "item",
        "file",
    ),
    Field(
        "branches",
        BranchMap(),
        "what to run at the same time, each with its own action or loop",
        None,
        "{lint: {action: ruff check .}, types: {action: mypy src}}",
    ),
    Field(
        "matrix",
        Matrix(),
        "run the action or loop once for each combination of these values, available as `${branch.NAME}`",
        None,
        '{python: ["3.11", "3.12"], db: [sqlite, postgres]}',
    ),
    Field(
        "exclude",
        ListOf(Variables(), 1),
        "with `matrix`: combinations to leave out",
        None,
        '[{python: "3.11", db: postgres}]',
    ),
    Field("max_parallel", Whole(1, 1000), "how many branches to run at once", "4", "8"),
    Field(
        "join",
        Join(),
        "how many branches must pass: `all`, `any`, a number or a percentage",
        "all",
        '"80%"',
    ),
    Field(
        "fail_fast",
        Flag(),
        "stop the other branches as soon as enough have failed",
        "false for `join: all`; otherwise, they are always stopped",
    ),
)
STATE = table(
    "a state",
    _STATE_SETTINGS[0],
    _STATE_SETTINGS[1]._replace(kind=OneOf(ACTION_TYPES, made=("builtin",))),
    _STATE_SETTINGS[2],
    *_RUNS,
    *_BRANCHES,
    Field(
        "worktree",
        OwnTree("worktree"),
        "run that loop, or each branch, in its own git worktree, and merge the result",
        "false",
        "{check: make test}",
    ),
    _RUNS_ON,
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
BRANCH = table(
    "a branch",
    *_STATE_SETTINGS[:3],
    *_RUNS,
    *(field for field in _STATE_SETTINGS if field.name in ("label", "timeout", "context")),
    *_ACTION_SETTINGS,
)
GLOB = table(
    "`for_each`",
    Field(
        "glob",
        Str(),
        "the files and directories in the project that match; `**` matches any number of directories",
        required=True,
        example='"src/**/*.py"',
    ),
)
STEP = table(
    "a step",
    Field("name", Name("state", STATE_NAME), "the name of its state", "step_0, step_1, …"),
    *COMMAND.fields,
)
_OF_LOOP_COMMAND = (_RUNS[0]._replace(required=True), *_RUNS[1:], *COMMAND.fields[1:])
COMMANDS: Mapping[str, Table] = {
    "command": COMMAND,
    "step": STEP,
    "loop command": table("a command", *_OF_LOOP_COMMAND),
    "loop step": table("a step", STEP.fields[0], *_OF_LOOP_COMMAND),
}
TRANSITIONS = frozenset(name for field in _TRANSITIONS for name in (field.name, *field.aliases))

RETRY = table(
    "`retry`",
    Field(
        "max",
        Whole(1),
        "maximum number of runs; after that, the verdict falls back to `next`",
        "no limit",
        "3",
    ),
    Field("backoff", Time(zero=True), "the first wait", "the loop's, else 1", "5s"),
    Field("factor", Num(1), "factor by which each wait grows", "2"),
    Field("max_backoff", Time(zero=True), "the longest wait", "60", "5m"),
)

LIMITS = table(
    "`limits`",
    Field("max_iterations", Whole(1), "maximum number of iterations", "the loop's", "5"),
    Field(
        "max_cost_usd",
        Num(0, above=True),
        "maximum cost of its agents, in US dollars",
        "the loop's",
        "1",
    ),
    Field("timeout", Time(), "maximum running time", "the loop's", "10m"),
)

_WORKTREE = (
    Field(
        "from",
        Plain(),
        "the commit to start from; `working-tree` also includes uncommitted changes",
        "HEAD",
        "main",
    ),
    Field("setup", Plain(), "a command to run first in each worktree", None, "npm ci"),
    Field(
        "copy",
        ListOf(InProject(), 1),
        "untracked files and directories to copy",
        "[]",
        "[.env]",
    ),
    Field(
        "link",
        ListOf(InProject(), 1),
        "directories whose contents are linked",
        "[]",
        "[node_modules]",
    ),
    Field(
        "ports",
        Ports(),
        "environment variables that are set to a different port number in each worktree, starting"
        " from this one",
        "{}",
        "{PORT: 3000}",
    ),
)
_MERGE = Field(
    "merge",
    OneOf(("merge", "squash", "none")),
    "how the work gets into the branch that is checked out: as a merge, as one commit, or not at all",
    "merge",
    "squash",
)
_MERGE_CHECK = Field(
    "check",
    Plain(),
    "a command that checks each merged tree in a clean copy; only what passes is merged",
    None,
    "make test",
)
_RESOLVE = (
    Field(
        "resolve",
        Resolver(),
        "a loop or action that fixes a branch that conflicts or fails `check`; it works in that "
        "branch's worktree, and `${branch.conflict}` has the files and the reason",
        None,
        "fix-conflict",
    ),
    Field("tries", Whole(1, 100), "how many times `resolve` may try for each branch", "1", "2"),
)
_KEEP = Field(
    "keep",
    OneOf(("failed", "always", "never")),
    "which worktrees to keep; one with uncommitted changes is never removed",
    "failed",
    "always",
)
WORKTREE_TABLES: Mapping[str, Table] = {
    "worktree": table("`worktree`", *_WORKTREE, _MERGE, _MERGE_CHECK, *_RESOLVE, _KEEP),
    "own_worktree": table(
        "`worktree`", *_WORKTREE, _MERGE._replace(default="none"), _MERGE_CHECK, _KEEP
    ),
}

WORKSPACE = table(
    "`workspace`",
    Field(
        "setup",
        Plain(),
        "a command to run before the first action on each machine that works on the run",
        None,
        "npm ci",
        required=True,
    ),
)

RUNS_ON = table(
    "`runs_on`",
    Field(
        "labels",
        ListOf(Name("a label", LABEL), 1, MOST_LABELS),
        "labels that the worker must have, all of them: `ll-loop worker --labels`",
        None,
        "[gpu, linux]",
        required=True,
    ),
)

EVIDENCE = table(
    "`evidence`",
    Field("enabled", Flag(), "set to false to turn evidence off but keep its settings", "true"),
    Field(
        "protect",
        Protected(),
        "gitignore patterns of files that agents may not change, add or delete; "
        "with `{existing: […]}`, they may add files",
        "the loop's own files, and any files named in the check command",
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
        "how many passes in a row on the same tree count as one pass",
        "1",
        "2",
    ),
    Field(
        "stall_after",
        Whole(0),
        "how many failures in a row on trees that have already failed end the run; 0: never",
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
        ListOf(PatternKind(), 1),
        "existing files are protected; new files are allowed",
        None,
        "[tests/]",
        required=True,
    ),
)

_HOOK_ACTION = Field(
    "action",
    Str(),
    "the shell command; details of the event are passed as JSON on standard input",
    None,
    "./notify.sh",
    required=True,
)
_HOOK_TIMEOUT = Field("timeout", Time(), "maximum time for the hook", "30", "2m")
_HOOK_ENV = Field("env", Environment(), "environment variables for the hook", "{}", "{LEVEL: high}")
_HOOK_REQUIRED = Field(
    "required",
    Flag(),
    "whether its failure is an error rather than a warning",
    "true for `before_…` hooks, false for `after_…` hooks",
)
_HOOK_STATES = Field(
    "states",
    ListOf(TO_STATE, 1),
    "the states that the hook runs for",
    "every state with an action",
    "[deploy, rollback]",
)
HOOK_TABLES: Mapping[str, Table] = {
    "run_hook": table(
        "a hook before the run", _HOOK_ACTION, _HOOK_TIMEOUT, _HOOK_REQUIRED, _HOOK_ENV
    ),
    "states_hook": table(
        "a hook for states", _HOOK_ACTION, _HOOK_TIMEOUT, _HOOK_REQUIRED, _HOOK_STATES, _HOOK_ENV
    ),
    "state_hook": table(
        "a hook of a state", _HOOK_ACTION, _HOOK_TIMEOUT, _HOOK_REQUIRED, _HOOK_ENV
    ),
    "beside_hook": table("a hook that changes nothing", _HOOK_ACTION, _HOOK_TIMEOUT, _HOOK_ENV),
}
HOOKS = table(
    "`hooks`",
    Field(
        "before_run",
        HookCommand("run_hook"),
        "runs whenever the run is started or resumed, before anything else",
        None,
        "./up.sh",
    ),
    Field(
        "before_state",
        HookCommand("states_hook"),
        "runs when a state with an action is entered, before the action",
        None,
        "./lease.sh",
    ),
    Field(
        "after_state",
        HookCommand("states_hook"),
        "runs when the verdict of a state with an action is known, before the transition",
        None,
        "{action: ./trace.sh, states: [deploy]}",
    ),
    Field(
        "after_run",
        HookCommand("beside_hook"),
        "runs whenever the run ends, pauses or is stopped; not after a kill",
        None,
        "./down.sh",
    ),
    Field(
        "events",
        EventCommands(),
        "hooks that run alongside the run, each on one kind of event",
        "{}",
        "{loop_paused: ./notify.sh}",
    ),
)

NOTIFY = table(
    "an entry of `notify`",
    Field(
        "to",
        Recipient(),
        "`ntfy://SERVER/TOPIC`, the URL of a webhook that accepts Slack messages, or a shell command,"
        " which gets the notification as JSON on its standard input; in a URL, `${env.NAME}` is"
        " filled in",
        None,
        "${env.LL_NTFY}",
        required=True,
    ),
    Field(
        "when",
        ListOf(OneOf(OCCASIONS), 1),
        "on which occasions",
        "[waits, failed, completed]",
        "[waits, failed]",
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
            "judge",
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
_OPERATOR = Field("operator", OPERATORS, "how to compare the value to the target", "eq", "le")
_KEEP = Field(
    "keep",
    OneOf(("best",)),
    "`best`: revert a change that does not improve the number, so that the best files are kept",
    "all changes are kept, whatever the number is",
    "best",
)
_MIN_GAIN = Field(
    "min_gain",
    Num(0, words=(NOISE,)),
    "a change is kept only if it improves the number by more than this; `noise` is twice the"
    " difference between the two initial measurements",
    NOISE,
    "2.5",
)
_NUMBER_TARGET = Field(
    "target", Num(template=True), "the number to compare to", None, "0", required=True
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
            "path", Str(), "a jq expression that returns one value", None, ".failed", required=True
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
            "whether lower (`min`) or higher (`max`) is better; a number beyond the target also counts as reached",
        ),
        Field("patience", Whole(1), "how many measurements without progress count as a stall", "1"),
        _KEEP,
        _MIN_GAIN,
    ),
    "verdict": _condition(
        "verdict",
        Field("words", Words(), "the verdicts the agent may give", "[pass, fail]"),
    ),
    "all": _condition(
        "all",
        Field(
            "of",
            ListOf(ConditionKind(inside=True), 1),
            "conditions, all of which must pass",
            None,
            "[{type: exit_code}, {type: output_contains, pattern: ok}]",
            required=True,
        ),
    ),
    "any": _condition(
        "any",
        Field(
            "of",
            ListOf(ConditionKind(inside=True), 1),
            "conditions, at least one of which must pass",
            None,
            "[{type: exit_code}, {type: output_contains, pattern: ok}]",
            required=True,
        ),
    ),
    "not": _condition(
        "not",
        Field("of", ConditionKind(inside=True), "the condition that must fail", required=True),
    ),
    "judge": table(
        "a condition of type `judge`",
        _TYPE,
        Field(
            "question",
            Plain(),
            "a yes/no question for a second agent, which may only read; a pass counts only if it says yes",
            None,
            "Does the change fix the cause, without weakening a test?",
            required=True,
        ),
        Field(
            "host", HostKind(), "the agent that judges; it cannot be `command`", "the state's agent"
        ),
        Field(
            "sees",
            ListOf(Plain(), 1),
            "what the judge gets: `diff` (since the start of the run), `output` (of the check), and files",
            "[diff]",
            "[diff, output, plan.md]",
        ),
        Field("timeout", Time(), "how long it may take", "10m", "5m"),
    ),
}

CONSTRAINT = table(
    "a constraint",
    Field("name", Plain(), "the name to use for its states", None, "tests-pass", required=True),
    Field("check", ActionKind(), "the command that checks whether it holds", required=True),
    Field(
        "fix",
        ActionKind(loops=True),
        "the command that fixes it",
        "whether a violation ends the run as failed",
    ),
)

TASK = table(
    "a task",
    Field(
        "id", Identifier(), "the task's number or name in these files", None, "886", required=True
    ),
    Field(
        "state",
        InProject(globs=True),
        "a JSON file; `status` and `artifacts` are set in the object whose `id` or `project_number` is the task's `id`",
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

_COMMANDS = ListOf(ActionKind(loops=True), 1)
OWN: Mapping[str, tuple[Field, ...]] = {
    "goal": (
        Field(
            "goal",
            Plain(),
            "what the loop should achieve",
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
        Field("check", ActionKind(), "the command that prints the number", required=True),
        Field("toward", Num(template=True), "the number to reach", None, "0", required=True),
        Field(
            "using", ActionKind(loops=True), "the command that improves the number", required=True
        ),
        Field("tolerance", Num(0, template=True), "how close to the target is close enough", "0"),
        Field("patience", Whole(1), "how many measurements without progress end the run", "1"),
        Field(
            "direction",
            OneOf(("min", "max")),
            "whether lower (`min`) or higher (`max`) is better; a number beyond the target also counts as reached",
        ),
        _KEEP,
        _MIN_GAIN,
    ),
    "invariants": (
        Field(
            "constraints",
            ListOf(PartKind("constraint"), 1),
            "the conditions to maintain, each with its check and its fix",
            None,
            "[{name: tests, check: make test, fix: make fix}]",
            required=True,
        ),
        Field("recheck", OneOf(("all",)), "`all`: check everything again after any fix"),
    ),
    "imperative": (
        Field(
            "steps",
            ListOf(ActionKind("step", loops=True), 1),
            "the commands, in order",
            None,
            "[make build, {name: test, action: make test}]",
            required=True,
        ),
        Field(
            "condition",
            ConditionKind(),
            "when to stop; `source` names a step, by default the first",
            None,
            "{type: exit_code, source: step_0}",
            required=True,
            aliases=("until",),
        ),
    ),
    "relay": (
        Field("agent", ActionKind(), "the action each turn runs", required=True),
        Field("plan", InProject(globs=True), "the plan to carry out", required=True),
        Field(
            "metadata",
            InProject(globs=True),
            "the report file that each turn has to write",
            "`.return-meta.json` beside the plan",
            "specs/886/.return-meta.json",
        ),
        Field(
            "check",
            ActionKind(),
            "the command that decides whether the plan is implemented",
            "the agent's own report",
            "make test",
        ),
        Field(
            "task",
            PartKind("task"),
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
    Field("goal", Plain(), "what the loop should achieve", None, "No type errors in src/"),
    Field(
        "check",
        Commands(),
        "what must pass: a command, or several commands that run in order",
        None,
        "pytest -q",
        required=True,
    ),
    Field(
        "fix",
        Commands(loops=True),
        "what to run when a check fails; then all checks run again",
        None,
        "{action: 'Fix the code, not the tests.', action_type: prompt}",
        required=True,
    ),
    *(field for field in COMMON if field.name != "paradigm"),
)
"""The short form of a goal, for a file with neither `paradigm` nor `states`."""
FORM_TABLES: Mapping[str, Table] = {**PARADIGM_TABLES, "check_fix": CHECK_FIX}
PARTS: Mapping[str, Table] = {
    "retry": RETRY,
    "constraint": CONSTRAINT,
    "task": TASK,
    "hooks": HOOKS,
    "limits": LIMITS,
    "notify": NOTIFY,
    "workspace": WORKSPACE,
    "runs_on": RUNS_ON,
}

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
