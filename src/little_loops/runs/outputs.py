"""Read what the actions of a run printed, even while one is printing.

An output is in the event that ended its action, in a file that this event names, or, while the
action runs, in the live files. Those are read first and the log after them: if no event was added,
what was read belongs to the current action.

Output that is shown to people has its secrets hidden, by the positions recorded with it.

Not here: writing it (`output_files`), combining it with the events (`playback`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from little_loops.errors import StorageError
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    Entry,
    PartialResult,
)
from little_loops.fsm.state import FileRef, Result
from little_loops.light_typing import Final
from little_loops.records import NamedTuple
from little_loops.reporting.masking import Masker, mask_spans
from little_loops.runs.arrival import (
    StreamBytes,
    StreamName,
    StreamPart,
    from_lines,
    from_sizes,
    parts,
)
from little_loops.runs.entries import entries_of_step, last_entries
from little_loops.runs.folders import folder_of
from little_loops.runs.layout import DATA, LIVE, LIVE_ORDER, SECRETS, RunFiles, output_stem
from little_loops.system.files import Folder, read_all

CHUNK: Final = 1 << 16
MAX_BESIDE: Final = 16 << 20
STREAMS: Final[tuple[StreamName, StreamName]] = ("stdout", "stderr")

Span = tuple[int, int]


class StoredOutput(NamedTuple):
    """One stream of an action: a short text, or a file of the run.

    `secrets` are the positions to hide; None if they were not looked for when it was written.
    """

    size: int = 0
    text: bytes = b""
    file: str | None = None
    secrets: tuple[Span, ...] | None = ()


NOTHING: Final = StoredOutput()


class ActionOutput(NamedTuple):
    """Both streams of an action, and the order in which they arrived.

    `is_stream`: stdout has the events of an agent's program, for programs.
    """

    stdout: StoredOutput = NOTHING
    stderr: StoredOutput = NOTHING
    pieces: tuple[StreamBytes, ...] = ()
    is_stream: bool = False

    def of(self, stream: StreamName) -> StoredOutput:
        return self.stdout if stream == "stdout" else self.stderr

    def parts(self, shown: dict[StreamName, int]) -> Iterator[StreamPart]:
        """Yield what there is beyond the sizes in `shown`, in order of arrival."""
        for stream, start, end in parts(
            self.pieces, {name: self.of(name).size for name in STREAMS}
        ):
            if end > shown[stream]:
                yield StreamPart(stream, max(start, shown[stream]), end)


class Outputs:
    """The outputs in the directory of a run, which may be moved meanwhile."""

    def __init__(self, data: Folder) -> None:
        self._data = data

    def of(self, result: Result | PartialResult) -> ActionOutput:
        """Return what an action that has ended printed; a stream whose file is gone is empty."""
        stream = result.stream_file or _stream_of_version_one(result)
        if stream is not None:
            stdout = self._file(stream)
        elif result.output is None:
            stdout = self._file(result.output_file)
        else:
            stdout = _text(result.output, result.open_ended)
        if result.stderr is None:
            stderr = self._file(result.stderr_file)
        else:
            stderr = _text(result.stderr, result.stderr_open_ended)
        pieces = from_sizes(result.order)
        if result.order_file is not None:
            pieces = from_lines(self._beside(result.order_file))
        return ActionOutput(stdout, stderr, pieces, stream is not None)

    def live(self, *, is_stream: bool = False) -> ActionOutput:
        """Return where the output of the current action is, and how much there is so far; empty if
        there are no live files."""
        # In this order, so that what one file has by now is already in the others.
        sizes = [self._size(LIVE[name]) for name in STREAMS]
        out, err = (
            StoredOutput(size, file=LIVE[name], secrets=self._secrets(LIVE[name]))
            for name, size in zip(STREAMS, sizes, strict=True)
        )
        return ActionOutput(out, err, from_lines(self._beside(LIVE_ORDER)), is_stream)

    def lost(self, step: int, attempt: int, *, is_stream: bool = False) -> ActionOutput:
        """Return what an action printed whose runner was killed; empty if it was not rescued."""
        stem = output_stem(step, attempt)
        out, err = (
            StoredOutput(self._size(name), file=name, secrets=self._secrets(name))
            for name in (f"{stem}.out", f"{stem}.err")
        )
        return ActionOutput(out, err, from_lines(self._beside(f"{stem}.order")), is_stream)

    def read(self, stored: StoredOutput, start: int, end: int) -> bytes:
        """Return the raw bytes from `start` to `end`; fewer at the end, none if the file is
        gone."""
        if stored.file is None:
            return stored.text[start:end]
        descriptor = self._open(stored.file)
        if descriptor is None:
            return b""
        try:
            return os.pread(descriptor, max(end - start, 0), start)
        finally:
            os.close(descriptor)

    def shown(self, stored: StoredOutput, start: int, end: int) -> bytes:
        """Return the bytes from `start` to `end` with secrets hidden: a mask where one begins, and
        nothing for the rest of one that began before `start`.

        If secrets were not looked for when it was written, those of this process's environment are
        hidden; one that is cut by `start` or `end` is then not recognised.
        """
        data = self.read(stored, start, end)
        if stored.secrets is None:
            return Masker(os.environ).mask_bytes(data)
        stop = start + len(data)
        # If a secret begins before this piece, its mask was shown there.
        begun = max(
            (span[1] for span in stored.secrets if span[0] < start < span[1]), default=start
        )
        inside = [
            (max(first, begun) - begun, min(last, stop) - begun)
            for first, last in stored.secrets
            if first < stop and last > begun and first >= start
        ]
        return mask_spans(data[begun - start :], inside)

    def known_secrets(self) -> Iterator[str]:
        """Yield the texts that were recognised as secrets when they were printed."""
        for name in self._data.names():
            owner = name.removesuffix(SECRETS)
            for start, end in self._secrets(owner) if owner != name else ():
                word = self.read(StoredOutput(end, file=owner), start, end)
                if word.strip(b"*"):  # not masked before the run was imported
                    yield word.decode("utf-8", "replace")

    def _file(self, file: FileRef | None) -> StoredOutput:
        """Return the stream that a result stored in a file; empty for None.

        If it has secrets and their positions are lost, all of it is hidden.
        """
        if file is None:
            return NOTHING
        secrets: tuple[Span, ...] | None = () if file.has_secrets is False else None
        if file.has_secrets:
            secrets = self._secrets(file.path) or ((0, file.size),)
        return StoredOutput(self._size(file.path), file=file.path, secrets=secrets)

    def _size(self, name: str) -> int:
        stamp = self._data.stamp(name)
        return 0 if stamp is None else stamp.size

    def _secrets(self, name: str) -> tuple[Span, ...]:
        words = (line.split() for line in self._beside(name + SECRETS).split(b"\n")[:-1])
        return tuple((int(pair[0]), int(pair[1])) for pair in words if len(pair) == 2)

    def _beside(self, name: str) -> bytes:
        """Read a small file of ours; empty if it does not exist."""
        descriptor = self._open(name)
        if descriptor is None:
            return b""
        try:
            return read_all(descriptor, MAX_BESIDE, name)
        finally:
            os.close(descriptor)

    def _open(self, name: str) -> int | None:
        """Open a file of the run for reading; None if it is missing or not a file that may be
        opened."""
        try:
            return self._data.open(name, os.O_RDONLY)
        except (FileNotFoundError, StorageError):
            return None

    def close(self) -> None:
        self._data.close()


def _stream_of_version_one(result: Result | PartialResult) -> FileRef | None:
    """Return the stream of an agent's result, which version one stored as its file."""
    file = result.output_file
    return file if file is not None and file.path.endswith(".jsonl") else None


def _text(text: str, open_ended: bool) -> StoredOutput:
    """Return a text that is stored without its last newline."""
    raw = (text if open_ended or not text else f"{text}\n").encode("utf-8", "replace")
    return StoredOutput(len(raw), raw)


def open_outputs(files: RunFiles) -> Outputs | None:
    """Open the outputs of a run, for the caller to close; None if the run has no directory."""
    folder = folder_of(files)
    if folder is None:
        return None
    with folder:
        data = folder.child(files.base + DATA)
    return None if data is None else Outputs(data)


# ── by step and attempt ────────────────────────────────────────────────────────────────────────


def read_output(files: RunFiles, step: int, attempt: int, stream: StreamName, offset: int) -> bytes:
    """Return a piece of what an action printed, from `offset` on and of at most `CHUNK` bytes, with
    its secrets; empty at the current end, or if there is no such action.

    The `stdout` of an agent's action is the event stream of its program, not the agent's text.
    """
    outputs = open_outputs(files)
    if outputs is None:
        return b""
    try:
        return _read(files, outputs, step, attempt, stream, offset)
    finally:
        outputs.close()


def _read(
    files: RunFiles, outputs: Outputs, step: int, attempt: int, stream: StreamName, offset: int
) -> bytes:
    """Do what `read_output` says. The live files are read before the log: if the action's start is
    still the last event then, they belong to it."""
    live = outputs.live().of(stream)
    piece = outputs.read(live, offset, min(live.size, offset + CHUNK))
    found = find_output(files, outputs, step, attempt)
    if found is None:
        return b""
    if found.is_live:
        return piece
    stored = found.output.of(stream)
    return outputs.read(stored, offset, min(stored.size, offset + CHUNK))


class FoundOutput(NamedTuple):
    """Where the output of an action is; `is_live` while it is running."""

    output: ActionOutput
    is_live: bool


def find_output(files: RunFiles, outputs: Outputs, step: int, attempt: int) -> FoundOutput | None:
    """Find what an action printed; None if there is no such action. What the current action has
    printed since then is not part of it."""
    live = outputs.live()
    found, last = _action(entries_of_step(files, step), attempt)
    if found is None:
        return None
    if not isinstance(found, ActionStart):
        return FoundOutput(outputs.of(found), False)
    if last_entries(files, 1) == [last]:
        return FoundOutput(live, True)
    return FoundOutput(outputs.lost(step, attempt), False)


def _action(
    entries: Iterator[Entry], attempt: int
) -> tuple[ActionStart | Result | PartialResult | None, Entry | None]:
    """Return the end of an attempt, or its start if it has no end, and the last entry read; None
    for what there is not."""
    found: ActionStart | Result | PartialResult | None = None
    last = None
    for last in entries:
        match last.event:
            case ActionStart() as start:
                if found is not None and start.attempt > attempt:
                    break
                found = start if start.attempt == attempt else found
            case ActionComplete(result=result) if isinstance(found, ActionStart):
                found = result
            case ActionInterrupted(result=partial) if isinstance(found, ActionStart) and partial:
                found = partial
            case _:
                continue
    return found, last


def last_output_ms(data: Folder) -> int | None:
    """Return when the current action last printed something, in wall-clock time; None if it has
    not."""
    stamps = [data.stamp(LIVE[name]) for name in STREAMS]
    times = [stamp.mtime_ns for stamp in stamps if stamp is not None and stamp.size]
    return max(times) // 1_000_000 if times else None
