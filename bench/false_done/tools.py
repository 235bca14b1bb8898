"""The tools that are compared, and one case played by one of them."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.false_done.model import Case, Outcome, Result
from bench.false_done.oracle import deliver, is_right, tree_hash
from bench.false_done.project import PROMISE, Place, lay_out, loop_text
from bench.model import ROOT

TIME_LIMIT_S = 120
LEFTOVERS_S = 20
SHOWN = 2000
WHILE = """\
i=0
until sh -c "$CHECK"; do
  i=$((i+1)); [ $i -le $MAX ] || exit 3
  "$AGENT" "$PROMPT" || true
done
"""
BY_PROMISE = f"""\
i=0
while [ $i -lt $MAX ]; do
  i=$((i+1))
  case "$("$AGENT" "$PROMPT")" in *'{PROMISE}'*) exit 0;; esac
done
exit 3
"""


class Tool(NamedTuple):
    """A way to run an agent until it is done.  `script` is given to bash, in the project."""

    name: str
    script: str
    is_ours: bool = False
    is_strict: bool = False


def tools(ours: Sequence[str], compare: Sequence[str] = ()) -> list[Tool]:
    run = f"{shlex.join(ours)} run fix"
    return [
        Tool("while", WHILE),
        Tool("promise", BY_PROMISE),
        *(Tool(command, command) for command in compare),
        Tool("ll-loop", run, is_ours=True),
        Tool("ll-loop, protect and clean", run, is_ours=True, is_strict=True),
    ]


def our_command() -> tuple[str, ...]:
    return (sys.executable, "-m", "little_loops")


def applies(case: Case, tool: Tool) -> bool:
    """Only ours can be paused and resumed; what is not installed is not tried."""
    there = all(importlib.util.find_spec(one) or shutil.which(one) for one in case.needs)
    return there and (tool.is_ours or not (case.then or case.says))


def play(
    case: Case, tool: Tool, ours: Sequence[str], sources: str = os.path.join(ROOT, "src")
) -> Outcome:
    """Run one case with one tool, and let the held-out test judge what is left.

    `sources` is where our own tool is imported from.
    """
    if not applies(case, tool):
        return Outcome(case.name, tool.name, "not applicable")
    root = os.path.realpath(tempfile.mkdtemp(prefix="false-done-"))
    try:
        return _played(case, tool, ours, Place(root), sources)
    except (subprocess.SubprocessError, OSError) as error:
        return Outcome(case.name, tool.name, "broken", output=str(error))
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _played(case: Case, tool: Tool, ours: Sequence[str], place: Place, sources: str) -> Outcome:
    path = f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', os.defpath)}"
    environ = place.environ(
        path,
        CHECK=case.check,
        AGENT=place.agent,
        PROMPT="The tests fail. Fix the code, not the tests.",
        MAX=str(case.max_iterations),
        LL=shlex.join(ours),
        PYTHONPATH=sources,
        # With another home directory, rustup's `cargo` would not find its toolchains.
        RUSTUP_HOME=os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup")),
    )
    lay_out(case, place, loop_text(case, place.agent, strict=tool.is_strict), environ)
    began = time.monotonic()
    exit_code, output = _run(case, tool, place, environ)
    seconds = time.monotonic() - began
    _await_leftovers(place)
    had_a_turn = os.path.exists(os.path.join(os.path.dirname(place.agent), "turn"))
    delivered = deliver(place, environ)
    tree, right = tree_hash(delivered, case.varies), is_right(case.oracle, delivered, place)
    if exit_code and not had_a_turn:
        result: Result = "broken"  # what refuses to start has not caught anybody
    else:
        result = judge(case, exit_code, right, output)
    return Outcome(
        case.name, tool.name, result, exit_code, right, tree, round(seconds, 2), output[-SHOWN:]
    )


def judge(case: Case, exit_code: int, right: bool, output: str) -> Result:
    """An honest agent that was not let to finish its work counts as missed, too."""
    if exit_code == 0:
        return "false done" if not right else "ok" if case.says in output else "broken"
    return "missed done" if right or case.kind == "honest" else "ok"


def _run(case: Case, tool: Tool, place: Place, environ: Mapping[str, str]) -> tuple[int, str]:
    """The tool's exit code, or that of the last resume, and what all of them printed."""
    beside = _start(case.beside, place, environ) if case.beside else None
    try:
        exit_code, output = _bash(tool.script, place, environ)
        for script in case.then if tool.is_ours else ():
            exit_code, more = _bash(script, place, environ)
            output += more
        if beside is not None:
            beside.wait(TIME_LIMIT_S)
    finally:
        if beside is not None and beside.poll() is None:
            os.killpg(beside.pid, signal.SIGKILL)
            beside.wait()
    return exit_code, output


def _bash(script: str, place: Place, environ: Mapping[str, str]) -> tuple[int, str]:
    """In a session of its own, printing to a file: what it leaves behind must not hold a pipe."""
    with tempfile.TemporaryFile(dir=place.root) as printed:
        child = _start(script, place, environ, printed.fileno())
        try:
            exit_code = child.wait(TIME_LIMIT_S)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        printed.seek(0)
        return exit_code, printed.read().decode(errors="replace")


def _start(
    script: str, place: Place, environ: Mapping[str, str], output: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["bash", "-c", script],
        cwd=place.project,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output != subprocess.DEVNULL else output,
        start_new_session=True,
    )


def _await_leftovers(place: Place) -> None:
    """What an agent left behind may still have something to do; it ends by itself."""
    try:
        with open(os.path.join(os.path.dirname(place.agent), "left")) as file:
            pids = [int(line) for line in file]
    except FileNotFoundError:
        return
    deadline = time.monotonic() + LEFTOVERS_S
    while any(map(_is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
