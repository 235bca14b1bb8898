"""A world in which agents write what was drawn, and processes die or stop at any command."""

from __future__ import annotations

from typing import Any

from little_loops.fsm.commands import Command, RunAgent, RunShell
from little_loops.fsm.happenings import ActionEnded, Happening, StopAsked
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import LoopState, Result
from tests.fsm.scripted import PERFORM, Crash, ScriptedWorld


class DrawnWorld(ScriptedWorld):
    """`drawn` gives what an agent writes next, and `judged` the result of a shell action."""

    def __init__(self, loop: FSMLoop, writes: list[Any], faults: list[str]) -> None:
        super().__init__(loop, [])
        self.writes = writes
        self.faults = faults

    def perform(self, run: LoopState, command: Command) -> Happening:
        fault = self.faults.pop() if self.faults else ""
        if fault == "crash":
            if isinstance(command, RunAgent):  # it had begun to write
                self.trees.write(self.drawn())
            raise Crash
        if fault == "stop" and isinstance(command, RunAgent | RunShell):
            return StopAsked(self.now(), 15)
        if isinstance(command, RunAgent):
            self.trees.write(self.drawn())
            turn = Result(0, 1, "ok", agent="error" if fault == "fails" else "success")
            return ActionEnded(self.now(), turn)
        if isinstance(command, RunShell):
            return ActionEnded(self.now(), self.judged(command))
        return PERFORM[type(command)](self, run, command)

    def drawn(self) -> Any:
        raise NotImplementedError

    def judged(self, command: RunShell) -> Result:
        raise NotImplementedError
