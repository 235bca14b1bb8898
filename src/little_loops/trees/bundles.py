"""Move the trees of a run, and of those it started, from a store to another one, as a git bundle.

A bundle has everything that they have recorded: the trees, and the content of their files. Two
kinds of content stay out: what was too large to be stored, and files that the caller leaves out
because of what they contain. Both are listed, so that every tree keeps its id, and a file that is
missing is not mistaken for one that never existed.

Ignored files of the project, and the rest of the repository around it, are not part of a bundle.

A bundle may come from anywhere. It is unpacked in a directory of its own and read there from
beginning to end; only what has been checked is written to the store.

Not here: what else a run file contains (`sharing`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from little_loops.errors import StoreError
from little_loops.light_typing import Final
from little_loops.records import NamedTuple
from little_loops.trees import files as store_files
from little_loops.trees.content import Unstored
from little_loops.trees.files import StoreFiles
from little_loops.trees.git import Git
from little_loops.trees.guard import LIST, decode
from little_loops.trees.objects import DIRECTORY, ID_BYTES, LINK, PLAIN, PROGRAM, TreeEntry
from little_loops.trees.reading import read_objects, run_git
from little_loops.trees.rules import Rules
from little_loops.trees.store import TreeStore

HEADER: Final = b"# v2 git bundle\n"
MAX_CONTENT_BYTES: Final = 4 << 30
"""The maximum size of a bundle's contents, unpacked."""
MAX_OBJECT_BYTES: Final = 256 << 20
_MODES = (DIRECTORY, PLAIN, PROGRAM, LINK)
# Repeatable: the same objects always give the same bytes, whatever packs they were in before.
_PACK = ["pack-objects", "--quiet", "--stdout", "--no-reuse-delta", "--no-reuse-object"]
_NEVER_NAMES = (b"", b".", b"..")

HasSecret = Callable[[bytes], bool]


class Bundle(NamedTuple):
    """The trees of runs. `ids` are those they have recorded, in order; `missing` is the content that
    these trees refer to and the bundle does not have. `modes` has a file of the store for some ids.
    `of` are the ids of each run."""

    ids: tuple[str, ...]
    data: bytes
    modes: Mapping[str, bytes] = {}
    missing: Mapping[str, Unstored] = {}
    of: Mapping[str, tuple[str, ...]] = {}


class SecretName(Exception):
    """A secret is part of the name of a file, so no tree can be bundled without it."""


class WrongBundle(ValueError):
    """A bundle that cannot be used; the text says why."""


# ── writing ────────────────────────────────────────────────────────────────────────────────────


def write_bundle(store: TreeStore, runs: Iterable[Rules], has_secret: HasSecret) -> Bundle:
    """Return the trees that runs have recorded. Files for which `has_secret` is true are left out.

    Raises `SecretName` if the name of a file is such a text, and `StoreError`.
    """
    with store.using():
        return _Writer(store, has_secret).write(runs)


class _Writer:
    """Selects the objects of a bundle."""

    def __init__(self, store: TreeStore, has_secret: HasSecret) -> None:
        self._store = store
        self._has_secret = has_secret
        self._git, self._files = store.git, store.files

    def write(self, runs: Iterable[Rules]) -> Bundle:
        """Return the bundle of runs; the store's lock must be held."""
        of = {rules.run: self._recorded(rules) for rules in runs}
        ids = tuple(dict.fromkeys(id for each in of.values() for id in each))
        missing = self._missing_among(self._reachable(ids))
        present = [id for id in self._reachable(ids) if id not in missing]
        missing |= self._secret_ones(present, ids)
        modes = dict(self._modes(ids))
        pack = self._pack(id for id in present if id not in missing) if ids else b""
        return Bundle(ids, _header(ids) + pack, modes, missing, of)

    def _recorded(self, rules: Rules) -> tuple[str, ...]:
        """Return the trees that a run has recorded, in order."""
        around = rules.around.tree if rules.around is not None else ""
        recorded = store_files.read(self._files.place("runs", rules.run)) or b""
        kinds = self._kinds(dict.fromkeys(recorded.decode("ascii", "replace").split()))
        return tuple(id for id, kind in kinds.items() if kind == "tree" and id != around)

    def _kinds(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the kind of each object, in order; `missing` if the store does not have it."""
        stdin = "".join(f"{id}\n" for id in ids).encode("ascii")
        out = run_git(self._git, self._files, ["cat-file", "--batch-check", "--buffer"], stdin)
        lines = (line.split(" ") for line in out.decode("ascii").splitlines())
        return {words[0]: words[1] for words in lines}

    def _reachable(self, ids: Iterable[str]) -> list[str]:
        """Return the ids of these trees and of everything in them, stored or not, sorted."""
        stdin = "".join(f"{id}\n" for id in ids).encode("ascii")
        words = ["rev-list", "--objects", "--no-object-names", "--missing=allow-any", "--stdin"]
        out = run_git(self._git, self._files, words, stdin) if stdin else b""
        return sorted(set(out.decode("ascii").split()))

    def _missing_among(self, ids: Iterable[str]) -> dict[str, Unstored]:
        """Return the content that was too large to be stored. Raises `StoreError` if anything else
        is missing."""
        gone = [id for id, kind in self._kinds(ids).items() if kind == "missing"]
        lost = [id for id in gone if not self._store.is_unstored(id)]
        if lost:
            raise StoreError(f"object {lost[0]} is missing from `{self._files.path}`")
        return {id: self._store.unstored(id) for id in gone}

    def _secret_ones(self, present: Iterable[str], ids: Iterable[str]) -> dict[str, Unstored]:
        """Return the files with a secret in them. Raises `SecretName`."""
        kinds, found = self._kinds(present), dict[str, bytes]()

        def take(id: str, data: bytes) -> None:
            if self._has_secret(data):
                found[id] = data

        read_objects(self._git, self._files, kinds, take)
        lists = self._lists_of(ids)
        if any(kinds[id] == "tree" or id in lists for id in found):
            raise SecretName
        return {id: Unstored.of(data)._replace(is_left_out=True) for id, data in found.items()}

    def _lists_of(self, ids: Iterable[str]) -> frozenset[str]:
        """Return the ids of the lists of paths that guards consist of."""
        found: list[str] = []

        def take(_: str, data: bytes) -> None:
            found.extend(one.id.hex() for one in entries_of(data) if one.name == LIST)

        read_objects(self._git, self._files, ids, take)
        return frozenset(found)

    def _modes(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the modes that were saved for some ids. Raises `SecretName`."""
        for id in ids:
            data = store_files.read(self._files.place("modes", id))
            if data is not None:
                if self._has_secret(data):
                    raise SecretName
                yield id, data

    def _pack(self, ids: Iterable[str]) -> bytes:
        stdin = "".join(f"{id}\n" for id in ids).encode("ascii")
        return run_git(self._git, self._files, _PACK, stdin)


def _header(ids: Iterable[str]) -> bytes:
    refs = "".join(f"{id} refs/trees/{id}\n" for id in ids)
    return HEADER + refs.encode("ascii") + b"\n"


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def check_bundle(bundle: Bundle, git: Git, scratch: str) -> CheckedBundle:
    """Unpack a bundle into the directory `scratch`, which is created, and check all of it.

    Raises `WrongBundle`, and `StoreError` if git cannot be used.
    """
    pack = _pack_in(bundle)
    files = _make_quarantine(scratch)
    checked = CheckedBundle(bundle, StoreFiles(scratch, ""), git)
    if pack:
        answer = git.store(files.git_dir, ["index-pack", "--stdin"], pack)
        if answer.code != 0:
            raise WrongBundle(f"git cannot read the pack: {answer.complaint}")
    checked.check()
    return checked


class CheckedBundle:
    """A bundle that was unpacked, and whose objects are what the trees of a run consist of."""

    def __init__(self, bundle: Bundle, files: StoreFiles, git: Git) -> None:
        self.bundle = bundle
        self._files = files
        self._git = git
        self._kinds: dict[str, str] = {}

    def check(self) -> None:
        """Check every object: its kind and size, the names in trees, and that none is missing.

        Raises `WrongBundle`.
        """
        self._kinds = dict(self._objects())
        bundle, kinds = self.bundle, self._kinds
        for id in bundle.ids:
            if kinds.get(id) != "tree":
                raise WrongBundle(f"it has no tree {id}")
        both = bundle.missing.keys() & kinds.keys()
        if both:
            raise WrongBundle(f"object {min(both)} is listed as missing")
        if strangers := bundle.modes.keys() - set(bundle.ids):
            raise WrongBundle(f"no tree uses the modes of {min(strangers)}")
        self._check_reached(self._check_trees())

    def _objects(self) -> Iterator[tuple[str, str]]:
        """Yield the id and kind of every object. Raises `WrongBundle` if one is too large."""
        words = ["cat-file", "--batch-all-objects", "--batch-check", "--buffer"]
        total = 0
        for line in run_git(self._git, self._files, words).decode("ascii").splitlines():
            id, kind, size = line.split(" ")
            total += int(size)
            if kind not in ("tree", "blob"):
                raise WrongBundle(f"object {id} is a {kind}")
            if int(size) > MAX_OBJECT_BYTES or total > MAX_CONTENT_BYTES:
                raise WrongBundle("its content is too large")
            yield id, kind

    def _check_trees(self) -> dict[str, list[TreeEntry]]:
        """Return the entries of all trees, checked one by one."""
        trees: dict[str, list[TreeEntry]] = {}

        def take(id: str, data: bytes) -> None:
            trees[id] = list(_checked_entries(id, data))

        read_objects(
            self._git, self._files, (id for id, kind in self._kinds.items() if kind == "tree"), take
        )
        for id, entries in trees.items():
            for one in entries:
                self._check_target(id, one)
        return trees

    def _check_target(self, tree: str, entry: TreeEntry) -> None:
        """Raise `WrongBundle` if an entry leads to nothing, or to something of another kind."""
        wanted = "tree" if entry.mode == DIRECTORY else "blob"
        found = self._kinds.get(entry.id.hex())
        if found is None and wanted == "blob" and entry.id.hex() in self.bundle.missing:
            return
        if found != wanted:
            raise WrongBundle(f"object {entry.id.hex()}, which tree {tree} needs, is missing")

    def _check_reached(self, trees: Mapping[str, list[TreeEntry]]) -> None:
        """Raise `WrongBundle` if an object belongs to no tree of the run, or a guard names a path
        outside the project."""
        reached, todo = set(self.bundle.ids), list(self.bundle.ids)
        lists = set()
        while todo:
            id = todo.pop()
            for one in trees.get(id, ()):
                below = one.id.hex()
                if id in self.bundle.ids and one.name == LIST and below in self._kinds:
                    lists.add(below)
                if below not in reached:
                    reached.add(below)
                    todo.append(below)
        strangers = (self._kinds.keys() | self.bundle.missing.keys()) - reached
        if strangers:
            raise WrongBundle(f"no tree uses object {min(strangers)}")
        read_objects(self._git, self._files, lists, _check_guard)

    def add_to(self, store: TreeStore) -> None:
        """Write everything to a store, for the runs that have recorded it; what is there already
        stays as it is."""
        bundle = self.bundle
        with store.using(), store.adding(bundle.of, bundle.missing) as add:
            for kind in ("blob", "tree"):
                ids = (id for id, one in self._kinds.items() if one == kind)

                def take(_: str, data: bytes, kind: str = kind) -> None:
                    add(kind.encode("ascii"), data)

                read_objects(self._git, self._files, ids, take)
            for id, data in bundle.modes.items():
                store_files.replace(store.files.place("modes", id), data, sync=True)


@contextmanager
def quarantine(store: TreeStore, run: str) -> Iterator[str]:
    """Yield the path of a directory to unpack a run's bundle in, which is removed at the end; one
    that a kill left is removed first. Requires the run's claim."""
    path = store.files.place(f"import-{run}")
    shutil.rmtree(path, ignore_errors=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _make_quarantine(path: str) -> StoreFiles:
    """Create an empty git directory, outside of which nothing is read or written."""
    files = StoreFiles(path, "")
    os.makedirs(files.packs, mode=0o700)
    os.makedirs(os.path.join(files.git_dir, "refs"), mode=0o700)
    store_files.replace(os.path.join(files.git_dir, "HEAD"), b"ref: refs/heads/none\n")
    store_files.replace(os.path.join(files.git_dir, "config"), store_files.CONFIG)
    return files


def _pack_in(bundle: Bundle) -> bytes:
    """Return the pack of a bundle; empty if it has no trees. Raises `WrongBundle`."""
    header = _header(bundle.ids)
    if not bundle.data.startswith(header):
        raise WrongBundle("it does not begin with the run's trees")
    pack = bundle.data[len(header) :]
    if bool(pack) != bool(bundle.ids) or (pack and not pack.startswith(b"PACK")):
        raise WrongBundle("it has no pack")
    return pack


def entries_of(data: bytes) -> Iterator[TreeEntry]:
    """Yield the entries of a tree object. Raises `ValueError` if it is damaged."""
    at = 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        at = end + 1 + ID_BYTES
        if at > len(data):
            raise ValueError("a tree ends too early")
        yield TreeEntry(mode, name, data[end + 1 : at])


def _checked_entries(id: str, data: bytes) -> Iterator[TreeEntry]:
    """Yield the entries of a tree. Raises `WrongBundle` if a name could lead out of its directory
    or into a repository, appears twice, or has a kind that snapshots do not have."""
    seen = set()
    try:
        for one in entries_of(data):
            is_name = one.name not in _NEVER_NAMES and b"/" not in one.name
            if not is_name or one.name.lower() == b".git" or one.name in seen:
                raise WrongBundle(f"tree {id} has the name {one.name.decode('utf-8', 'replace')!r}")
            if one.mode not in _MODES:
                raise WrongBundle(f"tree {id} has an entry of an unknown kind")
            seen.add(one.name)
            yield one
    except WrongBundle:
        raise
    except ValueError:
        raise WrongBundle(f"tree {id} is damaged") from None


def _check_guard(id: str, data: bytes) -> None:
    """Raise `WrongBundle` if a list of protected paths is damaged or names a path outside the
    project. A file called `list` in a project is not such a list, and may contain anything."""
    try:
        guard = decode(data)
    except StoreError:
        return
    for path in (*guard.paths, *guard.led_to):
        parts = path.split("/") if isinstance(path, str) else [".."]
        if not parts[0] or not {".", "..", ".git"}.isdisjoint(parts):
            raise WrongBundle(f"the list {id} names the path {path!r}")
