"""The files of the page, as they were built and shipped: the same for everyone, without a token.

They are found when the server starts, and kept by name, so a URL is only looked up in a table.
"""

from __future__ import annotations

import hashlib
import os
import secrets

from starlette.responses import Response

from little_loops.records import NamedTuple
from little_loops.web.security import content_policy

FOLDER = os.path.join(os.path.dirname(__file__), "assets")
PAGE = "index.html"
NONCE = b"__NONCE__"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
NOT_BUILT = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>ll-loop</title>
<body><p>The files of the page are missing from this installation.</p></body></html>
"""


class Asset(NamedTuple):
    path: str
    content_type: str


class Assets:
    """The files in a folder, found once."""

    def __init__(self, folder: str = FOLDER) -> None:
        try:
            names = os.listdir(folder)
        except OSError:
            names = []
        self._files = {
            name: Asset(os.path.join(folder, name), TYPES[os.path.splitext(name)[1]])
            for name in names
            if os.path.splitext(name)[1] in TYPES
        }

    def page(self) -> Response:
        """Return the page, with a nonce for the styles that its editor adds."""
        nonce = secrets.token_urlsafe(16)
        asset = self._files.get(PAGE)
        data = NOT_BUILT if asset is None else _read(asset)
        headers = {
            "Content-Security-Policy": content_policy(nonce),
            "Cache-Control": "no-cache",
        }
        return Response(
            data.replace(NONCE, nonce.encode()), media_type=TYPES[".html"], headers=headers
        )

    def file(self, name: str, known: str | None) -> Response | None:
        """Return a file by its name, without its content if the browser has it; None if there is no
        such file."""
        asset = self._files.get(name)
        if asset is None or name == PAGE:
            return None
        data = _read(asset)
        tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if known == tag:
            return Response(None, 304, headers=headers)
        return Response(data, media_type=asset.content_type, headers=headers)


def _read(asset: Asset) -> bytes:
    with open(asset.path, "rb") as file:
        return file.read()
