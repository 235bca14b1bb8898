"""Share the cost limit of a run among the runs that it starts.

Each run with a limit has a file in its directory, which its children lock and update: what they
have spent, and what their current turns may still spend. A turn gets a share of what is left,
according to how many children may still run at once. What it does not use goes back when it ends.

    NAME.d/shares.json   {"limit_usd": 5, "spent_usd": 1.2, "width": 4, "runs": {"00003-1-types": …}}

Not here: what a turn may cost otherwise (`fsm.budgets`); when something is counted: a turn
(`engine.gate`), a run that was killed (`engine.child_run`), the start of the next run
(`engine.children`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from little_loops.light_typing import Any, Final
from little_loops.records import NamedTuple
from little_loops.runs.layout import RunFiles
from little_loops.system.files import to_json
from little_loops.system.lock_files import lock_within
from little_loops.system.plain_files import open_plain

FILE: Final = "shares.json"
LEAST_USD: Final = 0.01
"""A smaller share is not worth starting a turn with."""


class Share(NamedTuple):
    """A limit above a run: the directory of the run that has it, and this run's path below that."""

    folder: str
    path: str


class Limit(NamedTuple):
    """What a run may still spend on the runs that it starts.

    `width` is how many of them may still run at once; `spent_usd` and `tokens` do not include those
    that are under way.
    """

    limit_usd: float | None
    limit_tokens: int | None
    spent_usd: float
    tokens: int
    width: int


class NoShare(NamedTuple):
    """Why a turn cannot start; with `waits`, it may when the turns of others have ended."""

    limit: str
    reason: str
    waits: bool


def share_name(files: RunFiles) -> str:
    """Return what a child is called in the files of shares: by its directory, because the same state
    can start many children, and what each of them has used counts."""
    return files.below[-1]


def set_limit(folder: str, limit: Limit, under_way: Sequence[str]) -> None:
    """Record what the children of a run may spend; `under_way` are those whose use is kept."""
    with _opened(folder) as account:
        runs = account.get("runs", {})
        kept = {path: use for path, use in runs.items() if path.partition("/")[0] in under_way}
        account.clear()
        account.update(limit._asdict())
        account["runs"] = kept


def begin(shares: Sequence[Share]) -> None:
    """Give back what was reserved for a run whose process was killed.

    Its parent has counted what it used before; runs further above may not have, so that stays.
    """
    for share in shares:
        _settle(share, 0.0, 0)


def take(shares: Sequence[Share], most_usd: float | None) -> float | NoShare | None:
    """Reserve what a turn may spend: its smallest share, and at most `most_usd`. None if no limit
    above applies."""
    smallest = most_usd
    with ExitStack() as stack:  # all of them are locked, outermost first, until it is reserved
        accounts = [stack.enter_context(_opened(share.folder)) for share in shares]
        for account in accounts:
            found = _next_turn_usd(account)
            if isinstance(found, NoShare):
                return found
            if found is not None:
                smallest = found if smallest is None else min(smallest, found)
        if smallest is not None:
            for share, account in zip(shares, accounts, strict=True):
                _use_of(account, share)["reserved_usd"] = smallest
    return smallest


def _next_turn_usd(account: Mapping[str, Any]) -> float | NoShare | None:
    """Return how many dollars the next turn may cost: what is left of the cost limit, divided by the
    number of children that may still run. `NoShare` if a limit is reached; None without a cost limit."""
    uses = account.get("runs", {}).values()
    tokens = account.get("tokens", 0) + sum(use["tokens"] for use in uses)
    most_tokens, most_usd = account.get("limit_tokens"), account.get("limit_usd")
    if most_tokens is not None and tokens >= most_tokens:
        reason = f"agents across all runs have used {tokens} of {most_tokens} tokens"
        return NoShare("max_tokens", reason, waits=False)
    if most_usd is None:
        return None
    spent = account.get("spent_usd", 0.0) + sum(use["spent_usd"] for use in uses)
    reserved = sum(use["reserved_usd"] for use in uses)
    share = (most_usd - spent - reserved) / max(1, account.get("width", 1))
    if share >= LEAST_USD:
        return float(share)
    reason = f"agents across all runs have used ${spent:g} of ${most_usd:g}"
    return NoShare("max_cost", reason, waits=reserved > 0)


def settle(shares: Sequence[Share], cost_usd: float, tokens: int) -> None:
    """Replace what was reserved for a turn by what it cost."""
    for share in shares:
        _settle(share, cost_usd, tokens)


def _settle(share: Share, cost_usd: float, tokens: int) -> None:
    """Update the use of one run after a turn."""
    with _opened(share.folder) as account:
        use = _use_of(account, share)
        use["reserved_usd"] = 0.0
        use["spent_usd"] += cost_usd
        use["tokens"] += tokens


def _use_of(account: dict[str, Any], share: Share) -> dict[str, Any]:
    """Return the use of one run, to be changed."""
    none = {"spent_usd": 0.0, "tokens": 0, "reserved_usd": 0.0}
    use: dict[str, Any] = account.setdefault("runs", {}).setdefault(share.path, none)
    return use


@contextmanager
def _opened(folder: str) -> Iterator[dict[str, Any]]:
    """Yield the content of a file of shares, locked, and write it back if it was changed."""
    path = os.path.join(folder, FILE)
    descriptor = open_plain(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        lock_within(descriptor, path)
        raw = os.pread(descriptor, 1 << 24, 0)
        account = _parsed(raw)
        before = to_json(account)
        yield account
        after = to_json(account)
        if after != before:
            os.pwrite(descriptor, after, 0)
            os.ftruncate(descriptor, len(after))
    finally:
        os.close(descriptor)


def _parsed(raw: bytes) -> dict[str, Any]:
    """Return the content of the file; empty if a kill left only a part of it."""
    try:
        found = json.loads(raw or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
