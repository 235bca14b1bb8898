"""Seal what the runner of a run with evidence writes, so that nothing else counts.

The files of a run are in the project, where its agents work. So its runner stores, outside the
project, the length of the event log and the hashes of log and snapshot. It does so before it writes
either of them: what a kill leaves behind is sealed, and what is not sealed was written by someone
else.

    STATE/seals/NAME-HASH/
      runs/RUN      the last two seals of a run: of what was about to be written, and the one before
      names/NAME    the newest run of that name

A loop without evidence has no seals. A run without a seal is trusted: it started on another
machine, or before there were seals.

Not here: whether a project has seals (`sealed`), what happens to a run whose files do not match
(`storage`, `reading`).
"""

from __future__ import annotations

import os
import re
from binascii import crc32
from collections.abc import Iterator, Mapping

from little_loops.errors import StorageError
from little_loops.light_typing import TYPE_CHECKING, Final, Self
from little_loops.records import NamedTuple
from little_loops.runs.sealed import SEALS
from little_loops.system.files import (
    PRIVATE_FOLDER,
    Folder,
    failure,
    sync_data,
    write_all,
)
from little_loops.system.user_state import key_of, state_home

if TYPE_CHECKING:
    from hashlib import _Hash

    from little_loops.runs.journal import Opened

RUNS: Final = "runs"
NAMES: Final = "names"
WIDTH: Final = 192
CHUNK: Final = 1 << 18
MAX_NAME_BYTES: Final = 256
NO_STATE: Final = "-" * 64
_SLOT = rb"(\d+) (\d+) ([0-9a-f]{64}) ([0-9a-f]{64}|-{64}) (\d+) *\n"


class Seal(NamedTuple):
    """The length and hash of the log, and the hash of the snapshot."""

    number: int
    length: int
    log: str
    state: str = NO_STATE

    def to_bytes(self) -> bytes:
        body = f"{self.number} {self.length} {self.log} {self.state}".encode("ascii")
        return (b"%b %d" % (body, crc32(body))).ljust(WIDTH - 1) + b"\n"

    @classmethod
    def from_bytes(cls, raw: bytes) -> Seal | None:
        """Decode a seal; None if it is damaged, as after a power cut."""
        found = re.fullmatch(_SLOT, raw)
        if found is None or int(found[5]) != crc32(raw[: found.end(4)]):
            return None
        return cls(int(found[1]), int(found[2]), found[3].decode(), found[4].decode())


class SealedRun(NamedTuple):
    """What the runner of one run has sealed, the newest first."""

    seals: tuple[Seal, ...]

    def has_state(self, raw: bytes) -> bool:
        """Return whether the runner wrote this snapshot."""
        digest = _sha256(raw).hexdigest()
        return any(seal.state == digest for seal in self.seals)

    def is_log(self, raw: bytes) -> bool:
        """Return whether the runner wrote this log, all of it."""
        digest = _sha256(raw).hexdigest()
        return any((seal.length, seal.log) == (len(raw), digest) for seal in self.seals)

    def length_in_log(self, opened: Opened) -> int | None:
        """Return how many bytes of a log the runner wrote; None if it is not its log at all.

        A missing log counts as one of length 0. Raises `StorageError` if it cannot be read.
        """
        descriptor = opened()
        if descriptor is None:
            return 0 if any(seal.length == 0 for seal in self.seals) else None
        try:
            return self._length_in(descriptor)
        except OSError as error:
            raise failure(error, "read", "the event log") from error
        finally:
            os.close(descriptor)

    def _length_in(self, log: int) -> int | None:
        """Return the length of the log that the latest matching seal covers; None if none matches."""
        digest, position, found = _sha256(), 0, None
        for seal in sorted(self.seals, key=lambda one: one.length):
            for piece in _pieces(log, position, seal.length):
                digest.update(piece)
                position += len(piece)
            if (position, digest.hexdigest()) == (seal.length, seal.log):
                found = seal.length
        return found


class Seals:
    """The seals of one project, for those who read its runs."""

    def __init__(self, path: str) -> None:
        self._path = path

    def of(self, run: str) -> SealedRun | None:
        """Return what the runner of a run has sealed; None if it was not sealed here."""
        raw = self._read(RUNS, run, 2 * WIDTH)
        if raw is None:
            return None
        slots = (Seal.from_bytes(raw[at : at + WIDTH]) for at in (0, WIDTH))
        return SealedRun(tuple(sorted((one for one in slots if one is not None), reverse=True)))

    def newest(self, name: str) -> str | None:
        """Return the run that was started last under a name, if it is sealed."""
        raw = self._read(NAMES, name, MAX_NAME_BYTES)
        return raw.decode("ascii", "replace") if raw else None

    def release(self, name: str) -> None:
        """Let another run take the name, by removing the record of its newest run."""
        folder = self._folder(NAMES)
        if folder is not None:
            with folder:
                if folder.stamp(name) is not None:
                    folder.remove(name)
                    folder.sync()

    def forget(self, run: str) -> None:
        """Remove the seals of a deleted run; the name keeps its newest run (`release`)."""
        folder = self._folder(RUNS)
        if folder is not None and _is_plain(run):
            with folder:
                folder.remove(run)

    def _read(self, kind: str, name: str, limit: int) -> bytes | None:
        """Return the content of a file of the seals; None if it is missing or the name is not
        safe."""
        folder = self._folder(kind) if _is_plain(name) else None
        if folder is None:
            return None
        with folder:
            return folder.read(name, limit)

    def _folder(self, kind: str) -> Folder | None:
        return Folder.at(os.path.join(self._path, kind))


def _is_plain(name: str) -> bool:
    """Return whether a run's name is safe: it comes from files that anyone may have written."""
    return bool(name) and "/" not in name and "\0" not in name and name not in (".", "..")


# ── sealing ────────────────────────────────────────────────────────────────────────────────────


class Sealing(NamedTuple):
    """A run to be sealed, and whose state directory has its seals."""

    run: str
    environ: Mapping[str, str]


class SealWriter:
    """Seals one run. Call `extend` and `replace` before log and snapshot are written."""

    def __init__(self, home: Folder, name: str, run: str, seal: Seal, hash: _Hash) -> None:
        """Take over the open folder, and write the first seal, synced. `hash` is that of the log so
        far."""
        self._home = home
        self._name = name
        self._run = run
        self._seal = seal
        self._hash = hash
        self._before = (seal, hash)
        self._is_named = False
        with home.make(RUNS) as runs:
            self._path = runs.place(run)
            self._fd = runs.open(run, os.O_RDWR | os.O_CREAT)
            self._write(seal, sync=True)
            runs.sync()

    @classmethod
    def open(
        cls, root: str, name: str, sealing: Sealing, log: int, length: int, state: bytes | None
    ) -> Self:
        """Seal a run from now on: the first `length` bytes of its open log, and its snapshot, None
        for a new run.

        Creates the directory of seals if needed. Raises `StorageError`.
        """
        run = sealing.run
        home = _make_home(root, sealing.environ)
        try:
            digest = _sha256()
            for piece in _pieces(log, 0, length):
                digest.update(piece)
            snapshot = NO_STATE if state is None else _sha256(state).hexdigest()
            number = _last_number(home, run) + 1
            return cls(home, name, run, Seal(number, length, digest.hexdigest(), snapshot), digest)
        except OSError as error:
            home.close()
            raise failure(error, "read", "the event log") from error
        except BaseException:
            home.close()
            raise

    def extend(self, data: bytes) -> None:
        """Seal the log as it will be with this data appended; synced. Raises `StorageError`."""
        digest = self._hash.copy()
        digest.update(data)
        old = self._seal
        self._before = (old, self._hash)
        self._hash = digest
        length = old.length + len(data)
        self._write(Seal(old.number + 1, length, digest.hexdigest(), old.state), sync=True)

    def take_back(self) -> None:
        """Return to the seal before the last `extend`, because the data could not be written; the
        next seal overwrites it."""
        self._seal, self._hash = self._before

    def replace(self, state: bytes) -> None:
        """Seal this snapshot. Raises `StorageError`.

        Not synced: if a power cut leaves another snapshot than the sealed one, it is rebuilt from
        the log.
        """
        digest = _sha256(state).hexdigest()
        self._write(self._seal._replace(number=self._seal.number + 1, state=digest), sync=False)

    def take_name(self) -> None:
        """Record this as the newest run of its name, now that there is something to read; only
        once."""
        if self._is_named:
            return
        with self._home.make(NAMES) as names:
            temporary = f".tmp-{os.urandom(8).hex()}"
            names.replace(self._name, self._run.encode("ascii"), temporary, sync=True)
        self._is_named = True

    def close(self) -> None:
        os.close(self._fd)
        self._home.close()

    def _write(self, seal: Seal, *, sync: bool) -> None:
        """Write a seal over the older of the two in the file; with `sync`, flush it to the disk.

        Raises `StorageError`.
        """
        try:
            os.lseek(self._fd, WIDTH * (seal.number % 2), os.SEEK_SET)
            write_all(self._fd, seal.to_bytes())
            if sync:
                sync_data(self._fd)
        except OSError as error:
            raise failure(error, "write", self._path) from error
        self._seal = seal


def _make_home(root: str, environ: Mapping[str, str]) -> Folder:
    """Open the directory of a project's seals, for the caller to close; create it if needed. Raises
    `StorageError`."""
    project = os.path.realpath(root)
    path = os.path.join(state_home(environ), SEALS, key_of(project))
    try:
        os.makedirs(path, mode=PRIVATE_FOLDER, exist_ok=True)
    except OSError as error:
        raise failure(error, "make", path) from error
    home = Folder.at(path)
    if home is None:
        raise StorageError(f"`{path}` was removed while it was being created")
    return home


def _last_number(home: Folder, run: str) -> int:
    found = Seals(home.path).of(run)
    return found.seals[0].number if found is not None and found.seals else -1


def _pieces(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of a file between two offsets, in chunks; fewer if it is shorter."""
    while start < end and (piece := os.pread(descriptor, min(CHUNK, end - start), start)):
        start += len(piece)
        yield piece


def _sha256(data: bytes = b"") -> _Hash:
    from hashlib import sha256  # 2 ms that only runs with evidence pay

    return sha256(data)
