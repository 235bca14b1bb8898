"""Fill in the `result` of a loop when a run of it ends."""

from __future__ import annotations

from little_loops.engine.resolve import Values
from little_loops.fsm.schema import FSMLoop
from little_loops.light_typing import Any, Final
from little_loops.templates.render import (
    TemplateError,
    TooLarge,
    Unresolved,
    ValueNotANumber,
    render_text,
)

MAX_BYTES: Final = 4096
"""The maximum size of one value, because the parent keeps it in its event log and its state."""


def fill_result(loop: FSMLoop, values: Values) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the values of `result`, and a warning for each that has none and is None instead."""
    filled: dict[str, Any] = {}
    warnings: list[str] = []
    for name, text in loop.result.items():
        try:
            filled[name], cut = _cut(render_text(text, values, values.context))
            why = f"only its first {MAX_BYTES} bytes are kept" if cut else None
        except (Unresolved, ValueNotANumber, TemplateError, TooLarge, OSError) as problem:
            filled[name], why = None, str(problem)
        if why is not None:
            warnings.append(f"`result.{name}`: {why}")
    return filled, tuple(warnings)


def _cut(text: str) -> tuple[str, bool]:
    """Return the beginning of a text that is small enough to keep, and whether it was cut."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= MAX_BYTES:
        return text, False
    return raw[:MAX_BYTES].decode("utf-8", "ignore"), True
