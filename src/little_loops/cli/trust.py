"""`ll-loop trust`: agree to agents without permission prompts, list what was agreed to, revoke it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.cli.consent import described
from little_loops.cli.options import OutputArgs, flag, operand
from little_loops.definitions.consent import actions_needing_consent
from little_loops.definitions.loading import load_loop, read_definition
from little_loops.definitions.settings import with_settings
from little_loops.definitions.trust import agree, revoke, trust_of
from little_loops.errors import OK, UsageError
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.timestamps import timestamp
from little_loops.reporting.escape import visible
from little_loops.runs import editing
from little_loops.runs.project import find_project, loop_files
from little_loops.runs.reading import Runs
from little_loops.system.clock import wall_ms
from little_loops.terminal.console import print_json, say, talk
from little_loops.terminal.durations import minute


class TrustArgs(
    OutputArgs,
    verb="trust",
    summary="Allow the agents of this project's loops to skip permission prompts.\n"
    "Your consent is stored for you only, and covers only these exact actions.",
    examples=[
        ("ll-loop trust", "all loops here, as they are now"),
        ("ll-loop trust fix-types", "the actions of one loop"),
        ("ll-loop trust fix-types --while-editing", "any action in it, while you edit it"),
        ("ll-loop trust --list", "what you have agreed to"),
        ("ll-loop trust --revoke", "revoke all of it"),
    ],
):
    loop: str | None = operand("a loop's name or file; default: all of them", optional=True)
    while_editing: bool = flag(
        "trust any action in this loop until its next completed run, for at most 8 hours; ends if"
        " the file changes during a run"
    )
    list: bool = flag("show what you have agreed to")
    revoke: bool = flag("revoke it for this project")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop trust`: record, list or revoke consent, and return 0."""
    args = TrustArgs.read(argv)
    root = find_project(os.getcwd())
    if args.revoke:
        count = revoke(root, os.environ)
        edited = editing.revoke(root, os.environ)
        loops = f", {edited} loop{'' if edited == 1 else 's'} while editing" if edited else ""
        say(f"revoked: {count} action{'' if count == 1 else 's'}{loops}")
        return OK
    if args.while_editing:
        _allow_edits(args.loop, root)
    elif not args.list:
        wanted = dict.fromkeys(
            action
            for loop in _loops(args.loop, root)
            for action in actions_needing_consent(loop, {}, root)
        )
        agree(root, wanted, timestamp(wall_ms()), os.environ)
        if not wanted and not args.json and not args.quiet:
            talk("no consent needed: no agent here skips permission prompts")
    return _show(root, json=args.json)


def _allow_edits(argument: str | None, root: str) -> None:
    """Record consent to whatever this loop says while it is edited.

    It ends if the file changes during a run, including those that are alive now. Raises
    `UsageError` without a loop.
    """
    if argument is None:
        raise UsageError("`--while-editing` needs a loop", "`ll-loop trust LOOP --while-editing`")
    found = load_loop(argument, root)
    under_way = [view.summary.run for view in Runs(root).alive() if view.summary is not None]
    until_ms = wall_ms() + editing.LONGEST_MS
    editing.allow(root, found.loop.name, found.path, until_ms, under_way, os.environ)


def _loops(argument: str | None, root: str) -> list[FSMLoop]:
    """Return the loop that the argument names, or all valid loops."""
    if argument is not None:
        return [load_loop(argument, root).loop]
    found = (read_definition(path) for path in loop_files(root))
    return [with_settings(each, root, os.environ) for each in found if each.loop is not None]


def _show(root: str, *, json: bool) -> int:
    """Print what the user has agreed to in the project, and return 0."""
    trust = trust_of(root, os.environ)
    edited = editing.allowed(root, wall_ms(), os.environ)
    if json:
        actions = [
            {**one._asdict(), "settings": dict(one.settings), "since": since}
            for one, since in trust.actions.items()
        ]
        loops = [{"loop": one.loop, "until": timestamp(one.until_ms)} for one in edited]
        document = {"project": trust.project, "actions": actions, "while_editing": loops}
        print_json({"schema": 1, **document})
        return OK
    if not trust.actions and not edited:
        say("nothing is trusted in this project")
        return OK
    say(f"trusted in {visible(trust.project, newlines=False)}:")
    for one in edited:
        ends = f"until its next completed run or {minute(one.until_ms)}, whichever comes first"
        say(f"  while editing  {visible(one.loop, newlines=False)}, {ends}")
    for action, since in trust.actions.items():
        first, *others = described(action, trust)
        say(f"  {since[:10]}  {first}")
        for line in others:
            say(f"{' ' * 14}{line}")
    return OK
