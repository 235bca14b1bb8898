"""The header of a file that a loop was compiled to: it names the source, its hash and the command."""

from __future__ import annotations

import hashlib

from little_loops.definitions.loading import COMPILED_MARK, shown_path
from little_loops.system.plain_files import read_plain


def header(path: str) -> str:
    """Return comment lines that name the source; keep the header of a file that is already
    compiled."""
    raw = read_plain(path)
    if raw.startswith(COMPILED_MARK):
        return "".join(
            line.decode("utf-8", "replace")
            for line in raw.splitlines(keepends=True)[:3]
            if line.startswith(b"#")
        )
    name = shown_path(path)
    return (
        f"{COMPILED_MARK.decode()}{name}\n"
        f"# sha256 {hashlib.sha256(raw).hexdigest()}\n"
        f"# by: ll-loop compile {name}\n"
    )
