"""The branches of a state on a terminal: a line for each one that runs, and the sum of all.

It is part of the live lines, so it is redrawn and leaves nothing behind; branches that have ended
are only counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from little_loops.fsm.events import ChildEnd
from little_loops.light_typing import Final
from little_loops.records import NamedTuple
from little_loops.reporting.excerpt import BAR
from little_loops.reporting.lines import INDENT
from little_loops.terminal.tables import cells, cut
from little_loops.terminal.terminal_lines import LineSymbols

WIDEST_NAME: Final = 24
FOLDED: Final = ("pass", "stopped")
"""Stages of ended branches that are only counted; branches at other stages keep their line."""
_ENTERED = re.compile(r"\[(?P<iteration>[^\]]+)\] (?P<state>\S+) \S+ ")


class BranchRow(NamedTuple):
    """What a running branch is doing."""

    state: str = ""
    iteration: str = ""
    cost_usd: float = 0.0
    output: str = ""


class BranchTable:
    """The branches of one state, by name."""

    def __init__(self, state: str, names: Sequence[str]) -> None:
        self._state = state
        self._total = len(names)
        self._rows: dict[str, BranchRow] = {}
        self.ended: dict[str, str] = {}

    def start(self, name: str) -> None:
        """Note that a branch has started or continues."""
        self._rows[name] = BranchRow()
        self.ended.pop(name, None)

    def end(self, event: ChildEnd) -> None:
        """Note that a branch has ended."""
        self._rows.pop(event.child, None)
        self.ended[event.child] = event.stage

    def add_lines(self, path: str, text: str) -> bool:
        """Take lines of a run at this path. Return whether it belongs to one of the branches."""
        name, row = self._row(path)
        if row is None:
            return False
        for line in filter(None, map(str.strip, text.splitlines())):
            entered = _ENTERED.match(line)
            if entered is not None and path.count("/") == 1:
                row = row._replace(state=entered["state"], iteration=entered["iteration"])
            row = row._replace(output=line.removeprefix(BAR.strip()).strip())
        self._rows[name] = row
        return True

    def used(self, path: str, cost_usd: float) -> None:
        """Take what a branch has spent so far."""
        name, row = self._row(path)
        if row is not None:
            self._rows[name] = row._replace(cost_usd=cost_usd)

    def _row(self, path: str) -> tuple[str, BranchRow | None]:
        state, _, below = path.partition("/")
        name = below.partition("/")[0]
        return name, self._rows.get(name) if state == self._state else None

    @property
    def running_usd(self) -> float:
        """What the running branches have spent so far."""
        return sum(row.cost_usd for row in self._rows.values())

    def lines(self, most: int, signs: LineSymbols, cost: str) -> list[str]:
        """Return a line for each running branch, at most so many, and the sum; `cost` is the cost of
        the whole run against its limit, if any."""
        shown = list(self._rows.items())[: max(most, 0)]
        width = min(max((cells(name) for name, _ in shown), default=0), WIDEST_NAME)
        lines = [_line(name, row, width, signs) for name, row in shown]
        if len(shown) < len(self._rows):
            lines.append(f"{INDENT}{len(self._rows) - len(shown)} more")
        return [*lines, self._sum(signs.dot, cost)]

    def _sum(self, dot: str, cost: str) -> str:
        """Return how many have ended, and how; how many run, and how many wait."""
        stages = list(self.ended.values())
        passed, failed = stages.count("pass"), sum(each not in FOLDED for each in stages)
        ended = [f"{passed} passed"] if passed else []
        ended += [f"{failed} failed"] if failed else []
        how = f" ({', '.join(ended)})" if ended else ""
        waiting = self._total - len(stages) - len(self._rows)
        parts = [f"{len(stages)} of {self._total} ended{how}", f"{len(self._rows)} running"]
        parts += [f"{waiting} waiting"] if waiting > 0 else []
        return INDENT + f" {dot} ".join([*parts, *([cost] if cost else [])])


def _line(name: str, row: BranchRow, width: int, signs: LineSymbols) -> str:
    """Return the line of a branch: its name, state, iteration, cost and last output."""
    shown = cut(name, width, signs.cut)
    cost = f"${row.cost_usd:.2f}" if row.cost_usd else ""
    where = " ".join(filter(None, (row.state, row.iteration and f"[{row.iteration}]")))
    parts = [part for part in (where, cost, row.output) if part]
    return f"{INDENT}{shown}{' ' * (width - cells(shown))}  " + f" {signs.dot} ".join(parts)
