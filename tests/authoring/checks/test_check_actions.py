"""What is said about actions that would not do what they look like."""

from __future__ import annotations

import pytest

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
          `/ll:fix` looks like a slash command, but stands in a shell action
          help: give it a state of its own, with the slash command as its whole action
        warning[LL305] 5:34 /review
          `/review` looks like a slash command, but stands in a shell action
          help: give it a state of its own, with the slash command as its whole action
        warning[LL305] 7:21 /ll:that
          `/ll:that` looks like a slash command, but stands in a shell action
          help: give it a state of its own, with the slash command as its whole action
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
          state `deploy` looks like one that must not run twice, but would after a crash
          help: HELP
        warning[LL306] 4:3 pushes
          state `pushes` looks like one that must not run twice, but would after a crash
          help: HELP
        warning[LL306] 8:3 released
          state `released` looks like one that must not run twice, but would after a crash
          help: HELP
        """.replace(
            "HELP",
            "add `on_interrupt: <state>` (or `$error`), or `on_error: <state>`; "
            "`on_interrupt: $current` says that it may",
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
          `/ll:fix` looks like a slash command, but stands in a shell action
          help: give it a state of its own, with the slash command as its whole action
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
          b: {action: "Tests fail, see ${prev.file}", action_type: shell, next: c}
          c: {action: Mend what is wrong, action_type: prompt, next: d}
          d: {action: "Rscript fit.R data && Make it && CC=gcc make it", next: e}
          e: {action: "Tests fail, see ${prev.file}", action_type: agent, next: done}
          done: {terminal: true}
        """,
        """
        warning[LL313] 3:15 Fix the lint errors
          the action of state `a` looks like a prompt, but a shell would run it
          help: add `action_type: prompt`
        error[LL105] 7:60 agent
          `action_type` wants `shell`, `slash` or `prompt`, not `agent`
          help: without `action_type` it is: slash if it begins like `/name`, else shell
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
          `action_type: builtin` is only for machines that `ll-loop compile` wrote
          help: use `paradigm: relay`, whose states have these actions
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
          there is no built-in action `relay.prepared`
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
          `action_type` wants `shell`, `slash` or `prompt`, not `builtin`
          help: without `action_type` it is: slash if it begins like `/name`, else shell
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
