"""`ll-loop reject`: send a run that is waiting at a gate back, or end it."""

from __future__ import annotations

from collections.abc import Sequence

from little_loops.cli.answering import AnswerArgs, answer_gate
from little_loops.errors import UsageError
from little_loops.fsm.state import Answer


class RejectArgs(
    AnswerArgs,
    verb="reject",
    summary="Reject a run that is waiting at a gate: it goes to `on_rejected`, or fails.",
    examples=(("ll-loop reject release -m 'the tests are missing'", "say why"),),
):
    pass


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop reject`. Return the exit code; raise `UsageError` without a reason."""
    args = RejectArgs.read(argv)
    if not (args.message or "").strip():
        raise UsageError("`ll-loop reject` needs a reason", "add `-m TEXT`")
    return answer_gate(args, Answer(0, "rejected", "reject", args.message or ""))
