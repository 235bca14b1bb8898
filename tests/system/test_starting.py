"""A process of our own starts its actions in a quicker way; the action cannot tell which it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import little_loops

LIMIT_S = 30.0
ENVIRON = {**os.environ, "PYTHONPATH": str(Path(little_loops.__file__).parents[1])}
ON_LINUX = sys.platform == "linux"
HERE, ELSEWHERE = "here", "here/below"

# Runs one action as a runner does, then says how it went and which way it was started.
RUNNER = """
import json, os, sys
from little_loops.system import process
from little_loops.system import process_tree
given = json.loads(sys.argv[1])
exec(given.pop("first", ""))
process_tree.adopt_orphans()
out, err = bytearray(), bytearray()
stdin = given.pop("stdin", None)
try:
    ended = process.run(
        given.pop("argv"), env={**os.environ, **given.pop("env", {})}, cwd=given.pop("cwd"),
        stdin=stdin and stdin.encode(), stdout=out.extend, stderr=err.extend,
        deadline_s=None, stop=None, stop_plan=[],
    )
    said = [ended.exit_code, out.decode(), err.decode()]
except process.CannotStart as problem:
    said = [None, problem.reason, ""]
told = json.dumps([*said, "spawn" if "subprocess" not in sys.modules else "Popen"]).encode()
os.write(int(os.environ["TELL"]), told)
"""


class Told(NamedTuple):
    exit_code: int | None
    out: str
    err: str
    way: str


def told(directory: Path, where: str, **given: Any) -> Told:
    """What a runner in `here` says of an action that is to run in a place."""
    (directory / ELSEWHERE).mkdir(parents=True, exist_ok=True)
    cwd = str(directory / where) if "cwd" not in given else given.pop("cwd")
    close = given.pop("close", "")
    with (directory / "told").open("w+b") as file:
        asked = json.dumps({"cwd": cwd, **given})
        argv = [sys.executable, "-c", RUNNER, asked]
        subprocess.run(
            ["sh", "-c", f'exec "$@" 9</dev/null {close}', "sh", *argv],
            env={**ENVIRON, "TELL": str(file.fileno())},
            cwd=directory / HERE,
            pass_fds=[file.fileno()],
            timeout=LIMIT_S,
            check=True,
        )
        file.seek(0)
        return Told(*json.loads(file.read()))


both_ways = pytest.mark.parametrize(
    ("where", "way"),
    [
        pytest.param(HERE, "spawn" if ON_LINUX else "Popen", id="where we are"),
        pytest.param(ELSEWHERE, "Popen", id="elsewhere"),
    ],
)


@both_ways
def test_where_it_is_and_what_it_is_given(tmp_path, where, way):
    script = 'echo "$A $1 $0"; pwd -P; cat; echo no >&2; exit 3'
    argv = ["/bin/sh", "-c", script, "it", "two words"]
    place = (tmp_path / where).resolve()
    assert told(tmp_path, where, argv=argv, env={"A": "é"}) == Told(
        3, f"é two words it\n{place}\n", "no\n", way
    )
    assert told(tmp_path, where, argv=["/bin/cat"], stdin="given\n").out == "given\n"


@both_ways
def test_it_is_found_along_the_path_it_is_given(tmp_path, where, way):
    program = tmp_path / "bin" / "its-own"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o700)
    env = {"PATH": f"{program.parent}:/bin:/usr/bin"}
    assert told(tmp_path, where, argv=["its-own"], env=env) == Told(0, "found\n", "", way)


@both_ways
@pytest.mark.skipif(not ON_LINUX, reason="reads /proc")
def test_nothing_our_caller_left_open_is_inherited(tmp_path, where, way):
    """Neither the descriptor of the caller's, 9, nor the one the answer is told through."""
    assert told(tmp_path, where, argv=["ls", "/proc/self/fd"]).out.split() == ["0", "1", "2", "3"]


@both_ways
@pytest.mark.skipif(not ON_LINUX, reason="reads /proc")
def test_no_signal_is_ignored_and_the_session_is_its_own(tmp_path, where, way):
    script = "grep -E 'SigIgn|SigBlk' /proc/self/status; ps -o sid= -p $$ | grep -c $$"
    _, blocked, _, ignored, sessions = told(tmp_path, where, argv=["sh", "-c", script]).out.split()
    # From 32 on they are the C library's own.
    assert [int(blocked, 16) % (1 << 31), int(ignored, 16) % (1 << 31), sessions] == [0, 0, "1"]


@both_ways
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        pytest.param({"argv": ["/no/such"]}, "`/no/such` was not found", id="no program"),
        pytest.param({"argv": ["no-such"]}, "`no-such` was not found", id="not along PATH"),
        pytest.param({"argv": ["/etc/passwd"]}, "`/etc/passwd` is not executable: permission denied", id="no execute"),
        pytest.param(
            {"argv": ["sh"], "first": "given['argv'] = ['sh', '-c', '#' * 300_000]"},
            "the command and its environment are longer than the system allows",
            id="too long",
        ),
        pytest.param(
            {"argv": ["sh", "-c", "a\0b"]},
            "the command cannot be passed to a process: embedded null byte",
            id="NUL",
        ),
        pytest.param(
            {"argv": ["sh"], "env": {"A=B": "c"}},
            "the command cannot be passed to a process: illegal environment variable name",
            id="a name that is none",
        ),
    ],
)  # fmt: skip
def test_why_it_cannot_start_is_said(tmp_path, where, way, given, reason):
    assert told(tmp_path, where, **given)[:2] == (None, reason)


@pytest.mark.parametrize("close", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_stream_that_is_closed_for_us_is_there_for_it(tmp_path, close):
    script = "echo out; echo err >&2; cat"
    said = told(tmp_path, HERE, argv=["sh", "-c", script], stdin="in\n", close=close)
    assert said[:3] == (0, "out\nin\n", "err\n")


def test_a_place_that_was_put_where_ours_was_is_the_one(tmp_path):
    """We hold on to the old directory; the action belongs into the one of that name."""
    first = "os.rename('../here', '../gone'); os.mkdir('../here'); open('../here/new', 'w').close()"
    said = told(tmp_path, HERE, argv=["/bin/ls"], first=first)
    assert said == Told(0, "new\n", "", "Popen")


def test_an_interpreter_that_cannot_spawn_so_does_it_the_other_way(tmp_path):
    first = """
def refuse(*_, **__): raise NotImplementedError
os.posix_spawn = refuse
"""
    assert told(tmp_path, HERE, argv=["/bin/echo", "a"], first=first) == Told(0, "a\n", "", "Popen")
