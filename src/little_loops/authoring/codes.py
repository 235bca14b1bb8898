"""The catalogue of error codes: what each means, with an invalid and a corrected file.

The entries are data (`codes.toml` beside this module), read only to explain one of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.records import NamedTuple


class ErrorCode(NamedTuple):
    """One entry; `wrong` and `right` are whole files, empty if there is no example."""

    code: str
    title: str
    text: str
    wrong: str = ""
    right: str = ""


def catalogue() -> Mapping[str, ErrorCode]:
    """Return all codes, in order."""
    import tomllib  # only to explain a code
    from pkgutil import get_data

    data = get_data(__package__, "codes.toml") or b""
    return {code: _entry(code, **entry) for code, entry in tomllib.loads(data.decode()).items()}


def _entry(code: str, title: str, text: str, example: str = "") -> ErrorCode:
    wrong, right = (_side(example, signs) for signs in (" -", " +"))
    return ErrorCode(code, title, " ".join(text.split()), wrong, right)


def _side(example: str, signs: str) -> str:
    """Return the lines of one side of a diff."""
    return "".join(f"{line[1:]}\n" for line in example.splitlines() if line[0] in signs)
