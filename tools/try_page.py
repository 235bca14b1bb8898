"""Serve the page over a small shop with runs of every kind, for somebody who has never seen it.

    python -m tools.try_page [--port N]

Give a reader the URL and the tasks that it prints, and watch: each should take less than a minute,
without help.  The agent is a stand-in, so nothing costs money.  Ctrl-C ends it, and removes the project.

Not here: what tests of the page use (`tests/e2e/shop.py`).
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.shop import IMPROVE, MEASURE, Shop

TASKS = """\
1. A run of `deploy` did not end well. Why did it stop?
2. What did the last run of `fix-types` cost?
3. `speed-up` has stopped before it was done. Let it continue.
4. What did the agent change the third time that it ran in `fix-types`?
5. Let the state `smoke` of the loop `deploy` be tried up to three times in all, before it counts as failed.
"""
LOOPS = {
    "fix-types": """\
name: fix-types
description: Annotate src/ until the type check passes
initial: check
max_iterations: 10
states:
  check:   # one line for each function that has no types yet
    action: "grep -Hn 'TODO: type' src/*.py | cut -d'#' -f1; n=$(cat src/*.py | grep -c 'TODO: type'); echo \\"Found $n errors\\"; test $n -eq 0"
    on_pass: done
    on_fail: fix
  fix:
    action: "Fix the first type error that the check has found."
    action_type: prompt
    next: check
  done: {terminal: true}
""",
    "deploy": """\
name: deploy
description: Build, deploy, and see whether it is up
initial: build
states:
  build: {action: "echo building shop:1.4; sleep 0.3; echo built", on_pass: release, on_fail: broken}
  release: {action: "echo 'shop:1.4 is on staging'", next: smoke}
  smoke:   # is it up?
    action: "echo GET /health; sleep 0.1; echo 'HTTP 503: no connection to the database' >&2; exit 1"
    on_pass: done
    on_fail: broken
  done: {terminal: true}
  broken: {terminal: true, outcome: failure}
""",
    "speed-up": """\
name: speed-up
description: Make the search faster, down to 100 ms
scope: [value]
paradigm: convergence
check: ./measure.sh
toward: 100
direction: min
tolerance: 5
using: ./improve.sh
max_iterations: 3
""",
    "release": """\
name: release
description: Write release notes, ask, publish
initial: notes
states:
  notes: {action: "echo '1.4: types everywhere, faster search'", next: ask}
  ask:
    action: "echo 'Publish 1.4 with these notes: types everywhere, faster search?'"
    terminal: true
    outcome: review
    next: publish
    on_rejected: notes
    choices: [publish, notes]
  publish: {action: echo published, next: done}
  done: {terminal: true}
""",
    "import-orders": """\
name: import-orders
description: Read the orders of last year, one after the other
scope: [orders]
initial: read
states:
  read: {action: "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo \\"order $i: 2 articles, stored\\"; sleep 0.5; done", next: done}
  done: {terminal: true}
""",
    "tests": """\
name: tests
description: All tests, after each change
initial: run
states:
  run: {action: "sleep 0.1; if [ -e flaky ]; then rm flaky; echo 'test_cart.py::test_total FAILED' >&2; exit 1; fi; echo 41 passed", on_pass: done, on_fail: bad}
  done: {terminal: true}
  bad: {terminal: true, outcome: failure}
""",
}
SOURCES = {
    "cart.py": "def total(prices):  # TODO: type\n    return sum(prices)\n",
    "prices.py": "def discount(price, share):  # TODO: type\n    return price * (1 - share)\n",
    "orders.py": 'def number(order):  # TODO: type\n    return "%s-%04d" % (order.shop, order.id)\n',
    "stock.py": "def left(stock, name):  # TODO: type\n    return stock.get(name, 0)\n",
}
# Which file a turn changes, how, and what the turn says and costs.
TURNS = (
    ("cart.py", "(prices)/(prices: list[float]) -> float/", "I annotate `total`.", 0.21),
    ("orders.py", '(order)/(order: "Order") -> str/', "I annotate `number`.", 0.17),
    ("prices.py", "(price, share)/(price: float, share: float) -> float/", "Next: `discount`.", 0.34),
    ("stock.py", "(stock, name)/(stock: dict[str, int], name: str) -> int/", "The last one.", 0.12),
)  # fmt: skip


def agent() -> str:
    """The program that stands in for `claude`: annotates one function a turn."""
    lines = ["#!/bin/sh", "cat > /dev/null", "sleep 0.4"]
    for number, (file, change, said, cost) in enumerate(TURNS):
        text = {"content": [{"type": "text", "text": said}]}
        usage = {"input_tokens": 21_000 + 9_000 * number, "output_tokens": 1_400}
        result = {"subtype": "success", "is_error": False, "result": said, "num_turns": 4}
        events: Sequence[object] = (
            {"type": "system", "subtype": "init", "session_id": "s"},
            {"type": "assistant", "message": text, "session_id": "s"},
            {"type": "result", **result, "total_cost_usd": cost, "usage": usage, "session_id": "s"},
        )
        lines += [
            f"if grep -q 'TODO: type' src/{file}; then",
            f"sed -i 's/{change}; s/  # TODO: type//' src/{file}",
            "cat <<'END'",
            *map(json.dumps, events),
            "END",
            "exit 0; fi",
        ]
    return "\n".join([*lines, ""])


def lived_in_shop(root: Path) -> Shop:
    """Return a project in which every loop has run."""
    shop = Shop(root)
    for path in (shop.root / "src").iterdir():
        path.unlink()
    for name, text in SOURCES.items():
        (shop.root / "src" / name).write_text(text)
    (shop.home / "bin" / "claude").write_text(agent())
    (shop.root / "measure.sh").write_text(MEASURE)
    (shop.root / "improve.sh").write_text(IMPROVE)
    (shop.root / "orders").mkdir()
    shop.loops(LOOPS)
    shop.commit()
    shop.ll("trust", "fix-types")
    for number in range(8):
        if number == 5:
            (shop.root / "flaky").touch()
        shop.ll("run", "tests")
    for name in ("fix-types", "deploy", "speed-up", "release"):
        shop.ll("run", name)
    shop.ll("run", "import-orders", "--background")
    return shop


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.try_page", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="instead of any free one")
    port = parser.parse_args().port
    with tempfile.TemporaryDirectory(prefix="ll-try-") as place:
        print("preparing a project, some seconds…", flush=True)
        shop = lived_in_shop(Path(place))
        server = subprocess.Popen(
            shop.argv("web", "--edit", "--no-open", "--port", str(port)),
            cwd=shop.root,
            env=shop.environ(),
        )
        print(f"\nTasks, each to be done in the browser within a minute:\n\n{TASKS}", flush=True)
        try:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            return server.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            server.terminate()
            server.wait()
            shop.ll("stop", "import-orders")
            shop.end_actions()


if __name__ == "__main__":
    raise SystemExit(main())
