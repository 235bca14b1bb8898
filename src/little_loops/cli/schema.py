"""`ll-loop schema`: the JSON Schema for loop files, for editors and agents."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from little_loops.authoring.fields.schema_json import schema, test_schema
from little_loops.cli.options import Args, flag
from little_loops.errors import OK


class SchemaArgs(
    Args,
    verb="schema",
    summary="Print the JSON Schema for loop files.",
    examples=[("ll-loop schema > loop.schema.json", "for an editor")],
):
    tests: bool = flag("print the schema for test files instead")


def main(argv: Sequence[str]) -> int:
    args = SchemaArgs.read(argv)
    sys.stdout.write(json.dumps(test_schema() if args.tests else schema(), indent=2) + "\n")
    return OK
