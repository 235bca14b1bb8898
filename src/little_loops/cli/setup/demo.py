"""`ll-loop demo`: watch a loop fix a small project, pause, and continue.

It is a real run in a temporary project; only the agent is a stand-in. The project's files are in
`demo_project` as text files, so that no tool treats them as our code. Everything is removed at the
end, also after Ctrl-C.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from textwrap import fill
from types import FrameType

from little_loops.cli.options import Args, flag
from little_loops.errors import FAILED, OK, PAUSED, SIGNALLED
from little_loops.system.plain_files import read_plain
from little_loops.terminal.console import columns_of, is_terminal, say, talk

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "demo_project")
LOOP = "fix-leap"
END_S = 5.0
GIT_S = 30.0
WIDEST = 80

FIRST = """\
leap.py determines whether a year is a leap year, and its tests fail. This loop
runs the tests; while they fail, it asks an agent to fix the code (in this demo,
a script plays the agent):
"""
SECOND = """\
Two attempts were wrong, and the loop noticed, because it ran the tests itself.
Then the agent ran out of context, so the run paused. Its state is on disk, as it
would be after Ctrl-C, a crash or a power cut. So we can continue it:
"""
LAST = """\
The tests pass now. The loop checked that itself and did not rely on what the
agent said. To try it in your own project, go to its directory and type:
"""
NOT_SHOWN = ("host:", "evidence:")
"""Lines of the loop that are only needed for the demo."""
READING_S = 3.0
WATCHED_STEP_S, UNWATCHED_STEP_S = 0.25, 0.02
"""How long the stand-in takes for each thing it does."""


class DemoArgs(
    Args,
    verb="demo",
    summary="Watch a loop fix a small project, pause and continue.\n"
    "Needs no agent and no network, and leaves nothing behind.",
    examples=[("ll-loop demo", "takes about a minute")],
):
    no_wait: bool = flag("do not pause between the steps")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop demo` in a temporary directory, and remove it. Return the exit code."""
    args = DemoArgs.read(argv)
    before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    place = tempfile.mkdtemp(prefix="ll-loop-demo-")
    try:
        return _play(place, wait=not args.no_wait)
    except KeyboardInterrupt:
        talk("the demo was interrupted; its files were removed")
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """Exit on a signal, so that the files are removed, as on Ctrl-C."""
    raise SystemExit(SIGNALLED + number)


def _play(place: str, *, wait: bool) -> int:
    """Run the demo: show the loop, run it, resume it. Return the exit code."""
    project = _build(place, WATCHED_STEP_S if is_terminal(sys.stdout) else UNWATCHED_STEP_S)
    _print_paragraph(FIRST)
    lines = read_plain(os.path.join(project, ".loops", f"{LOOP}.yaml")).decode().splitlines(True)
    shown = [line for line in lines if not line.strip().startswith(NOT_SHOWN)]
    say("".join(f"    {line}" for line in shown))
    for verb, code, sentence in (("run", PAUSED, SECOND), ("resume", OK, LAST)):
        if wait:
            _let_read()
        say(f"$ ll-loop {verb} {LOOP}")
        ended = _ll_loop(project, verb, LOOP)
        if ended != code:
            talk(f"error: the demo expected exit {code} of `ll-loop {verb}`, not {ended}")
            return ended or FAILED
        say("")
        _print_paragraph(sentence)
    say(f"    {own_command()} init")
    return OK


def _let_read() -> None:
    """Wait for Enter; without a terminal, for three seconds."""
    if not (sys.stdin.isatty() and is_terminal(sys.stdout)):
        time.sleep(READING_S)
        return
    sys.stdout.write("(press Enter to continue) ")
    sys.stdout.flush()
    sys.stdin.readline()
    say("")


def own_command() -> str:
    """Return how to call this program: `ll-loop`, or its path if another one is found first."""
    own = os.path.join(os.path.dirname(sys.executable), "ll-loop")
    found = shutil.which("ll-loop")
    if found is not None and os.path.realpath(found) == os.path.realpath(own):
        return "ll-loop"
    return (
        shlex.quote(own)
        if os.path.exists(own)
        else f"{shlex.quote(sys.executable)} -m little_loops"
    )


def _print_paragraph(text: str) -> None:
    """Print a paragraph and an empty line."""
    say(fill(text, min(columns_of(sys.stdout) or WIDEST, WIDEST)) + "\n")


def _build(place: str, step_s: float) -> str:
    """Create the project, its loop and the agent. Return the project's path."""
    project = os.path.join(place, "project")
    os.makedirs(os.path.join(project, ".loops"))
    agent = os.path.join(place, "agent.py")
    notes = os.path.join(place, "notes")
    command = [sys.executable, agent, notes, str(step_s), "{prompt}"]
    values = {
        "python": shlex.quote(os.path.basename(sys.executable)),
        "host": json.dumps({"name": "command", "command": command}),
        "proof": "",
    }
    if not _make_repository(project):
        values["proof"] = "evidence: false"
    for name, target in (
        ("leap.py", project),
        ("test_leap.py", project),
        (f"{LOOP}.yaml", os.path.join(project, ".loops")),
        ("agent.py", place),
    ):
        text = read_plain(os.path.join(SOURCES, f"{name}.txt")).decode()
        for placeholder, value in values.items():
            text = text.replace(f"@{placeholder}@", value)
        with open(os.path.join(target, name), "x", encoding="utf-8") as stream:
            stream.write(text)
    return project


def _make_repository(project: str) -> bool:
    """Run `git init`, so that the run can record evidence; return False if that fails."""
    try:
        done = subprocess.run(
            ["git", "init", "-q", project], capture_output=True, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _ll_loop(project: str, *words: str) -> int:
    """Run the real command in the project. Return its exit code."""
    child = subprocess.Popen(
        # -P: a module in the project directory must not be imported instead of ours.
        [sys.executable, "-P", "-m", "little_loops", *words],
        cwd=project,
        env=_environ(project),
        stdin=subprocess.DEVNULL,
    )
    try:
        return child.wait()
    except BaseException:
        _end_child(child)
        raise


def _end_child(child: subprocess.Popen[bytes]) -> None:
    """Wait for the child, and signal it if needed: unlike Ctrl-C, a signal reaches only us."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            child.wait(END_S if number == signal.SIGKILL else 0.5)
            return
        except subprocess.TimeoutExpired:
            child.send_signal(number)
    child.wait()


def _environ(project: str) -> dict[str, str]:
    """Return our environment without settings, runs and CI jobs that would affect the demo."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LL_", "GITHUB_")) or name == "LL_ASCII"
    }
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{kept.get('PATH', os.defpath)}"
    # Python's bytecode cache could not tell apart two attempts within one second.
    own = {
        "XDG_CONFIG_HOME": project,
        "XDG_STATE_HOME": os.path.join(os.path.dirname(project), "state"),
    }
    return {**kept, **own, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
