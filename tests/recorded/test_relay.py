"""Relays that version one left unfinished: resumed with the machine they were started with.

`relay_v1/…` was written by version one and is never changed.  Its states run `ll-loop relay prepare`
and `ll-loop relay settle` as commands; the repository around it is made here as it was then.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.relay.test_relays import BEGIN, Relays, phases, reports

HERE = Path(__file__).parent / "relay_v1"
NAME = "implement-886"
LOOP = """\
paradigm: relay
name: implement-886
agent: sh turns/$LL_ITERATION.sh
metadata: specs/886/.return-meta.json
plan: specs/886/plan.md
"""
FIRST = "implement-886: phase 1 of 2 (turn 1)"
SECOND = "implement-886: phase 2 of 2 (turn 2)"
LAST = reports(phases("implemented", 2, 2), "two")


class Story(NamedTuple):
    """What was there when the run was cut, what its turns do from then on, and what comes of it."""

    turn: int
    files: dict[str, str]
    turns: dict[int, str]
    trace: list[str]
    subjects: list[str]


STORIES = {
    "in_the_turn": Story(
        turn=2,
        files={"src/half.txt": "half\n"},
        turns={3: LAST},
        trace=["turn 3 phase 2 of 2"],
        subjects=[FIRST, SECOND, "implement-886: phase 2 of 2 (turn 3)"],
    ),
    "in_settle": Story(
        turn=2,
        files={
            "src/two.txt": "two\n",
            "specs/886/.return-meta.json": json.dumps(phases("implemented", 2, 2)),
        },
        turns={},
        trace=[],
        subjects=[FIRST, SECOND],
    ),
    "needs_review": Story(
        turn=1,
        files={"specs/886/.return-meta.json": "{}"},
        turns={2: LAST},
        trace=["turn 2 phase 2 of 2"],
        subjects=[FIRST, SECOND],
    ),
}


def lay_out(relays: Relays, name: str, story: Story) -> None:
    """The project as it was, and the run where an unfinished one lies."""
    relays.set_up(loop=LOOP)
    write(relays, "src/one.txt", "one\n")
    relays.git("add", "src")
    relays.git("commit", "--quiet", f"--message={FIRST}")
    running = relays.root / ".loops/.running"
    running.mkdir(mode=0o700)
    for suffix in ("state.json", "events.jsonl"):
        shutil.copyfile(HERE / name / suffix, running / f"{NAME}.{suffix}")
    shutil.copytree(HERE / name / "d", running / f"{NAME}.d")
    memory = json.loads((HERE / name / "d/relay.json").read_text())
    beside = {".postflight-loop-guard": f"{story.turn}\n"}
    beside[".postflight-pending"] = f"{memory['run']}\n{memory['session']}\n"
    for each, text in beside.items():
        write(relays, f"specs/886/{each}", text)
    for path, text in story.files.items():
        write(relays, path, text)
    for number, turn in story.turns.items():
        write(relays, f"turns/{number}.sh", BEGIN + turn)


def write(relays: Relays, path: str, text: str) -> None:
    file = relays.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize("name", STORIES)
def test_it_is_resumed(tmp_path: Path, name: str):
    """By the machine it has, which need not be asked for, or by the file as it is compiled now.

    One after the other: each resume ends whatever else runs with the id of the recorded run.
    """
    for definition in ("", "original", "current"):
        (tmp_path / definition).mkdir(exist_ok=True)
        relays = Relays(tmp_path / definition)
        lay_out(relays, name, STORIES[name])
        is_resumed(relays, STORIES[name], definition)


def is_resumed(relays: Relays, story: Story, definition: str) -> None:
    words = ["--definition", definition] if definition else []
    ran = relays.ll("resume", NAME, *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert relays.trace() == story.trace
    assert relays.subjects() == story.subjects
    assert relays.pending() == []
    kinds = {each["action_type"] for each in relays.events(NAME) if each["event"] == "action_start"}
    assert kinds == ({"shell", "builtin"} if definition == "current" else {"shell"})
    first = relays.told()[0]
    assert first.startswith(f"relay {NAME}: {len(story.subjects)} turns, session sess_17")


def test_what_is_recorded_is_played():
    assert sorted(os.listdir(HERE)) == sorted(STORIES)
