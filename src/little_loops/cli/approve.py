"""`ll-loop approve`: let a run that is waiting at a gate continue."""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.cli.answering import AnswerArgs, answer_gate
from little_loops.cli.options import value
from little_loops.fsm.state import Answer


class ApproveArgs(
    AnswerArgs,
    verb="approve",
    summary="Approve a run that is waiting at a gate (`outcome: review`), and continue it.",
    examples=(
        ("ll-loop approve release", "continue with the gate's `next`"),
        ("ll-loop approve release --to polish", "continue with one of its `choices`"),
        ("ll-loop approve release -m 'ship it'", "with a message for the loop"),
    ),
):
    to: str | None = value(
        "continue in this state, one of the gate's `choices`", metavar="STATE", names="states"
    )


def main(argv: Sequence[str]) -> int:
    args = ApproveArgs.read(argv)
    return answer_gate(args, Answer(0, "approved", "approve", args.message or "", args.to))
