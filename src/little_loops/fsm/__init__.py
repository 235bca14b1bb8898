"""The state machine, and the documented names of what runs it.

Names are imported on first use, so that reading a loop file does not import subprocess code.
"""

from __future__ import annotations

from little_loops.light_modules import import_module

TYPE_CHECKING = False  # `typing.TYPE_CHECKING`, without importing `typing`
if TYPE_CHECKING:
    from little_loops.authoring.library import compile_paradigm as compile_paradigm
    from little_loops.authoring.library import validate as validate
    from little_loops.engine.executor import ActionResult as ActionResult
    from little_loops.engine.executor import ActionRunner as ActionRunner
    from little_loops.engine.executor import DefaultActionRunner as DefaultActionRunner
    from little_loops.engine.executor import ExecutionResult as ExecutionResult
    from little_loops.engine.executor import FSMExecutor as FSMExecutor
    from little_loops.engine.handoff_handler import HandoffBehavior as HandoffBehavior
    from little_loops.engine.handoff_handler import HandoffHandler as HandoffHandler
    from little_loops.engine.handoff_handler import HandoffResult as HandoffResult
    from little_loops.engine.persistent_executor import PersistentExecutor as PersistentExecutor
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
    "FSMLoop": "little_loops.fsm.schema",
    "StateConfig": "little_loops.fsm.schema",
    "LoopState": "little_loops.fsm.state",
    "FSMExecutor": "little_loops.fsm.executor",
    "ExecutionResult": "little_loops.fsm.executor",
    "ActionRunner": "little_loops.fsm.executor",
    "ActionResult": "little_loops.fsm.executor",
    "DefaultActionRunner": "little_loops.fsm.executor",
    "PersistentExecutor": "little_loops.fsm.persistence",
    "SignalDetector": "little_loops.fsm.signal_detector",
    "SignalPattern": "little_loops.fsm.signal_detector",
    "DetectedSignal": "little_loops.fsm.signal_detector",
    "HANDOFF_SIGNAL": "little_loops.fsm.signal_detector",
    "ERROR_SIGNAL": "little_loops.fsm.signal_detector",
    "STOP_SIGNAL": "little_loops.fsm.signal_detector",
    "HandoffHandler": "little_loops.fsm.handoff_handler",
    "HandoffBehavior": "little_loops.fsm.handoff_handler",
    "HandoffResult": "little_loops.fsm.handoff_handler",
    "compile_paradigm": "little_loops.authoring.library",
    "validate": "little_loops.authoring.library",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
