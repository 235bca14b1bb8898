"""A small project with loops and runs of every kind, as the page shows them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tests.project import Project

FIX_TYPES = """\
name: fix-types
description: Fix all type errors in src/
initial: check
max_iterations: 10
states:
  check:
    action: "echo checking src/; n=$(grep -c 'TODO: type' src/api.py); echo \\"Found $n errors\\"; test $n -eq 0"
    on_pass: done
    on_fail: fix
  fix:
    action: "Fix the next type error in src/api.py."
    action_type: prompt
    next: check
  done: {terminal: true}
"""

TUNE = """\
name: tune
description: Make the benchmark faster
paradigm: convergence
check: ./measure.sh
toward: 100
direction: min
tolerance: 5
using: ./improve.sh
max_iterations: 12
"""

RELEASE = """\
name: release
description: Write release notes, ask, publish
initial: notes
states:
  notes: {action: "echo 'Notes for 1.4'", next: ask}
  ask:
    action: echo 'Release 1.4 with these notes?'
    terminal: true
    outcome: review
    next: publish
    on_rejected: notes
    choices: [publish, notes]
  publish: {action: echo published, on_interrupt: ask, next: done}
  done: {terminal: true}
"""

WATCH = """\
name: watch
description: Prints a line now and then until somebody stops it
initial: watch
context: {lines: "100000", pause: "0.2"}
states:
  watch: {action: "i=0; while [ $i -lt ${context.lines} ]; do i=$((i+1)); echo \\"line $i\\"; sleep ${context.pause}; done", next: done}
  done: {terminal: true}
"""

QUICK = """\
name: quick
description: Two steps, done at once
initial: build
states:
  build: {action: "echo building; sleep 0.2; echo built", next: test}
  test: {action: "echo 12 passed", on_pass: done, on_fail: bad}
  done: {terminal: true}
  bad: {terminal: true, outcome: failure}
"""

REVIEW = """\
name: review
description: Look at each file
initial: each
states:
  each:
    for_each: "api.py\\ndb.py\\ncart.py"
    as: file
    action: "sleep 0.1; grep -Hn FIXME src/${branch.file}; test $? -eq 1"
    on_pass: done
    on_fail: bad
  done: {terminal: true}
  bad: {terminal: true, outcome: failure}
"""

BROKEN = """\
name: broken
initial: chekc
states:
  check: {action: make, on_pass: done, on_fial: check}
  done: {terminal: true}
"""

API = """\
def total(prices):  # TODO: type
    return sum(prices)


def discount(price, share):  # TODO: type
    return price * (1 - share)
"""

AGENT = """\
#!/bin/sh
# A stand-in for `claude`: removes one note a turn, and says what that cost.
cat > /dev/null
sleep 0.2
at=$(grep -n 'TODO: type' src/api.py | head -1 | cut -d: -f1)
[ -n "$at" ] && sed -i "${at}s/(prices)/(prices: list[float]) -> float/; ${at}s/(price, share)/(price: float, share: float) -> float/; ${at}s/  # TODO: type//" src/api.py
cat <<'END'
%s
END
"""

TURN = [
    {"type": "system", "subtype": "init", "session_id": "s"},
    {
        "type": "assistant",
        "message": {"content": [{"type": "text", "text": "I annotate the next function."}]},
        "session_id": "s",
    },
    {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "num_turns": 7,
        "result": "The function is annotated.",
        "total_cost_usd": 0.18,
        "usage": {"input_tokens": 38_000, "output_tokens": 3_100},
        "session_id": "s",
    },
]

MEASURE = """\
#!/bin/sh
cat value 2>/dev/null || echo 340
"""
IMPROVE = """\
#!/bin/sh
value=$(cat value 2>/dev/null || echo 340)
echo "trying another cache size"
echo $(( value * 4 / 5 - 3 )) > value
"""


class Shop(Project):
    """The project `shop`: a git repository, with an agent that is a stand-in."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        named = self.root.with_name("shop")
        self.root.rename(named)
        self.root = named
        programs = self.home / "bin"
        programs.mkdir()
        lines = "\n".join(json.dumps(event) for event in TURN)
        self._program(programs / "claude", AGENT % lines)
        (self.root / "src").mkdir()
        for name in ("api.py", "db.py", "cart.py"):
            (self.root / "src" / name).write_text(API if name == "api.py" else "x = 1\n")
        self._program(self.root / "measure.sh", MEASURE)
        self._program(self.root / "improve.sh", IMPROVE)

    def environ(self, **more: str) -> dict[str, str]:
        return super().environ(
            **{
                "PATH": f"{self.home / 'bin'}:{os.environ['PATH']}",
                "GIT_CONFIG_GLOBAL": str(self.home / "gitconfig"),
                "TZ": "UTC",
                "IS_SANDBOX": "1",  # agents refuse to work for root elsewhere
                **more,
            }
        )

    def _program(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def commit(self) -> None:
        """Make it a git repository: then runs record what they change."""
        (self.home / "gitconfig").write_text("[user]\nname = Test\nemail = test@example.org\n")
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-qm", "Start")

    def loops(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            self.loop(name, text)


ALL = {
    "fix-types": FIX_TYPES,
    "tune": TUNE,
    "release": RELEASE,
    "watch": WATCH,
    "quick": QUICK,
    "review": REVIEW,
    "broken": BROKEN,
}


def busy_shop(root: Path) -> Shop:
    """Return a project with past runs, one that waits at a gate, and loops that were never run."""
    shop = Shop(root)
    shop.loops(ALL)
    shop.commit()
    shop.ll("trust", "fix-types")
    for name in ("quick", "quick", "fix-types", "tune", "review", "release"):
        shop.ll("run", name)
    (shop.root / "src" / "db.py").write_text("y = 2  # FIXME\n")
    shop.ll("run", "review")
    return shop
