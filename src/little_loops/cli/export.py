"""`ll-loop export`: export a run to a file, without its secrets."""

from __future__ import annotations

import os
from collections.abc import Sequence

from little_loops.cli.options import OutputArgs, flag, operand, value
from little_loops.cli.run_views import view_of
from little_loops.definitions.loading import shown_path
from little_loops.errors import OK, LittleLoopsError, UsageError
from little_loops.fsm.plain import encode
from little_loops.reporting.amounts import count_of
from little_loops.reporting.escape import visible
from little_loops.runs.layout import SECRETS
from little_loops.runs.project import find_project
from little_loops.runs.reading import Runs
from little_loops.sharing.exporting import Exported, export_run
from little_loops.sharing.run_file import FILES, SUFFIX, split_place
from little_loops.terminal.console import print_json, talk


class ExportArgs(
    OutputArgs,
    verb="export",
    summary="Export a run to a file: definition, log, outputs and snapshots, with secrets\n"
    "masked. `ll-loop import` adds it to another project, where it can be resumed.",
    examples=[
        ("ll-loop export fix-tests", "to fix-tests.llrun"),
        ("ll-loop export fix-tests -o run.llrun", "to another file"),
        ("ll-loop export fix-tests --no-trees", "without project files"),
    ],
):
    loop: str | None = operand("a loop's name, or NAME@ID; default: the last run", optional=True)
    output: str | None = value(
        f"write to FILE; default: NAME{SUFFIX}", "-o", "--output", metavar="FILE"
    )
    no_trees: bool = flag("leave out the snapshots, which contain project files")
    run: str | None = value("start time of an earlier run, from `ll-loop history`", metavar="STAMP")


def main(argv: Sequence[str]) -> int:
    """Run `ll-loop export`: write the file and say what it contains. Return 0."""
    args = ExportArgs.read(argv)
    runs = Runs(find_project(os.getcwd()))
    view = view_of(runs, args.loop, args.run)
    target = args.output or f"{view.name.replace('/', '-')}{SUFFIX}"
    if args.output is None and os.path.lexists(target):
        raise UsageError(f"`{target}` already exists", "use `-o FILE` to choose another name")
    try:
        exported = export_run(runs, view, target, os.environ, trees=not args.no_trees)
    except OSError as error:
        raise LittleLoopsError(f"cannot write `{shown_path(target)}`: {error.strerror}") from error
    if args.json:
        print_json({"schema": 1, "written": target, **_as_dict(exported)})
    elif not args.quiet:
        talk(f"wrote {visible(target, newlines=False)}: {_contents(exported)}")
        for line in (*exported.warnings, *_masked(exported)):
            talk(f"note: {visible(line, newlines=False)}")
    return OK


def _contents(exported: Exported) -> str:
    """Say what a run file contains."""
    manifest = exported.manifest
    names = [one.name for one in manifest.entries if not one.name.endswith(SECRETS)]
    files = sum(split_place(name)[1].startswith(FILES) for name in names)
    parts = ["its definition", count_of(manifest.lines, "event"), count_of(files, "output file")]
    if manifest.inner:
        parts.append(count_of(len(manifest.inner), "inner run"))
    if manifest.trees is None:
        return f"{', '.join(parts)}; no project files"
    snapshots = count_of(len(manifest.trees.all_ids), "tree")
    return f"{', '.join(parts)}, and the project's files in {snapshots}"


def _masked(exported: Exported) -> list[str]:
    """Return sentences about what was masked, and what was left out because of that."""
    manifest, said = exported.manifest, []
    kinds = ("output file", "result", "context variable", "definition text")
    counts = zip(manifest.masked, kinds, strict=True)
    places = [count_of(len(names), kind) for names, kind in counts if names]
    if places:
        said.append(f"secrets were masked in {' and '.join(places)}")
    if manifest.missing:
        said.append(
            f"{count_of(manifest.missing, 'file')} of the project left out because of a secret"
        )
    return said


def _as_dict(exported: Exported) -> dict[str, object]:
    manifest = encode(exported.manifest)
    return {"size": exported.size, "warnings": list(exported.warnings), "manifest": manifest}
