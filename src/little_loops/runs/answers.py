"""The file that holds the answer to a gate.

    NAME.d/answer-57-20260115T103000000Z.json

Its name has the number and the time of the event that opened the gate, so an answer counts for that
gate only, and nothing that ran before could have prepared it. It is put in place once: of two
answers the first counts. The log of the run is written by its runner, which records the answer when
the run is resumed.
"""

from __future__ import annotations

import json
import os
import re

from little_loops.errors import StorageError
from little_loops.fsm.gates import open_gate
from little_loops.fsm.plain import WrongShape, decode, encode
from little_loops.fsm.state import Answer, LoopState, RunSummary
from little_loops.light_typing import Any
from little_loops.runs.layout import RunFiles
from little_loops.system.files import Folder, to_json

MAX_TEXT_BYTES = 8192
MAX_FILE_BYTES = 1 << 17


def settled_answer(data: Folder, run: LoopState, answer: Answer) -> Answer:
    """Store this answer to the open gate and return it; if another one came first, return that.

    Raises `StorageError` if the stored answer is damaged.
    """
    name = _name_of(run)
    first = read_answer(data, run)
    if first is None and data.add(name, to_json(encode(answer)), _temporary()):
        return answer
    first = first or read_answer(data, run)
    assert first is not None, "an answer is never removed"
    return first


def read_answer(data: Folder, run: LoopState | RunSummary) -> Answer | None:
    """Return the answer that was given to the open gate and is not recorded yet; None if there is
    none.

    Its `gate` is that of the run, whatever the file says. Raises `StorageError` if the file is
    damaged.
    """
    name = _name_of(run)
    raw = data.read(name, MAX_FILE_BYTES)
    if raw is None:
        return None
    try:
        answer: Answer = decode(Answer, _object(raw))
    except (ValueError, WrongShape) as error:
        raise StorageError(
            f"`{data.place(name)}` is not an answer: {error}", "remove it, and answer again"
        ) from error
    return answer._replace(gate=open_gate(run) or answer.gate)


def may_have_answer(files: RunFiles, run: RunSummary) -> bool:
    """Return whether a file with an answer to the open gate seems to exist; opens nothing, because lists
    have hundreds of runs."""
    return os.path.lexists(os.path.join(files.data, _name_of(run)))


def quoted_answer(answer: Answer) -> str:
    """Return an answer in words: `rejected, with the message 'too slow'`."""
    by = " by `ll-loop resume`" if answer.by == "resume" else ""
    text = f", with the message '{answer.text}'" if answer.text else ""
    return f"{answer.verdict}{by}{text}"


def _object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises `ValueError` or `WrongShape` for anything else."""
    found = json.loads(raw)
    if not isinstance(found, dict):
        raise WrongShape("is not an object")
    return found


def _name_of(run: LoopState | RunSummary) -> str:
    return f"answer-{open_gate(run)}-{re.sub(r'[^0-9TZ]', '', run.updated_at)}.json"


def _temporary() -> str:
    return f".answer.tmp-{os.urandom(8).hex()}"
