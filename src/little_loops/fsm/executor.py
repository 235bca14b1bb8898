"""The documented name of `FSMExecutor`; it lives in `engine.executor`."""

from little_loops.engine.executor import ActionResult as ActionResult
from little_loops.engine.executor import ActionRunner as ActionRunner
from little_loops.engine.executor import DefaultActionRunner as DefaultActionRunner
from little_loops.engine.executor import ExecutionResult as ExecutionResult
from little_loops.engine.executor import FSMExecutor as FSMExecutor
