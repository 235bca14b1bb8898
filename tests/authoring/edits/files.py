"""Loop files in the styles that people write, for edits."""

from __future__ import annotations

COMMENTED = """\
# Fix the types, then the tests.
#
#   more about it
name: fix-types          # the name
initial: check

max_iterations: 20
context: {target: src/}  # where

states:

  # The check.
  check:
    action: mypy ${context.target}   # fast
    # A comment inside.
    on_pass: tests
    on_fail: fix


  fix:   # by an agent
    action: |
      # not a comment
      echo "errors: ${captured.check.output:q}"

      echo '$${captured.check.output}'
    timeout: 5m
    next: check    # again

  # Tests come last.
  tests:
    action: >-
      pytest -q
      --maxfail=1
    condition: {type: exit_code, fail: [1, 2, 5]}
    on_pass: done
    on_fail: fix
    on_error: broken

  # The end.
  done: {terminal: true}  # good
  broken:
    terminal: true
    outcome: failure
# A comment at the end.
"""

CRLF = COMMENTED.replace("\n", "\r\n")

FLOW = """\
{name: flow, initial: check, # first
 context: {n: 3},
 states: {
  check: {action: "make check", on_pass: done, on_fail: fix},  # one
  fix: {action: 'make fix', next: check, env: {LEVEL: high}},
  # two
  other: {action: "cat ${captured.check.file}", next: done}, decide: {condition: {type: exit_code, source: check}, on_pass: done, on_fail: fix},
  done: {terminal: true}, broken: {terminal: true, outcome: failure},
 },
}
"""

FOUR = """\
\ufeffname: vier
description: "Prüft die Größe – 日本語 🎉"
initial: 'prüfen_nicht'
on_error: kaputt
hooks:
    before_state: {action: ./lease.sh, states: [fix, "prüfen_nicht"]}
states:
    "prüfen_nicht":
        action: "echo 'ÄÖÜ 🎉'"   # ✓ gut
        on_met: 'done'
        on_unmet: "fix"
    fix:
        action: echo 日本語 ${captured.check-2.output}
        next: check-2
    check-2:
        action: 'echo ''it'' ${captured.fix.output}'
        next: gate
        env:
            ГРУППА_NICHT: "x"
    gate:
        terminal: true
        outcome: review
        next: fix
        choices: [fix, check-2]
    done: {terminal: true}
    kaputt:
        terminal: true   # 終わり""".replace("prüfen_nicht", "pruefen").replace(
    "ГРУППА_NICHT", "GRUPPE"
)

ROUTES = """\
name: routes
initial: ask
max_cost_usd: 5
states:
  ask:
    action: /ll:check_code lint
    condition:
      type: verdict
      words: [clean, messy, unsure]
    route:
      clean: done
      messy: tidy      # most of the time
    on_unsure: look
  tidy:
    action: |+
      make tidy
      make lint

    next: ask
  look:
    action: |
      less report

    on_pass: tidy
    on_fail: done
    before: ./lease.sh
    retry:
      max: 3
      backoff: 10s
  idle:
    action: sleep 1
    next: |-
      done
  done:
    terminal: true
    x-note: keep ${captured.ask.output}
"""

FILES = {
    "comments": COMMENTED,
    "crlf": CRLF,
    "flow": FLOW,
    "non-ascii": FOUR,
    "routes": ROUTES,
}
