"""`worktree` in a loop file: what is read, and what is reported."""

from __future__ import annotations

from textwrap import dedent

import pytest

from little_loops.authoring.load import load
from little_loops.authoring.loop_files import Library, LoopText
from little_loops.fsm.evidence import has_agent, starts_agents
from little_loops.fsm.schema import FSMLoop, Worktree, child_loops, with_child_loops

HEAD = """
initial: work
states:
  work: {action: make, next: done}
  done: {terminal: true}
"""
FULL = (
    "{from: main, setup: npm ci, copy: [.env], link: [lib], ports: {PORT: 3000}, merge: squash,"
    " check: make test, keep: always}"
)
STATE = """
initial: work
states:
  work:
    loop: {initial: a, states: {a: {action: make, next: b}, b: {terminal: true}}}
    next: done
    worktree: %s
  done: {terminal: true}
"""


def read(text: str) -> FSMLoop:
    definition = load(dedent(text), "l.yaml", "l")
    assert [each for each in definition.problems if each.severity == "error"] == []
    assert definition.loop is not None
    return definition.loop


def problems(text: str) -> list[str]:
    found = load(dedent(text), "l.yaml", "l").problems
    return [f"{each.code} {each.message}" for each in found if each.severity == "error"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("true", Worktree()),
        ("false", None),
        ("{}", Worktree()),
        (
            FULL,
            Worktree(
                "main",
                "npm ci",
                (".env",),
                ("lib",),
                {"PORT": 3000},
                "squash",
                "make test",
                keep="always",
            ),
        ),
    ],
)
def test_the_worktree_of_a_loop(written, expected):
    assert read(f"{HEAD}worktree: {written}\n").worktree == expected


def test_the_worktree_of_a_state():
    assert read(STATE % "{check: make}").states["work"].worktree == Worktree(check="make")


def test_the_worktrees_of_branches():
    text = """
        initial: work
        states:
          work: {for_each: [a, b], action: make, worktree: true, next: done}
          done: {terminal: true}
        """
    assert read(text).states["work"].worktree == Worktree()


NAMED = """
initial: work
states:
  work:
    for_each: [a, b]
    action: make ${branch.item}
    next: done
    worktree: {resolve: %s}
  done: {terminal: true}
"""
FITS = (
    "initial: a\ncontext: {files: ''}\nstates: {a: {action: make, next: b}, b: {terminal: true}}\n"
)


def resolving(resolve: str, loop: str = FITS) -> tuple[FSMLoop | None, list[str]]:
    """A loop whose `resolve` may name the loop `fit`, and its errors."""

    def found(name: str) -> LoopText | str:
        return (
            LoopText(loop.encode(), "fit.yaml", "fit", "/fit.yaml")
            if name == "fit"
            else f"no `{name}`"
        )

    definition = load(NAMED % resolve, "l.yaml", "l", Library(found))
    errors = [each for each in definition.problems if each.severity == "error"]
    places = [each.place and f"{each.place.file}:{each.place.line}" for each in errors]
    told = [f"{where}: {each.message}" for where, each in zip(places, errors, strict=True)]
    return definition.loop, told


@pytest.mark.parametrize(
    ("written", "action", "with_"),
    [
        ("{action: make fit}", "make fit", {}),
        ("{action: 'echo ${branch.conflict.reason} ${branch.item}'}", None, {}),
        ("fit", "fit", {}),
        ("{loop: fit, with: {files: '${branch.conflict.files}'}}", "fit", None),
    ],
)
def test_what_makes_a_branch_fit(written, action, with_):
    loop, told = resolving(written)
    assert told == []
    assert loop is not None
    resolve = (loop.states["work"].worktree or Worktree()).resolve
    assert resolve is not None
    assert action is None or resolve.action == action
    assert with_ is None or resolve.with_ == with_
    assert FSMLoop.from_dict(loop.to_dict()) == loop
    changed = with_child_loops(
        loop, lambda name, child: child._replace(name=f"{name} {child.name}")
    )
    names = [child.name for child in child_loops(changed)]
    assert names == (["work/worktree/resolve fit"] if resolve.loop is not None else [])


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            "[a]",
            "l.yaml:8: `resolve` must be the name of a loop, or a mapping of fields, not a list",
        ),
        ("other", "l.yaml:8: no `other`"),
        ("{}", "l.yaml:8: `resolve` has neither an `action` nor a `loop`"),
        ("{action: make, next: x}", "l.yaml:8: unknown key `next` in `resolve`"),
        ("{action: 'echo ${branch.nope}'}", "l.yaml:8: `branch` has no `nope`"),
        ("{loop: fit, with: {nope: 1}}", "l.yaml:8: loop `fit` has no context variable `nope`"),
        (
            "{action: make, loop: fit}",
            "l.yaml:8: `action` has no effect in `resolve`, which starts a loop",
        ),
    ],
)
def test_what_cannot_make_a_branch_fit(written, expected):
    assert resolving(written)[1] == [expected]


def test_values_of_a_conflict_are_data_in_the_loop_that_makes_a_branch_fit():
    loop = FITS.replace("action: make", "action: 'make ${context.files}; $${context.files}'")
    loop = loop.replace("$${context.files}", "eval ${context.files}")
    assert resolving("{loop: fit, with: {files: x}}", loop)[1] == []
    [told] = resolving("{loop: fit, with: {files: '${branch.conflict.files}'}}", loop)[1]
    assert told.startswith("fit.yaml:3: ")
    assert told.endswith("(with the values of l.yaml:8)")


def test_agents_that_make_branches_fit_are_agents_of_the_loop():
    loop, _ = resolving("{action: Resolve the conflict, action_type: prompt}")
    assert loop is not None
    assert has_agent(loop)
    assert starts_agents(loop.states["work"], {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            STATE % "{tries: 2}",
            "LL222 `tries` has no effect without `resolve`",
        ),
        (
            f"{HEAD}worktree: 5\n",
            "LL103 `worktree` must be true, false or a mapping of settings, not a number",
        ),
        (
            f"{HEAD}worktree: {{ports: 3000}}\n",
            "LL103 `ports` must be a mapping of variables to numbers, not a number",
        ),
        (
            f"{HEAD}worktree: {{ports: {{PORT: 70000}}}}\n",
            "LL104 `PORT` must be at most 65,535",
        ),
        (
            f"{HEAD}worktree: {{copy: [../x]}}\n",
            "LL115 an item in `copy` is outside the project: `../x`",
        ),
        (
            f"{HEAD}worktree: {{resolve: mend}}\n",
            "LL102 unknown key `resolve` in `worktree`",
        ),
        (
            "initial: a\nstates: {a: {action: make, worktree: true, next: b}, b: {terminal: true}}",
            "LL220 `worktree` has no effect in state `a`, which starts no loop",
        ),
    ],
)
def test_what_is_reported(text, expected):
    assert problems(text) == [expected]
