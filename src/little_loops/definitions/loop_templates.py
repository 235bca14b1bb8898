"""The loops that `ll-loop init` can write."""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.records import NamedTuple


class Template(NamedTuple):
    """A loop that can be written: its name, its purpose, and what to do before it is run."""

    loop: str
    title: str
    first: str = ""
    needs_agent: bool = True


TEMPLATES: Mapping[str, Template] = {
    "tests": Template("fix-tests", "fix failing tests"),
    "lint": Template("fix-lint", "lint until clean"),
    "types": Template("fix-types", "type errors to zero"),
    "relay": Template("implement-plan", "hand a plan to fresh agents", "write plan.md"),
    "deploy": Template("safe-deploy", "deploy, roll back on failure", needs_agent=False),
    "empty": Template("my-loop", "empty, to edit", needs_agent=False),
}
