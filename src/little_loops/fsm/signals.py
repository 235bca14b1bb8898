"""The built-in signal lines: the marker at the start of a line, and the type of signal.

The stream scanner, the library's detector and the machine all use this table. What each type does
to a run: `_handle_signal_line` in `machine`.
"""

from __future__ import annotations

from little_loops.light_typing import Final

SIGNALS: Final = {
    "CONTEXT_HANDOFF": "handoff",
    "FATAL_ERROR": "error",
    "LOOP_STOP": "stop",
}
