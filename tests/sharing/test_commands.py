"""`ll-loop export` and `ll-loop import`: what they print, and what they refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from little_loops.runs.reading import Runs
from tests.cli.runs import QUICK, crashed, ran, under_way
from tests.project import Project
from tests.sharing.files import entries_of


@pytest.fixture
def here(tmp_path) -> Project:
    (tmp_path / "here").mkdir()
    return Project(tmp_path / "here")


@pytest.fixture
def there(tmp_path) -> Project:
    (tmp_path / "there").mkdir()
    return Project(tmp_path / "there")


def started(project: Project, name: str) -> str:
    view = Runs(str(project.root)).view(name)
    assert view is not None
    assert view.summary is not None
    return view.summary.started_at[:16].replace("T", " ")


def test_the_story_of_a_finished_run(here, there):
    ran(here.root, QUICK)
    done = here.ll("export", "quick")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "",
        "wrote quick.llrun: its definition, 7 events, 0 output files; no project files\n",
    )
    file = str(here.root / "quick.llrun")
    done = there.ll("import", file)
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "",
        f"imported `quick`: completed, started {started(here, 'quick')} UTC\n",
    )
    again = there.ll("import", file)
    assert (again.returncode, again.stderr) == (0, "`quick` is already here\n")
    other = there.ll("import", file, "--id", "alice")
    assert (other.returncode, other.stderr) == (2, "error: this run is already here, as `quick`\n")


def test_the_last_run_is_exported_by_default(here):
    ran(here.root, QUICK)
    assert here.ll("export", "-q").returncode == 0
    assert (here.root / "quick.llrun").exists()


def test_an_existing_file_is_kept_unless_it_is_named(here):
    ran(here.root, QUICK)
    (here.root / "quick.llrun").write_text("mine")
    done = here.ll("export", "quick")
    assert (done.returncode, done.stderr) == (
        2,
        "error: `quick.llrun` already exists\n   = help: use `-o FILE` to choose another name\n",
    )
    assert (here.root / "quick.llrun").read_text() == "mine"
    assert here.ll("export", "quick", "-o", "quick.llrun").returncode == 0


def test_what_is_not_a_file_is_not_replaced(here):
    ran(here.root, QUICK)
    os.mkfifo(here.root / "pipe")
    (here.root / "directory").mkdir()
    for name, why in (("pipe", "not a regular file"), ("directory", "Is a directory")):
        kind = (here.root / name).stat().st_mode
        done = here.ll("export", "quick", "-o", name)
        assert (done.returncode, done.stderr) == (1, f"error: cannot write `{name}`: {why}\n")
        assert (here.root / name).stat().st_mode == kind
    (here.root / "link").symlink_to("linked.llrun")
    assert here.ll("export", "quick", "-o", "link").returncode == 0
    assert (here.root / "link").is_symlink()
    assert "manifest.json" in entries_of(here.root / "linked.llrun")
    assert list(here.root.glob("*.tmp-*")) == []


def test_for_programs(here, there):
    ran(here.root, QUICK)
    told = json.loads(here.ll("export", "quick", "--json").stdout)
    manifest = json.loads(entries_of(here.root / "quick.llrun")["manifest.json"])
    size = (here.root / "quick.llrun").stat().st_size
    assert told == {
        "schema": 1,
        "written": "quick.llrun",
        "size": size,
        "warnings": [],
        "manifest": manifest,
    }
    done = there.ll("import", str(here.root / "quick.llrun"), "--json")
    assert json.loads(done.stdout) == {
        "schema": 1,
        "name": "quick",
        "run": manifest["run"],
        "status": "completed",
        "result": "imported",
        "unfinished": False,
    }


def test_a_killed_run_continues_there(here, there):
    crashed(here.root)
    assert here.ll("export", "crashed", "-o", "../run.llrun").returncode == 0
    done = there.ll("import", str(here.root.parent / "run.llrun"))
    assert done.stderr.splitlines()[-1] == "next: ll-loop resume crashed"
    (there.root / "go").touch()
    done = there.ll("resume", "crashed")
    assert done.returncode == 0, done.stdout + done.stderr
    again = there.ll("import", str(here.root.parent / "run.llrun"))
    assert (again.returncode, again.stderr) == (
        0,
        "`crashed` is already here, and has continued since it was exported\n",
    )


def test_an_older_state_of_the_same_run_is_not_replaced(here, there):
    crashed(here.root)
    file = str(here.root.parent / "run.llrun")
    assert here.ll("export", "crashed", "-o", file).returncode == 0
    assert there.ll("import", file).returncode == 0
    (here.root / "go").touch()
    assert here.ll("resume", "crashed").returncode == 0
    assert here.ll("export", "crashed", "-o", file).returncode == 0
    done = there.ll("import", file)
    assert done.returncode == 2
    assert done.stderr == (
        "error: `crashed` is an earlier state of the same run\n"
        "   = help: import it into another clone of the project\n"
    )


def test_a_run_of_that_name_is_never_replaced(here, there):
    for project in (here, there):
        ran(project.root, QUICK)
    before = (there.past("quick")).read_bytes()
    assert here.ll("export", "quick", "-o", "../run.llrun").returncode == 0
    file = str(here.root.parent / "run.llrun")
    done = there.ll("import", file)
    assert done.returncode == 2
    assert done.stderr == (
        "error: this project already has runs of `quick`\n"
        "   = help: `--id ID` imports it under the name `quick@ID`\n"
    )
    done = there.ll("import", file, "--id", "alice")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("imported `quick@alice`: completed")
    assert there.past("quick").read_bytes() == before
    assert there.past("quick@alice").read_bytes() == here.past("quick").read_bytes()
    bad = there.ll("import", file, "--id", "../x")
    assert bad.returncode == 2
    assert "is not a valid name for a loop or run" in bad.stderr


def test_a_run_that_is_alive_is_not_exported(here):
    with under_way(here.root):
        done = here.ll("export", "slow")
    assert done.returncode == 2
    assert done.stderr == (
        "error: `slow` is still running\n"
        "   = help: `ll-loop stop slow` pauses it; `ll-loop wait slow` waits for it to finish\n"
    )
    assert not (here.root / "slow.llrun").exists()


ASKS = """\
    name: asks
    host: {permission_mode: bypassPermissions}
    initial: wait
    states:
      wait: {action: "true", next: look}
      look: {terminal: true, outcome: review, next: work}
      work: {action: Work, action_type: prompt, next: done}
      done: {terminal: true}
    """


def test_consent_is_asked_for_again(here, there):
    """Whoever exported the run has agreed that its agents skip prompts; whoever imports it has not,
    not even if a run file says so."""
    for project in (here, there):
        project.loop("asks", ASKS)
        (project.home / "bin").mkdir()
        claude = project.home / "bin/claude"
        claude.write_text(f"#!/bin/sh\ntouch {project.root}/started\n")
        claude.chmod(0o755)
    env = {"PATH": f"{here.home}/bin:/usr/bin:/bin", "IS_SANDBOX": "1"}
    done = here.ll("run", "asks", "--allow-skip-permissions", env=env)
    assert done.returncode == 4, done.stdout + done.stderr
    assert here.ll("trust", "asks", env=env).returncode == 0
    assert here.ll("export", "asks", "-o", "../run.llrun").returncode == 0
    assert there.ll("import", str(here.root.parent / "run.llrun")).returncode == 0
    env = {"PATH": f"{there.home}/bin:/usr/bin:/bin", "IS_SANDBOX": "1"}
    for words in (("resume", "asks"), ("approve", "asks")):
        done = there.ll(*words, env=env)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert "ll-loop trust" in done.stderr
    assert not (there.root / "started").exists()
    there.ll("resume", "asks", "--allow-skip-permissions", env=env)
    assert (there.root / "started").exists()


def test_what_cannot_be_exported(here):
    done = here.ll("export")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "error: this project has no runs yet",
    )
    ran(here.root, QUICK)
    done = here.ll("export", "quick", "-o", "no/such/directory.llrun")
    assert (done.returncode, done.stderr) == (
        1,
        "error: cannot write `no/such/directory.llrun`: No such file or directory\n",
    )
    log: Path = here.past("quick")
    log.write_text("".join(log.read_text().splitlines(True)[1:]))
    done = here.ll("export", "quick")
    assert done.returncode == 1
    assert "`quick` cannot be exported: `events.jsonl` has a gap" in done.stderr
