"""An answer in time, whatever is asked: real children, real limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from little_loops.engine.judging import judge_bounded
from little_loops.fsm.conditions import Observation, judge
from little_loops.fsm.schema import (
    All,
    Convergence,
    ExitCode,
    OutputContains,
    OutputJson,
    OutputNumeric,
)
from little_loops.fsm.state import Judgement, Metric

FOREVER = "def f: f; f"


def printed(output):
    return Observation(0, None, output)


def wait_for(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.005)


def children():
    return psutil.Process().children()


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No child, dead or alive, and no descriptor more than before."""
    own = psutil.Process()
    before = own.num_fds()
    yield
    assert (own.children(), own.num_fds()) == ([], before)


@pytest.mark.parametrize(
    ("condition", "output"),
    [
        pytest.param(OutputContains("^[0-9]+ passed$"), "12 passed\n", id="a pattern"),
        pytest.param(OutputContains("x.y", negate=True), "12 passed\n", id="negated"),
        pytest.param(OutputContains("(?=a)"), "a", id="a refused pattern"),
        pytest.param(OutputJson(".n", 0, "gt"), '{"n": 3}', id="a path"),
        pytest.param(OutputJson(".n", 0), "oops", id="not JSON"),
        pytest.param(OutputJson(".", "\udce9 \x00 ü"), '"ü"', id="awkward characters"),
        pytest.param(All((ExitCode(), OutputContains("a+"), OutputJson(".", 1))), "1", id="both"),
        pytest.param(OutputNumeric(0), "1", id="nothing to bound"),
    ],
)
def test_the_answer_is_that_of_judge(condition, output):
    assert judge_bounded(condition, printed(output)) == judge(condition, printed(output))


def test_the_memory_of_a_measurement_is_kept():
    judgement = judge_bounded(Convergence(0), printed("12"), Metric(10))
    assert judgement == judge(Convergence(0), printed("12"), Metric(10))
    assert judgement.metric == Metric(10, 1)


def test_sources():
    condition = All((OutputJson(".", 1, source="a"), OutputContains("^b", source="b")))
    sources = {"a": printed("1"), "b": printed("b")}
    assert judge_bounded(condition, printed(""), sources=sources).verdict == "pass"


@pytest.mark.parametrize(
    ("pattern", "text", "verdict"),
    [
        ("(a+)+$", "a" * (64 << 20), "pass"),
        ("(a+)+$", "a" * 30 + "!", "fail"),
        ("(.*error.*)*x", "error " * 100_000, "fail"),
        ("(x+x+)+y", "x" * 1_000_000, "fail"),
        (r"([a-zA-Z0-9_]+)*@", "a" * 1_000_000, "fail"),
    ],
    ids=["64 MiB", "27 characters", "nested stars", "sums", "mail"],
)
def test_patterns_that_explode_elsewhere(pattern, text, verdict):
    assert judge_bounded(OutputContains(pattern, regex=True), printed(text)).verdict == verdict


@pytest.mark.parametrize(
    "path",
    [
        FOREVER,
        "[limit(1e9; repeat(1))]",
        "until(false; .)",
        "reduce range(1e12) as $i (0; . + 1)",
        "last(range(infinite))",
    ],
)
def test_filters_without_an_end(path):
    judgement = judge_bounded(OutputJson(path, 1), printed("1"), seconds=0.2)
    reason = "`output_json` did not finish within 0.2 s; the output is '1'"
    assert judgement == Judgement("error", reason)


@pytest.mark.parametrize("path", ["repeat(.)", "range(infinite)"])
def test_endless_values_are_more_than_one(path):
    judgement = judge_bounded(OutputJson(path, 1), printed("1"))
    assert judgement == Judgement("error", f"`{path}` gave more than one value; the output is '1'")


def test_a_child_that_is_killed_has_not_answered():
    judgements = []
    condition = OutputJson(FOREVER, 1)

    def work():
        judgements.append(judge_bounded(condition, printed("1"), seconds=60))

    thread = threading.Thread(target=work)
    thread.start()
    wait_for(children)
    children()[0].kill()
    thread.join(60)
    reason = "`output_json` ran out of memory or crashed; the output is '1'"
    assert judgements == [Judgement("error", reason)]


def test_memory_has_a_bound():
    judgement = judge_bounded(OutputJson('"x" * 1900000000', 1), printed("1"), seconds=60)
    reason = "`output_json` ran out of memory or crashed; the output is '1'"
    assert judgement == Judgement("error", reason)


def test_the_environment_is_not_seen(monkeypatch):
    monkeypatch.setenv("API_KEY", "not for filters")
    for name in ("env", "$ENV"):
        # Which a C library may set behind Python's back; readline does.
        condition = OutputJson(f"{name} | del(.LINES, .COLUMNS) | length", 0)
        assert judge(condition, printed("1")).verdict == "fail"
        assert judge_bounded(condition, printed("1")).verdict == "pass"
    assert os.environ["API_KEY"] == "not for filters"


def test_no_file_is_read(tmp_path):
    (tmp_path / "data.json").write_text("7")
    condition = OutputJson(f'import "data" as $d {{search: "{tmp_path}"}}; $d[0]', 7)
    assert judge(condition, printed("1")).verdict == "pass"
    judgement = judge_bounded(condition, printed("1"))
    assert judgement.verdict == "error"
    assert "is not a valid jq filter: jq: error loading data file" in judgement.reason


def test_nothing_is_printed(capfd):
    for path in ("stderr", "debug", "halt_error", "input_line_number"):
        judge_bounded(OutputJson(path, 1), printed("1"))
    judge_bounded(OutputContains("(?!x)", regex=True), printed("1"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP],
    ids=lambda number: number.name,
)
def test_what_a_terminal_sends_to_the_group_is_no_verdict(number):
    judgements = []
    condition = OutputJson(FOREVER, 1)

    def work():
        judgements.append(judge_bounded(condition, printed("1"), seconds=0.5))

    thread = threading.Thread(target=work)
    thread.start()
    wait_for(lambda: children() or judgements)
    for child in children():
        child.send_signal(number)
    thread.join(60)
    reason = "`output_json` did not finish within 0.5 s; the output is '1'"
    assert judgements == [Judgement("error", reason)]


class Interrupted(Exception):
    pass


def test_an_exception_while_waiting_leaves_no_child():
    def interrupt(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Interrupted):
            judge_bounded(OutputJson(FOREVER, 1), printed("1"), seconds=60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_mask_of_signals_is_as_before():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    judge_bounded(OutputJson(".", 1), printed("1"))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


KILLED_PARENT = f"""
from little_loops.fsm.conditions import Observation
from little_loops.fsm.schema import OutputJson
from little_loops.engine.judging import judge_bounded
judge_bounded(OutputJson({FOREVER!r}, 1), Observation(0, None, "1"), seconds=1)
"""


def test_a_child_does_not_outlive_its_parent_for_long():
    parent = subprocess.Popen([sys.executable, "-c", KILLED_PARENT])
    try:
        wait_for(lambda: psutil.Process(parent.pid).children())
        child = psutil.Process(parent.pid).children()[0]
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_many_at_once():
    verdicts = []

    def work(number):
        condition = OutputJson(".", number)
        verdicts.append(judge_bounded(condition, printed(str(number)), seconds=60).verdict)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert verdicts == ["pass"] * 20


@pytest.mark.parametrize("closed", [(0,), (0, 1, 2)], ids=["stdin", "all three"])
def test_without_standard_streams(closed):
    script = f"""
import os
from little_loops.fsm.conditions import Observation
from little_loops.fsm.schema import OutputJson
from little_loops.engine.judging import judge_bounded
for fd in {closed!r}:
    os.close(fd)
judgement = judge_bounded(OutputJson(".", 1), Observation(0, None, "1"), seconds=60)
os._exit(0 if judgement.verdict == "pass" else 1)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
