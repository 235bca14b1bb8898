"""Every process of a tree of runs killed after each event: the same ending, every effect once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.engine.kill_sweep import Kill, Killing, Shape, judge, kills, made, play
from tests.project import Project, until
from tests.simulation.command import command, projects

INNER = """\
initial: five
states:
  five: {action: "echo five >> trace", next: six}
  six: {action: "echo six >> trace", next: end}
  end: {terminal: true}
"""
MIDDLE = """\
initial: two
states:
  two: {action: "echo two >> trace", next: three}
  three: {loop: inner, on_pass: seven}
  seven: {action: "echo seven >> trace", next: end}
  end: {terminal: true}
"""
TOP = """\
initial: one
states:
  one: {action: "echo one >> trace", next: kid}
  kid: {loop: middle, on_pass: last}
  last: {action: "echo last >> trace", next: done}
  done: {terminal: true}
"""
BRANCH = """\
context: {item: none}
initial: first
states:
  first: {action: "echo first-${context.item} >> trace", next: second}
  second: {action: "echo second-${context.item} >> trace", next: end}
  end: {terminal: true}
"""
ALL = """\
initial: one
states:
  one: {action: "echo one >> trace", next: many}
  many:
    for_each: [a, b, c, d, e, f]
    loop: branch
    with: {item: "${branch.item}"}
    max_parallel: 3
    on_pass: last
  last: {action: "echo last >> trace", next: done}
  done: {terminal: true}
"""
FIRST = """\
initial: one
states:
  one: {action: "echo one >> trace", next: many}
  many:
    for_each: [a, b, c, d, e, f]
    action: "test '${branch.item}' = a || exec sleep 60; echo a >> trace; RESULT"
    max_parallel: 6
    RULE
    on_pass: last
    on_fail: last
  last: {action: "echo last >> trace", next: done}
  done: {terminal: true}
"""
ITEMS = "abcdef"
TRAIN = """\
initial: one
states:
  one: {action: "echo one >> trace", next: many}
  many:
    for_each: [a, b, c, d, e, f]
    action: |
      echo ${branch.item} > ${branch.item}.txt
      case ${branch.item} in a|c) echo ${branch.item} > both.txt;; esac
      echo work-${branch.item} >> $LL_PROJECT/trace
    max_parallel: 3
    worktree:
      check: test ! -e e.txt
      resolve: {action: "echo resolved > both.txt; rm -f e.txt; echo resolve >> $LL_PROJECT/resolved"}
    on_pass: last
  last: {action: "echo last >> trace", next: done}
  done: {terminal: true}
"""
FILES = {each: each for each in "abcdf"} | {"both": "resolved"}


def repository(project: Project) -> None:
    """A repository with an edit that is not committed, a stash, and a hook that would leave a file."""
    (project.root / "mine.txt").write_text("mine\n")
    (project.root / ".gitignore").write_text("trace\nresolved\nhooks\n.loops/\n")
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first")
    (project.root / "mine.txt").write_text("stashed\n")
    project.git("-c", "user.name=a", "-c", "user.email=a@b", "stash", "-q")
    (project.root / "mine.txt").write_text("my edit\n")
    hook = project.root / ".git/hooks/post-merge"
    hook.write_text("#!/bin/sh\ntouch hooks\n")
    hook.chmod(0o755)


def landed(project: Project) -> None:
    """The branch has moved once, to the same tree, and nothing else of the user's has changed."""
    found = {each.stem: each.read_text().strip() for each in project.root.glob("*.txt")}
    assert found == FILES | {"mine": "my edit"}
    assert project.git("status", "--porcelain") == "M mine.txt"
    moves = project.git("reflog", "show", "--format=%gs", "main").split("\n")
    assert [move.rpartition(" ")[2] for move in moves] == ["Fast-forward", "first"]
    assert len(project.git("stash", "list").split("\n")) == 1
    assert not (project.root / "hooks").exists()
    assert project.git("for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"
    assert len(project.git("worktree", "list").split("\n")) == 1
    assert 2 <= len(project.file("resolved").split()) <= 4


def first(rule: str, result: str) -> str:
    return FIRST.replace("RULE", rule).replace("RESULT", result)


SHAPES = [
    Shape(
        "sub-loop",
        {"inner": INNER, "middle": MIDDLE, "top": TOP},
        ["one", "two", "five", "six", "seven", "last"],
    ),
    Shape(
        "6 branches, all",
        {"branch": BRANCH, "top": ALL},
        [
            "one",
            *(f"first-{each}" for each in ITEMS),
            *(f"second-{each}" for each in ITEMS),
            "last",
        ],
        in_flight=3,
        is_ordered=False,
    ),
    Shape("6 branches, any", {"top": first("join: any", "true")}, ["one", "a", "last"]),
    Shape(
        "6 branches, fail_fast", {"top": first("fail_fast: true", "false")}, ["one", "a", "last"]
    ),
    Shape(
        "merge train",
        {"top": TRAIN},
        ["one", *(f"work-{each}" for each in ITEMS), "last"],
        in_flight=3,
        is_ordered=False,
        prepare=repository,
        check=landed,
        few=3,
    ),
]
Make = Callable[[], Project]


@pytest.fixture
def make() -> Iterator[Make]:
    with projects() as make:
        yield make


def sweep(shape: Shape, make: Make, points: list[Kill]) -> None:
    for kill in points:
        try:
            play(shape, make, kill)
        except AssertionError as failed:
            failed.add_note(f"{shape.name}: {kill}")
            raise


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_tree_killed_after_some_of_its_events(shape, make, record_property):
    points = kills(shape, make)
    step = max(1, len(points) // shape.few) | 1  # odd: every choice of victims comes
    sweep(shape, make, points[::step])
    record_property("figure: kills in a tree of runs", len(points[::step]))


def test_a_child_killed_before_it_records_its_resume_is_continued(make):
    """Its log still says that it was interrupted, when its parent had been killed."""
    shape, kid = SHAPES[0], "top/00002-1-kid"
    project = made(shape, make)
    killed = command(project, "run", "top", at=Killing(Kill(kid, 5, "the root")))
    assert killed.reached == "killed"
    log = project.root / ".loops/.running/top.d/runs/00002-1-kid/run.events.jsonl"
    until(lambda: '"loop_interrupted"' in log.read_text(), "end of the child")
    said = command(project, "resume", "top", at=Killing(Kill(kid, 0, "itself")))
    assert said.reached == "killed"
    judge(shape, project, said)


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_tree_killed_after_any_of_its_events(shape, make, record_property):
    points = kills(shape, make)
    assert len(points) >= 100
    sweep(shape, make, points)
    record_property("figure: kills in a tree of runs", len(points))
