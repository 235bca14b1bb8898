"""The names and paths of a run's files; nothing is opened here.

    .loops/
      .running/   NAME.pid  NAME.state.json  NAME.events.jsonl  NAME.log  NAME.d/  NAME.spawn.json
      .history/   NAME/STEM.state.json …     the same files, named after the time the run started
                  index.jsonl                a line for each of these runs, for long lists

`NAME.d` is `LL_RUN_DIR`. It contains `run.json` and the output of actions: `live.out` and
`live.err` while an action runs, `STEP-ATTEMPT.out` and so on for whatever was too long for an
event. `NAME.d/runs/STEP-ATTEMPT-CHILD/` has the files of a run that the run itself started, called
`run.state.json` and so on.

Not here: opening them safely (`folders`), their content (`storage`, `journal`, `outputs`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from little_loops.light_typing import Final
from little_loops.records import NamedTuple
from little_loops.runs.project import is_run_name, loops_of

RUNNING: Final = ".running"
HISTORY: Final = ".history"
QUEUE: Final = ".queue"
INDEX: Final = "index.jsonl"
"""In the history: one line for each past run."""

STATE: Final = ".state.json"
EVENTS: Final = ".events.jsonl"
LOG: Final = ".log"
PID: Final = ".pid"
DATA: Final = ".d"
SPAWN: Final = ".spawn.json"
MOVING: Final = ".moving"

# Inside a run's own directory.
RUN_JSON: Final = "run.json"
SESSION: Final = "action.json"
CONTINUE: Final = "continue.md"
RULES: Final = "evidence.json"
IMPORTED: Final = "imported.json"
MAIL: Final = "mail"
CRASH_REPORT: Final = "crash-reported-"
"""Followed by the number of the last event before the crash."""
CHILDREN: Final = "runs"
CHILD: Final = "run"
"""The prefix of a child's file names, in its own directory."""
NOTES: Final = "notes.md"

# Output of actions: first under these names, then, if it is kept, by step and attempt.
LIVE: Final = {"stdout": "live.out", "stderr": "live.err", "text": "live.text"}
LIVE_ORDER: Final = "live.order"
SECRETS: Final = ".secrets"


def output_stem(step: int, attempt: int) -> str:
    """Return the beginning of an action's output file names: `00003-1` of `00003-1.out`."""
    return f"{step:05}-{attempt}"


def child_folder(step: int, attempt: int, child: str) -> str:
    """Return the name of the directory of a child: `00003-1-types`."""
    return f"{output_stem(step, attempt)}-{child}"


class RunFiles(NamedTuple):
    """The files of one run; with a stem, those of a past run.

    `below` are the directories of children that lead to a run inside this one, outermost first.
    """

    root: str
    name: str
    stem: str | None = None
    below: tuple[str, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that lead from the project to the files."""
        place = (RUNNING,) if self.stem is None else (HISTORY, self.name)
        inner = ((outer + DATA, CHILDREN, folder) for outer, folder in self._levels)
        return (loops_of(self.root), *place, *(name for names in inner for name in names))

    @property
    def _levels(self) -> list[tuple[str, str]]:
        """The name of each enclosing run's files, and of the child's directory in it."""
        outer = [self.stem or self.name, *(CHILD for _ in self.below[1:])]
        return list(zip(outer, self.below, strict=False))

    @property
    def directory(self) -> str:
        return os.path.join(self.root, *self.folders)

    @property
    def base(self) -> str:
        return CHILD if self.below else self.stem or self.name

    @property
    def shown_name(self) -> str:
        """The run's name for commands: `nightly`, or `nightly/types` for a child."""
        return "/".join((self.name, *(folder.split("-", 2)[2] for folder in self.below)))

    def child(self, folder: str) -> RunFiles:
        """Return the files of a child, given the name of its directory."""
        return self._replace(below=(*self.below, folder))

    def path(self, suffix: str) -> str:
        return os.path.join(self.directory, self.base + suffix)

    @property
    def pid(self) -> str:
        return self.path(PID)

    @property
    def state(self) -> str:
        return self.path(STATE)

    @property
    def events(self) -> str:
        return self.path(EVENTS)

    @property
    def log(self) -> str:
        return self.path(LOG)

    @property
    def data(self) -> str:
        """The run's own directory: `LL_RUN_DIR`."""
        return self.path(DATA)

    @property
    def run_json(self) -> str:
        return os.path.join(self.data, RUN_JSON)

    @property
    def spawn(self) -> str:
        return self.path(SPAWN)


def named(files: Iterable[str], *suffixes: str) -> Iterator[str]:
    """Yield the names of runs that have a file with one of these suffixes, given the files in
    `.running`.

    A run with files of several of the suffixes is yielded several times.
    """
    for file in files:
        for suffix in suffixes:
            if file.endswith(suffix) and is_run_name(name := file.removesuffix(suffix)):
                yield name


# ── past runs ──────────────────────────────────────────────────────────────────────────────────

_ANY_START: Final = "0000-00-00T00-00-00"
_DIGITS: Final = str.maketrans("123456789", "000000000")


def is_stem(text: str) -> bool:
    """Return whether a text is a stem: the start of a run, and a number if that is not unique."""
    start, number = text[: len(_ANY_START)], text[len(_ANY_START) :]
    is_number = number[:1] == "-" and number[1:].isascii() and number[1:].isdecimal()
    return start.translate(_DIGITS) == _ANY_START and (not number or is_number)


def stem_order(stem: str) -> tuple[str, int]:
    """Return a key that sorts stems by the start of the run, then by the order in which runs
    ended."""
    if not is_stem(stem):
        return "", 0
    start, number = stem[: len(_ANY_START)], stem[len(_ANY_START) + 1 :]
    return start, int(number or 1)
