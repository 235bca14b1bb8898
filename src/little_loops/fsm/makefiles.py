"""Which other files a makefile reads."""

from __future__ import annotations

import re

NAMES = ("Makefile", "makefile", "GNUmakefile")
SUFFIX = ".mk"
_INCLUDE = re.compile(r"^ *(?:-include|sinclude|include)[ \t]+([^#\n]*)", re.MULTILINE)


def is_makefile(path: str) -> bool:
    return path.rpartition("/")[2] in NAMES or path.endswith(SUFFIX)


def included_by(makefile: str) -> tuple[str, ...]:
    """Return the paths that a makefile includes, with their wildcards; paths with variables are
    left out."""
    lines = _INCLUDE.findall(makefile.replace("\\\n", " "))
    words = [word for line in lines for word in line.split() if "$" not in word]
    return tuple(dict.fromkeys(words))
