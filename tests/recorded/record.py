"""Record runs as this version leaves them: `python -m tests.recorded.record`.

What is recorded once stays: every later version must read these files and go on from them.  So a
story that is there already is left alone; only a new format, or a new story, adds to them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import FORMAT
from little_loops.runs.reading import Runs
from tests.recorded.playing import NAME, Answer, lay_out, play, put_away, told

HERE = Path(__file__).parent
FAILS: Answer = {"exit_code": 1}
BREAKS: Answer = {"exit_code": 2, "stderr": "broken"}
LONG = "".join(f"line {number}\n" for number in range(1000))


class Story(NamedTuple):
    """A run up to where it is cut, and what its actions give back when it is resumed."""

    loop: dict[str, Any]
    answers: Sequence[Answer] = ()
    then: Sequence[Answer] = ()
    limits: Mapping[str, Any] = {}
    again: Sequence[Answer] | None = None
    """What happens in a resume before the run is recorded."""
    dies_before: str | None = None
    cut_in_wait: bool = False
    log_up_to: str | None = None
    """Keep the log up to this event, and no snapshot: what a crash may leave."""


def loop(**fields: Any) -> dict[str, Any]:
    """check → fix → check … → done, with whatever a story needs besides."""
    states: dict[str, Any] = {
        "check": {"action": "check", "on_pass": "done", "on_fail": "fix"},
        "fix": {"action": "fix", "next": "check"},
        "done": {"terminal": True},
        "failed": {"terminal": True},
        "look": {"terminal": True, "outcome": "review", "next": "check"},
    }
    for name, more in fields.pop("states", {}).items():
        states[name] = {**states.get(name, {}), **more}
    return {"name": NAME, "initial": "check", "states": states, **fields}


CONTAINS = {"condition": {"type": "output_numeric", "target": "${context.goal}"}}
STORIES = {
    "running": Story(loop(), [FAILS, "cut"], [{}, {}]),
    "running_a_second_time": Story(loop(), [FAILS, "cut"], [{}, {}], again=["cut"]),
    "stopped_in_an_action": Story(loop(), [FAILS, "stop"], [{}, {}]),
    "in_a_backoff": Story(loop(backoff=5), [FAILS, {}], [{}], cut_in_wait=True),
    "in_a_retry": Story(
        loop(states={"check": {"on_fail": "$current", "retry": {"max": 3, "backoff": 2}}}),
        [FAILS],
        [FAILS, {}],
        cut_in_wait=True,
    ),
    "in_a_maintain_wait": Story(
        loop(maintain=True, maintain_interval=60), [{}], [{}, "stop"], cut_in_wait=True
    ),
    "judging": Story(
        loop(states={"check": CONTAINS}, context={"goal": 0}),
        [{"output": "3"}, {}, {"output": "0"}],
        [],
        dies_before='"condition_eval","type":"output_numeric","result":"pass"',
    ),
    "judged": Story(
        loop(states={"check": CONTAINS}, context={"goal": 0}),
        [{"output": "3"}, "cut"],
        [{}, {"output": "0"}],
        log_up_to="condition_eval",
    ),
    "moving": Story(loop(), [FAILS, "cut"], [{}, {}], log_up_to="transition"),
    "entered": Story(loop(), [FAILS, "cut"], [{}, {}], log_up_to="state_enter"),
    "log_alone": Story(loop(), [FAILS, {}, "cut"], [{}], log_up_to="action_start"),
    "on_interrupt_a_state": Story(
        loop(states={"fix": {"on_interrupt": "failed"}}), [FAILS, "cut"], []
    ),
    "on_interrupt_an_error": Story(
        loop(states={"fix": {"on_interrupt": "$error", "on_error": "look"}}), [FAILS, "cut"], []
    ),
    "converging": Story(
        loop(
            context={"target": 0, "tolerance": 0},
            states={
                "check": {"on_target": "done", "on_progress": "fix", "on_stall": "failed"},
            },
        ),
        [{"output": "9"}, {}, {"output": "4"}, "cut"],
        [{}, {"output": "4"}],
    ),
    "with_a_long_output": Story(
        loop(
            states={
                "check": {"capture": "report"},
                "fix": {"action": 'wc -l "${captured.report.file}"'},
            }
        ),
        [{"exit_code": 1, "output": LONG}, "cut"],
        [{}, {}],
    ),
    "waiting_for_a_host": Story(
        loop(states={"check": {"action_type": "prompt"}}),
        [{"agent": "wait", "reason": "usage limit", "retry_at_ms": 1_768_473_600_000}],
        [{"agent": "success", "verdict": "pass", "tokens": 50, "cost_usd": 0.25, "turns": 2}],
        cut_in_wait=True,
    ),
    "handed_off": Story(loop(), [{"line": ["handoff", "phase 2 is next"]}], [FAILS, {}, {}]),
    "needs_review": Story(loop(states={"check": {"on_pass": "look"}}), [{}], [FAILS, {}, "stop"]),
    "failed_with_an_error": Story(loop(), [FAILS, BREAKS], [{}, {}]),
    "failed_for_want_of_a_way": Story(loop(states={"check": {"on_fail": None}}), [FAILS], [{}]),
    "failed_by_its_limit": Story(
        loop(max_iterations=1), [FAILS, {}], [{}], limits={"max_iterations": 5}
    ),
    "failed_by_its_time": Story(
        loop(timeout=3), [FAILS, {}, FAILS, {}], [{}], limits={"timeout": 60}
    ),
    "ended_in_a_failure_state": Story(loop(states={"check": {"on_fail": "failed"}}), [FAILS]),
    "completed": Story(loop(), [FAILS, {}, {}]),
    "stopped_by_an_action": Story(loop(), [{"line": ["stop", "enough"]}]),
}


def record(name: str, story: Story, place: Path) -> None:
    loop = FSMLoop.from_dict(_without_none(story.loop))
    with tempfile.TemporaryDirectory() as root:
        play(
            root,
            story.answers,
            loop=loop,
            dies_before=story.dies_before,
            cut_in_wait=story.cut_in_wait,
        )
        if story.again is not None:
            play(root, story.again)
        found = Runs(root).view(NAME)
        assert found is not None
        put_away(found.files, place)
    if story.log_up_to is not None:
        _cut_log(place, story.log_up_to)
    ends = resumed(place, story.then, story.limits)
    kept = {"then": story.then, "limits": story.limits, "ends": ends}
    (place / "story.json").write_text(json.dumps(kept, indent=2) + "\n")


def _without_none(plain: dict[str, Any]) -> dict[str, Any]:
    states = {
        name: {key: value for key, value in state.items() if value is not None}
        for name, state in plain["states"].items()
    }
    return {**plain, "states": states}


def _cut_log(place: Path, event: str) -> None:
    """Drop what is behind the last event of that kind, and the snapshot with it."""
    lines = (place / "events.jsonl").read_text().splitlines(keepends=True)
    last = max(at for at, line in enumerate(lines) if f'"event":"{event}"' in line)
    (place / "events.jsonl").write_text("".join(lines[: last + 1]))
    (place / "state.json").unlink()


def resumed(place: Path, then: Sequence[Answer], limits: Mapping[str, Any]) -> dict[str, Any]:
    """What a resume makes of a recorded run."""
    with tempfile.TemporaryDirectory() as root:
        lay_out(place, root)
        return told(os.path.realpath(root), play(os.path.realpath(root), then, limits=limits))


def main() -> None:
    for name, story in STORIES.items():
        place = HERE / f"v{FORMAT}" / name
        if place.exists():
            continue
        record(name, story, place)
        sys.stdout.write(f"recorded {place.relative_to(HERE)}\n")


if __name__ == "__main__":
    main()
