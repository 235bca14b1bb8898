"""Where the files of a relay lie, as its machine says: what an agent writes for the relay itself.

The metadata file, and the guard and marker beside it, are no part of the agent's work.  What lies
beside plan and metadata (handoffs, summaries) is, whatever the loop's scope says.
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


class Places(NamedTuple):
    """Paths of the project: directories that belong to the relay, and patterns of its own files."""

    folders: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def places_of(loop: FSMLoop) -> Places:
    """Empty for a loop without turns to settle."""
    written = [state.context for state in loop.states.values() if state.action == SETTLE]
    if not written:
        return Places()
    texts = (str(written[0].get(name, "")) for name in ("metadata", "plan"))
    metadata, plan = (render_text(text, lookup_in({}), loop.context) for text in texts)
    folders = dict.fromkeys(os.path.dirname(path) for path in (metadata, plan))
    return Places(tuple(each for each in folders if each), tuple(_own_files(metadata)))


def _own_files(metadata: str) -> Iterator[str]:
    folder = os.path.dirname(metadata)
    for path in (metadata, *(os.path.join(folder, name) for name in (GUARD, MARKER))):
        yield "/" + _SPECIAL.sub(r"\\\1", os.path.normpath(path))
