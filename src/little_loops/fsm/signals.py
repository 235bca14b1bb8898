"""The signal lines built in: the marker a line starts with, and the type of signal it is.

The stream scanner, the library's detector and the machine all take them from here.
"""

from __future__ import annotations

from typing import Final

SIGNALS: Final = {
    "CONTEXT_HANDOFF": "handoff",
    "FATAL_ERROR": "error",
    "LOOP_STOP": "stop",
}
