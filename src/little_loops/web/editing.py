"""Edit loop files: what a text means, what an operation would change in it, saving it.

The page keeps the text that it edits, and its history; nothing is kept here. A text is saved only
over the file that it was made from: its hash has to be that of the file. See
docs/adr/0026-edits-are-splices.md.

Not here: the operations themselves (`authoring.edits`), and who may edit (`security`).
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from difflib import unified_diff

from little_loops.authoring.dump import dump
from little_loops.authoring.edits.apply import Edited, apply
from little_loops.authoring.edits.operations import Operation, operation_of
from little_loops.authoring.edits.outline import Outline, outline, state_at
from little_loops.authoring.fields.forms import forms
from little_loops.authoring.load import Definition, load
from little_loops.definitions.all_problems import all_problems
from little_loops.definitions.compiled import header
from little_loops.definitions.loading import library_of, shown_path
from little_loops.errors import Problem, UsageError
from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.runs.config_files import LARGEST
from little_loops.system.files import Folder
from little_loops.system.plain_files import read_plain
from little_loops.web.errors import ApiError, bad_request
from little_loops.web.graph import machine_json
from little_loops.web.loops import problem_json
from little_loops.web.questions import Query, Question

if TYPE_CHECKING:
    from little_loops.web.site import LoopPlace, Site

MOST_OPERATIONS = 100
CONTEXT_LINES = 3


def questions() -> list[Question]:
    return [
        Question("/api/fields", fields),
        Question("/api/loops/{loop}/source", source),
        Question("/api/loops/{loop}/source", save, "PUT"),
        Question("/api/loops/{loop}/preview", preview, "POST"),
        Question("/api/loops/{loop}/convert", convert, "POST"),
    ]


def fields(_: Site, __: Query) -> Mapping[str, Any]:
    """Return the fields of loop files, for forms."""
    return {"schema": 1, "tables": forms()}


def source(site: Site, query: Query) -> Mapping[str, Any]:
    """Return the text of a loop file, its hash, and what it means."""
    place = site.loop(query.path["loop"])
    raw = _read(place.path)
    text = _decoded(raw)
    return {"schema": 1, "hash": _hash(raw), **_described(place, text)}


def preview(site: Site, query: Query) -> Mapping[str, Any]:
    """Return what operations would make of a text, and how that differs from the file."""
    place = site.loop(query.path["loop"])
    text = _text(query)
    replaced: list[Mapping[str, Any]] = []
    for operation in _operations(query):
        edited: Edited = apply(text, operation)
        replaced = [each._asdict() for each in edited.splices]
        text = edited.text
    return {
        "schema": 1,
        "splices": replaced,
        "diff": _difference(place, _read(place.path), text),
        **_described(place, text),
    }


def save(site: Site, query: Query) -> Mapping[str, Any]:
    """Write a text to its file, unless that has changed since it was read."""
    place = site.loop(query.path["loop"])
    text = _text(query)
    raw = _read(place.path)
    if query.body.get("hash") != _hash(raw):
        raise ApiError(
            409,
            "changed",
            f"`{os.path.basename(place.path)}` has changed since you opened it",
            "reload it, and repeat your edit",
            diff=_difference(place, raw, text),
            hash=_hash(raw),
            text=raw.decode(errors="replace"),
        )
    data = _encoded(text)
    _write(place.path, data)
    return {"schema": 1, "hash": _hash(data), **_described(place, text)}


def convert(site: Site, query: Query) -> Mapping[str, Any]:
    """Write the machine that a loop compiles to into a file beside it, as `ll-loop compile` does."""
    place = site.loop(query.path["loop"])
    definition = _load(place, _decoded(_read(place.path)))
    if definition.loop is None:
        raise UsageError("this loop has errors", "fix them first")
    stem, suffix = os.path.splitext(place.path)
    copy = f"{stem}.states{suffix}"
    folder = Folder.at(os.path.dirname(copy))
    assert folder is not None, "the file to convert is in it"
    with folder:
        name = os.path.basename(copy)
        text = header(place.path) + dump(definition.loop)
        if not folder.add(name, text.encode(), _temporary(name)):
            raise UsageError(f"there is already a file `{name}`", "edit it, or delete it first")
        os.chmod(name, stat.S_IMODE(os.stat(place.path).st_mode), dir_fd=folder.fd)
    return {
        "schema": 1,
        "key": place.project.loop_key(copy),
        "file": os.path.relpath(copy, place.project.root),
    }


# ── What a text means ──────────────────────────────────────────────────────────────────────────


def _described(place: LoopPlace, text: str) -> dict[str, Any]:
    """Return a text with its states, its problems, and the machine that it compiles to."""
    definition = _load(place, text)
    found = outline(text)
    problems = all_problems(definition, place.path, place.project.root)
    return {
        "file": os.path.relpath(place.path, place.project.root),
        "text": text,
        "outline": None if found is None else _outline_json(found),
        "problems": [_problem(each, found) for each in problems],
        "machine": None if definition.loop is None else machine_json(definition.loop),
        "form": _form(definition, found),
    }


def _load(place: LoopPlace, text: str) -> Definition:
    stem = os.path.splitext(os.path.basename(place.path))[0]
    return load(text, shown_path(place.path), stem, library_of(place.path))


def _outline_json(found: Outline) -> dict[str, Any]:
    states = None if found.states is None else [_state_json(each) for each in found.states]
    return {"fields": found.fields, "lines": found.lines, "states": states}


def _state_json(state: Any) -> dict[str, Any]:
    transitions = [each._asdict() for each in state.transitions]
    return {**state._asdict(), "transitions": transitions}


def _problem(problem: Problem, found: Outline | None) -> dict[str, Any]:
    state = None if problem.place is None else state_at(found, problem.place.line)
    return {**problem_json(problem), "state": state}


def _form(definition: Definition, found: Outline | None) -> str:
    """Return the name of the table with the fields of this loop."""
    if found is None or found.states is not None:
        return "loop"
    named = found.fields.get("paradigm")
    if isinstance(named, str) and f"paradigm {named}" in forms():
        return f"paradigm {named}"
    short = found.fields.keys() & {"check", "fix"} and named is None
    return "paradigm check_fix" if short else "loop"


def _difference(place: LoopPlace, raw: bytes, text: str) -> str:
    """Return how a text differs from the file."""
    name = os.path.relpath(place.path, place.project.root)
    old, new = raw.decode(errors="replace"), text
    lines = unified_diff(
        _lines(old), _lines(new), f"a/{name}", f"b/{name}", n=CONTEXT_LINES, lineterm=""
    )
    return "\n".join(lines)


def _lines(text: str) -> Sequence[str]:
    return text.replace("\r\n", "\n").split("\n")


# ── Requests ───────────────────────────────────────────────────────────────────────────────────


def _text(query: Query) -> str:
    text = query.body.get("text")
    if not isinstance(text, str):
        raise bad_request("`text` must be the file's text")
    _encoded(text)
    return text


def _operations(query: Query) -> list[Operation]:
    given = query.body.get("operations", [])
    if not isinstance(given, list) or len(given) > MOST_OPERATIONS:
        raise bad_request(f"`operations` must be a list of at most {MOST_OPERATIONS}")
    found = [operation_of(each) for each in given]
    for each in found:
        if isinstance(each, str):
            raise bad_request(each)
    return [each for each in found if not isinstance(each, str)]


# ── Files ──────────────────────────────────────────────────────────────────────────────────────


def _read(path: str) -> bytes:
    try:
        return read_plain(path, LARGEST + 1)
    except OSError as error:
        raise UsageError(f"cannot read `{shown_path(path)}`: {error.strerror}") from error


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise UsageError("the file is not UTF-8", "save it as UTF-8") from None


def _encoded(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise bad_request("`text` contains half of a surrogate pair") from None
    if len(data) > LARGEST:
        raise UsageError("the text is larger than 1 MiB", "move data to files that actions read")
    return data


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: str, data: bytes) -> None:
    """Replace a file, keeping its mode; one that is a link stays one."""
    real = os.path.realpath(path)
    folder = Folder.at(os.path.dirname(real))
    if folder is None:
        raise UsageError(f"the directory of `{shown_path(path)}` no longer exists")
    with folder:
        name = os.path.basename(real)
        mode = stat.S_IMODE(os.stat(real).st_mode)
        folder.replace(name, data, _temporary(name), sync=True, mode=mode)


def _temporary(name: str) -> str:
    return f".{name}.{secrets.token_hex(8)}.tmp"
