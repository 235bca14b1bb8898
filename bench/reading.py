"""`python -m bench.reading WHAT N`: the CPU, in ms, that reading a loop of N states takes.

`nodes` is the text as nodes that know their lines; `loop` is all of it, checked and built.
"""

from __future__ import annotations

import sys
import time

from little_loops.authoring.load import load
from little_loops.authoring.yaml.source import parse

STATE = """\
  s{this}:
    action: pytest tests/part_{this}
    timeout: 60
    on_pass: s{next}
    on_fail: $current
    retry: {{max: 3, backoff: 1}}
"""
TIMES = 12


def definition(count: int) -> str:
    states = "".join(STATE.format(this=each, next=each + 1) for each in range(count - 1))
    return f"name: long\ninitial: s0\nstates:\n{states}  s{count - 1}:\n    terminal: true\n"


def cpu_ms(what: str, count: int) -> float:
    text = definition(count)
    taken = []
    for _ in range(TIMES):
        began = time.process_time()
        document = parse(text, "long.yaml") if what == "nodes" else load(text, "long.yaml", "long")
        taken.append((time.process_time() - began) * 1000)
        assert not document.problems, document.problems[0]
    return min(taken)


if __name__ == "__main__":
    print(cpu_ms(sys.argv[1], int(sys.argv[2])))
