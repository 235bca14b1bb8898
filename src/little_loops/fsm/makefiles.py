"""Which other files a makefile reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

from little_loops.templates.shell.positions import HOLE

NAMES = ("Makefile", "makefile", "GNUmakefile")
SUFFIX = ".mk"
_INCLUDE = re.compile(r"^ *(?:-include|sinclude|include)[ \t]+([^#\n]*)", re.MULTILINE)
_ASSIGNMENT = re.compile(r"^ *(\w+)[ \t]*(?::{1,3}|\?)?=[ \t]*([^$#\s]*)[ \t]*$", re.MULTILINE)
_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_CALL = re.compile(r"\$[({][^(){}]*[)}]")
_WILDCARD = re.compile(r"\$[({](?:sort +\$[({])?wildcard +([^$(){}]*)[)}]+")


def is_makefile(path: str) -> bool:
    return path.rpartition("/")[2] in NAMES or path.endswith(SUFFIX)


def included_by(makefile: str) -> tuple[str, ...]:
    """Return the paths that a makefile includes, with their wildcards; paths with variables are
    left out, unless the makefile gives them a plain value."""
    text = makefile.replace("\\\n", " ")
    values = {"CURDIR": ".", **dict(_ASSIGNMENT.findall(text))}
    words = (word for line in _INCLUDE.findall(text) for word in _expand(line, values).split())
    return tuple(dict.fromkeys(word for word in words if "$" not in word))


def recipes_of(makefile: str) -> tuple[str, ...]:
    """Return the lines that a makefile gives to the shell; values of variables are unknown there."""
    lines = makefile.replace("\\\n", " ").split("\n")
    return tuple(
        _CALL.sub(HOLE, line.lstrip("\t @-+")).replace("$$", "$")
        for line in lines
        if line.startswith("\t")
    )


def _expand(line: str, values: Mapping[str, str]) -> str:
    """Return a line with the values of its variables, and with the patterns of `wildcard`."""
    filled = _VARIABLE.sub(lambda found: values.get(found[1], found[0]), line)
    return _WILDCARD.sub(r"\1", filled)
