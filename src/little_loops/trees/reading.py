"""Read objects back from a store through git, and verify each against its id."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from little_loops.errors import StoreError
from little_loops.light_typing import Literal
from little_loops.records import NamedTuple
from little_loops.trees.files import StoreFiles
from little_loops.trees.git import Git, GitOutput
from little_loops.trees.objects import object_id

Take = Callable[[str, bytes], None]
OUT_OF_REACH = "files stored there can no longer be compared or restored"


class ListedBlob(NamedTuple):
    """A file or link in a recursive listing of a tree."""

    path: str
    mode: str
    id: str


def run_git(git: Git, files: StoreFiles, words: list[str], stdin: bytes = b"") -> bytes:
    """Run git on the store and return its output; raise `StoreError` if it fails."""
    answer = git.store(files.git_dir, words, stdin)
    if answer.code != 0:
        raise cannot_read(files, answer)
    return answer.out


def cannot_read(files: StoreFiles, answer: GitOutput) -> StoreError:
    """Return the error for a store that git failed to read."""
    return StoreError(
        f"the tree store `{files.path}` cannot be read: {answer.complaint}", OUT_OF_REACH
    )


def read_objects(git: Git, files: StoreFiles, names: Iterable[str], take: Take) -> None:
    """Pass each object to `take(name, data)`; a name is an id, or `id:path`.

    Raises `StoreError` if an object is missing or damaged.
    """
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return
    reader = _Batch(files, wanted, take)
    stdin = b"".join(os.fsencode(name) + b"\n" for name in wanted)
    words = ["cat-file", "--batch", "--buffer"]
    answer = git.store(files.git_dir, words, stdin, reader.feed)
    if answer.code != 0:
        raise cannot_read(files, answer)
    reader.finish()


def read_all(git: Git, files: StoreFiles, names: Iterable[str]) -> dict[str, bytes]:
    """Return the content of objects by name, as in `read_objects`."""
    found: dict[str, bytes] = {}
    read_objects(git, files, names, found.__setitem__)
    return found


class _Batch:
    """Parses the output of `git cat-file --batch` as it arrives."""

    def __init__(self, files: StoreFiles, wanted: list[str], take: Take) -> None:
        self._files = files
        self._wanted = iter(wanted)
        self._left = len(wanted)
        self._take = take
        self._buffer = bytearray()
        self._head: tuple[bytes, bytes, int] | None = None

    def feed(self, chunk: bytes) -> None:
        """Take a chunk of output and pass on all objects that are complete."""
        self._buffer += chunk
        while self._take_object():
            pass

    def _take_object(self) -> bool:
        """Pass on the next object; return False if it is not complete yet."""
        if self._head is None:
            line, newline, _ = self._buffer.partition(b"\n")
            if not newline:
                return False
            del self._buffer[: len(line) + 1]
            self._head = self._parse_header(bytes(line))
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

    def _parse_header(self, line: bytes) -> tuple[bytes, bytes, int]:
        """Return the id, kind and size of the next object; raise `StoreError` if it is missing."""
        parts = line.rsplit(b" ", 2)
        if len(parts) != 3 or not parts[2].isdigit():
            name = os.fsdecode(line.rpartition(b" ")[0])
            raise missing(self._files, name)
        return parts[0], parts[1], int(parts[2])

    def finish(self) -> None:
        """Raise `StoreError` if objects are missing at the end of the output."""
        if self._left:
            raise StoreError(f"git could not read all of the tree store `{self._files.path}`")


def missing(files: StoreFiles, name: str) -> StoreError:
    return StoreError(f"object {name} is missing from the tree store `{files.path}`", OUT_OF_REACH)


def list_tree(
    git: Git, files: StoreFiles, id: str, paths: Iterable[str] = ()
) -> Iterator[ListedBlob]:
    """Yield every file and link of a tree, or those at or below the given paths. Raises
    `StoreError`."""
    words = ["ls-tree", "-r", "-z", "--full-tree", id]
    chosen = [f":(literal){path}" for path in paths]
    out = run_git(git, files, [*words, "--", *chosen] if chosen else words)
    for line in out.split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        mode, _, object = head.decode("ascii").split(" ")
        yield ListedBlob(os.fsdecode(path), mode, object)


class RawChange(NamedTuple):
    """A line of `git diff-tree --raw`; an id is all zeros if the file does not exist on that side.

    `mode` is the one after the change.
    """

    path: str
    status: Literal["A", "D", "M", "T"]
    before: str
    after: str
    mode: str

    @property
    def content(self) -> str:
        """The id after the change; empty if the file does not exist any more."""
        return self.after if self.after.strip("0") else ""


def list_changes(git: Git, files: StoreFiles, before: str, after: str) -> list[RawChange]:
    """Return the files that differ between two trees; a rename is a deletion and an addition.

    Raises `StoreError`.
    """
    if before == after:
        return []
    return parse_raw(
        run_git(git, files, ["diff-tree", "-r", "-z", "--raw", "--no-renames", before, after])
    )


def parse_raw(out: bytes) -> list[RawChange]:
    """Parse the output of `git diff-tree -z --raw`: `:mode mode id id status`, then the path."""
    parts = out.split(b"\0")
    found = []
    for head, path in zip(parts[::2], parts[1::2], strict=False):
        _, mode, old, new, status = head.decode("ascii").split(" ")
        change = RawChange(os.fsdecode(path), status[0], old, new, mode)  # type: ignore[arg-type]
        found.append(change)
    return found
