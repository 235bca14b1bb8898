"""Every command, for a run that starts a loop and branches in worktrees, merges them, and makes one
that is in conflict fit: each says what became of them.

One branch conflicts and is resolved; one turns the check red and is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.project import Project
from tests.simulation.command import in_memory

KID = """\
initial: k
states:
  k: {action: echo kid at work, next: end}
  end: {terminal: true}
"""
TOP = """\
evidence: true
initial: types
states:
  types: {loop: kid, on_pass: many, on_fail: done}
  many:
    for_each: [a, b, c, d]
    action: |
      case ${branch.item} in a|b) echo ${branch.item} > both.txt;; d) touch bad;; esac
      echo ${branch.item} > ${branch.item}.new
    worktree:
      check: test ! -e bad
      resolve: {action: "echo fits > both.txt; test ${branch.name} = b"}
    on_pass: done
    on_fail: done
    on_conflict: done
  done: {terminal: true}
"""
TESTS = """\
loop: top
tests:
  - name: all is merged
    given: {types: 0, many: 0}
    expect: {status: completed, path: [types, many, done]}
"""
LEFT_OUT = "`check` failed after the merge: exit 1; `resolve` did not fix it: it failed"


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    with in_memory() as place:
        made = Project(place)
        made.loop("kid", KID)
        made.loop("top", TOP)
        tests = made.root / ".loops/tests"
        tests.mkdir()
        (tests / "top.test.yaml").write_text(TESTS)
        (made.root / "both.txt").write_text("one\n")
        (made.root / ".gitignore").write_text(".loops/.*\n")
        made.git("init", "-q", "-b", "main")
        made.git("config", "user.name", "a")
        made.git("config", "user.email", "a@example.org")
        made.git("add", "-A")
        made.git("commit", "-q", "-m", "first")
        done = made.ll("run", "top")
        assert done.returncode == 1, done.stdout + done.stderr
        assert (made.root / "both.txt").read_text() == "fits\n"
        assert sorted(each.stem for each in made.root.glob("*.new")) == ["a", "b", "c"]
        assert made.ll("receipt", "top", "-o", f"{place}/receipt.json").returncode == 0
        assert made.ll("export", "top", "-o", f"{place}/run.ll").returncode == 0
        yield made
        made.end_actions()


ROWS: list[tuple[str, int, list[str]]] = [
    (
        "status top",
        0,
        [
            "top/types             ✓ completed",
            "top/many/a            ✓ completed",
            "top/many/b.resolve-1  ✓ completed",
            "top/many/d.resolve-1  ✗ failed",
            f"left out   d: {LEFT_OUT}",
            "`ll-loop worktrees` lists the worktrees that were kept",
        ],
    ),
    ("status top/types", 0, ["✓ completed", "state      end"]),
    ("status top/many/a", 0, ["✓ completed", "path       run ✓  done"]),
    ("status top/many/d.resolve-1", 0, ["✗ failed", "worktree   /", "path       run ✗  failed"]),
    ("list", 0, ["kid   fsm       –", "top   fsm       ✗ "]),
    ("steps top", 0, ["1     1     types  ✓ pass", "2     1     many   ✗ conflict"]),
    ("steps top/types", 0, ["1     1     k      ✓ pass"]),
    ("steps top/many/b", 0, ["1     1     run    ✓ pass"]),
    ("steps top/many/d.resolve-1", 0, ["1     1     run     ✗ fail"]),
    ("show top", 0, ["loop kid", "4 branches · 4 at a time", "worktree from HEAD · merged"]),
    ("show top", 0, ["check: test ! -e bad", "resolve: echo fits > both.txt"]),
    ("show top/types", 0, ["kid · fsm → 2 states", "echo kid at work"]),
    ("show top/many/a", 0, ["a · branch → ", "echo ${branch.item} > ${branch.item}.new"]),
    ("show top/many/b.resolve-1", 0, ["echo fits > both.txt"]),
    ("graph top", 0, ["types    loop kid", "many     each: $ case", "conflict  → done"]),
    ("history top", 0, ["✗ failed (done)", "t types, m many"]),
    ("logs top", 0, ["[types]        ✓ kid at work (exit 0)", "       4 branches"]),
    ("logs top", 0, ["       merged a, and the check passed", "running b.resolve-1"]),
    (
        "logs top",
        0,
        ["b cannot be merged: conflict (both.txt)", f"✗ `d` is not merged: {LEFT_OUT}"],
    ),
    ("logs top/types", 0, ["✓ kid at work (exit 0)", "Loop completed: end"]),
    ("logs top/many/a", 0, ["       committed: 2 files on ll/top/", "Loop completed: done"]),
    ("logs top/many/b.resolve-1", 0, ["committed: 2 files on ll/", "Loop completed: done"]),
    ("replay top", 0, ["no difference in 2 transitions"]),
    ("replay top/types", 0, ["no difference in 1 transition"]),
    ("replay top/many/a", 0, ["no difference in 1 transition"]),
    ("replay top/many/b.resolve-1", 0, ["no difference in 1 transition"]),
    ("replay top/many/d.resolve-1", 0, ["no difference in 1 transition"]),
    ("verify ../receipt.json", 1, ["✓ the receipt is intact", "✗ the run did not complete"]),
    ("import ../run.ll", 0, ["`top` is already here"]),
    ("report top --markdown", 0, ["many", "types", LEFT_OUT]),
    ("cost", 0, ["no agent has run"]),
    ("test top", 0, ["1 passed"]),
    (
        "simulate top --outcome types=pass:1 --outcome many=conflict:1",
        0,
        ["failed: done  100.0%"],
    ),
    ("run top --dry-run", 0, ["loop kid", "4 branches · 4 at a time", "merged · check: test"]),
    ("validate top", 0, ["`done` is a success state, or a failure when entered via on_conflict"]),
    ("compile top", 0, ["name: kid", "for_each:", "resolve:"]),
    ("worktrees", 0, ["top/d: ", "branch ll/top/"]),
    ("stop top/many/a", 0, ["top/many/a is not running: completed"]),
    ("resume top", 2, ["nothing to resume in `top`: it ended in the failure state `done`"]),
    ("resume top/many/a", 2, ["`top/many/a` was started by `top`, and continues with it"]),
    ("approve top", 2, ["`top` is not waiting at a gate: it has failed"]),
    ("tell top hello", 2, ["`top` has failed, so no agent would receive the note"]),
    ("wait top", 1, ["Loop failed: ended in state 'done': entered by `on_conflict`"]),
    ("attach top", 1, ["top is not running: failed"]),
    ("undo top/many/a", 2, ["`top/many/a` was started by `top`, and cannot be undone separately"]),
    (
        "diff top/many/a",
        2,
        ["no snapshots of the files were recorded", "stored with `top`, which started it"],
    ),
    ("restore top a.new", 2, ["`a.new` did not exist when the run started"]),
    ("attach top/many/a", 0, ["top/many/a is not running: completed"]),
    ("report top/types --markdown", 0, ["## `top/types`: completed", "kid at work"]),
    ("receipt top/types -o ../types.json", 2, ["no snapshots of the files were recorded"]),
    ("export top/types -o ../types.ll", 0, ["wrote ../types.ll: its definition, 7 events"]),
    ("check top", 2, ["`top` has no check"]),
    ("undo top --dry-run", 0, ["a.new", "both.txt", "commits were made since the run started"]),
]


@pytest.mark.parametrize(
    ("words", "code", "parts"), ROWS, ids=[f"{row[0]} {at}" for at, row in enumerate(ROWS)]
)
def test_what_a_command_says_about_the_parts_of_a_run(project, words, code, parts):
    done = project.ll(*words.split())
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    assert [part for part in parts if part not in said] == [], said


def test_what_programs_read_about_the_branches_that_were_not_merged(project):
    found = json.loads(project.ll("worktrees", "--json").stdout)["worktrees"]
    assert [each["branch"].rpartition("/")[2] for each in found] == ["d"]


def test_an_export_has_every_run_of_the_tree(project, tmp_path):
    there = Project(tmp_path)
    done = there.ll("import", str(project.root.parent / "run.ll"))
    assert done.returncode == 0, done.stdout + done.stderr
    names = ["types", *(f"many/{each}" for each in ("a", "b", "c", "d", "b.resolve-1"))]
    for name in names:
        found = there.ll("steps", f"top/{name}")
        assert (found.returncode, "✓ pass" in found.stdout) == (0, True), found.stderr
