"""Verify a receipt that `statement` has read: its signature, the run's log, and the project's files.

Nothing is written into the project. A finding is `contradicted` if the receipt or the log was
changed after it was written, and `stale` if the files are no longer those that the receipt
describes.

Not here: running the checks again (`engine.checking`).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from little_loops.errors import FAILED, LIMIT, OK, StoreError
from little_loops.light_typing import Literal
from little_loops.receipts import signing
from little_loops.receipts.canonical import digest
from little_loops.receipts.chain import compare
from little_loops.receipts.gathering import event_log, facts_of_log
from little_loops.receipts.run_trees import guarded_files
from little_loops.receipts.statement import File, Malformed, Receipt, read, root_of
from little_loops.receipts.story import Story
from little_loops.records import NamedTuple
from little_loops.reporting.masking import MASK
from little_loops.runs.entries import entries
from little_loops.runs.reading import Runs
from little_loops.runs.sealed import seal_of
from little_loops.runs.view import RunView
from little_loops.system.plain_files import read_plain, reading
from little_loops.trees.git import find_git
from little_loops.trees.store import TreeStore

Meaning = Literal["good", "note", "stale", "contradicted"]
CHUNK = 1 << 20
SHOWN = 20
_PLAIN, _PROGRAM, _LINK = "100644", "100755", "120000"


class VerificationFinding(NamedTuple):
    meaning: Meaning
    text: str


def exit_code_of(findings: Sequence[VerificationFinding]) -> int:
    """Return the exit code for the findings: `FAILED` if one is contradicted, else `LIMIT` if one
    is stale, else `OK`."""
    meanings = {finding.meaning for finding in findings}
    if "contradicted" in meanings:
        return FAILED
    return LIMIT if "stale" in meanings else OK


def verify(
    path: str, root: str, environ: Mapping[str, str], signers: str | None = None
) -> tuple[Receipt, list[VerificationFinding]]:
    """Check the receipt at `path` against the project at `root`. Return it with all findings.

    Raises `Malformed` if the file is not a receipt, `OSError` if it cannot be read, and
    `ProgramError` if a signature cannot be checked.
    """
    data = read_plain(path)
    try:
        receipt = read(data)
    except Malformed as why:
        raise Malformed(f"`{path}` is not a receipt: {why.message}") from why
    findings = [
        *_check_form(receipt),
        _check_signature(path, data, signers),
        _check_log(receipt, root),
        *_compare_files(receipt, root),
        *_find_new_files(receipt, root, path, environ),
    ]
    return receipt, findings


def _check_form(receipt: Receipt) -> Iterator[VerificationFinding]:
    """Yield whether the receipt is unchanged, and a contradiction if its run did not complete."""
    if not receipt.is_whole:
        yield VerificationFinding("contradicted", "the receipt was changed after it was written")
    elif receipt.root != root_of(receipt.files):
        yield VerificationFinding("contradicted", "the tree's hash does not match its files")
    else:
        yield VerificationFinding("good", "the receipt is intact")
    if receipt.predicate["run"].get("imported"):
        yield VerificationFinding(
            "note",
            "the run was imported from a run file, so the receipt only repeats what that file says",
        )
    ending = receipt.predicate["ending"]
    if receipt.status != "completed":
        yield VerificationFinding(
            "contradicted", f"the run did not complete: {receipt.status}, {ending.get('reason')}"
        )


def _check_signature(path: str, data: bytes, signers: str | None) -> VerificationFinding:
    """Return whether the signature beside the receipt is valid, by one of the signers if given.
    Without a signature, that is a contradiction if there are signers, else a note."""
    signature = path + signing.SUFFIX
    if not os.path.exists(signature):
        if signers is not None:
            return VerificationFinding("contradicted", "unsigned, but signers were given")
        return VerificationFinding("note", "unsigned")
    found = signing.check(data, signature, signers)
    return VerificationFinding(
        "good" if found.is_good else "contradicted", f"signature: {found.words}"
    )


# ── the log ────────────────────────────────────────────────────────────────────────────────────


def _check_log(receipt: Receipt, root: str) -> VerificationFinding:
    """Compare the receipt with the run's event log, if the run is stored here."""
    view = find_run(receipt, root)
    if view is None:
        return VerificationFinding(
            "note", "the run is not stored here, so its log was not compared"
        )
    log = event_log(view)
    sealed = seal_of(root, receipt.run)
    is_own = log is not None and (sealed is None or sealed.is_log(log))
    found = compare(receipt.chain, log) if log is not None and is_own else "different"
    if found == "different":
        return VerificationFinding("contradicted", f"the log of `{receipt.name}` was changed")
    if _says_otherwise(receipt, Runs(root), view):
        text = f"the receipt does not say what the log of `{receipt.name}` says"
        return VerificationFinding("contradicted", text)
    if found == "longer":
        return VerificationFinding(
            "note", f"`{receipt.name}` was resumed later; its log matches up to the receipt"
        )
    return VerificationFinding("good", f"the log of `{receipt.name}` matches")


def _says_otherwise(receipt: Receipt, runs: Runs, view: RunView) -> bool:
    """Return whether a receipt differs from what its run's log, up to that moment, gives. Whoever
    changes a receipt can compute its hash again.

    A text counts as the same if a secret in it is masked: the receipt may know more of them.
    """
    machine = runs.machine(view)
    if machine is None:
        return True
    story = Story(machine).read(islice(runs.events(view), receipt.chain.lines))
    if not story.trees or story.ending is None:
        return True
    plain = json.loads(json.dumps(facts_of_log(story)))
    is_told = receipt.predicate["definition"]["sha256"] == digest(machine.to_dict())
    return not is_told or not _agrees(receipt.predicate, plain)


def _agrees(said: object, found: object) -> bool:
    """Return whether a receipt says what was found; what it says in addition is not looked at, but
    lists have nothing more."""
    match said, found:
        case str(), str():
            return said == found or MASK in said
        case dict(), dict():
            return all(name in said and _agrees(said[name], found[name]) for name in found)
        case list(), list():
            return len(said) == len(found) and all(map(_agrees, said, found))
        case _:
            return said == found and type(said) is type(found)


def find_run(receipt: Receipt, root: str) -> RunView | None:
    """Return the run that the receipt is about, current or past; None if it is not stored here."""
    runs = Runs(root)
    if not runs.has(receipt.name):
        return None
    current = runs.view(receipt.name)
    views = [] if current is None else [current]
    return next(
        (view for view in (*views, *runs.past(receipt.name)) if _is_of(view, receipt.run)), None
    )


def _is_of(view: RunView, run: str) -> bool:
    """Return whether a view is of the run with this id."""
    if view.summary is not None:
        return view.summary.run == run
    first = next(entries(view.files), None)  # its state file is unusable
    return first is not None and first.run == run


# ── the files ──────────────────────────────────────────────────────────────────────────────────


def _compare_files(receipt: Receipt, root: str) -> Iterator[VerificationFinding]:
    """Compare each file of the receipt with the project; yield missing and different ones, or that
    all match."""
    missing, different = [], []
    for file in receipt.files:
        now = file_at(root, file.path)
        if now is None:
            missing.append(file.path)
        elif now != file:
            different.append(file.path)
    yield from (VerificationFinding("stale", f"missing: {path}") for path in missing)
    yield from (VerificationFinding("stale", f"different: {path}") for path in different)
    if not missing and not different:
        count = len(receipt.files)
        text = "1 file matches" if count == 1 else f"all {count} files match"
        yield VerificationFinding("good", text)


def file_at(root: str, path: str) -> File | None:
    """Return the file at a path of the project; None if it is missing, unreadable, not a file, or
    below a link."""
    place = os.path.join(root, path)
    above = os.path.dirname(place)
    if os.path.realpath(above) != os.path.join(
        os.path.realpath(root), os.path.dirname(path)
    ).rstrip("/"):
        return None
    try:
        info = os.lstat(place)
        if stat.S_ISLNK(info.st_mode):
            text = os.fsencode(os.readlink(place))
            return File(path, _LINK, hashlib.sha256(text).hexdigest())
        if not stat.S_ISREG(info.st_mode):
            return None
        mode = _PROGRAM if info.st_mode & stat.S_IXUSR else _PLAIN
        return File(path, mode, _hash_of(place))
    except OSError:
        return None


def _hash_of(path: str) -> str:
    """Return the SHA-256 of a regular file, in hex. Raises `OSError`."""
    found = hashlib.sha256()
    with reading(path) as stream:
        while piece := stream.read(CHUNK):
            found.update(piece)
    return found.hexdigest()


# ── files that are not in the receipt ─────────────────────────────────────────────────────────────


def _find_new_files(
    receipt: Receipt, root: str, path: str, environ: Mapping[str, str]
) -> Iterator[VerificationFinding]:
    """Yield files that are new since the receipt: protected ones as stale, others as a note. The
    receipt itself does not count."""
    own = {os.path.relpath(each, root) for each in (path, path + signing.SUFFIX)}
    try:
        files, protected = present(receipt, root, environ)
    except StoreError as error:
        yield VerificationFinding("note", f"could not check for new files: {error.message}")
        return
    known = {one.path for one in receipt.files} | receipt.protected_paths | own
    forbidden = sorted(protected - known)
    yield from (VerificationFinding("stale", f"new protected file: {each}") for each in forbidden)
    new = sorted(files - known - protected)
    if new:
        more = f" and {len(new) - SHOWN} more" if len(new) > SHOWN else ""
        yield VerificationFinding("note", f"new files: {', '.join(new[:SHOWN])}{more}")


def present(receipt: Receipt, root: str, environ: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """Return the paths that exist now within the scope, and those that are protected.

    They are found as in a run, with a temporary store. Raises `StoreError`.
    """
    with tempfile.TemporaryDirectory(prefix="ll-verify-") as home:
        store = TreeStore.open(root, home, find_git(root, environ))
        rules = store.rules("verify", receipt.scope, receipt.protect)
        taken = store.snapshot(rules)
        files = {one.path for one in store.listing(taken.tree)}
        return files, {one.path for one in guarded_files(store, taken.guard)}
