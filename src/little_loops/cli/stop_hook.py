"""`ll-loop stop-hook`: run by the plugin's Stop hook when a Claude Code session is about to end.

While the check of the loop named in `LL_CHECK_ON_STOP` fails, the session has to continue, at most
five times in a row. The variable is set by the user: a file of the project must not make a session
run commands. The answer is JSON on stdout with exit code 0, as Claude Code expects.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

from little_loops.cli.check import page, run_checks_now
from little_loops.cli.options import OutputArgs
from little_loops.definitions.loading import load_loop
from little_loops.definitions.refusals import count_refusal, forget_refusals
from little_loops.engine.checking import Checked
from little_loops.errors import OK, LittleLoopsError
from little_loops.fsm.values import written_env
from little_loops.reporting.masking import Masker
from little_loops.runs.project import find_project
from little_loops.terminal.console import print_json
from little_loops.terminal.tables import Style

VARIABLE = "LL_CHECK_ON_STOP"
MOST_REFUSALS = 5
REASON_CHARACTERS = 4000
MAX_INPUT = 1 << 20


def main(argv: Sequence[str]) -> int:
    """Run the hook: print the answer, if there is one, and return 0.

    Nothing is checked if the variable is not set, or inside a run, whose loop has its own checks.
    """
    wanted = os.environ.get(VARIABLE, "")
    # An agent in a run is checked by its loop.
    if not wanted or os.environ.get("LL_RUN_ID"):
        return OK
    answer = answer_to(_read_request(), wanted)
    if answer:
        print_json(answer)
    return OK


def _read_request() -> Mapping[str, object]:
    """Return the hook's input; {} if it is not valid."""
    try:
        asked = json.loads(sys.stdin.read(MAX_INPUT))
    except ValueError:
        return {}
    return asked if isinstance(asked, dict) else {}


def answer_to(asked: Mapping[str, object], wanted: str) -> dict[str, str]:
    """Return the answer to the hook; {} lets the session end.

    A failed check blocks it, and this is counted. After five times in a row, the session may end
    with a message. The count restarts then, and when the check passes.
    """
    session = str(asked.get("session_id") or "")
    root = find_project(str(asked.get("cwd") or os.getcwd()))
    try:
        loop = load_loop(wanted, root).loop
        checked, signal = run_checks_now(loop, root)
    except LittleLoopsError as error:
        return {"systemMessage": f"ll-loop check {wanted} could not run: {error.message}"}
    if checked.answer == "pass" or signal:
        forget_refusals(session, os.environ)
        return {}
    masker = Masker({**os.environ, **written_env(loop)})
    if checked.answer == "error":
        why = masker.mask(checked.reason)
        return {"systemMessage": f"ll-loop check {wanted} could not judge: {why}"}
    if count_refusal(session, os.environ) > MOST_REFUSALS:
        forget_refusals(session, os.environ)
        return {"systemMessage": f"ll-loop check {wanted} still fails; the session ends anyway"}
    return {"decision": "block", "reason": _reason(wanted, checked, masker)}


def _reason(wanted: str, checked: Checked, masker: Masker) -> str:
    shown = "\n".join(page(checked, masker, OutputArgs(), Style()))
    return f"`ll-loop check {wanted}` fails:\n{shown[-REASON_CHARACTERS:]}"
