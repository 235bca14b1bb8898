"""`ll-loop cost`: print what agents have cost, in all projects of this user."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

from little_loops.cli.options import OutputArgs, age, value
from little_loops.errors import OK
from little_loops.fsm.ledger import Account, AgentTurn, Total, account, total_of, totals
from little_loops.fsm.values import seconds_text
from little_loops.spending.ledger import read
from little_loops.terminal.console import print_json, say
from little_loops.terminal.cost_table import lines
from little_loops.terminal.durations import now_ms
from little_loops.terminal.tables import style_for

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
GROUPS = ("loop", "project", "host", "model", "day")


class CostArgs(
    OutputArgs,
    verb="cost",
    summary="Show what agents have cost, in all your projects.",
    examples=[
        ("ll-loop cost", "the last 7 days, by loop"),
        ("ll-loop cost --since 30d --by day", "the last 30 days, day by day"),
    ],
):
    since: float = value(
        "only turns from the last TIME, such as 12h or 30d; default: 7d",
        convert=age,
        metavar="TIME",
        default=WEEK_S,
    )
    by: str = value("how to group the costs; default: loop", choices=GROUPS, default="loop")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop cost`: print the cost by group, as a table or as JSON. Return 0."""
    args = CostArgs.read(argv)
    spent = account(read(os.environ, now_ms() - round(args.since * 1000)))
    groups = totals(spent, _namer(args.by, spent))
    if args.by == "day":
        groups.sort(key=lambda group: group.name)
    reserved_usd = sum(each.usd for each in spent.reservations)
    if args.json:
        print_json(_document(args, groups, total_of(spent), reserved_usd))
        return OK
    if args.quiet < 2:
        when = f"in the last {_time_text(args.since)}"
        shown = [f"no agent has run {when}"]
        if groups:
            style = style_for(sys.stdout, args.color)
            shown = lines(groups, args.by, total_of(spent), reserved_usd, when, style)
        say("\n".join(shown))
    return OK


def _time_text(seconds: float) -> str:
    """Return a period in words that follow "the last": `day`, `7 days`, `12h`."""
    days, rest = divmod(seconds, DAY_S)
    if days and not rest:
        return "day" if days == 1 else f"{days:.0f} days"
    return seconds_text(seconds)


def _namer(by: str, spent: Account) -> Callable[[AgentTurn], str]:
    """Return a function that names the group of a turn; with the project if there are several."""
    match by:
        case "project":
            return lambda turn: turn.project
        case "host":
            return lambda turn: turn.host
        case "model":
            return lambda turn: turn.model or ""
        case "day":
            return lambda turn: time.strftime("%Y-%m-%d", time.localtime(turn.at_ms / 1000))
        case _:
            is_one = len({turn.project for turn in spent.turns}) == 1
            return lambda turn: (
                turn.loop if is_one else f"{os.path.basename(turn.project)}: {turn.loop}"
            )


def _document(
    args: CostArgs, groups: Sequence[Total], together: Total, reserved_usd: float
) -> dict[str, object]:
    """Return the costs as JSON data."""
    return {
        "schema": 1,
        "since_s": args.since,
        "by": args.by,
        "groups": [_plain(group) for group in groups],
        "total": _plain(together),
        "reserved_usd": round(reserved_usd, 6),
    }


def _plain(total: Total) -> dict[str, object]:
    """Return a total as JSON data, with costs rounded to millionths."""
    per_pass = total.usd_per_pass
    return {
        **total._asdict(),
        "cost_usd": round(total.cost_usd, 6),
        "estimated_usd": round(total.estimated_usd, 6),
        "usd_per_pass": None if per_pass is None else round(per_pass, 6),
    }
