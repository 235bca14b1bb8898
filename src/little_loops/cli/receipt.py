"""`ll-loop receipt`: write a receipt for what a run did, and say what makes it large."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence

from little_loops.cli.options import OutputArgs, operand, value
from little_loops.cli.output_files import open_output
from little_loops.cli.run_views import view_of
from little_loops.errors import OK, UsageError
from little_loops.fsm.path_text import path_text
from little_loops.receipts.gathering import make_receipt
from little_loops.receipts.signing import sign
from little_loops.receipts.statement import read
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.terminal.console import print_json, talk

LARGE = 1 << 20


class ReceiptArgs(
    OutputArgs,
    verb="receipt",
    summary="Write a receipt for a run that has ended: its checks, its agents' turns and\n"
    "the files it left, as an in-toto statement that `ll-loop verify` can check.",
    examples=[
        ("ll-loop receipt fix-tests -o receipt.json", "of its last run"),
        ("ll-loop receipt -o receipt.json --sign ~/.ssh/id_ed25519", "signed"),
    ],
):
    loop: str | None = operand("a loop's name, or NAME@ID; default: the last run", optional=True)
    output: str | None = value("write to FILE; default: stdout", "-o", "--output", metavar="FILE")
    sign: str | None = value("sign it with this SSH key; needs -o", metavar="KEY")
    run: str | None = value("start time of an earlier run, from `ll-loop history`", metavar="STAMP")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop receipt`: print the receipt, or write and perhaps sign it. Return 0."""
    args = ReceiptArgs.read(argv)
    if args.sign is not None and args.output is None:
        raise UsageError(
            "`--sign` needs `-o`: it writes the signature beside the receipt", "add `-o FILE`"
        )
    runs = Runs(find_project(os.getcwd()))
    receipt = make_receipt(runs, view_of(runs, args.loop, args.run), os.environ)
    if args.output is None:
        sys.stdout.write(receipt.decode("ascii"))
        return OK
    with open_output(args.output) as stream:
        stream.write(receipt)
    written = [args.output]
    if args.sign is not None:
        written.append(sign(args.output, os.path.expanduser(args.sign)))
    if args.json:
        print_json({"schema": 1, "written": written})
    elif not args.quiet:
        talk(f"wrote {' and '.join(written)}")
        if len(receipt) > LARGE:
            talk(_what_makes_it_large(receipt))
    return OK


def _what_makes_it_large(receipt: bytes) -> str:
    """Return a note about the directory with most files, which was often meant to be ignored."""
    paths = [one.path for one in read(receipt).files]
    (first, count), *_ = Counter(path.partition("/")[0] for path in paths).most_common(1)
    return (
        f"note: it lists {len(paths):,} files, {count:,} of them in `{path_text(first)}`; list in"
        " .gitignore what you do not deliver"
    )
