"""A disk without room, one that may not be written to, and the files of somebody else.

A plain message, exit 1, before the first action where it can be known; what was recorded stays, and
a resume completes the run when the trouble is over.  The full disk is a real one: a small tmpfs in
a mount namespace of its own.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from little_loops.runs.history import past_files
from tests.project import SOURCE, Project, chain, numbers

WAY_OUT = "   = help: free some space on that disk\n"


def can_mount(place: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    argv = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(place)]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def on_a_small_disk(project: Project, size: str, script: str) -> subprocess.CompletedProcess[str]:
    """Do what a script says on a disk of that size, which is gone afterwards."""
    if not can_mount(project.root):
        pytest.skip("no mount namespaces here")
    copy = project.home / "loops"
    shutil.copytree(project.root / ".loops", copy)
    inside = f"""\
        set -u
        mount -t tmpfs -o size={size},mode=755 none {project.root}
        cp -r {copy} {project.root}/.loops
        cd {project.root}
        ll() {{ {sys.executable} -m little_loops "$@"; }}
        {script}
        """
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", inside],
        env={**project.environ(), "PYTHONPATH": SOURCE},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


FILL = "dd if=/dev/zero of=ballast bs=4k 2>/dev/null; sync; "
LINES = 'echo "--- $?"'


def test_a_disk_that_is_full_before_the_run(project: Project):
    project.loop("chain", chain(3))
    done = on_a_small_disk(project, "128k", f"{FILL} ll run chain; {LINES}; cat trace")
    said = done.stderr.replace(str(project.root), "ROOT")
    assert done.stdout == "--- 1\n"
    assert said.startswith("error: cannot ")
    assert ": no space left on device\n" + WAY_OUT in said
    assert "cat: trace: No such file or directory" in said


def test_a_disk_that_runs_full_during_the_run(project: Project):
    """The second action fills it; when there is room again, the run goes on from there."""
    fill = "dd if=/dev/zero of=ballast bs=4k 2>/dev/null; sync; true"
    action = "echo {n} >> trace; test {n} = 2 && test ! -e room && { " + fill + "; }; true"
    project.loop("chain", chain(3, action.replace("{ ", "{{ ").replace("; }", "; }}")))
    script = f"""
        ll run chain; {LINES}
        ll status chain --json > /dev/null; {LINES}
        rm ballast; touch room
        ll resume chain; {LINES}
        cat trace
        """
    done = on_a_small_disk(project, "256k", script)
    said = done.stderr.replace(str(project.root), "ROOT")
    first, looked, after = (part.strip() for part in done.stdout.split("---")[1:])
    assert first.splitlines()[0] == "1"
    assert looked.splitlines()[0] == "0"
    assert after.splitlines()[0] == "0"
    assert "error: cannot write `ROOT/.loops/.running/chain." in said
    assert ": no space left on device\n" + WAY_OUT in said
    assert "Traceback" not in said
    ran = numbers("\n".join(after.splitlines()[1:]))
    assert ran in ([1, 2, 2, 3], [1, 2, 3])


def test_output_that_does_not_fit(project: Project):
    """What an action prints goes to a file of the run; there is no room for it."""
    project.loop(
        "chain",
        """\
        name: chain
        initial: a
        states:
          a: {action: "test -e room || seq 100000", next: done}
          done: {terminal: true}
        """,
    )
    script = f"""
        dd if=/dev/zero of=ballast bs=4k count=16 2>/dev/null
        ll run chain > /dev/null; {LINES}
        rm ballast; touch room
        ll resume chain > /dev/null; {LINES}
        """
    done = on_a_small_disk(project, "256k", script)
    said = done.stderr.replace(str(project.root), "ROOT")
    assert "error: cannot write `ROOT/.loops/.running/chain.d`: no space left on device\n" in said
    assert done.stdout == "--- 1\n--- 0\n"


def test_a_disk_that_is_read_only(project: Project):
    project.loop("chain", chain(2))
    script = f"""
        mount -o remount,ro none {project.root}
        ll run chain; {LINES}
        ll list > /dev/null; {LINES}
        ll status > /dev/null; {LINES}
        mount -o remount,rw none {project.root}
        ll run chain > /dev/null; {LINES}
        """
    done = on_a_small_disk(project, "1m", script)
    assert done.stdout == "--- 1\n--- 0\n--- 0\n--- 0\n"
    assert done.stderr.replace(str(project.root), "ROOT") == (
        "error: cannot write `ROOT/.loops/.gitignore`: read-only file system\n"
        "   = help: remount that disk writable, or use another one\n"
    )


# ── modes and owners ───────────────────────────────────────────────────────────────────────────

NOT_OURS = 12345
"""A user who is not there."""


def like_anybody() -> None:
    """Root is stopped by no mode; without its capabilities it is, also after an exec."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        set_securebits, no_root = 28, 0b11
        assert libc.prctl(set_securebits, no_root, 0, 0, 0) == 0
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        assert libc.capset(header, (ctypes.c_uint32 * 6)()) == 0


def ll(project: Project, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        project.argv(*words),
        cwd=project.root,
        env=project.environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=like_anybody,
        check=False,
    )


@contextmanager
def mode(path: Path, bits: int) -> Iterator[None]:
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)


pytest_linux = pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux")


@pytest_linux
def test_a_directory_of_loops_that_may_not_be_written_to(project: Project):
    project.loop("chain", chain(2))
    with mode(project.root / ".loops", 0o500):
        said = ll(project, "run", "chain")
        listed = ll(project, "list")
    assert said.returncode == 1
    assert said.stderr.replace(str(project.root), "ROOT") == (
        "error: cannot write `ROOT/.loops/.gitignore`: permission denied\n"
        "   = help: check its owner and permissions\n"
    )
    assert (project.file("trace"), listed.returncode) == ("", 0)
    assert ll(project, "run", "chain").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("suffix", [".state.json", ".events.jsonl", ".d/run.json"])
def test_a_run_of_another_user(project: Project, suffix: str):
    project.loop("chain", chain(2, "test -e ok || exit 9"))
    project.loop("other", chain(1).replace("name: chain", "name: other"))
    assert project.ll("run", "chain").returncode == 1
    assert project.ll("run", "other").returncode == 0
    theirs = Path(past_files(str(project.root), "chain")[0].path(suffix))
    theirs.chmod(0o600)
    os.chown(theirs, NOT_OURS, NOT_OURS)
    before = theirs.read_bytes()
    (project.root / "ok").touch()
    said = ll(project, "resume", "chain")
    assert said.returncode == 1, said
    assert "permission denied" in said.stderr
    assert "Traceback" not in said.stderr
    assert theirs.read_bytes() == before
    for words in (("list",), ("status",), ("status", "other"), ("history",)):
        looked = ll(project, *words)
        assert (looked.returncode, looked.stderr) == (0, ""), words


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_the_directory_of_runs_belongs_to_another_user(project: Project):
    project.loop("chain", chain(2))
    running = project.root / ".loops" / ".running"
    running.mkdir(mode=0o700)
    os.chown(running, NOT_OURS, NOT_OURS)
    said = ll(project, "run", "chain")
    os.chown(running, 0, 0)
    assert said.returncode == 1
    assert said.stderr.replace(str(project.root), "ROOT") == (
        "error: cannot open `ROOT/.loops/.running`: permission denied\n"
        "   = help: check its owner and permissions\n"
    )
    assert project.file("trace") == ""


# ── where the command itself writes to ─────────────────────────────────────────────────────────


def printing_to(project: Project, place: str, *words: str) -> subprocess.CompletedProcess[str]:
    with open(place, "w") as stdout:
        return subprocess.run(
            project.argv(*words),
            cwd=project.root,
            env=project.environ(),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )


needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")


@needs_full
def test_a_run_that_nobody_can_read_is_none_the_worse_for_it(project: Project):
    project.loop("chain", chain(2))
    printing_to(project, "/dev/full", "run", "chain")
    assert numbers(project.file("trace")) == [1, 2]
    assert project.state("chain")["status"] == "completed"


@needs_full
@pytest.mark.parametrize("words", [("run", "chain"), ("status",), ("list",)], ids=" ".join)
def test_an_output_that_cannot_be_written_is_no_bug_of_ours(project: Project, words):
    project.loop("chain", chain(2))
    done = printing_to(project, "/dev/full", *words)
    assert done.returncode in (0, 1)
    assert "bug" not in done.stderr
