"""The facts that are fixed when a run starts: its scope, what is protected, what is ignored.

They are read once and kept with the run: a line added to a `.gitignore` later hides nothing. The
user's repository is only read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from little_loops.errors import StoreError
from little_loops.fsm.scope import contains, normalise
from little_loops.light_typing import Any
from little_loops.records import NamedTuple
from little_loops.system.plain_files import open_plain, read_plain
from little_loops.trees.content import READ
from little_loops.trees.git import Git
from little_loops.trees.patterns import Patterns, compile_patterns, split_lines
from little_loops.trees.repository_files import GIT, GIT_FILE

CACHES = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache")
"""They count neither as protected nor as outside the scope, and stay out of the clean copy. A tree
leaves out only what git ignores."""
COMPILED = ".pyc"
NEVER = (".loops/.running", ".loops/.history")
IGNORE_FILE = ".gitignore"
MAX_IGNORE_FILE_BYTES = 16 << 20
GITLINK = b"160000"
SETTINGS = "^core[.](excludesfile|ignorecase)$"
MAX_DEPTH = 200
"""Deeper directories are left out: each level of a walk keeps a directory open."""
TOO_DEEP = "nested too deeply"


class IgnoreFile(NamedTuple):
    """The lines of an ignore file, and the directory in the repository they are relative to."""

    base: str
    lines: tuple[str, ...]


class IgnoredFile(NamedTuple):
    """An ignored file as it was at the start; `id` identifies its stored content."""

    path: str
    mode: int
    id: str


class Rules(NamedTuple):
    """What is fixed for a run; paths are relative to the project.

    `prefix` is the project's path in its repository (`a/b/`, or empty). `tracked` are files that
    are ignored but nevertheless tracked. `nested` are repositories inside the project,
    `directories` all other directories that are not ignored. `linked` are the directories that are
    ignored as a whole, and large ignored files; `files` are the other ignored files. `caches` are
    files of the user with names of caches: tracked ones, and compiled files that git does not
    ignore. `store` identifies the store that the run's ids belong to. `around` is the rest of the
    repository, if a clean copy needs it.
    `watched` are patterns of files whose changes are only reported. `owner` is the project that the
    store belongs to, if the run works in a worktree of it. `not_yours` are ignored paths and
    repositories that an earlier run may have made or changed (`origins`). `unseen` are tracked
    files whose changes git was told to overlook.
    """

    run: str
    project: str
    scope: tuple[str, ...]
    protect: tuple[str, ...]
    prefix: str = ""
    head: str | None = None
    ignore: tuple[IgnoreFile, ...] = ()
    ignore_case: bool = False
    tracked: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()
    files: tuple[IgnoredFile, ...] = ()
    caches: tuple[str, ...] = ()
    store: str = ""
    around: Surroundings | None = None
    watched: tuple[str, ...] = ()
    owner: str = ""
    not_yours: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the rules as data for JSON, which `from_json` decodes."""
        plain = self._asdict()
        for name in ("owner", "not_yours", "unseen"):
            if not plain[name]:
                del plain[name]  # earlier versions do not know it
        if self.around is not None:
            plain["around"] = {"tree": self.around.tree, "rules": self.around.rules.to_json()}
        plain["ignore"] = [one._asdict() for one in self.ignore]
        plain["files"] = [one._asdict() for one in self.files]
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Rules:
        """Decode the output of `to_json`; raise `StoreError` if it is damaged."""
        try:
            lists = {key: tuple(item) for key, item in plain.items() if isinstance(item, list)}
            lists["ignore"] = tuple(
                IgnoreFile(one["base"], tuple(one["lines"])) for one in plain["ignore"]
            )
            lists["files"] = tuple(IgnoredFile(**one) for one in plain["files"])
            rules = cls(**{**plain, **lists})
            if (around := plain.get("around")) is None:
                return rules
            rest = Surroundings(around["tree"], cls.from_json(around["rules"]))
            return rules._replace(around=rest)
        except (TypeError, KeyError) as error:
            raise StoreError(f"the record of the run's start is damaged: {error!r}") from error

    def ignored(self) -> Patterns:
        """Return the ignore patterns, for paths from the top of the repository."""
        return compile_patterns(
            (
                (os.fsencode(one.base), [os.fsencode(line) for line in one.lines])
                for one in self.ignore
            ),
            self.ignore_case,
        )

    def protected(self) -> Patterns:
        """Return the patterns of protected files, for paths relative to the project."""
        lines = [os.fsencode(line) for line in self.protect]
        return compile_patterns([(b"", lines)], self.ignore_case)

    def in_scope(self, path: str) -> bool:
        return within(path, self.scope)


class Surroundings(NamedTuple):
    """The rest of a repository as it was at the start: its tree, and the rules of its top
    directory."""

    tree: str
    rules: Rules


def within(path: str, scope: Sequence[str]) -> bool:
    """Return whether a path is in one of the scope's directories."""
    return any(contains(upper, path) for upper in scope)


def parents(paths: Iterable[str]) -> Iterator[str]:
    """Yield all directories above these paths."""
    for path in paths:
        while path := path.rpartition("/")[0]:
            yield path


def is_cache(path: str) -> bool:
    """Return whether a path is named like a cache or a compiled file."""
    name = path.rpartition("/")[2]
    return name in CACHES or name.endswith(COMPILED)


def in_cache(path: str) -> bool:
    """Return whether a path is a cache or in one."""
    return any(map(is_cache, path.split("/")))


def in_cache_directory(path: str) -> bool:
    """Return whether a path is in a directory that tools use as a cache, or is one."""
    return any(part in CACHES for part in path.split("/"))


def cache_test(rules: Rules) -> Callable[[str], bool]:
    """Return a function that says whether a path is a cache; files that are the user's never are."""
    kept = frozenset((*rules.caches, *parents(rules.caches)))

    def is_one(path: str) -> bool:
        return is_cache(path) and path not in kept

    return is_one


def is_too_deep(path: str) -> bool:
    return path.count("/") >= MAX_DEPTH


def never_counts(path: str) -> bool:
    """Return whether a path is one of our own, which change with every step."""
    return path in NEVER


def is_repository(fd: int, name: str = ".") -> bool:
    """Return whether a directory is the top of a git repository or work tree.

    A `.git` that git would not accept as a repository does not count.
    """
    git = f"{name}/{GIT}"
    try:
        if not stat.S_ISDIR(os.stat(git, dir_fd=fd).st_mode):
            return _points_to_repository(fd, git)
        os.stat(f"{git}/HEAD", dir_fd=fd, follow_symlinks=False)
        parts = [os.stat(f"{git}/{part}", dir_fd=fd) for part in ("objects", "refs")]
    except OSError:
        return False
    return all(stat.S_ISDIR(one.st_mode) for one in parts)


def _points_to_repository(fd: int, path: str) -> bool:
    """Return whether a `.git` file names a git directory, as in a work tree or submodule."""
    descriptor = open_plain(path, READ, folder=fd)
    try:
        return os.read(descriptor, len(GIT_FILE)) == GIT_FILE
    finally:
        os.close(descriptor)


class Repository(NamedTuple):
    """The user's repository when the run starts."""

    top: str
    prefix: str
    exclude: str
    head: str | None


def find_repository(git: Git, project: str) -> Repository | None:
    """Return the repository that contains the project; None if there is none.

    Raises `StoreError` if git cannot be used there, `Interrupted` on a stop.
    """
    found = locate(git, project)
    return None if found is None else Repository(*found, head_of(git, project))


def locate(git: Git, project: str) -> tuple[str, str, str] | None:
    """Return the top of the repository that contains the project, the project's prefix in it, and
    its file of excluded paths; None if there is no repository. Raises like `find_repository`."""
    words = ("--is-inside-work-tree", "--show-toplevel", "--show-prefix")
    answer = git.read(project, ["rev-parse", *words, "--git-path", "info/exclude"])
    lines = os.fsdecode(answer.out).split("\n")
    if answer.code != 0 or lines[0] != "true":
        if answer.code == 0 or "not a git repository" in answer.complaint:
            return None
        raise StoreError(f"git cannot be used here: {answer.complaint}")
    top, prefix, exclude = lines[1:4]
    if len(lines) > 5:  # one of the paths contains a newline
        places = (["--show-toplevel"], ["--show-prefix"], ["--git-path", "info/exclude"])
        top, prefix, exclude = (path_from_git(git, project, place) for place in places)
    return top, prefix, os.path.join(project, exclude)


def path_from_git(git: Git, project: str, words: Sequence[str]) -> str:
    """Return a path that `git rev-parse` prints, which may contain newlines. Raises `StoreError` if
    it fails."""
    answer = git.read(project, ["rev-parse", *words])
    if answer.code != 0:
        raise StoreError(f"git cannot be used here: {answer.complaint}")
    return os.fsdecode(answer.out).removesuffix("\n")


def repository_around(git: Git, project: str) -> Repository:
    """Return the repository that contains the project. Raises `StoreError` without one."""
    repository = find_repository(git, project)
    if repository is None:
        raise StoreError(f"`{project}` is not in a git repository", "`git init` creates one")
    return repository


def head_of(git: Git, project: str) -> str | None:
    """Return the commit that is checked out; None before the first commit."""
    answer = git.read(project, ["rev-parse", "--quiet", "--verify", "HEAD^{commit}"])
    return answer.out.decode("ascii", "replace").strip() if answer.code == 0 else None


class Tracked(NamedTuple):
    """Paths in the user's index, relative to the project: files, submodules, and of the files those
    whose changes git overlooks (`update-index --skip-worktree`, `--assume-unchanged`)."""

    files: frozenset[str]
    nested: frozenset[str]
    unseen: frozenset[str] = frozenset()


def tracked_paths(git: Git, project: str) -> Tracked:
    """Return what git tracks in the project. Raises `StoreError` if git fails."""
    answer = git.read(project, ["ls-files", "-z", "-v", "--stage", "--", "."])
    if answer.code != 0:
        raise StoreError(f"git cannot list the tracked files: {answer.complaint}")
    files, nested, unseen = set[str](), set[str](), set[str]()
    for line in answer.out.split(b"\0"):
        head, _, path = line.partition(b"\t")
        tag, _, stage = head.partition(b" ")
        (nested if stage.startswith(GITLINK) else files).add(os.fsdecode(path))
        # A small letter stands for `--assume-unchanged`, `S` for `--skip-worktree`.
        if tag == b"S" or tag.islower():
            unseen.add(os.fsdecode(path))
    return Tracked(frozenset(files - {""}), frozenset(nested), frozenset(unseen))


def ignore_settings(git: Git, repository: Repository) -> tuple[list[IgnoreFile], bool]:
    """Return the ignore files that apply to the whole repository, and whether git ignores case."""
    answer = git.read(repository.top, ["config", "-z", "--get-regexp", SETTINGS])
    chosen = dict(pair.partition("\n")[::2] for pair in os.fsdecode(answer.out).split("\0") if pair)
    excludes = _excludes_file(chosen.get("core.excludesfile"), git.environ)
    files = [_read_ignore_file("", path) for path in (excludes, repository.exclude)]
    ignore_case = chosen.get("core.ignorecase", "").lower() in ("true", "yes", "on", "1")
    return [one for one in files if one is not None], ignore_case


def _excludes_file(path: str | None, environ: Mapping[str, str]) -> str:
    """Return the path of git's global ignore file, with `~` expanded; the default if none is set."""
    if path is None:
        home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/"), ".config")
        return os.path.join(home, "git", "ignore")
    if path.startswith("~/"):
        return os.path.join(environ.get("HOME", "/"), path[2:])
    return os.path.expanduser(path)


def upper_ignore_files(repository: Repository) -> Iterator[IgnoreFile]:
    """Yield the ignore files in the directories above the project, from the top of the repository
    down."""
    base = ""
    for part in repository.prefix.split("/")[:-1]:
        found = _read_ignore_file(base, os.path.join(repository.top, base, IGNORE_FILE))
        if found is not None:
            yield found
        base += f"{part}/"


def ignore_files_above(git: Git, project: str) -> list[IgnoreFile]:
    """Return the ignore files outside the project that apply to it. Raises `StoreError` if it is
    not in a git repository."""
    repository = repository_around(git, project)
    return [*ignore_settings(git, repository)[0], *upper_ignore_files(repository)]


def _read_ignore_file(base: str, path: str) -> IgnoreFile | None:
    """Read an ignore file, at most `MAX_IGNORE_FILE_BYTES` of it; return None if it cannot be
    read."""
    try:
        return ignore_file(base, read_plain(path, MAX_IGNORE_FILE_BYTES))
    except OSError:
        return None


def ignore_file(base: str, data: bytes) -> IgnoreFile:
    return IgnoreFile(base, tuple(os.fsdecode(line) for line in split_lines(data) if line))


def literal(path: str) -> str:
    """Return a pattern that matches only this path, from the top of the repository."""
    return "/" + re.sub(r"([\\*?\[ ])", r"\\\1", path)


def plain_scope(scope: Sequence[str], project: str) -> tuple[str, ...]:
    """Return a scope as normalised paths relative to the project; `.` if it is empty."""
    found = []
    for path in scope:
        if os.path.isabs(path):
            path = os.path.relpath(path, project)
        found.append(normalise(path))
    return tuple(dict.fromkeys(found)) or (".",)
