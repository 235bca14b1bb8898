"""The documented name of `PersistentExecutor`; it lives in `engine.persistent_executor`."""

from little_loops.engine.persistent_executor import PersistentExecutor as PersistentExecutor
from little_loops.fsm.state import LoopState as LoopState
