"""Match paths against gitignore patterns, as git does.

Patterns come in groups: the lines of one file, and the directory they are relative to. The last
pattern that matches decides, and a later group overrides an earlier one. Everything in a matching
directory matches, too; that is up to the caller, who walks from the top down.

All of it works on bytes, because `?` matches one byte in git, too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from little_loops.records import NamedTuple

BOM = b"\xef\xbb\xbf"
CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"\x21-\x7e",
    b"lower": rb"a-z",
    b"print": rb"\x20-\x7e",
    b"punct": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    b"space": rb" \t\n\v\f\r",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
GLOB = b"*?[\\"


class Pattern(NamedTuple):
    """A pattern; `expression` matches a file name if `by_name`, else a path relative to the group's
    base.

    `literal` are the leading path components without wildcards.
    """

    expression: bytes
    negative: bool
    only_dirs: bool
    by_name: bool
    literal: tuple[bytes, ...] = ()


class Group:
    """The patterns of one file, relative to `base` (empty, or ending in a slash)."""

    def __init__(self, base: bytes, lines: Iterable[bytes], ignore_case: bool = False) -> None:
        self.base = base
        self.patterns = tuple(one for line in lines if (one := read_pattern(line)) is not None)
        self._flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)

    @cached_property
    def _compiled(self) -> tuple[tuple[re.Pattern[bytes], Pattern], ...]:
        """The patterns with their compiled expressions, last first: the last match decides."""
        return tuple((re.compile(one[0], self._flags), one) for one in reversed(self.patterns))

    @cached_property
    def _names(self) -> re.Pattern[bytes] | None:
        return self._any(by_name=True)

    @cached_property
    def _paths(self) -> re.Pattern[bytes] | None:
        return self._any(by_name=False)

    def _any(self, *, by_name: bool) -> re.Pattern[bytes] | None:
        """Return one expression for all patterns by name, or by path; None if there are none.

        Most names match nothing, which this finds out quickly.
        """
        found = [b"(?:%s)" % one.expression for one in self.patterns if one.by_name is by_name]
        return re.compile(b"|".join(found), self._flags) if found else None

    def decides(self, path: bytes, name: bytes, is_dir: bool) -> bool | None:
        """Return True if the path matches, False if a negative pattern excludes it, None if none
        matches."""
        if not path.startswith(self.base):
            return None
        below = path[len(self.base) :]
        by_name = self._names is not None and self._names.fullmatch(name)
        by_path = self._paths is not None and self._paths.fullmatch(below)
        if not by_name and not by_path:
            return None
        for expression, pattern in self._compiled:
            text = name if pattern.by_name else below
            if (is_dir or not pattern.only_dirs) and expression.fullmatch(text):
                return not pattern.negative
        return None


class Patterns(NamedTuple):
    """The groups that apply in one directory."""

    groups: tuple[Group, ...] = ()

    def match(self, path: bytes, is_dir: bool) -> bool:
        return self._decided(path, is_dir) is True

    def spare(self, path: bytes) -> bool:
        """Return whether a negative pattern excludes the path or a directory above it."""
        parts = path.split(b"/")
        above = [b"/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        return any(self._decided(each, True) is False for each in above)

    def _decided(self, path: bytes, is_dir: bool) -> bool | None:
        """Return the decision of the last group that has one; None if no pattern matches."""
        name = path.rpartition(b"/")[2]
        for group in reversed(self.groups):
            decided = group.decides(path, name, is_dir)
            if decided is not None:
                return decided
        return None

    @staticmethod
    def of(lines: Sequence[str]) -> Patterns:
        """Return patterns that are relative to the project."""
        return Patterns((Group(b"", map(os.fsencode, lines)),) if lines else ())

    def cover(self, path: bytes) -> bool:
        """Return whether a file, or a directory above it, matches.

        Unlike in a `.gitignore`, a negative pattern also excludes files in a matching directory.
        """
        is_dir = False
        while path:
            decided = self._decided(path, is_dir)
            if decided is not None:
                return decided
            path, is_dir = path.rpartition(b"/")[0], True
        return False

    def under(self, directory: bytes) -> Patterns:
        """Return the groups that apply in a directory, given without a trailing slash."""
        here = directory + b"/" if directory else b""
        kept = tuple(group for group in self.groups if here.startswith(group.base))
        return self if len(kept) == len(self.groups) else Patterns(kept)

    def may_match_below(self, directory: bytes) -> bool:
        """Return whether any pattern could match something inside a directory; False is certain,
        True is not."""
        parts = tuple(directory.split(b"/")) if directory else ()
        return any(
            one.by_name or _shares_prefix(one.literal, parts)
            for group in self.groups
            for one in group.patterns
            if not one.negative
        )

    def name_below(self, directory: bytes) -> bool:
        """Return whether a pattern names this directory literally, to match something inside it."""
        parts = tuple(directory.split(b"/"))
        return any(
            not one.by_name and one.literal[: len(parts)] == parts
            for group in self.groups
            for one in group.patterns
        )


def _shares_prefix(literal: Sequence[bytes], parts: Sequence[bytes]) -> bool:
    """Return whether one path is a prefix of the other, component by component."""
    shared = min(len(literal), len(parts))
    return tuple(literal[:shared]) == tuple(parts[:shared])


def compile_patterns(
    groups: Iterable[tuple[bytes, Iterable[bytes]]], ignore_case: bool = False
) -> Patterns:
    return Patterns(tuple(Group(base, lines, ignore_case) for base, lines in groups))


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of an ignore file without line endings, blank lines and comments."""
    lines = data.removeprefix(BOM).split(b"\n")
    return [line for line in (each.removesuffix(b"\r") for each in lines) if line[:1] not in b"#"]


def read_pattern(line: bytes) -> Pattern | None:
    """Parse a line; return None for a blank line, a comment, or a pattern that matches nothing."""
    if line[:1] == b"#":
        return None
    text = _trim(line)
    negative = text.startswith(b"!")
    text = text[negative:]
    only_dirs = text.endswith(b"/")
    text = text[: len(text) - only_dirs]
    if not text:
        return None
    by_name = b"/" not in text
    text = text.removeprefix(b"/")
    expression = _translate(text, by_name)
    if expression is None:
        return None
    return Pattern(expression, negative, only_dirs, by_name, _literal(text))


def _trim(line: bytes) -> bytes:
    """Strip trailing spaces, except one that is escaped by a backslash."""
    end, at = 0, 0
    while at < len(line):
        if line[at : at + 1] == b"\\":
            at += 1
            end = at + 1
        elif line[at : at + 1] != b" ":
            end = at + 1
        at += 1
    return line[:end]


def _literal(text: bytes) -> tuple[bytes, ...]:
    """Return the leading path components that contain no wildcard."""
    parts = text.split(b"/")
    for at, part in enumerate(parts):
        if any(sign in GLOB for sign in part):
            return tuple(parts[:at])
    return tuple(parts)


# ── wildcards ──────────────────────────────────────────────────────────────────────────────────


def _translate(text: bytes, by_name: bool) -> bytes | None:
    """Translate a glob into a regular expression; return None if it matches nothing in git."""
    found: list[bytes] = []
    at = 0
    while at < len(text):
        sign = text[at : at + 1]
        if sign == b"*":
            piece, at = _translate_stars(text, at, by_name)
        elif sign == b"[":
            piece, at = _translate_class(text, at + 1)
        elif sign == b"\\":
            piece, at = _escape(text[at + 1 : at + 2]), at + 2
        else:
            piece, at = (b"[^/]" if sign == b"?" else re.escape(sign)), at + 1
        if not piece:
            return None
        found.append(piece)
    return b"".join(found)


def _escape(sign: bytes) -> bytes:
    return re.escape(sign) if sign else b""  # a backslash at the very end matches nothing


def _translate_stars(text: bytes, at: int, by_name: bool) -> tuple[bytes, int]:
    """Translate `*` or `**` at `at`. Return the expression and the position after it.

    Between slashes, `**` matches any number of directories; otherwise stars match within a name.
    """
    end = at
    while text[end : end + 1] == b"*":
        end += 1
    starts = at == 0 or text[at - 1 : at] == b"/"
    ends = end == len(text) or text[end : end + 1] == b"/" or text[end : end + 2] == b"\\/"
    if by_name or end - at < 2 or not starts or not ends:
        return b"[^/]*", end
    if end == len(text):
        return b".*", end
    slash = end + 1 if text[end : end + 1] == b"/" else end + 2
    return b"(?:.*/)?", slash


def _translate_class(text: bytes, at: int) -> tuple[bytes, int]:
    """Translate a class such as `[a-z]`, starting after its bracket; it never matches a slash.

    Return the expression and the position after it; the expression is empty if the class is not
    closed.
    """
    negated = text[at : at + 1] in (b"!", b"^")
    at += negated
    members: list[bytes] = []
    first = True
    while first or text[at : at + 1] != b"]":
        piece, at = _translate_member(text, at)
        if piece is None:
            return b"", at
        members.append(piece)
        first = False
    inside = b"".join(members)
    body = b"[^/" + inside + b"]" if negated else b"(?!/)[" + inside + b"]"
    return (body if inside or negated else b"(?!)"), at + 1


def _translate_member(text: bytes, at: int) -> tuple[bytes | None, int]:
    """Translate one character, range or named class inside brackets.

    Return the expression, None if invalid, and the position after it.
    """
    if text[at : at + 2] == b"[:":
        end = text.find(b":]", at + 2)
        if end < 0 or b"]" in text[at + 2 : end]:
            # Not a named class, but a literal bracket.
            return (b"\\[", at + 1) if text.find(b"]", at + 2) >= 0 else (None, at)
        return CLASSES.get(text[at + 2 : end]), end + 2
    low, at = _read_character(text, at)
    if low is None:
        return None, at
    if text[at : at + 1] == b"-" and text[at + 1 : at + 2] not in (b"", b"]"):
        high, at = _read_character(text, at + 1)
        if high is None:
            return None, at
        return (b"%s-%s" % (_hex_escape(low), _hex_escape(high)) if low <= high else b""), at
    return _hex_escape(low), at


def _read_character(text: bytes, at: int) -> tuple[bytes | None, int]:
    """Return the character at `at`, which may be escaped, or None at the end; and the next
    position."""
    if text[at : at + 1] == b"\\":
        at += 1
    sign = text[at : at + 1]
    return (sign or None), at + 1


def _hex_escape(sign: bytes) -> bytes:
    return b"\\x%02x" % sign[0]
