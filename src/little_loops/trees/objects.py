"""Write and look up git objects without starting a process.

A snapshot writes its new objects as one pack with an index, flushed to the disk before anything
refers to it. There are no loose objects: a handful of packs can be listed at every snapshot, so
that a missing one is noticed.

Not here: reading objects back (`reading`, through git), merging the packs (`upkeep`).
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.system.files import sync_all, write_all
from little_loops.system.plain_files import reading

ID_BYTES = 20
SHA1_CHARS = 2 * ID_BYTES
EMPTY_TREE = bytes.fromhex("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
LONG_EMPTY_TREE = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
"""The same in a repository with SHA-256."""
DIRECTORY, PLAIN, PROGRAM, LINK = b"40000", b"100644", b"100755", b"120000"
KINDS = {b"blob": 3, b"tree": 2}
BUFFER = 1 << 20
QUICK = 1  # zlib's fastest level: the packs are merged when the run has ended
FANOUT_AT, IDS_AT = 8, 8 + 256 * 4
INDEX_HEAD = b"\xfftOc\x00\x00\x00\x02"
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
TEMPORARY = "tmp_"  # what git itself calls unfinished files


class TreeEntry(NamedTuple):
    """An entry of a tree object, with the mode as git writes it."""

    mode: bytes
    name: bytes
    id: bytes


def object_id(kind: bytes, data: bytes) -> bytes:
    """Return the SHA-1 id that git gives to an object (`blob` or `tree`) with this content."""
    return _sha1(b"%s %d\0" % (kind, len(data)), data)


def _sha1(*pieces: bytes) -> bytes:
    """Return the SHA-1 of these pieces together."""
    digest = hashlib.sha1(usedforsecurity=False)
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def tree_data(entries: Iterable[TreeEntry]) -> bytes:
    """Return the content of a tree object; git sorts a directory as if its name ended in a slash."""
    ordered = sorted(entries, key=lambda one: one[1] + b"/" if one[0] == DIRECTORY else one[1])
    return b"".join(b"%s %s\0%s" % one for one in ordered)


class PackWriter:
    """Collects new objects in a temporary pack, which becomes part of the store in `finish`."""

    def __init__(self, folder: str, stored: PackSet, check: Callable[[], None]) -> None:
        """Write a pack to `folder`; `check` is called for every chunk, and raises if the work is to
        stop."""
        self._folder = folder
        self._check = check
        self._stored = stored
        self._path = ""
        self._fd = -1
        self._buffer = bytearray()
        self._at = 0
        self._entries: dict[bytes, tuple[int, int]] = {}

    def has(self, id: bytes) -> bool:
        """Return whether an object is in this pack or already in the store."""
        return id in self._entries or id in self._stored

    def add(self, kind: bytes, data: bytes, id: bytes | None = None) -> bytes:
        """Add an object, unless this pack or the store has it. Return its id, which may be given if
        known."""
        id = id or object_id(kind, data)
        if self.has(id):
            return id
        if self._fd < 0:
            self._begin()
        piece = _pack_head(KINDS[kind], len(data)) + self._compressed(data)
        self._entries[id] = (self._at, zlib.crc32(piece))
        self._at += len(piece)
        self._buffer += piece
        if len(self._buffer) >= BUFFER:
            self._flush()
        return id

    def _compressed(self, data: bytes) -> bytes:
        """Compress the data, calling `check` between chunks."""
        if len(data) <= BUFFER:
            return zlib.compress(data, QUICK)
        packer, view = zlib.compressobj(QUICK), memoryview(data)
        pieces = []
        for at in range(0, len(data), BUFFER):
            self._check()
            pieces.append(packer.compress(view[at : at + BUFFER]))
        return b"".join([*pieces, packer.flush()])

    def finish(self) -> None:
        """Add the pack to the store, flushed to the disk; the index comes last, because git looks
        for that.

        Do nothing if no object was added.
        """
        if self._fd < 0:
            return
        self._flush()
        checksum = self._seal()
        stem = os.path.join(self._folder, f"pack-{checksum.hex()}")
        index = os.path.join(self._folder, f"{TEMPORARY}idx_{os.urandom(8).hex()}")
        _write_new(index, _index_data(self._entries, checksum))
        os.rename(self._path, f"{stem}.pack")
        os.rename(index, f"{stem}.idx")
        _sync_folder(self._folder)
        self._fd = -1
        self._entries = {}
        self._stored.refresh()

    def abandon(self) -> None:
        """Discard the pack, if it was begun and not finished."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            with suppress(OSError):
                os.unlink(self._path)

    def _begin(self) -> None:
        """Open the temporary pack file and start it with a header."""
        self._path = os.path.join(self._folder, f"{TEMPORARY}pack_{os.urandom(8).hex()}")
        self._fd = os.open(self._path, NEW, 0o600)
        self._buffer += b"PACK" + struct.pack(">II", 2, 0)
        self._at = len(self._buffer)

    def _flush(self) -> None:
        write_all(self._fd, bytes(self._buffer))
        self._buffer.clear()

    def _seal(self) -> bytes:
        """Write the number of objects into the header and the checksum at the end, flush and close
        the file. Return the checksum."""
        os.pwrite(self._fd, struct.pack(">I", len(self._entries)), 8)
        os.lseek(self._fd, 0, os.SEEK_SET)
        digest = hashlib.sha1(usedforsecurity=False)
        while chunk := os.read(self._fd, BUFFER):
            self._check()
            digest.update(chunk)
        write_all(self._fd, digest.digest())
        sync_all(self._fd)
        os.close(self._fd)
        return digest.digest()


def _pack_head(kind: int, size: int) -> bytes:
    """Return the header of an object in a pack: its type and size, seven bits per byte."""
    first, size = (kind << 4) | (size & 15), size >> 4
    head = bytearray()
    while size:
        head.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    head.append(first)
    return bytes(head)


def _index_data(entries: dict[bytes, tuple[int, int]], checksum: bytes) -> bytes:
    """Return the content of a version 2 pack index; `entries` maps an id to its offset and CRC."""
    ids = sorted(entries)
    counts = [0] * 256
    for id in ids:
        counts[id[0]] += 1
    fanout, total = [], 0
    for count in counts:
        total += count
        fanout.append(total)
    data = INDEX_HEAD + struct.pack(">256I", *fanout) + b"".join(ids)
    data += struct.pack(f">{total}I", *(entries[id][1] for id in ids))
    data += struct.pack(f">{total}I", *(entries[id][0] for id in ids))
    data += checksum
    return data + _sha1(data)


def _write_new(path: str, data: bytes) -> None:
    """Create a file and flush it to the disk. Raises `OSError`, also if it exists."""
    descriptor = os.open(path, NEW, 0o600)
    try:
        write_all(descriptor, data)
        sync_all(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(path: str) -> None:
    """Flush the names in a directory to the disk. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)


class PackSet:
    """The set of all objects in a store's packs."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._indexes: dict[str, mmap.mmap] = {}
        self._sizes: dict[str, int] = {}

    def refresh(self) -> None:
        """Open the indexes of new packs; raise `StoreError` if a known pack is gone.

        After `forget`, no pack is known.
        """
        try:
            with os.scandir(self._folder) as entries:
                found = {one.name: one.stat().st_size for one in entries if _is_pack(one.name)}
        except OSError as error:
            raise _missing(self._folder) from error
        for name, size in self._sizes.items():
            if found.get(name) != size:
                raise _missing(os.path.join(self._folder, name))
        for name in found.keys() - self._sizes.keys():
            self._open_index(name, found)
        self._sizes = found

    def forget(self) -> None:
        """Forget all packs, because they were merged and others may be there now."""
        for index in self._indexes.values():
            index.close()
        self._indexes.clear()
        self._sizes.clear()

    def _open_index(self, name: str, found: dict[str, int]) -> None:
        """Map the index of a new pack into memory; raise `StoreError` if it is damaged or has no
        pack."""
        if not name.endswith(".idx"):
            return
        path = os.path.join(self._folder, name)
        if f"{name.removesuffix('.idx')}.pack" not in found:
            raise _missing(path.removesuffix(".idx") + ".pack")
        try:
            with reading(path) as file:
                index = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise _damaged(path) from error
        self._indexes[name] = index
        if index[:8] != INDEX_HEAD or len(index) < IDS_AT + _count(index) * ID_BYTES:
            raise _damaged(path)

    def __contains__(self, id: object) -> bool:
        assert isinstance(id, bytes)
        return id == EMPTY_TREE or any(_has(index, id) for index in self._indexes.values())

    def __len__(self) -> int:
        return len(self._indexes)


def _is_pack(name: str) -> bool:
    return name.startswith("pack-") and name.endswith((".pack", ".idx"))


def _count(index: mmap.mmap) -> int:
    return int.from_bytes(index[IDS_AT - 4 : IDS_AT], "big")


def _has(index: mmap.mmap, id: bytes) -> bool:
    """Return whether a pack index contains an id, by binary search."""
    at = FANOUT_AT + 4 * id[0]
    low = int.from_bytes(index[at - 4 : at], "big") if id[0] else 0
    high = int.from_bytes(index[at : at + 4], "big")
    while low < high:
        middle = (low + high) // 2
        place = IDS_AT + middle * ID_BYTES
        found = index[place : place + ID_BYTES]
        if found == id:
            return True
        low, high = (middle + 1, high) if found < id else (low, middle)
    return False


def _missing(path: str) -> StoreError:
    return StoreError(
        f"`{path}` is missing from the tree store",
        "files stored there can no longer be compared or restored",
    )


def _damaged(path: str) -> StoreError:
    return StoreError(
        f"the tree store is damaged: `{path}` is not a valid pack index",
        "files stored there can no longer be compared or restored",
    )
