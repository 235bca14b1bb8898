"""Search an output in a file without ever holding it as text.

As text it could take four times the size of its bytes, and several copies. So it is searched as
bytes, which needs its size once (`system.output` limits that); conditions that only need its ends
read only those. Only jq needs all of it as text.

Not here: what is searched for (`fsm.conditions`), writing the file (`system.output`).
"""

from __future__ import annotations

import os
from codecs import getincrementaldecoder
from functools import cached_property

from little_loops.fsm.colour_codes import ColourFilter, without_colours
from little_loops.fsm.conditions import Reading
from little_loops.fsm.extract import CannotJudge, matches_bytes, utf8
from little_loops.system.plain_files import reading

END_BYTES = 64 * 1024
_CHUNK = 1 << 20


class LargeOutput:
    """Implements `fsm.conditions.Large` for an output in a file of at least `END_BYTES`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def holds(self, pattern: str, reading: Reading) -> bool:
        if reading == "regex":
            return matches_bytes(pattern, self.data)
        return utf8(pattern) in self.data

    def text(self) -> str:
        return self.data.decode()

    @cached_property
    def data(self) -> bytearray:
        """Return all of it without colour codes and one trailing newline, as UTF-8. Raises
        `CannotJudge`."""
        data, decoder = bytearray(), getincrementaldecoder("utf-8")("replace")
        uncoloured = ColourFilter()
        try:
            with reading(self._path) as stream:
                while chunk := stream.read(_CHUNK):
                    data += decoder.decode(uncoloured.feed(chunk)).encode()
        except OSError as error:
            raise CannotJudge(f"the output cannot be read: {error.strerror}") from None
        data += decoder.decode(uncoloured.finish(), final=True).encode()
        if data.endswith(b"\n"):
            del data[-1:]  # in place, where `removesuffix` would copy
        return data

    def ends(self) -> str:
        """Return its beginning and its last lines; all of it if those lines are blank. Raises
        `OSError`."""
        with reading(self._path) as stream:
            head = stream.read(END_BYTES)
            stream.seek(-END_BYTES, os.SEEK_END)
            tail = stream.read().removesuffix(b"\n")
        _, newline, lines = tail.partition(b"\n")
        if newline and not without_colours(lines).strip():
            return self.text()  # its last word is further up
        # Without a newline, the last line is longer than any number or verdict.
        ends = without_colours(head + (newline + lines or tail))
        return ends.decode("utf-8", "replace")
