"""Where words go: answers to stdout, talk to stderr, colour only where it is wanted.

Everything that did not come from us passes `visible` before it is printed: no command's output
may drive the terminal.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO

from little_loops.errors import DefinitionError, LittleLoopsError
from little_loops.reporting.escape import visible


def colour_wanted(stream: TextIO, asked: str | None) -> bool:
    """`--color` > NO_COLOR > FORCE_COLOR > whether the stream is a terminal."""
    if asked in ("always", "never"):
        return asked == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR") or os.environ.get("CLICOLOR_FORCE"):
        return True
    return is_terminal(stream)


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def ascii_only(stream: TextIO) -> bool:
    """Signs like ✓ have twins for terminals that cannot show them."""
    if os.environ.get("LL_ASCII"):
        return True
    encoding = (stream.encoding or "ascii").lower().replace("-", "")
    return encoding not in ("utf8", "utf16", "utf32")


def say(text: str) -> None:
    """An answer: one line on stdout, at once."""
    _write(sys.stdout, text)


def talk(text: str) -> None:
    """A hint, a warning, a question: one line on stderr."""
    _write(sys.stderr, text)


def say_as_it_is(text: str) -> None:
    """An answer for programs too: lines stay as long as they are."""
    _put(sys.stdout, text)


def columns_of(stream: TextIO) -> int | None:
    """How wide the terminal is; None for what is none."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):  # no file of the system's
        return None


def _write(stream: TextIO, text: str) -> None:
    columns = columns_of(stream)
    if columns is not None and len(text) > columns:
        from little_loops.terminal.folding import folded  # only where a line may be too long

        text = folded(text, columns)
    _put(stream, text)


def _put(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "ascii"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def print_json(document: Any) -> None:
    from json import dumps  # not every page prints JSON

    _put(sys.stdout, dumps(document))


def report_error(error: LittleLoopsError, *, json_wanted: bool) -> None:
    if isinstance(error, DefinitionError):
        from little_loops.terminal.problems import report_problems  # only loop files have problems

        report_problems(error.problems, json_wanted=json_wanted)
        return
    if json_wanted:
        print_json({"error": {"message": error.message, "help": error.help}})
        return
    talk(f"error: {visible(error.message)}")
    if error.help:
        talk(f"   = help: {visible(error.help)}")
