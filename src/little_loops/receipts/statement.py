"""Write a receipt as an in-toto Statement in canonical JSON, and read one without trusting it.

The first subject is the whole tree, identified by a hash over the list of its files; the other
subjects are those files. The predicate contains a hash over everything else, so that any change is
detected even in an unsigned receipt.

Not here: what the predicate says (`gathering`), whether it is true (`verification`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from little_loops.errors import UsageError
from little_loops.light_typing import Any
from little_loops.receipts.canonical import canonical, digest
from little_loops.receipts.chain import Chain
from little_loops.records import NamedTuple
from little_loops.runs.project import is_run_name

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:little-loops:receipt:v1"
WHOLE = "."
MODES = ("100644", "100755", "120000")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class Malformed(UsageError):
    """The file is not a valid receipt."""


class File(NamedTuple):
    """A file of the tree; the hash of a link is that of its target."""

    path: str
    mode: str
    sha256: str


class Receipt(NamedTuple):
    """The content of a receipt; `commit` is a commit with the same content, if there was one."""

    files: tuple[File, ...]
    root: str
    commit: str | None
    predicate: Mapping[str, Any]
    is_whole: bool
    """Whether the hash over everything else is correct."""

    @property
    def name(self) -> str:
        return str(self.predicate["run"]["name"])

    @property
    def run(self) -> str:
        return str(self.predicate["run"]["id"])

    @property
    def scope(self) -> tuple[str, ...]:
        return tuple(self.predicate["run"]["scope"])

    @property
    def chain(self) -> Chain:
        found = self.predicate["log"]
        return Chain(found["lines"], found["head"])

    @property
    def protect(self) -> tuple[str, ...]:
        return tuple(self.predicate["protected"]["patterns"])

    @property
    def protected_paths(self) -> frozenset[str]:
        return frozenset(one["path"] for one in self.predicate["protected"]["paths"])

    @property
    def status(self) -> str:
        return str(self.predicate["ending"]["status"])


def root_of(files: Sequence[File]) -> str:
    """Return one hash over all files."""
    return digest(sorted([one.path, one.mode, one.sha256] for one in files))


def write(files: Sequence[File], commit: str | None, predicate: Mapping[str, Any]) -> bytes:
    """Return a receipt as bytes, with a newline at the end; `commit` is one with the same content,
    if any."""
    whole: dict[str, str] = {"sha256": root_of(files)}
    if commit is not None:
        whole["gitCommit"] = commit
    subject = [{"name": WHOLE, "digest": whole}, *map(_subject, sorted(files))]
    statement: dict[str, Any] = {
        "_type": STATEMENT,
        "subject": subject,
        "predicateType": PREDICATE,
        "predicate": dict(predicate),
    }
    statement["predicate"] = {**predicate, "digest": {"sha256": digest(statement)}}
    return canonical(statement) + b"\n"


def _subject(file: File) -> dict[str, Any]:
    """Return a file as a subject of the statement."""
    return {
        "name": file.path,
        "digest": {"sha256": file.sha256},
        "annotations": {"mode": file.mode},
    }


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def read(data: bytes) -> Receipt:
    """Parse a receipt; raise `Malformed` for anything that `write` cannot have written."""
    statement = _json(data)
    try:
        if canonical(statement) + b"\n" != data:
            raise Malformed("it is not canonical JSON")
        return _parse(statement)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Malformed("a field is missing or has the wrong type") from error


def _json(data: bytes) -> Any:
    """Parse JSON; raise `Malformed` if it is invalid."""
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Malformed(f"it is not valid JSON ({place})") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, or nested too deeply
        raise Malformed("it is not valid JSON") from error


def _parse(statement: Any) -> Receipt:
    """Return the parts of a statement; raise `Malformed` if they are invalid."""
    if (statement["_type"], statement["predicateType"]) != (STATEMENT, PREDICATE):
        raise Malformed(f"its type is `{statement['predicateType']}`, not ll-loop's")
    first, *others = statement["subject"]
    predicate = dict(statement["predicate"])
    claimed = predicate.pop("digest")
    is_whole = claimed == {"sha256": digest({**statement, "predicate": predicate})}
    whole, files = first["digest"], tuple(map(_file, others))
    if first["name"] != WHOLE or not _SHA256.fullmatch(whole["sha256"]):
        raise Malformed("its first subject is not the tree")
    commit = whole.get("gitCommit")
    if commit is not None and not _COMMIT.fullmatch(commit):
        raise Malformed(f"{commit!r} is not the name of a commit")
    receipt = Receipt(files, whole["sha256"], commit, predicate, is_whole)
    _check_fields(receipt)
    return receipt


def _file(subject: Any) -> File:
    """Return a subject as a file; raise `Malformed` unless its path is relative and its hash valid."""
    path, mode = subject["name"], subject["annotations"]["mode"]
    parts = path.split("/")
    if not path or path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise Malformed(f"{path!r} is not a path inside a project")
    if mode not in MODES or not _SHA256.fullmatch(subject["digest"]["sha256"]):
        raise Malformed(f"the entry of {path!r} is damaged")
    return File(path, mode, subject["digest"]["sha256"])


def _check_fields(receipt: Receipt) -> None:
    """Raise `Malformed` if a field that is used later has the wrong type."""
    texts = (receipt.name, receipt.run, receipt.status, receipt.chain.head)
    lists = (*receipt.scope, *receipt.protect, *receipt.protected_paths)
    if not all(isinstance(each, str) for each in (*texts, *lists)):
        raise Malformed("a field has the wrong type")
    if not is_run_name(receipt.name):
        raise Malformed(f"{receipt.name!r} is not the name of a run")
    if type(receipt.chain.lines) is not int or receipt.chain.lines < 0:
        raise Malformed("the number of log lines is invalid")
    if not isinstance(receipt.predicate["definition"]["machine"], dict):
        raise Malformed("it has no definition")
