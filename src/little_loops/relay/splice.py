"""Insert a task's status into a file of the user's, and change nothing around it.

In JSON, the object with the task's id gets `status` and `artifacts`; in a list for people, the
first heading or list line with the id gets `[STATUS]`. Inserted text follows the existing layout.

Not here: reading and writing the files (`tasks`), which status a turn leads to (`rules`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from little_loops.errors import LittleLoopsError
from little_loops.light_typing import Any
from little_loops.records import NamedTuple

ID_KEYS = ("id", "project_number")
STATUS_WORDS = (
    *("IMPLEMENTING", "COMPLETED", "PARTIAL", "BLOCKED", "FAILED"),
    *("NOT STARTED", "TODO", "OPEN", "IN PROGRESS", "WIP", "DONE", "ABANDONED", "EXPANDED"),
    *("RESEARCHING", "RESEARCHED", "PLANNING", "PLANNED"),
)
"""Words in brackets that are a status and are replaced; others belong to the title."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_STATUS = re.compile(rf"\[(?:{'|'.join(STATUS_WORDS)})\](?!\()")
_MARKED_LINE = re.compile(r"[ \t]*(?:#{1,6}|[-*+]|[0-9]+[.)])[ \t]")
_FENCE = re.compile(r"[ ]{0,3}(?:```|~~~)")


class NoPlace(LittleLoopsError):
    """The text has no place for the task's status; the message says why."""


class _Span(NamedTuple):
    start: int
    end: int


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


class _Member(NamedTuple):
    """A member of an object, or an item of a list, for which `key` is None."""

    key: str | None
    begins: int
    value: _Span


# ── JSON ───────────────────────────────────────────────────────────────────────────────────────


def status_in_json(text: str, task_id: str, status: str, artifacts: Sequence[str] = ()) -> str:
    """Return the text with the task's status set, and with artifacts added that it does not list
    yet.

    Raises `NoPlace` if it is not JSON, has no object with the task's id, or `artifacts` is not a
    list.
    """
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as problem:
        raise NoPlace(f"is not JSON: {problem}") from problem
    found = _containers(text)
    task = next((each for each in found if _is_task(text, each, task_id)), None)
    if task is None:
        keys = " or ".join(f"`{key}`" for key in ID_KEYS)
        raise NoPlace(f"has no object whose {keys} is {task_id}")
    # Of two insertions at one position, the later one comes first in the text: the status.
    edits = [*_artifact_edits(text, found, task, artifacts), _status_edit(text, task, status)]
    return _apply(text, edits)


class _Container:
    """An object or a list in the text, by its positions."""

    def __init__(self, start: int, is_object: bool) -> None:
        """Begin an empty object or list that starts at this position."""
        self.start = start
        self.is_object = is_object
        self.parts: list[_Member] = []
        self._key: _Span | None = None

    def take(self, text: str, span: _Span) -> None:
        """Add the next key or value at this level; they arrive in the order of the text."""
        if self.is_object and self._key is None:
            self._key = span
            return
        key = None if self._key is None else json.loads(text[self._key.start : self._key.end])
        self.parts.append(_Member(key, (self._key or span).start, span))
        self._key = None

    def member(self, key: str) -> _Member | None:
        """Return the member with this key; the last one if the key occurs twice, as JSON parsers
        do."""
        return next((part for part in reversed(self.parts) if part.key == key), None)


def _containers(text: str) -> list[_Container]:
    """Return all objects and lists in a JSON text, by their start, in one pass."""
    found: list[_Container] = []
    open_ones: list[_Container] = []
    for token in _TOKEN.finditer(text):
        span, sign = _Span(*token.span()), token[0][0]
        if sign in "{[":
            open_ones.append(_Container(span.start, sign == "{"))
            found.append(open_ones[-1])
            continue
        if sign in "}]":
            span = _Span(open_ones.pop().start, span.end)
        if sign not in ",:" and open_ones:
            open_ones[-1].take(text, span)
    return found


def _is_task(text: str, container: _Container, task_id: str) -> bool:
    """Return whether an object has the task's id."""
    ids = [part for key in ID_KEYS if (part := container.member(key)) is not None]
    return any(_as_id(_value(text, part)) == task_id for part in ids)


def _as_id(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def _value(text: str, part: _Member) -> Any:
    return json.loads(text[part.value.start : part.value.end])


def _status_edit(text: str, task: _Container, status: str) -> _Edit:
    """Return the edit that sets or adds `status`."""
    known = task.member("status")
    if known is not None:
        return _Edit(*known.value, json.dumps(status))
    return _append(text, task, [_new_member(text, task, "status", status)])


def _artifact_edits(
    text: str, found: Iterable[_Container], task: _Container, artifacts: Sequence[str]
) -> list[_Edit]:
    """Return the edits that add the new artifacts; raise `NoPlace` if `artifacts` is not a list."""
    known = task.member("artifacts")
    before = None if known is None else _value(text, known)
    if before is not None and not isinstance(before, list):
        raise NoPlace("has `artifacts` that are not a list")
    listed = [item.get("path") if isinstance(item, dict) else item for item in before or []]
    new = [path for path in dict.fromkeys(artifacts) if path not in listed]
    if not new:
        return []
    if known is None:
        return [_append(text, task, [_new_member(text, task, "artifacts", new)])]
    if not before:
        return [_Edit(*known.value, _dumped(new))]
    items: list[Any] = [{"path": path} for path in new] if isinstance(before[-1], dict) else new
    there = next(each for each in found if each.start == known.value.start)
    return [_append(text, there, [_dumped(item) for item in items])]


def _new_member(text: str, task: _Container, key: str, value: Any) -> str:
    """Return the text of a new member, with the same spacing as the first one."""
    first = task.parts[0]
    # The separator between the first key and its value: `: ` or `:`.
    colon = text[first.begins : first.value.start].rpartition('"')[2]
    return f"{json.dumps(key)}{colon}{_dumped(value)}"


def _append(text: str, container: _Container, parts: Iterable[str]) -> _Edit:
    """Return the edit that appends parts to an object or list, spaced like the existing ones."""
    first, *more = container.parts
    if more:
        space = text[first.value.end : more[0].begins]
    else:
        space = "," + (text[container.start + 1 : first.begins] or " ")
    at = container.parts[-1].value.end
    return _Edit(at, at, "".join(space + part for part in parts))


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _apply(text: str, edits: Iterable[_Edit]) -> str:
    """Return the text with all edits made; they must not overlap."""
    # From the end, so that the positions before an edit stay valid.
    for start, end, new in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[:start] + new + text[end:]
    return text


# ── lists for people ───────────────────────────────────────────────────────────────────────────


def status_in_list(text: str, task_id: str, status: str) -> str:
    """Return the text with `[STATUS]` in the first heading or list line that has the id.

    Raises `NoPlace` if there is no such line.
    """
    has_id = re.compile(rf"(?<![A-Za-z0-9]){re.escape(task_id)}(?![A-Za-z0-9])")
    at, fenced = 0, False
    for line in text.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and _MARKED_LINE.match(line) and has_id.search(line):
            return text[:at] + _with_status(line, f"[{status.upper()}]") + text[at + len(line) :]
        at += len(line) + 1
    raise NoPlace(f"has no heading or list line with {task_id}")


def _with_status(line: str, status: str) -> str:
    """Replace the last status on a line, or append one."""
    known = list(_STATUS.finditer(line))
    if known:
        return line[: known[-1].start()] + status + line[known[-1].end() :]
    end = len(line.rstrip())
    return f"{line[:end]} {status}{line[end:]}"
