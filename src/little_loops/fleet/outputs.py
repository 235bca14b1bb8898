"""What the actions of a run have printed, in full, between machines.

Checkpoints have the files of their run. Whoever shows an output gets them by the key that the
workflow of the run knows: the commit that has these files. Secrets in them are asterisks; the copy
on the worker, which the run itself reads, has them.

Not here: pushing checkpoints (`workspace`), showing outputs (`cli`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from little_loops.fleet.git import WorkspaceError, git, restore
from little_loops.fleet.names import REFS, repository_key
from little_loops.fsm.events import ActionComplete, ActionInterrupted, Entry, PartialResult
from little_loops.fsm.happenings import ActionEnded, Happening
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Result
from little_loops.reporting.masking import Masker
from little_loops.runs.layout import SECRETS
from little_loops.runs.output_files import OUTPUT_NAME
from little_loops.runs.outputs import Outputs
from little_loops.runs.playback import Item, Playback
from little_loops.sharing.run_file import is_spans
from little_loops.sharing.secrets import Span, starred
from little_loops.system.files import Folder
from little_loops.system.user_state import cache_home

AT_ONCE = 200
"""How many refs one push deletes."""
MOST_BYTES = 10 << 20
"""A larger output stays on its worker; only its end is shown."""


class OutputStore:
    """The outputs of the runs of one repository, by the keys of their checkpoints."""

    def __init__(self, repository: str, environ: Mapping[str, str]) -> None:
        name = f"{repository_key(repository)}.git"
        self._repository = repository
        self._environ = {**environ, "GIT_TERMINAL_PROMPT": "0"}
        self._folder = os.path.join(cache_home(environ), "fleet", "outputs", name)

    def bring(self, key: str, folder: str) -> bool:
        """Copy the files into `folder`. Return False if they cannot be had: their checkpoint has
        been deleted, or the repository cannot be reached."""
        try:
            self._fetch(key)
            restore(self._folder, self._environ, key, folder)
        except WorkspaceError:
            return False
        return True

    def checkpoints(self) -> list[str]:
        """Return the refs of all checkpoints in the repository. Raises `WorkspaceError`."""
        self._make()
        found = git(self._folder, self._environ, "ls-remote", self._repository, f"{REFS}*")
        return [line.partition("\t")[2] for line in found.splitlines()]

    def delete(self, refs: Sequence[str]) -> None:
        """Delete these refs in the repository. Raises `WorkspaceError`."""
        for at in range(0, len(refs), AT_ONCE):
            some = refs[at : at + AT_ONCE]
            words = ("push", "-q", "--no-verify", self._repository, "--delete", *some)
            git(self._folder, self._environ, *words)

    def _make(self) -> None:
        """Create the repository of this computer, which is empty at first."""
        if not os.path.isdir(self._folder):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            git(self._folder, self._environ, "init", "-q", "--bare")

    def _fetch(self, key: str) -> None:
        """Fetch the files, and nothing else of the checkpoint. Raises `WorkspaceError`."""
        self._make()
        words = ("fetch", "-q", "--depth=1", "--no-tags", "--no-write-fetch-head")
        git(self._folder, self._environ, *words, self._repository, key)


class Played:
    """What a run does, as `folder` gets it: its events, and what its actions have printed."""

    def __init__(self, store: OutputStore, folder: str, machine: FSMLoop, root: str) -> None:
        """Take a folder that exists; `root` is where agents worked, for what they say of files."""
        self._store = store
        self._folder = folder
        self._opened = Folder.at(folder)
        assert self._opened is not None, "the folder exists"
        self.outputs = Outputs(self._opened)
        self._playback = Playback(self.outputs, machine, root)

    def bring(self, entries: Iterable[Entry], key: Callable[[], str | None]) -> None:
        """Get the whole outputs that these events refer to, if there are any."""
        if any(map(_has_file, entries)) and (found := key()) is not None:
            self._store.bring(found, self._folder)

    def items(self, entries: Iterable[Entry]) -> Iterator[Item]:
        """Yield what to show for these events."""
        for entry in entries:
            yield from self._playback.feed(entry)

    def close(self) -> None:
        self.outputs.close()


def _has_file(entry: Entry) -> bool:
    match entry.event:
        case ActionComplete(result=result) | ActionInterrupted(result=result):
            return result is not None and _has_whole(result)
        case _:
            return False


def _has_whole(result: Result | PartialResult) -> bool:
    return any((result.output_file, result.stderr_file, result.stream_file))


def has_whole_output(happenings: Sequence[Happening]) -> bool:
    """Return whether an action has printed more than its event has, so that the files of the run
    have to be stored even if it changed nothing else."""
    return any(isinstance(each, ActionEnded) and _has_whole(each.result) for each in happenings)


# ── what is not stored ─────────────────────────────────────────────────────────────────────────


def too_large(folder: str) -> list[str]:
    """Return the paths of outputs in a folder that are not stored."""
    return [
        path
        for path in _files(folder)
        if re.fullmatch(OUTPUT_NAME, os.path.basename(path))
        and os.path.getsize(os.path.join(folder, path)) > MOST_BYTES
    ]


def without_secrets(folder: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files in a folder that contain secrets which an action has printed, with an asterisk
    for each of their bytes."""
    paths = list(_files(folder))
    spans = {path.removesuffix(SECRETS): _spans(folder, path) for path in paths if _lists(path)}
    if not spans:
        return
    masker = Masker({})
    for number, word in enumerate(sorted(_words(folder, spans))):
        masker.learn({f"{number}_TOKEN": word})
    for path in paths:
        data = _read(folder, path)
        if found := [*spans.get(path, ()), *masker.secrets_in(data)]:
            yield path, starred(data, found)


def _words(folder: str, spans: Mapping[str, list[Span]]) -> set[str]:
    """Return the texts at these positions of files."""
    found = ((_read(folder, path), places) for path, places in spans.items())
    return {
        data[start:end].decode("utf-8", "replace")
        for data, places in found
        for start, end in places
    }


def _lists(path: str) -> bool:
    """Return whether a file lists the positions of secrets in another one."""
    return path.endswith(SECRETS)


def _spans(folder: str, path: str) -> list[Span]:
    data = _read(folder, path)
    pairs = (line.split() for line in data.splitlines()) if is_spans(data) else ()
    return [(int(start), int(end)) for start, end in pairs]


def _files(folder: str) -> Iterator[str]:
    """Yield the paths of the files in a folder, relative to it."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, folder)


def _read(folder: str, path: str) -> bytes:
    """Return what is in a file; nothing if there is none."""
    try:
        with open(os.path.join(folder, path), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""
