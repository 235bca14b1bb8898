"""The documented name of `HandoffHandler`; it lives in `engine.handoff_handler`."""

from little_loops.engine.handoff_handler import HandoffBehavior as HandoffBehavior
from little_loops.engine.handoff_handler import HandoffHandler as HandoffHandler
from little_loops.engine.handoff_handler import HandoffResult as HandoffResult
