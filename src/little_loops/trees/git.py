"""Run git: on the store with fixed settings, on the user's repository for reading only, except for
worktrees of our own.

The program is looked up once, and never inside the project. None of git's environment variables are
passed on, so neither the user's shell nor an agent can choose another repository.

Not here: what the answers mean (`rules`, `objects`, `store`).
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from signal import SIGTERM

from little_loops.errors import StoreError
from little_loops.light_typing import Literal
from little_loops.records import NamedTuple
from little_loops.system import process
from little_loops.system.stops import StopFlag
from little_loops.trees.repository_files import refuse_special_files

OLDEST = (2, 25)
DEADLINE_S = 600.0
READING_S = 60.0
"""How long one read-only command may take in the user's repository; most take milliseconds."""
GIT_GRACE_S = 2.0
COMPLAINT_CHARS = 400
# Older versions ignore GIT_CONFIG_GLOBAL; a home that does not exist has no configuration.
NOWHERE = "/nonexistent"
STORE_VARIABLES = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": NOWHERE,
    "LC_ALL": "C",
    "XDG_CONFIG_HOME": NOWHERE,
}
READING_VARIABLES = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# A repository can name programs that git runs even while it only reads.
READING_OPTIONS = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")

# Maintenance would delete objects, which no command of ours is asked to do.
CHANGING_OPTIONS = (*READING_OPTIONS, "-c", "gc.auto=0", "-c", "maintenance.auto=false")

# Variables that tell git which repository, files and refs to use; git sets them for its hooks.
REPOSITORY_VARIABLES = frozenset(
    (
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NAMESPACE",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    )
)

IDENTITY_VARIABLES = frozenset(
    f"GIT_{who}_{what}" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
)
"""The variables that set the author and committer; CI jobs often set them."""

Sink = Callable[[bytes], None]


class Interrupted(Exception):
    """Work on a tree was stopped early; repeating it gives the same result."""

    def __init__(self, by: Literal["stop", "deadline"]) -> None:
        super().__init__(by)
        self.by = by


class GitOutput(NamedTuple):
    code: int
    out: bytes
    complaint: str


class Git(NamedTuple):
    """The git program, the user's environment, and the conditions that stop it early.

    `ends_at` is a deadline by `time.monotonic`; without one, each process may take `DEADLINE_S`.
    `stop` stops the work when it is raised once, `urgent` when it is raised twice.
    """

    program: str
    environ: Mapping[str, str]
    stop: StopFlag | None = None
    ends_at: float | None = None
    urgent: StopFlag | None = None
    own_index: str | None = None
    """A file to use instead of the user's index, when the repository is changed."""
    looked: dict[str, float] | None = None
    """When each repository was last searched for pipes (`refuse_special_files`); None searches it
    again for each process."""

    def bounded(self, deadline_s: float | None, stop: StopFlag | None = None) -> Git:
        """Return a copy that must finish within `deadline_s`, and that also ends when `stop`, if
        given, is requested. None sets no common deadline."""
        ends_at = None if deadline_s is None else time.monotonic() + deadline_s
        return self._replace(ends_at=ends_at, stop=stop or self.stop)

    def for_one_task(self) -> Git:
        """Return a copy for a few processes in a row, for which one look at the repository counts."""
        return self._replace(looked={})

    def check(self) -> None:
        """Raise `Interrupted` if the deadline has passed or a stop was requested."""
        if self.stop is not None and self.stop.count:
            raise Interrupted("stop")
        if self.urgent is not None and self.urgent.is_urgent:
            raise Interrupted("stop")
        if self.ends_at is not None and time.monotonic() >= self.ends_at:
            raise Interrupted("deadline")

    def store(
        self, git_dir: str, words: Sequence[str], stdin: bytes = b"", sink: Sink | None = None
    ) -> GitOutput:
        """Run git on the store, with fixed settings. Output goes to `sink`, or into the answer.

        A failure of git is an answer with its exit code. Raises `Interrupted` or `StoreError` like
        `_run`.
        """
        env = {"PATH": self.environ.get("PATH", os.defpath), **STORE_VARIABLES}
        return self._run([self.program, f"--git-dir={git_dir}", *words], env, stdin, sink)

    def read(self, directory: str, words: Sequence[str], stdin: bytes = b"") -> GitOutput:
        """Run a reading git command in the user's repository, with the user's configuration.

        A failure of git is an answer with its exit code. Raises `StoreError` if git would wait for
        a pipe, or takes longer than `READING_S`; else `Interrupted` or `StoreError` like `_run`.
        """
        refuse_special_files(directory, self.looked)
        argv = [self.program, "-C", directory, *READING_OPTIONS, *words]
        env = self._users_variables() | {"GIT_OPTIONAL_LOCKS": "0"}
        ends_at = time.monotonic() + READING_S
        if self.ends_at is not None and self.ends_at <= ends_at:
            return self._run(argv, env, stdin, None)
        try:
            return self._replace(ends_at=ends_at)._run(argv, env, stdin, None)
        except Interrupted as cut:
            if cut.by == "stop":
                raise
            raise StoreError(
                f"`git {words[0]}` did not finish within {READING_S:g} s",
                "run it yourself in the project: it may be waiting for a pipe or a slow disk",
            ) from cut

    def change(self, directory: str, words: Sequence[str], stdin: bytes = b"") -> GitOutput:
        """Run a git command that adds to the user's repository: no hook and no maintenance runs.

        A failure of git is an answer with its exit code. Raises `StoreError` if git would wait for
        a pipe; else `Interrupted` or `StoreError` like `_run`.
        """
        refuse_special_files(directory, self.looked)
        argv = [self.program, "-C", directory, *CHANGING_OPTIONS, *words]
        own = {} if self.own_index is None else {"GIT_INDEX_FILE": self.own_index}
        return self._run(argv, self._users_variables() | own, stdin, None)

    def try_out(
        self, directory: str, words: Sequence[str], variables: Mapping[str, str], stdin: bytes
    ) -> GitOutput:
        """Run a git command with the user's configuration, whose `variables` keep it from changing
        the user's repository: they name another index and another object directory.

        A failure of git is an answer with its exit code. Raises `StoreError` if git would wait for
        a pipe; else `Interrupted` or `StoreError` like `_run`.
        """
        refuse_special_files(directory, self.looked)
        argv = [self.program, "-C", directory, *CHANGING_OPTIONS, *words]
        return self._run(argv, {**self._users_variables(), **variables}, stdin, None)

    def _users_variables(self) -> dict[str, str]:
        """Return the user's environment with those we set; of git's own variables, only the user's
        name."""
        own = {
            name: text
            for name, text in self.environ.items()
            if not name.startswith("GIT_") or name in IDENTITY_VARIABLES
        }
        return own | READING_VARIABLES

    def _run(
        self, argv: Sequence[str], env: Mapping[str, str], stdin: bytes, sink: Sink | None
    ) -> GitOutput:
        """Run git and return its answer; the code is -1 if a signal ended it.

        Raises `Interrupted` on a stop or at the deadline, `StoreError` if it cannot start.
        """
        self.check()
        out, err = bytearray(), bytearray()
        left_s = DEADLINE_S if self.ends_at is None else self.ends_at - time.monotonic()
        try:
            ended = process.run(
                argv,
                env=env,
                cwd=".",
                stdin=stdin,
                stdout=sink or out.extend,
                stderr=err.extend,
                deadline_s=max(left_s, 0.0),
                stop=self.stop,
                stop_plan=((SIGTERM, GIT_GRACE_S),),
            )
        except process.CannotStart as error:
            raise StoreError(f"cannot start git: {error.reason}") from error
        if ended.cut_by != "none":
            raise Interrupted("stop" if ended.cut_by == "stop" else "deadline")
        code = -1 if ended.exit_code is None else ended.exit_code
        return GitOutput(code, bytes(out), _error_text(err, code))


def find_git(project: str, environ: Mapping[str, str], stop: StopFlag | None = None) -> Git:
    """Return the git on PATH, outside the project; raise `StoreError` if missing or too old."""
    home = os.path.realpath(project)
    safe = [
        each
        for each in environ.get("PATH", os.defpath).split(os.pathsep)
        if os.path.isabs(each) and not is_inside(os.path.realpath(each), home)
    ]
    program = shutil.which("git", path=os.pathsep.join(safe))
    if program is None:
        raise StoreError("git is not installed", "install git 2.25 or newer")
    git = Git(program, environ, stop)
    _check_version(git)
    return git


def _check_version(git: Git) -> None:
    """Raise `StoreError` if git is older than 2.25, or does not print its version."""
    found = version_of(git)
    if found < OLDEST:
        raise StoreError(f"git {version_text(found)} is too old", "install git 2.25 or newer")


def version_of(git: Git) -> tuple[int, int]:
    """Return the version of git. Raises `StoreError` if it does not print it."""
    try:
        changed_ns = os.stat(git.program).st_mtime_ns
    except OSError as error:
        raise StoreError(f"cannot start git: {error.strerror}") from error
    return _ask_version(git.program, changed_ns, git.environ.get("PATH", os.defpath))


@cache
def _ask_version(program: str, _changed_ns: int, search: str) -> tuple[int, int]:
    """Return the version that a program prints; it is asked once in each process."""
    answer = Git(program, {"PATH": search}).store(NOWHERE, ["--version"])
    text = answer.out.decode("utf-8", "replace").strip()
    found = re.search(r"(\d+)\.(\d+)", text)
    if answer.code != 0 or found is None:
        raise StoreError(f"`{program}` does not print its version: {answer.complaint or text}")
    return int(found[1]), int(found[2])


def version_text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def is_inside(path: str, directory: str) -> bool:
    """Return whether an absolute path is the directory itself or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def alternate(path: str) -> str:
    """Return a path as an entry of git's lists of object directories, whose separators are colons and
    newlines."""
    if not set(path) & set(":\n") and not path.startswith(('"', "#")):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _error_text(err: bytes | bytearray, code: int) -> str:
    """Return git's error output on one line, of which only the end if it is long, or else its exit
    code."""
    lines = err.decode("utf-8", "replace").split("\n")
    said = " | ".join(line.strip() for line in lines if line.strip())
    return said[-COMPLAINT_CHARS:] or f"git exited with code {code}"
