"""What a branch costs, with a worktree and without, and whether many of them take more and more."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.model import Candidate, Command, Gauge, NotMeasured, Question, Reading, Row, Setting
from bench.processes import carry_out, figure_of, started
from bench.rows.trees import commit, write_files

BRANCHES = """\
name: branches-{count}
initial: all
states:
  all: {{for_each: [{items}], max_parallel: 8, action: "true", on_pass: done, on_fail: done}}
  done: {{terminal: true}}
"""
FEW = 20
LOOK_EACH_S = 0.1

WORKTREES = """\
name: worktrees
initial: all
states:
  all:
    for_each: [{items}]
    max_parallel: 8
    action: echo ${{branch.item}} > made-${{branch.item}}
    worktree: true
    on_pass: done
    on_fail: failed
    on_conflict: failed
  done: {{terminal: true}}
  failed: {{terminal: true, outcome: failure}}
"""
# The same by hand, one after the other; nothing is recorded, and nothing survives a kill.
BY_HAND = """\
set -e
for i in $(seq 0 $(($1 - 1))); do
  git worktree add -q -b "b-$i" "../by-hand-$i"
  (cd "../by-hand-$i"; sh -c "echo $i > made-$i"; git add -A; git commit -q -m "$i")
done
for i in $(seq 0 $(($1 - 1))); do
  git merge -q --no-ff --no-edit "b-$i"
  git worktree remove "../by-hand-$i"
  git branch -q -d "b-$i"
done
"""
FILES = 200


def rows(setting: Setting) -> list[Question]:
    many = setting.by_scale(quick=60, normal=1_000, full=1_000)
    loops = {
        f"branches-{count}": BRANCHES.format(count=count, items=", ".join(map(str, range(count))))
        for count in (FEW, many)
    }
    project = setting.project("branches", loops)

    def cpu_ms() -> float:
        return (_cpu_s(setting, project, many) - _cpu_s(setting, project, FEW)) / (
            many - FEW
        ) * 1000 - _action_ms(setting)

    def grown() -> float:
        return _grown_mb(setting, project, many)

    return [
        Gauge(
            19,
            f"a branch of {many:,}, above its action: CPU",
            "ms",
            Reading("ours", cpu_ms),
            20,
            10,
            repeats=setting.by_scale(quick=3, normal=1, full=3),
        ),
        Gauge(
            19,
            f"memory, {many:,} branches, 8 at a time",
            "MB more",
            Reading("ours", grown),
            8,
            4,
            repeats=1,
        ),
        in_worktrees(setting, setting.by_scale(quick=8, normal=40, full=40)),
    ]


def in_worktrees(setting: Setting, count: int) -> Row:
    """Branches that each commit a file in a worktree, all of which are merged."""
    place = _in_memory(os.path.join(setting.place, "worktrees"))
    ours, theirs = f"{place}/ours", f"{place}/theirs"
    by_hand = Command(
        ("sh", "-c", BY_HAND, "sh", str(count)), theirs, before=partial(lay_out, theirs, count)
    )
    run = setting.command(ours, "run", "worktrees", before=partial(lay_out, ours, count))
    run = run._replace(argv=("env", f"XDG_CACHE_HOME={place}/cache", *run.argv))
    return Row(
        19,
        f"{count} branches, a worktree each, merged",
        Candidate("git, by hand", by_hand),
        Candidate("ours", run),
        bar=4,
        beyond=2,
        repeats=setting.by_scale(quick=1, normal=3, full=5),
        during=partial(_removed, place),
        comparable=False,
    )


def _in_memory(place: str) -> str:
    """Return a place in memory, if there is one, where files are made at the same cost each time.

    Each of the two makes 8,000 files and removes them. An ext4 without a journal searches past every
    inode that was freed in the last minutes, so that on such a disk a file costs up to ten times
    as much, depending on who removed how many before, and where.
    """
    return f"/dev/shm/ll-bench-{os.getpid()}" if os.access("/dev/shm", os.W_OK) else place


@contextmanager
def _removed(place: str) -> Iterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(place, ignore_errors=True)


def lay_out(place: str, count: int) -> None:
    """Make the project as it was before any branch was merged."""
    shutil.rmtree(place, ignore_errors=True)
    write_files(place, FILES)
    os.mkdir(f"{place}/.loops")
    with open(f"{place}/.loops/worktrees.yaml", "w") as file:
        file.write(WORKTREES.format(items=", ".join(map(str, range(count)))))
    commit(place)
    for name in ("user.name", "user.email"):
        subprocess.run(["git", "config", name, "bench"], cwd=place, check=True)


def _cpu_s(setting: Setting, project: str, count: int) -> float:
    """Return the CPU time of a run with so many branches, that of its processes included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    carry_out(setting, setting.command(project, "run", "--fresh", f"branches-{count}"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _action_ms(setting: Setting) -> float:
    """Return the CPU time of the action alone."""
    before = os.times()
    for _ in range(FEW):
        os.waitpid(os.posix_spawnp("sh", ["sh", "-c", "true"], dict(setting.environment)), 0)
    after = os.times()
    used = after.children_user + after.children_system
    return (used - before.children_user - before.children_system) / FEW * 1000


def _grown_mb(setting: Setting, project: str, count: int) -> float:
    """Return by how much the process of the run grows while its branches run."""
    seen: list[int] = []
    command = setting.command(project, "run", "--fresh", f"branches-{count}")
    folder = f"{project}/.loops/.running/branches-{count}.d/runs"
    with started(setting, command) as child:
        while child.poll() is None:
            rss_kb = figure_of(child.pid, "status", "VmRSS")
            if rss_kb is not None and os.path.isdir(folder):
                seen.append(rss_kb)
            time.sleep(LOOK_EACH_S)
    if len(seen) < 2:
        raise NotMeasured("the run was over too soon")
    return (max(seen) - seen[0]) / 1024
