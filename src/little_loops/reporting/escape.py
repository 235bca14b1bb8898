"""Make any text safe to display: control and hidden characters become visible.

Everything on the screen that is not our own text passes through here once, after secrets were
masked: output, names, error messages. This is for display only; stored text is unchanged.

Not here: secrets (`reporting.masking`), colours and widths (`cli`).
"""

from __future__ import annotations

from little_loops.fsm.colour_codes import without_colours
from little_loops.fsm.path_text import escaped
from little_loops.light_modules import re

# As ranges, so that they can be compared with the Unicode tables.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline; DEL; C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # no width of their own
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, separators, direction
    "\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"  # fillers, byte order mark, annotations
    "\ud800-\udfff"  # lone surrogates: no encoding has them
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # shorthand and music controls
    "\U000e0000-\U000e0fff"  # tags and selectors, in which whole sentences can hide
)
# Our own lines contain no other signs, so most need no pattern, which takes 1 ms to compile.
_OWN_SIGNS = ("→", "✓", "✗", "…", "·")
_LINE = 400


def visible(text: str, newlines: bool = True) -> str:
    r"""Return the text without colour codes, and with control and hidden characters as escapes.

    Tabs are kept. `\\r\\n` and a lone `\\r` become newlines, so pass whole lines. Newlines are
    kept, or become `\\n` without `newlines`.
    """
    if text.isascii() and text.isprintable():
        return text  # most texts
    text = without_colours(text).replace("\r\n", "\n").replace("\r", "\n")
    if not _is_harmless(text):
        text = re.sub(f"[{_HIDDEN}]", lambda found: escaped(found[0]), text)
    return text if newlines else text.replace("\n", "\\n")


def _is_harmless(text: str) -> bool:
    """Return whether a text certainly has nothing to escape, without a pattern."""
    text = text.replace("\n", "").replace("\t", "")
    if not text.isascii() and len(text) <= _LINE:
        for sign in _OWN_SIGNS:
            text = text.replace(sign, "")
    return text.isascii() and text.isprintable()
