"""Ask git: one narrow door to the program, with words for what it says.

The user's configuration, hooks and identity are left as they are.  A `git` that lies in the project
is not the user's: a clone must not decide what runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from little_loops.records import NamedTuple
from little_loops.relay.call import Call
from little_loops.relay.contract import one_line
from little_loops.system.process import CannotStart

TIMEOUT_S = 120.0
TIMED_OUT = 124
KILLED = 137
LINES_SHOWN = 6
# No question nobody can answer, and git's own words, which we have to recognise.  `LC_ALL` would
# change how hooks read and print text, too.
OWN_VARIABLES = {"GIT_TERMINAL_PROMPT": "0", "LANGUAGE": "en"}
# A background clean-up of git's would be ended with the run, and named as left running.
OWN_SETTINGS = ("-c", "maintenance.auto=false", "-c", "gc.auto=0")


class Answer(NamedTuple):
    code: int
    text: str
    complaint: str


def git(
    call: Call, words: Sequence[str], cwd: str, *, stdin: str = "", timeout_s: float = TIMEOUT_S
) -> Answer | None:
    """What git answers; None if there is no git."""
    program = _program(cwd, call.environ.get("PATH", os.defpath))
    if program is None:
        return None
    try:
        done = call.execute(
            [program, *OWN_SETTINGS, *words],
            cwd=cwd,
            env={**call.environ, **OWN_VARIABLES},
            stdin=os.fsencode(stdin),
            timeout_s=timeout_s,
        )
    except CannotStart:
        return None
    if done.timed_out:
        return Answer(TIMED_OUT, "", f"git {words[0]} took more than {timeout_s:g} s")
    code = KILLED if done.exit_code is None else done.exit_code
    text, talk = os.fsdecode(done.stdout), done.stderr.decode("utf-8", "replace")
    return Answer(code, text, _complaint(talk) or _complaint(text) or f"git exited with {code}")


def _program(project: str, search: str) -> str | None:
    """The first on PATH, but for directories that mean the project or lie in it."""
    home = os.path.realpath(project)
    safe = [
        each for each in search.split(os.pathsep) if os.path.isabs(each) and not _is_in(each, home)
    ]
    return shutil.which("git", path=os.pathsep.join(safe))


def _is_in(directory: str, home: str) -> bool:
    return os.path.commonpath([os.path.realpath(directory), home]) == home


def _complaint(talk: str) -> str:
    """The end of what was said, as one line; hooks say much, and the point last."""
    lines = [line.strip() for line in talk.splitlines() if line.strip()]
    return one_line(" | ".join(lines[-LINES_SHOWN:]), 400)
