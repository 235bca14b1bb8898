"""Keep what an action prints, and turn it into the fields of a result.

Not here: running the action (`process_actions`), how output is stored (`runs.output_files`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from little_loops.engine.resolve import without_newline
from little_loops.fsm.state import CutBy, FileRef, Result
from little_loops.reporting.observers import Onlooker
from little_loops.runs.output_files import INLINE, ActionOutput, Output
from little_loops.system import process

TAIL = 400


class Streams:
    """Both streams of one action, kept, watched and scanned.

    What a shell action prints is its output.  What an agent's program prints is its stream of
    events, for programs; what the agent said is found in it by whoever listens.
    """

    def __init__(
        self,
        output: ActionOutput,
        listen: Callable[[bytes], None],
        onlookers: Onlooker,
        *,
        is_agent: bool,
    ) -> None:
        self._output = output
        self._listen = listen
        self._onlookers = onlookers
        self._is_agent = is_agent

    def stdout(self, chunk: bytes) -> None:
        self._output.stdout(chunk)
        self._listen(chunk)
        if not self._is_agent:
            self._onlookers.printed("stdout", chunk)

    def stderr(self, chunk: bytes) -> None:
        self._output.stderr(chunk)
        self._onlookers.printed("stderr", chunk)

    def result(self, ended: process.Ended | process.CannotStart, cut_by: CutBy) -> Result:
        suffix = "jsonl" if self._is_agent else "out"
        out, err, order, order_file = self._output.end(suffix=suffix, always_kept=self._is_agent)
        if isinstance(ended, process.CannotStart):
            return Result(None, 0, failure=ended.reason)
        of_stdout = {"stream_file": file_of(out)} if self._is_agent else shell_output(out)
        return Result(
            exit_code=ended.exit_code,
            duration_ms=ended.duration_ms,
            stderr=None if err.text is None else without_newline(err.text),
            stderr_file=file_of(err),
            stderr_open_ended=_is_open_ended(err),
            order=order,
            order_file=order_file,
            signal=ended.signal,
            cut_by=cut_by,
            **of_stdout,
        )


def shell_output(out: Output) -> dict[str, Any]:
    return {**kept_output(out), **structured_output(out)}


def kept_output(out: Output) -> dict[str, Any]:
    """The fields of a result that say what its output is, or where."""
    if out.text is not None:
        return {"output": without_newline(out.text), "open_ended": _is_open_ended(out)}
    return {"output": None, "output_file": file_of(out), "tail": out.tail[-TAIL:]}


def _is_open_ended(out: Output) -> bool:
    return bool(out.text) and without_newline(out.text or "") == out.text


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


def file_of(output: Output) -> FileRef | None:
    if output.path is None:
        return None
    assert output.sha256 is not None, "a file has its hash"
    return FileRef(output.path, output.size, output.sha256, output.truncated, output.has_secrets)
