"""Store what the actions of a run print: raw, in a file, from the first byte on.

`live.out` and `live.err` are appended to while an action runs. After it has ended, an output of at
most 4 KiB goes into the event and is removed from the file; a longer one gets its own name, with
size and hash, up to a limit. So a reader always finds what an action has printed so far, and a step
that prints little costs one write and one truncation.

Text with a secret never goes into an event, however short. Its file is kept together with the
positions of the secrets, so that whoever shows the output can hide them without knowing them.

Not here: reading it (`outputs`), results and screens (`engine.action_output`).
"""

from __future__ import annotations

import codecs
import os

from little_loops.light_modules import re
from little_loops.light_typing import TYPE_CHECKING, Final
from little_loops.records import NamedTuple
from little_loops.reporting.masking import Masker
from little_loops.runs.arrival import StreamBytes, StreamName, to_line, to_sizes
from little_loops.runs.layout import LIVE, LIVE_ORDER, SECRETS, output_stem
from little_loops.system.files import Folder, failure, sync_all, write_all

if TYPE_CHECKING:
    from hashlib import _Hash

INLINE: Final = 4096
STREAM_CAP: Final = 64 << 20
RUN_CAP: Final = 512 << 20
ORDER_CAP: Final = 4 << 20
SHORT_ORDER: Final = 64
"""If the order has fewer pieces than this, it is stored in the event."""
TAIL_BYTES: Final = 2048
CHUNK: Final = 1 << 16
NO_SECRETS: Final = Masker({})


class Output(NamedTuple):
    """What became of a stream: a text if it is short, else a file.

    `head` and `tail` are its ends. The hash is that of the file, which is cut if `truncated`.
    `has_secrets`: None if they were not looked for.
    """

    text: str | None
    head: str
    tail: str
    size: int
    path: str | None = None
    sha256: str | None = None
    truncated: bool = False
    has_secrets: bool | None = None


class PrintedStreams(NamedTuple):
    """Both streams of an action that has ended, and the order in which they arrived."""

    stdout: Output
    stderr: Output
    order: tuple[int, ...] = ()
    order_file: str | None = None


class RunOutput:
    """The outputs of one run's actions, one action at a time."""

    def __init__(
        self, folder: Folder, masker: Masker | None = None, *, cap: int = STREAM_CAP
    ) -> None:
        """Store outputs in `folder`, at most `cap` bytes of each stream.

        Without a masker, secrets are not looked for. Files are created when something is printed.
        """
        self._folder = folder
        self._masker = masker
        self._cap = cap
        self._out, self._err = (StreamFiles(folder, LIVE[name]) for name in ("stdout", "stderr"))
        self._order = LiveFile(folder, LIVE_ORDER)

    def action(self, step: int, attempt: int) -> OutputRecorder:
        """Start the output of an action; that of the previous one must have ended."""
        out, err = (Stream(files, self._masker, self._cap) for files in (self._out, self._err))
        return OutputRecorder(out, err, Order(self._order), output_stem(step, attempt))

    def keep(self, step: int, attempt: int, data: bytes, suffix: str) -> Output:
        """Store an output that was not printed: an agent's answer, or what a runner returned. A
        short one is only in the result, a longer one in a file with this suffix.

        Raises `StorageError` if it cannot be written.
        """
        files = StreamFiles(self._folder, LIVE["text"])
        try:
            stream = Stream(files, self._masker, self._cap)
            stream.feed(data)
            return stream.end(f"{output_stem(step, attempt)}.{suffix}")
        except OSError as error:
            raise failure(error, "write", "the output") from error
        finally:
            files.close()

    def close(self) -> None:
        for file in (self._out, self._err, self._order):
            file.close()


class OutputRecorder:
    """Both streams of the current action."""

    def __init__(self, out: Stream, err: Stream, order: Order, stem: str) -> None:
        self._out = out
        self._err = err
        self._order = order
        self._stem = stem

    def stdout(self, chunk: bytes) -> None:
        self._order.arrived("stdout", len(chunk))
        self._out.feed(chunk)

    def stderr(self, chunk: bytes) -> None:
        self._order.arrived("stderr", len(chunk))
        self._err.feed(chunk)

    def end(self, *, suffix: str = "out", always_kept: bool = False) -> PrintedStreams:
        """End both streams and return what became of them, with their order; the live files are
        emptied or renamed.

        With `always_kept`, stdout stays in a file with this suffix, however short. Raises
        `StorageError`.
        """
        try:
            out = self._out.end(f"{self._stem}.{suffix}", always_kept=always_kept)
            err = self._err.end(f"{self._stem}.err")
            return PrintedStreams(out, err, *self._order.end(f"{self._stem}.order"))
        except OSError as error:
            raise failure(error, "write", "the output") from error


class Order:
    """Records the order in which streams arrive; nothing while there is only one."""

    def __init__(self, file: LiveFile) -> None:
        self._file = file
        self._last: StreamName | None = None
        self._size = 0
        self._pieces: list[StreamBytes] = []

    def arrived(self, stream: StreamName, size: int) -> None:
        """Count bytes of a stream; a switch of streams records the piece before it."""
        if stream != self._last:
            self._note()
            self._last, self._size = stream, 0
        self._size += size

    def _note(self) -> None:
        """Record the current piece in the file, and in memory while there are few; drop it beyond
        `ORDER_CAP`."""
        if self._last is None or self._file.size > ORDER_CAP:
            return
        piece = StreamBytes(self._last, self._size)
        self._file.write(to_line(piece))
        if len(self._pieces) < SHORT_ORDER:
            self._pieces.append(piece)

    def end(self, name: str) -> tuple[tuple[int, ...], str | None]:
        """Return the order as sizes if it is short, and None; else nothing, and the name of the
        file with it.

        Both are empty if there was only one stream. A short order is removed from the file.
        """
        if len(self._pieces) == SHORT_ORDER:
            return (), self._file.keep(name, sync=False)
        last = [StreamBytes(self._last, self._size)] if self._pieces and self._last else []
        self._file.clear()
        return to_sizes([*self._pieces, *last]), None


class Stream:
    """One stream of an action, fed as it is read."""

    def __init__(self, files: StreamFiles, masker: Masker | None, cap: int) -> None:
        """Store at most `cap` bytes in the files; what comes after them is only counted."""
        self.size = 0
        self._files = files
        self._masker = masker or NO_SECRETS
        self._has_secrets = None if masker is None else False
        self._room = cap
        self._head = bytearray()
        self._tail = b""
        self._hash: _Hash | None = None
        self._held = b""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes: count them, and store and hash them as far as there is room."""
        self.size += len(chunk)
        if stored := chunk[: self._room]:
            self._room -= len(stored)
            if self.size > INLINE:
                self._hashed().update(stored)
            self._store(stored)
        if (room := INLINE - len(self._head)) > 0:
            self._head += chunk[:room]
        self._tail = (self._tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]

    def _hashed(self) -> _Hash:
        """Return the hash of what is stored, which is computed only for outputs that are kept in a
        file."""
        if self._hash is None:
            import hashlib  # slow, and most outputs are short

            self._hash = hashlib.sha256(self._head)
        return self._hash

    def _store(self, chunk: bytes) -> None:
        """Write a chunk, and the positions of the secrets in it; hold back an end that may be the
        beginning of a secret."""
        if self._masker.words:
            data, before = self._held + chunk, self._files.data.size
            for start, end in self._masker.secrets_in(data):
                self._has_secrets = True
                self._files.secrets.write(b"%d %d\n" % (before + start, before + end))
            safe = self._masker.safe_end(data)
            chunk, self._held = data[:safe], data[safe:]
        if chunk:
            self._files.data.write(chunk)

    def end(self, name: str, *, always_kept: bool = False) -> Output:
        """End the stream. A short text without secrets is returned and removed from the file;
        anything else stays in a file of this name, which survives a power cut once this returns.

        With `always_kept`, a short text also stays in a file. Raises `OSError` or `StorageError`.
        """
        if self._held:
            self._files.data.write(self._held)
        head, secret = self._head.decode("utf-8", "replace"), self._has_secrets
        if self.size <= INLINE and not (always_kept or secret) and _survives_as_text(self._head):
            self._files.data.clear()
            return Output(head, head, head, self.size, has_secrets=secret)
        digest, is_cut = self._hashed().hexdigest(), self._files.data.size < self.size
        path = self._files.keep(name)
        tail = head if self.size <= TAIL_BYTES else _decode_end(self._tail)
        return Output(None, head, tail, self.size, path, digest, is_cut, secret)


def _survives_as_text(data: bytearray) -> bool:
    """Return whether these bytes can be stored as text and restored: valid UTF-8 that is not just a
    newline."""
    try:
        return data.decode() != "\n"  # without its newline it would be empty
    except UnicodeDecodeError:
        return False


def _decode_end(data: bytes) -> str:
    """Decode bytes that may begin in the middle of a character, which is dropped."""
    cut = next((at for at in range(4) if not 0x80 <= data[at] < 0xC0), 0)
    return codecs.decode(data[cut:], "utf-8", "replace")


# ── files ──────────────────────────────────────────────────────────────────────────────────────


class StreamFiles:
    """Where a stream is stored, and the positions of the secrets in it."""

    def __init__(self, folder: Folder, name: str) -> None:
        self.data = LiveFile(folder, name)
        self.secrets = LiveFile(folder, name + SECRETS)

    def keep(self, name: str) -> str:
        """Rename the data to the first free name like this, and the positions of its secrets to
        match. Return that name."""
        chosen = self.data.keep(name)
        if self.secrets.size:
            self.secrets.keep(chosen + SECRETS)
        return chosen

    def close(self) -> None:
        self.data.close()
        self.secrets.close()


class LiveFile:
    """A file that is appended to during an action, and emptied or renamed after it."""

    def __init__(self, folder: Folder, name: str) -> None:
        """Prepare the file; the first write creates it."""
        self.size = 0
        self._folder = folder
        self._name = name
        self._fd: int | None = None

    def write(self, data: bytes) -> None:
        """Append data, and create the file if there is none yet. Raises `OSError` or
        `StorageError`."""
        if self._fd is None:
            self._fd = self._open()
        write_all(self._fd, data)
        self.size += len(data)

    def _open(self) -> int:
        """Create the file; replace one of that name, which cannot be ours."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL
        try:
            return self._folder.open(self._name, flags)
        except FileExistsError:  # not ours: what an earlier process left has been moved away
            self._folder.remove(self._name)
            return self._folder.open(self._name, flags)

    def clear(self) -> None:
        if self._fd is not None and self.size:
            os.ftruncate(self._fd, 0)
            self.size = 0

    def keep(self, name: str, *, sync: bool = True) -> str:
        """Rename the file to the first free name like this, and return that name; the next write
        starts a new file.

        With `sync`, it is on disk when this returns. A file that was never written is created
        empty.
        """
        descriptor = self._open() if self._fd is None else self._fd
        self._fd, self.size = None, 0
        try:
            chosen = _free(self._folder, name)
            self._rename(descriptor, chosen)
            if sync:
                sync_all(descriptor)
                sync_all(self._folder.fd)
        finally:
            os.close(descriptor)
        return chosen

    def _rename(self, descriptor: int, name: str) -> None:
        """Rename the file; if it was removed meanwhile, write it again from the open descriptor."""
        try:
            os.rename(self._name, name, src_dir_fd=self._folder.fd, dst_dir_fd=self._folder.fd)
        except FileNotFoundError:
            # It was removed, but it is still open, so nothing is lost.
            copy = self._folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                _copy(descriptor, copy)
            finally:
                os.close(copy)

    def close(self) -> None:
        """Close the file and remove it if it is empty; only the output of an unfinished action
        stays."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            if not self.size:
                self._folder.remove(self._name)


def _free(folder: Folder, name: str) -> str:
    """Return this name, or with a number added if a file has it: existing files are not changed."""
    chosen, number = name, 1
    while folder.stamp(chosen) is not None:
        number += 1
        chosen = f"{name}-{number}"
    return chosen


def _copy(source: int, target: int) -> None:
    """Copy a file to an open descriptor and flush it to the disk."""
    position = 0
    while piece := os.pread(source, CHUNK, position):
        write_all(target, piece)
        position += len(piece)
    sync_all(target)


def rescue(folder: Folder, step: int, attempt: int) -> None:
    """Rename the live files of an action whose process was killed to the names of that action.

    Empty ones are removed, and those whose names are taken; also a half-written answer
    (`live.text`).
    """
    stem = output_stem(step, attempt)
    places = {LIVE["stdout"]: f"{stem}.out", LIVE["stderr"]: f"{stem}.err"}
    places |= {name + SECRETS: place + SECRETS for name, place in places.items()}
    for name, place in (*places.items(), (LIVE_ORDER, f"{stem}.order"), (LIVE["text"], "")):
        stamp = folder.stamp(name)
        if stamp is not None and stamp.size and place and folder.stamp(place) is None:
            folder.move(name, folder, place)
        elif stamp is not None:
            folder.remove(name)


# ── the limit of a run ─────────────────────────────────────────────────────────────────────────

OUTPUT_NAME: Final = r"\d+-\d+\.(out|err|text|jsonl|order)(-\d+)?(\.secrets)?"
"""The names of output files; other files of the run are never deleted."""


class Trimmed(NamedTuple):
    dropped: list[str]
    size: int


def trim(directory: str, cap: int = RUN_CAP) -> Trimmed:
    """Delete the oldest output files if all together exceed `cap`. Return the names of the deleted
    ones, and how many bytes are left.

    Deletes down to seven eighths of `cap`, so that the directory is not read for every action.
    """
    with os.scandir(directory) as entries:
        files = [
            (stat.st_mtime_ns, entry.name, stat.st_size)
            for entry in entries
            if re.fullmatch(OUTPUT_NAME, entry.name)
            and entry.is_file(follow_symlinks=False)
            and (stat := entry.stat(follow_symlinks=False)) is not None
        ]
    size = sum(file[2] for file in files)
    dropped: list[str] = []
    if size > cap:
        for _, name, length in sorted(files):
            if size <= cap - cap // 8:
                break
            os.unlink(os.path.join(directory, name))
            dropped.append(name)
            size -= length
    return Trimmed(dropped, size)
