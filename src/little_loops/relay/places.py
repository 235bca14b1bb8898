"""Which files belong to a relay itself, according to its machine.

The metadata file, and the guard and marker beside it, are not part of the agent's work. Other files
beside the plan and the metadata (handoffs, summaries) are, whatever the loop's scope.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from little_loops.fsm.schema import FSMLoop
from little_loops.records import NamedTuple
from little_loops.relay.record import GUARD, MARKER
from little_loops.templates.render import lookup_in, render_text

SETTLE = "relay.settle"
_SPECIAL = re.compile(r"([\\*?\[\]!# ])")


class RelayPlaces(NamedTuple):
    """Directories of the project that belong to the relay, and ignore patterns for its own files."""

    folders: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def places_of(loop: FSMLoop) -> RelayPlaces:
    """Return the places of a relay; empty for any other loop."""
    written = [state.context for state in loop.states.values() if state.action == SETTLE]
    if not written:
        return RelayPlaces()
    texts = (str(written[0].get(name, "")) for name in ("metadata", "plan"))
    metadata, plan = (render_text(text, lookup_in({}), loop.context) for text in texts)
    folders = dict.fromkeys(os.path.dirname(path) for path in (metadata, plan))
    return RelayPlaces(tuple(each for each in folders if each), tuple(_own_files(metadata)))


def _own_files(metadata: str) -> Iterator[str]:
    """Yield an ignore pattern for each of the relay's own files."""
    folder = os.path.dirname(metadata)
    for path in (metadata, *(os.path.join(folder, name) for name in (GUARD, MARKER))):
        yield "/" + _SPECIAL.sub(r"\\\1", os.path.normpath(path))
