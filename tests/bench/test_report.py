from __future__ import annotations

import json
import math

from bench.figures import Figure, Level, Outcome, Result, Standing
from bench.model import Candidate, Command, Gauge, Reading, Row
from bench.report import document, holds, table

IDLE = Candidate("idle", Command(("idle",), "."))
HELP = Row(1, "--help", IDLE, IDLE, bar=6, beyond=4)
STEP = Row(5, "one step", IDLE, IDLE, bar=1.5, beyond=1.3, judged=("cpu", "wall"))

FLOOR = Outcome("python -c pass", Figure(10, 11), Figure(12, 13), 1, 1)
OURS = Outcome("ours", Figure(30, 33), Figure(42, 44), 3, 3.5)
BEYOND = Result(HELP, (FLOOR, OURS), Standing.BEYOND)
MISSED = Result(STEP, (FLOOR, OURS), Standing.MISSED)
BROKEN = Result(HELP, (), Standing.BROKEN, "exit 1 instead of 0")
SKIPPED = Result(HELP, (), Standing.SKIPPED, "there is no Chromium")

IDLE_RUN = Gauge(12, "memory of an idle run", "MB", Reading("ours", lambda: 9.0), bar=14, beyond=8)
ASLEEP, RUN = Level("python, asleep", 6, 6.1234, 6.25), Level("ours", 8.9, 9, 10)
HOLDS = Result(IDLE_RUN, (ASLEEP, RUN), Standing.HOLDS)


TABLE = """\
  # row                                      candidate                 CPU ms   median   wall ms   median   CPU x  wall x     bar  beyond
  1 --help                                   python -c pass             10.00    11.00     12.00    13.00    1.00    1.00
                                             ours                       30.00    33.00     42.00    44.00    3.00    3.50      6x      4x  beyond (CPU)
  5 one step                                 python -c pass             10.00    11.00     12.00    13.00    1.00    1.00
                                             ours                       30.00    33.00     42.00    44.00    3.00    3.50    1.5x    1.3x  MISSED (CPU and wall)
  1 --help                                   BROKEN: exit 1 instead of 0
 12 memory of an idle run                    python, asleep             6.123 MB (6 to 6.25)
                                             ours                           9 MB (8.9 to 10)                                   14       8  holds
  1 --help                                   skipped: there is no Chromium

5 rows: 1 beyond, 1 holds, 1 missed, 1 broken, 1 skipped
"""


def test_table():
    assert table([BEYOND, MISSED, BROKEN, HOLDS, SKIPPED]) + "\n" == TABLE


def test_a_broken_row_does_not_hold():
    assert holds([BEYOND, SKIPPED])
    assert not holds([BEYOND, BROKEN])
    assert not holds([MISSED])


def test_document_is_plain_json():
    noisy = Result(HELP, (FLOOR, OURS._replace(wall_ratio=math.inf)), Standing.HOLDS)
    rows = json.loads(json.dumps(document([noisy, BROKEN]), allow_nan=False))["rows"]
    assert rows == [
        {
            "number": 1,
            "name": "--help",
            "judged": ["cpu"],
            "bar": 6,
            "beyond": 4,
            "standing": "holds",
            "problem": None,
            "candidates": [
                {
                    "name": "python -c pass",
                    "cpu": {"min_ms": 10, "median_ms": 11, "ratio": 1},
                    "wall": {"min_ms": 12, "median_ms": 13, "ratio": 1},
                },
                {
                    "name": "ours",
                    "cpu": {"min_ms": 30, "median_ms": 33, "ratio": 3},
                    "wall": {"min_ms": 42, "median_ms": 44, "ratio": None},
                },
            ],
        },
        {
            "number": 1,
            "name": "--help",
            "judged": ["cpu"],
            "bar": 6,
            "beyond": 4,
            "standing": "broken",
            "problem": "exit 1 instead of 0",
            "candidates": [],
        },
    ]


def test_document_of_a_quantity():
    (row,) = json.loads(json.dumps(document([HOLDS])))["rows"]
    assert row == {
        "number": 12,
        "name": "memory of an idle run",
        "unit": "MB",
        "bar": 14,
        "beyond": 8,
        "standing": "holds",
        "problem": None,
        "readings": [
            {"name": "python, asleep", "least": 6, "median": 6.1234, "most": 6.25},
            {"name": "ours", "least": 8.9, "median": 9, "most": 10},
        ],
    }
