"""Report what a text must not contain: a NUL character, or templates where they do not work."""

from __future__ import annotations

import re

from little_loops.authoring.messages import shown
from little_loops.authoring.yaml.nodes import Mark, Text
from little_loops.authoring.yaml.places import Places
from little_loops.light_typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from little_loops.authoring.fields.reader import Reader

WHERE_TEMPLATES_BELONG = (
    "templates are for `action`, `context` and `env` values, and a condition's "
    "`source`, `target`, `pattern`, `path` and `tolerance`"
)
_NUL = r"\\(?:0|x00|u0000|U00000000)"
"""The escapes for NUL in double quotes; YAML files cannot contain the character itself."""


def no_nul(reader: Reader, node: Text, label: str) -> Any:
    """Report a text with a NUL character, which no command, path or variable can contain. Return
    INVALID."""
    message = (
        f"{label} contains a NUL character, which is not allowed in commands, paths and variables"
    )
    return reader.report("LL126", message, _escape_in(reader, node), "remove it")


def no_template(reader: Reader, node: Text) -> Any:
    """Return the text, or INVALID after reporting a template in it, even an incomplete one."""
    from little_loops.templates.parse import TemplateError, references  # few texts have a `${`

    try:
        found = [each.text for each in references(node.text)[:1]]
    except TemplateError as error:
        found = [node.text[error.start : error.end]]
    for snippet in found:
        spots = Places(reader.source, node).spots(snippet)
        message = f"`{shown(snippet)}` is not filled in here"
        at = spots[0] if spots else node.mark
        return reader.report("LL406", message, at, WHERE_TEMPLATES_BELONG)
    return node.text


def _escape_in(reader: Reader, node: Text) -> Mark | None:
    """Return the position of the NUL escape, or of the whole text if it is not found."""
    for number, start, end in Places(reader.source, node).lines():
        if (escape := re.search(_NUL, reader.source.lines[number][start:end])) is not None:
            return Mark(number, start + escape.start(), start + escape.end())
    return node.mark
