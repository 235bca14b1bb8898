"""Write a machine as readable YAML that parses back to the same machine.

Multi-line text becomes a block, text that YAML would read as another type is quoted, and nothing is
shared by reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from little_loops.authoring.yaml.scalars import notation, resolve
from little_loops.fsm.schema import FSMLoop
from little_loops.light_typing import Any

LONGEST_FLOW = 80
_PLAIN = re.compile(
    r"[^\W0-9-](?:[^:#\[\]{},&*!|>'\"%@`?\n]*[^\s:#\[\]{},&*!|>'\"%@`?])?|/(?:[\w./ -]|:(?=[\w/]))*\w"
    r"|[0-9]+[smhd]|\$[a-z]+"  # a time, `$current`
)
_ORDER = ("name", "description", "paradigm", "initial", "context", "scope")
_NOT_SHOWN = re.compile(
    "[^\\n\\x20-\\x7e\\xa0-\\u2027\\u202f-\\ud7ff\\ue000-\\ufefe\\uff00-\\ufffd\\U00010000-\\U0010ffff]"
)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def dump(loop: FSMLoop, header: Sequence[str] = ()) -> str:
    """Return the loop in its native form as YAML, with the header lines first, as comments."""
    plain = loop.to_dict()
    order = [name for name in _ORDER if name in plain]
    rest = [name for name in plain if name not in order and name != "states"]
    return dump_document({name: plain[name] for name in (*order, *rest, "states")}, header)


def dump_document(data: Mapping[str, Any], header: Sequence[str] = ()) -> str:
    """Plain data, in its own order, under the lines of the header."""
    comments = [f"# {line}".rstrip() for line in header]
    return "\n".join([*comments, *_mapping(data, 0)]) + "\n"


def _mapping(data: Mapping[str, Any], indent: int, step: int = 2) -> Iterator[str]:
    """Yield the lines of a mapping."""
    for key, value in data.items():
        yield from entry_lines(f"{' ' * indent}{scalar(key)}:", value, indent, step)


def _sequence(items: Sequence[Any], indent: int, step: int) -> Iterator[str]:
    """Yield the lines of a list."""
    for item in items:
        if isinstance(item, Mapping) and item:
            first, *rest = _mapping(item, indent + 2, step)
            yield f"{' ' * indent}- {first.lstrip()}"
            yield from rest
        else:
            yield from entry_lines(f"{' ' * indent}-", item, indent)


def entry_lines(start: str, value: Any, indent: int, step: int = 2) -> Iterator[str]:
    """Yield the lines for a value after a key or dash, on the same line if possible. What is below
    is indented by `step` more than `indent`."""
    flow = _flow(value, len(start))
    if flow is not None:
        yield f"{start} {flow}"
    elif isinstance(value, str):
        yield from _block(start, value, indent + step)
    elif isinstance(value, Mapping):
        yield start
        yield from _mapping(value, indent + step, step)
    else:
        yield start
        yield from _sequence(value, indent + step, step)


def on_one_line(value: Any) -> str:
    """Return the value as it is written inside brackets and braces."""
    if isinstance(value, Mapping):
        pairs = (f"{scalar(key)}: {on_one_line(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(on_one_line, value))}]"
    return scalar(value)


def _flow(value: Any, used: int) -> str | None:
    """Return the value on one line; None if it is better written below."""
    if isinstance(value, str):
        return None if _makes_a_block(value) else scalar(value)
    if isinstance(value, Mapping):
        return None if value else "{}"
    if not isinstance(value, (list, tuple)):
        return scalar(value)
    if any(isinstance(item, (Mapping, list, tuple)) for item in value):
        return None
    line = f"[{', '.join(scalar(item) for item in value)}]"
    return line if used + len(line) <= LONGEST_FLOW or not value else None


def _makes_a_block(text: str) -> bool:
    """Return whether a multi-line text can be written as a literal block without loss."""
    if "\n" not in text or text[0] in " \n\t" or not text.strip():
        return False
    return _NOT_SHOWN.search(text) is None


def _block(start: str, text: str, indent: int) -> Iterator[str]:
    """Yield the lines of a literal block."""
    body = text.rstrip("\n")
    keep = {0: "-", 1: ""}.get(len(text) - len(body), "+")
    yield f"{start} |{keep}"
    for line in text.split("\n")[: None if keep == "-" else -1]:
        yield f"{' ' * indent}{line}" if line else ""


def scalar(value: Any) -> str:
    """Return a scalar as YAML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        return _text(value)
    return repr(value)


def _text(text: str) -> str:
    """Return a text as a scalar: plain if that is unambiguous, else quoted."""
    if text.isprintable() and _PLAIN.fullmatch(text) and _is_text(text):
        return text
    if "\\" in text and "'" not in text and _NOT_SHOWN.search(text) is None and "\n" not in text:
        return f"'{text}'"
    escaped = "".join(_escaped(char) for char in text)
    return f'"{escaped}"'


def _is_text(text: str) -> bool:
    """Return whether all YAML parsers read this as text."""
    return resolve(text)[0] == "str" and notation(text) is None


def _escaped(char: str) -> str:
    """Return a character as it is written in double quotes."""
    if char in _ESCAPES:
        return _ESCAPES[char]
    if _NOT_SHOWN.match(char) is None:
        return char
    number = ord(char)
    return f"\\U{number:08x}" if number > 0xFFFF else f"\\u{number:04x}"
