"""The clone in which a worker carries out a run, and the checkpoints that it pushes.

A checkpoint is a commit on `refs/ll/<run>`: the files of the clone, with the checked-out commit, the
files of the run and its snapshots as its parents. Every push expects the checkpoint that this claim wrote last, so
that a worker that lost its claim without noticing cannot overwrite anything.

Not here: when a checkpoint is written (`seat`), who claims (`worker`).
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

from little_loops.fleet.git import WorkspaceError, git, restore
from little_loops.fleet.names import checkpoint_ref, result_branch
from little_loops.fleet.outputs import too_large, without_secrets
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

MAX_FILE_BYTES = 10 << 20
NEVER_PUSHED = (".env*", "*.pem", "id_*")
NOT_OF_THE_RUN = ("live.*", "bin", "mail", "run.pid")
"""Files of the run that nobody else needs."""
OWN_FILES = "\n/**/.loops/.gitignore\n/.loops/.gitignore\n"
"""Files that a run adds to a project that has none yet; tracked ones are not affected."""
NOTE = ".checkpoint.json"
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "ll-loop"), ("EMAIL", "ll-loop@localhost"))
}


class LostClaim(WorkspaceError):
    """Another worker has claimed the run: its checkpoint is not the one that was expected."""


class Checkpoint(NamedTuple):
    """A commit on the ref of a run, and what it says.

    `order` is the order whose result it has, None if it has none. `left_out` are files that are
    never pushed. `files` is the commit with the files of the run, `store` that with its snapshots.
    `base` is the checkpoint of another run that this one began from, if that started it.
    """

    commit: str
    tree: str
    head: str
    order: int | None = None
    left_out: tuple[str, ...] = ()
    files: str | None = None
    store: str | None = None
    base: str | None = None


class ClonePlace(NamedTuple):
    """Where a run works: its clone, and the directory of its files, both below `folder`."""

    folder: str
    loop: str
    run: str
    scope: tuple[str, ...] = (".",)

    @property
    def clone(self) -> str:
        return os.path.join(self.folder, "clone")


class RunClone:
    """The clone of one run, with the checkpoint that was written last."""

    def __init__(self, place: ClonePlace, environ: Mapping[str, str]) -> None:
        self.place = place
        self._environ = {**environ, **AUTHOR, "GIT_TERMINAL_PROMPT": "0"}
        self._last: Checkpoint | None = None
        self._seen: tuple[str, str] | None = None

    # ── claiming ───────────────────────────────────────────────────────────────────────────────

    def published(self, url: str) -> str:
        """Return the checkpoint that the repository has for this run; empty if it has none. Raises
        `WorkspaceError`."""
        found = git(os.path.dirname(self.place.folder), self._environ, "ls-remote", url, self._ref)
        return found.partition("\t")[0]

    def is_at(self, checkpoint: str, claim: int) -> bool:
        """Return whether the clone is there, and has stayed as it was when its run paused with this
        checkpoint. Raises `LostClaim`."""
        note = self._note()
        if note is None or not note["is_closed"] or note["commit"] != checkpoint:
            return False
        self._check_claim(checkpoint, claim)
        del note["is_closed"]
        self._last = Checkpoint(**{**note, "left_out": tuple(note["left_out"])})
        return True

    def clone(self, url: str, commit: str) -> None:
        """Replace the workspace by a new clone, at a commit. Raises `WorkspaceError`."""
        self._clone(url)
        self._git("checkout", "-q", "-B", self._branch, commit)
        self._begin_index()

    def rebuild(self, url: str, checkpoint: str, claim: int) -> None:
        """Replace the workspace by a new clone, with the files of a checkpoint. Raises `LostClaim` if
        a later claim wrote it, `WorkspaceError`."""
        self._clone(url)
        self._git("fetch", "-q", "origin", checkpoint)
        said = self._check_claim(checkpoint, claim)
        self._check_out(checkpoint, said["head"])
        order = int(said["order"]) if "order" in said else None
        tree = self._tree_of(checkpoint)
        kept = (said.get("files"), said.get("store"), said.get("base"))
        self._last = Checkpoint(checkpoint, tree, said["head"], order, (), *kept)

    def begin_from(self, url: str, run: str) -> None:
        """Replace the workspace by a new clone, with the files of the last checkpoint of another run.
        Raises `WorkspaceError`."""
        self._clone(url)
        self._git("fetch", "-q", "origin", checkpoint_ref(run))
        base = self._git("rev-parse", "FETCH_HEAD")
        head = self._fields(base)["head"]
        self._check_out(base, head)
        self._last = Checkpoint("", self._tree_of(base), head, base=base)

    def _check_out(self, checkpoint: str, head: str) -> None:
        """Write the files of a checkpoint, on top of its commit."""
        self._git("checkout", "-q", "-B", self._branch, head)
        self._git("read-tree", "-u", "--reset", checkpoint)
        self._git("read-tree", head)
        self._begin_index()

    def _tree_of(self, commit: str) -> str:
        return self._git("rev-parse", f"{commit}^{{tree}}")

    def restore(self, run_dir: str, store: str) -> dict[str, Any] | None:
        """Write the files of the run, and its snapshots, as the last checkpoint has them. Return the
        result that is stored in it, if any. Raises `WorkspaceError`."""
        for commit, folder in ((self.last.files, run_dir), (self.last.store, store)):
            if commit is not None:
                restore(self._own, self._environ, commit, folder)
        return None if self.last.files is None else self._stored_result(self.last.files)

    def restore_base(self, run_dir: str) -> None:
        """Write the files of the run that started this one, as they were then. Raises
        `WorkspaceError`."""
        assert self.last.base is not None, "another run has started this one"
        if files := self._fields(self.last.base).get("files"):
            restore(self._own, self._environ, files, run_dir)

    def _begin_index(self) -> None:
        """Keep an index for checkpoints, which is as the commit until now: what actions add to the
        other one may be what is never pushed."""
        own = os.path.join(self._own, "index")
        shutil.copyfile(own, self._index("checkpoint"))

    def _clone(self, url: str) -> None:
        shutil.rmtree(self.place.folder, ignore_errors=True)
        os.makedirs(self.place.folder, mode=0o700)
        git(self.place.folder, self._environ, "clone", "-q", "--no-checkout", url, "clone")
        exclude = os.path.join(self._own, "info", "exclude")
        os.makedirs(os.path.dirname(exclude), exist_ok=True)
        with open(exclude, "a", encoding="utf-8") as file:
            file.write(OWN_FILES)

    def _check_claim(self, checkpoint: str, claim: int) -> dict[str, str]:
        """Return what a checkpoint says; raise `LostClaim` if a later claim wrote it."""
        trailers = self._fields(checkpoint)
        if int(trailers["claim"]) >= claim:
            raise LostClaim(f"another worker has claimed `{self.place.run}`")
        return trailers

    def _stored_result(self, files: str) -> dict[str, Any] | None:
        text = self._git("log", "-1", "--format=%b", files)
        return json.loads(text) if text else None

    def fence(self, claim: int) -> None:
        """Push a checkpoint of this claim, after which those of earlier claims are refused. Raises
        `LostClaim`."""
        before = self._last
        if before is None:
            before = Checkpoint("", self._tree_of("HEAD"), self._git("rev-parse", "HEAD"))
        self._write(before, before.commit, claim)

    # ── checkpoints ────────────────────────────────────────────────────────────────────────────

    @property
    def last(self) -> Checkpoint:
        assert self._last is not None, "a claim begins with a checkpoint"
        return self._last

    def checkpoint(
        self,
        run_dir: str,
        store: str,
        claim: int,
        order: int,
        result: Mapping[str, Any],
        *,
        always: bool,
    ) -> Checkpoint | None:
        """Push the files, those of the run in `run_dir` and `store`, and a result, if the files have
        changed since the last checkpoint, or `always`. Return None if nothing was pushed. Raises
        `LostClaim` and `WorkspaceError`."""
        head, in_commits = self._head()
        tree, left_out = self._tree(head)
        left_out = tuple(dict.fromkeys((*left_out, *in_commits)))
        if not always and (tree, head) == (self.last.tree, self.last.head):
            return None
        files = self._commit_of("run", run_dir, result)
        # The snapshots have what was left out, too.
        kept = None if left_out else self._commit_of("store", store, {})
        found = Checkpoint("", tree, head, order, left_out, files, kept, self.last.base)
        return self._write(found, self.last.commit, claim)

    def _write(self, found: Checkpoint, expected: str, claim: int) -> Checkpoint:
        """Commit and push a checkpoint, if the last one is still the `expected` one."""
        kept = {"Files": found.files, "Store": found.store, "Base": found.base}
        trailers = {"Run": self.place.run, "Claim": claim, "Head": found.head}
        trailers |= {"Order": found.order, **kept}
        lines = [f"LL-{name}: {it}" for name, it in trailers.items() if it is not None]
        parents = [each for each in (found.head, *kept.values()) if each is not None]
        words = [word for each in parents for word in ("-p", each)]
        message = "\n".join((f"Checkpoint of {self.place.loop}\n", *lines, ""))
        commit = self._git("commit-tree", found.tree, *words, stdin=message)
        lease = f"--force-with-lease={self._ref}:{expected}"
        try:
            self._git("push", "-q", "--no-verify", lease, "origin", f"{commit}:{self._ref}")
        except WorkspaceError as error:
            if "stale info" in error.message or "rejected" in error.message:
                raise LostClaim(f"another worker has claimed `{self.place.run}`") from error
            raise
        self._last = found._replace(commit=commit)
        self._keep_note()
        return self._last

    def _head(self) -> tuple[str, tuple[str, ...]]:
        """Return the commit that a checkpoint may refer to: the checked-out one, or, if commits of
        the run have files that are never pushed, the one before them; and these files."""
        head, last = self._git("rev-parse", "HEAD"), self.last.head
        if head == last:
            return head, ()
        made = ("log", "-m", "-z", "--format=", "--name-only", "--diff-filter=d")
        not_ours = ("HEAD", "--not", last, "--remotes=origin")
        found = self._git(*made, *not_ours, "--", *_globs("glob"))
        names = tuple(dict.fromkeys(filter(None, (each.strip("\n") for each in found.split("\0")))))
        return (last, names) if names else (head, ())

    def _tree(self, head: str) -> tuple[str, tuple[str, ...]]:
        """Return the tree of the files that checkpoints have, and what was left out: new files, and
        changes to those that `head` has."""
        use = {"GIT_INDEX_FILE": self._index("checkpoint")}
        self._git("add", "-u", "--", ".", *_globs("exclude,glob"), more=use)
        if head != self.last.head:
            self._git("reset", "-q", head, "--", *_globs("glob"), more=use)
        scope = [] if "." in self.place.scope else ["--", *self.place.scope]
        untracked = self._git("ls-files", "-o", "--exclude-standard", "-z", *scope, more=use)
        paths = [path for path in untracked.split("\0") if path]
        left_out = tuple(path for path in paths if not self._may_be_pushed(path))
        if kept := [path for path in paths if path not in left_out]:
            words = ("add", "--pathspec-from-file=-", "--pathspec-file-nul")
            self._git("--literal-pathspecs", *words, more=use, stdin="\0".join(kept))
        modified = self._git("ls-files", "-m", "-z", "--", *_globs("glob"), more=use)
        changed = tuple(path for path in modified.split("\0") if path)
        return self._git("write-tree", more=use), (*left_out, *changed)

    def _may_be_pushed(self, path: str) -> bool:
        """Return whether a new file is neither called like one with secrets nor too large; False if
        it is gone."""
        name = os.path.basename(path)
        if any(fnmatchcase(name, pattern) for pattern in NEVER_PUSHED):
            return False
        try:
            found = os.lstat(os.path.join(self.place.clone, path))
        except OSError:
            return False
        return found.st_size <= MAX_FILE_BYTES

    def _commit_of(self, name: str, folder: str, result: Mapping[str, Any]) -> str | None:
        """Return a commit with the files of a folder, and a result as its message; None if there is
        no such folder."""
        if not os.path.isdir(folder):
            return None
        use = {"GIT_WORK_TREE": folder, "GIT_INDEX_FILE": self._index(name)}
        not_these = [f":(exclude,glob)**/{each}" for each in NOT_OF_THE_RUN]
        not_these += [f":(exclude,literal){path}" for path in too_large(folder)]
        self._git("add", "-A", "-f", "--", ".", *not_these, more=use, cwd=folder)
        for path, data in without_secrets(folder):
            text = data.decode("utf-8", "surrogateescape")
            blob = self._git("hash-object", "-w", "--stdin", stdin=text)
            self._git("update-index", "--cacheinfo", f"100644,{blob},{path}", more=use)
        tree, text = self._git("write-tree", more=use), json.dumps(result, separators=(",", ":"))
        return self._git("commit-tree", tree, stdin=f"Files of a run\n\n{text}\n")

    def _fields(self, commit: str) -> dict[str, str]:
        """Return what the message of a checkpoint says."""
        lines = self._git("log", "-1", "--format=%b", commit).splitlines()
        pairs = (line.removeprefix("LL-").split(": ", 1) for line in lines if ": " in line)
        return {name.lower(): value for name, value in pairs}

    # ── runs that this one has started ─────────────────────────────────────────────────────────

    def take_in(self, run: str, run_dir: str) -> None:
        """Write what another run has changed since it began from a checkpoint of this one, and put its
        own files into `run_dir`. A file that others have changed meanwhile is overwritten. Raises
        `WorkspaceError`."""
        self._git("fetch", "-q", "origin", checkpoint_ref(run))
        commit = self._git("rev-parse", "FETCH_HEAD")
        said = self._fields(commit)
        base, head = said["base"], said["head"]
        words = ("diff-tree", "-r", "-z", "--no-renames", "--name-only")
        written = self._git(*words, "--diff-filter=d", base, commit)
        for path in filter(None, self._git(*words, "--diff-filter=D", base, commit).split("\0")):
            remove_file(self.place.clone, path)
        use = {"GIT_INDEX_FILE": self._index("other")}
        self._git("read-tree", "--reset", commit, more=use)
        self._git("checkout-index", "-q", "-f", "-z", "--stdin", more=use, stdin=written)
        before = self._fields(base)["head"]
        if head != before and self._git("rev-parse", "HEAD") == before:
            self._git("reset", "-q", head)
        if "files" in said:
            restore(self._own, self._environ, said["files"], run_dir)

    def forget(self, run: str) -> None:
        """Delete the checkpoints of another run, if they can be deleted: they only take up space."""
        with suppress(WorkspaceError):
            words = ("push", "-q", "--no-verify", "origin", "--delete", checkpoint_ref(run))
            self._git(*words)

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    def publish(self) -> str | None:
        """Push the files of the last checkpoint as a branch; return its name, None if the run has
        changed nothing."""
        last, commit = self.last, self.last.head
        start = self._git("rev-list", "--max-count=1", last.head, "--not", "--remotes=origin")
        if last.tree == self._tree_of(last.head):
            if not start:
                return None
        else:
            message = f"{self.place.loop}: changes of run {self.place.run}\n"
            commit = self._git("commit-tree", last.tree, "-p", last.head, stdin=message)
        self._git(
            "push", "-q", "--no-verify", "-f", "origin", f"{commit}:refs/heads/{self._branch}"
        )
        return self._branch

    # ── details ────────────────────────────────────────────────────────────────────────────────

    @property
    def _ref(self) -> str:
        return checkpoint_ref(self.place.run)

    @property
    def _branch(self) -> str:
        return result_branch(self.place.loop, self.place.run)

    @property
    def _own(self) -> str:
        return os.path.join(self.place.clone, ".git")

    def _index(self, name: str) -> str:
        return os.path.join(self.place.folder, f"{name}.index")

    def _note(self) -> dict[str, Any] | None:
        try:
            with open(os.path.join(self.place.folder, NOTE), encoding="utf-8") as file:
                note: dict[str, Any] = json.load(file)
                return note
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        """Note that the run has paused, and left the clone as it is."""
        self._keep_note(is_closed=True)

    def _keep_note(self, *, is_closed: bool = False) -> None:
        path = os.path.join(self.place.folder, NOTE)
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump({**self.last._asdict(), "is_closed": is_closed}, file)
        os.replace(f"{path}.tmp", path)

    def _git(
        self,
        *words: str,
        stdin: str = "",
        more: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> str:
        environ = {**self._environ, **(more or {}), "GIT_DIR": self._own}
        return git(cwd or self.place.clone, environ, *words, stdin=stdin)


def remove_file(root: str, path: str) -> None:
    """Remove a file, and the directories that are empty then. What only a link leads to stays."""
    place = os.path.join(root, path)
    folder = os.path.dirname(place)
    if os.path.relpath(os.path.realpath(folder), os.path.realpath(root)) != (
        os.path.dirname(path) or "."
    ):
        return
    with suppress(OSError):
        os.remove(place)
    while folder != root:
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def _globs(magic: str) -> Iterator[str]:
    """Yield pathspecs of the names that are never pushed."""
    return (f":({magic})**/{name}" for name in NEVER_PUSHED)


def is_served(url: str, patterns: Sequence[str]) -> bool:
    """Return whether a worker that was started with these patterns may run a repository."""
    return any(fnmatchcase(form, pattern) for form in _forms(url) for pattern in patterns)


def _forms(url: str) -> Iterator[str]:
    yield url
    if url.endswith(".git"):
        yield url.removesuffix(".git")
