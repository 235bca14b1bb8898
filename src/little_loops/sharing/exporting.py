"""Write a run to a file that can be given away: everything it consists of, without its secrets.

Not here: the form of the file (`run_file`), which texts are secrets (`secrets`).
"""

from __future__ import annotations

import errno
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence

from little_loops import __version__
from little_loops.errors import DamagedRun, StoreError, UsageError
from little_loops.fsm.evidence import trees_of as recorded_trees
from little_loops.fsm.schema import BRANCH
from little_loops.fsm.state import LoopState, Result
from little_loops.receipts.chain import chain_of
from little_loops.receipts.run_trees import trees_of
from little_loops.records import NamedTuple
from little_loops.reporting.masking import merged_spans
from little_loops.runs import refusals
from little_loops.runs.folders import folder_of
from little_loops.runs.imported import Imported, MaskedParts, read_imported
from little_loops.runs.layout import CHILDREN, DATA, RULES, RUN_JSON, SECRETS, RunFiles
from little_loops.runs.layout import EVENTS as EVENTS_SUFFIX
from little_loops.runs.layout import LOG as LOG_SUFFIX
from little_loops.runs.reading import Runs
from little_loops.runs.storage import start_bytes
from little_loops.runs.stored_run import StoredRun, read_stored, replayed
from little_loops.runs.view import RunView
from little_loops.sharing.run_file import (
    BUNDLE,
    EVENTS,
    FILES,
    INNER_FIELDS,
    KIND,
    LIMITS,
    LOG,
    MANIFEST,
    OWN_NAMES,
    SCHEMA,
    START_FIELDS,
    InnerRun,
    Manifest,
    MissingContent,
    Snapshots,
    WrongRunFile,
    is_file_name,
    is_output,
    is_spans,
    listed,
    modes_name,
    path_in_outer,
    split_place,
)
from little_loops.sharing.run_log import read_log
from little_loops.sharing.secrets import Secrets, Span, changed_places, starred
from little_loops.sharing.zip_files import WrongZip, ZipWriter
from little_loops.system.files import Folder, to_json
from little_loops.system.plain_files import NOT_A_FILE, read_plain
from little_loops.trees.bundles import Bundle, SecretName, write_bundle
from little_loops.trees.rules import Rules

NOT_WANTED = "they were left out with `--no-trees`"
SECRET_NAMES = "a file name contains a secret"


class RunContent(NamedTuple):
    """The files of a run as they are: its log as far as it counts, and those of its directory.

    `place` is that of a run that another one started, in the run file.
    """

    place: str
    stored: StoredRun
    log: bytes
    text: bytes | None
    files: Mapping[str, bytes]
    left_out: tuple[str, ...]
    imported: Imported | None


class Exported(NamedTuple):
    """What was written, and sentences about what the file does not contain."""

    manifest: Manifest
    size: int
    warnings: tuple[str, ...]


def export_run(
    runs: Runs, view: RunView, target: str, environ: Mapping[str, str], *, trees: bool = True
) -> Exported:
    """Write a run that is not alive to the file `target`, replaced as a whole.

    Raises `UsageError` if the run is alive or cannot be exported without a secret, `DamagedRun` if
    its files do not fit together, `StoreError` if its snapshots cannot be read, and `OSError` if
    the file cannot be written.
    """
    if view.is_alive:
        raise UsageError(
            f"`{view.name}` is still running",
            f"`ll-loop stop {view.name}` pauses it; `ll-loop wait {view.name}` waits for it to finish",
        )
    if view.path and (loop := runs.machine(view)) is not None and loop.paradigm == BRANCH:
        raise UsageError(
            f"`{view.name}` is a single action of `{view.root_name}`, not a separate run",
            f"`ll-loop export {view.root_name}` exports both",
        )
    with runs.frozen():
        family = [_read(view.files), *_read_inner(view.files)]
    packing = _Packing(view, family, environ)
    manifest = packing.pack(trees)
    return Exported(manifest, _write(target, manifest, packing.entries), tuple(packing.warnings))


def _write(target: str, manifest: Manifest, entries: Mapping[str, bytes]) -> int:
    """Write the file under another name, flush it to the disk and rename it. Return its size.

    A link stays one. Raises `OSError` for a directory, pipe or device, which would be replaced.
    """
    target = os.path.realpath(target)
    _check_replaceable(target)
    temporary = f"{target}.tmp-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(temporary, flags, 0o666), "wb") as stream:
            writer = ZipWriter(stream)
            writer.add(MANIFEST, manifest.to_bytes())
            for name, data in entries.items():
                writer.add(name, data)
            writer.finish()
            stream.flush()
            os.fsync(stream.fileno())
            size = stream.tell()
        os.replace(temporary, target)
    except WrongZip:
        os.unlink(temporary)
        raise UsageError(
            "the run is too large for a run file", "`--no-trees` leaves out its snapshots"
        ) from None
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
    return size


def _check_replaceable(path: str) -> None:
    """Raise `OSError` if there is something other than a regular file."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if os.path.lexists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, NOT_A_FILE, path)


# ── reading ────────────────────────────────────────────────────────────────────────────────────


def _read_inner(files: RunFiles, place: str = "") -> Iterator[RunContent]:
    """Yield the runs that a run has started, and those that they have started. One that was killed
    before it recorded anything is left out: a resume starts it again. Raises `DamagedRun`."""
    folder = os.path.join(files.data, CHILDREN)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in names:
        inner, within = files.child(name), f"{place}{CHILDREN}/{name}/"
        if split_place(f"{within}{EVENTS}")[0] == within and read_stored(inner) is not None:
            yield _read(inner, within)
            yield from _read_inner(inner, within)


def _read(files: RunFiles, place: str = "") -> RunContent:
    """Read the files of a run. Raises `UsageError` if nothing was recorded, and `DamagedRun`."""
    stored = read_stored(files)
    folder = folder_of(files)
    if stored is None or folder is None:
        raise UsageError(*refusals.nothing_recorded(files.name))
    with folder:
        log = folder.read(files.base + EVENTS_SUFFIX, LIMITS[EVENTS])
        text = folder.read(files.base + LOG_SUFFIX, LIMITS[LOG])
        data = folder.child(files.base + DATA)
    if log is None or data is None:
        raise DamagedRun(f"`{files.events}` is missing, so `{files.name}` cannot be exported")
    found, left_out = dict[str, bytes](), list[str]()
    with data:
        for path in sorted(_paths_in(data)):
            content = _content_of(data, path)
            if content is None:
                left_out.append(path)
            else:
                found[path] = content
    counts, imported = log[: stored.end], read_imported(files)
    return RunContent(place, stored, counts, text, found, tuple(left_out), imported)


def _paths_in(data: Folder) -> Iterator[str]:
    """Yield the paths of all files below a run's directory, except the program `ll-loop` itself."""
    for top, folders, names in os.walk(data.path):
        below = os.path.relpath(top, data.path)
        if below == ".":
            folders[:] = [name for name in folders if is_file_name(name)]
        yield from (os.path.normpath(os.path.join(below, name)) for name in names)


def _content_of(data: Folder, path: str) -> bytes | None:
    """Return the content of a file; None if it is a link, not a regular file, or too large."""
    full = os.path.join(data.path, path)
    if os.path.islink(full) or not os.path.isfile(full):
        return None
    if os.path.getsize(full) > LIMITS[FILES]:
        return None
    return read_plain(full)


# ── packing ────────────────────────────────────────────────────────────────────────────────────


class _Packing:
    """Collects the entries of a run file, masked: those of a run, then of the runs it started."""

    def __init__(
        self, view: RunView, family: Sequence[RunContent], environ: Mapping[str, str]
    ) -> None:
        self.entries: dict[str, bytes] = {}
        self.warnings: list[str] = []
        self._name = view.name if not view.path else view.loop
        self._family = family
        self._environ = environ
        first = family[0].stored
        self._secrets = Secrets(first.loop, first.run.context, environ, view.name)
        for content in family:
            self._secrets.learn_context(content.stored.run.context)
            self._secrets.learn_earlier(content.stored.start)
            self._secrets.learn(_printed_secrets(content.files))

    def pack(self, wants_trees: bool) -> Manifest:
        """Add all entries, and return the manifest that lists them."""
        (first, *inner) = [self._add_run(content) for content in self._family]
        trees, no_trees = self._add_trees(wants_trees)
        self._check_no_secret_left()
        root = self._family[0]
        if self.entries[EVENTS] != root.log:
            self.warnings.append(
                "the log contained a secret; receipts for this run will not match the run file"
            )
        chain = chain_of(self.entries[EVENTS])
        return Manifest(
            kind=KIND,
            schema=SCHEMA,
            run=first.run,
            name=self._name,
            loop=first.loop,
            status=first.status,
            started_at=first.started_at,
            versions=_versions(),
            lines=chain.lines,
            head=chain.head,
            entries=tuple(listed(name, data) for name, data in self.entries.items()),
            masked=first.masked,
            trees=trees,
            no_trees=no_trees,
            inner={
                content.place: one for content, one in zip(self._family[1:], inner, strict=True)
            },
        )

    def _add_run(self, content: RunContent) -> InnerRun:
        """Add the entries of one run. Return what the manifest says about it."""
        stored, secrets, place = content.stored, self._secrets, content.place
        definition, context = self._add_start(content)
        self.entries[place + EVENTS] = secrets.mask_log(content.log).data
        if content.text is not None:
            self.entries[place + LOG] = secrets.mask_bytes(content.text)
        files = self._add_files(content)
        run = self._replayed(content)
        before = content.imported.masked if content.imported else MaskedParts()
        masked = MaskedParts(
            _merged(before.files, files),
            _merged(before.results, _different(stored.run, run)),
            _merged(before.context, context),
            _merged(before.definition, definition),
        )
        return InnerRun(run.run, run.loop, run.status, stored.run.started_at, masked)

    def _add_start(self, content: RunContent) -> tuple[list[str], list[str]]:
        """Add `run.json`. Return the places in the definition, and the context variables, that had
        a secret."""
        fields = {**START_FIELDS, **(INNER_FIELDS if content.place else {})}
        start = content.stored.start
        plain = {name: value for name, value in start.items() if name in fields}
        new = self._secrets.mask(plain)
        self.entries[content.place + RUN_JSON] = start_bytes(new)
        context = new.get("context", {})
        changed = [
            name for name, value in plain.get("context", {}).items() if context[name] != value
        ]
        return list(changed_places(plain.get("loop"), new.get("loop"))), changed

    def _add_files(self, content: RunContent) -> list[str]:
        """Add the files of a run's directory. Return the names of those that had a secret, also in
        the directories of runs that it started: its results may be in them."""
        changed = []
        files, place = content.files, content.place
        for path, data in files.items():
            owner = path.removesuffix(SECRETS)
            if not is_file_name(path) or (path != owner and is_output(owner)):
                continue
            spans = self._spans(files, path)
            if spans:
                changed.append(path)
            self.entries[place + FILES + path] = starred(data, spans)
            if spans and is_output(path):
                self.entries[place + FILES + path + SECRETS] = _spans_bytes(spans)
        odd = [path for path in files if not is_file_name(path) and not _is_ours(path)]
        for path in (*content.left_out, *odd):
            self.warnings.append(f"`{place}{path}` in the run's directory was left out")
        return [*changed, *self._changed_below(place)]

    def _spans(self, files: Mapping[str, bytes], path: str) -> list[Span]:
        """Return where the secrets in a file are."""
        return merged_spans([*_spans_of(files, path), *self._secrets.spans_in(files[path])])

    def _changed_below(self, place: str) -> Iterator[str]:
        """Yield the outputs with a secret of runs that the run at `place` started, by their paths in
        its directory."""
        for content in self._family:
            if content.place != place and content.place.startswith(place):
                below = path_in_outer(content.place.removeprefix(place))
                outputs = (path for path in content.files if is_output(path))
                yield from (below + path for path in outputs if self._spans(content.files, path))

    def _add_trees(self, wanted: bool) -> tuple[Snapshots | None, str | None]:
        """Add the snapshots of all runs. Return what they are, and why there are none, if some were
        taken."""
        with_trees = [
            content
            for content in self._family
            if recorded_trees(content.stored.run) is not None and RULES in content.files
        ]
        imported = self._family[0].imported
        if not with_trees:
            return None, imported.no_trees if imported else None
        if not wanted:
            return None, NOT_WANTED
        bundle = self._bundle(with_trees)
        if bundle is None:
            self.warnings.append(f"the snapshots were left out, because {SECRET_NAMES}")
            return None, SECRET_NAMES
        self.entries[BUNDLE] = bundle.data
        for id, data in bundle.modes.items():
            self.entries[modes_name(id)] = data
        missing = [
            MissingContent(id, one.size, one.sha256, one.is_left_out)
            for id, one in bundle.missing.items()
        ]
        of = {content.place: bundle.of[content.stored.run.run] for content in with_trees}
        return Snapshots(of.pop("", ()), tuple(missing), of), None

    def _bundle(self, contents: Sequence[RunContent]) -> Bundle | None:
        """Return the snapshots, after adding the rules of each run; None if a path in them is a
        secret."""
        try:
            found = [trees_of(content.stored.files, self._environ) for content in contents]
            rules = {
                content.place + RULES: to_json(portable(trees.rules).to_json())
                for content, trees in zip(contents, found, strict=True)
            }
            if any(map(self._secrets.are_in, rules.values())):
                return None
            of = [trees.rules for trees in found]
            bundle = write_bundle(found[0].store, of, self._secrets.are_in)
        except SecretName:
            return None
        except StoreError as error:
            raise StoreError(
                error.message, "`--no-trees` exports the run without its snapshots"
            ) from error
        self.entries |= rules
        return bundle

    def _replayed(self, content: RunContent) -> LoopState:
        """Return a run as the file has it. Raises `DamagedRun` if it cannot be read back."""
        context = json.loads(self.entries[content.place + RUN_JSON]).get("context", {})
        name = content.place or self._name
        try:
            return replayed(None, read_log(self.entries[content.place + EVENTS]), context)
        except WrongRunFile as wrong:
            raise DamagedRun(f"`{name}` cannot be exported: {wrong}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedRun(
                f"`{name}` cannot be exported: its log is inconsistent ({error})"
            ) from None

    def _check_no_secret_left(self) -> None:
        """Raise `UsageError` if a secret is where it cannot be masked, such as the name of a
        variable."""
        for name, data in self.entries.items():
            if name != BUNDLE and (
                self._secrets.are_in(data) or self._secrets.are_in(name.encode())
            ):
                raise UsageError(
                    f"`{name}` in the run file would contain a secret that cannot be masked",
                    "if it is not a secret, unset the variable with this value while you export",
                )


def portable(rules: Rules) -> Rules:
    """Return the rules of a run's snapshots without what belongs to this machine: paths, and the
    ignored files."""
    return rules._replace(project="", owner="", store="", files=(), linked=(), around=None)


def _printed_secrets(files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the texts that were recognised as secrets when they were printed."""
    for path, data in files.items():
        for start, end in _spans_of(files, path):
            if (word := data[start:end]).strip(b"*"):  # not masked by an earlier export
                yield word.decode("utf-8", "replace")


def _spans_of(files: Mapping[str, bytes], path: str) -> list[Span]:
    """Return the recorded positions of secrets in a file."""
    raw = files.get(path + SECRETS, b"")
    if not is_output(path) or not is_spans(raw):
        return []
    pairs = (line.split() for line in raw.splitlines())
    return [(int(start), int(end)) for start, end in pairs]


def _spans_bytes(spans: list[Span]) -> bytes:
    return b"".join(b"%d %d\n" % span for span in spans)


def _is_ours(path: str) -> bool:
    """Return whether a file in the run's directory has an entry of its own, or is not needed."""
    name = path.partition("/")[0]
    return name in OWN_NAMES or name.startswith(".")


def _different(raw: LoopState, run: LoopState) -> list[str]:
    """Return the names of results whose values the log no longer has, because of a mask."""
    return [
        name
        for name, result in raw.captured.items()
        if name not in run.captured or _values(run.captured[name]) != _values(result)
    ]


def _values(result: Result) -> tuple[object, ...]:
    """Return the parts of a result that actions can use."""
    return result.output, result.stderr, result.structured


def _merged(before: tuple[str, ...], now: list[str]) -> tuple[str, ...]:
    return tuple(sorted({*before, *now}))


def _versions() -> dict[str, str]:
    """Return what wrote the run file: `ll-loop`, Python, and the operating system."""
    return {
        "ll-loop": __version__,
        "python": platform.python_version(),
        "system": platform.system(),
    }
