"""Version one's defects of money and liveness, as edits of the sources that put them back.

`first_broken` copies the sources, edits the copy, and plays histories on it in a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
SEEDS = 200


class Edit(NamedTuple):
    """A text of a module, which must be there exactly once, and what stands there instead."""

    module: str
    text: str
    instead: str


class Defect(NamedTuple):
    """What version one did, the law that it breaks, and the edits that make the engine do it."""

    name: str
    law: int
    edits: tuple[Edit, ...]


class Broken(NamedTuple):
    """The first history in which a law did not hold."""

    seed: int
    law: int
    what: str


# The texts are short, so that a change beside one of them does not move it.
WAIT_IS_KEPT = (
    Edit("fsm/evolve.py", "(wait=None, spawns=False)", "()"),
    Edit("fsm/evolve.py", "spawns=False,  # whoever", "# whoever"),
    Edit("fsm/evolve.py", 'None if run.status == "awaiting_continuation" else', ""),
)
COUNTERS_RESET_EACH_OTHER = """
    if result.agent == "wait":
        run = run._replace(continuations=0, handoff_waits=0)
    if handed_off:
        run = run._replace(host_waits=0, host_waited_ms=0)
    is_over = result"""
DEFECTS = (
    Defect("each resume after a quick handoff starts another session", 1, WAIT_IS_KEPT),
    Defect("sessions after a quick handoff are not counted", 2, WAIT_IS_KEPT),
    Defect(
        "a resume after a crash at a handoff only starts a session",
        1,
        (Edit("fsm/handoffs.py", "spawns = not run.late and ", "spawns = "),),
    ),
    Defect(
        "handoffs and usage limits reset each other's counters",
        2,
        (Edit("fsm/evolve.py", "\n    is_over = result", COUNTERS_RESET_EACH_OTHER),),
    ),
    Defect(
        "a usage limit whose reset has just passed is not waited for",
        3,
        (
            Edit("fsm/waits.py", "max(asked_ms, least_ms)", "max(asked_ms, 0)"),
            Edit("fsm/waits.py", "(wait.least_ran_ms or 0) - at.ran_ms", "0"),
        ),
    ),
    Defect(
        "waits for a named reset do not grow",
        3,
        (
            Edit(
                "fsm/waits.py",
                "_doubled(FIRST_SPACING_MS, run.host_waits, LONGEST_HOST_WAIT_MS)",
                "FIRST_SPACING_MS",
            ),
        ),
    ),
    Defect(
        "nobody pays for a spawned session",
        4,
        (
            Edit(
                "fsm/handoffs.py",
                "note_spending(builder, session(builder.loop, builder.run, reserved_usd))",
                "pass",
            ),
        ),
    ),
    Defect(
        "nobody pays for a turn that was cut",
        4,
        (Edit("fsm/spending.py", "if is_gap and ", "if False and "),),
    ),
    Defect(
        "nobody pays for a turn that was lost with its runner",
        4,
        (Edit("fsm/machine.py", "note_debt(builder, resumed)", "pass"),),
    ),
    Defect(
        "a clock that is set back makes a wait longer",
        5,
        (Edit("fsm/evolve.py", "if event.least_ms is not None:", "if False:"),),
    ),
    Defect(
        "`resume --from` after a crash leaves an action without an end",
        6,
        (
            Edit(
                "fsm/machine.py",
                "if was_running:",
                "if was_running and target is None:",
            ),
        ),
    ),
    Defect(
        "a resume beyond the budget ends by a bug where a state has no action",
        7,
        (Edit("fsm/limits.py", "if loop.states[state].action is None:", "if False:"),),
    ),
    Defect(
        "a resume that is cut at its first event forgets that the time was up",
        8,
        (Edit("fsm/evolve.py", "resume_to=event.to,", "resume_to=event.to, timed_out_in=None,"),),
    ),
    Defect(
        "a resume that is cut at its first event forgets its `--from`",
        8,
        (Edit("fsm/evolve.py", "resume_to=event.to,", ""),),
    ),
)


def edited_sources(edits: Iterable[Edit], directory: Path) -> Path:
    """A copy of the sources with these edits; gives the directory to import them from."""
    target = directory / "src"
    shutil.copytree(ROOT / "src", target)
    for module, text, instead in edits:
        path = target / "little_loops" / module
        written = path.read_text()
        assert written.count(text) == 1, f"{module} has {written.count(text)} times: {text}"
        path.write_text(written.replace(text, instead))
    return target


def first_broken(sources: Path, laws: Collection[int], seeds: int = SEEDS) -> Broken | None:
    """Play histories on these sources until one of the laws is broken."""
    ended = subprocess.run(
        [sys.executable, "-m", __name__, str(sources), json.dumps([*laws]), str(seeds)],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(sources)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    return None if told is None else Broken(**told)


def _play_until_broken(laws: Collection[int], seeds: int) -> Broken | None:
    from tests.simulation.ledger import ContractBroken
    from tests.simulation.pure_history import play

    for seed in range(seeds):
        try:
            play(seed, laws, prefixes=2)
        except ContractBroken as broken:
            return Broken(seed, broken.law, str(broken))
    return None


def main(sources: str, laws: str, seeds: str) -> None:
    import little_loops

    assert little_loops.__file__.startswith(sources), little_loops.__file__
    broken = _play_until_broken(json.loads(laws), int(seeds))
    print(json.dumps(None if broken is None else broken._asdict()))


if __name__ == "__main__":
    main(*sys.argv[1:])
