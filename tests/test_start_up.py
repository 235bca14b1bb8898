"""What a command loads: time at every start, so nothing heavy where it is not needed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from little_loops.engine.lifecycle import RunRequest
from little_loops.engine.request_data import request_to
from little_loops.errors import SIGNALLED
from little_loops.fsm.schema import FSMLoop, StateConfig
from tests.project import DEADLINE_S, Project

ONE_STATE = """\
    name: one
    initial: work
    states:
      work:
        action: echo done
        on_pass: done
        on_fail: failed
      done:
        terminal: true
      failed:
        terminal: true
    """

# Runs `ll-loop` as it is, then writes down what had to be loaded for that.
PROGRAM = """\
import sys
before = set(sys.modules)
from little_loops.cli.main import main
code = main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    file.write("\\n".join(sorted(set(sys.modules) - before)))
sys.exit(code)
"""

# Runs `ll-loop` and writes down what the processes that it forks load.
FORKING = """\
import os, sys
listed, own = sys.argv[1], os.getpid()
def note(event, args):
    if event == "import" and os.getpid() != own:
        with open(listed, "a") as file:
            file.write(args[0] + "\\n")
sys.addaudithook(note)
from little_loops.cli.main import main
sys.exit(main(sys.argv[2:]))
"""

# Slow to load, each more than a millisecond; some load half of the others.
HEAVY = {
    *("asyncio", "concurrent", "dataclasses", "difflib", "email", "hashlib", "http", "inspect"),
    *("importlib.metadata", "importlib.resources", "logging", "multiprocessing", "pathlib"),
    *("random", "shutil", "socket", "ssl", "tempfile", "typing", "unittest", "urllib", "uuid"),
    "xml",
    *("click", "jq", "psutil", "re2", "rich", "little_loops.hosts", "little_loops.relay"),
}
TERMINAL = {"argparse", "little_loops.terminal.live", "little_loops.cli.parsing"}
YAML = {"yaml", "little_loops.authoring"}
PROCESSES = {"subprocess", "ctypes", "little_loops.engine.lifecycle", "little_loops.system.process"}
# Classes that only a run needs.
MACHINE = {"little_loops.fsm.commands", "little_loops.fsm.events", "little_loops.fsm.happenings"}
LIBRARY = {"little_loops.engine.executor", "little_loops.engine.persistent_executor"}
# Where orphans are adopted, an action is started without it.
STARTING = {"selectors", "subprocess", "threading"} if sys.platform == "linux" else set()
# What the standard library brings that a run can do without while it waits, perhaps for hours.
NOT_FOR_WAITING = {"enum", "importlib", "json", "re", "signal", "warnings"}
# Needed by loops that have values in their scripts, conditions on output, or signals of their own.
OF_OTHER_LOOPS = {
    *("little_loops.templates.shell.reader", "little_loops.templates.shell.refusals"),
    *("little_loops.engine.judging", "little_loops.fsm.signal_detector"),
    "little_loops.engine.resuming",
    *("little_loops.engine.handoff_handler", "little_loops.engine.spawn_session"),
    *("little_loops.fsm.hooks", "little_loops.runs.imported", "little_loops.runs.reading"),
    *("little_loops.fsm.handoffs", "little_loops.fsm.train"),
    *("little_loops.reporting.worktree_lines", "little_loops.runs.leftovers"),
}
# Loops without agents pay nothing for consent, evidence, budgets, notes and gates.
OF_AGENTS = {
    *("little_loops.cli.consent", "little_loops.definitions.agent_checks"),
    *("little_loops.definitions.agent_programs", "little_loops.definitions.trust"),
    *("little_loops.engine.agent_actions", "little_loops.engine.evidence"),
    *("little_loops.engine.gate", "little_loops.engine.metering", "little_loops.engine.run_trees"),
    *("little_loops.fsm.budgets", "little_loops.fsm.evolve_trees", "little_loops.fsm.gates"),
    *("little_loops.fsm.notes", "little_loops.fsm.record_trees", "little_loops.runs.seals"),
    *("little_loops.receipts", "little_loops.spending", "little_loops.trees"),
}
# Half a millisecond and more, for one function that is easily done without.
SMALL_USE = {"ctypes", "shlex"}
ELSEWHERE = LIBRARY | OF_OTHER_LOOPS | OF_AGENTS | SMALL_USE


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    made.loop("one", ONE_STATE)
    return made


def loaded(project: Project, *words: str, given: str = "", program: str = PROGRAM) -> set[str]:
    """The modules that a command loads."""
    listed = project.root / "modules"
    listed.touch()
    done = subprocess.run(
        [sys.executable, "-c", program, str(listed), *words],
        cwd=project.root,
        env=project.environ(),
        input=given,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(listed.read_text().splitlines())


def of_those(modules: set[str], forbidden: set[str]) -> list[str]:
    """What is loaded of the forbidden modules and of what is in them."""
    return sorted(
        name
        for name in modules
        if any(name == each or name.startswith(f"{each}.") for each in forbidden)
    )


def test_help_loads_next_to_nothing(project):
    modules = loaded(project, "--help")
    assert {name for name in modules if name.startswith("little_loops")} == {
        "little_loops",
        "little_loops.cli",
        "little_loops.cli.commands",
        "little_loops.cli.main",
        "little_loops.errors",
        "little_loops.light_modules",
        "little_loops.light_typing",
        "little_loops.records",
    }
    forbidden = HEAVY | TERMINAL | YAML | PROCESSES | {"json", "datetime"}
    assert of_those(modules, forbidden) == []


@pytest.mark.parametrize(
    ("words", "forbidden"),
    [
        pytest.param(["status"], HEAVY | TERMINAL | YAML | PROCESSES | MACHINE, id="status"),
        pytest.param(
            ["list", "--running"], HEAVY | TERMINAL | YAML | PROCESSES | MACHINE, id="list"
        ),
        pytest.param(["validate", "one"], HEAVY | TERMINAL | PROCESSES | MACHINE, id="validate"),
        pytest.param(["run", "one"], HEAVY | TERMINAL | STARTING | ELSEWHERE, id="run"),
    ],
)
def test_nothing_heavy_is_loaded(project, words, forbidden):
    modules = loaded(project, *words)
    assert of_those(modules, forbidden) == []


def test_nothing_more_is_loaded_to_replace_a_run_that_was_not_killed(project):
    project.loop("one", ONE_STATE.replace("echo done", "kill -TERM $PPID; sleep 100"))
    interrupted = project.ll("run", "one")
    assert interrupted.returncode == SIGNALLED + signal.SIGTERM
    project.loop("one", ONE_STATE)
    modules = loaded(project, "run", "one", "--fresh")
    assert of_those(modules, OF_OTHER_LOOPS) == []


def in_background(project: Project, *, fresh: bool = False) -> str:
    """The input of the process of a background run."""
    loop = FSMLoop(
        "one",
        "work",
        {
            "work": StateConfig(action="echo done", on_pass="done", on_fail="done"),
            "done": StateConfig(terminal=True),
        },
    )
    wanted = {
        "verb": "start",
        "loop": loop.to_dict(),
        "request": request_to(RunRequest(str(project.root), "one", fresh=fresh)),
    }
    return json.dumps(wanted)


def test_a_background_run_loads_neither_yaml_nor_a_terminal(project):
    modules = loaded(project, "background-run", given=in_background(project))
    forbidden = HEAVY | TERMINAL | YAML | STARTING | ELSEWHERE | NOT_FOR_WAITING
    assert of_those(modules, forbidden | {"little_loops.cli.foreground"}) == []
    assert project.state("one")["status"] == "completed"


def test_the_times_of_a_previous_run_are_read_without_datetime(project):
    project.loop("one", ONE_STATE.replace("echo done", "kill -TERM $PPID; sleep 100"))
    project.ll("run", "one")
    modules = loaded(project, "background-run", given=in_background(project, fresh=True))
    assert of_those(modules, {"datetime"}) == []
    assert project.state("one")["status"] == "completed"


def test_an_output_that_is_large_is_hashed(project):
    """The lists above are no accident: what is needed is loaded when it is."""
    project.loop("one", ONE_STATE.replace("echo done", "head -c 10000 /dev/zero"))
    assert of_those(loaded(project, "run", "one"), {"hashlib"}) == ["hashlib"]


def test_branches_load_next_to_nothing_in_their_own_processes(project):
    """What all of them need is loaded before they are forked."""
    many = """\
        name: many
        initial: all
        states:
          all: {for_each: [1, 2], action: echo done, on_pass: done, on_fail: failed}
          done: {terminal: true}
          failed: {terminal: true, outcome: failure}
        """
    project.loop("many", many)
    assert loaded(project, "run", "many", program=FORKING) == {"little_loops.engine.results"}
