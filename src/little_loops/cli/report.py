"""`ll-loop report`: write a report about a run, as a page for a browser or as Markdown."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from little_loops.cli.options import OutputArgs, flag, operand, value
from little_loops.cli.output_files import open_output
from little_loops.cli.run_views import view_of
from little_loops.errors import OK
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.sharing.run_record import RunRecord, open_record
from little_loops.terminal.console import print_json, talk
from little_loops.terminal.markdown_report import markdown_report


class ReportArgs(
    OutputArgs,
    verb="report",
    summary="Write a report about a run: how it ended and why, its steps and their outputs,\n"
    "the files changed, the cost and the evidence. Secrets are masked.",
    examples=[
        ("ll-loop report fix-tests -o report.html", "a page for a browser"),
        ('ll-loop report --markdown >> "$GITHUB_STEP_SUMMARY"', "in a CI job"),
    ],
):
    loop: str | None = operand("a loop's name, or NAME@ID; default: the last run", optional=True)
    markdown: bool = flag("as Markdown, for a pull request or a job summary")
    output: str | None = value("write to FILE; default: stdout", "-o", "--output", metavar="FILE")
    run: str | None = value("start time of an earlier run, from `ll-loop history`", metavar="STAMP")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop report`: print the report, or write it to a file. Return 0."""
    args = ReportArgs.read(argv)
    runs = Runs(find_project(os.getcwd()))
    view = view_of(runs, args.loop, args.run)
    with open_record(runs, view, os.environ) as record:
        text = _text(record, markdown=args.markdown)
    if args.output is None and args.json:
        form = "markdown" if args.markdown else "html"
        print_json({"schema": 1, "name": view.name, form: text.decode("utf-8", "replace")})
        return OK
    if args.output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text)
        return OK
    with open_output(args.output) as stream:
        stream.write(text)
    if args.json:
        print_json({"schema": 1, "written": args.output, "size": len(text)})
    elif not args.quiet:
        talk(f"wrote {args.output}")
    return OK


def _text(record: RunRecord, *, markdown: bool) -> bytes:
    if markdown:
        return markdown_report(record).encode("utf-8", "replace")
    from little_loops.web.report import html_report  # it reads everything about the run

    return html_report(record)
