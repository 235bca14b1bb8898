"""Print to the console: answers to stdout, messages to stderr, colour only if wanted.

All text that is not our own passes through `visible` first: no command's output may control the
terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from little_loops.errors import DefinitionError, LittleLoopsError
from little_loops.light_typing import Any, TextIO
from little_loops.reporting.escape import visible

_color: list[str] = []
"""The value of `--color`, which also applies to errors."""


def note_color(words: Sequence[str]) -> None:
    """Remember `--color WHEN` or `--color=WHEN`; the last one counts."""
    _color.clear()
    for word, after in zip(words, (*words[1:], ""), strict=False):
        if word == "--color" or word.startswith("--color="):
            _color.append(after if word == "--color" else word.partition("=")[2])


def colour_wanted(stream: TextIO, asked: str | None = None) -> bool:
    """Return whether to use colour: `--color` > NO_COLOR > FORCE_COLOR > a terminal.

    `asked` is a value that overrides that of the command line.
    """
    asked = asked or (_color[-1] if _color else None)
    if asked in ("always", "never"):
        return asked == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE"):
        return True
    return is_terminal(stream)


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def can_ask() -> bool:
    """Return whether somebody at a terminal can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not os.environ.get("CI")


def ascii_only(stream: TextIO) -> bool:
    """Return whether signs like ✓ must be replaced by ASCII."""
    if os.environ.get("LL_ASCII"):
        return True
    encoding = (stream.encoding or "ascii").lower().replace("-", "")
    return encoding not in ("utf8", "utf16", "utf32")


def say(text: str, paint: Callable[[str], str] | None = None) -> None:
    """Print an answer to stdout; `paint` adds colour if that is wanted."""
    _write(sys.stdout, text, paint)


def talk(text: str) -> None:
    """Print a hint, a warning or a question to stderr."""
    from little_loops.terminal.paint import problems  # most commands print no errors

    _write(sys.stderr, text, problems)


def print_unchanged(text: str) -> None:
    """Print an answer that programs may read, without folding lines."""
    _put(sys.stdout, text)


def columns_of(stream: TextIO) -> int | None:
    """Return the width of the terminal; None if the stream is not one."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):  # not a real file
        return None


def _write(stream: TextIO, text: str, paint: Callable[[str], str] | None) -> None:
    """Print a text, folded to the terminal's width, with colour if wanted."""
    columns = columns_of(stream)
    if columns is not None and len(text) > columns:
        from little_loops.terminal.folding import folded  # only where a line may be too long

        text = folded(text, columns)
    _put(stream, paint(text) if paint is not None and colour_wanted(stream) else text)


def _put(stream: TextIO, text: str) -> None:
    """Write a line, with characters that the encoding lacks as escapes."""
    encoding = stream.encoding or "ascii"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def print_json(document: Any) -> None:
    from json import dumps  # not every page prints JSON

    _put(sys.stdout, dumps(document))


def report_error(error: LittleLoopsError, *, json_wanted: bool) -> None:
    """Print an error to stderr, or as JSON to stdout."""
    if isinstance(error, DefinitionError):
        from little_loops.terminal.problems import report_problems  # only loop files have problems

        report_problems(error.problems, json_wanted=json_wanted)
        return
    if json_wanted:
        print_json({"error": {"message": error.message, "help": error.help}})
        return
    lines = [f"error: {visible(error.message)}"]
    if error.help:
        lines.append(f"   = help: {visible(error.help)}")
    talk("\n".join(lines))
