"""The clone in which a worker carries out a run, and the checkpoints that it pushes.

A checkpoint is a commit on `refs/ll/<run>`: the files of the clone, with the checked-out commit and
the files of the run as its parents. Every push expects the checkpoint that this claim wrote last, so
that a worker that lost its claim without noticing cannot overwrite anything.

Not here: when a checkpoint is written (`seat`), who claims (`worker`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from little_loops.errors import LittleLoopsError
from little_loops.fleet.names import checkpoint_ref, result_branch
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

MAX_FILE_BYTES = 10 << 20
NEVER_PUSHED = (".env*", "*.pem", "id_*")
NOT_OF_THE_RUN = ("live.*", "*.secrets", "bin", "mail")
"""Files of the run that no other worker needs, or that have secrets."""
OWN_FILES = "\n/**/.loops/.gitignore\n/.loops/.gitignore\n"
"""Files that a run adds to a project that has none yet; tracked ones are not affected."""
NOTE = ".checkpoint.json"
GIT_S = 600.0
"""How long git may take for one command, which may fetch or push a whole repository."""
SAFE = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "gc.auto=0"),
)
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "ll-loop"), ("EMAIL", "ll-loop@localhost"))
}


class WorkspaceError(LittleLoopsError):
    """Git could not do what a workspace needs."""


class LostClaim(WorkspaceError):
    """Another worker has claimed the run: its checkpoint is not the one that was expected."""


class Checkpoint(NamedTuple):
    """A commit on the ref of a run, and what it says.

    `order` is the order whose result it has, None if it has none. `left_out` are files that are
    never pushed.
    """

    commit: str
    tree: str
    head: str
    order: int | None = None
    left_out: tuple[str, ...] = ()


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

    def rebuild(
        self, url: str, checkpoint: str, claim: int, run_dir: str, store: str
    ) -> dict[str, Any] | None:
        """Replace the workspace by a new clone, with the files of a checkpoint, and those of the run in
        `run_dir` and `store`. Return the result that is stored in it, if any.

        Raises `LostClaim` if a later claim wrote it, `WorkspaceError`."""
        self._clone(url)
        self._git("fetch", "-q", "origin", checkpoint)
        trailers = self._check_claim(checkpoint, claim)
        head, data = trailers["head"], trailers.get("data")
        self._git("checkout", "-q", "-B", self._branch, head)
        self._git("read-tree", "-u", "--reset", checkpoint)
        self._git("read-tree", head)
        order = int(trailers["order"]) if "order" in trailers else None
        tree = self._git("rev-parse", f"{checkpoint}^{{tree}}")
        self._last = Checkpoint(checkpoint, tree, head, order)
        if data is None:
            return None
        for name, folder in (("run", run_dir), ("store", store)):
            self._restore(f"{data}:{name}", folder)
        return self._stored_result(data)

    def _restore(self, tree: str, folder: str) -> None:
        """Write the files of a tree into a folder, readable by this user only; do nothing if there
        is no such tree."""
        try:
            self._git("rev-parse", "--verify", "-q", tree)
        except WorkspaceError:
            return
        os.makedirs(folder, mode=0o700, exist_ok=True)
        use = {"GIT_WORK_TREE": folder, "GIT_INDEX_FILE": self._index("restored")}
        self._git("read-tree", "--reset", tree, more=use)
        self._git("checkout-index", "-q", "-a", "-f", more=use, cwd=folder)
        os.remove(use["GIT_INDEX_FILE"])

    def _clone(self, url: str) -> None:
        shutil.rmtree(self.place.folder, ignore_errors=True)
        os.makedirs(self.place.folder, mode=0o700)
        git(self.place.folder, self._environ, "clone", "-q", "--no-checkout", url, "clone")
        exclude = os.path.join(self.place.clone, ".git", "info", "exclude")
        os.makedirs(os.path.dirname(exclude), exist_ok=True)
        with open(exclude, "a", encoding="utf-8") as file:
            file.write(OWN_FILES)

    def _check_claim(self, checkpoint: str, claim: int) -> dict[str, str]:
        """Return what a checkpoint says; raise `LostClaim` if a later claim wrote it."""
        trailers = self._fields(checkpoint)
        if int(trailers["claim"]) >= claim:
            raise LostClaim(f"another worker has claimed `{self.place.run}`")
        return trailers

    def _stored_result(self, data: str) -> dict[str, Any] | None:
        text = self._git("log", "-1", "--format=%b", data)
        return json.loads(text) if text else None

    def fence(self, claim: int) -> None:
        """Push a checkpoint of this claim, after which those of earlier claims are refused. Raises
        `LostClaim`."""
        before = self._last
        head = self._git("rev-parse", "HEAD")
        if before is None:
            tree = self._git("rev-parse", "HEAD^{tree}")
            self._write(Checkpoint("", tree, head), "", claim, None)
            return
        data = self._fields(before.commit).get("data")
        self._write(before, before.commit, claim, data)

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
        tree, left_out = self._tree()
        head = self._git("rev-parse", "HEAD")
        if not always and (tree, head) == (self.last.tree, self.last.head):
            return None
        # The store has what was left out, too.
        folders = {"run": run_dir} if left_out else {"run": run_dir, "store": store}
        data = self._data(folders, result)
        found = Checkpoint("", tree, head, order, left_out)
        return self._write(found, self.last.commit, claim, data)

    def _write(self, found: Checkpoint, expected: str, claim: int, data: str | None) -> Checkpoint:
        """Commit and push a checkpoint, if the last one is still the `expected` one."""
        trailers = {"Run": self.place.run, "Claim": str(claim), "Head": found.head}
        if found.order is not None:
            trailers["Order"] = str(found.order)
        parents = ["-p", found.head]
        if data is not None:
            trailers["Data"] = data
            parents += ["-p", data]
        trailer = "\n".join(f"LL-{name}: {value}" for name, value in trailers.items())
        message = f"Checkpoint of {self.place.loop}\n\n{trailer}\n"
        commit = self._git("commit-tree", found.tree, *parents, stdin=message)
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

    def _tree(self) -> tuple[str, tuple[str, ...]]:
        """Return the tree of the files that checkpoints have, and what was left out."""
        index = self._index("checkpoint")
        if not os.path.exists(index):
            shutil.copyfile(os.path.join(self.place.clone, ".git", "index"), index)
        use = {"GIT_INDEX_FILE": index}
        never = [f":(exclude,glob)**/{name}" for name in NEVER_PUSHED]
        self._git("add", "-u", "--", ".", *never, more=use)
        scope = [] if "." in self.place.scope else ["--", *self.place.scope]
        untracked = self._git("ls-files", "-o", "--exclude-standard", "-z", *scope, more=use)
        paths = [path for path in untracked.split("\0") if path]
        secret = self._git(
            "ls-files", "-m", "-z", "--", *(f":(glob)**/{name}" for name in NEVER_PUSHED)
        )
        left_out = tuple(path for path in paths if not self._may_be_pushed(path))
        if kept := [path for path in paths if path not in left_out]:
            words = ("add", "--pathspec-from-file=-", "--pathspec-file-nul")
            self._git("--literal-pathspecs", *words, more=use, stdin="\0".join(kept))
        changed = tuple(path for path in secret.split("\0") if path)
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

    def _data(self, folders: Mapping[str, str], result: Mapping[str, Any]) -> str:
        """Return a commit with the files of some folders, and a result as its message."""
        lines = [
            f"040000 tree {self._tree_of(name, folder)}\t{name}\n"
            for name, folder in folders.items()
            if os.path.isdir(folder)
        ]
        tree = self._git("mktree", stdin="".join(lines))
        text = json.dumps(result, separators=(",", ":"))
        return self._git("commit-tree", tree, stdin=f"Files of a run\n\n{text}\n")

    def _tree_of(self, name: str, folder: str) -> str:
        use = {"GIT_WORK_TREE": folder, "GIT_INDEX_FILE": self._index(name)}
        not_these = [f":(exclude,glob)**/{name}" for name in NOT_OF_THE_RUN]
        self._git("add", "-A", "-f", "--", ".", *not_these, more=use, cwd=folder)
        return self._git("write-tree", more=use)

    def _fields(self, commit: str) -> dict[str, str]:
        """Return what the message of a checkpoint says."""
        lines = self._git("log", "-1", "--format=%b", commit).splitlines()
        pairs = (line.removeprefix("LL-").split(": ", 1) for line in lines if ": " in line)
        return {name.lower(): value for name, value in pairs}

    # ── the end ────────────────────────────────────────────────────────────────────────────────

    def publish(self) -> str | None:
        """Push the files of the last checkpoint as a branch; return its name, None if the run has
        changed nothing."""
        last, commit = self.last, self.last.head
        start = self._git("rev-list", "--max-count=1", "HEAD", "--not", "--remotes=origin")
        if last.tree == self._git("rev-parse", f"{last.head}^{{tree}}"):
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
        environ = {**self._environ, **(more or {})}
        own = os.path.join(self.place.clone, ".git")
        return git(cwd or self.place.clone, {**environ, "GIT_DIR": own}, *words, stdin=stdin)


def git(cwd: str, environ: Mapping[str, str], *words: str, stdin: str = "") -> str:
    """Run git, and return what it prints. Raises `WorkspaceError`."""
    try:
        done = subprocess.run(
            ["git", *SAFE, *words],
            cwd=cwd,
            env=dict(environ),
            input=stdin,
            capture_output=True,
            umask=0o077 if "checkout-index" in words else -1,
            text=True,
            errors="surrogateescape",
            check=False,
            timeout=GIT_S,
        )
    except subprocess.TimeoutExpired as late:
        raise WorkspaceError(f"`git {_verb(words)}` did not finish within {GIT_S:g} s") from late
    if done.returncode:
        why = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        raise WorkspaceError(f"`git {_verb(words)}` failed: {'; '.join(why[-3:])}")
    return done.stdout.rstrip("\n")


def _verb(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def is_served(url: str, patterns: Sequence[str]) -> bool:
    """Return whether a worker that was started with these patterns may run a repository."""
    return any(fnmatchcase(form, pattern) for form in _forms(url) for pattern in patterns)


def _forms(url: str) -> Iterator[str]:
    yield url
    if url.endswith(".git"):
        yield url.removesuffix(".git")
