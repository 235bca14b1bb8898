"""Read the native form: the loop's own fields and its states, into an `FSMLoop`.

Every paradigm ends here, once it has been rewritten into states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from little_loops.authoring.fields import LOOP
from little_loops.authoring.nodes import Node
from little_loops.authoring.places import Places
from little_loops.authoring.reader import Reader
from little_loops.authoring.values import INVALID
from little_loops.fsm.schema import FSMLoop


class Native(NamedTuple):
    """The loop as far as it could be read, and where its pieces stand."""

    loop: FSMLoop | None
    places: Places


def read(root: Node, reader: Reader, name: str) -> Native:
    """Read a native document; `name` is the loop's where the document gives none.

    With problems in the reader the loop is what was left, good for further checks and nothing
    else.
    """
    places = Places(reader.source, root)
    given: Any = reader.record(root, LOOP, "the loop")
    if given is INVALID or "initial" not in given or "states" not in given:
        return Native(None, places)
    return Native(FSMLoop.from_dict({"name": name, **given}), places)
