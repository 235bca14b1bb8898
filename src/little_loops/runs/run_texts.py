"""The texts of a run that pages show: its error, its continuation, what it waits for.

A snapshot keeps them as they were said, for a resume needs that; the log has them without the
secrets of the process that wrote it, which may not be known here.  So the log is asked first, and
what it does not say is shown without the secrets of this process.

Not here: control characters (`reporting.escape`), which each page deals with as it prints.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from little_loops.records import NamedTuple

if TYPE_CHECKING:
    from little_loops.runs.inspect import Facts

Record = Mapping[str, Any]


class Texts(NamedTuple):
    error: str | None = None
    continuation: str | None = None
    waits_for: str | None = None


def has_texts(facts: Facts) -> bool:
    return bool(facts.error or facts.continuation or _why(facts))


def texts(facts: Facts, records: Iterable[Record]) -> Texts:
    """What may be shown, by the last events of the run."""
    told: dict[str, str] = {}
    for record in records:
        ending = "final_state" in record
        said = {
            "error": (record.get("error") or record.get("message")) if ending else None,
            "continuation": record.get("continuation"),
            "waits_for": record.get("reason") if record["event"] == "host_wait" else None,
        }
        told.update({name: text for name, text in said.items() if isinstance(text, str)})
    kept = Texts(facts.error, facts.continuation, _why(facts))
    return Texts(*(_shown(told.get(name), text) for name, text in kept._asdict().items()))


def _why(facts: Facts) -> str | None:
    why = (facts.wait or {}).get("why")
    return why if isinstance(why, str) else None


def _shown(told: str | None, kept: str | None) -> str | None:
    if not kept:
        return kept
    from little_loops.reporting.masking import Masker  # few runs have texts

    return Masker(os.environ).mask(told or kept)
