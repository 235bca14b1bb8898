"""Print what agents cost, as a table with bars."""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.fsm.ledger import Total
from little_loops.reporting.amounts import count_text
from little_loops.reporting.escape import visible
from little_loops.terminal.summaries import money
from little_loops.terminal.tables import ASCII, Column, Style, table

BAR = 20
COLUMNS = (
    Column("COST"),
    Column("", leaves=4),
    Column("TURNS", leaves=2),
    Column("TOKENS", leaves=3),
    Column("PASSES", leaves=5),
    Column("PER PASS", leaves=1),
)


def lines(
    groups: Sequence[Total], by: str, together: Total, reserved_usd: float, when: str, style: Style
) -> list[str]:
    """Return the table of groups, of which there must be at least one, and the summary below it.

    `by` is the title of the first column, and `when` describes the period.
    """
    most_usd = max(group.cost_usd for group in groups)
    rows = [_row(group, most_usd, style) for group in groups]
    shown = table((Column(by.upper(), least=12), *COLUMNS), rows, style)
    return [*shown, "", *summary(together, reserved_usd, when)]


def summary(together: Total, reserved_usd: float, when: str) -> list[str]:
    """Return the lines about the total cost."""
    turns = _counted(together.turns, "turn")
    tokens = f"{count_text(together.tokens)} tokens"
    lines = [f"{money(together.cost_usd, '$0')} {when}: {turns}, {tokens}"]
    if together.estimated_usd:
        lines.append(f"{money(together.estimated_usd, '$0')} of this is estimated")
    if together.unknown:
        lines.append(f"the cost of {_counted(together.unknown, 'turn')} is unknown")
    if reserved_usd:
        lines.append(
            f"{money(reserved_usd, '$0')} more is reserved for turns that have not reported an end"
        )
    if together.usd_per_pass is not None:
        passes = _counted(together.passes, "verified pass", "es")
        usd = money(together.usd_per_pass, "$0")
        lines.append(f"{passes}, for {usd}" if together.passes == 1 else f"{passes}, {usd} each")
    return lines


def _row(group: Total, most_usd: float, style: Style) -> list[str]:
    """Return the cells of a group."""
    none = style.signs.none
    per_pass = group.usd_per_pass
    return [
        visible(group.name, newlines=False) or none,
        money(group.cost_usd, none),
        bar(group.cost_usd, most_usd, style),
        str(group.turns),
        count_text(group.tokens),
        str(group.passes) if group.passes else none,
        none if per_pass is None else money(per_pass, none),
    ]


def bar(usd: float, most_usd: float, style: Style) -> str:
    """Return a bar in proportion to the largest cost; at least one character for any cost."""
    if not usd:
        return ""
    return ("#" if style.signs == ASCII else "█") * max(1, round(BAR * usd / most_usd))


def _counted(count: int, noun: str, plural: str = "s") -> str:
    return f"{count} {noun}{'' if count == 1 else plural}"
