"""`ll-loop demo`: watch a loop repair a small project, pause, and go on.

A real run of the real engine in a temporary project; only the agent plays a part.  The project lies
in `demo_project`, as texts, because it is none of ours to check or to test.  Nothing of it is left
behind, also after Ctrl-C.
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

from little_loops.cli.options import Args
from little_loops.errors import FAILED, OK, PAUSED, SIGNALLED
from little_loops.records import NamedTuple
from little_loops.terminal.console import columns_of, is_terminal, say, talk

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "demo_project")
LOOP = "fix-leap"
END_S = 5.0
WIDEST = 80

FIRST = """\
leap.py says which years are leap years, and its tests fail. This loop runs the
tests; while they fail, it asks an agent to mend the code (here a stand-in that
plays a part):
"""
SECOND = """\
Two attempts were wrong, and the loop noticed: it ran the tests itself. Then the
agent's context was used up, so the run paused. Its state is on the disk, as it
would be after Ctrl-C, a crash or a power cut. So:
"""
LAST = """\
The tests pass now; nobody's word was taken for it. To see it in a project of
your own:
"""


class Pace(NamedTuple):
    """Seconds: for a reader between two acts, and for each thing the agent does."""

    act_s: float
    step_s: float


WATCHED = Pace(0.6, 0.25)
UNWATCHED = Pace(0.0, 0.02)


class DemoArgs(
    Args,
    verb="demo",
    summary="Watch a loop repair a small project, pause and go on.\n"
    "Needs no agent and no network, and leaves nothing behind.",
    examples=[("ll-loop demo", "takes a few seconds")],
):
    pass


def main(argv: Sequence[str]) -> int:
    DemoArgs.read(argv)
    before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    place = tempfile.mkdtemp(prefix="ll-loop-demo-")
    try:
        return _play(place, WATCHED if is_terminal(sys.stdout) else UNWATCHED)
    except KeyboardInterrupt:
        talk("the demo was cut short; nothing of it is left")
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """As with Ctrl-C: tidy up on the way out."""
    raise SystemExit(SIGNALLED + number)


def _play(place: str, pace: Pace) -> int:
    project = _build(place, pace)
    _tell(FIRST)
    with open(os.path.join(project, ".loops", f"{LOOP}.yaml"), encoding="utf-8") as stream:
        say("".join(f"    {line}" for line in stream if "host:" not in line))
    time.sleep(pace.act_s)
    for verb, code, sentence in (("run", PAUSED, SECOND), ("resume", OK, LAST)):
        say(f"$ ll-loop {verb} {LOOP}")
        ended = _ll_loop(project, verb, LOOP)
        if ended != code:
            talk(f"error: the demo expected exit {code} of `ll-loop {verb}`, not {ended}")
            return ended or FAILED
        say("")
        _tell(sentence)
        time.sleep(pace.act_s)
    say("    ll-loop init")
    return OK


def _tell(text: str) -> None:
    """A paragraph, and an empty line."""
    say(fill(text, min(columns_of(sys.stdout) or WIDEST, WIDEST)) + "\n")


def _build(place: str, pace: Pace) -> str:
    """The small project, its loop, and the agent beside it."""
    project = os.path.join(place, "project")
    os.makedirs(os.path.join(project, ".loops"))
    agent = os.path.join(place, "agent.py")
    notes = os.path.join(place, "notes")
    command = [sys.executable, agent, notes, str(pace.step_s), "{prompt}"]
    values = {
        "python": shlex.quote(os.path.basename(sys.executable)),
        "host": json.dumps({"name": "command", "command": command}),
    }
    for name, target in (
        ("leap.py", project),
        ("test_leap.py", project),
        (f"{LOOP}.yaml", os.path.join(project, ".loops")),
        ("agent.py", place),
    ):
        with open(os.path.join(SOURCES, f"{name}.txt"), encoding="utf-8") as stream:
            text = stream.read()
        for placeholder, value in values.items():
            text = text.replace(f"@{placeholder}@", value)
        with open(os.path.join(target, name), "w", encoding="utf-8") as stream:
            stream.write(text)
    return project


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
    return {**kept, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CONFIG_HOME": project}
