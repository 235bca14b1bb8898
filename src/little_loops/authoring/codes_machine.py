"""Codes about the machine (LL2xx), warnings (LL3xx), templates and the shell (LL4xx)."""

from __future__ import annotations

from little_loops.authoring.codes import Code

_CHECK_FIX = """\
initial: {initial}
states:
  check:
    action: pytest
    on_pass: done
    on_fail: {on_fail}
  fix:
    action: /ll:manage_issue bug fix
    next: check
  done: {done}
"""
_ENDS = "{terminal: true}"
_ONE_ACTION = """\
initial: check
states:
  check:
    action: {}
    on_pass: done
    on_fail: fix
  fix: {{action: make fix, next: check}}
  done: {{terminal: true}}
"""
_CONDITION = """\
initial: check
states:
  check:
    action: make report
    condition: {{{}}}
    on_pass: done
    on_fail: fix
  fix: {{action: make fix, next: check}}
  done: {{terminal: true}}
"""
_CAPTURE = """\
initial: count
states:
  count:
    action: grep -c TODO notes.md || true
    capture: todos
    next: report
  report:
    action: {}
    next: done
  done: {{terminal: true}}
"""
_DEPLOY = """\
initial: deploy
states:
  deploy:
    action: ./scripts/deploy.sh prod
    on_pass: done
    on_fail: rollback
{}  rollback: {{action: ./scripts/rollback.sh, next: failed}}
  failed: {{terminal: true}}
  done: {{terminal: true}}
"""
_GOAL = """\
paradigm: goal
goal: The text is good
tools: [{{action: /review, condition: {}}}, /rewrite]
"""
_REVIEW = """\
initial: review
{}states:
  review:
    action: {}
    on_pass: done
    on_fail: review
  done: {{terminal: true}}
"""


def _check_fix(initial: str = "check", on_fail: str = "fix", done: str = _ENDS) -> str:
    return _CHECK_FIX.format(initial=initial, on_fail=on_fail, done=done)


_MACHINE = (
    Code(
        "LL201",
        "`initial` names no state",
        "A run starts in the state that `initial` names, and there is none of that name.",
        _check_fix(initial="chekc"),
        _check_fix(),
    ),
    Code(
        "LL202",
        "a way names no state",
        "Every `next`, `on_…` and `route` names a state of this loop, or `$current` to run the same "
        "state again.",
        _check_fix(on_fail="fxi"),
        _check_fix(),
    ),
    Code(
        "LL203",
        "a terminal state with a way out",
        "In a terminal state the run ends, so no verdict is followed. Only `on_maintain` says where "
        "a new cycle starts, and `next` where a run goes on after a gate for people "
        "(`outcome: review`).",
        _check_fix(done="{terminal: true, next: check}"),
        _check_fix(done="{terminal: true, outcome: review, next: check}"),
    ),
    Code(
        "LL204",
        "`on_maintain` where no cycle ends",
        "`on_maintain` says where a `maintain` loop starts again, so it belongs on the terminal "
        "state that a cycle ends in.",
        _check_fix().replace("    next: check\n", "    next: check\n    on_maintain: check\n"),
        _check_fix(done="{terminal: true, on_maintain: check}"),
    ),
    Code(
        "LL205",
        "`outcome` where no run ends",
        "`outcome` says how a run has ended, so it belongs on a terminal state.",
        _check_fix(done="{action: echo ok, outcome: success, next: check}"),
        _check_fix(done="{action: echo ok, outcome: success, terminal: true}"),
    ),
    Code(
        "LL206",
        "a capture named as another state",
        "Every state's result is stored under the state's name. A capture of the same name would "
        "be taken for that result.",
        _CAPTURE.format("echo").replace("capture: todos", "capture: report"),
        _CAPTURE.format("echo"),
    ),
    Code(
        "LL207",
        "`source` names no result",
        "A bare name in `source` is the name of a state that has an action, or of a capture. "
        "Anything else is written as a template, such as `${env.MODE}`.",
        _CONDITION.format("type: output_numeric, target: 0, source: chekc"),
        _CONDITION.format("type: output_numeric, target: 0, source: check"),
    ),
    Code(
        "LL208",
        "a template that gives no number",
        "The field wants a number, and the value it takes from `context` is none.",
        "context: {limit: many}\n"
        + _CONDITION.format('type: output_numeric, target: "${context.limit}"'),
        "context: {limit: 5}\n"
        + _CONDITION.format('type: output_numeric, target: "${context.limit}"'),
    ),
    Code(
        "LL209",
        "a pattern that cannot be used",
        "The pattern is meant as a regular expression and does not compile. So that no pattern can "
        "take for ever, there is no look-around and there are no back-references.",
        _CONDITION.format("type: output_contains, pattern: 'ok(?!ay)'"),
        _CONDITION.format("type: output_contains, pattern: 'ok($|[^a])'"),
    ),
    Code(
        "LL210",
        "a path that is no jq filter",
        "`path` is written in the language of jq.",
        _CONDITION.format("type: output_json, path: .summary., target: 0"),
        _CONDITION.format("type: output_json, path: .summary.failed, target: 0"),
    ),
    Code(
        "LL211",
        "`on_target` without a target",
        "A state with `on_target` and no condition drives its number towards `context.target`.",
        "initial: measure\nstates:\n"
        "  measure: {action: count, on_target: done, on_progress: fix, on_stall: done}\n"
        "  fix: {action: make fix, next: measure}\n  done: {terminal: true}\n",
        "context: {target: 0}\ninitial: measure\nstates:\n"
        "  measure: {action: count, on_target: done, on_progress: fix, on_stall: done}\n"
        "  fix: {action: make fix, next: measure}\n  done: {terminal: true}\n",
    ),
    Code(
        "LL212",
        "variables that refer to each other in a circle",
        "A value of `context` may refer to others, but not back to itself.",
        'context: {a: "${context.b}", b: "${context.a}"}\n' + _check_fix(),
        'context: {a: "${context.b}", b: src}\n' + _check_fix(),
    ),
    Code(
        "LL213",
        "empty once `context` is put in",
        "Nothing is left of the text when the variables in it have their values, and there is "
        "nothing to run, to look for or to judge.",
        "context: {command: ''}\n" + _check_fix().replace("pytest", "${context.command}"),
        "context: {command: pytest}\n" + _check_fix().replace("pytest", "${context.command}"),
    ),
    Code(
        "LL214",
        "a condition that answers what its paradigm does not ask",
        "A paradigm says itself where each verdict leads. The first tool of a goal and the checks of "
        "invariants pass or fail; the check of a convergence gives a number. With a condition that "
        "gives other verdicts the loop would never end.",
        _GOAL.format("{type: verdict, words: [good, bad]}"),
        _GOAL.format("{type: verdict}"),
    ),
    Code(
        "LL215",
        "`capture_exit` where the result is judged",
        "With `capture_exit` a result is judged by a later state, so any exit code leaves by "
        "`next`. A state that judges its own action has `on_pass` and `on_fail`, and no "
        "`capture_exit`.",
        _CAPTURE.format("echo").replace("next: report", "capture_exit: true\n    on_pass: report"),
        _CAPTURE.format("echo").replace("next: report", "capture_exit: true\n    next: report"),
    ),
    Code(
        "LL216",
        "a built-in action in a file of your own",
        "Some steps of a paradigm are actions of ll-loop itself. `ll-loop compile` writes them into "
        "the machine of such a loop; a file of your own has shell commands and agents.",
        _ONE_ACTION.format("relay.prepare\n    action_type: builtin"),
        _ONE_ACTION.format("pytest"),
    ),
    Code(
        "LL230",
        "options a host cannot take",
        "Each host has its own rules for its options; the message says which one is broken.",
        _REVIEW.format("host: {name: command}\n", "Review it\n    action_type: prompt"),
        _REVIEW.format(
            'host: {name: command, command: [my-agent, "{prompt}"]}\n',
            "Review it\n    action_type: prompt",
        ),
    ),
    Code(
        "LL231",
        "a slash command for a host that has none",
        "Not every agent CLI has slash commands; one that has none would take it for a text.",
        _REVIEW.format("host: codex\n", "/review"),
        _REVIEW.format("host: codex\n", "Review the last commit\n    action_type: prompt"),
    ),
    Code(
        "LL232",
        "a handoff that no session can take over",
        "`on_handoff: spawn` starts a session that types `ll-loop resume`; only `claude` can be "
        "allowed exactly that.",
        _REVIEW.format(
            "host: codex\non_handoff: spawn\n",
            "Review the last commit\n    action_type: prompt",
        ),
        _REVIEW.format(
            "host: codex\non_handoff: continue\n",
            "Review the last commit\n    action_type: prompt",
        ),
    ),
    Code(
        "LL233",
        "a limit that a host cannot be held to",
        "What agents spend is what their host reports: `claude` reports cost and tokens, `codex` "
        "tokens alone, a program of your own neither. What is not reported is not counted.",
        _REVIEW.format(
            "host: codex\nmax_cost_usd: 5\n",
            "Review the last commit\n    action_type: prompt",
        ),
        _REVIEW.format(
            "host: codex\nmax_tokens: 2000000\n",
            "Review the last commit\n    action_type: prompt",
        ),
    ),
)

_WARNINGS = (
    Code(
        "LL301",
        "a state that can never be reached",
        "No way leads to the state from `initial`, so it might as well not be there.",
        _check_fix(on_fail="check"),
        _check_fix(),
    ),
    Code(
        "LL302",
        "no state ends the run",
        "Without a terminal state a run ends at its limit of iterations or by an error, and never "
        "as completed.",
        "initial: check\nstates:\n  check: {action: pytest, on_pass: tidy, on_fail: fix}\n"
        "  fix: {action: make fix, next: check}\n  tidy: {action: make tidy, next: check}\n",
        _check_fix(),
    ),
    Code(
        "LL303",
        "a verdict without a way",
        "When this verdict comes, there is nowhere to go and the run fails. Pass, fail, target, "
        "progress and stall go to `next` unless an `on_…` names a place of their own.",
        "initial: check\nstates:\n  check: {action: pytest, on_pass: done}\n"
        "  done: {terminal: true}\n",
        "initial: check\nstates:\n  check: {action: pytest, on_pass: done, on_fail: gave_up}\n"
        "  done: {terminal: true}\n  gave_up: {terminal: true, outcome: failure}\n",
    ),
    Code(
        "LL304",
        "a result that some path skips",
        "The state can be reached without the result having been captured; then the reference is "
        "an error. A fallback gives it a value.",
        _CAPTURE.format("echo ${captured.todos.output}").replace("initial: count", "initial: look")
        + "  look: {action: test -e notes.md, on_pass: count, on_fail: report}\n",
        _CAPTURE.format("echo ${captured.todos.output:-no}").replace(
            "initial: count", "initial: look"
        )
        + "  look: {action: test -e notes.md, on_pass: count, on_fail: report}\n",
    ),
    Code(
        "LL305",
        "a slash command inside a script",
        "A slash command is only one if it is the whole action. Inside a script the shell looks "
        "for a program of that name.",
        _ONE_ACTION.format("pytest || /ll:manage_issue bug fix"),
        _check_fix(),
    ),
    Code(
        "LL306",
        "a deployment that may run twice",
        "An action that was cut short runs again when the run is resumed. For one that must not, "
        "`on_interrupt` names another way; `$current` says that running it again does no harm.",
        _DEPLOY.format(""),
        _DEPLOY.format("    on_interrupt: rollback\n"),
    ),
    Code(
        "LL307",
        "data that may run as code",
        "`:raw` puts a value into the script as it is. Whoever can influence it can run commands "
        "with your rights.",
        _CAPTURE.format("'echo ${captured.todos.output:raw}'"),
        _CAPTURE.format("'echo ${captured.todos.output}'"),
    ),
    Code(
        "LL308",
        "a way that is never taken",
        "The state's condition never gives this verdict, or another way always comes first.",
        _check_fix().replace("    on_pass: done\n", "    on_pass: done\n    on_stall: done\n"),
        _check_fix(),
    ),
    Code(
        "LL309",
        "a timeout longer than the loop's",
        "An action never has more time than is left of the loop's own `timeout`.",
        "timeout: 5m\n" + _ONE_ACTION.format("pytest\n    timeout: 10m"),
        "timeout: 30m\n" + _ONE_ACTION.format("pytest\n    timeout: 10m"),
    ),
    Code(
        "LL310",
        "a field without effect",
        "What the field is for never happens in this state.",
        _ONE_ACTION.format("pytest\n    retry: {max: 3}"),
        _ONE_ACTION.format("pytest\n    on_error: $current\n    retry: {max: 3}"),
    ),
    Code(
        "LL311",
        "always the fallback",
        "A fallback stands in for a value that is not there. This one can never be there, so "
        "probably the name is wrong.",
        _CAPTURE.format("echo ${captured.todo.output:-none}"),
        _CAPTURE.format("echo ${captured.todos.output:-none}"),
    ),
    Code(
        "LL312",
        "a value that may be taken for something else",
        "The value arrives as text, but what gets it may evaluate it, or take it for an option "
        "where it begins with `-`.",
        _CAPTURE.format("'n=${captured.todos.output}; echo $((n + 1))'"),
        _CAPTURE.format("expr ${captured.todos.output} + 1"),
    ),
    Code(
        "LL313",
        "a prompt for the shell",
        "Without `action_type` only what begins like `/name` is given to an agent; all other text "
        "is a shell command. `action_type: shell` says that it is meant to be one.",
        _ONE_ACTION.format("Review the last commit"),
        _ONE_ACTION.format("Review the last commit\n    action_type: prompt"),
    ),
    Code(
        "LL315",
        "a feature of bash in a script for sh",
        "Actions are run by `sh`, which on many systems is a smaller shell than bash: `[[`, `((`, "
        "arrays, `<<<`, `<(…)` or `set -o pipefail` fail there. `shell: bash` runs the action, or "
        "all actions of the loop, with bash.",
        _ONE_ACTION.format("set -o pipefail; pytest | tee log"),
        _ONE_ACTION.format("set -o pipefail; pytest | tee log\n    shell: bash"),
    ),
    Code(
        "LL316",
        "a negated command that passes on errors",
        "`! grep x src` passes if nothing is found (exit code 1), but also if `src` does not exist "
        "(2) or there is no `grep` (127). Test for the exit code that you mean.",
        _ONE_ACTION.format("'! grep -rn \"print(\" src'"),
        _ONE_ACTION.format("'grep -rn \"print(\" src; test $? -eq 1'"),
    ),
    Code(
        "LL317",
        "a failed check that ends as a success",
        "A terminal state is a success unless its name or its `outcome` says otherwise. This one is "
        "reached only when a check fails. If that is what you mean, `outcome: success` says so.",
        "initial: check\nstates:\n  check: {action: pytest, on_pass: done, on_fail: gave_up}\n"
        "  done: {terminal: true}\n  gave_up: {terminal: true}\n",
        "initial: check\nstates:\n  check: {action: pytest, on_pass: done, on_fail: gave_up}\n"
        "  done: {terminal: true}\n  gave_up: {terminal: true, outcome: failure}\n",
    ),
)

_TEMPLATES = (
    Code(
        "LL401",
        "a template that cannot be read",
        "`${` and a word with a dot begin a reference, which goes on to the closing brace. "
        "References do not nest. `$${` gives a literal `${`.",
        "context: {key: todos}\n" + _CAPTURE.format("'echo ${captured.${context.key}.output}'"),
        _CAPTURE.format("echo ${captured.todos.output}"),
    ),
    Code(
        "LL402",
        "an unknown namespace",
        "Values come from `context`, `captured`, `prev`, `state`, `loop` and `env`.",
        _CAPTURE.format("echo ${capture.todos.output}"),
        _CAPTURE.format("echo ${captured.todos.output}"),
    ),
    Code(
        "LL403",
        "an unknown variable",
        "`context` has no such name, neither the loop's nor the state's own.",
        "context: {dir: src}\n" + _ONE_ACTION.format("pytest ${context.dri}"),
        "context: {dir: src}\n" + _ONE_ACTION.format("pytest ${context.dir}"),
    ),
    Code(
        "LL404",
        "an unknown result",
        "Results are stored under the names of the states that have an action, and under their "
        "`capture`.",
        _CAPTURE.format("echo ${captured.todo.output}"),
        _CAPTURE.format("echo ${captured.todos.output}"),
    ),
    Code(
        "LL405",
        "an unknown field",
        "`prev` and `captured.<name>` have `output`, `stderr`, `exit_code`, `duration_ms` and "
        "`file`, and after an agent `structured`, `session_id`, `cost_usd` and `turns`; `prev` also "
        "`state`. `state` has `name`, `iteration`, `attempt`; `loop` has `name`, `started_at`, "
        "`elapsed`, `elapsed_ms`, `cycle`, `run_id`, `run_dir`, `continuation`.",
        _CAPTURE.format("echo ${captured.todos.stdout}"),
        _CAPTURE.format("echo ${captured.todos.output}"),
    ),
    Code(
        "LL406",
        "a template where nothing is filled in",
        "Templates are filled in in `action`, in the values of `context` and `env`, and in "
        "`source`, `target`, `pattern`, `path` and `tolerance` of a condition.",
        "description: run ${loop.run_id}\n" + _check_fix(),
        "description: run it\n" + _check_fix(),
    ),
    Code(
        "LL407",
        "data where a script has code",
        "What a command printed, or what is in the environment, must never become code. Here no "
        "safe form exists; the help says what to write instead.",
        _CAPTURE.format('sh -c "echo ${captured.todos.output}"'),
        _CAPTURE.format("echo ${captured.todos.output}"),
    ),
    Code(
        "LL420",
        "data for a slash command that runs a shell on it",
        "The command's own file has a shell block with `$ARGUMENTS` in it, so what a command "
        "printed would run as code. Give it a file to read instead: `${captured.x.file}`.",
    ),
    Code(
        "LL421",
        "data for a slash command that was not found",
        "A slash command may run a shell on its arguments. Its file was not found, so it cannot be "
        "said what this one does with them.",
    ),
)

CODES = (*_MACHINE, *_WARNINGS, *_TEMPLATES)
