"""The measuring harness, with real processes: stand-ins for the tool, never a figure asserted."""

from __future__ import annotations

import json
import os
import sys

import pytest

from bench.__main__ import main
from bench.measure import sampler
from bench.model import Command, NotMeasured

# A tool that answers every command at once, and ends as a limit does where steps are counted.
STAND_IN = "import sys; sys.exit(3 if 'steps-' in sys.argv[-1] else 0)"


def python(program: str, cwd: str, exit_code: int = 0) -> Command:
    return Command((sys.executable, "-c", program), cwd, exit_code)


def test_a_wrong_exit_code_is_not_a_measurement(tmp_path):
    with pytest.raises(NotMeasured, match=r"(?s)exit 1 instead of 0 .*: gone$"):
        sampler(os.environ)(python("import sys; sys.exit('gone')", str(tmp_path)))


def test_what_comes_before_a_command_is_done_each_time(tmp_path):
    done: list[None] = []
    command = python("pass", str(tmp_path))._replace(before=lambda: done.append(None))
    take = sampler(os.environ)
    take(command)
    take(command)
    assert len(done) == 2


def test_the_rows_asked_for_are_measured_and_written(tmp_path, capsys):
    stand_in = tmp_path / "tool.py"
    stand_in.write_text(STAND_IN)
    file = tmp_path / "figures.json"
    tool = f"{sys.executable} {stand_in}"
    asked = ["1", "validate", "--ours", tool, "--compare", tool]
    status = main([*asked, "--repeats", "2", "--json", str(file)])
    document = json.loads(file.read_text())
    names = [[each["name"] for each in row["candidates"]] for row in document["rows"]]
    assert names == [
        ["python -c pass", "a parser's help", "compared", "ours"],
        ["python -c pass", "a YAML file read", "compared", "ours"],
    ]
    assert (status == 0) is document["holds"]
    assert "validate one loop" in capsys.readouterr().out


def test_an_unknown_row_is_refused(capsys):
    assert main(["no-such-row"]) == 2
    assert capsys.readouterr().err == "bench: no row is called no-such-row\n"
