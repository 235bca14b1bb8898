"""Read objects back from a store, by git; each is checked against its id."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from little_loops.errors import StoreError
from little_loops.records import NamedTuple
from little_loops.trees.files import StoreFiles
from little_loops.trees.git import Answer, Git
from little_loops.trees.objects import object_id

Take = Callable[[str, bytes], None]
OUT_OF_REACH = "files stored there can no longer be compared or restored"


class ListedBlob(NamedTuple):
    """A line of a tree with all its subtrees."""

    path: str
    mode: str
    id: str


def ask(git: Git, files: StoreFiles, words: list[str], stdin: bytes = b"") -> bytes:
    """What git says about the store; `StoreError` if it cannot."""
    answer = git.store(files.git_dir, words, stdin)
    if answer.code != 0:
        raise unusable(files, answer)
    return answer.out


def unusable(files: StoreFiles, answer: Answer) -> StoreError:
    return StoreError(
        f"the tree store `{files.path}` cannot be read: {answer.complaint}", OUT_OF_REACH
    )


def read_objects(git: Git, files: StoreFiles, names: Iterable[str], take: Take) -> None:
    """Hand over every object, one after the other; names are ids, or `id:path`."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return
    reader = _Batch(files, wanted, take)
    stdin = b"".join(os.fsencode(name) + b"\n" for name in wanted)
    words = ["cat-file", "--batch", "--buffer"]
    answer = git.store(files.git_dir, words, stdin, reader.feed)
    if answer.code != 0:
        raise unusable(files, answer)
    reader.finish()


def read_all(git: Git, files: StoreFiles, names: Iterable[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    read_objects(git, files, names, found.__setitem__)
    return found


class _Batch:
    """The output of `git cat-file --batch`, as it comes."""

    def __init__(self, files: StoreFiles, wanted: list[str], take: Take) -> None:
        self._files = files
        self._wanted = iter(wanted)
        self._left = len(wanted)
        self._take = take
        self._buffer = bytearray()
        self._head: tuple[bytes, bytes, int] | None = None

    def feed(self, chunk: bytes) -> None:
        self._buffer += chunk
        while self._step():
            pass

    def _step(self) -> bool:
        if self._head is None:
            line, newline, _ = self._buffer.partition(b"\n")
            if not newline:
                return False
            del self._buffer[: len(line) + 1]
            self._head = self._read_head(bytes(line))
        id, kind, size = self._head
        if len(self._buffer) <= size:
            return False
        data = bytes(self._buffer[:size])
        del self._buffer[: size + 1]
        self._head = None
        self._left -= 1
        if object_id(kind, data) != bytes.fromhex(id.decode()):
            raise StoreError(
                f"the tree store `{self._files.path}` is damaged: object {id.decode()} was changed",
                OUT_OF_REACH,
            )
        self._take(next(self._wanted), data)
        return True

    def _read_head(self, line: bytes) -> tuple[bytes, bytes, int]:
        parts = line.rsplit(b" ", 2)
        if len(parts) != 3 or not parts[2].isdigit():
            name = os.fsdecode(line.rpartition(b" ")[0])
            raise missing(self._files, name)
        return parts[0], parts[1], int(parts[2])

    def finish(self) -> None:
        if self._left:
            raise StoreError(f"git could not read all of the tree store `{self._files.path}`")


def missing(files: StoreFiles, name: str) -> StoreError:
    return StoreError(f"object {name} is missing from the tree store `{files.path}`", OUT_OF_REACH)


def list_tree(
    git: Git, files: StoreFiles, id: str, paths: Iterable[str] = ()
) -> Iterator[ListedBlob]:
    """Every file and link of a tree, or those at or below certain paths."""
    words = ["ls-tree", "-r", "-z", "--full-tree", id]
    chosen = [f":(literal){path}" for path in paths]
    out = ask(git, files, [*words, "--", *chosen] if chosen else words)
    for line in out.split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        mode, _, object = head.decode("ascii").split(" ")
        yield ListedBlob(os.fsdecode(path), mode, object)


class RawChange(NamedTuple):
    """A line of `git diff-tree --raw`; an id of zeros where there is nothing."""

    path: str
    status: Literal["A", "D", "M", "T"]
    before: str
    after: str


def list_changes(git: Git, files: StoreFiles, before: str, after: str) -> list[RawChange]:
    if before == after:
        return []
    return parse_raw(
        ask(git, files, ["diff-tree", "-r", "-z", "--raw", "--no-renames", before, after])
    )


def parse_raw(out: bytes) -> list[RawChange]:
    """`:mode mode id id status`, and the path."""
    parts = out.split(b"\0")
    found = []
    for head, path in zip(parts[::2], parts[1::2], strict=False):
        _, _, old, new, status = head.decode("ascii").split(" ")
        found.append(RawChange(os.fsdecode(path), status[0], old, new))  # type: ignore[arg-type]
    return found
