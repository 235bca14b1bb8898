"""A relay that version one compiled, as it would be compiled now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from little_loops.authoring.load import load
from little_loops.authoring.paradigms.relay_v1 import CONTRACT_V1, as_compiled_now
from little_loops.fsm.schema import FSMLoop

RECORDED = sorted((Path(__file__).parents[2] / "recorded/relay_v1").glob("*/d/run.json"))
FILE = """\
paradigm: relay
name: implement-886
agent: {action: sh turns/$LL_ITERATION.sh}
metadata: specs/$${x}/.return-meta.json
plan: "specs/my plan.md"
"""
MORE = """\
session: sess_1
cwd: src
scope: [src, my docs]
commit: false
"""
PREPARE = (
    "ll-loop relay prepare --metadata='specs/$$${x}/.return-meta.json' --plan='specs/my plan.md'"
)
SETTLE = PREPARE.replace("prepare", "settle")
ENDED = "--after=${prev.state} --exit=${prev.exit_code} --output=${captured.turn.file:-}"
SCOPE = "--scope=src --scope='my docs'"


def compiled(source: str) -> FSMLoop:
    loop = load(source, "relay.yaml", "relay").loop
    assert loop is not None
    return loop


def by_version_one(loop: FSMLoop, prepare: str, settle: str, cwd: str | None) -> FSMLoop:
    own: dict[str, Any] = {"action_type": None, "context": {}, "cwd": cwd, "label": None}
    states = dict(loop.states)
    states["prepare"] = states["prepare"]._replace(action=prepare, **own)
    states["settle"] = states["settle"]._replace(action=settle, **own)
    turn = states["turn"]
    states["turn"] = turn._replace(context={**turn.context, "return_metadata": CONTRACT_V1})
    for name in ("done", "review", "stopped"):
        show = 'cat "$LL_RUN_DIR/relay-report.txt"'
        states[name] = states[name]._replace(action=show, action_type=None, label=None)
    return loop._replace(states=states)


@pytest.mark.parametrize(
    ("source", "prepare", "settle", "cwd"),
    [
        pytest.param(FILE, PREPARE, f"{SETTLE} {ENDED}", None, id="minimal"),
        pytest.param(
            FILE + MORE,
            f"{PREPARE} --no-commit --session=sess_1 --cwd=src",
            f"{SETTLE} --no-commit --cwd=src {SCOPE} {ENDED}",
            ".",
            id="with everything",
        ),
    ],
)
def test_a_file_that_has_not_changed(source: str, prepare: str, settle: str, cwd: str | None):
    now = compiled(source)
    assert as_compiled_now(by_version_one(now, prepare, settle, cwd)) == now
    assert as_compiled_now(now) == now


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parts[-3])
def test_a_recorded_machine(path: Path):
    before = FSMLoop.from_dict(json.loads(path.read_text())["loop"])
    now = compiled("""\
        paradigm: relay
        name: implement-886
        agent: sh turns/$LL_ITERATION.sh
        metadata: specs/886/.return-meta.json
        plan: specs/886/plan.md
        """)
    assert as_compiled_now(before) == now
