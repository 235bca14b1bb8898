"""The files behind `${captured.<name>.file}` and similar references, created on demand.

Not here: reading values (`resolve`), storing what actions print (`runs.output_files`).
"""

from __future__ import annotations

import os

from little_loops.fsm.state import FileRef, Result
from little_loops.light_typing import BinaryIO
from little_loops.runs.arrival import StreamBytes, StreamName, from_lines, from_sizes
from little_loops.runs.combined_log import StreamSource, combine
from little_loops.system.files import to_json
from little_loops.system.plain_files import open_plain, read_plain, reading

MAX_ORDER_BYTES = 16 << 20


class ResultFiles:
    """The files of the results of one run."""

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir

    def path_of(self, file: FileRef) -> str:
        return os.path.join(self._run_dir, file.path)

    def of(self, field: str, name: str, result: Result) -> str | None:
        """Return the path of a file, as in `${captured.NAME.FIELD}`; None if the result has no such
        file.

        Short outputs and logs are written to a file first.
        """
        match field:
            case "file":
                return self._output(name, result)
            case "stderr_file":
                return self._stderr(name, result)
            case "log_file":
                return self._log(name, result)
            case "stream_file":
                return None if result.stream_file is None else self.path_of(result.stream_file)
            case "structured_file":
                return self._structured(name, result)
            case _:
                return None

    def _structured(self, name: str, result: Result) -> str | None:
        """Return the path of the structured answer; a short one is written on demand. None without
        an answer."""
        if result.structured_file is not None:
            return self.path_of(result.structured_file)
        if result.structured is None:
            return None
        return self._write(f"{name}.structured", to_json(result.structured) + b"\n")

    def _output(self, name: str, result: Result) -> str:
        """Return the path of the complete output, byte for byte; a short one is written on
        demand."""
        if result.output is None and result.output_file is not None:
            return self.path_of(result.output_file)
        return self._write(f"{name}.output", _raw(result.output, result.open_ended))

    def _stderr(self, name: str, result: Result) -> str:
        if result.stderr is None and result.stderr_file is not None:
            return self.path_of(result.stderr_file)
        return self._write(f"{name}.stderr", _raw(result.stderr, result.stderr_open_ended))

    def _log(self, name: str, result: Result) -> str:
        """Write both streams, in order of arrival, into one file, and return its path.

        For an agent, it has the answer, then the stderr of its program.
        """
        path = os.path.join(self._run_dir, f"{name}.log")
        stdout, stderr = self._output(name, result), self._stderr(name, result)
        with reading(stdout) as out, reading(stderr) as err, _created(path) as target:
            sources: dict[StreamName, StreamSource] = {
                "stdout": _source(out),
                "stderr": _source(err),
            }
            combine(sources, self._order(result), target.write)
        return path

    def _order(self, result: Result) -> tuple[StreamBytes, ...]:
        """Return in which order the two streams were written; empty if that is not known."""
        if result.stream_file is not None:  # its order is that of its events
            return ()
        if result.order_file is None:
            return from_sizes(result.order)
        try:
            path = os.path.join(self._run_dir, result.order_file)
            return from_lines(read_plain(path, MAX_ORDER_BYTES))
        except FileNotFoundError:  # deleted, with other old outputs
            return ()

    def _write(self, name: str, data: bytes) -> str:
        """Write a file into the run's directory, replacing its content, and return its path."""
        path = os.path.join(self._run_dir, name)
        with _created(path) as stream:
            stream.write(data)
        return path


def _source(file: BinaryIO) -> StreamSource:
    return StreamSource(file, os.fstat(file.fileno()).st_size)


def _created(path: str) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return open(open_plain(path, flags, 0o600), "wb")


def _raw(text: str | None, open_ended: bool) -> bytes:
    """Return the bytes of a text that is stored without its last newline."""
    text = text or ""
    return (text if open_ended or not text else f"{text}\n").encode()
