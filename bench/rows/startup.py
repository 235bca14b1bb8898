"""What one short command costs as a whole process, against an interpreter that does nothing."""

from __future__ import annotations

from bench.model import ROOT, Candidate, Command, Gauge, Question, Reading, Row, Setting
from bench.processes import carry_out

ONE_STATE = """\
name: one
initial: work
states:
  work:
    action: "true"
    on_pass: done
    on_fail: failed
  done:
    terminal: true
  failed:
    terminal: true
"""

ARGPARSE = "import argparse; argparse.ArgumentParser().parse_args(['--help'])"
READ_YAML = "import yaml; yaml.compose(open('.loops/one.yaml'), Loader=yaml.CSafeLoader)"


def bare(setting: Setting, cwd: str) -> Candidate:
    """The floor of every start."""
    return Candidate("python -c pass", Command((setting.python, "-c", "pass"), cwd))


def rows(setting: Setting) -> list[Question]:
    project = setting.project("startup", {"one": ONE_STATE})
    repeats = setting.by_scale(quick=5, normal=15, full=40)

    def python(name: str, *arguments: str, cwd: str = project) -> Candidate:
        return Candidate(name, Command((setting.python, *arguments), cwd))

    def row(
        number: int, name: str, bar: float, beyond: float, other: Candidate, *words: str
    ) -> Row:
        ours = Candidate("ours", setting.command(project, *words))
        floor = bare(setting, project)
        return Row(number, name, floor, ours, bar, beyond, repeats=repeats, others=(other,))

    argparse = python("a parser's help", "-c", ARGPARSE)
    yaml = python("a YAML file read", "-c", READ_YAML)
    one_step = python("one bare step", "-m", "bench.floors", "steps", "1", project, cwd=ROOT)
    return [
        row(1, "--help", 2.5, 1.8, argparse, "--help"),
        row(2, "validate one loop", 6, 4.5, yaml, "validate", "one"),
        row(3, "run of a one-state loop", 7, 5, one_step, "run", "one"),
        Gauge(
            15,
            "200 states read, lines known",
            "ms CPU",
            Reading("ours", lambda: reading(setting, "nodes", 200)),
            bar=15,
            beyond=10,
            repeats=setting.by_scale(quick=1, normal=5, full=9),
            others=(Reading("checked and built", lambda: reading(setting, "loop", 200)),),
        ),
    ]


def reading(setting: Setting, what: str, count: int) -> float:
    """The CPU it takes to read so many states, start-up left out."""
    argv = (setting.python, "-m", "bench.reading", what, str(count))
    return float(carry_out(setting, Command(argv, ROOT)))
