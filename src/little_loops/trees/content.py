"""Read files safely and put them into the store: never through a link, never waiting for a pipe."""

from __future__ import annotations

import hashlib
import os
import stat

from little_loops.records import NamedTuple
from little_loops.trees.git import Git, Interrupted
from little_loops.trees.objects import PackWriter, object_id

MAX_FILE_BYTES = 50 << 20
MAX_NEW_BYTES = 500 << 20
CHUNK = 1 << 20
ATTEMPTS = 3
NO_FILE = "neither a file nor a link"
BUSY = "constantly changing"
SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
READ = SAFE | os.O_RDONLY
FOLDER = READ | os.O_DIRECTORY


class Bounds(NamedTuple):
    """What is kept of content: the largest file, and how much new content in one snapshot."""

    file_bytes: int = MAX_FILE_BYTES
    new_bytes: int = MAX_NEW_BYTES


class Unstored(NamedTuple):
    """Content that was too large to be kept."""

    size: int
    sha256: str


class Stored(NamedTuple):
    """A file or link whose content is in the store: what the system said of it, and the id."""

    info: os.stat_result
    id: bytes


class Replaced(Exception):
    """Something else lies there than a moment ago."""


class LeftOut(Exception):
    """Something that cannot be part of a snapshot, for this reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Intake:
    """Where content goes: into the pack that is being written, or into the list of the unstored.

    `budget`: how many bytes may still be read before `Interrupted` is raised; None: as many as
    there are.
    """

    budget: int | None = None

    def __init__(
        self, writer: PackWriter, unstored: dict[bytes, Unstored], bounds: Bounds, git: Git
    ) -> None:
        self.writer = writer
        self.check = git.check
        self.unstored = unstored
        self.bounds = bounds
        self.new_bytes = 0

    def has(self, id: bytes) -> bool:
        return id in self.unstored or self.writer.has(id)

    def blob(self, data: bytes) -> bytes:
        id = object_id(b"blob", data)
        if not self.writer.has(id):
            if self.new_bytes + len(data) > self.bounds.new_bytes:
                self.unstored[id] = Unstored(len(data), hashlib.sha256(data).hexdigest())
            else:
                self.new_bytes += len(data)
                self.writer.add(b"blob", data, id)
                self.unstored.pop(id, None)
        return id

    def entry(self, folder: int, name: str) -> Stored:
        """What lies at a name, with the id of its content.

        Somebody may put something else there at any moment.  Raises `FileNotFoundError` if there is
        nothing, `LeftOut` if it is neither a link nor a file that can be read.
        """
        for _ in range(ATTEMPTS):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            try:
                if stat.S_ISLNK(info.st_mode):
                    return Stored(info, self._link(folder, name))
                if not stat.S_ISREG(info.st_mode):
                    raise LeftOut(NO_FILE)
                return self._file(folder, name)
            except Replaced:
                continue
        raise LeftOut(BUSY)

    def _link(self, folder: int, name: str) -> bytes:
        try:
            return self.blob(os.fsencode(os.readlink(name, dir_fd=folder)))
        except OSError as error:
            raise Replaced from error

    def _file(self, folder: int, name: str) -> Stored:
        try:
            descriptor = os.open(name, READ, dir_fd=folder)
        except PermissionError as error:
            raise LeftOut("not readable") from error
        except OSError as error:
            raise Replaced from error
        try:
            return self._read(descriptor)
        except OSError as error:
            raise LeftOut(f"not readable ({(error.strerror or str(error)).lower()})") from error
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> Stored:
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
        if len(data) > self.bounds.file_bytes:  # it has grown since
            return self._hash(descriptor)
        return Stored(info, self.blob(data))

    def _hash(self, descriptor: int) -> Stored:
        for _ in range(ATTEMPTS):
            info = os.fstat(descriptor)
            id = hashlib.sha1(b"blob %d\0" % info.st_size, usedforsecurity=False)
            plain = hashlib.sha256()
            os.lseek(descriptor, 0, os.SEEK_SET)
            size = 0
            while chunk := os.read(descriptor, CHUNK):
                self.check()
                id.update(chunk)
                plain.update(chunk)
                size += len(chunk)
            if size == info.st_size:
                self.unstored[id.digest()] = Unstored(size, plain.hexdigest())
                return Stored(info, id.digest())
        raise LeftOut(BUSY)


def read_up_to(descriptor: int, limit: int) -> bytes:
    data = os.read(descriptor, min(limit, CHUNK))
    if len(data) < min(limit, CHUNK):
        more = os.read(descriptor, CHUNK)  # at the end of nearly every file: nothing
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
    return os.open(name, FOLDER, dir_fd=folder)
