"""Read files for a snapshot, without following links or blocking on pipes, and store them."""

from __future__ import annotations

import hashlib
import os
import stat

from little_loops.light_typing import TYPE_CHECKING
from little_loops.records import NamedTuple
from little_loops.trees.git import Git, Interrupted
from little_loops.trees.objects import PackWriter, object_id

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

MAX_FILE_BYTES = 50 << 20  # said in docs/explanation/proof.md
"""A larger file is recorded only by its size and hash, and cannot be restored."""
MAX_NEW_BYTES = 500 << 20
CHUNK = 1 << 20
ATTEMPTS = 3
TOO_LARGE = "too large to be stored"
LEFT_OUT = "left out of the run file, because it contains a secret"
NO_FILE = "neither a file nor a link"
BUSY = "constantly changing"
SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
READ = SAFE | os.O_RDONLY
FOLDER = READ | os.O_DIRECTORY


class Bounds(NamedTuple):
    """Limits on stored content: the largest file, and the new bytes in one snapshot."""

    file_bytes: int = MAX_FILE_BYTES
    new_bytes: int = MAX_NEW_BYTES


class Unstored(NamedTuple):
    """The size and hash of content that is not stored, because it was too large, or was left out of
    the run file that it would have come from."""

    size: int
    sha256: str
    is_left_out: bool = False

    @classmethod
    def of(cls, data: bytes) -> Unstored:
        return cls(len(data), hashlib.sha256(data).hexdigest())

    @property
    def why(self) -> str:
        return LEFT_OUT if self.is_left_out else TOO_LARGE


class StoredContent(NamedTuple):
    """A file or link that was read: its stat result and the object id of its content."""

    info: os.stat_result
    id: bytes


class Replaced(Exception):
    """The path was replaced by something else while it was being read."""


class NotStored(Exception):
    """The path cannot be part of a snapshot; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Intake:
    """Takes in file content: adds it to the open pack, or lists it as unstored if it is too large.

    `budget` is the number of bytes that may still be read before `Interrupted` is raised; None
    means no limit.
    """

    budget: int | None = None

    def __init__(
        self, writer: PackWriter, unstored: dict[bytes, Unstored], bounds: Bounds, git: Git
    ) -> None:
        """Store through `writer`; what is too large is added to `unstored`. `git` says when to stop
        early."""
        self.writer = writer
        self.check = git.check
        self.unstored = unstored
        self.bounds = bounds
        self.new_bytes = 0

    def has(self, id: bytes) -> bool:
        """Return whether content with this id needs no reading: it is stored, or was too large."""
        return self._is_too_large(id) or self.writer.has(id)

    def _is_too_large(self, id: bytes) -> bool:
        return id in self.unstored and not self.unstored[id].is_left_out

    def blob(self, data: bytes) -> bytes:
        """Store the content, or list it as unstored if the snapshot would exceed
        `bounds.new_bytes`. Return its id in both cases."""
        id = object_id(b"blob", data)
        if not self.writer.has(id):
            if self.new_bytes + len(data) > self.bounds.new_bytes:
                self.unstored[id] = Unstored.of(data)
            else:
                self.new_bytes += len(data)
                self.writer.add(b"blob", data, id)
                self.unstored.pop(id, None)
        return id

    def entry(self, folder: int, name: str) -> StoredContent:
        """Read the file or link `name` in the open directory `folder` and return its stat and
        content id.

        Retries if the path is replaced meanwhile. Raises `FileNotFoundError` if nothing is there,
        `NotStored` if it is neither a link nor a readable file, and `Interrupted` on a stop.
        """
        for _ in range(ATTEMPTS):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            try:
                if stat.S_ISLNK(info.st_mode):
                    return StoredContent(info, self._link(folder, name))
                if not stat.S_ISREG(info.st_mode):
                    raise NotStored(NO_FILE)
                return self._file(folder, name)
            except Replaced:
                continue
        raise NotStored(BUSY)

    def _link(self, folder: int, name: str) -> bytes:
        """Store a link's target and return its id; raise `Replaced` if it is no longer a link."""
        try:
            return self.blob(os.fsencode(os.readlink(name, dir_fd=folder)))
        except OSError as error:
            raise Replaced from error

    def _file(self, folder: int, name: str) -> StoredContent:
        """Open and store a regular file; raise `Replaced` if it is gone, `NotStored` if unreadable."""
        try:
            descriptor = os.open(name, READ, dir_fd=folder)
        except PermissionError as error:
            raise NotStored("not readable") from error
        except OSError as error:
            raise Replaced from error
        try:
            return self._read(descriptor)
        except OSError as error:
            raise NotStored(f"not readable ({(error.strerror or str(error)).lower()})") from error
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> StoredContent:
        """Store an open file; one larger than `bounds.file_bytes` is only hashed.

        Raises `Interrupted` once the read budget is used up.
        """
        self.check()
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise Replaced
        if self.budget is not None:
            self.budget -= info.st_size
            if self.budget < 0:
                raise Interrupted("stop")
        if info.st_size > self.bounds.file_bytes:
            return self._hash(descriptor)
        data = read_up_to(descriptor, self.bounds.file_bytes + 1)
        if len(data) > self.bounds.file_bytes:  # it has grown since `fstat`
            return self._hash(descriptor)
        return StoredContent(info, self.blob(data))

    def _hash(self, descriptor: int) -> StoredContent:
        """Hash a file that is too large to store, and list it as unstored. Its SHA-256 is computed
        only if the content is new, because that takes as long as the id.

        Raises `NotStored` if its size changes during every attempt.
        """
        for _ in range(ATTEMPTS):
            info = os.fstat(descriptor)
            size, id = info.st_size, hashlib.sha1(usedforsecurity=False)
            listed = any(one.size == size for one in self.unstored.values())
            if listed and self._feed(descriptor, size, id) and self._is_too_large(id.digest()):
                return StoredContent(info, id.digest())
            id, plain = hashlib.sha1(usedforsecurity=False), hashlib.sha256()
            if self._feed(descriptor, size, id, plain):
                self.unstored[id.digest()] = Unstored(size, plain.hexdigest())
                return StoredContent(info, id.digest())
        raise NotStored(BUSY)

    def _feed(self, descriptor: int, size: int, id: Hash, plain: Hash | None = None) -> bool:
        """Hash a whole file from its start: into `id` as a git blob of this size, and into `plain`
        as it is. Return whether the file has this size; it may be changing. Raises `Interrupted`."""
        id.update(b"blob %d\0" % size)
        os.lseek(descriptor, 0, os.SEEK_SET)
        left = size
        while chunk := os.read(descriptor, CHUNK):
            self.check()
            id.update(chunk)
            if plain is not None:
                plain.update(chunk)
            left -= len(chunk)
        return left == 0


def read_up_to(descriptor: int, limit: int) -> bytes:
    """Read at most `limit` bytes from a descriptor; fewer only if the file ends before."""
    data = os.read(descriptor, min(limit, CHUNK))
    if len(data) < min(limit, CHUNK):
        more = os.read(descriptor, CHUNK)  # nearly always empty: the end of the file
        if not more:
            return data
        data += more
    pieces = [data]
    room = limit - len(data)
    while room > 0 and (piece := os.read(descriptor, min(room, CHUNK))):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)


def open_folder(name: str, folder: int | None = None) -> int:
    """Open a directory, relative to the open directory `folder` if given; never through a link."""
    return os.open(name, FOLDER, dir_fd=folder)
