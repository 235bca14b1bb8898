"""Modules of the standard library that a waiting run does without.

`signal` here is the part of it in C, whose numbers are plain numbers. `re` is loaded at its first
use, and most runs never use it. To a type checker these are the modules themselves.
"""

from __future__ import annotations

import sys

from little_loops.light_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re as re
    import signal as signal
    from importlib import import_module as import_module
else:

    class _Late:
        """A module that is loaded when something of it is used."""

        def __init__(self, name):
            self.__name__ = name

        def __getattr__(self, name):
            module = import_module(self.__name__)
            vars(self).update(vars(module))
            return getattr(module, name)

    def import_module(name):
        __import__(name)
        return sys.modules[name]

    try:
        import _signal as signal
    except ImportError:
        signal = import_module("signal")
    re = _Late("re")
