"""What a judge is shown of a diff, an output or a file that is too long for one question.

Not here: what it is asked (`judges`), where the texts come from (`engine.judge_turns`).
"""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.light_typing import Final
from little_loops.records import NamedTuple

MOST_CHARS: Final = 400_000
"""What a judge sees of one diff, output or file."""
LEAST_CHARS: Final = 1_000
"""What it must see of each changed file."""
_FILE: Final = "diff --git "


class JudgedText(NamedTuple):
    """A text for a judge, and the names of what it has only in part."""

    text: str
    cut: tuple[str, ...] = ()


def of_text(name: str, text: str, most: int = MOST_CHARS) -> JudgedText:
    """Return the beginning of a text that is too long."""
    return JudgedText(text) if len(text) <= most else JudgedText(_beginning(text, most), (name,))


def of_diff(diff: str, most: int = MOST_CHARS, least: int = LEAST_CHARS) -> JudgedText | None:
    """Return all of the short changes, and the beginnings of the long ones: so a large file cannot
    push the changes to others out of sight. None if so many files changed that each would get less
    than `least`."""
    if len(diff) <= most:
        return JudgedText(diff)
    files = _by_file(diff)
    share = _largest_share([len(each) for each in files], most)
    if share < least:
        return None
    text = "".join(each if len(each) <= share else _beginning(each, share) for each in files)
    return JudgedText(text, tuple(_path(each) for each in files if len(each) > share))


def _by_file(diff: str) -> list[str]:
    """Return the parts of a diff, one for each file; no line of a change begins like a header."""
    files: list[list[str]] = []
    for line in diff.splitlines(keepends=True):
        if line.startswith(_FILE) or not files:
            files.append([])
        files[-1].append(line)
    return ["".join(lines) for lines in files]


def _largest_share(lengths: Sequence[int], most: int) -> int:
    """Return the largest length to which all must be cut, so that together they are not longer than
    `most`, which they are now."""
    left, longer = most, sorted(lengths, reverse=True)
    while longer[-1] <= left // len(longer):
        left -= longer.pop()
    return left // len(longer)


def _path(change: str) -> str:
    """Return the path of a changed file, by the header of its diff."""
    header = change.partition("\n")[0]
    if header.endswith('"'):  # git quotes it
        return header.rpartition(' "b/')[2][:-1]
    return header.rpartition(" b/")[2]


def _beginning(text: str, most: int) -> str:
    shown = text[:most]
    return f"{shown}\n({len(text) - len(shown)} more characters are left out)\n"
