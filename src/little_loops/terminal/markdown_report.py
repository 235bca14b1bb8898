"""A report about a run in Markdown, for a pull request or a job summary.

How the run ended and why, its path, its steps with their verdicts and outputs, what each turn
changed, what it cost, what was measured, and the evidence. All texts are masked and escaped, and
the page stays below the size that GitHub accepts.

Not here: escaping (`markdown`), reading the run (`sharing.run_record`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    Entry,
    FinalEvent,
    KeepBest,
    LoopComplete,
    PartialResult,
    StateEnter,
    Tree,
)
from little_loops.fsm.path_text import path_text
from little_loops.fsm.state import Changed, Result
from little_loops.fsm.timestamps import timestamp
from little_loops.fsm.train import why_not_merged
from little_loops.fsm.values import duration_text
from little_loops.light_typing import Any, Final
from little_loops.receipts.story import Story
from little_loops.reporting.amounts import count_of, count_text, money_text, times_text
from little_loops.reporting.lines import last_line
from little_loops.runs.merges import MergeSummary, merges_of
from little_loops.runs.outputs import Outputs, StoredOutput
from little_loops.runs.path_taken import measurements, sparkline, visits
from little_loops.runs.steps import RunStep, steps_of
from little_loops.sharing.run_record import RunRecord
from little_loops.terminal.markdown import block, code, table
from little_loops.terminal.summaries import ending_of, money

MAX_BYTES: Final = 900_000
"""GitHub rejects a job summary of more than 1 MiB; the rest is left for what else a job writes there."""
MOST_STEPS: Final = 200
MOST_VISITS: Final = 60
MOST_VALUES: Final = 40
MOST_PATHS: Final = 20
MOST_ROWS: Final = 100
HEAD_LINES, TAIL_LINES = 15, 25
PIECE_BYTES: Final = 8192
MOST_LINE: Final = 300
GAP: Final = "…"

Hide = Callable[[str], str]
"""Masks the secrets in a string."""


def markdown_report(record: RunRecord) -> str:
    """Return the report, at most `MAX_BYTES` long: outputs of early steps are left out first."""
    top = "\n\n".join(_summary(record))
    details = list(_details(record))
    end = "\n\n".join(_evidence(record))
    room = MAX_BYTES - len(top.encode()) - len(end.encode()) - PIECE_BYTES
    kept: list[str] = []
    for text in reversed(details):
        room -= len(text.encode()) + 2
        if room < 0:
            break
        kept.insert(0, text)
    left_out = len(details) - len(kept)
    note = (
        [f"The outputs of the first {count_of(left_out, 'step')} are left out."] if left_out else []
    )
    parts = [top, *(["### Outputs", *note, *kept] if details else []), end]
    return "\n\n".join(part for part in parts if part) + "\n"


# ── the run ────────────────────────────────────────────────────────────────────────────────────


def _summary(record: RunRecord) -> Iterator[str]:
    """Yield how the run ended, the path, the metric and the steps."""
    view, hide = record.view, record.secrets.mask_text
    yield f"## {code(hide(view.name))}: {_plain_word(ending_of(view))}"
    yield code(hide(_ending(record)))
    yield table(("", ""), _facts(record))
    steps = steps_of(record.entries)
    if path := _path(record):
        yield f"**Path:** {path}"
    for merge in merges_of(record.entries):
        yield from _merge(merge, hide)
    if values := measurements(record.entries):
        yield f"**Metric:** {_metric(values)}"
    if steps:
        yield "### Steps"
        yield table(
            ("step", "iteration", "state", "verdict", "files", "time", "cost"),
            (_row(step) for step in _ends(steps, MOST_STEPS)),
        )


def _plain_word(text: str) -> str:
    """Return a status without the name of a state, which follows below."""
    return text.partition(" (")[0]


def _ending(record: RunRecord) -> str:
    """Return the last line of the run, or what it is doing."""
    last = record.entries[-1].event if record.entries else None
    if isinstance(last, FinalEvent):
        return last_line(last)
    return f"Loop {ending_of(record.view)}"


def _facts(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield the rows about the whole run."""
    view, summary = record.view, record.view.summary
    if summary is None:
        return
    yield "loop", code(summary.loop)
    yield "run", code(summary.run)
    yield "started", f"{timestamp(view.started_ms)[:16].replace('T', ' ')} UTC"
    yield "ran for", f"{duration_text(summary.ran_ms)}, {times_text(summary.iteration)}"
    decided = (each.event for each in record.entries if isinstance(each.event, KeepBest))
    if kept := [each for each in decided if each.best is not None]:
        yield "best", f"{kept[-1].best:g}, from step {kept[-1].kept_step}"
    if summary.cost_usd or summary.tokens:
        cost = money_text(summary.cost_usd) if summary.cost_usd else "unknown"
        yield "cost", f"{cost}, {count_text(summary.tokens)} tokens"


def _path(record: RunRecord) -> str:
    """Return the states in the order in which they were entered; the middle of a long path is left
    out."""
    names = [code(one.state) for one in visits(record.entries)]
    half = MOST_VISITS // 2
    if len(names) > MOST_VISITS:
        names = [*names[:half], f"{GAP} {len(names) - MOST_VISITS} more {GAP}", *names[-half:]]
    return " → ".join(names)


def _merge(merge: MergeSummary, hide: Hide) -> Iterator[str]:
    """Yield which branches were merged, and why others were not."""
    names = [code(hide(name)) for name in merge.merged[:MOST_ROWS]]
    more = len(merge.merged) - len(names)
    where = "" if merge.reason else f" into {code(hide(merge.onto or ''))}"
    words = ", ".join(names) + (f" and {more} more" if more else "")
    yield f"**Merged{where}:** {words or 'nothing'}"
    if merge.left_out:
        rows = [(code(hide(out.name)), code(hide(why_not_merged(out)))) for out in merge.left_out]
        yield table(("left out", "why"), rows[:MOST_ROWS])
    if merge.reason:
        yield f"{code(hide(merge.reason))}; to finish it: {code(hide(merge.command))}"


def _metric(values: Sequence[float]) -> str:
    shown = [f"{value:g}" for value in _ends(values, MOST_VALUES)]
    best = f"{count_of(len(values), 'measurement')}, from {values[0]:g} to {values[-1]:g}"
    return f"{sparkline(values)} {best}: {', '.join(shown)}"


_DECISIONS = {"kept": ", kept", "put_back": ", reverted"}
"""What happened to the change that was measured in a step of a loop with `keep: best`."""


def _row(step: RunStep) -> tuple[str, ...]:
    """Return the cells of a step."""
    return (
        str(step.number),
        str(step.iteration),
        code(step.state),
        ""
        if step.verdict is None
        else code(step.verdict) + _DECISIONS.get(step.decision or "", ""),
        _files(step.changed),
        duration_text(step.duration_ms) if step.verdict is not None else "",
        money(step.cost_usd, ""),
    )


def _files(changed: Changed | None) -> str:
    if changed is None or not changed.files:
        return ""
    return f"{changed.files} (+{changed.added} −{changed.removed})"


def _ends(items: Sequence[Any], most: int) -> Sequence[Any]:
    """Return the items, or the first and last of them if there are too many."""
    return items if len(items) <= most else [*items[: most // 2], *items[-(most // 2) :]]


# ── outputs ────────────────────────────────────────────────────────────────────────────────────


def _details(record: RunRecord) -> Iterator[str]:
    """Yield a section for each action that has ended: what ran, and what it printed."""
    step, action = 0, ""
    for entry in record.entries:
        match entry.event:
            case StateEnter(step=number):
                step = number
            case ActionStart(action=text, filled=filled):
                action = filled or text
            case ActionComplete(state=state, result=result):
                yield _section(record, step, state, action, result)
            case ActionInterrupted(state=state, result=PartialResult() as partial):
                yield _section(record, step, state, action, partial)
            case _:
                continue


def _section(
    record: RunRecord, step: int, state: str, action: str, result: Result | PartialResult
) -> str:
    """Return what one action did."""
    hide = record.secrets.mask_text
    ended = f"exit {result.exit_code}" if result.exit_code is not None else "no exit code"
    parts = [f"**Step {step}, {code(state)}:** {ended}", block(hide(_shortened(action)))]
    for title, text in _printed(record, result):
        if text.strip():
            parts += [f"{title}:", block(hide(text))]
    return "\n\n".join(parts)


def _printed(record: RunRecord, result: Result | PartialResult) -> Iterator[tuple[str, str]]:
    """Yield what an action printed to each stream, or an agent answered."""
    is_agent = isinstance(result, Result) and result.agent is not None
    if record.outputs is None:
        return
    # The stream of an agent's program is for programs; its answer is in the output.
    output = record.outputs.of(result._replace(stream_file=None))
    yield "Answer" if is_agent else "Output", _text(record.outputs, output.stdout)
    if result.exit_code != 0:
        yield "Errors", _text(record.outputs, output.stderr)


def _text(outputs: Outputs, stored: StoredOutput) -> str:
    """Return the beginning and the end of an output, without the secrets that were recognised."""
    if stored.size <= 2 * PIECE_BYTES:
        return _shortened(outputs.shown(stored, 0, stored.size).decode("utf-8", "replace"))
    head = outputs.shown(stored, 0, PIECE_BYTES).decode("utf-8", "replace")
    tail = outputs.shown(stored, stored.size - PIECE_BYTES, stored.size).decode("utf-8", "replace")
    first, last = head.splitlines()[:HEAD_LINES], tail.splitlines()[-TAIL_LINES:]
    return "\n".join(map(_cut, [*first, GAP, *last]))


def _shortened(text: str) -> str:
    """Return a text without the middle, if it has many lines."""
    lines = text.splitlines()
    if len(lines) > HEAD_LINES + TAIL_LINES:
        lines = [*lines[:HEAD_LINES], GAP, *lines[-TAIL_LINES:]]
    return "\n".join(map(_cut, lines))


def _cut(line: str) -> str:
    return line if len(line) <= MOST_LINE else line[: MOST_LINE - 1] + GAP


# ── evidence ───────────────────────────────────────────────────────────────────────────────────


def _evidence(record: RunRecord) -> Iterator[str]:
    """Yield what the turns changed, the checks, and what happened to protected files."""
    story, hide = Story(record.machine).read(record.entries), record.secrets.mask_text
    changes = [row for turn in story.turns if (row := _turn(turn, hide)) is not None]
    if changes:
        yield "### Files changed"
        yield table(("step", "state", "files", "lines"), changes[-MOST_ROWS:])
    if story.checks:
        yield "### Checks"
        rows = [_check(one, hide) for one in story.checks[-MOST_ROWS:]]
        yield table(("step", "state", "verdict", "tree", "place", "reason"), rows)
    if notes := list(_notes(story, hide)):
        yield "### Notes"
        yield "\n".join(f"- {note}" for note in notes[-MOST_ROWS:])
    if (tree := _verified_tree(record.entries)) is not None:
        yield f"Verified on tree {code(tree[:6])}; `ll-loop receipt` writes a receipt."


def _turn(turn: Mapping[str, Any], hide: Hide) -> tuple[str, ...] | None:
    """Return the cells of a turn that changed files; None for another one."""
    changed = turn.get("changed")
    if not changed or not changed["files"]:
        return None
    paths = [code(hide(path_text(path))) for path in changed["paths"][:MOST_PATHS]]
    more = changed["files"] - len(paths)
    names = ", ".join(paths) + (f" and {more} more" if more > 0 else "")
    lines = f"+{changed['added']} −{changed['removed']}"
    return str(turn["step"]), code(turn["state"]), names, lines


def _check(check: Mapping[str, Any], hide: Hide) -> tuple[str, ...]:
    """Return the cells of a check."""
    return (
        str(check.get("step", "")),
        code(check["state"]),
        code(check["verdict"]),
        code(check["tree"]["after"][:6]),
        "clean copy" if check["place"] == "clean" else "project",
        code(hide(check["reason"])),
    )


def _notes(story: Story, hide: Hide) -> Iterator[str]:
    """Yield a sentence about everything that a reviewer should know."""
    for words, events in (
        ("changed protected files", story.tampered),
        ("changed files outside the scope", story.outside),
    ):
        for one in events:
            yield f"{code(one['state'])} {words}: {_listed(one['paths'], hide)}"
    for one in story.restored:
        yield f"restored: {_listed(one['paths'], hide)}"
    for message in story.warnings:
        yield code(hide(message))


def _listed(paths: Iterable[str], hide: Hide) -> str:
    all = [code(hide(path_text(path))) for path in paths]
    more = f" and {len(all) - MOST_PATHS} more" if len(all) > MOST_PATHS else ""
    return ", ".join(all[:MOST_PATHS]) + more


def _verified_tree(entries: Sequence[Entry]) -> str | None:
    """Return the last snapshot of a run whose checks passed on it; None for any other run."""
    trees = [entry.event.id for entry in entries if isinstance(entry.event, Tree)]
    last = entries[-1].event if entries else None
    is_verified = isinstance(last, LoopComplete) and last.evidence == "verified"
    return trees[-1] if trees and is_verified else None
