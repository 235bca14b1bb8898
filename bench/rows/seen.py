"""What it costs to look at runs: few, and very many."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.model import Candidate, Command, Question, Row, Setting
from bench.processes import carry_out, started
from bench.rows.startup import bare

# It stops where a person is to look, and stays among the current runs.
GATE = """\
name: gate
initial: work
states:
  work:
    action: "true"
    on_pass: look
    on_fail: failed
  look:
    terminal: true
    outcome: review
    next: work
  failed:
    terminal: true
"""
PAUSED = 4
BAR, BEYOND = 4, 3
BAR_WITH_MANY = 6
PAST = 20_000


def rows(setting: Setting) -> list[Question]:
    alone = setting.project("seen", {"gate": GATE})
    crowd = setting.project("crowd", {"gate": GATE})
    count = setting.by_scale(quick=50, normal=500, full=500)
    past = setting.by_scale(quick=0, normal=0, full=PAST)
    unfinished = partial(many, setting, crowd, count, past)
    living = partial(many_alive, setting, crowd, count, past)
    before = f", {past} past" if past else ""
    status, running = ("status",), ("list", "--running")

    def row(name: str, project: str, words: tuple[str, ...]) -> Row:
        ours = Candidate("ours", setting.command(project, *words))
        repeats = setting.by_scale(quick=5, normal=15, full=40)
        return Row(4, name, bare(setting, project), ours, BAR, BEYOND, repeats=repeats)

    return [
        row("status", alone, status),
        row("list --running", alone, running),
        row(f"status, {count} unfinished runs{before}", crowd, status)._replace(
            during=unfinished, comparable=False, bar=BAR_WITH_MANY
        ),
        row(f"list --running, {count} of them{before}", crowd, running)._replace(
            during=living, comparable=False, bar=BAR_WITH_MANY
        ),
    ]


@contextmanager
def many(setting: Setting, project: str, count: int, past: int) -> Iterator[None]:
    """So many unfinished runs: copies of a real one under other names."""
    own = f"{project}/.loops/.running"
    if not os.path.isdir(own):
        carry_out(setting, setting.command(project, "run", "gate", exit_code=PAUSED))
        for number in range(count):
            for suffix in (".state.json", ".events.jsonl"):
                shutil.copyfile(f"{own}/gate{suffix}", f"{own}/gate@{number}{suffix}")
        _history(project, own, past)
    yield


def _history(project: str, own: str, past: int) -> None:
    history = f"{project}/.loops/.history/gate"
    os.makedirs(history, exist_ok=True)
    for number in range(past):
        day, second = divmod(number, 3600)
        stem = f"2025-01-{day + 1:02}T10-{second // 60:02}-{second % 60:02}"
        shutil.copyfile(f"{own}/gate.state.json", f"{history}/{stem}.state.json")
        shutil.copyfile(f"{own}/gate.events.jsonl", f"{history}/{stem}.events.jsonl")


@contextmanager
def many_alive(setting: Setting, project: str, count: int, past: int) -> Iterator[None]:
    """The same, each with somebody who holds its name: to everybody else they are running."""
    argv = (setting.python, "-m", "bench.crowd", project, str(count))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (
        many(setting, project, count, past),
        started(setting, Command(argv, project), **pipes) as holder,
    ):
        assert holder.stdout is not None
        holder.stdout.readline()  # it has them all
        yield
