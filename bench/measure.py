"""Start the candidates of a row in turn and take what each start cost.

Not here: what the figures mean (`figures`), how they are shown (`report`).
"""

from __future__ import annotations

import compileall
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from bench.figures import Result, Samples, Standing, gauged, result
from bench.model import Command, Gauge, Missing, NotMeasured, Question, Row, Sample

Take = Callable[[Command], Sample]

STDERR_SHOWN = 300


def clean_environment(place: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment, less what would change what is measured."""
    kept = {
        name: value
        for name, value in environ.items()
        # Without bytecode, half of a start-up figure would be the compiler.
        if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith(("LL_", "COV_", "COVERAGE_"))
    }
    own = {f"XDG_{name.upper()}_HOME": f"{place}/{name}" for name in ("cache", "config", "state")}
    return kept | own


def warm(*packages: str) -> None:
    """Compile the packages to bytecode, those that are there."""
    for package in packages:
        spec = find_spec(package)
        for path in (spec and spec.submodule_search_locations) or ():
            compileall.compile_dir(path, quiet=1)


def sampler(environment: Mapping[str, str]) -> Take:
    """A function that starts a command in this environment and measures it."""

    def take(command: Command) -> Sample:
        if command.before is not None:
            command.before()
        with tempfile.TemporaryFile() as stderr:
            began = time.perf_counter()
            child = subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
            _, status, usage = os.wait4(child.pid, 0)
            wall_s = time.perf_counter() - began
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode != command.exit_code:
                stderr.seek(0)
                raise NotMeasured(complaint(command, child.returncode, stderr.read()))
        return Sample((usage.ru_utime + usage.ru_stime) * 1000, wall_s * 1000)

    return take


def complaint(command: Command, exit_code: int, stderr: bytes) -> str:
    said = stderr.decode(errors="replace").strip()[-STDERR_SHOWN:]
    shown = " ".join(command.argv)
    return f"exit {exit_code} instead of {command.exit_code} from `{shown}`: {said or 'no words'}"


def interleave(row: Row, repeats: int, take: Take) -> Samples:
    """A B C A B C …; the first round warms the caches and is not kept."""
    commands = [command for candidate in row.candidates for command in candidate.commands]
    for command in commands:
        take(command)
    samples: dict[Command, list[Sample]] = {command: [] for command in commands}
    for _ in range(repeats):
        for command in commands:
            samples[command].append(take(command))
    return samples


def read(gauge: Gauge, repeats: int) -> dict[str, list[float]]:
    """The readings in turn; a quantity needs no warming up."""
    values: dict[str, list[float]] = {reading.name: [] for reading in gauge.readings}
    for _ in range(repeats):
        for reading in gauge.readings:
            values[reading.name].append(reading.take())
    return values


def measure(row: Question, repeats: int | None, take: Take) -> Result:
    """One row's result; a candidate that fails breaks its own row only."""
    repeats = repeats or row.repeats
    try:
        if isinstance(row, Gauge):
            return gauged(row, read(row, repeats))
        with row.during():
            return result(row, interleave(row, repeats, take))
    except Missing as missing:
        return Result(row, (), Standing.SKIPPED, str(missing))
    except (NotMeasured, OSError, subprocess.SubprocessError) as problem:
        return Result(row, (), Standing.BROKEN, str(problem))
