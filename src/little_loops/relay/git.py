"""Run git for a relay, and summarise its messages.

The user's configuration, hooks and identity apply. A `git` inside the project is not used: a clone
must not decide what runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.relay.call import Call
from little_loops.relay.contract import one_line
from little_loops.system.process import CannotStart
from little_loops.trees.repository_files import refuse_special_files

TIMEOUT_S = 120.0
REFUSED = 128  # as git itself exits
TIMED_OUT = 124
KILLED = 137
LINES_SHOWN = 6
# No prompts, because nobody could answer, and English messages, which we parse. `LC_ALL` would
# also change how hooks read and print text.
OWN_VARIABLES = {"GIT_TERMINAL_PROMPT": "0", "LANGUAGE": "en"}
# A background `git gc` would be ended with the run, and reported as left running.
OWN_SETTINGS = ("-c", "maintenance.auto=false", "-c", "gc.auto=0")


class GitAnswer(NamedTuple):
    code: int
    text: str
    complaint: str


def git(
    call: Call, words: Sequence[str], cwd: str, *, stdin: str = "", timeout_s: float = TIMEOUT_S
) -> GitAnswer | None:
    """Run git in `cwd` and return its answer; None if git is not installed.

    The code is 124 after a timeout, 137 if a signal ended it, and 128 if it would wait for a
    pipe. Raises `Interrupted` if the action has to stop.
    """
    program = _find_git(cwd, call.environ.get("PATH", os.defpath))
    if program is None:
        return None
    try:
        refuse_special_files(cwd)
    except StoreError as refused:
        return GitAnswer(REFUSED, "", refused.message)
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
        return GitAnswer(TIMED_OUT, "", f"git {words[0]} took more than {timeout_s:g} s")
    code = KILLED if done.exit_code is None else done.exit_code
    text, talk = os.fsdecode(done.stdout), done.stderr.decode("utf-8", "replace")
    return GitAnswer(
        code, text, _error_text(talk) or _error_text(text) or f"git exited with code {code}"
    )


def _find_git(project: str, search: str) -> str | None:
    """Return the first git on the PATH `search` that is not inside the project; else None."""
    home = os.path.realpath(project)
    safe = [
        each for each in search.split(os.pathsep) if os.path.isabs(each) and not _is_in(each, home)
    ]
    return shutil.which("git", path=os.pathsep.join(safe))


def _is_in(directory: str, home: str) -> bool:
    return os.path.commonpath([os.path.realpath(directory), home]) == home


def _error_text(talk: str) -> str:
    """Return the last lines of an error output as one line; hooks print the point last."""
    lines = [line.strip() for line in talk.splitlines() if line.strip()]
    return one_line(" | ".join(lines[-LINES_SHOWN:]), 400)
