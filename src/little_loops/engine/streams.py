"""Keep what an action prints, and turn it into the fields of a result.

Not here: running the action (`process_actions`), how output is stored (`system.output`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from little_loops.engine.resolve import without_newline
from little_loops.fsm.state import CutBy, FileRef, Result
from little_loops.reporting.observers import Onlooker
from little_loops.system import process
from little_loops.system.files import failure
from little_loops.system.output import INLINE, Output, Stream

TAIL = 400


class Streams:
    """Both streams of one action, kept, watched and scanned."""

    def __init__(
        self,
        out: Stream,
        err: Stream,
        listen: Callable[[bytes], None],
        onlookers: Onlooker,
        holds_secret: Callable[[bytes], bool],
        *,
        shown: bool,
    ) -> None:
        self._shown = shown
        self._out = out
        self._err = err
        self._listen = listen
        self._onlookers = onlookers
        self._holds_secret = holds_secret

    def stdout(self, chunk: bytes) -> None:
        self._out.feed(chunk)
        self._listen(chunk)
        if self._shown:
            self._onlookers.printed("stdout", chunk)

    def stderr(self, chunk: bytes) -> None:
        self._err.feed(chunk)
        self._onlookers.printed("stderr", chunk)

    def result(self, ended: process.Ended | process.CannotStart, cut_by: CutBy) -> Result:
        out, err = close(self._out, self._holds_secret), close(self._err, self._holds_secret)
        if isinstance(ended, process.CannotStart):
            return Result(None, 0, failure=ended.reason)
        return Result(
            exit_code=ended.exit_code,
            duration_ms=ended.duration_ms,
            stderr=None if err.text is None else without_newline(err.text),
            stderr_file=_file(err),
            signal=ended.signal,
            cut_by=cut_by,
            **kept_output(out),
            **structured_output(out),
        )


def close(stream: Stream, holds_secret: Callable[[bytes], bool]) -> Output:
    """A text that holds a secret goes to its file: events are masked, results are not.

    So do bytes that the text would not bring back: a file has them as they were.
    """
    inline = stream.inline
    try:
        if inline and (holds_secret(inline) or not _comes_back(inline)):
            stream.spill()
        return stream.close()
    except OSError as error:
        raise failure(error, "write", "the output") from error


def _comes_back(data: bytes) -> bool:
    try:
        return data.decode() != "\n"  # without its newline it would be nothing at all
    except UnicodeDecodeError:
        return False


def kept_output(out: Output) -> dict[str, Any]:
    if out.text is not None:
        text = without_newline(out.text)
        return {"output": text, "open_ended": bool(text) and text == out.text}
    return {"output": None, "output_file": _file(out), "tail": (out.tail or out.head)[-TAIL:]}


def structured_output(out: Output) -> dict[str, Any]:
    """What a command printed as one small JSON object can be named field by field."""
    if out.size > INLINE or not out.head.lstrip().startswith("{"):
        return {}
    try:
        told = json.loads(out.head)
    except (ValueError, RecursionError):
        return {}
    verdict = told.get("verdict")
    return {"structured": told, "verdict": verdict if isinstance(verdict, str) else None}


def _file(output: Output) -> FileRef | None:
    if output.path is None:
        return None
    assert output.sha256 is not None, "a file has its hash"
    return FileRef(output.path, output.size, output.sha256, output.truncated)
