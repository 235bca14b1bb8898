"""What is said about actions that would not do what they look like."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from little_loops.authoring.checks.check_actions import looks_like_a_deploy
from little_loops.authoring.load import load
from little_loops.fsm.schema import StateConfig
from tests.authoring.telling import row, told

ACTIONS = [
    row(
        "slash commands in scripts",
        """\
        initial: check
        states:
          check:
            action: |
              pytest && /ll:fix types || /review
              # /ll:not this
              if true; then /ll:that; else /ll:fix lint; fi
              cp a \\
                /tmp
              /usr/bin/env
              echo /ll:nor this
            next: done
          done: {terminal: true}
        """,
        """
        warning[LL305] 5:17 /ll:fix
          `/ll:fix` looks like a slash command, but is part of a shell action
          help: give it its own state, with nothing else in the action
        warning[LL305] 5:34 /review
          `/review` looks like a slash command, but is part of a shell action
          help: give it its own state, with nothing else in the action
        warning[LL305] 7:21 /ll:that
          `/ll:that` looks like a slash command, but is part of a shell action
          help: give it its own state, with nothing else in the action
        """,
    ),
    row(
        "deploys",
        """\
        initial: deploy
        states:
          deploy: {action: make, on_pass: pushes, on_fail: pushes}
          pushes: {action: git push, next: handled}
          handled: {action: npm publish, on_error: done, next: guarded}
          guarded: {action: rails db:migrate, on_interrupt: $current, next: build}
          build: {action: cargo build --release && target/release/x; lsb_release, next: released}
          released: {action: ./release.sh, terminal: true}
          done: {terminal: true}
        """,
        """
        warning[LL306] 3:3 deploy
          state `deploy` probably must not run twice, but a resume after a crash would run it again
          help: HELP
        warning[LL306] 4:3 pushes
          state `pushes` probably must not run twice, but a resume after a crash would run it again
          help: HELP
        warning[LL306] 8:3 released
          state `released` probably must not run twice, but a resume after a crash would run it again
          help: HELP
        """.replace(
            "HELP",
            "add `on_interrupt: <state>` (or `$error`), or `on_error: <state>`; "
            "use `on_interrupt: $current` if running it again is safe",
        ),
    ),
    row(
        "paths and texts that only look like slash commands",
        """\
        initial: check
        states:
          check:
            action: |
              cat <<END
              /foo
              END
              case $1 in
                /x) ls;;
              esac
              echo "
              /bar"
              (/ll:fix)
            next: done
          done: {terminal: true}
        """,
        """
        warning[LL305] 13:8 /ll:fix
          `/ll:fix` looks like a slash command, but is part of a shell action
          help: give it its own state, with nothing else in the action
        """,
    ),
    row(
        "what only mentions a deploy",
        """\
        initial: a
        states:
          a: {action: git push --dry-run, next: b}
          b: {action: "echo do not deploy; grep -r deploy src", next: c}
          c: {action: git stash push && git stash pop, next: d}
          d: {action: "docker pull x  # push later", next: e}
          e: {action: "npm run migrate:check | pytest tests/deploy", next: f}
          f: {action: 'git commit -m "publish notes"', next: done}
          done: {terminal: true}
        """,
        "",
    ),
    row(
        "prompts for the shell",
        """\
        initial: a
        states:
          a: {action: Fix the lint errors, next: b}
          b: {action: "The tests are failing; see ${prev.file}", action_type: shell, next: c}
          c: {action: Mend what is wrong, action_type: prompt, next: d}
          d: {action: "Rscript fit.R data && Make it && CC=gcc make it", next: e}
          e: {action: "The tests are failing; see ${prev.file}", action_type: agent, next: done}
          done: {terminal: true}
        """,
        """
        warning[LL313] 3:15 Fix the lint errors
          the action of state `a` looks like a prompt, but a shell would run it
          help: add `action_type: prompt`
        error[LL105] 7:71 agent
          `action_type` must be `shell`, `slash` or `prompt`, not `agent`
          help: the default for `action_type` is slash if it starts with a slash command, else shell
        """,
    ),
    row(
        "agents in scripts",
        """\
        initial: a
        states:
          a: {action: claude -p 'Fix it.', next: b}
          b: {action: "git pull && FAST=1 timeout 60 /opt/bin/codex exec -m x < plan.md", next: c}
          c: {action: "sh -c 'cat plan.md | claude --print'", next: d}
          d: {action: "claude -p 'Fix it.'", action_type: shell, next: e}
          e: {action: "claude --version; codex login", next: f}
          f: {action: "echo claude -p; grep -rn 'codex exec' docs", next: g}
          g: {action: "claude-trace -p; which claude", next: h}
          h: {action: "claude -p 'Fix it.'", action_type: agent, next: done}
          done: {terminal: true}
        """,
        """
        warning[LL325] 3:15 claude -p 'Fix it.'
          the script of state `a` starts `claude`, but is not treated as an agent
          help: give its prompt as the action, `{action: PROMPT, action_type: prompt}`, and its options in `host`; or, if it should stay a script, add `action_type: shell`
        warning[LL325] 4:15 "git pull && FAST=1 timeout 60 /opt/bin/codex exec -m x < plan.md"
          the script of state `b` starts `codex`, but is not treated as an agent
          help: give its prompt as the action, `{action: PROMPT, action_type: prompt}`, and its options in `host`; or, if it should stay a script, add `action_type: shell`
        warning[LL325] 5:15 "sh -c 'cat plan.md | claude --print'"
          the script of state `c` starts `claude`, but is not treated as an agent
          help: give its prompt as the action, `{action: PROMPT, action_type: prompt}`, and its options in `host`; or, if it should stay a script, add `action_type: shell`
        error[LL105] 10:51 agent
          `action_type` must be `shell`, `slash` or `prompt`, not `agent`
          help: the default for `action_type` is slash if it starts with a slash command, else shell
        """,
    ),
    row(
        "an agent as the fix",
        """\
        check: make
        fix: claude -p "$(cat PROMPT.md)" --permission-mode acceptEdits
        """,
        """
        warning[LL325] 2:6 claude -p "$(cat PROMPT.md)" --permission-mode acceptEdits
          the script of state `fix` starts `claude`, but is not treated as an agent
          help: give its prompt as the action, `{action: PROMPT, action_type: prompt}`, and its options in `host`; or, if it should stay a script, add `action_type: shell`
        """,
    ),
    row(
        "a prompt for the shell in a paradigm",
        """\
        paradigm: relay
        plan: plan.md
        metadata: meta.json
        agent: Implement the plan
        """,
        """
        warning[LL313] 4:8 Implement the plan
          the action of state `turn` looks like a prompt, but a shell would run it
          help: write it as `{action: …, action_type: prompt}`
        """,
    ),
    row(
        "built-in actions in a file of one's own",
        """\
        initial: a
        states:
          a: {action: relay.prepare, action_type: builtin, next: done}
          done: {terminal: true}
        """,
        """
        error[LL216] 3:43 builtin
          `action_type: builtin` is reserved for loops that `ll-loop compile` writes
          help: use `paradigm: relay`, which compiles to these actions
        """,
    ),
    row(
        "a built-in action that there is not",
        """\
        paradigm: relay
        initial: a
        states:
          a: {action: relay.prepared, action_type: builtin, next: b}
          b: {action: make, next: c}
          c: {action: /review, next: d}
          d: {action: relay.report, action_type: builtin, next: done}
          done: {terminal: true}
        """,
        """
        error[LL216] 4:15 relay.prepared
          unknown built-in action `relay.prepared`
          help: did you mean `relay.prepare`?
        """,
    ),
    row(
        "a built-in action for an agent",
        """\
        paradigm: relay
        plan: plan.md
        metadata: meta.json
        agent: {action: relay.prepare, action_type: builtin}
        """,
        """
        error[LL105] 4:45 builtin
          `action_type` must be `shell`, `slash` or `prompt`, not `builtin`
          help: the default for `action_type` is slash if it starts with a slash command, else shell
        """,
    ),
    row(
        "deploys of a loop that is careful as a whole",
        """\
        initial: deploy
        on_interrupt: $error
        states:
          deploy: {action: make deploy, next: done}
          done: {terminal: true}
        """,
        "",
    ),
]


@pytest.mark.parametrize(("source", "expected"), ACTIONS)
def test_each_problem_has_its_words_and_its_place(source: str, expected: str) -> None:
    assert told(source) == expected


def judged(action: str, more: str = "", shell: str = "sh") -> str:
    """What is said about a script whose verdict matters, each problem on one line."""
    source = f"""\
        initial: check
        shell: {shell}
        context: {{command: '! grep x'}}
        states:
          check: {{action: {json.dumps(action)}, on_pass: done, on_fail: check{more}}}
          done: {{terminal: true}}
        """
    problems = load(dedent(source), "a.yaml", "a").problems
    return "; ".join(f"{each.code} {each.message.split('`')[1]}" for each in problems)


@pytest.mark.parametrize(
    ("script", "feature"),
    [
        ("[[ -n $x ]]", "[["),
        ("((x > 3))", "(("),
        ("set -euo pipefail; make | tee log", "set -o pipefail"),
        ("cat <<< x", "<<<"),
        ("diff <(ls a) <(ls b)", "<("),
        ("ls | tee >(cat)", ">("),
        ("make &> log", "&>"),
        ("x=(a b)", "x=(…)"),
        ("function f { ls; }; f", "function"),
        ("select x in a b; do ls; done", "select"),
        ("source env.sh", "source"),
        ("declare -r x=1", "declare"),
        ("make\nif [[ -n $x ]]; then ((x)); fi", "[["),
    ],
)
def test_what_only_bash_has_is_warned_of_in_sh(script, feature):
    assert judged(script) == f"LL315 {feature}"
    assert judged(script, shell="bash") == ""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param('[ -n "$x" ] && echo $((1 + 2))', id="plain tests and sums"),
        pytest.param("echo '[[' '((' \"<(x)\" pipefail # [[", id="texts and comments"),
        pytest.param("bash -c '[[ -n $x ]]'", id="a bash of its own"),
        pytest.param("set -e; . ./env.sh; let_go", id="words that look alike"),
        pytest.param("echo ${context.command} [[", id="an argument"),
    ],
)
def test_what_every_sh_has_is_fine(script):
    assert judged(script) == ""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("! grep -rn x srcc", id="alone"),
        pytest.param("cd src && ! grep x f", id="after another"),
        pytest.param("make;\n! grep x f\n\n# done\n", id="the last line"),
        pytest.param("make &&\n\n! grep x f", id="over lines"),
        pytest.param("! grep x ${env.F} | head", id="a pipeline"),
        pytest.param("! grep x f && make", id="before another"),
        pytest.param("if ls; then ls; fi; ! grep x f", id="after a compound command"),
    ],
)
def test_a_negated_command_that_passes_on_errors(script):
    assert judged(script) == "LL316 ! grep …"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("! grep x f; make", id="another command decides"),
        pytest.param("! grep x f\n(make)", id="a subshell decides"),
        pytest.param("if ! grep x f; then exit 1; fi", id="in a condition"),
        pytest.param('echo "$(! grep x f)"', id="in a substitution"),
        pytest.param("{ ! grep x f; }", id="in a group"),
        pytest.param("! test -e f", id="a test"),
        pytest.param("! [ -e f ] && ! command -v grep", id="tests"),
        pytest.param("echo ! grep", id="an argument"),
        pytest.param("grep x f; test $? -eq 1", id="the remedy"),
    ],
)
def test_a_negation_that_is_fine(script):
    assert judged(script) == ""


def test_a_negation_matters_where_the_exit_code_decides():
    assert judged("! grep x f", ", condition: {type: exit_code}") == "LL316 ! grep …"
    of_output = ", condition: {type: output_contains, pattern: x}"
    assert judged("! grep x f", of_output) == ""
    assert (
        told("initial: a\nstates: {a: {action: '! grep x f', next: b}, b: {terminal: true}}") == ""
    )


def test_what_is_said_about_a_negation():
    assert told(
        "initial: a\nstates:\n  a: {action: '! grep x f', on_pass: b, on_fail: a}\n"
        "  b: {terminal: true}\n"
    ) == dedent("""\
        warning[LL316] 3:16 !
          `! grep …` also passes if the command fails with an error
          help: test for the exit code you mean: `grep …; test $? -eq 1`""")


def test_what_is_said_about_bash():
    assert told(
        "initial: a\nstates:\n  a: {action: 'ls; [[ -n $x ]]', next: b}\n  b: {terminal: true}\n"
    ) == dedent("""\
        warning[LL315] 3:20 [[
          `[[` is a bash feature, but `sh` runs this action
          help: add `shell: bash`""")


def test_what_is_said_about_bash_beside_a_reference_that_cannot_be_read():
    assert (
        told(
            "initial: a\nstates:\n  a: {action: '[[ -n ${context.a+} ]]', next: b}\n"
            "  b: {terminal: true}\n"
        )
        == dedent("""\
        warning[LL315] 3:16 [[
          `[[` is a bash feature, but `sh` runs this action
          help: add `shell: bash`
        error[LL401] 3:22 ${context.a+
          `+` is not allowed in a reference: `${context.a+`
          help: write `${namespace.name}` or `${namespace.name:-fallback}`; `$${` gives a literal `${`""")
    )


def test_a_very_long_script_without_a_negation_need_not_be_read():
    script = f"echo done!{'x' * 60_000}"
    assert (
        told(f"initial: a\nstates: {{a: {{action: '{script}', next: b}}, b: {{terminal: true}}}}")
        == ""
    )


def test_that_a_very_long_script_was_not_read_is_reported():
    (problem,) = load(
        f"initial: a\nstates: {{a: {{action: '[[ {'x' * 60_000} ]]', next: b}}, b: {{terminal: true}}}}",
        "a.yaml",
        "a",
    ).problems
    assert problem.code == "LL314"


@pytest.mark.parametrize("word", ["deploy", "publish", "push", "release", "migrate"])
@pytest.mark.parametrize(
    ("name", "action", "does"),
    [
        ("WORD", "make", True),
        ("pre-Word_2", "make", True),
        ("WORDed", "make", False),
        ("a", "make WORD", True),
        ("a", "MAKE Word", True),
        ("a", "make WORD # later", True),
        ("a", "make # WORD", False),
        ("a", "ls && make WORD", True),
        ("a", "ls; make WORD | tee x", True),
        ("a", "make WORD/x", False),
        ("a", "make WORDing", False),
        ("a", "make --dry-run WORD", False),
        ("a", "make WORD --check", False),
        ("a", "make WORD --help", False),
        *(("a", f"{look} WORD", False) for look in ("echo", "printf", "grep", "rg", "cat", "ls")),
        *(("a", f"{look} WORD", False) for look in ("find", "test", "[", "pytest", "git stash")),
        *(("a", f"git {look} WORD", False) for look in ("commit", "log", "diff", "grep")),
        ("a", None, False),
    ],
)
def test_what_must_probably_not_run_twice(word, name, action, does):
    action = action.replace("WORD", word).replace("Word", word.title()) if action else None
    name = name.replace("WORD", word).replace("Word", word.title())
    assert looks_like_a_deploy(name, StateConfig(action)) is does


@pytest.mark.parametrize("word", ["deploy", "publish", "push", "migrate"])
@pytest.mark.parametrize("part", ["check", "status", "test", "dry", "plan"])
def test_a_look_before_it_may_run_twice(word, part):
    for sign in ":-":
        assert not looks_like_a_deploy("a", StateConfig(f"npm run {word}{sign}{part}"))
        assert looks_like_a_deploy("a", StateConfig(f"npm run {word}{sign}all"))


def test_an_agent_in_a_script_that_is_too_long_to_read_is_not_looked_for():
    script = "claude -p 'Fix it.' # "
    assert judged(script.ljust(20_000, "x")) == "LL325 check"
    assert judged(script.ljust(20_001, "x")) == ""


def test_nothing_is_said_about_bash_where_the_shell_cannot_be_read():
    said = told(
        "initial: a\nstates:\n  a: {action: '[[ -n x ]]', shell: [3], next: b}\n"
        "  b: {terminal: true}\n"
    )
    assert "LL315" not in said
    assert "shell" in said
