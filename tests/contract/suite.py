"""The contract suite: what each case does to a run, and the story that every runtime must tell.

A case is a YAML file: a loop, the calls of the runtime in order, what must have an effect outside
of the project, and the events but for their times and places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from little_loops.definitions.loading import load_loop
from little_loops.engine.runtime import Runtime, Stream
from little_loops.errors import LittleLoopsError
from little_loops.fsm.codec import to_record
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Limits
from tests.hosts.played import play_claude
from tests.project import DEADLINE_S, Project, until

CASES = Path(__file__).parent / "cases"
SHOWN = {
    "state_enter": ("state",),
    "action_start": ("state", "attempt"),
    "action_complete": ("state", "exit_code"),
    "action_interrupted": ("state",),
    "check_result": ("state", "verdict"),
    "child_start": ("child",),
    "child_end": ("child", "status", "reason", "final_state", "iterations"),
    "condition_eval": ("type", "result", "reason"),
    "gate_answered": ("state", "verdict", "by", "text"),
    "handoff_detected": ("state", "continuation"),
    "note_received": ("text",),
    "note_delivered": ("state",),
    "resume": ("state", "iteration", "status", "continuation"),
    "retry_wait": ("state", "attempt", "wait_ms"),
    "tampered": ("state", "paths"),
    "transition": ("from", "to", "reason"),
    "tree": ("state", "when"),
}
FINAL = ("status", "reason", "final_state", "iterations")
LEFT_OUT = ("cost",)


class Case(NamedTuple):
    name: str
    loop: Mapping[str, Any]
    do: Sequence[Mapping[str, Any]]
    effects: Sequence[str]
    story: Sequence[str]
    files: Mapping[str, str]
    claude: str | None


def cases() -> list[Any]:
    """Return all cases, as parameters of a test."""
    return [pytest.param(read(path), id=path.stem) for path in sorted(CASES.glob("*.yaml"))]


def read(path: Path) -> Case:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    known = {"about", *Case._fields}
    assert data.keys() <= known, f"{path.name} has unknown keys: {data.keys() - known}"
    return Case(
        path.stem,
        {"name": path.stem, **data["loop"]},
        data["do"],
        data.get("effects", []),
        data["story"],
        data.get("files", {}),
        data.get("claude"),
    )


def laid_out(project: Project, case: Case) -> FSMLoop:
    """Write the files of a case, commit them, and return its loop."""
    for name, text in {"src/value": "wrong\n", **case.files}.items():
        path = project.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    context = {"outside": str(project.home), **case.loop.get("context", {})}
    path = project.root / ".loops" / f"{case.name}.yaml"
    path.write_text(yaml.safe_dump({**case.loop, "context": context}))
    if case.claude is not None:
        _play_claude(project, case.claude)
    project.git("init", "-q", "-b", "main")
    project.git("add", "-A")
    project.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "start")
    return load_loop(case.name, str(project.root)).loop


def _play_claude(project: Project, scene: str) -> None:
    """Write a stand-in for `claude` that plays a scene and, once the file `ok` is there, a success."""
    lines = ["#!/bin/sh", "cat > /dev/null"]
    for name, guard in (("success", f"! test -e {project.home}/ok || "), (scene, "")):
        part = play_claude(name, "I looked at it.", "")
        (project.home / name).write_bytes(part.stdout)
        lines.append(f"{guard}{{ cat {project.home}/{name}; exit {part.exit_code}; }}")
    program = project.home / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("\n".join(lines) + "\n")
    program.chmod(0o755)


def carry_out(case: Case, project: Project, loop: FSMLoop, runtime: Runtime) -> None:
    """Make the calls of a case in order."""
    calls = _calls(project, loop, runtime)
    for step in case.do:
        (verb, given), *more = step.items()
        refused = dict(more).get("refused")
        if refused is None:
            calls[verb](given)
        else:
            with pytest.raises(LittleLoopsError) as error:
                calls[verb](given)
            assert error.value.message == refused


def _calls(project: Project, loop: FSMLoop, runtime: Runtime) -> dict[str, Callable[[Any], None]]:
    name = loop.name

    def start(given: Mapping[str, Any]) -> None:
        runtime.start(loop, limits=Limits(**given), skip_permissions=True)

    def ends(expected: str) -> None:
        found = runtime.wait(name, DEADLINE_S)
        assert found is not None
        assert f"{found.status} {found.reason} {found.exit_code}" == expected

    def effect(word: str) -> None:
        until(lambda: word in effects(project), f"effect {word}")

    def sees(kind: str) -> None:
        until(lambda: kind in [line.split()[0] for line in told(runtime, name)], f"event {kind}")

    def unfinished(expected: list[str]) -> None:
        assert [each.name for each in runtime.list()] == expected

    def output(expected: str) -> None:
        assert runtime.output(name, 1, 1, "stdout").decode() == expected

    def counted(given: Mapping[Stream, tuple[int, int]]) -> None:
        for stream, (first, last) in given.items():
            lines = "".join(f"{number}\n" for number in range(first, last + 1))
            assert runtime.output(name, 1, 1, stream).decode() == lines

    return {
        "start": start,
        "ends": ends,
        "effect": effect,
        "sees": sees,
        "unfinished": unfinished,
        "output": output,
        "counted": counted,
        "create": lambda file: (project.home / file).touch(),
        "stop": lambda _: runtime.stop(name),
        "resume": lambda given: runtime.resume(
            name, from_state=given.pop("from", None), limits=Limits(**given)
        ),
        "approve": lambda given: runtime.approve(name, **given),
        "reject": lambda text: runtime.reject(name, text),
        "tell": lambda text: runtime.tell(name, text),
    }


def effects(project: Project) -> list[str]:
    """Return the words that actions have written outside of the project."""
    path = project.home / "effects"
    return path.read_text().split() if path.exists() else []


def told(runtime: Runtime, name: str) -> list[str]:
    """Return the events of a run, a line each, without times and places."""
    records = [to_record(each) for each in runtime.events(name)]
    assert [each["seq"] for each in records] == list(range(1, len(records) + 1))
    return [_line(each) for each in records if each["event"] not in LEFT_OUT]


def _line(record: Mapping[str, Any]) -> str:
    fields = SHOWN.get(record["event"], FINAL if "final_state" in record else ())
    shown = [str(record[field]) for field in fields if record.get(field) not in (None, "")]
    return " ".join((record["event"], *shown))
