"""Exit codes, and what can go wrong, as types: one tree of exceptions and one kind of problem.

A `Problem` is something wrong in a loop file: it has a place, a stable code and the way out, and
all of a file's problems are reported together.  An exception is something a command could not do;
each kind knows the exit code it ends with.  A command of the user's that exits 1 is neither: it is
an answer.

Not here: how problems look on a screen (`terminal.problems`), what each code means (`authoring.codes`).
"""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.records import NamedTuple

TYPE_CHECKING = False  # `typing.TYPE_CHECKING`, without importing `typing`

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    Severity: TypeAlias = Literal["error", "warning"]

OK = 0
FAILED = 1
USAGE = 2
LIMIT = 3
PAUSED = 4
CONFLICT = 5
STOPPED_BY_ACTION = 6
INTERNAL = 70
SIGNALLED = 128  # plus the signal's number


class Place(NamedTuple):
    """Where in a text: counted from 1, with the line itself so that it can be shown."""

    file: str
    line: int
    column: int
    length: int
    source: str


class Problem(NamedTuple):
    code: str
    message: str
    place: Place | None = None
    help: str | None = None
    severity: Severity = "error"


class LittleLoopsError(Exception):
    """The root: a message for people, perhaps a way out, and an exit code."""

    exit_code = FAILED

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help


class UsageError(LittleLoopsError):
    """The command was asked for something that is not there or not allowed."""

    exit_code = USAGE


class UnknownLoop(UsageError):
    """No loop file has this name."""


class DefinitionError(UsageError):
    """A loop file has problems; they say what and where."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep all problems; the message names the first error and how many more there are."""
        errors = [problem for problem in problems if problem.severity == "error"]
        first = errors[0].message if errors else "invalid definition"
        super().__init__(first if len(errors) < 2 else f"{first} (and {len(errors) - 1} more)")
        self.problems = tuple(problems)


class ConflictError(LittleLoopsError):
    """Another run holds the name or an overlapping scope."""

    exit_code = CONFLICT


class ProgramError(LittleLoopsError):
    """A program that is needed is missing, or does not start."""


class WaitStopped(LittleLoopsError):
    """A run was asked to stop while it waited for its turn."""


class StorageError(LittleLoopsError):
    """A file of a run could not be read or written."""


class StoreError(StorageError):
    """The store of a project's trees is missing, damaged or cannot be used."""


class DamagedRun(StorageError):
    """The files of a run do not tell a whole story; they are left as they are."""


class LostOwnership(StorageError):
    """Another process wrote the run's files; going on would mix two histories."""
