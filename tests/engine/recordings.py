"""A collection of recorded runs, made anew in each session by the real machine.

Four sources: the tests of the examples (scripted worlds with evidence, relays, agents), a resume of
these after a kill, the stories of `tests/recorded` (real files, kills, stops, resumes), and runs with
hooks or that start others (real processes); of those, both the run itself and the ones that it started.
Data written once would be that of an earlier version as soon as an event gets another field.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from little_loops.authoring.loop_tests import LoopTest
from little_loops.definitions.test_files import read_tests, tests_of
from little_loops.engine import lifecycle, resuming
from little_loops.engine.lifecycle import RunRequest
from little_loops.engine.local_world import Services
from little_loops.engine.loop_tests import GivenScript
from little_loops.engine.scripted import Ran, ScriptedWorld, resume_after, start
from little_loops.engine.scripted_trees import ScriptedTrees
from little_loops.fsm.codec import from_record, to_record
from little_loops.fsm.events import Entry, Tree
from little_loops.fsm.schema import BRANCH, FSMLoop
from little_loops.runs.reading import Runs
from little_loops.runs.recordings import RecordedDefinition, RecordedRun, read_recording
from little_loops.runs.view import RunView
from little_loops.system.stops import StopFlag, listen
from tests.recorded.playing import NAME, play
from tests.recorded.record import STORIES, Story
from tests.simulation.child import in_child

EXAMPLES = Path(__file__).parents[2] / "examples"


class Collection(Mapping[str, RecordedRun]):
    """Every recorded run by its name; the same ones in the same order every time. Runs that start
    others are made when they are first asked for."""

    def __init__(self) -> None:
        self._made = {**dict(_of_examples()), **dict(_of_stories())}
        self._names = [*self._made, *_family_names()]

    def __getitem__(self, name: str) -> RecordedRun:
        if name not in self._made:
            self._made |= _of_family(name.partition(":")[0])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def with_trees(self) -> list[str]:
        """The names of runs with snapshots; no run that starts others has any here."""
        runs = self._made.items()
        return [name for name, run in runs if any(isinstance(e.event, Tree) for e in run.entries)]


SHAPES = {
    "shapes.yaml": """\
initial: build
max_iterations: 6
scope: [src/, tests/]
scope_writes: enforce
evidence: {protect: [tests/], tampering: fail, confirm: 2, stall_after: 2}
states:
  build: {action: make, next: check}
  check: {action: make test, check: true, on_pass: done, on_fail: fix, on_flaky: fix, on_stalled: ask}
  fix: {action: Fix it, action_type: prompt, next: build, on_out_of_scope: check}
  ask: {action: Help, action_type: prompt, next: check}
  done: {action: make release, terminal: true}
""",
    "tests/shapes.test.yaml": """\
loop: shapes
tests:
  - name: out of scope, then right
    given:
      build: {changes: [src/built]}
      check: [1, 1, 0, 0]
      fix: [{changes: [other/x]}, {changes: [src/a]}]
      done: 0
    expect: {status: completed}
  - name: tampered
    given: {build: 0, check: 1, fix: [{changes: [src/a]}, {changes: [tests/t]}]}
    expect: {status: failed, reason: tampered}
  - name: stalled, then helped
    given:
      build: {changes: []}
      check: [1, 1, 1, 0, 0]
      fix: {changes: []}
      ask: {changes: [src/a]}
      done: 0
    expect: {status: completed, visits: {ask: 1}}
  - name: flaky
    given:
      build: 0
      check: [1, 0, 1, 0, 0]
      fix: [{changes: [src/a]}, {changes: [src/b]}]
      done: 0
    expect: {status: completed, visits: {fix: 2}}
  - name: never done
    given: {build: 0, check: 1, fix: {changes: [src/a]}}
    expect: {status: failed, reason: max_iterations}
""",
    "others.yaml": """\
initial: check
max_iterations: 6
evidence: true
host: {permission_mode: acceptEdits}
fallback: [{name: codex}]
hooks: {before_run: make ready, before_state: make note, after_state: make note, after_run: make clean}
states:
  check:
    action: make test
    check: true
    condition: {type: judge, question: Was no test removed?, host: codex}
    on_pass: done
    on_fail: fix
    on_error: lost
  fix: {action: Fix it, action_type: prompt, next: check}
  lost: {terminal: true, outcome: failure}
  done: {terminal: true}
""",
    "tests/others.test.yaml": """\
loop: others
tests:
  - name: a veto, then a pass
    given: {check: [1, {judge: {fail: a test was removed}}, 0], fix: {changes: [src/a]}}
    expect: {status: completed, visits: {fix: 2}}
  - name: a judge that cannot judge
    given: {check: {judge: error}}
    expect: {status: failed}
  - name: another agent takes the turn
    given: {check: [1, 0], fix: [{agent: rate_limited}, 0]}
    expect: {status: completed}
""",
    "apart.yaml": """\
initial: check
worktree: true
states:
  check: {action: make test, check: true, on_pass: done, on_fail: fix}
  fix: {action: make fix, next: check}
  done: {terminal: true}
""",
    "tests/apart.test.yaml": """\
loop: apart
tests:
  - name: in a worktree of its own
    given: {check: [1, 0], fix: {changes: [src/a]}}
    expect: {status: completed}
""",
}
"""What the examples do not have: other findings, hooks, judges, a second agent, a worktree."""


@cache
def collection() -> Collection:
    return Collection()


def _of_examples() -> Iterator[tuple[str, RecordedRun]]:
    with tempfile.TemporaryDirectory() as root:
        shutil.copytree(EXAMPLES, os.path.join(root, ".loops"))
        for path, text in SHAPES.items():
            Path(root, ".loops", path).write_text(text)
        files = [file.content for file in read_tests(tests_of(root), root, {})]
    for file in files:
        assert file.loop is not None
        loop = file.loop._replace(maintain=False)
        for number, test in enumerate(file.tests, 1):
            ran = _run(loop, test)
            name = f"{loop.name} {number}"
            yield name, recorded(loop, ran.world.log)
            middle = len(ran.world.log) // 2
            script = GivenScript(test.given, ran.world.log[:middle])
            again = resume_after(ran, middle, script)
            yield f"{name} killed", recorded(loop, again.world.log)


def _run(loop: FSMLoop, test: LoopTest) -> Ran:
    return start(ScriptedWorld(loop, {}, ScriptedTrees.of(loop)), GivenScript(test.given))


def recorded(loop: FSMLoop, log: list[Entry]) -> RecordedRun:
    """A log in memory, as it would be read from a file."""
    records = (json.loads(json.dumps(to_record(entry))) for entry in log)
    return RecordedRun(
        [from_record(each) for each in records], [RecordedDefinition(loop)], loop.context
    )


def _of_stories() -> Iterator[tuple[str, RecordedRun]]:
    for name, story in STORIES.items():
        if story.log_up_to is None:
            yield name, _played(story)


def _played(story: Story) -> RecordedRun:
    """Play a story and its resumes to the end, and read its files."""
    root = os.path.realpath(tempfile.mkdtemp())
    try:
        in_child(lambda: _play(root, story))
        view = Runs(root).view(NAME)
        assert view is not None
        return read_recording(view)._replace(data=None)
    finally:
        shutil.rmtree(root)


def _play(root: str, story: Story) -> None:
    plain: dict[str, Any] = json.loads(json.dumps(story.loop))
    for state in plain["states"].values():
        for field in [key for key, value in state.items() if value is None]:
            del state[field]
    loop = FSMLoop.from_dict(plain)
    more = {"dies_before": story.dies_before, "cut_in_wait": story.cut_in_wait}
    play(root, story.answers, loop=loop, **more)  # type: ignore[arg-type]
    if story.again is not None:
        play(root, story.again)
    play(root, story.then, limits=story.limits)


# ── runs that start others ─────────────────────────────────────────────────────────────────────

END = {"terminal": True}
FAILURE = {"terminal": True, "outcome": "failure"}


def inner(action: str = "echo a word", **states: Any) -> dict[str, Any]:
    """A loop to be started by another one."""
    work = {"action": action, "on_pass": "end", "on_fail": "bad", "next": "bad"}
    default = {"work": work, "end": END, "bad": FAILURE}
    result = {"word": "${captured.work.output}"}
    return {"name": "inner", "initial": "work", "result": result, "states": {**default, **states}}


def outer(loop: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A loop that starts another one, and uses what that found."""
    last = {"action": "echo ${captured.kid.exit_code}", "next": "done"}
    kid = {"loop": loop, "on_pass": "last", "on_fail": "last", "on_error": "done", **fields}
    first = {"action": "echo first", "next": "kid"}
    states = {"first": first, "kid": kid, "last": last, "done": END}
    return {"name": "outer", "initial": "first", "states": states}


def actions(action: str = "echo word", **fields: Any) -> dict[str, Any]:
    """A loop that runs three actions at once."""
    named = {name: {"action": action} for name in ITEMS}
    kid = {"branches": named, "on_pass": "done", "on_fail": "done", "on_error": "done", **fields}
    return {"name": "outer", "initial": "kid", "states": {"kid": kid, "done": END}}


def hooked(**hooks: str) -> dict[str, Any]:
    """A loop with hooks that starts no other one."""
    states = {"first": {"action": "pwd", "next": "last"}, "last": {"action": "pwd", "next": "done"}}
    plain = {"name": "outer", "initial": "first", "states": {**states, "done": END}}
    return {**plain, "hooks": {name: {"action": text} for name, text in hooks.items()}}


ITEMS = ["a", "b", "c"]
ONCE = "! mkdir once 2>/dev/null || { %s; }"  # of branches that run at once, only one
OF_PARENT = "$(head -1 .loops/.running/outer.pid)"
GATE = {"terminal": True, "outcome": "review", "next": "end"}
FAMILIES: dict[str, dict[str, Any]] = {
    "a child that passes": outer(inner()),
    "a child that fails": outer(inner("exit 1")),
    "a child that fails and is started again": outer(
        inner(ONCE % "exit 1"), on_fail="$current", retry={"max": 3, "backoff": 0}
    ),
    "a child that errs": outer(inner(work={"action": "exit 9", "on_pass": "end"})),
    "a child in a child": outer(outer(inner())),
    "a child that is killed once": outer(inner(ONCE % "kill -9 $PPID; sleep 60")),
    "a child that is killed twice": outer(inner("kill -9 $PPID; sleep 60")),
    "a child at a gate": outer(inner(work={"action": "echo look", "next": "gate"}, gate=GATE)),
    "a child that hands off": outer(inner(ONCE % "echo 'CONTEXT_HANDOFF: go on'")),
    "a child that is stopped with its parent": outer(
        inner(ONCE % f"kill -TERM {OF_PARENT}; sleep 60")
    ),
    "a child whose parent is killed": outer(inner(ONCE % f"kill -9 {OF_PARENT}; sleep 60")),
    "a child that takes too long": outer(inner("sleep 60"), timeout=0.2, on_timeout="last"),
    "a parent that takes too long": {**outer(inner("sleep 60")), "timeout": 0.4},
    "three branches": outer(inner(), for_each=ITEMS),
    "three branches, one fails": outer(inner(ONCE % "exit 1"), for_each=ITEMS),
    "three branches, all fail": outer(inner("exit 1"), for_each=ITEMS),
    "three branches, two at a time": outer(inner(), for_each=ITEMS, max_parallel=2),
    "three branches, one is killed once": outer(
        inner(ONCE % "kill -9 $PPID; sleep 60"), for_each=ITEMS
    ),
    "three branches, one at a gate": outer(
        inner(work={"action": ONCE % "exit 1", "on_pass": "end", "on_fail": "gate"}, gate=GATE),
        for_each=ITEMS,
    ),
    "three branches, stopped": outer(
        inner(ONCE % f"kill -TERM {OF_PARENT}; sleep 60"), for_each=ITEMS
    ),
    "three branches whose parent is killed": outer(
        inner(ONCE % f"kill -9 {OF_PARENT}; sleep 60"), for_each=ITEMS
    ),
    "hooks": hooked(after_state="! mkdir once 2>/dev/null"),
    "a hook that does not let the run start": hooked(before_run="exit 3"),
    "a hook that is killed with its run": hooked(
        before_state=ONCE % f"kill -9 {OF_PARENT}; sleep 60"
    ),
    "three branches with actions": actions(),
    "three branches with actions, one is enough": actions(join="any"),
    "three branches with actions, fail fast": actions("exit 1", fail_fast=True),
}
"""Each is resumed for as long as it has not ended."""


def _family_names() -> Iterator[str]:
    for name, loop in FAMILIES.items():
        yield name
        yield from (f"{name}: {path}" for path in _paths(loop))


def _paths(loop: dict[str, Any]) -> Iterator[str]:
    """The paths of the runs that a loop starts, except single actions."""
    kid = loop["states"].get("kid", {})
    for path in [f"kid/{item}" for item in kid.get("for_each", ())] or ["kid"]:
        if "loop" in kid:
            yield path
            yield from (f"{path}/{below}" for below in _paths(kid["loop"]))


def _of_family(name: str) -> dict[str, RecordedRun]:
    """A run that starts others, and those that it has started."""
    root = os.path.realpath(tempfile.mkdtemp())
    try:
        return dict(_family(root, name, FSMLoop.from_dict(FAMILIES[name])))
    finally:
        shutil.rmtree(root)


def _family(root: str, name: str, loop: FSMLoop) -> Iterator[tuple[str, RecordedRun]]:
    """Run a loop in real processes, and read the files of all its runs."""
    _in_process(root, loop)
    resumes = 0
    while (view := _view(root, loop)).files.stem is None:
        resumes += 1
        assert resumes < 3, name
        _in_process(root, None)
    yield name, read_recording(view)._replace(data=None)
    for one in _below(Runs(root), view):
        path, recording = one.name.removeprefix(f"{loop.name}/"), read_recording(one)
        if recording.definitions[-1].loop.paradigm != BRANCH:
            yield f"{name}: {path}", recording._replace(data=None)


def _view(root: str, loop: FSMLoop) -> RunView:
    view = Runs(root).view(loop.name)
    assert view is not None
    return view


def _below(runs: Runs, view: RunView) -> Iterator[RunView]:
    for one in runs.children(view):
        yield one
        yield from _below(runs, one)


def _in_process(root: str, loop: FSMLoop | None) -> None:
    """Start a run, or resume the one that is there; it may kill its own process."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            stop = StopFlag()
            listen(stop)
            services = Services({"PATH": os.environ["PATH"]}, stop=stop, owns_process=True)
            request = RunRequest(root, "outer")
            if loop is None:
                resuming.resume(None, request, services)
            else:
                lifecycle.start(loop, request, services)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
