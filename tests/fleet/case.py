"""A run on the fleet of a test, and who holds it."""

from __future__ import annotations

from little_loops.fleet.runtime import FleetRuntime
from little_loops.fsm.schema import FSMLoop
from tests.contract.suite import effects
from tests.fleet.fleet import Fleet, FleetWorker
from tests.project import DEADLINE_S, Project, until


class Case:
    """A run on the fleet, and who holds it."""

    def __init__(
        self, fleet: Fleet, project: Project, runtime: FleetRuntime, loop: FSMLoop
    ) -> None:
        self.fleet = fleet
        self.project = project
        self.runtime = runtime
        self.loop = loop

    def holder(self) -> FleetWorker:
        def found() -> FleetWorker | None:
            details = self.runtime.details(self.loop.name) or {}
            return next(
                (each for each in self.fleet.workers if each.name == details["worker"]), None
            )

        worker: FleetWorker = until(found, "holder")
        return worker

    def effect(self, *expected: str) -> None:
        def found() -> bool:
            details = self.runtime.details(self.loop.name) or {}
            seen = effects(self.project)
            assert details["exit_code"] is None or seen == list(expected), (details, seen)
            return seen == list(expected)

        until(found, f"effects {expected}")

    def proceed(self) -> None:
        (self.project.home / "ok").touch()

    def replace(self, worker: FleetWorker) -> None:
        """Have another worker instead of one that was killed."""
        worker.end()
        self.fleet.workers.remove(worker)
        self.fleet.workers.append(self.fleet.worker())
        self.fleet.workers[-1].ready()

    def ends(self) -> str:
        found = self.runtime.wait(self.loop.name, DEADLINE_S)
        assert found is not None
        return f"{found.status} {found.reason}"
