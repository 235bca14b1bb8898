"""`ll-loop demo`: watch a loop fix a small project, pause, and continue.

A real run of the real engine in a temporary project; only the agent is a stand-in.  The project lies
in `demo_project` as texts, so that no tool takes it for code of ours.  Nothing of it is left behind,
also after Ctrl-C.
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
leap.py says which years are leap years, and its tests fail. This loop runs the
tests; while they fail, it asks an agent to fix the code (here a stand-in that
follows a script):
"""
SECOND = """\
Two attempts were wrong, and the loop noticed, because it ran the tests itself.
Then the agent ran out of context, so the run paused. Its state is on disk, as it
would be after Ctrl-C, a crash or a power cut. So we can continue it:
"""
LAST = """\
The tests pass now. The loop checked that itself and did not rely on what the
agent said. To try it in a project of your own, go to its directory and type:
"""
NOT_SHOWN = ("host:", "evidence:")
"""Lines of the loop that only make the demo work."""
READING_S = 3.0
WATCHED_STEP_S, UNWATCHED_STEP_S = 0.25, 0.02
"""How long the stand-in takes for each thing it does."""


class DemoArgs(
    Args,
    verb="demo",
    summary="Watch a loop fix a small project, pause and continue.\n"
    "Needs no agent and no network, and leaves nothing behind.",
    examples=[("ll-loop demo", "takes about a minute to read")],
):
    no_wait: bool = flag("do not pause between the steps")


def main(argv: Sequence[str]) -> int:
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
    """As with Ctrl-C: tidy up on the way out."""
    raise SystemExit(SIGNALLED + number)


def _play(place: str, *, wait: bool) -> int:
    project = _build(place, WATCHED_STEP_S if is_terminal(sys.stdout) else UNWATCHED_STEP_S)
    _tell(FIRST)
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
        _tell(sentence)
    say(f"    {own_command()} init")
    return OK


def _let_read() -> None:
    """Wait until the reader is ready; without a terminal nobody can press a key."""
    if not (sys.stdin.isatty() and is_terminal(sys.stdout)):
        time.sleep(READING_S)
        return
    sys.stdout.write("(press Enter to continue) ")
    sys.stdout.flush()
    sys.stdin.readline()
    say("")


def own_command() -> str:
    """How this program is called from anywhere: `ll-loop`, or its path if that is another one."""
    own = os.path.join(os.path.dirname(sys.executable), "ll-loop")
    found = shutil.which("ll-loop")
    if found is not None and os.path.realpath(found) == os.path.realpath(own):
        return "ll-loop"
    return (
        shlex.quote(own)
        if os.path.exists(own)
        else f"{shlex.quote(sys.executable)} -m little_loops"
    )


def _tell(text: str) -> None:
    """A paragraph, and an empty line."""
    say(fill(text, min(columns_of(sys.stdout) or WIDEST, WIDEST)) + "\n")


def _build(place: str, step_s: float) -> str:
    """The small project, its loop, and the agent beside it."""
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
    if not _is_repository(project):
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


def _is_repository(project: str) -> bool:
    """Make it one, so that the run can prove what it ran the tests on; without git it cannot."""
    try:
        done = subprocess.run(
            ["git", "init", "-q", project], capture_output=True, timeout=GIT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _ll_loop(project: str, *words: str) -> int:
    """The real command, as a user would type it."""
    child = subprocess.Popen(
        # -P: a module that lies in the project directory must not be taken for one of ours.
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
    """Ctrl-C in a terminal has reached it too; a signal for us alone has not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            child.wait(END_S if number == signal.SIGKILL else 0.5)
            return
        except subprocess.TimeoutExpired:
            child.send_signal(number)
    child.wait()


def _environ(project: str) -> dict[str, str]:
    """Ours, less what would make this run another: settings, a run or a job around it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LL_", "GITHUB_")) or name == "LL_ASCII"
    }
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{kept.get('PATH', os.defpath)}"
    # Two attempts within a second would else be one to Python's cache.
    own = {
        "XDG_CONFIG_HOME": project,
        "XDG_STATE_HOME": os.path.join(os.path.dirname(project), "state"),
    }
    return {**kept, **own, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
