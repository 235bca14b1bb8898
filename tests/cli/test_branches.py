"""States with branches, as the commands show, test and predict them."""

from __future__ import annotations

import json

import pytest

from tests.project import Project

LOOP = """\
initial: list
states:
  list: {action: cat items, next: each}
  each: {for_each: "${captured.list.output}", action: "make ${branch.item}", join: any, next: files}
  files: {for_each: {glob: "*.py"}, action: "cat ${branch.item}", next: checks}
  checks:
    branches:
      lint: {action: ruff check .}
      types: {loop: {initial: a, states: {a: {action: mypy, next: b}, b: {terminal: true}}}}
      more:
        action: |
          echo one
          echo two
    max_parallel: 2
    fail_fast: true
    on_pass: matrix
    on_fail: bad
  matrix:
    matrix: {a: [1, 2], b: [3]}
    action: tox -e ${branch.a}${branch.b}
    condition: {type: output_json, path: length, target: 2}
    on_pass: done
    on_fail: bad
  done: {terminal: true}
  bad: {terminal: true, outcome: failure}
"""


SHOWN = """\
  list     $ cat items
           next → each
  each     $ make ${branch.item}
           for each item of ${captured.list.output} · 4 at a time · join any
           next → files
  files    $ cat ${branch.item}
           for each of *.py · 4 at a time · join all
           next → checks
  checks   lint: $ ruff check .
           types: loop types
           more: $ echo one …
           3 branches · 2 at a time · join all, fail fast
           on_pass → matrix    on_fail → bad
  matrix   $ tox -e ${branch.a}${branch.b}
           judged by output_json (path length, target 2)
           2 branches · 4 at a time
           on_pass → done    on_fail → bad
  done     end (success)
  bad      end (failure)"""


def test_how_they_are_shown(project: Project):
    project.loop("many", LOOP)
    said = project.ll("show", "many").stdout
    assert said.split("\n\n")[1] == SHOWN


def test_how_they_are_drawn(project: Project):
    project.loop("many", LOOP)
    said = project.ll("graph", "many").stdout
    assert "each     each: $ make ${branch.item}" in said
    assert "checks   lint, types, more" in said


TESTS = """\
loop: many
tests:
  - name: the first that passes is enough
    given:
      list: {output: "x\\ny\\nz"}
      each: [1, 0]
      files: [0, 0]
      checks: 0
      matrix: 0
    expect: {status: completed, path: [list, each, files, checks, matrix, done]}
    kill: everywhere
  - name: the first that fails stops the rest
    given: {list: 0, each: 0, files: [0], checks: [{ends: max_iterations}]}
    expect: {status: failed, path: [list, each, files, checks, bad]}
    kill: everywhere
  - name: too many
    given: {list: {output: "x"}, each: [0], files: 0, checks: 0, matrix: [0, 1]}
    expect: {status: completed}
"""


def test_a_test_gives_each_branch_its_outcome(project: Project):
    project.loop("many", LOOP)
    folder = project.root / ".loops/tests"
    folder.mkdir()
    (folder / "many.test.yaml").write_text(TESTS)
    said = project.ll("test")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "3 tests" in said.stdout


def test_what_a_simulation_draws_is_the_verdict_of_all(project: Project):
    project.loop("many", LOOP)
    odds = [f"--outcome={state}=pass:1" for state in ("list", "each", "files", "matrix")]
    said = project.ll("simulate", "many", "-n", "50", *odds, "--outcome=checks=pass:0", "--json")
    assert said.returncode == 0, said.stdout + said.stderr
    assert [each["state"] for each in json.loads(said.stdout)["endings"]] == ["bad"]


def test_a_run_with_branches_can_be_replayed(project: Project):
    project.loop(
        "many",
        LOOP.replace("ruff check .", "'true'")
        .replace("{action: mypy, ", "{action: 'true', ")
        .replace("tox -e", "echo")
        .replace("make ", "echo "),
    )
    (project.root / "items").write_text("x\ny\n")
    (project.root / "a.py").touch()
    assert project.ll("run", "many").returncode == 0
    said = project.ll("replay", "many")
    assert said.returncode == 0, said.stdout + said.stderr
    assert project.ll("logs", "many/checks/lint").returncode == 0
    assert project.ll("steps", "many/lint").returncode == 0
    shown = project.ll("status", "many/matrix/1-3")
    assert "many/matrix/1-3" in shown.stdout


MERGED = """\
initial: each
worktree: {from: main}
states:
  each:
    for_each: [a, b]
    action: "make ${branch.item}"
    worktree:
      setup: |
        make
        make install
      merge: squash
      check: make test
      resolve: {action: "./fit ${branch.conflict.files}"}
      tries: 2
    next: inner
  inner:
    loop: {initial: a, states: {a: {action: make, next: b}, b: {terminal: true}}}
    worktree: {merge: none, check: make test}
    next: done
    on_conflict: done
  done: {terminal: true}
"""
MERGED_SHOWN = """\
  each     $ make ${branch.item}
           2 branches · 4 at a time · join all · worktree from HEAD · setup: make … · squashed · check: make test · \
resolve: ./fit ${branch.conflict.files} (2 tries)
           next → inner
  inner    loop inner
           worktree from HEAD · not merged
           next → done    on_conflict → done
  done     end (success, failure when entered via on_conflict)"""


def test_how_worktrees_are_shown(project: Project):
    project.git("init", "-q")
    project.loop("many", MERGED)
    said = project.ll("show", "many").stdout
    assert said.split("\n\n")[1] == MERGED_SHOWN
    assert "\nin a worktree from main · not merged\n" in said
    planned = project.ll("run", "many", "--dry-run").stdout
    assert "\nin a worktree from main · not merged\n" in planned


EVERY_SETTING = """\
initial: one
result: {sum: "${captured.one.result.n}", last: x}
worktree: {copy: [.env], link: [lib], ports: {PORT: 3000}, keep: always}
hooks:
  before_run: ./up.sh
  before_state: {action: ./lease.sh, timeout: 7s, required: false, states: [one], env: {A: b}}
  after_state: {action: ./trace.sh, required: true}
states:
  one:
    loop: KID
    with: {dir: lib}
    limits: {max_iterations: 1, max_cost_usd: 2.5, timeout: 9m}
    next: some
  some:
    branches:
      lint: {action: make}
      types: {loop: KID, with: {dir: a}}
    limits: {max_iterations: 7}
    worktree: {keep: never}
    next: done
    on_conflict: done
  done: {terminal: true}
""".replace(
    "KID",
    "{context: {dir: src}, initial: a, states: {a: {action: make, next: b}, b: {terminal: true}}}",
)


@pytest.mark.parametrize("command", [("show", "all"), ("run", "all", "--dry-run")])
def test_every_setting_of_what_a_state_starts_is_shown(project: Project, command):
    project.git("init", "-q")
    project.loop("all", EVERY_SETTING)
    said = project.ll(*command).stdout
    assert [line for line in SETTINGS if f"{line}\n" not in said] == [], said


SETTINGS = [
    "           with dir · at most 1 iteration · at most $2.5 · at most 9m",
    (
        "           2 branches · 4 at a time · join all · with dir · at most 7 iterations"
        " · worktree from HEAD · merged · never kept"
    ),
    "in a worktree from HEAD · brings .env, lib · ports PORT from 3000 · not merged · always kept",
    "hooks    before_run: ./up.sh",
    "         before_state (one; timeout 7s; not required; env A): ./lease.sh",
    "         after_state (required): ./trace.sh",
    "result   sum, last",
]


CONFLICTS = """\
loop: many
tests:
  - name: one of them cannot be merged
    given: {each: [0, {conflict: true}]}
    expect: {status: failed, reason: conflict, path: [each]}
    kill: everywhere
  - name: the loop cannot be merged
    given: {each: 0, inner: {conflict: true}}
    expect: {status: failed, state: done, path: [each, inner, done]}
"""


def test_a_test_says_which_work_does_not_fit(project: Project):
    project.git("init", "-q")
    project.loop(
        "many", MERGED.replace("merge: none, ", "").replace("worktree: {from: main}\n", "")
    )
    tests = project.root / ".loops/tests/many.test.yaml"
    tests.parent.mkdir()
    tests.write_text(CONFLICTS)
    assert project.ll("test", "many").stdout.split("\n")[0].endswith("  ..")
    tests.write_text(CONFLICTS.replace("{conflict: true}]", "0]"))
    assert project.ll("test", "many").stdout.split("\n")[0].endswith("  F.")
    project.loop("many", LOOP)
    tests.write_text(
        "loop: many\ntests:\n- {name: a, given: {each: {conflict: true}}, expect: {exit: 1}}\n"
    )
    said = project.ll("test", "many").stderr
    assert said.startswith("error[LL505]: `each` has no `worktree`, so nothing is merged\n")
