"""The machine and what runs it.

Names are looked up on first use, so that reading a loop file does not pay for processes.
"""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "FSMLoop": "schema",
    "StateConfig": "schema",
    "LoopState": "state",
    "FSMExecutor": "executor",
    "ExecutionResult": "executor",
    "ActionRunner": "executor",
    "ActionResult": "executor",
    "DefaultActionRunner": "executor",
    "PersistentExecutor": "persistence",
    "SignalDetector": "signal_detector",
    "SignalPattern": "signal_detector",
    "DetectedSignal": "signal_detector",
    "HANDOFF_SIGNAL": "signal_detector",
    "ERROR_SIGNAL": "signal_detector",
    "STOP_SIGNAL": "signal_detector",
    "HandoffHandler": "handoff_handler",
    "HandoffBehavior": "handoff_handler",
    "HandoffResult": "handoff_handler",
    "compile_paradigm": "library",
    "validate": "library",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
