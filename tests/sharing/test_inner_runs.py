"""Run files of a run that has started others: they are in it, checked like the run itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.runs import ran
from tests.engine.test_worktrees import BOTH, FITS, MANY, Repository
from tests.project import Project
from tests.sharing.files import Entries, changed, entries_of, start_with, with_manifest, write
from tests.sharing.test_hostile_files import refusal
from tests.sharing.test_hostile_files import there as there  # a fixture
from tests.sharing.test_round_trip import GATE, INNER, outer
from tests.sharing.test_secrets import AGENT, COUNT, ENVIRONMENT, GONE, LOOP, canary, unpacked

KID = "runs/00002-1-kid/"
NESTED = KID + "runs/00002-1-kid/"


# ── continuing it elsewhere ────────────────────────────────────────────────────────────────────

ASKING = """\
    initial: first
    states:
      first: {action: "echo first", next: kid}
      kid:
        loop:
          initial: work
          context: {word: none}
          states:
            work: {action: "echo $LOGIN_TOKEN ${context.word}", next: gate}
            gate: {terminal: true, outcome: review, next: use}
            use: {action: "echo USED", next: end}
            end: {terminal: true}
        with: {word: "${captured.first.output:q}"}
        on_pass: last
        on_fail: bad
      last: {action: "echo ${captured.kid.output} > last.txt", next: done}
      done: {terminal: true}
      bad: {terminal: true, outcome: failure}
"""


def moved(tmp_path: Path, used: str, env: dict[str, str]) -> Project:
    """A run whose inner run waits at a gate, imported into another project."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here, there = (Project(tmp_path / name) for name in ("here", "there"))
    for project in (here, there):
        project.loop("outer", ASKING.replace("USED", used))
    done = here.ll("run", "outer", env=env)
    assert done.returncode == 4, done.stdout + done.stderr
    file = str(tmp_path / "run.llrun")
    assert here.ll("export", "outer", "-o", file, env=env).returncode == 0
    done = there.ll("import", file)
    assert done.returncode == 0, done.stderr
    return there


def test_it_continues_elsewhere_with_its_inner_run(tmp_path):
    there = moved(tmp_path, "used", {})
    done = there.ll("approve", "outer/kid")
    assert done.returncode == 0, done.stdout + done.stderr
    assert there.file("last.txt") == "used\n"
    for name in ("outer", "outer/kid"):
        assert there.ll("replay", name).returncode == 0


def test_an_inner_run_that_needs_a_masked_value_is_not_continued(tmp_path):
    there = moved(tmp_path, "${captured.work.output}", {"LOGIN_TOKEN": canary(1)})
    done = there.ll("approve", "outer/kid")
    words = "`action`: `${captured.work.output}` was masked when the run was exported"
    assert words in done.stdout + done.stderr
    assert not (there.root / "last.txt").exists()


def test_an_inner_run_that_stopped_where_it_needs_a_masked_value(tmp_path):
    text = ASKING.replace("gate: {terminal: true, outcome: review, next: use}", "").replace(
        "next: gate", "next: use"
    )
    use = "echo 'CONTEXT_HANDOFF: x'; echo ${captured.work.output}"
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here, there = (Project(tmp_path / name) for name in ("here", "there"))
    for project in (here, there):
        project.loop("outer", text.replace("echo USED", use))
    env = {"LOGIN_TOKEN": canary(1)}
    assert here.ll("run", "outer", env=env).returncode == 4
    assert here.ll("export", "outer", "-o", str(tmp_path / "r"), env=env).returncode == 0
    assert there.ll("import", str(tmp_path / "r")).returncode == 0
    done = there.ll("resume", "outer", "--definition", "original")
    assert (done.returncode, done.stderr) == (
        2,
        (
            "error: `outer/kid` cannot be resumed in state `use`: it needs values that were masked"
            " when the run was exported: `${captured.work.output}`\n"
            "   = help: `ll-loop run outer --fresh` starts again\n"
        ),
    )


def test_a_run_that_made_a_branch_fit_is_imported(tmp_path):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    here, there = Repository(tmp_path / "here"), Project(tmp_path / "there")
    tree = "{resolve: {action: " + json.dumps(FITS) + "}}"
    done = here.run(MANY.format(items="[one, two]", action=BOTH, worktree=tree))
    assert done.returncode == 0, done.stdout + done.stderr
    file = str(tmp_path / "run.llrun")
    assert here.ll("export", "w", "-o", file).returncode == 0
    done = there.ll("import", file)
    assert done.returncode == 0, done.stderr
    assert there.ll("status", "w/two.resolve-1").stdout.startswith("w/all/two.resolve-1  ✓")


# ── secrets ────────────────────────────────────────────────────────────────────────────────────


def test_no_canary_of_an_inner_run_is_in_the_file(tmp_path):
    project = Project(tmp_path)
    agent = project.root / "agent"
    agent.write_text(AGENT)
    agent.chmod(0o755)
    project.loop("canaries", LOOP)
    project.loop(
        "outer",
        f"""\
        initial: kid
        states:
          kid: {{loop: canaries, with: {{api_key: {canary(21)}, greeting: {canary(50)}}}, next: end}}
          end: {{terminal: true, action: "echo ${{captured.kid.output}}"}}
        """,
    )
    project.git("init", "-q")
    done = project.ll("run", "outer", env={**ENVIRONMENT, **GONE})
    assert done.returncode == 0, done.stdout + done.stderr
    file = tmp_path / "outer.llrun"
    done = project.ll("export", "outer", "-o", str(file), env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    (tmp_path / "unpacked").mkdir()
    whole = unpacked(file, tmp_path / "unpacked")
    assert "runs/00001-1-kid/files/notes.txt" in whole
    for number in range(1, COUNT + 1):
        word = f"canary{number:02}".encode()
        assert [name for name, data in whole.items() if word in data] == [], number
    assert str(tmp_path).encode() not in b"".join(
        data for name, data in whole.items() if name.endswith("evidence.json")
    )


# ── hostile files ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("plain")
    project = Project(top)
    ran(project.root, outer(outer({**INNER, "states": {**INNER["states"], "end": GATE}})))
    done = project.ll("export", "outer", "-o", str(top / "outer.llrun"))
    assert done.returncode == 0, done.stderr
    return top / "outer.llrun"


def moved_to(place: str) -> Callable[[Entries], Entries]:
    """The entries and the record of the inner run elsewhere."""

    def make(entries: Entries) -> Entries:
        inner = json.loads(entries["manifest.json"])["inner"]
        new = {name.replace(NESTED, place): data for name, data in entries.items()}
        return with_manifest(new, inner={key.replace(NESTED, place): inner[key] for key in inner})

    return make


def renamed(name: str) -> Callable[[Entries], Entries]:
    def make(entries: Entries) -> Entries:
        inner = json.loads(entries["manifest.json"])["inner"]
        first = json.loads(entries["manifest.json"])["run"]
        inner[KID]["run"] = first if name == "same" else name
        return with_manifest(entries, inner=inner)

    return make


HOSTILE: dict[str, tuple[Callable[[Entries], Entries], str]] = {
    "a run that nobody started": (
        moved_to(KID + "runs/00009-1-kid/"),
        f"no run in this file could have started `{KID}runs/00009-1-kid/`",
    ),
    "a place that leads out": (
        moved_to(KID + "runs/../"),
        f"`{KID}runs/../run.json` is not the name of a file in a run file",
    ),
    "entries of no run": (
        lambda entries: with_manifest({**entries, "runs/00003-1-x/run.json": b"{}"}),
        "no run uses `runs/00003-1-x/run.json`",
    ),
    "a bundle of its own": (
        lambda entries: with_manifest({**entries, KID + "trees.bundle": b""}),
        f"`{KID}trees.bundle` is not the name of a file in a run file",
    ),
    "snapshots that belong to nothing": (
        lambda entries: with_manifest({**entries, KID + "evidence.json": b"{}"}),
        f"no snapshot uses `{KID}evidence.json`",
    ),
    "no log": (
        lambda entries: with_manifest(
            {name: data for name, data in entries.items() if name != KID + "events.jsonl"}
        ),
        f"`{KID}events.jsonl` is missing",
    ),
    "a removed event": (
        lambda entries: changed(
            entries,
            KID + "events.jsonl",
            lambda log: b"\n".join(log.split(b"\n")[:3] + log.split(b"\n")[4:]),
        ),
        f"{KID}: `events.jsonl` has a gap or repeat: event 5 follows event 3",
    ),
    "a run id that is a path": (renamed("../x"), "`manifest.json` has the run '../x'"),
    "a run twice": (renamed("same"), "`manifest.json` lists a run twice"),
    "another run": (
        renamed("other"),
        f"{KID}: `events.jsonl` is not the log of the run that is named in `manifest.json`",
    ),
    "data that is no text": (
        lambda entries: changed(entries, KID + "run.json", lambda raw: start_with(raw, data=[1])),
        f"{KID}: `run.json`: `data` cannot be [1]",
    ),
    "a parent that is no text": (
        lambda entries: changed(
            entries, KID + "run.json", lambda raw: start_with(raw, parent={"run": 1})
        ),
        f"{KID}: `run.json`: `parent` cannot be {{'run': 1}}",
    ),
    "a parent of the run itself": (
        lambda entries: changed(entries, "run.json", lambda raw: start_with(raw, parent={})),
        "`run.json`: `parent` cannot be {}",
    ),
    "a place on this machine": (
        lambda entries: changed(
            entries, KID + "run.json", lambda raw: start_with(raw, worktree={"path": "/"})
        ),
        f"{KID}: `run.json`: `worktree` cannot be {{'path': '/'}}",
    ),
}


@pytest.mark.parametrize(("make", "why"), HOSTILE.values(), ids=HOSTILE)
def test_an_inner_run_that_is_wrong_is_refused(plain, there, make, why):
    path = write(there.root.parent / "file.llrun", make(entries_of(plain)))
    assert refusal(path, there) == f"`FILE` is not a valid run file: {why}"


def test_what_is_in_the_file(plain):
    names = list(entries_of(plain))
    assert [name for name in names if name.startswith(KID) and not name.startswith(NESTED)] == [
        f"{KID}{name}" for name in ("run.json", "events.jsonl", "log.txt")
    ]
    assert f"{NESTED}events.jsonl" in names
