"""The clean copy: a snapshot written out elsewhere, to find out whether a check passes on exactly
the files that would be delivered.

There is one copy per project and scope, outside the project. It is kept between checks, so only
files that differ are written again. Protected paths have the content of their reference. Paths that
were ignored when the run started are there, too: directories as links, small files as they were
then. What a check builds there stays for the next check of the same files, except for caches. Its `.git` has the project's commit as its only ref.

If the project is a subdirectory of its repository, the copy also has the rest of the repository as
it was when the run started, because a check may need it.

    STATE/copies/NAME-HASH/SCOPE/
      lock          held while the copy is in use
      times.json    caches the times of its files; `times-around.json`: of the rest
      index         git's index for the commit of the copy
      work/NAME     the copy of the repository, with the project at its place in it

Not here: running the check in it (`engine`).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from little_loops.errors import StoreError
from little_loops.fsm.path_text import path_text
from little_loops.records import NamedTuple
from little_loops.system.files import PRIVATE_FOLDER, failure, to_json, write_all
from little_loops.system.plain_files import open_plain
from little_loops.system.user_state import key_of
from little_loops.trees import files as store_files
from little_loops.trees.content import CHUNK, READ, TOO_LARGE, Bounds, Intake
from little_loops.trees.copy_git import CopyRepository
from little_loops.trees.copy_plan import LONG_AGO_NS, Content, CopyLayout, CopyRoot, Planner
from little_loops.trees.delivery import Delivery, Inquiry, what_a_commit_has
from little_loops.trees.files import COPIES
from little_loops.trees.git import REPOSITORY_VARIABLES, Git, is_inside
from little_loops.trees.guard import Guarded
from little_loops.trees.installed import installed_in
from little_loops.trees.modes import Modes
from little_loops.trees.objects import object_id
from little_loops.trees.placing import OpenDirectory
from little_loops.trees.python_paths import (
    INSTALL,
    StandIn,
    editable_paths,
    point_back,
    with_python_path,
)
from little_loops.trees.reading import read_objects
from little_loops.trees.repository_files import GIT, REMOVE
from little_loops.trees.restore import remove_caches
from little_loops.trees.rules import (
    TOO_DEEP,
    Rules,
    Surroundings,
    cache_test,
    in_cache,
    is_too_deep,
    parents,
)
from little_loops.trees.shadows import NotClean, replace_path
from little_loops.trees.store import TreeStore
from little_loops.trees.walk import ContentWalk, Entry, Seeds, dump_seeds, load_seeds

CLEAN = "LL_CLEAN"
PRODUCTS = (".o", ".obj", ".lo", ".a", ".lib", ".so", ".dll", ".dylib", ".class")
"""Suffixes of files that are built from others. If an agent made one, it may have been built from
sources other than the delivered ones."""


class CopyPlace(NamedTuple):
    """Where a copy is: its base directory, the repository in it, and the project in that."""

    base: str
    top: str
    path: str


def place_of(project: str, prefix: str, scope: Sequence[str], home: str) -> CopyPlace:
    """Return where the copy of a project is, which need not exist; `prefix` is the project's path
    in its repository."""
    prefix = prefix.rstrip("/")
    repository = project[: len(project) - len(prefix)].rstrip("/") if prefix else project
    base = base_of(project, scope, home)
    top = os.path.join(base, "work", os.path.basename(repository) or "root")
    return CopyPlace(base, top, os.path.join(top, prefix) if prefix else top)


def base_of(project: str, scope: Sequence[str], home: str) -> str:
    """Return the directory for everything that belongs to the copy of a project and scope."""
    key = hashlib.sha256("\0".join(sorted(scope)).encode("utf-8", "surrogateescape"))
    return os.path.join(os.path.realpath(home), COPIES, key_of(project), key.hexdigest()[:16])


class CleanCopy:
    """The copy for one project and scope, with the rest of its repository if that was recorded."""

    def __init__(self, store: TreeStore, rules: Rules, home: str) -> None:
        """Describe the copy in the state directory `home`; nothing is created."""
        place = place_of(rules.project, rules.prefix, rules.scope, home)
        self._base, self.top, self.path = place
        self._store = store
        self._rules = rules
        around = rules.around
        self.whole = (
            CopyRoot(rules.project, self.path)
            if around is None
            else CopyRoot(around.rules.project, self.top, rules.prefix)
        )
        self._planner = Planner(store, rules, self.whole)
        self._files = CopiedFiles(store, rules, self.path, self._state_file("times.json"))
        self._around = None if around is None else CopiedSurroundings(store, around, self)
        self._repository = CopyRepository(rules, self.top, self._base)
        self._layout = CopyLayout({}, frozenset())
        self._has_links = False

    def _state_file(self, name: str) -> str:
        """Return the path of a file that is kept beside the copy."""
        return os.path.join(self._base, name)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Create the copy's directories and hold its lock: from before the layout until the check
        has ended.

        Raises `StoreError` if they cannot be created or the lock is held for too long,
        `Interrupted` on a stop.
        """
        try:
            os.makedirs(self._base, mode=PRIVATE_FOLDER, exist_ok=True)
            lock = self._state_file("lock")
            descriptor = open_plain(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _failed(error, "make", self.path) from error
        try:
            store_files.lock_file(descriptor, fcntl.LOCK_EX, self._store.git, lock)
            self._make_root()
            try:
                yield
            finally:
                self.point_back()
        finally:
            os.close(descriptor)

    def _make_root(self) -> None:
        """Create the directory of the copy, and remove what lies beside it: an earlier check may have
        left it there."""
        try:
            os.makedirs(self.path, exist_ok=True)
            work, name = os.path.split(self.top)
            with OpenDirectory(work) as ground:
                for other in os.listdir(work):
                    if other != name:
                        ground.remove_all(other)
        except OSError as error:
            raise _failed(error, "make", self.path) from error

    def lay_out(
        self,
        project: str,
        reference: str,
        *,
        links: bool = True,
        existing_only: bool = False,
        left_out: Iterable[str] = (),
        other: Mapping[str, Content] = {},
    ) -> str:
        """Write out the snapshot `project`, with protected paths of the guard `reference`
        (`existing_only`: new ones of the snapshot), without the paths `left_out`, and with the
        content `other` instead of the snapshot's, or in addition to it. Return the project's path
        in the copy.

        Without `links`, ignored directories are not linked. What a set-up command created in their
        place is kept until the layout changes. Raises `StoreError`.
        """
        self._has_links = links
        try:
            layout = self._layout = self._planner.plan(
                project, reference, links, existing_only, frozenset(left_out), other
            )
            if self._around is not None:
                self._around.lay_out(links)
            self._files.write(layout, links)
            if links and self._links_products:
                self._files.renew(layout)
            self._repository.lay_out(self._store.git)
        except OSError as error:
            raise _failed(error, "create", self.path) from error
        return self.path

    @property
    def _links_products(self) -> bool:
        """Return whether linked directories may have build products, not only installed packages."""
        packages = {path for path, _ in installed_in(self._rules)}
        return not packages.issuperset(self._rules.linked)

    def lay_out_again(
        self,
        project: str,
        reference: str,
        changed: Iterable[str],
        *,
        existing_only: bool,
        left_out: Iterable[str] = (),
        other: Mapping[str, Content] = {},
    ) -> None:
        """Reset the protected paths after a set-up command, which may have run code that an agent
        wrote, remove caches beside them, and reset the delivered files that were `changed` during
        the run, except the paths `left_out`; `other` is as for `lay_out`.

        With `existing_only`, protected files that are new stay. Raises `StoreError`.
        """
        try:
            layout = self._planner.plan(
                project, reference, False, existing_only, frozenset(left_out), other
            )
            with self._store.using():
                guard = self._store.guard(reference)
            actual = dict(self._files.refresh(links=False).files())
            with OpenDirectory(self.path) as ground:
                remove_caches(ground, guard, cache_test(self._rules))
                for path in actual:
                    if path not in layout.contents and self._planner.must_be_absent(
                        path, existing_only
                    ):
                        ground.remove(path)
                self._files.fill(ground, _missing(layout, actual, (*guard.paths, *changed)))
        except OSError as error:
            raise _failed(error, "create", self.path) from error

    def differing(self) -> frozenset[str]:
        """Return the paths of the last layout whose files are gone or differ from it; additional
        files do not count.

        Ignored files and directories are not compared, unless they are protected: they may be
        rebuilt here, and are not delivered. Caches are not compared either: whoever imports a file
        may compile it.
        """
        try:
            actual = dict(self._files.refresh().files())
            return frozenset(
                path
                for path, one in self._layout.contents.items()
                if one.time_ns is None
                and not in_cache(path)
                and (self.is_protected(path) or not self._planner.is_linked(path))
                and not _is_same(actual.get(path), one)
                and not self._is_same_in_project(path, one)
            )
        except OSError as error:
            raise _failed(error, "read", self.path) from error

    def _is_same_in_project(self, path: str, one: Content) -> bool:
        """Return whether a file differs only by naming the copy's path instead of the project's."""
        if one.kind != "file" or self.is_protected(path):
            return False
        try:
            with open(open_plain(os.path.join(self.path, path), READ), "rb") as file:
                data = file.read(CHUNK)
        except OSError:
            return False
        there = replace_path(data, os.fsencode(self.whole.copy), os.fsencode(self.whole.real))
        return object_id(b"blob", there).hex() == one.id

    def delivery(
        self, first: str | None, project: str, reference: str, *, existing_only: bool = False
    ) -> Delivery:
        """Return how a commit of everything would differ from the snapshot `project`, as far as that
        is due to the run, which began with the snapshot `first`; protected are the paths of the guard
        `reference` and, unless `existing_only`, new ones.

        Build products that have changed are older than everything else. Permission bits that git
        does not keep are those of the start of the run. Raises `StoreError`. Requires the lock."""
        store, rules = self._store, self._rules
        for path in store.special_files(rules):
            raise StoreError(f"`{path_text(path)}` is not a regular file", REMOVE)
        with store.using():
            tree = store.guard_of_tree(project).paths
            guard = store.guard(reference).paths
        usual = store.start_modes(rules.run, first)
        files = {path: _with_mode(one, usual) for path, one in tree.items() if one.kind != "dir"}
        modes = {
            path: Content(*one[1:4]) for path, one in files.items() if one.mode != tree[path].mode
        }
        changed = frozenset(store.changed_paths(first, project))
        large = frozenset(path for path, one in files.items() if store.is_unstored(one.id))

        def is_protected(path: str) -> bool:
            if path in files or path in guard:
                return path in files and path in guard
            return not existing_only and self.is_protected(path)

        asked = Inquiry(files, changed, is_protected, rules.head, rules.unseen, rules.nested, large)
        place = self._state_file("delivery")
        try:
            found = what_a_commit_has(store.git, rules.project, rules.prefix, place, asked)
        except OSError as error:
            raise _failed(error, "create", place) from error
        products = {
            path: Content(*files[path][1:4], time_ns=LONG_AGO_NS)
            for path in changed.difference(rules.unseen, large) & files.keys()
            if path.endswith(PRODUCTS)
        }
        return found._replace(other={**modes, **products, **found.other})

    def point_back(self) -> tuple[str, ...]:
        """Let Python environments outside import the project again, not the copy, if a check has
        installed that. Return the files that were changed."""
        return point_back(self._store.git.environ, self.whole.copy, self.whole.real)

    def is_protected(self, path: str) -> bool:
        return self._planner.is_protected(path)

    def builds(self) -> tuple[str, ...]:
        """Return the ignored directories that are left out, because a build in them would build the
        project."""
        return self._planner.builds()

    def translate(self, text: str) -> str:
        """Replace the paths of the project by those of the copy."""
        real, copy = os.fsencode(self.whole.real), os.fsencode(self.whole.copy)
        return os.fsdecode(replace_path(os.fsencode(text), real, copy))

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables for a check: they name the copy instead of the project, and
        `LL_CLEAN` is 1.

        Variables that tell git which repository or index to use, as in a git hook, are left out. If
        a Python environment outside the project has the project installed in editable mode,
        `PYTHONPATH` makes it import the copy. Raises `NotClean` if that is not enough, unless a
        set-up command installs what the check needs.
        """
        found = {
            name: self.translate(self._without_aliases(text))
            for name, text in environ.items()
            if name not in REPOSITORY_VARIABLES
        }
        editable = editable_paths(self.whole.real, environ)
        found = with_python_path(found, map(self.translate, editable))
        if self._has_links and (why := self._stand_in.leads_back(found)) is not None:
            raise NotClean(why, INSTALL)
        return {**found, CLEAN: "1"}

    def _without_aliases(self, text: str) -> str:
        """Return a variable in which paths that lead into the project by a link are written without
        that."""
        real = self.whole.real

        def plain(path: str) -> str:
            if not os.path.isabs(path) or is_inside(path, real):
                return path
            found = os.path.realpath(path)
            return found if is_inside(found, real) else path

        return os.pathsep.join(map(plain, text.split(os.pathsep)))

    @property
    def _stand_in(self) -> StandIn:
        """Return what the copy stands for: also the project that the run's worktree is one of."""
        _, copy, prefix = self.whole
        owner = self._rules.owner or self._rules.project
        real = owner.removesuffix(prefix.rstrip("/")).rstrip("/")
        return StandIn(real, copy, prefix, StandIn.of(owner, self._rules.project).worktrees)


class CopiedFiles:
    """The files in one directory of a copy; writes those that differ from a layout."""

    def __init__(
        self, store: TreeStore, rules: Rules, path: str, times: str, skip: str = ""
    ) -> None:
        """Describe the copy at `path`.

        `times` is the file that caches what is known about its files; the path `skip` is ignored.
        """
        self._store = store
        self._rules = rules
        self._path = path
        self._times = times
        self._skip = skip
        self._walk: CopyWalk | None = None
        self._links = False
        self._done: tuple[CopyLayout, int] | None = None
        self._not_yours = rules.not_yours

    def write(self, layout: CopyLayout, links: bool) -> None:
        """Make the directory match the layout: remove what does not belong, write what differs.

        Do nothing if neither has changed since the last call. Ignored files that a check made from
        the same layout stay: the next check of the loop may need what it has built. Raises `NotClean`
        if two paths cannot both exist here, and `OSError`.
        """
        self._remove_not_yours(layout)
        is_same = self._done is not None and self._done[0] == layout
        if not links and not is_same:
            self._remove_others(layout)
        walk = self.refresh(links)
        if self._done == (layout, walk.version):
            return
        self._done = None
        refuse_twins(layout.contents, os.path.dirname(self._times))
        actual = dict(walk.files())
        with OpenDirectory(self._path) as ground:
            self._clear(ground, walk, actual, layout, self._products(is_same))
            missing = _missing(layout, actual, layout.contents)
            self.fill(ground, missing)
        self.refresh(links)
        self._done = (layout, walk.version)
        if missing:
            store_files.replace(self._times, to_json(dump_seeds(walk.seeds())))

    def _remove_not_yours(self, layout: CopyLayout) -> None:
        """Remove what an earlier layout had, and an earlier run may have made; only once, because
        `setup` may make it again."""
        with OpenDirectory(self._path) as ground:
            for path in self._not_yours:
                is_wanted = path in layout.contents or path in layout.folders
                if not is_wanted and ground.lstat(path) is not None:
                    ground.remove_all(path)
        self._not_yours = ()

    def _remove_others(self, layout: CopyLayout) -> None:
        """Remove everything that the layout does not have: a set-up command may have made it from
        other files, and take it for up to date."""
        with OpenDirectory(self._path) as ground:
            for folder, names, files in os.walk(self._path):
                below = os.path.relpath(folder, self._path)
                prefix = "" if below == "." else f"{below}/"
                self._store.git.check()
                for name in [*names, *files]:
                    path = prefix + name
                    is_own = path == GIT and not self._rules.prefix
                    is_wanted = path in layout.folders or path in layout.contents
                    if not is_own and not is_wanted and not is_inside(self._skip, path):
                        ground.remove_all(path)
                names[:] = [name for name in names if prefix + name in layout.folders]

    def renew(self, layout: CopyLayout) -> None:
        """Give all files the current time, so that `make` builds linked products again.

        A product in a linked directory may be newer than its source here, and made from another one.
        """
        with OpenDirectory(self._path) as ground:
            for path, one in sorted(layout.contents.items()):
                if one.kind == "file" and one.time_ns is None:
                    with ground.parent(path) as (folder, name):
                        os.utime(name, dir_fd=folder, follow_symlinks=False)

    def refresh(self, links: bool | None = None) -> CopyWalk:
        """Walk the directory and return what is there now, including files that a check created.

        Without `links`, ignored paths are skipped; None means as in the previous call. Nothing is
        stored.
        """
        links = self._links if links is None else links
        ignore = () if links else self._rules.ignore
        rules = self._rules._replace(
            project=self._path, ignore=ignore, tracked=(), nested=(), protect=()
        )
        if self._walk is None or self._links is not links:
            seeds = load_seeds(store_files.read_json(self._times))
            self._walk, self._links = CopyWalk(rules, seeds, self._skip), links
        self._walk.refresh(Hashing(self._store.git))
        return self._walk

    def _clear(
        self,
        ground: OpenDirectory,
        walk: CopyWalk,
        actual: Mapping[str, Entry],
        layout: CopyLayout,
        stays: Callable[[str], bool],
    ) -> None:
        """Remove everything that the walk has found and the layout does not have, except what
        `stays`, and links of an earlier layout."""
        wanted, kept = layout
        for path in walk.folders():
            is_top = path.rpartition("/")[0] in kept or "/" not in path
            if path not in kept and is_top and not stays(f"{path}/."):
                ground.remove_all(path)
        for path in walk.left_out:  # a pipe, a directory that cannot be entered
            info = ground.lstat(path)
            if info is not None and not stat.S_ISREG(info.st_mode):
                ground.remove_all(path)
        walk.left_out.clear()
        for path in actual:
            if (path not in wanted and not stays(path)) or (
                path in wanted and wanted[path].kind == "dir"
            ):
                ground.remove(path)
        for path in self._rules.linked:  # links of an earlier layout, where ignored paths are kept
            info = ground.lstat(path)
            if info is not None and stat.S_ISLNK(info.st_mode) and path not in wanted:
                ground.remove(path)

    def _products(self, is_same: bool) -> Callable[[str], bool]:
        """Return a function that says which of a check's files stay in the copy: if it `is_same`,
        those that git ignores by the rules of the start, except caches; else none."""
        if not is_same:
            return lambda path: False
        patterns, prefix = self._rules.ignored(), self._rules.prefix
        return lambda path: not in_cache(path) and patterns.cover(os.fsencode(prefix + path))

    def fill(self, ground: OpenDirectory, missing: Mapping[str, Content]) -> None:
        """Write the given contents: from memory, from the store, or for large files from the
        project.

        Raises `NotClean` if a large file has changed since, and `OSError`.
        """
        stored: dict[str, list[str]] = {}
        for path, one in sorted(missing.items()):
            if one.kind == "dir":
                ground.mkdir(path)
            elif one.data is not None:
                _write_content(ground, path, one, one.data)
            elif self._store.is_unstored(one.id):
                self._copy_large(ground, path, one)
            else:
                stored.setdefault(one.id, []).append(path)

        def take(id: str, data: bytes) -> None:
            for path in stored[id]:
                _write_content(ground, path, missing[path], data)

        with self._store.using():
            read_objects(self._store.git, self._store.files, stored, take)

    def _copy_large(self, ground: OpenDirectory, path: str, one: Content) -> None:
        """Copy a file that was too large to store from the project.

        Raises `NotClean` if it has changed since the snapshot.
        """
        full = os.path.join(self._rules.project, path)
        with open(open_plain(full, READ), "rb") as source:
            size = os.fstat(source.fileno()).st_size
            digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
            with ground.writing(path, one.mode) as descriptor:
                while chunk := source.read(CHUNK):
                    self._store.git.check()
                    digest.update(chunk)
                    write_all(descriptor, chunk)
                if digest.hexdigest() != one.id:
                    why = self._store.why_unstored(one.id) or TOO_LARGE
                    raise NotClean(f"`{path_text(path)}` has changed, and was {why}")


class CopiedSurroundings:
    """The rest of the repository in a copy, as it was when the run started."""

    def __init__(self, store: TreeStore, around: Surroundings, copy: CleanCopy) -> None:
        """Describe the files around the project in `copy`; nothing is written."""
        place = CopyRoot(copy.whole.real, copy.top)
        self._tree = around.tree
        self._skip = copy.whole.prefix.rstrip("/")
        self._planner = Planner(store, around.rules, place)
        times = os.path.join(os.path.dirname(os.path.dirname(copy.top)), "times-around.json")
        self._files = CopiedFiles(store, around.rules, copy.top, times, self._skip)

    def lay_out(self, links: bool) -> None:
        """Write the rest of the repository around the project's directory, which is skipped."""
        contents, folders = self._planner.plan(self._tree, None, links, False)
        kept = frozenset((*folders, self._skip, *parents([self._skip])))
        self._files.write(CopyLayout(contents, kept), links)


class Hashing(Intake):
    """An intake that computes ids without storing anything."""

    def __init__(self, git: Git) -> None:
        self.check = git.check
        self.unstored = {}
        self.bounds = Bounds()

    def has(self, id: bytes) -> bool:
        return True

    def blob(self, data: bytes) -> bytes:
        return object_id(b"blob", data)


class CopyWalk(ContentWalk):
    """A walk over everything in a copy; repositories inside it are ordinary directories."""

    def __init__(self, rules: Rules, seeds: Seeds, skip: str) -> None:
        super().__init__(rules, seeds)
        self._skip = skip

    def _enters(self, fd: int, name: str, path: str, ignored: bool) -> bool:
        """Return whether to walk into a directory: not the copy's own `.git`, nor `skip`."""
        below = path + name
        is_own = below == GIT and not self._rules.prefix
        if not ignored and is_too_deep(below):
            self._leave_out(below, TOO_DEEP)
            return False
        return not ignored and not is_own and below != self._skip

    def _counts(self, entry: os.DirEntry[str], path: str, ignored: bool) -> bool:
        """Return whether an entry is a file or link that is not ignored."""
        below = path + entry.name
        if not ignored and not entry.is_file(follow_symlinks=False) and not entry.is_symlink():
            self._leave_out(below, "")
            return False
        return not ignored

    def _leave_out(self, path: str, why: str) -> None:
        """List a path that is not part of the content, but must be removed from the copy."""
        self.left_out[path] = why
        self.version += 1


def _with_mode(one: Guarded, start: Modes) -> Guarded:
    """Return a path with the permission bits that a checkout gives it."""
    if one.kind != "file":
        return one
    return one._replace(mode=start.after_checkout(one.path, bool(one.mode & stat.S_IXUSR)))


def _missing(
    layout: CopyLayout, actual: Mapping[str, Entry], paths: Iterable[str]
) -> dict[str, Content]:
    """Return those of `paths` that are not in the copy as the layout wants them."""
    wanted = {path: layout.contents[path] for path in paths if path in layout.contents}
    return {path: one for path, one in wanted.items() if not _is_as_planned(actual.get(path), one)}


def _is_as_planned(entry: Entry | None, one: Content) -> bool:
    """Return whether a file has exactly the planned content, mode and, if one is planned, time, or a
    link its planned target. False if there is nothing, or a directory."""
    if entry is None or entry[5] is None or one.kind == "dir":
        return False
    if one.kind == "link":
        return entry[5].hex() == one.id
    is_of_its_time = one.time_ns in (None, entry[1])
    return entry[5].hex() == one.id and entry[4] == one.mode and is_of_its_time


def _is_same(entry: Entry | None, one: Content) -> bool:
    """Return whether a snapshot would treat the path as equal to the planned content."""
    if entry is None or entry[5] is None:
        return one.kind == "dir"
    is_program_too = one.kind == "link" or not (entry[4] ^ one.mode) & stat.S_IXUSR
    return entry[5].hex() == one.id and is_program_too


def _write_content(ground: OpenDirectory, path: str, one: Content, data: bytes) -> None:
    """Write one file or link of the layout."""
    if one.kind == "link":
        ground.link(path, os.fsdecode(data))
    else:
        ground.write(path, data, one.mode, one.time_ns)


def refuse_twins(paths: Iterable[str], folder: str) -> None:
    """Raise `NotClean` if two paths differ only in case and `folder` is on a file system that
    ignores it."""
    if not ignores_case(folder):
        return
    known: dict[str, str] = {}
    for path in sorted(paths):
        twin = known.setdefault(path.casefold(), path)
        if twin != path:
            raise NotClean(
                f"`{path_text(twin)}` and `{path_text(path)}` differ only in case,"
                f" but `{folder}` ignores case",
                "rename one, or set XDG_STATE_HOME to a directory on a case-sensitive file system",
            )


def ignores_case(folder: str) -> bool:
    """Return whether the file system of a directory treats `lock` and `LOCK` as the same name.

    The directory has a file `lock`; without one the answer is False.
    """
    try:
        return os.path.samefile(os.path.join(folder, "lock"), os.path.join(folder, "LOCK"))
    except OSError:
        return False


def _failed(error: OSError, doing: str, path: str) -> StoreError:
    plain = failure(error, doing, path)
    return StoreError(plain.message, plain.help)
