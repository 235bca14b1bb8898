"""`ll-loop check`: run the checks of a loop once, in order, and print their results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from little_loops.cli.options import OutputArgs, count, operand
from little_loops.definitions.loading import load_loop
from little_loops.engine.checking import Checked, CheckRun, run_checks, run_checks_in_copy
from little_loops.errors import FAILED, LIMIT, OK, SIGNALLED, StoreError, UsageError
from little_loops.fsm.check_machine import checks_of, shell_checks_of
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.values import written_env
from little_loops.reporting.escape import visible
from little_loops.reporting.excerpt import BAR
from little_loops.reporting.masking import Masker
from little_loops.runs.project import find_project
from little_loops.system.process_tree import adopt_orphans
from little_loops.system.stops import StopFlag, listen
from little_loops.terminal.console import print_json, say, talk
from little_loops.terminal.tables import Style, style_for

SIGNS = {"pass": "good", "fail": "bad", "error": "warn"}
EXIT_CODES = {"pass": OK, "fail": FAILED, "error": LIMIT}


class CheckArgs(
    OutputArgs,
    verb="check",
    summary="Run a loop's checks once, in order, without starting a run; in a clean copy if\n"
    "the loop has `clean: true`.\n"
    "Exit 0 if all pass, 1 if one fails, 3 if one cannot be judged.",
    examples=[
        ("ll-loop check fix-tests", "do the tests pass now?"),
        ("ll-loop check fix-tests -q && git push", "for scripts and hooks"),
    ],
):
    loop: str = operand("a loop's name or file")
    verbose: int = count("show the output of each check, even if it passed", "-v")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop check`. Return 0, 1 or 3 by the answer, or the code of a signal."""
    args = CheckArgs.read(argv)
    root = find_project(os.getcwd())
    loop = load_loop(args.loop, root).loop
    checked, signal = run_checks_now(loop, root)
    masker = Masker({**os.environ, **written_env(loop)})
    if args.json:
        print_json(document(loop, checked, masker))
    elif args.quiet < 2:
        for line in page(checked, masker, args, style_for(sys.stdout, args.color)):
            say(line)
        if checked.reason and not args.quiet:
            talk(f"could not judge: {visible(masker.mask(checked.reason))}")
    return SIGNALLED + signal if signal else EXIT_CODES[checked.answer]


def run_checks_now(loop: FSMLoop, root: str) -> tuple[Checked, int]:
    """Run the loop's shell checks. Return their results, and the signal that stopped them, or 0.

    If the loop also has checks by agents, or judges, the answer is never `pass`, because these are
    not asked. Raises `UsageError` if it has no check at all.
    """
    checks, all_checks = shell_checks_of(loop), checks_of(loop)
    if not all_checks:
        raise UsageError(
            f"`{loop.name}` has no check", "add `check: true` to the state that decides"
        )
    why = _left_out(loop, checks, all_checks)
    if not checks:
        return Checked("error", (), why), 0
    adopt_orphans()  # processes that a check leaves running are ended with it
    stop = StopFlag()
    restore = listen(stop)
    try:
        run = run_checks_in_copy if loop.evidence.clean else run_checks
        checked = run(loop, checks, root, os.environ, stop)
    except StoreError as error:
        help = f" ({error.help})" if error.help else ""
        checked = Checked("error", (), f"cannot make a clean copy: {error.message}{help}")
    finally:
        restore()
        stop.close()
    if checked.answer == "pass" and why:
        checked = checked._replace(answer="error", reason=why)
    return checked, stop.signal or 0


def _left_out(loop: FSMLoop, checks: Sequence[str], all_checks: Sequence[str]) -> str:
    """Return what only a run checks; empty if there is nothing."""
    if by_agents := [name for name in all_checks if name not in checks]:
        return f"`{by_agents[0]}` is checked by an agent, which only happens in a run"
    if judged := [name for name in checks if loop.states[name].judge is not None]:
        return f"a pass of `{judged[0]}` needs a judge, which is only asked in a run"
    return ""


def page(checked: Checked, masker: Masker, args: OutputArgs, style: Style) -> Iterator[str]:
    """Yield a line for each check, and its output: if it failed or with `-v`, never with `-q`."""
    for one in checked.checks:
        command = visible(masker.mask(one.command).strip().splitlines()[0], newlines=False)
        yield style.tinted(f"{getattr(style.signs, SIGNS[one.verdict])} {one.state}: {command}")
        if (one.verdict != "pass" or args.verbose) and not args.quiet:
            yield from _details(one, masker)


def _details(one: CheckRun, masker: Masker) -> Iterator[str]:
    """Yield the output of a check, and why it failed."""
    for line in visible(masker.mask(one.output)).splitlines():
        yield f"{BAR}{line}"
    if one.verdict == "fail" and one.reason:
        yield f"       {visible(masker.mask(one.reason), newlines=False)}"


def document(loop: FSMLoop, checked: Checked, masker: Masker) -> dict[str, object]:
    """Return the results as JSON data, with secrets masked."""
    checks = [
        {
            "state": one.state,
            "command": masker.mask(one.command),
            "verdict": one.verdict,
            "reason": masker.mask(one.reason),
            "exit_code": one.exit_code,
            "output": masker.mask(one.output),
        }
        for one in checked.checks
    ]
    reason = masker.mask(checked.reason)
    return {
        "schema": 1,
        "loop": loop.name,
        "answer": checked.answer,
        "reason": reason,
        "checks": checks,
    }
