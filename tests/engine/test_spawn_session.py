"""Sessions that go on with a run after a handoff, played by a program called `claude`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from little_loops.engine.spawn_session import Spawner
from little_loops.errors import ProgramError
from little_loops.fsm.schema import HostOptions
from little_loops.runs.layout import RunFiles
from little_loops.spending.slots import Busy, Queue, QueuePosition, Slot
from tests.project import Project, until

LOOP = """\
name: port
initial: work
on_handoff: spawn
host: {permission_mode: plan}
states:
  work: {action: "/port it", next: done}
  done: {terminal: true}
"""
# In its first turn it hands off, in later ones it ends well; as a session it waits to be let go.
AGENT = """\
#!/bin/sh
prompt=$(cat)
case $prompt in
"Continue loop execution."*)
    printf '%s' "$prompt" > {home}/prompt
    cat "$(printf '%s' "$prompt" | tail -1)" > {home}/notes 2>&1
    until [ -e {home}/go ]; do sleep 0.01; done
    exec ll-loop resume port --background ;;
esac
[ -e {home}/called ] && echo "Ported." || echo {line}
touch {home}/called
"""


@pytest.fixture
def waiting(project: Project) -> Iterator[Project]:
    """The project; a session that still waits at the end is let go, and ends."""
    yield project
    (project.home / "go").touch()


def stage(project: Project, line: str) -> dict[str, str]:
    """A project with this agent; the environment to run it in."""
    (project.home / "bin").mkdir()
    program = project.home / "bin" / "claude"
    program.write_text(AGENT.format(home=project.home, line=shlex.quote(line)))
    program.chmod(0o755)
    project.loop("port", LOOP)
    return {"PATH": f"{project.home / 'bin'}:{project.environ()['PATH']}"}


def let_go(project: Project) -> None:
    (project.home / "go").touch()
    until(lambda: project.has_event("port", "loop_complete"), "end of the run")


def session(project: Project, env: dict[str, str]) -> Any:
    return json.loads(project.ll("status", "port", "--json", env=env).stdout)["spawn"]


def test_it_has_a_slot_until_it_ends(waiting: Project):
    env = stage(waiting, "CONTEXT_HANDOFF: cli.py is left")
    config = waiting.home / ".config" / "little-loops"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text("agents: {slots: 1}\n")
    assert waiting.ll("run", "port", env=env).returncode == 4
    queue = Queue(1, QueuePosition("/p", "other", "r", 1), waiting.environ())
    busy = queue.take()
    assert isinstance(busy, Busy)
    assert [turn.loop for turn in busy.holders] == ["port"]
    queue.leave()
    let_go(waiting)
    slot = until(lambda: _taken(queue), "free slot")
    slot.release()


def _taken(queue: Queue) -> Slot | None:
    found = queue.take()
    return found if isinstance(found, Slot) else None


def test_it_outlives_the_process_that_started_it(waiting: Project):
    env = stage(waiting, "CONTEXT_HANDOFF: cli.py is left")
    assert waiting.ll("run", "port", env=env).returncode == 4
    assert session(waiting, env)["alive"] is True
    let_go(waiting)
    assert session(waiting, env) is None


def test_it_finds_the_notes_that_it_is_told_of(waiting: Project):
    env = stage(waiting, "CONTEXT_HANDOFF: cli.py is left")
    assert waiting.ll("run", "port", env=env).returncode == 4
    notes = waiting.running("port", ".d") / "continue.md"
    until((waiting.home / "notes").exists, "session")
    let_go(waiting)
    assert (waiting.home / "prompt").read_text() == (
        f"Continue loop execution. Run: ll-loop resume port --background\n\n{notes}"
    )
    assert (waiting.home / "notes").read_text() == "cli.py is left\n"


@pytest.mark.parametrize("line", ["CONTEXT_HANDOFF:", "CONTEXT_HANDOFF: "])
def test_without_notes_it_is_told_of_none(waiting: Project, line: str):
    env = stage(waiting, line)
    assert waiting.ll("run", "port", env=env).returncode == 4
    let_go(waiting)
    assert (waiting.home / "prompt").read_text() == (
        "Continue loop execution. Run: ll-loop resume port --background"
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(None, "`claude` is not on PATH", id="missing"),
        pytest.param("#!/nowhere\n", "`{program}`: No such file or directory", id="no interpreter"),
    ],
)
def test_a_program_that_does_not_start_is_named(project: Project, content: str | None, why: str):
    program = project.home / "bin" / "claude"
    program.parent.mkdir()
    if content is not None:
        program.write_text(content)
        program.chmod(0o755)
    files = RunFiles(str(project.root), "port")
    spawner = Spawner(files, HostOptions(), {"PATH": str(program.parent)}, seq=1)
    with pytest.raises(ProgramError) as raised:
        spawner.start("port", None)
    assert (raised.value.message, raised.value.help, raised.value.exit_code) == (
        f"cannot start a session to continue the run: {why.format(program=program)}",
        "`ll-loop resume port` continues the run by hand",
        1,
    )
