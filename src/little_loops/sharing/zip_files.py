"""Write and read zip files of exactly one form.

Any zip program can open what is written here. The other way round, only that form is accepted: the
entries follow each other without a gap, in the order of the directory at the end, and everything
that has no meaning for us (times, attributes, extra fields, comments) has one fixed value. So there
is nothing in a file that two programs could read differently, and nothing hidden between entries.

Not here: which entries there are (`run_file`).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator

from little_loops.light_typing import BinaryIO, Final
from little_loops.records import NamedTuple

MAX_FILE_BYTES: Final = 2 << 30
MAX_ENTRIES: Final = 50_000
MAX_NAME_BYTES: Final = 400
CHUNK: Final = 1 << 20
STORED, DEFLATED = 0, 8
VERSION: Final = 20
DAY: Final = (1980 - 1980) << 9 | 1 << 5 | 1
"""1 January 1980, the earliest date that a zip file can have."""
UNIX: Final = 3
MODE: Final = 0o100600 << 16

LOCAL: Final = struct.Struct("<4s5H3I2H")
CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
END: Final = struct.Struct("<4s4H2IH")


class WrongZip(ValueError):
    """A file that is not of our form; the text says why."""


class ZipEntry(NamedTuple):
    """An entry of a zip file: what its headers say, and where its data begins."""

    name: str
    method: int
    crc: int
    packed: int
    size: int
    offset: int

    def local(self) -> bytes:
        """Return the header in front of the data."""
        name = self.name.encode("ascii")
        sizes = (self.crc, self.packed, self.size)
        return LOCAL.pack(b"PK\3\4", VERSION, 0, self.method, 0, DAY, *sizes, len(name), 0) + name

    def central(self) -> bytes:
        """Return the header in the directory at the end of the file."""
        name = self.name.encode("ascii")
        made_by = UNIX << 8 | VERSION
        fixed = (made_by, VERSION, 0, self.method, 0, DAY, self.crc, self.packed, self.size)
        rest = (len(name), 0, 0, 0, 0, MODE, self.offset)
        return CENTRAL.pack(b"PK\1\2", *fixed, *rest) + name


# ── writing ────────────────────────────────────────────────────────────────────────────────────


class ZipWriter:
    """Writes entries to a stream; `finish` completes the file."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._at = 0
        self._entries: list[ZipEntry] = []

    def add(self, name: str, data: bytes) -> None:
        """Add an entry, compressed if that makes it smaller. Raises `WrongZip` if the file becomes
        too large."""
        packed, method = _deflated(data), DEFLATED
        if len(packed) >= len(data):
            packed, method = data, STORED
        entry = ZipEntry(name, method, zlib.crc32(data), len(packed), len(data), self._at)
        if self._at + len(packed) > MAX_FILE_BYTES or len(self._entries) >= MAX_ENTRIES:
            raise WrongZip("too large")
        self._entries.append(entry)
        self._write(entry.local())
        self._write(packed)

    def finish(self) -> None:
        start = self._at
        for entry in self._entries:
            self._write(entry.central())
        count = len(self._entries)
        self._write(END.pack(b"PK\5\6", 0, 0, count, count, self._at - start, start, 0))

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._at += len(data)


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


# ── reading ────────────────────────────────────────────────────────────────────────────────────


class ZipReader:
    """The entries of an open file, whose headers have been checked; data is read on demand."""

    def __init__(self, stream: BinaryIO) -> None:
        """Read the directory at the end. Raises `WrongZip`, and `OSError`."""
        self._stream = stream
        self._size = os.fstat(stream.fileno()).st_size
        self.entries = tuple(self._directory())

    def _directory(self) -> Iterator[ZipEntry]:
        """Yield the entries, after checking that they and their headers fill the file exactly."""
        if not END.size <= self._size <= MAX_FILE_BYTES:
            raise WrongZip("it is not a zip file" if self._size < END.size else "it is too large")
        end = END.unpack(self._read(self._size - END.size, END.size))
        count, length, start = end[3], end[5], end[6]
        if end != (b"PK\5\6", 0, 0, count, count, length, start, 0):
            raise WrongZip("it is not a zip file, or was changed by another program")
        if start + length + END.size != self._size or count > MAX_ENTRIES:
            raise WrongZip("its directory has the wrong size")
        directory, at, offset = self._read(start, length), 0, 0
        for _ in range(count):
            entry = _entry_at(directory, at, offset)
            if self._read(offset, len(entry.local())) != entry.local():
                raise WrongZip(f"the two headers of `{entry.name}` differ")
            at += len(entry.central())
            offset += len(entry.local()) + entry.packed
            yield entry
        if (at, offset) != (length, start):
            raise WrongZip("there is data between its entries")

    def data(self, entry: ZipEntry, limit: int) -> bytes:
        """Return the content of an entry. Raises `WrongZip` if it is damaged, or larger than
        `limit` or than its header says; nothing beyond that is unpacked."""
        if entry.size > limit:
            raise WrongZip(f"`{entry.name}` is larger than {limit} bytes")
        packed = self._read(entry.offset + len(entry.local()), entry.packed)
        data = packed if entry.method == STORED else _inflated(entry, packed)
        if len(data) != entry.size or zlib.crc32(data) != entry.crc:
            raise WrongZip(f"`{entry.name}` is damaged")
        return data

    def _read(self, offset: int, size: int) -> bytes:
        self._stream.seek(offset)
        data = self._stream.read(size)
        if len(data) != size:
            raise WrongZip("it ends too early")
        return data


def _entry_at(directory: bytes, at: int, offset: int) -> ZipEntry:
    """Return the entry whose header begins at `at` in the directory; `offset` is where the entry
    itself must begin in the file. Raises `WrongZip` unless it is exactly as `ZipWriter` would
    write it."""
    try:
        fields = CENTRAL.unpack_from(directory, at)
    except struct.error:
        raise WrongZip("its directory ends too early") from None
    method, crc, packed, size, length = fields[4], *fields[7:11]
    raw = directory[at + CENTRAL.size : at + CENTRAL.size + length]
    name = raw.decode("ascii", "backslashreplace")
    if not raw.isascii() or not 0 < length <= MAX_NAME_BYTES:
        raise WrongZip(f"`{name[:MAX_NAME_BYTES]}` is not a valid name")
    entry = ZipEntry(name, method, crc, packed, size, offset)
    written = directory[at : at + len(entry.central())]
    if method not in (STORED, DEFLATED) or written != entry.central():
        raise WrongZip(f"the header of `{name}` was not written by `ll-loop export`")
    return entry


def _inflated(entry: ZipEntry, packed: bytes) -> bytes:
    """Decompress data, to at most the size in its header."""
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = unpacker.decompress(packed, entry.size + 1)
    except zlib.error:
        raise WrongZip(f"`{entry.name}` is damaged") from None
    if not unpacker.eof or unpacker.unused_data:
        raise WrongZip(f"`{entry.name}` is not as large as its header says")
    return data
