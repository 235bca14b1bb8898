"""What one short command costs as a whole process, against an interpreter that does nothing."""

from __future__ import annotations

import os

from bench.model import ROOT, Candidate, Command, Row, Setting

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


def rows(setting: Setting) -> list[Row]:
    project = os.path.join(setting.place, "startup")
    os.makedirs(f"{project}/.loops")
    with open(f"{project}/.loops/one.yaml", "w") as file:
        file.write(ONE_STATE)

    def python(name: str, *arguments: str, cwd: str = project) -> Candidate:
        return Candidate(name, Command((setting.python, *arguments), cwd))

    def ours(*arguments: str) -> Candidate:
        return Candidate("ours", Command((*setting.tool, *arguments), project))

    bare = python("python -c pass", "-c", "pass")
    argparse = python("a parser's help", "-c", ARGPARSE)
    yaml = python("a YAML file read", "-c", READ_YAML)
    one_step = python("one bare step", "-m", "bench.floors", "1", project, cwd=ROOT)
    return [
        Row(1, "--help", bare, ours("--help"), 6, 4, others=(argparse,)),
        Row(2, "validate one loop", bare, ours("validate", "one"), 8, 6, others=(yaml,)),
        Row(3, "run of a one-state loop", bare, ours("run", "one"), 9, 6, others=(one_step,)),
    ]
