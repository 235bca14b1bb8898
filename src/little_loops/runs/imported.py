"""What an imported run lacks: values that were masked, and perhaps its snapshots.

A run file has no secrets in it: where one was, there are asterisks. That is written down beside the
imported run, so that no action ever gets the asterisks instead of the value.

Not here: making and reading run files (`sharing`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from little_loops.fsm.plain import WrongShape, decode, encode
from little_loops.light_typing import TYPE_CHECKING, Final
from little_loops.records import NamedTuple
from little_loops.reporting.masking import MASK
from little_loops.runs.folders import folder_of
from little_loops.runs.layout import DATA, IMPORTED
from little_loops.system.files import to_json

if TYPE_CHECKING:
    from little_loops.fsm.state import LoopState, Result
    from little_loops.runs.layout import RunFiles

MAX_BYTES: Final = 16 << 20


class MaskedParts(NamedTuple):
    """What was masked in a run file.

    `files` are output files, by name. `results` and `context` are names of results and of context
    variables, `definition` the places in the machine: `env.API_TOKEN`, `states.fix.action`.
    """

    files: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    definition: tuple[str, ...] = ()


class Imported(NamedTuple):
    """The record of an import. `no_trees` says why the run file has no snapshots; None if it had
    them, or the run took none. `versions` are those of the machine that exported the run."""

    masked: MaskedParts = MaskedParts()
    no_trees: str | None = None
    versions: Mapping[str, str] = {}

    def to_bytes(self) -> bytes:
        return to_json(encode(self)) + b"\n"

    def is_masked_context(self, name: str, value: object) -> bool:
        """Return whether a context variable still has its mask; a resume can give it a value."""
        return name in self.masked.context and _has_mask(value)

    def is_masked_result(self, name: str, result: Result, field: str) -> bool:
        """Return whether a field of a result was masked; False once another result has its name."""
        stdout, stderr = (result.output_file, result.output), (result.stderr_file, result.stderr)
        structured = (result.structured_file, result.structured)
        stream = (result.stream_file, None)
        wanted = {
            "output": (stdout,),
            "file": (stdout,),
            "stderr": (stderr,),
            "stderr_file": (stderr,),
            "log_file": (stdout, stderr),
            "structured": (structured,),
            "structured_file": (structured,),
            "stream_file": (stream,),
        }.get(field, ())
        return any(
            (file is not None and file.path in self.masked.files)
            or (name in self.masked.results and _has_mask(value))
            for file, value in wanted
        )

    def masked_results(self, run: LoopState) -> Iterable[str]:
        """Return the names of the results whose output was masked."""
        return [
            name
            for name, result in run.captured.items()
            if self.is_masked_result(name, result, "output")
        ]


def _has_mask(value: object) -> bool:
    return value is not None and MASK.encode() in to_json(value)


def read_imported(files: RunFiles) -> Imported | None:
    """Return the record of an imported run; None for any other. Raises `StorageError`."""
    folder = folder_of(files)
    if folder is None:
        return None
    with folder:
        data = folder.child(files.base + DATA)
    if data is None:
        return None
    with data:
        raw = data.read(IMPORTED, MAX_BYTES)
    try:
        return None if raw is None else decode(Imported, json.loads(raw))
    except (ValueError, WrongShape):
        return Imported()  # someone edited it; what was masked cannot be known any more
