"""Parse a return-metadata file: text in, `Metadata` or the reason why it is invalid out.

An invalid file is never interpreted: a flag that is "true" instead of true could be the one that
asks for a review. Keys that are not named here belong to the agent.

Not here: files (`metadata`), what a status leads to (`rules`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from little_loops.light_typing import Any
from little_loops.relay.rules import STATUSES, Metadata, PlanProgress, UnusableMetadata

OTHER_REASONS = ("review_reason", "blocker")
LONGEST_TEXT = 500
LONGEST_PATH = 512
MOST_ITEMS = 50


class ContractBroken(Exception):
    """The metadata is invalid; the message says where."""


def read_text(text: str) -> Metadata | UnusableMetadata:
    """Return the metadata in a text that should be one JSON object, or why it is invalid."""
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_no_number)
        return _metadata(data)
    except ContractBroken as broken:
        return UnusableMetadata(f"the metadata file is invalid: {broken}")
    except (ValueError, RecursionError) as problem:
        return UnusableMetadata(f"the metadata file is not valid JSON: {one_line(str(problem))}")


def one_line(text: str, most: int = LONGEST_TEXT) -> str:
    """Return untrusted text on one line, shortened, without control characters."""
    words = " ".join(text[: 4 * most].split())
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in words)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object; raise `ContractBroken` if a key occurs twice."""
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ContractBroken(f"`{one_line(twice, 60)}` is given twice")
    return data


def _no_number(name: str) -> Any:
    """Reject `NaN` and `Infinity`, which are not JSON."""
    raise ContractBroken(f"{name} is not a JSON number")


def _metadata(data: Any) -> Metadata:
    """Return parsed JSON data as metadata; raise `ContractBroken` if it is invalid."""
    if not isinstance(data, dict):
        raise ContractBroken(f"expected an object, found {_kind(data)}")
    artifacts = _items(
        data, "artifacts", "path"
    )  # first, because `_summary_among` relies on valid items
    return Metadata(
        status=_status(data),
        review=_flag(data, "requires_user_review"),
        progress=_progress(data),
        reason=_reason(data),
        errors=_items(data, "errors", "message"),
        artifacts=artifacts,
        summary_path=_path(data, "summary_path") or _summary_among(data),
    )


def _status(data: Mapping[str, Any]) -> Any:
    """Return the status; raise `ContractBroken` if it is missing or unknown."""
    status = data.get("status")
    if status is None:
        raise ContractBroken("`status` is missing")
    if not isinstance(status, str):
        raise ContractBroken(f"`status` is {_kind(status)}, not a string")
    if status not in STATUSES:
        known = ", ".join(f"`{each}`" for each in STATUSES)
        raise ContractBroken(f"unknown status `{one_line(status, 60)}`; known: {known}")
    return status


def _progress(data: Mapping[str, Any]) -> PlanProgress:
    """Return the phases and the handoff path; empty if there is no `partial_progress`.

    Raises `ContractBroken` if they are invalid, or if more phases are completed than there are.
    """
    progress = data.get("partial_progress")
    if progress is None:
        return PlanProgress()
    if not isinstance(progress, dict):
        raise ContractBroken(f"`partial_progress` is {_kind(progress)}, not an object")
    completed = _count(progress, "phases_completed")
    total = _count(progress, "phases_total")
    if completed is not None and total is not None and completed > total:
        raise ContractBroken(f"{completed} phases completed of {total}")
    stage = one_line(_text(progress, "stage"))
    return PlanProgress(completed, total, stage, _path(progress, "handoff_path"))


def _reason(data: Mapping[str, Any]) -> str:
    """Return `reason`, or else the text of another key that means the same."""
    said = [_text(data, "reason"), *(data.get(name) for name in OTHER_REASONS)]
    return next((one_line(text) for text in said if isinstance(text, str) and text.strip()), "")


def _items(data: Mapping[str, Any], name: str, key: str) -> tuple[str, ...]:
    """Return a list of strings, without empty ones; an object in the list has its string at `key`.

    Items after the first 50 are ignored. Raises `ContractBroken` for another type.
    """
    items = data.get(name)
    if items is None:
        return ()
    if not isinstance(items, list):
        raise ContractBroken(f"`{name}` is {_kind(items)}, not a list")
    texts = [_item(name, item, key) for item in items[:MOST_ITEMS]]
    return tuple(text for text in texts if text)


def _item(name: str, item: Any, key: str) -> str:
    """Return an item, or its string at `key`, on one line; raise `ContractBroken` for others."""
    text = item.get(key) if isinstance(item, dict) else item
    if not isinstance(text, str):
        raise ContractBroken(
            f"`{name}` holds {_kind(item)}, not a string or an object with `{key}`"
        )
    return one_line(text)


def _summary_among(data: Mapping[str, Any]) -> str:
    """Return the path of the last artifact with the type `summary`; empty if there is none."""
    artifacts = (data.get("artifacts") or [])[:MOST_ITEMS]
    typed = [item for item in artifacts if isinstance(item, dict)]
    paths = [one_line(item["path"]) for item in typed if item.get("type") == "summary"]
    return paths[-1] if paths else ""


def _flag(data: Mapping[str, Any], name: str) -> bool:
    """Return an optional boolean, false by default; raise `ContractBroken` for another type."""
    flag = data.get(name)
    if flag is not None and not isinstance(flag, bool):
        raise ContractBroken(f"`{name}` is {_kind(flag)}, not true or false")
    return bool(flag)


def _count(data: Mapping[str, Any], name: str) -> int | None:
    """Return an optional number from 0 to 999,999; raise `ContractBroken` for anything else."""
    count = data.get(name)
    if count is None:
        return None
    if not isinstance(count, int) or isinstance(count, bool):
        raise ContractBroken(f"`{name}` is {_kind(count)}, not a whole number")
    if not 0 <= count < 1_000_000:
        raise ContractBroken(f"`{name}` is out of range")
    return count


def _path(data: Mapping[str, Any], name: str) -> str:
    """Return an optional path, empty by default.

    Raises `ContractBroken` if it is too long or not printable.
    """
    path = _text(data, name)
    if len(path) > LONGEST_PATH or not path.isprintable():
        raise ContractBroken(f"`{name}` is not a path: {one_line(path, 60)}")
    return path


def _text(data: Mapping[str, Any], name: str) -> str:
    """Return an optional string, empty by default; raise `ContractBroken` for another type."""
    text = data.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise ContractBroken(f"`{name}` is {_kind(text)}, not a string")
    return text


def _kind(value: Any) -> str:
    """Return the name of a JSON value's type, for messages."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
    return kinds.get(type(value), "null" if value is None else "a number")
