"""Store what an action prints, forward it to observers, and turn it into a result.

Not here: the files themselves (`runs.output_files`), running an action (`action_process`).
"""

from __future__ import annotations

from collections.abc import Callable

from little_loops import light_json as json
from little_loops.engine.action_process import Workplace
from little_loops.engine.resolve import without_newline
from little_loops.fsm.colour_codes import without_colours
from little_loops.fsm.commands import Job
from little_loops.fsm.state import CutBy, FileRef, Result
from little_loops.light_typing import Any
from little_loops.runs.output_files import INLINE, Output, RunOutput, trim
from little_loops.system import process
from little_loops.system.files import Folder, to_json

TAIL = 400
TRIM_AFTER = 64 << 20


class Streams:
    """Both output streams of one action: stored, forwarded and scanned for signals.

    A shell action's output is what it prints. An agent's program prints a stream of events;
    `listen` extracts what the agent said from it.
    """

    def __init__(
        self,
        at: Workplace,
        job: Job,
        listen: Callable[[bytes], None] | None = None,
        *,
        is_agent: bool = False,
    ) -> None:
        self._output = output_at(at).action(job.step, job.attempt)
        self._listen = listen
        self._onlookers = at.onlookers
        self._is_agent = is_agent

    def stdout(self, chunk: bytes) -> None:
        """Store a chunk and pass it to `listen`; observers get it too, unless it is an agent's
        event stream."""
        self._output.stdout(chunk)
        if self._listen is not None:
            self._listen(chunk)
        if not self._is_agent:
            self._onlookers.printed("stdout", chunk)

    def stderr(self, chunk: bytes) -> None:
        self._output.stderr(chunk)
        self._onlookers.printed("stderr", chunk)

    def result(self, ended: process.Ended | process.CannotStart, cut_by: CutBy) -> Result:
        """End both streams and return the result; call it once. Long outputs stay in files.

        What an agent's program printed always stays in a file, as `stream_file`. A program that
        could not start gives a result with a `failure`.
        """
        suffix = "jsonl" if self._is_agent else "out"
        out, err, order, order_file = self._output.end(suffix=suffix, always_kept=self._is_agent)
        if isinstance(ended, process.CannotStart):
            return Result(None, 0, failure=ended.reason)
        return Result(
            exit_code=ended.exit_code,
            duration_ms=ended.duration_ms,
            stderr=None if err.text is None else without_newline(err.text),
            stderr_file=_file(err),
            stderr_open_ended=_is_open_ended(err),
            order=order,
            order_file=order_file,
            signal=ended.signal,
            cut_by=cut_by,
            **({"stream_file": _file(out)} if self._is_agent else _printed(out)),
        )


def output_at(at: Workplace) -> RunOutput:
    """Return where outputs are stored: those of a run in its `RunOutput`, those of a single action
    in `run_dir`."""
    if at.output is not None:
        return at.output
    folder = Folder.at(at.run_dir)
    assert folder is not None, "an action has its directory"
    return RunOutput(folder)


def kept_text(at: Workplace, job: Job, text: str) -> dict[str, Any]:
    """Store an agent's answer. Return the fields of the result that hold it, or name its file."""
    raw = text.encode("utf-8", "replace")
    return kept_output(output_at(at).keep(job.step, job.attempt, raw, "text"))


def kept_structured(at: Workplace, job: Job, answer: Any) -> dict[str, Any]:
    """Return the fields of the result that hold an agent's structured answer; a long one is stored
    in a file that they name."""
    if answer is None or len(raw := to_json(answer)) <= INLINE:
        return {"structured": answer}
    return {"structured_file": _file(output_at(at).keep(job.step, job.attempt, raw, "json"))}


def _printed(out: Output) -> dict[str, Any]:
    return {**kept_output(out), **structured_output(out)}


def kept_output(out: Output) -> dict[str, Any]:
    """Return the fields of a result that hold its output, without the last newline, or name its
    file."""
    if out.text is not None:
        return {"output": without_newline(out.text), "open_ended": _is_open_ended(out)}
    return {"output": None, "output_file": _file(out), "tail": out.tail[-TAIL:]}


def _is_open_ended(out: Output) -> bool:
    return bool(out.text) and without_newline(out.text or "") == out.text


def structured_output(out: Output) -> dict[str, Any]:
    """Return the fields `structured` and `verdict` if a command printed a JSON object of at most
    `INLINE` bytes; otherwise nothing."""
    head = without_colours(out.head)
    if out.size > INLINE or not head.lstrip().startswith("{"):
        return {}
    try:
        data = json.loads(head)
    except (ValueError, RecursionError):
        return {}
    verdict = data.get("verdict")
    return {"structured": data, "verdict": verdict if isinstance(verdict, str) else None}


def _file(output: Output) -> FileRef | None:
    """Return the reference to an output's file, or None if it has none."""
    if output.path is None:
        return None
    assert output.sha256 is not None, "a file has its hash"
    return FileRef(output.path, output.size, output.sha256, output.truncated, output.has_secrets)


class Trimmer:
    """Deletes the oldest outputs of a run when there are too many; checks only occasionally."""

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._since = TRIM_AFTER  # what earlier processes of this run stored counts too

    def count(self, result: Result) -> None:
        """Count the bytes of an action's output files. At first and after every 64 MiB, delete the
        oldest files of the run if all together are too large."""
        files = (
            *(result.output_file, result.stderr_file),
            *(result.stream_file, result.structured_file),
        )
        self._since += sum(file.size for file in files if file is not None)
        if self._since > TRIM_AFTER:
            self._since = 0
            trim(self._run_dir)
