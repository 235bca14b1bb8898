"""Every command on every way to start children: the product of both, cell by cell.

A feature is a loop `top` whose first state starts children. Before a run, each command that reads the
file names what the children run. After it, each command that reads a run shows the children, and
takes the path of each of them; so do those that change nothing but need a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
import yaml

from little_loops.authoring.fields.schema_json import schema
from tests.engine.test_worktrees import Repository
from tests.project import Project
from tests.simulation.command import LineWriters, assert_in_words, command, in_memory

INNER = """\
context: {item: none}
initial: work
states: {work: {action: "echo inside ${context.item}", next: ok}, ok: {terminal: true}}
"""
TOP = """\
initial: all
states:
  all:
    STATE
    on_pass: done
    on_fail: bad
  done: {terminal: true}
  bad: {terminal: true, outcome: failure}
MORE
"""
IN_PLACE = "{initial: work, states: {work: {action: echo inside, next: ok}, ok: {terminal: true}}}"


SECOND = "top@night"


class Feature(NamedTuple):
    """The fields of the state, the names of its children, and what each command says of it."""

    name: str
    state: str
    children: tuple[str, ...]
    words: str
    more: str = ""
    printed: str = "inside"
    ends: str = "0"
    """What a test of the loop gives the state."""

    @property
    def text(self) -> str:
        return TOP.replace("STATE", self.state).replace("MORE\n", self.more)

    def paths(self) -> list[str]:
        """The paths of the children: a state that has only one needs no name of its own for it."""
        if self.children == ("all",):
            return ["top/all"]
        return [path for name in self.children for path in (f"top/{name}", f"top/all/{name}")]


EACH = 'for_each: [a, b]\n    action: "echo inside ${branch.item}"'
TREE = '\n    worktree: {check: "true"}'
FEATURES = [
    Feature("a loop by name", "loop: inner", ("all",), "inner", ends="{ends: completed}"),
    Feature("a loop in place", f"loop: {IN_PLACE}", ("all",), "all", ends="{ends: completed}"),
    Feature("values", "loop: inner\n    with: {item: x}", ("all",), "inner"),
    Feature("for each item", EACH, ("a", "b"), "echo inside", ends="[0, 0]"),
    Feature(
        "a loop for each item",
        'for_each: [a, b]\n    loop: inner\n    with: {item: "${branch.item}"}',
        ("a", "b"),
        "inner",
        ends="[{ends: completed}, {ends: completed}]",
    ),
    Feature("some at a time", f"{EACH}\n    max_parallel: 1", ("a", "b"), "1 at a time"),
    Feature("any", f"{EACH}\n    max_parallel: 1\n    join: 2", ("a", "b"), "join 2"),
    Feature("a share", f"{EACH}\n    join: 50%\n    max_parallel: 1", ("a",), "join 50%"),
    Feature("fail fast", f"{EACH}\n    fail_fast: true", ("a", "b"), "fail fast"),
    Feature("files", "for_each: {glob: '*.py'}\n    action: cat ${branch.item}", ("x.py",), "*.py"),
    Feature(
        "a matrix",
        "matrix: {py: ['3', '4'], db: [a, b]}\n    exclude: [{py: '4', db: b}]\n"
        '    action: "echo inside ${branch.py} ${branch.db}"',
        ("3-a", "3-b", "4-a"),
        "3 branches",
        ends="[0, 0, 0]",
    ),
    Feature(
        "named branches",
        "branches: {lint: {action: echo inside}, types: {loop: inner}}",
        ("lint", "types"),
        "types: loop inner",
        ends="[0, {ends: completed}]",
    ),
    Feature("hooks", "loop: inner", ("all",), "inner", more='hooks: {before_run: "true"}\n'),
    Feature("a limit", "loop: inner\n    limits: {max_iterations: 9}", ("all",), "9"),
    Feature("a worktree of a loop", f"loop: inner{TREE}", ("all",), "worktree"),
    Feature("a worktree of each branch", f"{EACH}{TREE}", ("a", "b"), "worktree"),
]


class Made(NamedTuple):
    """A project with a feature, before or after its run."""

    feature: Feature
    project: Project

    def said(self, *words: str) -> LineWriters:
        said = command(self.project, *words)
        assert_in_words(said)
        return said


def lay_out(feature: Feature, place: Path) -> Made:
    project = Repository(place)
    project.write("x.py", "inside\n")
    project.git("add", "x.py")
    for name in ("a.py", "b.py", "mine.py", "new.py", "untracked.py"):
        (project.root / name).unlink()
    project.git("add", "-A")
    project.quietly("commit", "-q", "-m", "only x.py")
    project.loop("inner", INNER)
    project.loop("top", feature.text)
    return Made(feature, project)


USUAL = (
    *("a loop by name", "a loop for each item", "a matrix", "named branches", "hooks"),
    "a worktree of each branch",
)
"""Those in the usual tests; the soak tests have all."""
EVERY = [
    pytest.param(each, id=each.name, marks=() if each.name in USUAL else pytest.mark.soak)
    for each in FEATURES
]


@pytest.fixture(scope="module", params=EVERY)
def written(request: pytest.FixtureRequest) -> Iterator[Made]:
    with in_memory() as place:
        yield lay_out(request.param, place)


@pytest.fixture(scope="module", params=EVERY)
def done(request: pytest.FixtureRequest) -> Iterator[Made]:
    with in_memory() as place:
        made = lay_out(request.param, place)
        for words in ((), ("--id", "night")):
            said = made.said("run", "top", *words)
            assert said.code == 0, said
        yield made
        made.project.end_actions()


# ── before a run ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=" ".join(words))
        for words in (
            ("show", "top"),
            ("run", "top", "--dry-run"),
            ("compile", "top"),
        )
    ],
)
def test_commands_that_read_the_file_say_what_the_children_run(written: Made, words):
    said = written.said(*words)
    assert said.code == 0, said
    fields = yaml.safe_load(written.feature.state.replace("\n    ", "\n"))
    plain = written.feature.words if words[0] != "compile" else next(iter(fields))
    assert plain in said.out


@pytest.mark.parametrize("form", ["text", "mermaid", "dot"])
def test_a_graph_has_the_state_and_what_it_runs(written: Made, form: str):
    said = written.said("graph", "top", "--format", form)
    assert said.code == 0, said
    state = next(line for line in said.out.splitlines() if "all" in line)
    runs = ("inner", "inside", "loop all", "cat", "lint, types")
    assert any(each in state for each in runs), state


def test_it_is_valid_also_by_the_schema(written: Made):
    said = written.said("validate", "top", "--json")
    [file] = json.loads(said.out)["files"]
    assert (said.code, file["problems"], file["hints"]) == (0, [], [])
    assert jsonschema.Draft202012Validator(schema()).is_valid(yaml.safe_load(written.feature.text))


def test_what_it_compiles_to_compiles_to_itself(written: Made):
    once = written.said("compile", "top").out
    written.project.loop("again", once.replace("name: top", "name: again"))
    again = written.said("compile", "again")
    (written.project.root / ".loops/again.yaml").unlink()
    assert again.code == 0, again

    def body(text: str) -> Any:
        return {**yaml.safe_load(text), "name": None}

    assert body(again.out) == body(once)


def test_a_test_gives_each_child_its_outcome_also_with_kills(written: Made):
    folder = written.project.root / ".loops/tests"
    folder.mkdir(exist_ok=True)
    given = f"given: {{all: {written.feature.ends}}}"
    expect = "expect: {status: completed, path: [all, done]}"
    (folder / "top.test.yaml").write_text(
        f"loop: top\ntests: [{{name: passes, {given}, {expect}, kill: everywhere}}]\n"
    )
    said = written.said("test", "top")
    assert said.code == 0, said


def test_a_simulation_draws_the_verdict_of_the_state(written: Made):
    words = ("simulate", "top", "-n", "20", "--outcome", "all=pass:0", "--json")
    said = written.said(*words)
    assert said.code == 0, said
    assert [each["state"] for each in json.loads(said.out)["endings"]] == ["bad"]


# ── after it ───────────────────────────────────────────────────────────────────────────────────


def test_the_status_of_the_run_lists_its_children(done: Made):
    said = done.said("status", "top")
    shown = [line.split()[0] for line in said.out.splitlines() if line.startswith("top/")]
    children = done.feature.children
    expected = ["top/all"] if children == ("all",) else [f"top/all/{name}" for name in children]
    assert [each for each in shown if each in expected] == expected, said.out


def test_the_log_of_the_run_has_the_lines_of_its_children(done: Made):
    said = done.said("logs", "top")
    for name in done.feature.children:
        mark = "[all]" if name == "all" else f"[all/{name}]"
        assert any(line.startswith(mark) for line in said.out.splitlines()), said.out
    assert done.feature.printed in said.out


READS: dict[str, Callable[[Made, str], None]] = {}


def reads(check: Callable[[Made, str], None]) -> Callable[[Made, str], None]:
    READS[check.__name__] = check
    return check


@reads
def status(made: Made, path: str) -> None:
    said = made.said("status", path, "--json")
    assert (said.code, json.loads(said.out)["status"]) == (0, "completed"), said


@reads
def logs(made: Made, path: str) -> None:
    said = made.said("logs", path)
    assert made.feature.printed in said.out, said
    assert "Loop completed" in said.out


@reads
def attach(made: Made, path: str) -> None:
    assert "is not running: completed" in made.said("attach", path).err


@reads
def show(made: Made, path: str) -> None:
    said = made.said("show", path)
    assert (said.code, made.feature.printed in said.out or "cat" in said.out) == (0, True), said


@reads
def history(made: Made, path: str) -> None:
    [run] = json.loads(made.said("history", path, "--json").out)["runs"]
    assert run["status"] == "completed"


@reads
def steps(made: Made, path: str) -> None:
    found = json.loads(made.said("steps", path, "--json").out)["steps"]
    assert [each["verdict"] for each in found] == ["pass", None]


@pytest.mark.parametrize("check", READS.values(), ids=READS)
def test_a_command_takes_the_path_of_a_child(done: Made, check: Callable[[Made, str], None]):
    for path in done.feature.paths():
        check(done, path)
        check(done, path.replace("top/", f"{SECOND}/", 1))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=" ".join(words))
        for words in (
            ("steps", "top"),
            ("history", "top"),
            ("wait", "top"),
            ("replay", "top"),
            ("report", "top", "--output", "../report.html"),
            ("report", "top", "--markdown"),
            ("export", "top", "--output", "../top.llrun"),
            ("worktrees",),
            ("cost",),
            ("list",),
        )
    ],
)
def test_commands_about_the_run_as_a_whole(done: Made, words):
    said = done.said(*words)
    assert said.code == 0, said


def test_a_path_is_that_of_a_run_before_it_is_that_of_a_file(done: Made):
    path = done.feature.paths()[-1]
    file = done.project.root / path
    file.parent.mkdir(parents=True)
    file.write_text("initial: other\nstates: {other: {terminal: true}}\n")
    shown = done.said("show", path)
    file.unlink()
    assert "other" not in shown.out
    show(done, path)


def test_only_the_root_is_resumed(done: Made):
    for path in done.feature.paths():
        said = done.said("resume", path)
        assert (said.code, said.err.startswith("error: ")) == (2, True), said


def test_nothing_is_left_of_it(done: Made):
    assert isinstance(done.project, Repository)
    assert done.project.worktrees() == []
    assert done.project.git("for-each-ref", "refs/heads/ll") == ""
