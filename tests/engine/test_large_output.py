"""An output in a file: what is found in it is what would be found in its text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from little_loops.engine.judging import judge_bounded
from little_loops.engine.large_output import END_BYTES, LargeOutput
from little_loops.engine.resolve import LARGE_BYTES
from little_loops.fsm.conditions import Observation, judge
from little_loops.fsm.schema import All, OutputContains, OutputJson, OutputNumeric, VerdictWords
from tests.project import Project

FILLING = "filling → \N{GRINNING FACE}\n" * (LARGE_BYTES // 16)


@pytest.fixture
def seen(tmp_path):
    """Observe a string that lies in a file."""

    def seen(text: str | bytes) -> Observation:
        path = tmp_path / "output"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        large = LargeOutput(str(path))
        return Observation(0, None, large.ends(), large=large)

    return seen


CONDITIONS = [
    OutputContains("needle"),
    OutputContains("nee.le$"),
    OutputContains("^ne+dle 7"),
    OutputContains("→ \N{GRINNING FACE}"),
    OutputContains("7\\n"),
    OutputContains("haystack", negate=True),
    OutputContains("x\ufffd"),
    OutputContains("x.z"),
    OutputNumeric(7),
    VerdictWords(),
    All((OutputContains("needle"), OutputContains("fil+ing"), OutputNumeric(7))),
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(FILLING + "needle\n7\n", id="at the end"),
        pytest.param("needle\r\n" + FILLING + "VERDICT: pass\n", id="at the beginning"),
        pytest.param(FILLING + "needle 7" + FILLING + "7\n\n \n", id="in the middle"),
        pytest.param(FILLING + "7" + "\n" * 2 * END_BYTES, id="before many blanks"),
        pytest.param("x\n" + FILLING + "17" + "\n" * (END_BYTES - 1), id="cut in its last word"),
        pytest.param("1" * 2 * LARGE_BYTES, id="one line"),
        pytest.param(FILLING.encode() + b"x\xffz\n7", id="bytes that are no text"),
        pytest.param(FILLING.encode() + b"needle \xe2", id="half a character at the end"),
        pytest.param(("x" * (LARGE_BYTES - 1) + "→" * LARGE_BYTES), id="a character over the edge"),
    ],
)
def test_the_verdict_is_that_on_the_whole_text(condition, text, seen):
    whole = text if isinstance(text, str) else text.decode("utf-8", "replace")
    expected = judge(condition, Observation(0, None, whole.removesuffix("\n")))
    given = judge_bounded(condition, seen(text), seconds=20)
    assert (given.verdict, given.reason[:60]) == (expected.verdict, expected.reason[:60])


def test_a_large_json_text(seen):
    text = '{"filling": "' + "x" * LARGE_BYTES + '", "n": 5}\n'
    assert judge_bounded(OutputJson(".n", 5), seen(text), seconds=20).verdict == "pass"


@pytest.mark.parametrize("pattern", ["needle", "nee.le"])
def test_a_file_that_is_gone(pattern, seen, tmp_path):
    observed = seen(FILLING)
    (tmp_path / "output").unlink()
    given = judge_bounded(OutputContains(pattern), observed)
    assert given.verdict == "error"
    assert given.reason.startswith(
        "the output cannot be read: No such file or directory; the output is "
    )


MEASURED = """
import resource, sys
from little_loops.fsm.conditions import Observation
from little_loops.fsm.schema import OutputContains
from little_loops.engine.judging import judge_bounded
from little_loops.engine.large_output import LargeOutput

def peak():
    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return max(resource.getrusage(each).ru_maxrss for each in who)

judge_bounded(OutputContains("x.y"), Observation(0, None, "x"))
before = peak()
large = LargeOutput(sys.argv[1])
seen = Observation(0, None, large.ends(), large=large)
for pattern in ("needle", "nee.le"):
    judgement = judge_bounded(OutputContains(pattern), seen, seconds=60)
    assert judgement.verdict == "pass", judgement
print((peak() - before) * (1 if sys.platform == "darwin" else 1024))
"""


def test_it_takes_little_more_memory_than_its_bytes(tmp_path):
    size = 32 << 20
    path = tmp_path / "output"
    path.write_bytes(("→ \N{GRINNING FACE}\n".encode() * (size // 9)) + b"needle\n")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 1.5 * size


def test_a_run_judges_a_large_output_by_all_of_it(project: Project):
    project.loop(
        "large",
        """\
        name: large
        initial: look
        states:
          look:
            action: "seq 200000; echo needle; seq 200000; echo 7"
            condition:
              type: all
              of:
                - {type: output_contains, pattern: needle}
                - {type: output_numeric, operator: eq, target: 7}
                - {type: not, of: {type: output_contains, pattern: "^haystack$"}}
            on_pass: done
          done: {terminal: true}
        """,
    )
    ran = project.ll("run", "large")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_variable_that_the_shell_runs_takes_no_data(project: Project):
    project.loop(
        "env",
        """\
        name: env
        initial: say
        shell: bash
        states:
          say: {action: "echo 'touch ran'", next: use}
          use: {action: "true", env: {BASH_ENV: "${captured.say.output}"}, next: done}
          done: {terminal: true}
        """,
    )
    ran = project.ll("run", "env")
    assert ran.returncode != 0
    assert not (project.root / "ran").exists()


BIG = """\
name: big
initial: print
states:
  print: {action: 'yes | head -c 60000000', capture: big, next: forget}
  forget: {action: 'rm "${captured.big.file}"', next: use}
  use: {action: 'echo "${captured.big.output}"', next: done, on_error: as_env}
  as_env: {action: 'echo "$BIG"', env: {BIG: "${captured.big.output}"}, next: done, on_error: last}
  last: {action: 'true', context: {big: "${captured.big.output}"}, next: done, on_error: done}
  done: {terminal: true}
"""
TOO_LARGE = (
    "{field}: `${{captured.big.output}}` is 60000000 bytes long, but a shell action accepts"
    " less than 128 KiB: read it from the file `${{captured.big.file}}`"
)


def test_what_no_process_can_be_given_is_refused_by_its_size(project: Project):
    """Its file is gone, so nobody can have read it to find that out."""
    project.loop("big", BIG)
    ran = project.ll("run", "big")
    assert ran.returncode == 1, ran.stderr
    failures = {
        event["state"]: event["failure"]
        for event in project.events("big")
        if event["event"] == "action_complete" and event.get("failure")
    }
    assert failures == {
        "use": TOO_LARGE.format(field="`action`"),
        "as_env": TOO_LARGE.format(field="`env.BIG`"),
        "last": TOO_LARGE.format(field="`context.big`"),
    }
