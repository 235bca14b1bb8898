"""`ll-loop notify`: show who is notified about runs, and send everybody a test notification."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.cli.options import OutputArgs, flag, operand
from little_loops.definitions.loading import load_loop
from little_loops.engine.notifying import NoticeTarget, Senders, targets_of, user_recipients
from little_loops.errors import FAILED, OK, UsageError
from little_loops.fsm.notices import Notice, channel_of
from little_loops.fsm.schema import OCCASIONS
from little_loops.reporting.escape import visible
from little_loops.reporting.masking import Masker
from little_loops.runs.config_files import user_config
from little_loops.runs.project import find_project
from little_loops.terminal.console import print_json, say, talk


class NotifyArgs(
    OutputArgs,
    verb="notify",
    summary="Show who is notified when your runs wait, fail or complete.",
    examples=[
        ("ll-loop notify", "who your config file notifies"),
        ("ll-loop notify fix-types --test", "send a test to them and the ones in the loop"),
    ],
):
    loop: str | None = operand("a loop's name or file", optional=True)
    test: bool = flag("send each of them a test notification; exit with 1 if one fails")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop notify`. Return 0, or 1 if an address cannot be filled in or a test notification
    was not sent."""
    args = NotifyArgs.read(argv)
    root = find_project(os.getcwd())
    loop = None if args.loop is None else load_loop(args.loop, root).loop
    problems: list[str] = []
    notify = (*user_recipients(os.environ), *(() if loop is None else loop.notify))
    targets = targets_of(notify, os.environ, problems.append)
    if not targets and not problems:
        raise UsageError(
            "nobody is notified" if loop is None else f"no one is notified about `{loop.name}`",
            f"write `notify: [{{to: ntfy://SERVER/TOPIC}}]` to `{user_config(os.environ)}`",
        )
    name, shell = ("test", "sh") if loop is None else (loop.name, loop.shell)
    outcomes = _send(targets, name, shell, root) if args.test else {}
    _show(args, targets, outcomes, problems)
    return FAILED if problems or any(outcomes.values()) else OK


def _send(
    targets: Sequence[NoticeTarget], loop: str, shell: str, root: str
) -> dict[NoticeTarget, str]:
    """Send a test to each. Return why it was not sent; empty if it was."""
    outcomes: dict[NoticeTarget, str] = {}
    secrets = {f"{number}_SECRET": each.to for number, each in enumerate(targets)}
    mask = Masker({**os.environ, **secrets}).mask

    def note(target: NoticeTarget, problem: str) -> None:
        outcomes[target] = mask(problem)

    senders = Senders(shell, root, os.environ, note)
    notice = Notice(OCCASIONS[0], loop, "test", "waiting", "this is a test")
    senders.start(notice, [each._replace(when=OCCASIONS) for each in targets])
    senders.finish(None)
    return {each: outcomes[each._replace(when=OCCASIONS)] for each in targets}


def _show(
    args: NotifyArgs,
    targets: Sequence[NoticeTarget],
    outcomes: dict[NoticeTarget, str],
    problems: Sequence[str],
) -> None:
    """Print the recipients, and how the test went."""
    if args.json:
        found = [_plain(each, outcomes.get(each)) for each in targets]
        print_json({"schema": 1, "recipients": found, "problems": list(problems)})
        return
    for each in targets if args.quiet < 2 else ():
        say(visible(_line(each, outcomes.get(each))))
    for problem in problems:
        talk(f"warning: {problem}")


def _line(target: NoticeTarget, problem: str | None) -> str:
    name = f"{target.label} ({channel_of(target.to)})"
    if problem is None:
        return f"{name}: {', '.join(target.when)}"
    return f"not sent to {name}: {problem}" if problem else f"sent to {name}"


def _plain(target: NoticeTarget, problem: str | None) -> dict[str, object]:
    kind = channel_of(target.to)
    document: dict[str, object] = {"kind": kind, "name": target.label, "when": list(target.when)}
    return document if problem is None else {**document, "sent": not problem, "problem": problem}
