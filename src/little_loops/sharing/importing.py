"""Read a run file that may come from anywhere, and check all of it before anything is written.

Names, sizes, hashes and the hash chain must match; the log must be that of one run, from its start,
and must lead to the state that the manifest names; the definition must be valid. Nothing in the
file is carried out.

Not here: putting the run into the project (`landing`), the snapshots (`trees.bundles`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager

from little_loops.authoring.library import checked
from little_loops.errors import StoreError, UsageError
from little_loops.fsm.events import ChildrenPlanned, ResolveStart
from little_loops.fsm.schema import BRANCH, FSMLoop
from little_loops.fsm.state import LoopState
from little_loops.fsm.timestamps import timestamp, wall_ms_of
from little_loops.light_typing import Any, BinaryIO
from little_loops.receipts.canonical import sha256
from little_loops.receipts.chain import Chain, chain_of
from little_loops.records import NamedTuple
from little_loops.runs.imported import Imported
from little_loops.runs.layout import CHILDREN, RULES, RUN_JSON, SECRETS, child_folder
from little_loops.runs.project import is_loop_name, is_run_name
from little_loops.runs.recordings import EARLIER
from little_loops.runs.storage import start_bytes
from little_loops.runs.stored_run import replayed
from little_loops.sharing.run_file import (
    BUNDLE,
    EVENTS,
    FILES,
    INNER_FIELDS,
    LOG,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    MODES,
    START_FIELDS,
    InnerRun,
    Manifest,
    ManifestEntry,
    WrongRunFile,
    check_entries,
    is_output,
    is_spans,
    limit_of,
    modes_name,
    read_manifest,
    split_place,
)
from little_loops.sharing.run_log import read_log
from little_loops.sharing.zip_files import WrongZip, ZipEntry, ZipReader
from little_loops.system.files import to_json
from little_loops.system.plain_files import reading
from little_loops.trees.bundles import Bundle
from little_loops.trees.content import Unstored
from little_loops.trees.rules import Rules

MOST_BEFORE_MS = 86_400_000
"""A run's first event is written immediately; a longer delay means that the clock was changed."""


class CheckedRun(NamedTuple):
    """A run in a run file: the run itself, whose `place` is empty, or one that it started."""

    place: str
    run: LoopState
    loop: FSMLoop
    start: bytes
    log: bytes
    rules: Rules | None
    imported: Imported


class OpenRunFile(NamedTuple):
    """A run file that was checked from beginning to end, and is still open.

    Entries are read again when they are written, and compared with the manifest once more.
    """

    zip: ZipReader
    manifest: Manifest
    runs: Sequence[CheckedRun]
    entries: Mapping[str, ZipEntry]
    listed: Mapping[str, ManifestEntry]

    @property
    def run(self) -> LoopState:
        return self.runs[0].run

    @property
    def log(self) -> bytes:
        return self.runs[0].log

    def data(self, name: str) -> bytes:
        """Return the content of an entry. Raises `WrongRunFile` if the file has changed."""
        return _data(self.zip, self.entries[name], self.listed[name])

    def files(self, place: str) -> Iterator[tuple[str, bytes]]:
        """Yield the files of a run's directory, by their paths in it."""
        for name in self.entries:
            if name.startswith(place + FILES):
                yield name.removeprefix(place + FILES), self.data(name)

    def text(self, place: str) -> bytes | None:
        """Return the log of a run for people; None if there is none."""
        return self.data(place + LOG) if place + LOG in self.entries else None

    def bundle(self) -> Bundle:
        """Return the snapshots of the runs that have them."""
        trees = self.manifest.trees
        assert trees is not None, "the caller has checked"
        modes = {id: modes_name(id) for id in trees.all_ids}
        ids = {"": trees.ids, **trees.inner}
        return Bundle(
            trees.all_ids,
            self.data(BUNDLE),
            {id: self.data(name) for id, name in modes.items() if name in self.entries},
            {one.id: Unstored(one.size, one.sha256, one.left_out) for one in trees.missing},
            {one.run.run: ids[one.place] for one in self.runs if one.rules is not None},
        )


@contextmanager
def open_run_file(path: str) -> Iterator[OpenRunFile]:
    """Open a run file and check all of it, except its snapshots; it stays open within the block.

    Raises `UsageError` if it cannot be read or is not a run file, also if only the block finds out;
    the message names the entry.
    """
    try:
        stream = reading(path)
    except OSError as error:
        raise UsageError(
            f"cannot read `{path}`: {(error.strerror or str(error)).lower()}"
        ) from error
    with stream:
        try:
            yield _checked(stream)
        except (WrongRunFile, WrongZip) as wrong:
            raise UsageError(
                f"`{path}` is not a valid run file: {wrong}", "nothing was imported"
            ) from wrong


def _checked(stream: BinaryIO) -> OpenRunFile:
    """Check a file in the order in which its parts depend on each other."""
    zip = ZipReader(stream)
    check_entries(zip.entries)
    manifest = read_manifest(zip.data(zip.entries[0], MAX_MANIFEST_BYTES))
    entries = {entry.name: entry for entry in zip.entries[1:]}
    _check_listed(manifest, entries)
    listed = {one.name: one for one in manifest.entries}

    def data_of(name: str) -> bytes:
        return _data(zip, entries[name], listed[name])

    for name in entries:
        _check_data(name, data_of(name))
    if chain_of(data_of(EVENTS)) != Chain(manifest.lines, manifest.head):
        raise WrongRunFile(f"`{EVENTS}` does not match the hash chain in `{MANIFEST}`")
    if not is_run_name(manifest.name):
        raise WrongRunFile(f"{manifest.name!r:.120} is not a valid name for a run")
    inner = [
        _checked_run(place, one, manifest, data_of, entries)
        for place, one in manifest.inner.items()
    ]
    declared = InnerRun(
        manifest.run, manifest.loop, manifest.status, manifest.started_at, manifest.masked
    )
    runs = [_checked_run("", declared, manifest, data_of, entries), *inner]
    _check_family(runs)
    return OpenRunFile(zip, manifest, runs, entries, listed)


def _checked_run(
    place: str,
    declared: InnerRun,
    manifest: Manifest,
    data_of: Callable[[str], bytes],
    entries: Container[str],
) -> CheckedRun:
    """Check the parts of one run; `declared` is what the manifest says about it."""
    try:
        log, start = (
            data_of(place + EVENTS),
            _start(data_of(place + RUN_JSON), is_inner=bool(place)),
        )
        loop = _machine(start["loop"], is_inner=bool(place))
        run = _run(log, start, loop, declared)
        if not is_loop_name(run.loop) and loop.paradigm != BRANCH:
            raise WrongRunFile(f"{run.loop!r:.120} is not a valid name for a loop")
        rules = _rules(data_of(place + RULES), run) if place + RULES in entries else None
    except WrongRunFile as wrong:
        raise WrongRunFile(f"{place}: {wrong}" if place else str(wrong)) from None
    imported = Imported(declared.masked, manifest.no_trees, manifest.versions)
    return CheckedRun(place, run, loop, start_bytes(start), log, rules, imported)


def _check_family(runs: Sequence[CheckedRun]) -> None:
    """Raise `WrongRunFile` unless each inner run is one that the run around it has started."""
    planned = {f"{one.place}{CHILDREN}/{name}/" for one in runs for name in _started_by(one)}
    for one in runs:
        if one.place and one.place not in planned:
            raise WrongRunFile(f"no run in this file could have started `{one.place}`")


def _started_by(one: CheckedRun) -> Iterator[str]:
    """Yield the directories of the runs that a run may have started: those of its states, and those
    that were to resolve a branch."""
    planned: ChildrenPlanned | None = None
    for entry in read_log(one.log):
        match entry.event:
            case ChildrenPlanned(names=names) as planned:
                yield from (child_folder(planned.step, planned.attempt, name) for name in names)
            case ResolveStart(child=name) if planned is not None:
                yield child_folder(planned.step, planned.attempt, name)
            case _:
                pass


def _data(zip: ZipReader, entry: ZipEntry, listed: ManifestEntry) -> bytes:
    """Return an entry's content. Raises `WrongRunFile` if it is not the one in the manifest."""
    data = zip.data(entry, limit_of(entry.name) or 0)
    if (len(data), sha256(data)) != (listed.size, listed.sha256):
        raise WrongRunFile(f"`{entry.name}` does not have the hash in `{MANIFEST}`")
    return data


def _check_listed(manifest: Manifest, entries: Mapping[str, ZipEntry]) -> None:
    """Raise `WrongRunFile` unless the file has exactly the entries of its manifest, in order, and
    those that every run file needs."""
    names = [one.name for one in manifest.entries]
    for name in (*(set(names) - entries.keys()), *(entries.keys() - set(names))):
        where = f"is missing from `{MANIFEST}`" if name in entries else "is missing"
        raise WrongRunFile(f"`{name}` {where}")
    if names != list(entries):
        raise WrongRunFile(f"its entries are not in the order of `{MANIFEST}`")
    for name in _needed(manifest):
        if name not in entries:
            raise WrongRunFile(f"`{name}` is missing")
    places = {"", *manifest.inner}
    trees = manifest.trees
    of_trees = set() if trees is None else {BUNDLE, *map(modes_name, trees.all_ids)}
    rules = set() if trees is None else {place + RULES for place in ("", *trees.inner)}
    for name in entries:
        place, rest = split_place(name)
        if place not in places:
            raise WrongRunFile(f"no run uses `{name}`")
        is_of_trees = rest in (RULES, BUNDLE) or rest.startswith(MODES)
        if is_of_trees and name not in of_trees and name not in rules:
            raise WrongRunFile(f"no snapshot uses `{name}`")


def _needed(manifest: Manifest) -> Iterator[str]:
    """Yield the names of entries that must not be missing."""
    for place in ("", *manifest.inner):
        yield from (place + RUN_JSON, place + EVENTS)
    if manifest.trees is not None:
        yield BUNDLE
        yield from (place + RULES for place in manifest.trees.inner)
        if manifest.trees.ids or not manifest.trees.inner:
            yield RULES


def _check_data(name: str, data: bytes) -> None:
    """Raise `WrongRunFile` for a file that would be misread later."""
    _, name = split_place(name)
    path = name.removeprefix(FILES)
    if name.startswith(FILES) and path.endswith(SECRETS) and is_output(path.removesuffix(SECRETS)):
        if not is_spans(data):
            raise WrongRunFile(f"`{name}` is not a valid list of masked positions")
    if name.startswith(MODES):
        _check_modes(name, data)


def _check_modes(name: str, data: bytes) -> None:
    """Raise `WrongRunFile` unless these are permission bits of files."""
    try:
        plain = json.loads(data)
        modes = [*plain["usual"], *plain["odd"].values()]
        is_right = len(plain["usual"]) == 2 and to_json(plain) == data
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise WrongRunFile(f"`{name}` does not contain valid permission bits") from None
    if not is_right or not all(type(mode) is int and 0 <= mode < 1 << 17 for mode in modes):
        raise WrongRunFile(f"`{name}` does not contain valid permission bits")


# ── what is in it ──────────────────────────────────────────────────────────────────────────────


def _start(data: bytes, *, is_inner: bool) -> dict[str, Any]:
    """Return what a run was started with. Raises `WrongRunFile` if a field is missing, unknown or
    of the wrong type: an unknown field might be a path on this machine."""
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        raise WrongRunFile(f"`{RUN_JSON}` is not valid JSON") from None
    if not isinstance(plain, dict) or plain.pop("crc", None) is None or start_bytes(plain) != data:
        raise WrongRunFile(f"`{RUN_JSON}` was not written by `ll-loop export`")
    _check_fields(plain, {**START_FIELDS, **(INNER_FIELDS if is_inner else {})})
    for each in plain.get(EARLIER, ()):
        if not isinstance(each, dict) or type(each.get("until")) is not int:
            raise WrongRunFile(f"`{RUN_JSON}`: `{EARLIER}` cannot be {plain[EARLIER]!r:.60}")
        _machine(each.get("loop"))
    file = plain.get("file")
    if file is not None and (os.path.isabs(file) or os.path.normpath(file).split("/")[0] == ".."):
        raise WrongRunFile(f"`{RUN_JSON}`: `file` cannot be {file!r:.60}")
    return plain


def _check_fields(plain: Mapping[str, Any], fields: Mapping[str, type]) -> None:
    """Raise `WrongRunFile` if a field is missing, unknown, or of the wrong type."""
    for name, value in plain.items():
        if not isinstance(value, fields.get(name, ())):
            raise WrongRunFile(f"`{RUN_JSON}`: `{name}` cannot be {value!r:.60}")
    if "loop" not in plain or "context" not in plain:
        raise WrongRunFile(f"`{RUN_JSON}` has no definition")
    texts = {"host": plain.get("host", {}).values(), "data": plain.get("data", ())}
    texts["parent"] = plain.get("parent", {}).values()
    for name, values in texts.items():
        if any(not isinstance(value, str) for value in values):
            raise WrongRunFile(f"`{RUN_JSON}`: `{name}` cannot be {plain[name]!r:.60}")


def _machine(plain: Any, *, is_inner: bool = False) -> FSMLoop:
    """Return the definition, validated like a loop file. Raises `WrongRunFile`.

    That of an inner run may be the single action of a branch, which nobody can write as a file.
    """
    try:
        loop = FSMLoop.from_dict(plain)
        is_branch = is_inner and loop.paradigm == BRANCH
        checked(loop._replace(name="branch", paradigm="fsm") if is_branch else loop)
        return loop
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise WrongRunFile(f"`{RUN_JSON}` has an invalid definition: {error}") from None


def _run(log: bytes, start: Mapping[str, Any], loop: FSMLoop, declared: InnerRun) -> LoopState:
    """Return the run that the log leads to. Raises `WrongRunFile` if it does not fit the definition
    or the manifest."""
    try:
        run = replayed(None, read_log(log), start["context"])
    except WrongRunFile:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise WrongRunFile(f"`{EVENTS}` makes no sense: {error}") from None
    if (run.run, run.loop, run.status) != (declared.run, declared.loop, declared.status):
        raise WrongRunFile(f"`{EVENTS}` is not the log of the run that is named in `{MANIFEST}`")
    if start.get("run", run.run) != run.run:
        raise WrongRunFile(f"`{RUN_JSON}` belongs to another run")
    if run.current_state not in loop.states:
        raise WrongRunFile(
            f"`{EVENTS}` ends in the state `{run.current_state}`, which does not exist"
        )
    for path in run.scope:
        if os.path.isabs(path) or ".." in path.split("/"):
            raise WrongRunFile(f"`{EVENTS}` has the scope {path!r:.60}")
    return run._replace(started_at=_started_at(declared.started_at, run.started_at))


def _started_at(declared: str, first_event: str) -> str:
    """Return when the run started. Raises `WrongRunFile` if that is no time, or not just before its
    first event."""
    try:
        before_ms = wall_ms_of(first_event) - wall_ms_of(declared)
        is_right = timestamp(wall_ms_of(declared)) == declared and 0 <= before_ms < MOST_BEFORE_MS
    except ValueError:
        is_right = False
    if not is_right:
        raise WrongRunFile(f"`{MANIFEST}` has the time {declared!r:.60}")
    return declared


def _rules(data: bytes, run: LoopState) -> Rules:
    """Return what was fixed for the snapshots. Raises `WrongRunFile`."""
    try:
        plain = json.loads(data)
        rules = Rules.from_json(plain)
    except (ValueError, RecursionError, AttributeError, StoreError) as error:
        raise WrongRunFile(f"`{RULES}` cannot be read: {error}") from None
    places = (rules.project, rules.owner, rules.store, rules.files, rules.linked, rules.around)
    if places != ("", "", "", (), (), None) or rules.run != run.run or to_json(plain) != data:
        raise WrongRunFile(f"`{RULES}` was not written by `ll-loop export`")
    texts = (
        *(rules.prefix, *rules.scope, *rules.protect, *rules.tracked, *rules.nested),
        *(*rules.directories, *rules.caches, *rules.watched),
        *(text for one in rules.ignore for text in (one.base, *one.lines)),
    )
    if not all(isinstance(text, str) for text in texts) or type(rules.ignore_case) is not bool:
        raise WrongRunFile(f"`{RULES}` has a field of the wrong type")
    for path in (*rules.scope, rules.prefix):
        if os.path.isabs(path) or ".." in path.split("/"):
            raise WrongRunFile(f"`{RULES}` has the path {path!r:.60}")
    if rules.head is not None and not (isinstance(rules.head, str) and rules.head.isalnum()):
        raise WrongRunFile(f"`{RULES}` has the commit {rules.head!r:.60}")
    return rules
