"""Print what evidence a run would record, as text and as JSON, for `show` and `run --dry-run`.

Not here: what is listed (`definitions.evidence_plan`).
"""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.fsm.schema import Evidence, Tampering
from little_loops.light_typing import Any, Protocol
from little_loops.reporting.escape import visible

LABEL = 9
CHANGED: dict[Tampering, str] = {
    "restore": "restored if an agent changes it",
    "fail": "the run fails if an agent changes it",
    "report": "reported if an agent changes it",
}


class Plan(Protocol):
    """What is known before a run: see `definitions.evidence_plan`."""

    @property
    def kept(self) -> str | None: ...
    @property
    def checks(self) -> tuple[str, ...]: ...
    @property
    def protect(self) -> tuple[str, ...]: ...
    @property
    def is_guessed(self) -> bool: ...
    @property
    def existing_only(self) -> bool: ...
    @property
    def tampering(self) -> Tampering: ...
    @property
    def unmatched(self) -> tuple[str, ...]: ...
    @property
    def copy(self) -> str | None: ...


def evidence_lines(plan: Plan, evidence: Evidence, home: str, widest: int) -> Iterator[str]:
    """Yield the lines about checks, protected files and the clean copy."""
    if plan.checks:
        yield from _labelled("checks", list(plan.checks), widest)
    if plan.kept not in ("on", None):
        yield f"evidence {'none' if plan.kept == 'off' else f'none: {plan.kept}'}"
    if plan.kept != "on":
        return
    yield from _labelled("protect", [_shown(plan, each) for each in plan.protect], widest)
    new = "; new files are allowed" if plan.existing_only else ""
    yield f"{'':<{LABEL}}{CHANGED[plan.tampering]}{new}"
    for pattern in plan.unmatched:
        yield f"{'':<{LABEL}}warning: nothing matches {visible(pattern, newlines=False)}"
    if plan.copy is not None:
        yield f"copy     {_tilde(plan.copy, home)}"
    if plan.copy is not None and evidence.setup is not None:
        yield f"{'':<{LABEL}}setup: {visible(evidence.setup, newlines=False)}"


def _shown(plan: Plan, pattern: str) -> str:
    """Return a pattern for display; a guessed path without its leading slash."""
    return visible(pattern.removeprefix("/") if plan.is_guessed else pattern, newlines=False)


def _labelled(label: str, items: list[str], widest: int) -> Iterator[str]:
    """Yield a label and its items, separated by commas, in lines of at most `widest` columns."""
    line = ""
    for item in items:
        if line and LABEL + len(line) + 2 + len(item) + 1 > widest:
            yield f"{label:<{LABEL}}{line},"
            label, line = "", item
        else:
            line = f"{line}, {item}" if line else item
    yield f"{label:<{LABEL}}{line}"


def _tilde(path: str, home: str) -> str:
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def evidence_json(plan: Plan, evidence: Evidence) -> dict[str, Any]:
    """Return the evidence plan as JSON data."""
    return {
        "kept": plan.kept,
        "checks": list(plan.checks),
        "protect": list(plan.protect),
        "existing_only": plan.existing_only,
        "tampering": plan.tampering,
        "unmatched": list(plan.unmatched),
        "clean_copy": plan.copy,
        "setup": evidence.setup,
        "confirm": evidence.confirm,
    }
