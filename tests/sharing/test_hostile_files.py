"""A run file from a stranger: refused in words that name the entry, and nothing is written."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from little_loops.errors import LittleLoopsError, UsageError
from little_loops.trees.objects import TreeEntry, object_id, tree_data
from tests.cli.runs import ran, tree
from tests.project import Project
from tests.receipts.kept_run import KeptProject
from tests.sharing.files import (
    Entries,
    changed,
    entries_of,
    environ,
    imported,
    start_with,
    with_manifest,
    write,
)
from tests.sharing.test_round_trip import LOOPS
from tests.simulation.command import in_memory

FUZZED = 1000


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a run without snapshots, which has every other kind of entry."""
    top = tmp_path_factory.mktemp("plain")
    project = Project(top)
    ran(project.root, LOOPS["long output on both streams"])
    done = project.ll("export", "long", "-o", str(top / "long.llrun"))
    assert done.returncode == 0, done.stderr
    return top / "long.llrun"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a run with snapshots."""
    top = tmp_path_factory.mktemp("kept")
    project = KeptProject(top).fixed()
    done = project.ll("export", "fix", "-o", str(top / "fix.llrun"))
    assert done.returncode == 0, done.stderr
    return top / "fix.llrun"


@pytest.fixture
def there() -> Iterator[Project]:
    with in_memory() as place:
        yield Project(place)


def refusal(path: Path, project: Project) -> str:
    """Import a file that must be refused. Return why, after checking that nothing was written but
    an empty tree store and the directories of runs."""
    with pytest.raises(UsageError) as caught:
        imported(path, str(project.root), environ(project.home))
    left = {name for name in tree(project.root) if not name.startswith(".loops/.running")}
    assert left <= {".", ".loops", ".loops/.", ".loops/.gitignore"}
    outside = {path.name for path in project.root.parent.iterdir()}
    assert outside <= {"project", "home", "file.llrun"}
    return caught.value.message.replace(str(path), "FILE")


# ── zip files ──────────────────────────────────────────────────────────────────────────────────


def rezipped(change: Callable[[zipfile.ZipFile, Entries], None]) -> Callable[[Entries], bytes]:
    """A zip file as other programs write it."""

    def make(entries: Entries) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            change(file, entries)
        return out.getvalue()

    return make


def all_but(file: zipfile.ZipFile, entries: Entries) -> None:
    for name, data in entries.items():
        file.writestr(name, data)


def link_entry(file: zipfile.ZipFile, entries: Entries) -> None:
    all_but(file, entries)
    info = zipfile.ZipInfo("files/link")
    info.external_attr = 0o120777 << 16
    file.writestr(info, "/etc/passwd")


ZIPS: dict[str, tuple[Callable[[bytes, Entries], bytes], str]] = {
    "an empty file": (lambda raw, _: b"", "it is not a zip file"),
    "no zip file": (
        lambda raw, _: b"hello" * 99,
        "it is not a zip file, or was changed by another program",
    ),
    "an empty zip file": (
        lambda raw, _: b"PK\5\6" + bytes(18),
        "it is empty; a run file begins with `manifest.json`",
    ),
    "cut in the middle": (
        lambda raw, _: raw[: len(raw) // 2],
        "it is not a zip file, or was changed by another program",
    ),
    "data before the first entry": (
        lambda raw, _: b"#!/bin/sh\n" + raw,
        "its directory has the wrong size",
    ),
    "data after the end": (
        lambda raw, _: raw + b"x",
        "it is not a zip file, or was changed by another program",
    ),
    "a comment": (
        lambda raw, _: raw[:-2] + b"\1\0x",
        "it is not a zip file, or was changed by another program",
    ),
    "written by another program": (
        lambda _, entries: rezipped(all_but)(entries),
        "the header of `manifest.json` was not written by `ll-loop export`",
    ),
    "a symbolic link": (
        lambda _, entries: rezipped(link_entry)(entries),
        "the header of `manifest.json` was not written by `ll-loop export`",
    ),
    "two names for one entry": (
        lambda raw, _: raw.replace(b"run.json", b"Run.json", 1),
        "the two headers of `run.json` differ",
    ),
    "a size that is too small": (
        lambda raw, _: smaller(raw),
        "`events.jsonl` is damaged",
    ),
}


def smaller(raw: bytes) -> bytes:
    """Let the headers of the log say that it is one byte smaller."""
    at = raw.index(b"events.jsonl") - 30
    size = int.from_bytes(raw[at + 22 : at + 26], "little")
    old, new = (size.to_bytes(4, "little"), (size - 1).to_bytes(4, "little"))
    assert raw.count(old) >= 2
    return raw.replace(old, new)


@pytest.mark.parametrize(("make", "why"), ZIPS.values(), ids=ZIPS)
def test_a_zip_file_of_another_form_is_refused(plain, there, make, why):
    path = there.root.parent / "file.llrun"
    path.write_bytes(make(plain.read_bytes(), entries_of(plain)))
    assert refusal(path, there) == f"`FILE` is not a valid run file: {why}"


# ── entries ────────────────────────────────────────────────────────────────────────────────────


def named(name: str, data: bytes = b"x") -> Callable[[Entries], Entries]:
    return lambda entries: with_manifest({**entries, name: data})


def without(name: str) -> Callable[[Entries], Entries]:
    return lambda entries: {key: data for key, data in entries.items() if key != name}


def fields(**given: object) -> Callable[[Entries], Entries]:
    return lambda entries: with_manifest(entries, **given)


def starting(**given: object) -> Callable[[Entries], Entries]:
    return lambda entries: changed(entries, "run.json", lambda data: start_with(data, **given))


def lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Entries], Entries]:
    def make(entries: Entries) -> Entries:
        return changed(
            entries, "events.jsonl", lambda data: b"".join(change(data.splitlines(True)))
        )

    return make


def pointing(path: str) -> Callable[[Entries], Entries]:
    """Let an event name another file as the output of its action."""
    return lines(lambda all: [line.replace(b"00001-1.out", path.encode()) for line in all])


def machine(change: Callable[[dict[str, object]], object]) -> Callable[[Entries], Entries]:
    def make(entries: Entries) -> Entries:
        loop = json.loads(entries["run.json"])["loop"]
        change(loop)
        return changed(entries, "run.json", lambda data: start_with(data, loop=loop))

    return make


NOT_NAMED = "`{}` is not the name of a file in a run file"
ENTRIES: dict[str, tuple[Callable[[Entries], Entries], str]] = {
    "an absolute name": (named("/etc/cron.d/x"), NOT_NAMED.format("/etc/cron.d/x")),
    "a name that leads out": (named("files/../../x"), NOT_NAMED.format("files/../../x")),
    "a dot as a name": (named("files/./x"), NOT_NAMED.format("files/./x")),
    "an empty name": (named("files/"), NOT_NAMED.format("files/")),
    "a backslash": (named("files\\x"), NOT_NAMED.format("files\\x")),
    "a hidden file": (named("files/.git"), NOT_NAMED.format("files/.git")),
    "a control character": (named("files/a\x1bb"), NOT_NAMED.format("files/a\x1bb")),
    "our own command": (named("files/bin/ll-loop"), NOT_NAMED.format("files/bin/ll-loop")),
    "our own record": (named("files/imported.json"), NOT_NAMED.format("files/imported.json")),
    "the definition twice": (named("files/RUN.json"), NOT_NAMED.format("files/RUN.json")),
    "a name that is too deep": (
        named("files/" + "a/" * 9 + "b"),
        NOT_NAMED.format("files/" + "a/" * 9 + "b"),
    ),
    "a snapshot file": (named("state.json"), NOT_NAMED.format("state.json")),
    "names that differ in case": (
        named("files/00001-1.OUT"),
        "`files/00001-1.out` and `files/00001-1.OUT` clash",
    ),
    "a file and a directory": (
        named("files/00001-1.out/x"),
        "`files/00001-1.out` and `files/00001-1.out/x` clash",
    ),
    "no manifest": (
        without("manifest.json"),
        "it begins with `run.json`; a run file begins with `manifest.json`",
    ),
    "no log": (
        lambda entries: with_manifest(without("events.jsonl")(entries)),
        "`events.jsonl` is missing",
    ),
    "an entry that is not listed": (
        lambda entries: {**entries, "files/x": b""},
        "`files/x` is missing from `manifest.json`",
    ),
    "an entry that is only listed": (without("log.txt"), "`log.txt` is missing"),
    "another order": (
        lambda entries: dict([*list(entries.items())[:1], *list(entries.items())[:0:-1]]),
        "its entries are not in the order of `manifest.json`",
    ),
    "another content": (
        lambda entries: {**entries, "log.txt": b"other"},
        "`log.txt` does not have the hash in `manifest.json`",
    ),
    "snapshots that belong to nothing": (
        named("trees.bundle"),
        "no snapshot uses `trees.bundle`",
    ),
    "modes that belong to nothing": (
        named(f"modes/{'a' * 40}.json"),
        f"no snapshot uses `modes/{'a' * 40}.json`",
    ),
    "positions that are none": (
        named("files/00001-1.out.secrets", b"9" * 5000),
        "`files/00001-1.out.secrets` is not a valid list of masked positions",
    ),
    "a manifest that is not JSON": (
        lambda entries: {**entries, "manifest.json": b"{" * 9999},
        "`manifest.json` is not valid JSON",
    ),
    "a manifest of something else": (fields(kind="x"), "`manifest.json` does not describe a run"),
    "a newer form": (fields(schema=2), "it was written by a newer version (schema 2)"),
    "an unknown field": (
        fields(more=1),
        "`manifest.json` was changed after `ll-loop export`, or a different version of ll-loop wrote it",
    ),
    "a field of the wrong type": (fields(lines="1"), "`manifest.json`: `lines` cannot be '1'"),
    "a run id that is a path": (fields(run="../x"), "`manifest.json` has the run '../x'"),
    "a name that is a path": (fields(name="../x"), "'../x' is not a valid name for a run"),
    "another status": (
        fields(status="running"),
        "`events.jsonl` is not the log of the run that is named in `manifest.json`",
    ),
    "no time": (fields(started_at="now"), "`manifest.json` has the time 'now'"),
    "a time years before": (
        fields(started_at="2006-01-02T15:04:05.000Z"),
        "`manifest.json` has the time '2006-01-02T15:04:05.000Z'",
    ),
    "another chain": (
        fields(head="0" * 64),
        "`events.jsonl` does not match the hash chain in `manifest.json`",
    ),
    "a tree that is a path": (
        fields(trees={"ids": ["../../x"]}),
        "`manifest.json` has the hash '../../x'",
    ),
    "a removed event": (
        lines(lambda all: [*all[:3], *all[4:]]),
        "`events.jsonl` has a gap or repeat: event 5 follows event 3",
    ),
    "a repeated event": (
        lines(lambda all: [*all[:3], *all[2:]]),
        "`events.jsonl` has a gap or repeat: event 3 follows event 3",
    ),
    "no event": (lines(lambda all: []), "`events.jsonl` does not begin with the start of a run"),
    "no first event": (
        lines(lambda all: [line.replace(b'"seq":2,', b'"seq":1,') for line in all[1:2]]),
        "`events.jsonl` does not begin with the start of a run",
    ),
    "events of another run": (
        lines(lambda all: [*all[:-1], all[-1].replace(b'"run":"2', b'"run":"3')]),
        "`events.jsonl` contains events of two runs",
    ),
    "an output that is another file": (
        pointing("../../../../etc/passwd"),
        "`events.jsonl`: event 4 names the file {'path': '../../../../etc/passwd', ",
    ),
    "a state that does not exist": (
        machine(lambda loop: loop.update(initial="x", states={"x": {"terminal": True}})),
        "`events.jsonl` ends in the state `done`, which does not exist",
    ),
    "an invalid definition": (
        machine(lambda loop: loop.update(initial="nowhere")),
        "`run.json` has an invalid definition: ",
    ),
    "a definition that is none": (starting(loop=[]), "`run.json`: `loop` cannot be []"),
    "no definition": (starting(loop=None), "`run.json` has no definition"),
    "an earlier definition that is none": (
        starting(earlier=[{"until": 3, "loop": 1}]),
        "`run.json` has an invalid definition: ",
    ),
    "an earlier definition without its end": (
        starting(earlier=[{}]),
        "`run.json`: `earlier` cannot be [{}]",
    ),
    "a place to work in": (
        starting(worktree={"project": "/home/victim"}),
        "`run.json`: `worktree` cannot be {'project': '/home/victim'}",
    ),
    "a definition elsewhere": (
        starting(**{"with": "/etc/x.yaml"}),
        "`run.json`: `with` cannot be '/etc/x.yaml'",
    ),
    "a field of the start": (starting(version=1), "`run.json`: `version` cannot be 1"),
    "a loop file outside the project": (
        starting(file="../../.bashrc"),
        "`run.json`: `file` cannot be '../../.bashrc'",
    ),
    "the start of another run": (starting(run="other"), "`run.json` belongs to another run"),
    "a start without its checksum": (
        lambda entries: changed(
            entries, "run.json", lambda data: data.replace(b'"crc":', b'"crx":')
        ),
        "`run.json` was not written by `ll-loop export`",
    ),
}


@pytest.mark.parametrize(("make", "why"), ENTRIES.values(), ids=ENTRIES)
def test_an_entry_that_is_wrong_is_refused(plain, there, make, why):
    path = write(there.root.parent / "file.llrun", make(entries_of(plain)))
    assert refusal(path, there).startswith(f"`FILE` is not a valid run file: {why}")


def test_the_same_entry_twice_is_refused(plain, there):
    """The writer cannot make such a file, so its headers are changed."""
    entries = with_manifest({**entries_of(plain), "files/aaaa": b"x", "files/aaab": b"x"})
    path = write(there.root.parent / "file.llrun", entries)
    path.write_bytes(path.read_bytes().replace(b"files/aaab", b"files/aaaa"))
    assert refusal(path, there) == "`FILE` is not a valid run file: `files/aaaa` is in it twice"


def test_a_zip_bomb_is_refused_unread(plain, there):
    """A gigabyte of zeros takes a megabyte: it is refused by its size, before it is unpacked."""
    entries = {**entries_of(plain), "files/big": bytes((256 << 20) + 1)}
    path = write(there.root.parent / "file.llrun", entries)
    assert path.stat().st_size < 1 << 20
    assert refusal(path, there) == (
        "`FILE` is not a valid run file: `files/big` is 268435457 bytes; the limit is 268435456"
    )


# ── snapshots ──────────────────────────────────────────────────────────────────────────────────


def bundle(*objects: tuple[bytes, bytes]) -> tuple[bytes, str]:
    """A bundle with these objects, whose last one is the only tree of the run."""
    import hashlib
    import struct
    import zlib

    from little_loops.trees.objects import KINDS, _pack_head

    pack = b"PACK" + struct.pack(">II", 2, len(objects))
    for kind, data in objects:
        pack += _pack_head(KINDS[kind], len(data)) + zlib.compress(data)
    id = object_id(*objects[-1]).hex()
    head = f"# v2 git bundle\n{id} refs/trees/{id}\n\n".encode()
    return head + pack + hashlib.sha1(pack).digest(), id


def named_in_tree(name: bytes, mode: bytes = b"100644") -> tuple[bytes, str]:
    blob = b"text"
    return bundle(
        (b"blob", blob), (b"tree", tree_data([TreeEntry(mode, name, object_id(b"blob", blob))]))
    )


def guarding(path: str) -> tuple[bytes, str]:
    lines = json.dumps({"led_to": []}) + "\n" + json.dumps([path, "file", 33188, ""]) + "\n"
    data = lines.encode()
    return bundle(
        (b"blob", data),
        (b"tree", tree_data([TreeEntry(b"100644", b"list", object_id(b"blob", data))])),
    )


BUNDLES: dict[str, tuple[tuple[bytes, str], str]] = {
    "a name that leads out": (named_in_tree(b".."), "has the name '..'"),
    "a path as a name": (named_in_tree(b"a/b"), "has the name 'a/b'"),
    "a repository": (named_in_tree(b".GIT"), "has the name '.GIT'"),
    "an unknown mode": (named_in_tree(b"a", b"160000"), "has an entry of an unknown kind"),
    "a directory that is a file": (named_in_tree(b"a", b"40000"), "needs, is missing"),
    "a protected path outside": (guarding("../../.ssh/id"), "names the path '../../.ssh/id'"),
    "an absolute protected path": (guarding("/etc/passwd"), "names the path '/etc/passwd'"),
    "content that is missing": (
        bundle((b"tree", tree_data([TreeEntry(b"100644", b"a", bytes(20))]))),
        "needs, is missing",
    ),
    "content that belongs to nothing": (
        bundle((b"blob", b"x"), (b"tree", b"")),
        "no tree uses object ",
    ),
    "a damaged tree": (bundle((b"tree", b"100644 a\0short")), "is damaged"),
    "no pack": (
        (b"# v2 git bundle\n" + b"a" * 40 + b" refs/trees/" + b"a" * 40 + b"\n\n", "a" * 40),
        "it has no pack",
    ),
    "a damaged pack": (
        (named_in_tree(b"a")[0][:-9] + b"xxxxxxxxx", named_in_tree(b"a")[1]),
        "git cannot read the pack",
    ),
    "another run's header": (
        (b"# v2 git bundle\n\nPACK", "a" * 40),
        "it does not begin with the run's trees",
    ),
}


@pytest.mark.parametrize(("given", "why"), BUNDLES.values(), ids=BUNDLES)
def test_snapshots_that_are_wrong_are_refused(kept, there, given, why):
    data, id = given
    entries = {
        name: content
        for name, content in {**entries_of(kept), "trees.bundle": data}.items()
        if not name.startswith("modes/")
    }
    path = write(there.root.parent / "file.llrun", with_manifest(entries, trees={"ids": [id]}))
    message = refusal(path, there)
    assert message.startswith("`FILE` is not a valid run file: `trees.bundle`: ")
    assert why in message


# ── chance ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.untraced
def test_a_changed_byte_is_noticed(plain, kept, record_property):
    """Whatever byte of a run file changes: refused in words, or imported with the same content."""
    chance = random.Random(20261117)
    codes: Counter[int] = Counter()
    for number in range(FUZZED):
        source = kept if number % 10 == 0 else plain
        raw = bytearray(source.read_bytes())
        at = chance.randrange(len(raw))
        raw[at] ^= 1 << chance.randrange(8) if number % 2 else chance.randrange(1, 256)
        with in_memory() as top:
            project = Project(top)
            (top / "file.llrun").write_bytes(raw)
            code = code_of_import(top / "file.llrun", project)
            codes[code] += 1
            if code == 0:
                assert entries_of(top / "file.llrun") == entries_of(source), (number, at)
            assert {path.name for path in top.iterdir()} == {"project", "home", "file.llrun"}
    refused = codes[2]
    record_property("figure: changed bytes of run files", FUZZED)
    record_property("figure: changed bytes of run files: refused", refused)
    assert codes.keys() <= {0, 2}
    assert refused > FUZZED * 0.99


def code_of_import(path: Path, project: Project) -> int:
    try:
        imported(path, str(project.root), environ(project.home))
        return 0
    except LittleLoopsError as error:
        return error.exit_code


def test_the_command_refuses_in_words(plain, there):
    path = there.root.parent / "file.llrun"
    path.write_bytes(plain.read_bytes()[:-1])
    done = there.ll("import", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: `{path}` is not a valid run file: it is not a zip file, or was changed by another"
        " program\n   = help: nothing was imported\n"
    )
    missing = there.ll("import", "nothing.llrun")
    assert (missing.returncode, missing.stderr) == (
        2,
        "error: cannot read `nothing.llrun`: no such file or directory\n",
    )
    assert not os.path.exists(there.root / ".loops/.history")
