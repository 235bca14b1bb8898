"""Read the native form, the loop's own fields and its states, into an `FSMLoop`.

Every paradigm is rewritten into states and then read here.
"""

from __future__ import annotations

from little_loops.authoring.fields.gaps import NO_GAPS, Gaps
from little_loops.authoring.fields.reader import Reader
from little_loops.authoring.fields.table import LOOP
from little_loops.authoring.yaml.nodes import Map
from little_loops.authoring.yaml.places import Places
from little_loops.fsm.schema import FSMLoop
from little_loops.records import NamedTuple


class Native(NamedTuple):
    """The loop as far as it could be read, the gaps in it, and the positions of its parts.

    `compiled` says that a paradigm produced its states.
    """

    loop: FSMLoop | None
    places: Places
    gaps: Gaps = NO_GAPS
    compiled: bool = False


def read(root: Map, reader: Reader, name: str) -> Native:
    """Read a native document; `name` is used if the document gives none.

    A loop with gaps is incomplete, and only good for further checks.
    """
    given = reader.fields(root, LOOP, "the loop")
    lost = reader.spoiled | {each for each in ("initial", "states") if each not in given}
    stand_ins = {"name": name, "initial": "", "states": {}}
    loop = FSMLoop.from_dict({**stand_ins, **given})
    return Native(loop, Places(reader.source, root), Gaps(lost, reader.states))
