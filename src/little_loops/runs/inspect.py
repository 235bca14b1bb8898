"""What a run looks like from outside: one rule for all pages that show runs.

A run is read under the shared guard, so that it cannot start, end or move between the look at its
lock and the look at its files: what is alive is never taken for crashed.  A snapshot that does not
hold what it should makes a damaged run, and no page fails because of one.

Nothing is written here, and no more is read than the snapshots and a bounded end of one log.

Not here: how it is laid out (`status`, `list`, `history`), the way it came (`course`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from little_loops.errors import CONFLICT, FAILED, StorageError, UsageError
from little_loops.fsm.events import FINAL_EVENTS, timestamp, wall_ms_of
from little_loops.records import NamedTuple
from little_loops.runs.claims import holders, waiting
from little_loops.runs.folders import find_folder
from little_loops.runs.history import Run, current_runs, newest, past_runs
from little_loops.runs.holders import Holder
from little_loops.runs.layout import RUNNING, RunFiles
from little_loops.runs.run_texts import Texts, has_texts, texts
from little_loops.runs.storage import Saved, Unusable, last_events, read_state
from little_loops.system.files import Folder
from little_loops.system.lock_files import looking

ENDED = ("completed", "failed", "stopped")
LOOKS = 3
TEXTS_WITHIN = 20
"""So many events from the end tell why a run ended or paused."""


class Facts(NamedTuple):
    """What a snapshot says that people want to see."""

    run: str
    loop: str
    state: str
    status: str
    reason: str | None
    error: str | None
    iteration: int
    cycle: int
    started_ms: int
    updated_ms: int
    ran_ms: int
    scope: tuple[str, ...]
    cost_usd: float
    tokens: int
    continuation: str | None
    max_iterations: int | None
    wait: dict[str, Any] | None
    seq: int


class Seen(NamedTuple):
    """A run: what its files say, who carries it, and what to call that.

    `status` is the manual's word for it, or `queued`, `damaged` or `newer` (written by a version
    after this one); `facts` is None for such a run, and for one so young that it has saved nothing
    yet.  Who holds its lock is alive.
    """

    files: RunFiles
    status: str
    reason: str | None = None
    facts: Facts | None = None
    damage: str | None = None
    holder: Holder | None = None

    @property
    def name(self) -> str:
        return self.files.name

    @property
    def loop(self) -> str:
        return self.facts.loop if self.facts else self.name.partition("@")[0]

    @property
    def is_alive(self) -> bool:
        return self.status in ("running", "queued")


# ── looking ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def standing_still(root: str) -> Iterator[None]:
    """Meanwhile no run of the project can begin, end or move."""
    folder = find_folder(root, RUNNING)
    if folder is None:
        yield
        return
    with folder, looking(folder):
        yield


def all_current(root: str) -> list[Seen]:
    """Every run that is alive, waits for its turn, or is unfinished, by name."""
    with standing_still(root), _without_collecting():
        return [_as_it_ended(seen(run)) for run in current_runs(root)] + queued(root)


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Hundreds of snapshots are read and all are kept: looking for garbage among them is waste."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def all_alive(root: str) -> list[Seen]:
    """Every run that is alive or waits for its turn; reads nothing of the others."""
    folder = find_folder(root, RUNNING)
    if folder is None:
        return []
    with folder, looking(folder), _without_collecting():
        living = sorted(holders(root), key=lambda holder: holder.name)
        found = [seen(_read(folder, RunFiles(root, holder.name), holder)) for holder in living]
        return found + queued(root)


def _read(folder: Folder, files: RunFiles, holder: Holder) -> Run:
    try:
        saved = read_state(folder, files.base)
    except StorageError as error:
        saved = Unusable(error.message)
    if isinstance(saved, Saved):
        return Run(files, saved.state, None, holder)
    return Run(files, None, None if saved is None else saved.why, holder)


def newest_seen(root: str, name: str) -> Seen | None:
    """The run that a name means; none if there was never one."""
    with standing_still(root):
        found = newest(root, name)
        its_turn = [one for one in queued(root) if one.name == name]
    now = None if found is None else seen(found)
    if its_turn and (now is None or not now.is_alive):
        return its_turn[0]
    return now


def all_past(root: str, name: str | None = None) -> list[Seen]:
    """The runs in the history, newest first."""
    return [seen(run) for run in past_runs(root, name)]


def past_seen(root: str, name: str, stamp: str) -> Seen:
    """The past run that a stamp as in the history means; its beginning will do."""
    stamps = [one for one in all_past(root, name) if (one.files.stem or "").startswith(stamp)]
    exact = [one for one in stamps if one.files.stem == stamp]
    if len(exact or stamps) == 1:
        return (exact or stamps)[0]
    listed = ", ".join(f"`{one.files.stem}`" for one in stamps[:5])
    raise UsageError(
        f"several runs of `{name}` are called `{stamp}`"
        if stamps
        else f"there is no run `{stamp}` of `{name}`",
        listed or f"`ll-loop history {name}` lists them",
    )


def queued(root: str) -> list[Seen]:
    return [Seen(RunFiles(root, holder.name), "queued", holder=holder) for holder in waiting(root)]


class Closer(NamedTuple):
    """A run with the end of its log, both of the same moment if the run lets us."""

    seen: Seen
    records: list[dict[str, Any]]


def look_closer(root: str, name: str, count: int) -> Closer | None:
    """A run and its last events."""
    closer = None
    for _ in range(LOOKS):
        found = newest_seen(root, name)
        if found is None:
            return None
        # One in the queue has told nothing: what is there is an earlier run of its name.
        told = [] if found.status == "queued" else last_told(found.files, count)
        closer = Closer(found, told)
        if not closer.records or _is_up_to_date(closer):
            break
    return None if closer is None else _with_its_end(closer)


def _as_it_ended(one: Seen) -> Seen:
    """A run that looks crashed may have come to its end and not to its last snapshot."""
    return _with_its_end(Closer(one, last_told(one.files, 1))).seen if is_crashed(one) else one


def last_told(files: RunFiles, count: int) -> list[dict[str, Any]]:
    """The last events of a run, as far as they can be read."""
    try:
        return last_events(files, count)
    except StorageError:
        return []


def texts_of(one: Seen, records: list[dict[str, Any]] | None = None) -> Texts:
    """Its texts as they may be shown; the log is read only for a run that has any."""
    if one.facts is None or not has_texts(one.facts):
        return Texts()
    return texts(one.facts, last_told(one.files, TEXTS_WITHIN) if records is None else records)


def _is_up_to_date(closer: Closer) -> bool:
    facts = closer.seen.facts
    return facts is None or facts.seq == closer.records[-1]["seq"]


def _with_its_end(closer: Closer) -> Closer:
    """The log is the truth: where it tells an end that the snapshot does not know, that counts."""
    found, records = closer
    last = records[-1] if records else {}
    if found.facts is None or found.is_alive or last.get("event") not in FINAL_EVENTS:
        return closer
    if last["seq"] <= found.facts.seq or not isinstance(last.get("status"), str):
        return closer
    return Closer(found._replace(status=last["status"], reason=last.get("reason")), records)


# ── naming what is seen ────────────────────────────────────────────────────────────────────────


def seen(run: Run) -> Seen:
    """Whoever holds the lock runs, whatever the snapshot says: it may be about to say it."""
    facts, damage = None, run.damage
    if run.state is not None:
        try:
            facts = facts_of(run.state)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            damage = f"`{run.files.state}` is damaged: {_in_words(error)}"
    if run.holder is not None:
        return Seen(run.files, "running", None, facts, damage, run.holder)
    if facts is None:
        return Seen(run.files, "newer" if run.is_newer else "damaged", None, None, damage)
    if facts.status == "running":
        return Seen(run.files, "interrupted", "crash", facts)
    return Seen(run.files, facts.status, facts.reason, facts)


def _in_words(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def facts_of(state: dict[str, Any]) -> Facts:
    """Raises KeyError, TypeError, ValueError or AttributeError on what is no snapshot of a run."""
    given = state["limits"]["max_iterations"]
    costs = [_mapping(receipt) for receipt in state["costs"].values()]
    return Facts(
        run=_text(state["run"]),
        loop=_text(state["loop"]),
        state=_text(state["current_state"]),
        status=_text(state["status"]),
        reason=_text_or_none(state["reason"]),
        error=_text_or_none(state["error"]),
        iteration=_number(state["iteration"]),
        cycle=_number(state["cycle"]),
        started_ms=wall_ms_of(state["started_at"]),
        updated_ms=wall_ms_of(state["updated_at"]),
        ran_ms=_number(state["ran_ms"]),
        scope=tuple(_text(path) for path in state["scope"]),
        cost_usd=float(sum(receipt["cost_usd"] for receipt in costs)),
        tokens=int(sum(receipt["tokens"] for receipt in costs)),
        continuation=_text_or_none(state["continuation_prompt"]),
        max_iterations=None if given is None else _number(given),
        wait=None if state["wait"] is None else _mapping(state["wait"]),
        seq=_number(state["seq"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is no number")
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.40} is no object")
    return value


# ── what follows from it ───────────────────────────────────────────────────────────────────────


def is_crashed(one: Seen) -> bool:
    return one.status == "interrupted" and one.reason == "crash"


def exit_code_of(one: Seen) -> int:
    """The code its process ended with; while it lives 5, as whoever starts it now would get."""
    if one.is_alive:
        return CONFLICT
    if one.status in ("damaged", "newer") or is_crashed(one):
        return FAILED  # nobody was left to say how it ended
    from little_loops.fsm.endings import exit_code_of_end  # only where it is asked for

    told: dict[str, Any] = {"status": one.status, "reason": one.reason, "signal": 15}
    last = last_told(one.files, 1)
    if last and isinstance(last[0].get("signal"), int):
        told["signal"] = last[0]["signal"]
    return exit_code_of_end(told)


def ran_ms(one: Seen, now: int) -> int:
    """Its running time so far; a run that is alive has gone on since its last event."""
    if one.facts is None:
        return 0
    since = now - one.facts.updated_ms if one.status == "running" else 0
    return one.facts.ran_ms + max(since, 0)


def as_json(one: Seen, now: int) -> dict[str, Any]:
    """A run for programs; the same keys wherever a run is listed."""
    facts, shown = one.facts, texts_of(one)
    document: dict[str, Any] = {
        "name": one.name,
        "loop": one.loop,
        "status": one.status,
        "reason": one.reason,
        "pid": one.holder.pid if one.holder else None,
        "archived_as": one.files.stem,
        "damage": one.damage,
        "log": one.files.log,
    }
    if facts is None:
        return document
    return document | {
        "run": facts.run,
        "state": facts.state,
        "iteration": facts.iteration,
        "cycle": facts.cycle,
        "error": shown.error,
        "started_at": timestamp(facts.started_ms),
        "updated_at": timestamp(facts.updated_ms),
        "duration_ms": ran_ms(one, now),
        "cost_usd": facts.cost_usd,
        "tokens": facts.tokens,
        "scope": list(facts.scope),
        "continuation_prompt": shown.continuation,
    }


def no_such_run(name: str) -> UsageError:
    return UsageError(f"`{name}` has not run yet", f"`ll-loop run {name}` starts it")
