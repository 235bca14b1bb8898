"""The hidden verbs that relays of version one run as commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from little_loops.cli.relay import main
from little_loops.errors import UsageError

OPTIONS = ["--metadata=meta.json", "--plan=plan.md", "--session=sess_1", "--no-commit"]


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project to be in, and the environment that an action gets."""
    for name in ("project", "run"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "project")
    Path("plan.md").write_text("1. parser\n")
    environment = {"LL_RUN_DIR": tmp_path / "run", "LL_RUN_ID": "run-1", "LL_LOOP": "implement"}
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("LL_ITERATION", "1")
    monkeypatch.setenv("LL_ITERATION_LIMIT", "5")
    return tmp_path / "run"


def test_a_turn(run_dir: Path, capfd: pytest.CaptureFixture[str]):
    assert main(["prepare", *OPTIONS]) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["verdict"], told["session_id"]) == ("ready", "sess_1_iter1")
    Path("meta.json").write_text('{"status": "implemented"}')
    assert main(["settle", *OPTIONS[:2], "--no-commit", "--scope=src", "--after=turn"]) == 0
    assert capfd.readouterr().out == "turn 1 of 5: implemented\nVERDICT: implemented\n"


def test_a_guard_that_is_gone_hides_no_report(run_dir: Path, capfd: pytest.CaptureFixture[str]):
    main(["prepare", *OPTIONS])
    Path(".postflight-loop-guard").unlink()
    Path("meta.json").write_text('{"status": "partial"}')
    assert main(["settle", *OPTIONS]) == 0
    assert capfd.readouterr().out.endswith("VERDICT: partial\n")


def test_the_same_error_waits_where_no_machine_does(
    run_dir: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    for number in ("1", "2"):
        monkeypatch.setenv("LL_ITERATION", number)
        main(["prepare", *OPTIONS])
        assert main(["settle", *OPTIONS]) == 0
    assert capfd.readouterr().err == "the same error twice in a row: waiting 1 s\n"


def test_what_is_odd_is_printed_as_a_warning(run_dir: Path, capfd: pytest.CaptureFixture[str]):
    Path("meta.json").write_text('{"status": "partial"}')
    assert main(["prepare", *OPTIONS]) == 0
    warning = "an older metadata file was moved to the run's directory\n"
    assert capfd.readouterr().err == warning


def test_what_makes_it_impossible(run_dir: Path, capfd: pytest.CaptureFixture[str]):
    Path("meta.json").mkdir()
    assert main(["prepare", *OPTIONS]) == 2
    told = capfd.readouterr().out
    assert told == "FATAL_ERROR: `meta.json` is a directory; `metadata` names a file\n"


def test_outside_of_a_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LL_RUN_DIR", raising=False)
    with pytest.raises(UsageError) as caught:
        main(["prepare", *OPTIONS])
    assert caught.value.message == ("`LL_RUN_DIR` is not set: only relay loops run this command")
    with pytest.raises(UsageError, match="required: --metadata"):
        main(["prepare"])
    with pytest.raises(UsageError, match="invalid choice"):
        main(["finish", *OPTIONS])
