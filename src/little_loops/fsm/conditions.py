"""Judge the result of an action: a condition and an observation give a verdict with a reason.

A condition that cannot judge gives `error`, with the reason and the beginning of the output. It
never gives `fail`, which would send the loop off to fix what is not broken. The caller has filled
in the templates; where a number is expected, text is parsed as a number here.

Not here: reading numbers, patterns and JSON (`extract`), finding outputs and sources (`engine.resolve`), the time limit for conditions that `needs_bound` (`engine.judging`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from little_loops import light_json as json
from little_loops.fsm.extract import (
    EXACT_BELOW,
    LARGEST,
    CannotJudge,
    NotANumber,
    as_number,
    compiled,
    cut,
    exact_value,
    gap,
    has_leading_zero,
    is_other_dialect,
    kind,
    matches,
    median,
    one_value,
    plain,
    preview,
    stall_count,
)
from little_loops.fsm.extract import number_in as number_in
from little_loops.fsm.schema import (
    ERROR,
    FAIL,
    PASS,
    PROGRESS,
    STALL,
    TARGET,
    TYPE_OF,
    All,
    AnyOf,
    Comparison,
    Condition,
    Convergence,
    ExitCode,
    Not,
    OutputContains,
    OutputJson,
    OutputNumeric,
    Scalar,
    VerdictWords,
)
from little_loops.fsm.state import Judgement, Metric
from little_loops.light_typing import Any, Literal, Protocol, assert_never
from little_loops.records import NamedTuple

REASON_CHARS = 1000
SPECIAL = frozenset(r".^$*+?{}[]\|()")
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
IN_WORDS: Mapping[Comparison, tuple[str, str]] = {
    "eq": ("is", "is not"),
    "ne": ("is not", "is"),
    "lt": ("is less than", "is not less than"),
    "le": ("is at most", "is more than"),
    "gt": ("is more than", "is not more than"),
    "ge": ("is at least", "is less than"),
}
"""The words for a comparison that passed, and for one that failed."""
NOT_RUN = {126: "not executable", 127: "not found"}
VERDICT_MARK = "VERDICT:"
TRUTH = {"true": True, "false": False}


Reading = Literal["regex", "substring"]


class Large(Protocol):
    """An output that is too large to hold in memory as text."""

    def holds(self, pattern: str, reading: Reading) -> bool: ...
    def text(self) -> str: ...


class Observation(NamedTuple):
    """The result to judge. `verdict` is an agent's structured verdict; `truncated`: the output was
    cut at a limit.

    With a `large` output, `output` only has its beginning and its last line. `samples` are earlier
    measurements: the median of them and the number in this output counts.
    """

    exit_code: int | None
    signal: int | None
    output: str
    truncated: bool = False
    verdict: str | None = None
    large: Large | None = None
    samples: tuple[float, ...] = ()


Sources = Mapping[str, Observation]
"""The observation for each `source` inside a condition; a source that is not here has no
effect."""
NO_SOURCES: Sources = MappingProxyType({})

OutputCondition = OutputContains | OutputJson | OutputNumeric | Convergence | VerdictWords


def judge(
    condition: Condition,
    seen: Observation,
    memory: Metric | None = None,
    sources: Sources = NO_SOURCES,
) -> Judgement:
    """Return the verdict of a condition on an observation. No output makes this raise; what cannot
    be judged is an `error`.

    `memory` is the `metric` of the previous judgement in this state; `sources` has the results that
    a condition's `source` may name.
    """
    if condition.source is not None:
        seen = sources.get(condition.source, seen)
    try:
        return decide(condition, seen, memory, sources)
    except NotANumber as reason:
        return Judgement(ERROR, str(reason))
    except CannotJudge as reason:
        return cannot_judge(str(reason), seen)


def decide(
    condition: Condition, seen: Observation, memory: Metric | None, sources: Sources
) -> Judgement:
    """Judge a condition, including combined ones; an action that failed to run is an error. Raises
    `CannotJudge`."""
    match condition:
        case ExitCode():
            return exit_code(condition, seen)
        case All():
            return combine(condition.of, FAIL, seen, sources)
        case AnyOf():
            return combine(condition.of, PASS, seen, sources)
        case Not():
            return negate(condition.of, seen, sources)
        case _:
            return failed_to_run(seen) or judge_output(condition, seen, memory)


def judge_output(condition: OutputCondition, seen: Observation, memory: Metric | None) -> Judgement:
    """Judge a condition about the output; only convergence uses `memory`. Raises `CannotJudge`."""
    match condition:
        case OutputContains():
            return output_contains(condition, seen)
        case OutputJson():
            return output_json(condition, seen)
        case OutputNumeric():
            return output_numeric(condition, seen)
        case Convergence():
            return convergence(condition, seen, memory)
        case VerdictWords():
            return verdict_words(condition, seen)
        case _:
            assert_never(condition)


def leaves(condition: Condition) -> Iterator[Condition]:
    """Yield the conditions that examine something themselves, not the ones that combine others."""
    match condition:
        case All() | AnyOf():
            for each in condition.of:
                yield from leaves(each)
        case Not():
            yield from leaves(condition.of)
        case _:
            yield condition


def needs_bound(condition: Condition) -> bool:
    """Return whether judging needs a time limit.

    A jq filter may loop forever, and a pattern may have to search 64 MiB; both run in C code that
    cannot be interrupted.
    """
    return any(
        isinstance(leaf, OutputJson) or (isinstance(leaf, OutputContains) and may_be_regex(leaf))
        for leaf in leaves(condition)
    )


def cannot_judge(reason: str, seen: Observation) -> Judgement:
    return Judgement(
        ERROR, f"{reason}; the output is {preview(seen.output) if seen.output else 'empty'}"
    )


# Exit codes


def exit_code(condition: ExitCode, seen: Observation) -> Judgement:
    """Judge an exit code: 0 passes, 1 fails, others are errors, unless `target` and `fail` are set.
    An action that a signal ended is an error."""
    if seen.signal is not None:
        return Judgement(ERROR, f"ended by signal {seen.signal}")
    code = exit_code_of(condition, seen)
    target = 0 if condition.target is None else as_number(condition.target, "target")
    if code == target:
        return Judgement(PASS, f"exit {plain(code)}")
    failures = (0, 1) if condition.fail is None else condition.fail
    expected = "" if condition.target is None else f", expected {plain(target)}"
    verdict = FAIL if is_listed(code, failures) else ERROR
    return Judgement(verdict, f"exit {plain(code)}{expected}")


def is_listed(code: float, codes: tuple[int | str, ...] | str) -> bool:
    """Return whether an exit code is in this list of codes and ranges.

    >>> is_listed(101, (1, "100-125"))
    True
    """
    for each in (codes,) if isinstance(codes, str) else codes:
        first, _, last = str(each).partition("-")
        if int(first) <= code <= int(last or first):
            return True
    return False


def exit_code_of(condition: ExitCode, seen: Observation) -> float:
    """Return the exit code, or the number in the output if only the condition's `source` gives one.
    Raises `CannotJudge`."""
    if seen.exit_code is not None:
        return seen.exit_code
    if condition.source is None:
        raise CannotJudge("there is no exit code")
    return number_in(seen.output)  # `source: "${captured.build.exit_code}"` gives a string


def failed_to_run(seen: Observation) -> Judgement | None:
    """Return an error for an action that did not really run, so that its output means nothing; else
    None."""
    if seen.signal is not None:
        return Judgement(ERROR, f"ended by signal {seen.signal}")
    if seen.exit_code in NOT_RUN:
        return Judgement(ERROR, f"exit {seen.exit_code}: {NOT_RUN[seen.exit_code]}")
    return None


# Patterns


def output_contains(condition: OutputContains, seen: Observation) -> Judgement:
    """Judge whether the output contains the pattern, or with `negate` does not. Raises
    `CannotJudge` for an empty pattern, and if the pattern may be in a part that was cut off."""
    if not condition.pattern:  # a template may be empty once it is filled in
        raise CannotJudge("the pattern is empty and would match anything")
    found = holds(seen, condition.pattern, reading(condition))
    reason = f"`{cut(condition.pattern)}` {'found' if found else 'not found'}"
    if seen.truncated and not found:
        raise CannotJudge(f"{reason}, but the output was cut off")
    return Judgement(PASS if found is not condition.negate else FAIL, reason)


def holds(seen: Observation, pattern: str, reading: Reading) -> bool:
    if seen.large is not None:
        return seen.large.holds(pattern, reading)
    return matches(pattern, seen.output) if reading == "regex" else pattern in seen.output


def reading(condition: OutputContains) -> Reading:
    """Return how to read a pattern: as a regular expression if it has a special character and
    compiles.

    A pattern with look-arounds or back-references is also meant as a regular expression. It does
    not compile here, but as a substring it would silently never match.
    """
    if not may_be_regex(condition):
        return "substring"
    if condition.regex is None:
        try:
            compiled(condition.pattern)
        except CannotJudge:
            return "regex" if is_other_dialect(condition.pattern) else "substring"
    return "regex"


def may_be_regex(condition: OutputContains) -> bool:
    if condition.regex is None:
        return not SPECIAL.isdisjoint(condition.pattern)
    return condition.regex


# Numbers


def output_numeric(condition: OutputNumeric, seen: Observation) -> Judgement:
    """Judge the number in the output, which is also the judgement's `value`. Raises
    `CannotJudge`."""
    value = number_of(seen)
    target = as_number(condition.target, "target")
    passed = COMPARE[condition.operator](value, target)
    reason = compared(plain(value), condition.operator, plain(target), passed)
    return Judgement(PASS if passed else FAIL, reason, value=value)


def compared(value: str, op: Comparison, target: str, passed: bool) -> str:
    """Describe a comparison: `3 is at most 5`, `7 is more than 5`."""
    return f"{value} {IN_WORDS[op][0 if passed else 1]} {target}"


def number_of(seen: Observation) -> float:
    if seen.truncated:
        raise CannotJudge("the output was cut off before its end")
    number = number_in(seen.output)
    return median((*seen.samples, number)) if seen.samples else number


def convergence(condition: Convergence, seen: Observation, memory: Metric | None) -> Judgement:
    """Judge whether the number has reached its target (`target`), got closer than ever
    (`progress`), or has not for `patience` measurements in a row (`stall`). The first measurement
    is progress. With `keep`, a change has to be better by more than `min_gain`. Raises
    `CannotJudge`."""
    value = number_of(seen)
    target = as_number(condition.target, "target")
    if reached_target(condition, value, target):
        reason = f"{plain(value)} meets the target {plain(target)}"
        min_gain = None if memory is None else memory.min_gain
        return Judgement(TARGET, reason, Metric(value, 0, min_gain), value)
    if condition.keep is not None:
        from little_loops.fsm.best import judge_change  # few loops keep the best

        return judge_change(condition, value, target, memory)
    if memory is None:
        reason = f"first measurement: {plain(value)} (target: {plain(target)})"
        return Judgement(PROGRESS, reason, Metric(value), value)
    if gap(value, target) < gap(memory.best, target):
        reason = f"{plain(value)} is closer to {plain(target)} than {plain(memory.best)}"
        return Judgement(PROGRESS, reason, Metric(value), value)
    stalled = memory.stalled + 1
    verdict = STALL if stalled >= condition.patience else PROGRESS
    now = f"{plain(value)} (best: {plain(memory.best)})"
    if value == memory.best:
        now = f"still {plain(value)}"
    count = stall_count(stalled, condition.patience)
    reason = f"no improvement: {now}, target {plain(target)} ({count})"
    return Judgement(verdict, reason, Metric(memory.best, stalled), value)


def reached_target(condition: Convergence, value: float, target: float) -> bool:
    """Return whether the value is within `tolerance` of the target, or beyond it in `direction`.
    Raises `CannotJudge` for an invalid tolerance."""
    tolerance = as_number(condition.tolerance, "tolerance")
    if tolerance < 0:
        raise CannotJudge(f"`tolerance` is below zero: {plain(tolerance)}")
    beyond = {"min": value <= target, "max": value >= target, None: False}[condition.direction]
    return beyond or gap(value, target) <= gap(tolerance, 0)


# JSON


def output_json(condition: OutputJson, seen: Observation) -> Judgement:
    """Judge the value that a jq filter finds in the output. Raises `CannotJudge` if the output is
    cut off or not JSON, or the filter does not give exactly one value."""
    if seen.truncated:
        raise CannotJudge("the output was cut off, so it is not complete JSON")
    if not condition.path.strip():  # jq reads an empty path as `.`
        raise CannotJudge("the path is empty")
    text = seen.output if seen.large is None else seen.large.text()
    value = one_value(condition.path, text)
    if kind(value) == "a number" and abs(value) >= EXACT_BELOW:
        value = exact_value(condition.path, text, value)
    return compare(condition, value, as_type_of(value, condition.target))


def compare(condition: OutputJson, value: Any, target: Scalar) -> Judgement:
    """Compare a JSON value with the target. Raises `CannotJudge` for null, lists and objects unless
    the target is null, for numbers that are not finite, and for an ordering of anything but two
    numbers or two strings."""
    path, op = f"`{cut(condition.path)}`", condition.operator
    kinds = (kind(value), kind(target))
    if target is not None and kinds[0] in ("null", "a list", "an object"):
        raise CannotJudge(f"{path} gave {kinds[0]}")
    for each, name in ((value, path), (target, "`target`")):
        # jq only has doubles, and replaces 1e999 by the largest one.
        if isinstance(each, (int, float)) and not abs(each) < LARGEST:
            raise CannotJudge(f"{name} is not a finite number")
    if op in ("eq", "ne"):
        passed = equals_as_json(value, target) is (op == "eq")
    elif kinds in (("a number", "a number"), ("a string", "a string")):
        passed = COMPARE[op](value, target)
    else:
        raise CannotJudge(f"`{op}` needs two numbers or two strings, got {' and '.join(kinds)}")
    differ = f": {kinds[0]} is not {kinds[1]}" if target is not None and len({*kinds}) > 1 else ""
    reason = f"{path}: {compared(written(value), op, written(target), passed)}{differ}"
    return Judgement(PASS if passed else FAIL, reason)


def equals_as_json(value: Any, target: Scalar) -> bool:
    """Compare as JSON does: unlike in Python, true is not 1, and a string never equals a number.

    A missing key is null, as in jq.
    """
    return kind(value) == kind(target) and bool(value == target)


def as_type_of(value: Any, target: Scalar) -> Scalar:
    """Convert a target that was a template, and therefore a string, to the type of the value, if
    possible.

    Text with leading zeros stays text, because it is an identifier: `010`.
    """
    if isinstance(target, str) and kind(value) == "true or false":
        return TRUTH.get(target.strip(), target)
    if isinstance(target, str) and kind(value) == "a number" and not has_leading_zero(target):
        try:
            return number_in(target)
        except NotANumber:
            return target
    return target


def written(value: Any) -> str:
    """Return a JSON value as text for a reason; only the kind for a list or an object."""
    match kind(value):
        case "a number":
            return plain(value)
        case "a list" | "an object" as name:
            return name  # nested deeper than Python can recurse
        case _:
            return cut(json.dumps(value, ensure_ascii=False))


# Verdicts in words


def verdict_words(condition: VerdictWords, seen: Observation) -> Judgement:
    """Judge by the agent's structured verdict, else by `VERDICT: word` on its last non-blank line.

    Earlier lines do not count: they may list a word for each criterion. Case matters. Raises
    `CannotJudge` if there is no verdict, or one that is not in `words`.
    """
    word = (seen.verdict or "").strip()
    if not word and seen.truncated:
        raise CannotJudge("the output was cut off before its verdict")
    word = word or verdict_line(seen.output)
    if not word:
        raise CannotJudge("no verdict was given")
    if word not in condition.words:
        words = ", ".join(f"`{each}`" for each in condition.words)
        raise CannotJudge(f"unknown verdict {preview(word)}; expected {words}")
    return Judgement(word, f"the verdict is `{word}`")


def verdict_line(output: str) -> str:
    last = output.rstrip().rpartition("\n")[2].strip()
    return last.removeprefix(VERDICT_MARK).strip() if last.startswith(VERDICT_MARK) else ""


# Combinations


def combine(
    conditions: Sequence[Condition], decides: str, seen: Observation, sources: Sources
) -> Judgement:
    """Return the first judgement that is `decides` or `error`, without evaluating the rest; if
    there is none, the opposite of `decides`. No conditions are an error."""
    reasons = []
    for condition in conditions:
        judgement = pass_or_fail(condition, seen, sources)
        if judgement.verdict in (decides, ERROR):
            return judgement
        reasons.append(judgement.reason)
    if not reasons:
        return Judgement(ERROR, "there is nothing to judge")
    return Judgement(PASS if decides == FAIL else FAIL, "; ".join(reasons)[:REASON_CHARS])


def negate(condition: Condition, seen: Observation, sources: Sources) -> Judgement:
    judgement = pass_or_fail(condition, seen, sources)
    verdict = {PASS: FAIL, FAIL: PASS}.get(judgement.verdict, ERROR)
    return Judgement(verdict, judgement.reason)


def pass_or_fail(condition: Condition, seen: Observation, sources: Sources) -> Judgement:
    """Judge a part of a combined condition; a verdict other than pass, fail or error becomes an
    error."""
    judgement = judge(condition, seen, None, sources)
    if judgement.verdict in (PASS, FAIL, ERROR):
        return judgement
    name = TYPE_OF[type(condition)]
    return Judgement(ERROR, f"`{name}` gave `{judgement.verdict}`, not pass or fail")
