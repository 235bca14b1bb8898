"""The form of a run file: its entries, their limits, and the manifest that lists them.

    manifest.json       what the file contains, with sizes and hashes, and the hash chain of the log
    run.json            what the run was started with, above all its definition
    events.jsonl        the event log
    log.txt             the log for people, if there is one
    evidence.json       what was fixed for the snapshots when the run started   ┐ only if the run
    trees.bundle        the snapshots, as a git bundle                          │ took snapshots
    modes/ID.json       the permission bits of a snapshot, if they are unusual  ┘
    files/NAME          the files in the run's directory, such as outputs
    runs/CHILD/…        the same for a run that the run started, and so on below that; the snapshots
                        of all of them are in the one bundle

Not here: the bytes of a zip file (`zip_files`), what entries contain (`exporting`, `importing`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from little_loops.fsm.plain import WrongShape, decode, encode
from little_loops.light_typing import Final
from little_loops.receipts.canonical import canonical, sha256
from little_loops.records import NamedTuple
from little_loops.runs.imported import MaskedParts
from little_loops.runs.layout import (
    CHILD,
    CHILDREN,
    DATA,
    IMPORTED,
    LIVE,
    LIVE_ORDER,
    RULES,
    RUN_JSON,
    SECRETS,
    SESSION,
)
from little_loops.runs.output_files import OUTPUT_NAME
from little_loops.runs.recordings import EARLIER, VERSION
from little_loops.sharing.zip_files import ZipEntry
from little_loops.system.own_command import DIRECTORY as OWN_COMMAND

SCHEMA: Final = 1
KIND: Final = "little-loops run"
SUFFIX: Final = ".llrun"

MANIFEST: Final = "manifest.json"
EVENTS: Final = "events.jsonl"
LOG: Final = "log.txt"
BUNDLE: Final = "trees.bundle"
MODES: Final = "modes/"
FILES: Final = "files/"

MAX_MANIFEST_BYTES: Final = 32 << 20
MAX_TOTAL_BYTES: Final = 3 << 30
LIMITS: Final[Mapping[str, int]] = {
    RUN_JSON: 64 << 20,
    EVENTS: 1 << 30,
    LOG: 1 << 30,
    RULES: 64 << 20,
    BUNDLE: 1 << 30,
    MODES: 64 << 20,
    FILES: 256 << 20,
}
"""The maximum size of an unpacked entry."""
MAX_DEPTH: Final = 8
MAX_LEVELS: Final = 8
OWN_NAMES: Final = frozenset({RUN_JSON, RULES, SESSION, IMPORTED, OWN_COMMAND, CHILDREN})
"""Files of a run that are not under `files/`: they have their own entries, or belong to the
machine that the run was on."""
START_FIELDS: Final[Mapping[str, type]] = {
    "run": str,
    "loop": dict,
    "context": dict,
    "host": dict,
    "file": str,
    "until": dict,
    VERSION: str,
    EARLIER: list,
    "data": list,
}
"""The fields of `run.json` that a run file has, with their types. Others, such as the worktree of a
fork, are paths on the machine that the run was on."""
INNER_FIELDS: Final[Mapping[str, type]] = {"parent": dict}
"""More fields of `run.json`, for a run that another one started."""
_PART = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_@.+-]{0,99}")
_ID = re.compile(r"[0-9a-f]{40}")
_HASH = re.compile(r"[0-9a-f]{64}")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,63}")
_SPANS = re.compile(rb"(?:\d{1,15} \d{1,15}\n)*")


class WrongRunFile(ValueError):
    """A run file that cannot be used; the text says why, and names the entry."""


class ManifestEntry(NamedTuple):
    """An entry as the manifest lists it."""

    name: str
    size: int
    sha256: str


class MissingContent(NamedTuple):
    """A file of the project that the snapshots have, without its content."""

    id: str
    size: int
    sha256: str
    left_out: bool = False


class Snapshots(NamedTuple):
    """The ids of the trees that the run has recorded, and content that the bundle lacks; `inner` are
    the ids that the runs it started have recorded, by their places in the file."""

    ids: tuple[str, ...]
    missing: tuple[MissingContent, ...] = ()
    inner: Mapping[str, tuple[str, ...]] = {}

    @property
    def all_ids(self) -> tuple[str, ...]:
        """Return the ids of all trees in the bundle, in its order."""
        return tuple(dict.fromkeys((*self.ids, *(id for ids in self.inner.values() for id in ids))))


class InnerRun(NamedTuple):
    """What the manifest says about a run that another one started."""

    run: str
    loop: str
    status: str
    started_at: str
    masked: MaskedParts = MaskedParts()


class Manifest(NamedTuple):
    """What a run file contains.

    `started_at` is a moment before the first event. `lines` and `head` are the hash chain of the
    log. `trees` is None if no snapshots were taken, or they were left out; then `no_trees` says why.
    `inner` are the runs that the run started, by their places in the file.
    """

    kind: str
    schema: int
    run: str
    name: str
    loop: str
    status: str
    started_at: str
    versions: Mapping[str, str]
    lines: int
    head: str
    entries: tuple[ManifestEntry, ...]
    masked: MaskedParts = MaskedParts()
    trees: Snapshots | None = None
    no_trees: str | None = None
    inner: Mapping[str, InnerRun] = {}

    def to_bytes(self) -> bytes:
        return canonical(encode(self)) + b"\n"

    @property
    def missing(self) -> int:
        """How many files of the project were left out of the snapshots because of a secret."""
        return sum(one.left_out for one in self.trees.missing) if self.trees else 0


def listed(name: str, data: bytes) -> ManifestEntry:
    return ManifestEntry(name, len(data), sha256(data))


def read_manifest(data: bytes) -> Manifest:
    """Decode a manifest. Raises `WrongRunFile` unless it is exactly as `to_bytes` writes one."""
    try:
        plain = json.loads(data)
        if not isinstance(plain, dict) or plain.get("kind") != KIND:
            raise WrongRunFile(f"`{MANIFEST}` does not describe a run")
        if type(schema := plain.get("schema")) is int and schema > SCHEMA:
            raise WrongRunFile(f"it was written by a newer version (schema {schema})")
        manifest = decode(Manifest, plain)
        is_exact = manifest.to_bytes() == data
    except WrongShape as wrong:
        raise WrongRunFile(f"`{MANIFEST}`: {wrong}") from None
    except WrongRunFile:
        raise
    except (ValueError, RecursionError):
        raise WrongRunFile(f"`{MANIFEST}` is not valid JSON") from None
    if not is_exact or manifest.schema != SCHEMA:
        raise WrongRunFile(
            f"`{MANIFEST}` was changed after `ll-loop export`, or a different version of ll-loop wrote it"
        )
    _check_ids(manifest)
    return manifest


def _check_ids(manifest: Manifest) -> None:
    """Raise `WrongRunFile` if an id or a hash, which may become part of a path, is malformed, or if a
    run or a tree is listed twice."""
    trees = manifest.trees or Snapshots(())
    ids = (*trees.all_ids, *(one.id for one in trees.missing))
    hashes = [*(one.sha256 for one in manifest.entries), *(one.sha256 for one in trees.missing)]
    runs = [manifest.run, *(one.run for one in manifest.inner.values())]
    for run in runs:
        if _RUN_ID.fullmatch(run) is None:
            raise WrongRunFile(f"`{MANIFEST}` has the run {run!r:.60}")
    if len(set(runs)) != len(runs):
        raise WrongRunFile(f"`{MANIFEST}` lists a run twice")
    for text in (*(id for id in ids if _ID.fullmatch(id) is None), *_not_hashes(hashes)):
        raise WrongRunFile(f"`{MANIFEST}` has the hash {text!r:.60}")
    is_repeated = any(len(set(of)) != len(of) for of in (trees.ids, *trees.inner.values()))
    if len(set(ids)) != len(ids) or is_repeated:
        raise WrongRunFile(f"`{MANIFEST}` lists a tree twice")


def _not_hashes(hashes: Iterable[str]) -> Iterable[str]:
    return (text for text in hashes if _HASH.fullmatch(text) is None)


# ── names ──────────────────────────────────────────────────────────────────────────────────────


def check_entries(entries: Sequence[ZipEntry]) -> None:
    """Raise `WrongRunFile` unless every entry may be in a run file: by its name and size, and
    because no other one could be taken for it."""
    if not entries or entries[0].name != MANIFEST:
        first = f"it begins with `{entries[0].name}`" if entries else "it is empty"
        raise WrongRunFile(f"{first}; a run file begins with `{MANIFEST}`")
    for entry in entries:
        name = entry.name
        limit = MAX_MANIFEST_BYTES if name == MANIFEST else limit_of(name)
        if limit is None:
            raise WrongRunFile(f"`{name}` is not the name of a file in a run file")
        if entry.size > limit:
            raise WrongRunFile(f"`{name}` is {entry.size} bytes; the limit is {limit}")
    total = sum(entry.size for entry in entries)
    if total > MAX_TOTAL_BYTES:
        raise WrongRunFile(f"it is {total} bytes unpacked; the limit is {MAX_TOTAL_BYTES}")
    _check_no_clash([entry.name for entry in entries])


def _check_no_clash(names: Iterable[str]) -> None:
    """Raise `WrongRunFile` if two entries have the same name, on a disk that ignores case, or one
    is a directory above the other."""
    known: dict[str, str] = {}
    for name in names:
        if (other := known.get(name.lower())) is not None:
            same = other == name
            raise WrongRunFile(
                f"`{name}` is in it twice" if same else f"`{other}` and `{name}` clash"
            )
        known[name.lower()] = name
    for lower, name in known.items():
        parts = lower.split("/")
        for count in range(1, len(parts)):
            if (other := known.get("/".join(parts[:count]))) is not None:
                raise WrongRunFile(f"`{other}` and `{name}` clash")


def limit_of(name: str) -> int | None:
    """Return how large an entry of this name may be, unpacked; None if a run file has no such entry.
    The manifest has a limit of its own."""
    place, name = split_place(name)
    if place and name not in (RUN_JSON, EVENTS, LOG, RULES) and not name.startswith(FILES):
        return None
    if name.startswith(FILES):
        return LIMITS[FILES] if is_file_name(name.removeprefix(FILES)) else None
    if name.startswith(MODES):
        id = name.removeprefix(MODES).removesuffix(".json")
        return LIMITS[MODES] if _ID.fullmatch(id) and name == modes_name(id) else None
    return LIMITS.get(name)


def split_place(name: str) -> tuple[str, str]:
    """Return the place of the run that an entry belongs to, such as `runs/00002-1-types/`, and the
    rest of its name. The place is empty for the run itself, and for a name that has none."""
    parts = name.split("/")
    depth = 0
    while len(parts) > 2 * depth + 2 and parts[2 * depth] == CHILDREN:
        depth += 1
    is_place = depth <= MAX_LEVELS and all(
        _PART.fullmatch(part) for part in parts[1 : 2 * depth : 2]
    )
    if not depth or not is_place:
        return "", name
    return "/".join(parts[: 2 * depth]) + "/", "/".join(parts[2 * depth :])


def path_in_outer(place: str) -> str:
    """Return the directory of an inner run's own files, in the directory of the run at the top; given
    its place in the run file: `runs/00002-1-types/run.d/`."""
    folders = place.split("/")[1::2]
    return "".join(f"{CHILDREN}/{folder}/{CHILD}{DATA}/" for folder in folders)


def modes_name(id: str) -> str:
    return f"{MODES}{id}.json"


def is_file_name(path: str) -> bool:
    """Return whether a file of this name, below a run's directory, can be in a run file."""
    parts = path.split("/")
    return (
        len(parts) <= MAX_DEPTH
        and parts[0].lower() not in OWN_NAMES
        and all(_PART.fullmatch(part) is not None for part in parts)
    )


def is_output(name: str) -> bool:
    """Return whether a file has what an action printed, so that the positions of secrets in it are
    stored beside it."""
    return name in LIVE.values() or (
        re.fullmatch(OUTPUT_NAME, name) is not None and not name.endswith(SECRETS)
    )


def is_spans(data: bytes) -> bool:
    """Return whether these are positions of secrets, as they are stored beside an output."""
    return _SPANS.fullmatch(data) is not None


def is_plain_name(name: str) -> bool:
    """Return whether an event may name this file as an output: one in the run's directory itself, or
    in that of a run that it started."""
    place, rest = split_place(name)
    if place:
        data, _, rest = rest.partition("/")
        return data == CHILD + DATA and is_plain_name(rest)
    return name == LIVE_ORDER or (_PART.fullmatch(name) is not None and name not in OWN_NAMES)
