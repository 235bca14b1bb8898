"""A run that is exported and imported is the same run."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from little_loops.fsm.codec import from_record, to_record
from little_loops.fsm.state import UNFINISHED
from little_loops.runs.child_paths import children_of
from little_loops.runs.imported import read_imported
from little_loops.runs.layout import RunFiles
from little_loops.runs.reading import Runs
from little_loops.runs.recordings import read_recording
from little_loops.runs.storage import create
from little_loops.runs.stored_run import read_stored, replayed
from tests.cli.runs import COUNTDOWN, QUICK, crashed, ran
from tests.engine.recordings import collection
from tests.project import Project
from tests.receipts.kept_run import KeptProject
from tests.recorded.playing import NAME, lay_out, play, told
from tests.recorded.test_recorded import RECORDED
from tests.sharing.files import entries_of, environ, exported, imported
from tests.simulation.child import in_child
from tests.simulation.command import in_memory


class Place(NamedTuple):
    """Two projects of two users, and a file between them."""

    here: str
    there: str
    file: Path

    def env(self, root: str) -> dict[str, str]:
        return environ(Path(root).parent / "home")


@pytest.fixture
def place() -> Iterator[Place]:
    with in_memory() as top:
        roots = [os.path.realpath(top / name / "project") for name in ("here", "there")]
        for root in roots:
            os.makedirs(os.path.join(root, ".loops"))
            os.makedirs(os.path.join(root, "..", "home"))
        yield Place(roots[0], roots[1], top / "run.llrun")


def moved(place: Place, name: str) -> str:
    """Export a run here and import it there; its name there."""
    exported(place.here, name, place.file, place.env(place.here))
    return imported(place.file, place.there, place.env(place.there)).name


def files_of(root: str, name: str) -> RunFiles:
    view = Runs(root).view(name)
    assert view is not None
    return view.files


def content(files: RunFiles) -> dict[str, bytes]:
    """What a run consists of, without what belongs to its machine."""
    own = {"action.json", "imported.json", "evidence.json", "run.pid", "run.state.json"}
    data = Path(files.data)
    found = {
        str(path.relative_to(data)): path.read_bytes()
        for path in data.rglob("*")
        if path.is_file() and path.name not in own and path.parent.name != "bin"
    }
    return {**found, "log": Path(files.events).read_bytes()}


def assert_same_run(here: RunFiles, there: RunFiles) -> None:
    first, second = read_stored(here), read_stored(there)
    assert first is not None
    assert second is not None
    assert second.run == first.run
    assert second.loop == first.loop
    assert second.damage is None
    assert content(there) == content(here)
    for mine, other in zip(children_of(here), children_of(there), strict=True):
        assert mine.path == other.path
        if read_stored(mine.files) is not None:
            assert_same_run(mine.files, other.files)
    assert (here.stem is None) == (there.stem is None) or first.run.status == "running"


# ── runs of this version ───────────────────────────────────────────────────────────────────────

FAILED = {"terminal": True, "outcome": "failure"}
GATE = {"terminal": True, "outcome": "review"}
INNER: dict[str, Any] = {
    "name": "inner",
    "initial": "work",
    "result": {"word": "${captured.work.output}"},
    "states": {"work": {"action": "echo a word", "next": "end"}, "end": {"terminal": True}},
}
LONG: dict[str, Any] = {
    "name": "long",
    "initial": "work",
    "states": {
        "work": {"action": "seq 30000; printf '\\377\\001'", "next": "end"},
        "end": {"terminal": True},
    },
}


def outer(loop: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A loop that starts another one and uses what that found."""
    return {
        "name": "outer",
        "initial": "first",
        "states": {
            "first": {"action": "echo first", "next": "kid"},
            "kid": {
                "loop": loop,
                "on_pass": "last",
                "on_fail": "last",
                "on_error": "done",
                **fields,
            },
            "last": {"action": "tail -c 20 ${captured.kid.file}", "next": "done"},
            "done": {"terminal": True},
        },
    }


LOOPS: dict[str, dict[str, Any]] = {
    "two states": QUICK,
    "a metric": COUNTDOWN,
    "long output on both streams": {
        "name": "long",
        "initial": "work",
        "states": {
            "work": {
                "action": "seq 3000; seq 3000 >&2; seq 10; printf '\\377\\001'; exit 1",
                "capture": "numbers",
                "on_fail": "again",
            },
            "again": {"action": "echo ${captured.numbers.exit_code}", "next": "done"},
            "done": {"terminal": True},
        },
    },
    "failed": {
        "name": "broken",
        "initial": "work",
        "states": {"work": {"action": "exit 2", "next": "done"}, "done": {"terminal": True}},
    },
    "at its limit": {
        "name": "limited",
        "max_iterations": 3,
        "initial": "work",
        "states": {
            "work": {"action": "echo again; exit 1", "on_fail": "work", "on_pass": "done"},
            "done": {"terminal": True},
        },
    },
    "at a gate": {
        "name": "gate",
        "initial": "work",
        "states": {
            "work": {"action": "echo look", "next": "wait"},
            "wait": {"terminal": True, "outcome": "review", "next": "done"},
            "done": {"terminal": True},
        },
    },
    "handed off": {
        "name": "handed",
        "initial": "work",
        "states": {
            "work": {"action": "echo 'CONTEXT_HANDOFF: go on here'", "next": "done"},
            "done": {"terminal": True},
        },
    },
    "stopped by its action": {
        "name": "halted",
        "initial": "work",
        "states": {
            "work": {"action": "echo 'LOOP_STOP: enough'", "next": "done"},
            "done": {"terminal": True},
        },
    },
    "timeout and retries": {
        "name": "slowly",
        "initial": "work",
        "states": {
            "work": {
                "action": "exit 1",
                "retry": {"max": 2, "backoff": 0},
                "on_fail": "$current",
                "next": "late",
            },
            "late": {"action": "sleep 60", "timeout": 0.2, "on_timeout": "done", "next": "done"},
            "done": {"terminal": True},
        },
    },
    "context and files of its own": {
        "name": "own",
        "context": {"who": "wörld"},
        "initial": "work",
        "states": {
            "work": {
                "action": "mkdir -p $LL_RUN_DIR/a/b; echo ${context.who} > $LL_RUN_DIR/a/b/c.txt",
                "next": "done",
            },
            "done": {"terminal": True},
        },
    },
    "a child that passes, and one inside it": outer(outer(INNER)),
    "a child that fails": outer({**INNER, "states": {**INNER["states"], "end": FAILED}}),
    "a child that errs": outer(LONG | {"states": {**LONG["states"], "work": {"action": "exit 9"}}}),
    "a child with long output": outer(LONG),
    "three branches": outer(INNER, for_each=["a", "b b", "c"], **{"with": {}}),
    "three branches with actions": {
        "name": "acting",
        "initial": "kid",
        "states": {
            "kid": {
                "branches": {
                    "lint": {"action": "seq 30000", "env": {"MORE": "1"}},
                    "types.py": {"action": "exit 1"},
                    "more": {"loop": INNER},
                },
                "on_pass": "items",
                "on_fail": "items",
            },
            "items": {
                "for_each": ["x", "y/z"],
                "action": "echo ${branch.item} ${branch.index}",
                "next": "done",
            },
            "done": {"terminal": True},
        },
    },
    "a child at a gate": outer({**INNER, "states": {**INNER["states"], "end": GATE}}),
    "a child that is started twice": outer(
        {**INNER, "states": {**INNER["states"], "end": FAILED}},
        on_fail="$current",
        retry={"max": 1, "backoff": 0},
        on_error="done",
    ),
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_run_is_the_same_there(place, loop):
    ran(Path(place.here), loop)
    name = moved(place, loop["name"])
    assert_same_run(files_of(place.here, name), files_of(place.there, name))


def test_a_killed_run_is_the_same_there(place):
    crashed(Path(place.here))
    moved(place, "crashed")
    here, there = (RunFiles(root, "crashed") for root in (place.here, place.there))
    assert_same_run(here, there)
    assert Runs(place.there).view("crashed").is_crashed  # type: ignore[union-attr]


def test_the_same_run_gives_the_same_bytes(place):
    ran(Path(place.here), LOOPS["long output on both streams"])
    moved(place, "long")
    first = place.file.read_bytes()
    exported(place.here, "long", place.file, place.env(place.here))
    assert place.file.read_bytes() == first
    exported(place.there, "long", place.file, place.env(place.there))
    assert place.file.read_bytes() == first


# ── runs of earlier versions ───────────────────────────────────────────────────────────────────


def recorded(story: Path, root: str) -> None:
    shutil.rmtree(os.path.join(root, ".loops"))
    lay_out(story, root)


@pytest.mark.parametrize("story", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_recorded_run_is_the_same_there(place, story):
    recorded(story, place.here)
    before = read_stored(RunFiles(place.here, NAME))
    assert before is not None
    moved(place, NAME)
    there = files_of(place.there, NAME)
    after = read_stored(there)
    assert after is not None
    assert (after.run, after.loop) == (before.run, before.loop)
    assert content(there)["log"] == content(RunFiles(place.here, NAME))["log"]
    assert (there.stem is None) == (before.run.status in UNFINISHED)


@pytest.mark.parametrize("story", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_recorded_run_is_resumed_there(place, story):
    """With the same results, it ends as it would have ended where it was recorded."""
    recorded(story, place.here)
    moved(place, NAME)
    kept = json.loads((story / "story.json").read_text())
    there = place.there
    ends = in_child(lambda: told(there, play(there, kept["then"], limits=kept["limits"])))
    assert ends == kept["ends"]


@pytest.mark.parametrize("name", sorted(collection()))
def test_a_recording_is_the_same_there(place, name):
    """At least sixty runs, with resumes, retries, handoffs, waits, timeouts and tampering."""
    given = collection()[name]
    records = [to_record(entry) for entry in given.entries]
    loop, run = given.definitions[-1].loop, given.entries[0].run or "20261117T000000-00000000"
    records = [{**record, "run": run} for record in records]
    start = {"run": run, "loop": loop.to_dict(), "context": dict(given.context)}
    writer = create(place.here, "told", start)
    try:
        writer.append(records)
        state = replayed(None, map(from_record, records), given.context)
        writer.save(state)
    finally:
        writer.close()
    moved(place, "told")
    here, there = files_of(place.here, "told"), files_of(place.there, "told")
    assert content(there)["log"] == content(here)["log"]
    after = read_stored(there)
    assert after is not None
    assert (after.run, after.loop) == (state, loop)
    views = [Runs(root).view("told") for root in (place.here, place.there)]
    first, second = (read_recording(view)._replace(data=None) for view in views if view)
    assert first == second


def test_there_are_enough_recordings():
    assert len(collection()) + len(RECORDED) + len(LOOPS) >= 60


# ── runs with snapshots ────────────────────────────────────────────────────────────────────────

VIEWS = (["history", "fix"], ["steps", "fix"], ["logs", "fix"], ["diff", "fix"], ["status", "fix"])


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> KeptProject:
    return KeptProject(tmp_path_factory.mktemp("kept")).fixed()


@pytest.fixture(scope="module")
def run_file(kept: KeptProject) -> Path:
    path = kept.root.parent / "fix.llrun"
    done = kept.ll("export", "fix", "-o", str(path), env={"A_TOKEN": "hunter2-hunter2"})
    assert done.returncode == 0, done.stderr
    return path


def ageless(text: str) -> str:
    return re.sub(r"\d+s ago", "a moment ago", text)


def test_what_a_user_sees_of_an_imported_run(kept, run_file, tmp_path):
    """Every page is the same, also in a project that is not a git repository."""
    there = Project(tmp_path)
    done = there.ll("import", str(run_file))
    assert done.returncode == 0, done.stderr
    for words in VIEWS:
        assert ageless(there.ll(*words).stdout) == ageless(kept.ll(*words).stdout), words
    trees = [json.loads(each.ll("steps", "fix", "--json").stdout) for each in (kept, there)]
    assert trees[0] == trees[1]
    assert [step["tree"] for step in trees[0]["steps"]][:3] != [None, None, None]


def test_a_receipt_of_an_imported_run(kept, run_file, tmp_path):
    """The receipt that was written there verifies here, and the other way round."""
    there = KeptProject(tmp_path)
    assert there.ll("import", str(run_file)).returncode == 0
    receipt = kept.receipt("moved.json")
    for path in ("code.py", "tests/t.sh", ".loops/fix.yaml"):
        shutil.copy(kept.root / path, there.root / path)
    told = [each.ll("verify", str(receipt)).stdout for each in (kept, there)]
    assert told[0] == told[1]
    assert "✓ the log of `fix` matches" in told[0]
    assert told[0].endswith("verified\n")
    own = tmp_path / "own.json"
    assert there.ll("receipt", "fix", "-o", str(own)).returncode == 0
    assert json.loads(own.read_text())["predicate"]["run"]["imported"] is True
    assert kept.ll("verify", str(own)).stdout.splitlines()[:4] == [
        "✓ the receipt is intact",
        "– the run was imported from a run file, so the receipt only repeats what that file says",
        "– unsigned",
        "✓ the log of `fix` matches",
    ]


def test_a_bundle_is_one_that_git_can_read(run_file, tmp_path):
    entries = entries_of(run_file)
    project = Project(tmp_path)
    (tmp_path / "trees.bundle").write_bytes(entries["trees.bundle"])
    project.git("init", "-q")
    project.git("fetch", "-q", str(tmp_path / "trees.bundle"), "refs/trees/*:refs/trees/*")
    ids = json.loads(entries["manifest.json"])["trees"]["ids"]
    assert sorted(project.git("for-each-ref", "--format=%(objectname)").split()) == sorted(ids)
    with_code = [id for id in ids if "code.py" in project.git("ls-tree", "--name-only", id)]
    assert [project.git("show", f"{id}:code.py") for id in with_code] == ["x = 0", "x = 1", "x = 1"]


def test_a_run_with_snapshots_continues_there(tmp_path):
    """An interrupted run with evidence goes on in a clone; a protected file that differs there is
    named, as after an edit during a pause."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here = KeptProject(tmp_path / "here")
    (tmp_path / "here" / "agent").write_text("#!/bin/sh\necho working\n")
    done = here.ll("run", "fix", "--max-iterations", "1")
    assert done.returncode == 3, done.stdout + done.stderr
    file = tmp_path / "fix.llrun"
    assert here.ll("export", "fix", "-o", str(file)).returncode == 0
    there = KeptProject(tmp_path / "there")
    there.loop("fix", (here.root / ".loops/fix.yaml").read_text().replace("/here/", "/there/"))
    (there.root / "tests/t.sh").write_text("echo other; grep -q 'x = 1' code.py\n")
    done = there.ll("import", str(file))
    assert done.returncode == 0, done.stderr
    done = there.ll("resume", "fix", "--max-iterations", "9", "--definition", "current")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[1].strip() == (
        "! .loops/fix.yaml, tests/t.sh changed while the run was paused: accepted as the new baseline"
    )
    assert (there.root / "code.py").read_text() == "x = 1\n"


def test_a_fork_is_moved_without_its_worktree(tmp_path):
    """Where it worked is a place on this machine; there it continues in the project."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here = KeptProject(tmp_path / "here").fixed()
    done = here.ll("fork", "fix", "--at", "2", env={"A_TOKEN": "hunter2-hunter2"})
    assert done.returncode == 0, done.stderr
    runs = Runs(str(here.root))
    names = [*runs.past_names(), *(view.name for view in runs.list())]
    (name,) = (each for each in names if each != "fix")
    file = tmp_path / "fork.llrun"
    done = here.ll("export", name, "-o", str(file))
    assert done.returncode == 0, done.stderr
    entries = entries_of(file)
    assert "worktree" not in json.loads(entries["run.json"])
    assert str(tmp_path).encode() not in entries["evidence.json"]
    there = KeptProject(tmp_path / "there")
    done = there.ll("import", str(file))
    assert done.returncode == 0, done.stderr
    shown = [ageless(each.ll("steps", name).stdout) for each in (here, there)]
    assert shown[0] == shown[1]
    assert there.ll("logs", name).stdout == here.ll("logs", name).stdout


def test_a_fork_of_an_imported_run_knows_what_it_lacks(run_file, tmp_path):
    """Otherwise an action could get the mask instead of the value."""
    there = KeptProject(tmp_path)
    assert there.ll("import", str(run_file)).returncode == 0
    done = there.ll("fork", "fix", "--at", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = Runs(str(there.root))
    (name,) = {*runs.past_names(), *(view.name for view in runs.list())} - {"fix"}
    assert read_imported(files_of(str(there.root), name)) == read_imported(
        files_of(str(there.root), "fix")
    )
    assert read_imported(files_of(str(there.root), name)) is not None
