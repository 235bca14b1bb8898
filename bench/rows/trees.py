"""What it costs to know that nothing has changed, and to lay out a clean copy that is up to date."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.model import ROOT, Candidate, Command, Question, Row, Setting

FEW, MANY = 2, 22
FILES_A_FOLDER, SUBFOLDERS = 10, 10
ADD = "for i in $(seq $1); do git add -A; git write-tree; done"
CHECK_OUT = "for i in $(seq $1); do git checkout-index -q -f -u -a; done"
COMMIT = (
    ("init", "-q"),
    ("add", "-A"),
    ("-c", "user.name=b", "-c", "user.email=b", "commit", "-q", "-m", "b"),
)
LINES = "a line like those of a program, or so\n" * 20


def rows(setting: Setting) -> list[Question]:
    sizes = setting.by_scale(
        quick=(1_400,), normal=(1_400, 5_000, 30_000), full=(1_400, 5_000, 30_000)
    )
    found: list[Question] = [
        row(setting, 16, f"snapshot, nothing changed, {size:,} files", size, "take", ADD, 1.3, 1.1)
        for size in sizes
    ]
    name = "clean copy, nothing changed, 1,400 files"
    return [*found, row(setting, 17, name, 1_400, "copy", CHECK_OUT, 1.5, 1.2)]


def row(
    setting: Setting,
    number: int,
    name: str,
    size: int,
    work: str,
    script: str,
    bar: float,
    beyond: float,
) -> Row:
    place = os.path.join(setting.place, f"{work}-{size}")
    ours, theirs, state = (os.path.join(place, each) for each in ("ours", "theirs", "state"))

    def floor(count: int) -> Command:
        return Command(("sh", "-c", script, "sh", str(count)), theirs)

    def times(count: int) -> Command:
        argv = (setting.python, "-m", "bench.snapshots", work, str(count), ours, state)
        return Command(argv, ROOT)

    return Row(
        number,
        name,
        Candidate("git", floor(MANY), floor(FEW), MANY - FEW),
        Candidate("ours", times(MANY), times(FEW), MANY - FEW),
        bar,
        beyond,
        repeats=setting.by_scale(quick=3, normal=10, full=20),
        during=partial(projects, (ours, theirs), state, size),
        comparable=False,
    )


@contextmanager
def projects(places: tuple[str, ...], state: str, size: int) -> Iterator[None]:
    """The same files twice, committed: one for git, one for us."""
    os.makedirs(state, exist_ok=True)
    for place in places:
        if not os.path.isdir(place):
            write_files(place, size)
            commit(place)
    yield


def write_files(place: str, size: int) -> None:
    for number in range(size):
        folder_number = number // FILES_A_FOLDER
        folder = f"{place}/d{folder_number // SUBFOLDERS}/e{folder_number % SUBFOLDERS}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/f{number}.py", "w") as file:
            file.write(f"{number}\n{LINES}")


def commit(place: str) -> None:
    for words in COMMIT:
        subprocess.run(["git", *words], cwd=place, check=True)
