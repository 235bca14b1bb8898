"""`ll-loop verify`: check a receipt against the files, the log and, with `--rerun`, the checks.

A check runs again only if it is one of the loop's own.

Not here: what is found, and in which words (`receipts.verification`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from little_loops.cli.options import OutputArgs, flag, operand, value
from little_loops.definitions.loading import find_loop, load_document, read_definition
from little_loops.definitions.settings import with_settings
from little_loops.engine.checking import Checked, run_checks_in_copy
from little_loops.errors import OK, StoreError, UsageError
from little_loops.fsm.check_machine import decided_by, shell_checks_of
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import UNTIL
from little_loops.receipts.canonical import digest
from little_loops.receipts.statement import Receipt
from little_loops.receipts.verification import VerificationFinding, exit_code_of, find_run, verify
from little_loops.reporting.escape import visible
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.terminal.console import print_json, say
from little_loops.terminal.tables import style_for

SIGNS = {"good": "good", "note": "none", "stale": "warn", "contradicted": "bad"}
ENDINGS = {0: "verified", 1: "contradicted", 3: "stale"}


class VerifyArgs(
    OutputArgs,
    verb="verify",
    summary="Check a receipt: its form, its signature, the run's log, and every file.\n"
    "Exit 0 verified, 1 contradicted, 3 stale, 2 not a receipt.",
    examples=[
        ("ll-loop verify receipt.json", "check the files here"),
        ("ll-loop verify receipt.json --rerun", "also run the checks again"),
        ("ll-loop verify r.json --rerun --check pytest", "for a run started with `until`"),
    ],
):
    file: str = operand("a receipt")
    rerun: bool = flag("rerun the checks that decided the result, in a clean copy")
    check: str | None = value(
        "with --rerun: the check for a run started with `until`, where the run itself is not stored",
        metavar="CMD",
    )
    signers: str | None = value("the allowed signers, as for ssh-keygen -Y verify", metavar="FILE")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop verify` on a receipt. Return 0 verified, 1 contradicted, 3 stale.

    `--rerun` has no effect unless everything else is verified. Raises `UsageError` if the receipt
    cannot be read.
    """
    args = VerifyArgs.read(argv)
    root = find_project(os.getcwd())
    try:
        receipt, findings = verify(args.file, root, os.environ, args.signers)
    except OSError as error:
        raise UsageError(f"cannot read `{args.file}`: {error.strerror}") from error
    if args.rerun and exit_code_of(findings) == OK:
        findings += _rerun(receipt, root, args.check, is_vouched_for=args.signers is not None)
    code = exit_code_of(findings)
    if args.json:
        told = [finding._asdict() for finding in findings]
        print_json({"schema": 1, "answer": ENDINGS[code], "findings": told})
    elif args.quiet < 2:
        _print(args, findings, ENDINGS[code])
    return code


def _print(args: VerifyArgs, findings: Sequence[VerificationFinding], answer: str) -> None:
    """Print the findings and the answer."""
    style = style_for(sys.stdout, args.color)
    for finding in findings:
        if finding.meaning in ("stale", "contradicted") or not args.quiet:
            sign = getattr(style.signs, SIGNS[finding.meaning])
            say(style.tinted(f"{sign} {visible(finding.text, newlines=False)}"))
    say(answer)


def _rerun(
    receipt: Receipt, root: str, check: str | None, *, is_vouched_for: bool
) -> list[VerificationFinding]:
    """Run the checks of the receipt again in a clean copy, and return the findings.

    They must be those of the loop or run here, or `check`, unless the receipt is signed by somebody
    trusted: whoever writes a receipt can write any command into it.
    """
    definition = receipt.predicate["definition"]
    if digest(definition["machine"]) != definition["sha256"]:
        return [
            VerificationFinding(
                "contradicted",
                "the definition contains a masked secret, so the checks cannot be run again",
            )
        ]
    try:
        loop = FSMLoop.from_dict(definition["machine"])
        checks = shell_checks_of(loop)
        if not checks:
            return [VerificationFinding("contradicted", "the loop has no shell check to run again")]
        if not is_vouched_for and (why_not := _not_known(receipt, loop, root, check)) is not None:
            return [VerificationFinding("stale", why_not)]
        checked = run_checks_in_copy(loop, checks, root, os.environ)
    except (StoreError, KeyError, TypeError, ValueError) as error:
        return [VerificationFinding("contradicted", f"the checks could not be run again: {error}")]
    return [_result_of(checked)]


def _not_known(receipt: Receipt, loop: FSMLoop, root: str, check: str | None) -> str | None:
    """Return why the checks of a receipt are not the ones known here; None if they are."""
    if check is not None:
        typed = load_document({"name": loop.name, "check": check, "fix": "true"}, root).loop
        is_same = decided_by(typed) == decided_by(loop)
        return None if is_same else "not rerun: the check in the receipt is not the one you gave"
    view = find_run(receipt, root)
    if view is None or view.has_file:
        return _not_of_loop(loop, root)
    started_with = Runs(root).machine(view)
    if started_with is not None and decided_by(started_with) == decided_by(loop):
        return None
    return f"not rerun: the checks of the run `{receipt.name}` are different here"


def _not_of_loop(loop: FSMLoop, root: str) -> str | None:
    """Return why the checks of a receipt are not those of the loop file; None if they are."""
    try:
        definition = read_definition(find_loop(loop.name, root))
    except UsageError:
        missing = f"the loop `{loop.name}` is not in this project, so its checks cannot be compared and were not run again"
        is_until = loop.name.startswith(UNTIL)
        return f"{missing}; pass its check with `--check`" if is_until else missing
    here = None if definition.loop is None else with_settings(definition, root, os.environ)
    if here is not None and decided_by(here) == decided_by(loop):
        return None
    return f"the checks of the loop `{loop.name}` are different here, so they were not run again"


def _result_of(checked: Checked) -> VerificationFinding:
    """Return the finding about checks that were run again."""
    if checked.answer == "pass":
        count = len(checked.checks)
        return VerificationFinding(
            "good", f"{count} check{'' if count == 1 else 's'} passed again, in a clean copy"
        )
    last = checked.checks[-1]
    why = checked.reason or last.reason or f"exit {last.exit_code}"
    return VerificationFinding(
        "contradicted", f"`{last.state}` does not pass in a clean copy: {why}"
    )
