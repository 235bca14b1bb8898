"""Questions to the server and their answers, whatever transports them.

The functions that answer are in modules that need no web framework, because a report uses the same
answers as the page.

Not here: requests and responses (`endpoints`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from little_loops.light_typing import TYPE_CHECKING, Any
from little_loops.records import NamedTuple
from little_loops.web.errors import bad_request

if TYPE_CHECKING:
    from little_loops.web.site import Site


class Query(NamedTuple):
    """A request: the parts of its path, its query, and its body."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]

    def number(self, name: str, default: int, most: int | None = None) -> int:
        """Return a number of the query, at most `most`. Raises `ApiError` if it is not one."""
        text = self.query.get(name, "")
        if not text:
            return default
        try:
            found = int(text) if len(text) < 20 and text.isascii() else None
        except ValueError:
            found = None
        if found is None:
            raise bad_request(f"`{name}` must be a number")
        return found if most is None else min(found, most)


class Download(NamedTuple):
    """A file as an answer."""

    name: str
    content_type: str
    data: bytes


Answer = Mapping[str, Any] | Download
Handler = Callable[["Site", Query], Answer]


class Question(NamedTuple):
    """What can be asked: the form of its path, the function that answers it, and its method."""

    path: str
    handler: Handler
    method: str = "GET"
