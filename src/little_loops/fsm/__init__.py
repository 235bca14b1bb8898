"""The machine and what runs it.

Names are looked up on first use, so that reading a loop file does not pay for processes.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as `typing` has it, which this package does without
if TYPE_CHECKING:
    from little_loops.fsm.executor import ActionResult as ActionResult
    from little_loops.fsm.executor import ActionRunner as ActionRunner
    from little_loops.fsm.executor import DefaultActionRunner as DefaultActionRunner
    from little_loops.fsm.executor import ExecutionResult as ExecutionResult
    from little_loops.fsm.executor import FSMExecutor as FSMExecutor
    from little_loops.fsm.handoff_handler import HandoffBehavior as HandoffBehavior
    from little_loops.fsm.handoff_handler import HandoffHandler as HandoffHandler
    from little_loops.fsm.handoff_handler import HandoffResult as HandoffResult
    from little_loops.fsm.library import compile_paradigm as compile_paradigm
    from little_loops.fsm.library import validate as validate
    from little_loops.fsm.persistence import PersistentExecutor as PersistentExecutor
    from little_loops.fsm.schema import FSMLoop as FSMLoop
    from little_loops.fsm.schema import StateConfig as StateConfig
    from little_loops.fsm.signal_detector import ERROR_SIGNAL as ERROR_SIGNAL
    from little_loops.fsm.signal_detector import HANDOFF_SIGNAL as HANDOFF_SIGNAL
    from little_loops.fsm.signal_detector import STOP_SIGNAL as STOP_SIGNAL
    from little_loops.fsm.signal_detector import DetectedSignal as DetectedSignal
    from little_loops.fsm.signal_detector import SignalDetector as SignalDetector
    from little_loops.fsm.signal_detector import SignalPattern as SignalPattern
    from little_loops.fsm.state import LoopState as LoopState

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
