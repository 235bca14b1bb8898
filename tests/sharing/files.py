"""Run files made for tests: of real runs, and changed in ways that `ll-loop export` never would."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from little_loops.receipts.canonical import canonical, sha256
from little_loops.runs.reading import Runs
from little_loops.sharing.exporting import Exported, export_run
from little_loops.sharing.importing import open_run_file
from little_loops.sharing.landing import ImportResult, land
from little_loops.sharing.zip_files import ZipReader, ZipWriter

Entries = dict[str, bytes]


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), **more}


def exported(root: str, name: str, target: Path, env: Mapping[str, str], **more: Any) -> Exported:
    runs = Runs(root)
    view = runs.view(name)
    assert view is not None
    return export_run(runs, view, str(target), env, **more)


def imported(path: Path, root: str, env: Mapping[str, str], id: str | None = None) -> ImportResult:
    with open_run_file(str(path)) as file:
        return land(file, root, id, env)


def entries_of(path: Path) -> Entries:
    """Return the content of every entry."""
    with open(path, "rb") as stream:
        zip = ZipReader(stream)
        return {one.name: zip.data(one, 1 << 30) for one in zip.entries}


def write(path: Path, entries: Entries) -> Path:
    """Write entries to a zip file of the right form, whatever is in them."""
    with open(path, "wb") as stream:
        writer = ZipWriter(stream)
        for name, data in entries.items():
            writer.add(name, data)
        writer.finish()
    return path


def with_manifest(entries: Entries, **fields: Any) -> Entries:
    """Return the entries with a manifest that fits them again, and with these fields."""
    from little_loops.receipts.chain import chain_of

    manifest = json.loads(entries["manifest.json"])
    manifest["entries"] = [
        {"name": name, "size": len(data), "sha256": sha256(data)}
        for name, data in entries.items()
        if name != "manifest.json"
    ]
    chain = chain_of(entries.get("events.jsonl", b""))
    manifest |= {"lines": chain.lines, "head": chain.head, **fields}
    return {**entries, "manifest.json": canonical(manifest) + b"\n"}


def changed(entries: Entries, name: str, change: Callable[[bytes], bytes]) -> Entries:
    """Return the entries with one of them changed, and a manifest that fits."""
    return with_manifest({**entries, name: change(entries[name])})


def start_with(data: bytes, /, **fields: Any) -> bytes:
    """Return `run.json` with other fields and the right checksum."""
    plain = {**json.loads(data), **fields}
    plain.pop("crc")
    plain = {name: value for name, value in plain.items() if value is not None}
    body = json.dumps(plain, separators=(",", ":")).encode()[:-1]
    return b'%b,"crc":%d}\n' % (body, zlib.crc32(body))
