"""Check that each condition can judge what it is given, as far as that is known before a run.

Not here: the fields of each type (`fields.read_conditions`), what a verdict leads to (`check_transitions`).
"""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.fields.kinds import LARGEST_CODE
from little_loops.authoring.messages import shown
from little_loops.authoring.texts import ConditionPart, Path, conditions
from little_loops.errors import Problem
from little_loops.fsm.conditions import may_be_regex, reading
from little_loops.fsm.extract import CannotJudge, as_number, compiled
from little_loops.fsm.schema import (
    Condition,
    ExitCode,
    OutputContains,
    OutputJson,
    effective_condition,
    keeps_best,
)
from little_loops.templates.render import Escape, Reference
from little_loops.templates.splice import AuthorValue, written

MOST_FILTERS = 100
"""A jq filter takes 2 ms to compile; beyond this number, errors show only in a run."""
LONGEST_FILTER = 10_000
MOST_INSTRUCTIONS = 400_000
"""The limit for all compiled patterns together: about a third of a second."""
LARGE_PATTERN = 130_000
LONGEST_REASON = 200


def check_conditions(of: Inspection) -> Iterator[Problem]:
    """Report sources that do not exist, invalid numbers, patterns and jq filters."""
    compiler = Compiler()
    for part in conditions(of.loop):
        yield from _check_source(of, part)
        yield from _check_judged_later(of, part)
        if of.gaps.in_state(part.state, "condition"):
            continue  # perhaps another type was meant
        yield from _check_numbers(of, part.state, part.condition, part.path)
        match part.condition:
            case OutputContains():
                yield from _check_pattern(of, part, part.condition, compiler)
            case OutputJson():
                yield from _check_filter(of, part, part.condition, compiler)
            case _:
                pass
    yield from _check_implied(of)
    if any(state.repeat > 1 or keeps_best(state) for state in of.loop.states.values()):
        from little_loops.authoring.checks.check_measuring import check_measuring  # few loops do

        yield from check_measuring(of)


def _check_source(of: Inspection, part: ConditionPart) -> Iterator[Problem]:
    """Report a `source` that names no state with an action and no capture."""
    source = part.condition.source
    if source is None or "${" in source or source in of.results or of.may_be_captured(source):
        return
    path = (*part.path, "source")
    if source in of.loop.states:
        message = f"`source` names state `{source}`, which has no action and therefore no result"
        yield of.error("LL207", message, *path, help="name a state with an action, or a capture")
    else:
        message = f"`source` does not name a state or capture: `{shown(source)}`"
        yield of.error("LL207", message, *path, help=of.suggest_name(source, of.results))


def _check_judged_later(of: Inspection, part: ConditionPart) -> Iterator[Problem]:
    """Warn about a condition on the output of a check that also judges itself: when the check is run
    again to prove the result, this condition is not asked."""
    source = part.condition.source
    for name, state in of.loop.states.items() if source is not None else ():
        is_source = source in (name, state.capture) and name != part.state
        if is_source and state.check and not state.capture_exit and not of.gaps.unsure(name):
            yield of.warning(
                "LL326",
                f"this judges what `{name}` printed, but a repeated check counts by its own condition",
                *(*part.path, "source"),
                help=f"move this condition to `{name}`, or give it `capture_exit: true` and `next`",
            )


def _check_numbers(
    of: Inspection, state: str, condition: Condition, path: Path
) -> Iterator[Problem]:
    """Report a template for a number that, filled in, is not a number."""
    if isinstance(condition, OutputJson):
        return
    for field in ("target", "tolerance"):
        value = getattr(condition, field, None)
        text = _filled_in(of, state, value) if isinstance(value, str) else None
        message = _not_a_number(condition, field, text) if text is not None else None
        if message is not None:
            help = "write a number, or a template that gives one"
            yield of.error("LL208", message, *(*path, field), help=help)


def _filled_in(of: Inspection, state: str, text: str) -> str | None:
    """Return a text with the author's values filled in; None if it depends on a run."""
    if "${" not in text:
        return text
    found = of.filled(state, text)
    if not isinstance(found, tuple) or any(
        isinstance(each, Reference | AuthorValue) for each in found
    ):
        return None
    return "".join("${" if isinstance(each, Escape) else written(each) for each in found)


def _not_a_number(condition: Condition, field: str, text: str) -> str | None:
    """Return why a text is not valid for the field; None if it is."""
    try:
        number = as_number(text, field)
    except CannotJudge:
        return f"`{field}` is not a number: `{shown(text)}`"
    if isinstance(condition, ExitCode) and number not in range(LARGEST_CODE + 1):
        return f"`{field}` is not an exit code: `{shown(text)}`"
    if field == "tolerance" and number < 0:
        return f"`{field}` must be at least 0, not `{shown(text)}`"
    return None


def _check_implied(of: Inspection) -> Iterator[Problem]:
    """Check states with `on_target` but no condition, which take their numbers from the context."""
    for name, state in of.loop.states.items():
        condition = effective_condition(state)
        if condition is None or state.condition is not None:
            continue
        if of.gaps.in_state(name, "condition") or of.gaps.hides_variable("target", name):
            continue
        if "target" not in of.loop.context and "target" not in state.context:
            yield of.error(
                "LL211",
                f"state `{name}` has `on_target` but no condition, and `context` has no `target`",
                *("states", name, "on_target"),
                help="add `target: <number>` to `context`, or a condition of type `convergence`",
                part="key",
            )
            continue
        own = "target" in state.context or "tolerance" in state.context
        path: Path = ("states", name, "context") if own else ("context",)
        yield from _check_numbers(of, name, condition, path)


class Compiler:
    """Compiles each pattern and filter once, up to limits that protect against hostile files."""

    def __init__(self) -> None:
        self._filters: dict[str, str | None] = {}
        self._patterns: dict[str, str | None] = {}
        self._instructions = 0

    def filter_error(self, path: str) -> str | None:
        """Return why this is not a jq filter; None if it is, or if a limit was reached."""
        # jq evaluates `"x" * 1000000000` while compiling, which takes seconds and a gigabyte.
        unbounded = "*" in path and '"' in path
        if unbounded or len(path) > LONGEST_FILTER or len(self._filters) >= MOST_FILTERS:
            return None
        if path not in self._filters:
            self._filters[path] = _jq_error(path)
        return self._filters[path]

    def pattern_error(self, pattern: str) -> str | None:
        """Return why this is not a valid pattern; None if it is, or if a limit was reached."""
        if pattern not in self._patterns and self._instructions < MOST_INSTRUCTIONS:
            self._patterns[pattern], instructions = _pattern_error(pattern)
            self._instructions += instructions
        return self._patterns.get(pattern)


def _jq_error(path: str) -> str | None:
    """Return jq's error message for a filter; None if it is valid."""
    import jq  # late: rarely needed

    try:
        jq.compile(path.replace("\0", "\\0"))
    except ValueError as error:
        first = str(error).partition("\n")[0]
        return first.removeprefix("jq: error: ").partition(" at <top-level>")[0]
    return None


def _pattern_error(pattern: str) -> tuple[str | None, int]:
    """Return the error of a pattern, if any, and the size of its program."""
    try:
        return None, compiled(pattern).programsize
    except CannotJudge as error:
        return str(error), LARGE_PATTERN if "too large" in str(error) else len(pattern)


def _check_pattern(
    of: Inspection, part: ConditionPart, condition: OutputContains, compiler: Compiler
) -> Iterator[Problem]:
    """Report a regular expression that is not valid."""
    pattern = _filled_in(of, part.state, condition.pattern)
    if pattern is None:
        return
    filled = condition._replace(pattern=pattern)
    error = compiler.pattern_error(pattern) if may_be_regex(filled) else None
    if error is not None and reading(filled) == "regex":
        yield of.error(
            "LL209",
            shown(error, LONGEST_REASON),
            *(*part.path, "pattern"),
            help="lookarounds and backreferences are not supported; `regex: false` matches the text literally",
        )


def _check_filter(
    of: Inspection, part: ConditionPart, condition: OutputJson, compiler: Compiler
) -> Iterator[Problem]:
    """Report a `path` that is not a valid jq filter."""
    path = _filled_in(of, part.state, condition.path)
    error = compiler.filter_error(path) if path else None  # an empty one is reported elsewhere
    if error is not None:
        yield of.error(
            "LL210",
            f"`{shown(str(path))}` is not a valid jq filter: {shown(error, LONGEST_REASON)}",
            *(*part.path, "path"),
            help="try it on some output: `… | jq '<path>'`",
        )
