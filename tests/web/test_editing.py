"""Editing by the API: what a text means, what operations make of it, and saving it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from little_loops.errors import UsageError
from little_loops.web.editing import convert, fields, preview, save, source
from little_loops.web.errors import ApiError
from little_loops.web.questions import Query
from little_loops.web.security import Policy
from little_loops.web.site import Site
from tests.authoring.edits.files import COMMENTED, CRLF

GOAL = """\
paradigm: goal
name: types   # short
goal: No type errors
tools: [mypy src, make fix]
"""


@pytest.fixture
def loops(tmp_path: Path) -> Path:
    folder = tmp_path / ".loops"
    folder.mkdir()
    (folder / "fix.yaml").write_bytes(CRLF.encode())
    (folder / "types.yaml").write_text(GOAL)
    return folder


@pytest.fixture
def site(loops: Path) -> Site:
    return Site([str(loops.parent)], Policy("token", edit=True), {})


def asked(loop: str = "fix.yaml", **body: Any) -> Query:
    return Query({"loop": loop}, {}, body)


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_source_has_its_text_states_and_machine(site: Site, loops: Path):
    found = source(site, asked())
    assert found["text"] == CRLF
    assert found["hash"] == hash_of(loops / "fix.yaml")
    assert [state["name"] for state in found["outline"]["states"]] == [
        "check",
        "fix",
        "tests",
        "done",
        "broken",
    ]
    assert found["outline"]["states"][1]["transitions"] == [
        {"on": "next", "target": "check", "line": 27}
    ]
    assert [state["name"] for state in found["machine"]["states"]] == [
        state["name"] for state in found["outline"]["states"]
    ]
    assert (found["file"], found["problems"], found["form"]) == (".loops/fix.yaml", [], "loop")


def test_a_paradigm_has_its_own_form_and_the_machine_that_it_compiles_to(site: Site):
    found = source(site, asked("types.yaml"))
    assert found["outline"]["states"] is None
    assert found["form"] == "paradigm goal"
    assert found["form"] in fields(site, asked())["tables"]
    assert "evaluate" in [state["name"] for state in found["machine"]["states"]]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        pytest.param("check: pytest\nfix: make fix\n", "paradigm check_fix", id="the short form"),
        pytest.param("paradigm: nothing\n", "loop", id="a paradigm that does not exist"),
        pytest.param("name: x\n", "loop", id="nothing yet"),
        pytest.param("[", "loop", id="not YAML"),
    ],
)
def test_the_form_of_a_text(site: Site, text: str, form: str):
    assert preview(site, asked(text=text))["form"] == form


def test_a_preview_changes_nothing_on_disk(site: Site, loops: Path):
    operations = [
        {"op": "rename_state", "state": "fix", "to": "repair"},
        {"op": "connect", "state": "check", "on": "pass", "target": "nowhere"},
    ]
    with pytest.raises(UsageError, match="there is no state `nowhere`"):
        preview(site, asked(text=CRLF, operations=operations))
    found = preview(site, asked(text=CRLF, operations=operations[:1]))
    assert found["text"] == CRLF.replace("fix:   #", "repair:   #").replace(
        "on_fail: fix", "on_fail: repair"
    )
    changed = [line for line in found["diff"].split("\n") if line.startswith(("+", "-", "@"))]
    assert changed == [
        "--- a/.loops/fix.yaml",
        "+++ b/.loops/fix.yaml",
        "@@ -14,10 +14,10 @@",
        "-    on_fail: fix",
        "+    on_fail: repair",
        "-  fix:   # by an agent",
        "+  repair:   # by an agent",
        "@@ -33,7 +33,7 @@",
        "-    on_fail: fix",
        "+    on_fail: repair",
    ]
    assert (loops / "fix.yaml").read_bytes() == CRLF.encode()


def test_problems_are_those_of_validate_at_their_state_and_line(site: Site):
    text = COMMENTED.replace("    next: check    # again", "    next: chekc    # again")
    [problem] = preview(site, asked(text=text))["problems"]
    assert (problem["state"], problem["line"], problem["severity"]) == ("fix", 27, "error")
    assert problem["help"] == "did you mean `check`?"
    named = GOAL.replace("name: types", "name: fix-types")
    [same] = preview(site, asked("types.yaml", text=named))["problems"]
    assert (same["code"], same["state"]) == ("LL015", None)


def test_save_keeps_the_mode_of_the_file_and_a_link(site: Site, loops: Path):
    real = loops.parent / "elsewhere.yaml"
    os.rename(loops / "fix.yaml", real)
    real.chmod(0o640)
    (loops / "fix.yaml").symlink_to(real)
    found = save(site, asked(text=COMMENTED, hash=hash_of(real)))
    assert real.read_text() == COMMENTED
    assert (loops / "fix.yaml").is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert found["hash"] == hash_of(real)
    assert sorted(each.name for each in loops.iterdir()) == ["fix.yaml", "types.yaml"]


def test_a_file_that_has_changed_is_not_overwritten(site: Site, loops: Path):
    before = hash_of(loops / "types.yaml")
    (loops / "types.yaml").write_text(GOAL.replace("mypy src", "mypy ."))
    with pytest.raises(ApiError) as caught:
        save(site, asked("types.yaml", text=GOAL, hash=before))
    error = caught.value
    assert (error.status, error.code) == (409, "changed")
    assert error.message == "`types.yaml` has changed since you opened it"
    assert error.more["text"] == GOAL.replace("mypy src", "mypy .")
    assert error.more["hash"] == hash_of(loops / "types.yaml")
    assert "-tools: [mypy ., make fix]\n+tools: [mypy src, make fix]" in error.more["diff"]
    assert (loops / "types.yaml").read_text() == GOAL.replace("mypy src", "mypy .")


def test_convert_writes_a_copy_with_states_once(site: Site, loops: Path):
    found = convert(site, asked("types.yaml"))
    assert (found["key"], found["file"]) == ("types.states.yaml", ".loops/types.states.yaml")
    copy = source(site, asked(found["key"]))
    assert copy["text"].startswith("# compiled from ")
    assert (loops / "types.states.yaml").stat().st_mode == (loops / "types.yaml").stat().st_mode
    assert copy["problems"] == []
    assert copy["machine"] == source(site, asked("types.yaml"))["machine"]
    with pytest.raises(UsageError, match=r"there is already a file `types\.states\.yaml`"):
        convert(site, asked("types.yaml"))
    (loops / "types.yaml").write_text("goal: [")
    with pytest.raises(UsageError, match="this loop has errors"):
        convert(site, asked("types.yaml"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({}, "`text` must be the file's text", id="no text"),
        pytest.param(
            {"text": "\ud800"}, "`text` contains half of a surrogate pair", id="a surrogate"
        ),
        pytest.param(
            {"text": "", "operations": {}},
            "`operations` must be a list of at most 100",
            id="no list",
        ),
        pytest.param(
            {"text": "", "operations": [{"op": "rename_state"}]},
            "`rename_state` has no valid `state`",
            id="not an operation",
        ),
    ],
)
def test_wrong_requests(site: Site, body: dict[str, Any], message: str):
    with pytest.raises(ApiError) as caught:
        preview(site, asked(**body))
    assert (caught.value.status, caught.value.message) == (400, message)


def test_texts_and_files_that_cannot_be_edited(site: Site, loops: Path):
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        preview(site, asked(text="x" * (1 << 20) + "x"))
    (loops / "fix.yaml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        source(site, asked())
    (loops / "fix.yaml").unlink()
    os.mkfifo(loops / "fix.yaml")
    with pytest.raises((UsageError, ApiError)):
        source(site, asked())
