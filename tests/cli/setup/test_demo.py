"""`ll-loop demo`: the whole play, and that nothing of it is left, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from tests.project import DEADLINE_S, Project, until


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def environ(scratch: Path) -> dict[str, str]:
    return {"TMPDIR": str(scratch), "PATH": os.defpath}


PLAY = """\
$ ll-loop run fix-leap
[1/10] evaluate
[1/10] fix
[2/10] evaluate
[2/10] fix
[3/10] evaluate
[3/10] fix
Loop paused: context handoff in state 'fix'
$ ll-loop resume fix-leap
Resuming loop 'fix-leap' from state 'fix' (iteration 3)
Continuation context: 2400 fails, try every fourth century
[3/10] fix
[4/10] evaluate
Loop completed: done"""


def acts(out: str) -> str:
    """The lines that tell the story, without what varies."""
    begin = ("$ ", "[", "Loop ", "Resuming", "Continuation")
    lines = [line for line in out.splitlines() if line.startswith(begin)]
    return "\n".join(re.sub(r" → .*| \(\d iterations, .*", "", line) for line in lines)


def test_the_whole_play(project: Project, scratch: Path):
    done = project.ll("demo", "--no-wait", env=environ(scratch))
    assert (done.returncode, done.stderr) == (0, "next: ll-loop resume fix-leap\n")
    assert acts(done.stdout) == PLAY
    assert list(scratch.iterdir()) == []


def test_it_writes_nothing_where_it_is_run(project: Project, scratch: Path):
    project.ll("demo", "--no-wait", env=environ(scratch))
    assert (list(project.root.rglob("*")), list(project.home.rglob("*"))) == (
        [project.root / ".loops"],
        [],
    )


def test_settings_and_a_run_around_it_do_not_change_it(project: Project, scratch: Path):
    own = project.home / ".config" / "little-loops"
    own.mkdir(parents=True)
    (own / "config.yaml").write_text("on_handoff: terminate\n")
    environment = {
        "LL_ON_HANDOFF": "terminate",
        "LL_DEPTH": "16",
        "LL_CLAIM": "x",
        "LL_TIMEOUT": "1",
    }
    environment |= {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(project.home / "summary")}
    done = project.ll("demo", "--no-wait", env={**environ(scratch), **environment})
    assert (done.returncode, acts(done.stdout)) == (0, PLAY)
    assert not (project.home / "summary").exists()


def test_in_ascii(project: Project, scratch: Path):
    done = project.ll("demo", "--no-wait", env={**environ(scratch), "LL_ASCII": "1"})
    assert (done.returncode, done.stdout.isascii()) == (0, True)


def test_the_last_line_can_be_typed(project: Project, scratch: Path):
    """Whether or not `ll-loop` is on PATH, and is this one."""
    own = Path(sys.executable).with_name("ll-loop")
    other = project.home / "ll-loop"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    for path, command in (
        (os.defpath, str(own)),
        (str(project.home), str(own)),
        (str(own.parent), "ll-loop"),
    ):
        env = {**environ(scratch), "PATH": f"{path}{os.pathsep}{os.defpath}"}
        done = project.ll("demo", "--no-wait", env=env)
        assert done.stdout.splitlines()[-1] == f"    {command} init"


def test_a_reader_at_a_terminal_says_when_to_continue(project: Project, scratch: Path):
    child = pexpect.spawn(
        *(sys.executable, ["-m", "little_loops", "demo"]),
        cwd=str(project.root),
        env=project.environ(**environ(scratch), TERM="xterm"),
        dimensions=(40, 80),
        encoding="utf-8",
        timeout=DEADLINE_S,
        echo=False,
    )
    try:
        for command in ("run", "resume"):
            child.expect_exact("(press Enter to continue) ")
            assert f"$ ll-loop {command}" not in str(child.before)
            child.send("\n")
            child.expect_exact(f"$ ll-loop {command} fix-leap")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    assert child.exitstatus == 0


@pytest.mark.parametrize("how", ["ctrl-c", "SIGTERM", "SIGHUP"])
def test_nothing_is_left_when_it_is_cut_short(project: Project, scratch: Path, how: str):
    child = pexpect.spawn(
        sys.executable,
        ["-m", "little_loops", "demo", "--no-wait"],
        cwd=str(project.root),
        env=project.environ(**environ(scratch)),
        dimensions=(40, 80),
        encoding="utf-8",
        timeout=DEADLINE_S,
    )
    try:
        child.expect_exact("[1/10] fix")
        assert len(list(scratch.iterdir())) == 1
        if how == "ctrl-c":
            child.sendintr()
        else:
            child.kill(signal.Signals[how])
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    codes = {"ctrl-c": 130, "SIGTERM": 143, "SIGHUP": 129}
    assert (child.exitstatus, list(scratch.iterdir())) == (codes[how], [])
    until(lambda: not _left(scratch), "end of what the demo started")


def _left(scratch: Path) -> list[int]:
    """Processes that still work below a directory."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            if any(str(scratch) in word for word in process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_a_reader_that_goes_away_is_no_trouble(project: Project, scratch: Path):
    child = subprocess.Popen(
        project.argv("demo", "--no-wait"),
        cwd=project.root,
        env=project.environ(**environ(scratch)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    child.stdout.readline()
    child.stdout.close()
    child.wait(DEADLINE_S)
    assert list(scratch.iterdir()) == []


def test_make_demo_installs_no_development_tools(tmp_path: Path):
    root = Path(__file__).parents[3]
    fresh = f"DEMO_VENV={tmp_path}/demo"
    done = subprocess.run(
        [
            "make",
            "-n",
            "--no-print-directory",
            "demo",
            fresh,
            f"DEMO_STAMP={tmp_path}/demo/.installed",
        ],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "[dev]" not in done.stdout
    assert done.stdout.splitlines()[-1] == f"{tmp_path}/demo/bin/ll-loop demo"
