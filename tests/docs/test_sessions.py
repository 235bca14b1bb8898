"""Pages and sessions as data."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tools.pages import Block, Page, read_page, slug
from tools.sessions import Command, Stage, commands, is_typed, matches, normal, page_name

PAGE = dedent("""\
    # A page

    See [there](other.md#part), not `[this](one)`.

    ```yaml
    # .loops/a.yaml
    name: a
    ```

    - in a list:

      ```console
      # requires the moon
      $ fly
      ```

    ## A page
    """)


def block(text: str) -> Block:
    return Block("console", (), text, 1)


def test_a_page_is_read() -> None:
    page = Page("docs/x.md", PAGE)
    assert [(each.language, each.file, each.not_run) for each in page.blocks] == [
        ("yaml", ".loops/a.yaml", None),
        ("console", None, "the moon"),
    ]
    assert page.blocks[1].text == "# requires the moon\n$ fly\n"
    assert page.links == [(3, "other.md#part")]
    assert page.anchors == {"a-page", "a-page-1"}


def test_a_block_that_is_never_closed_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="line 1"):
        _ = Page("x", "```yaml\na: 1\n").blocks


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("What `on_fail` does, and when", "what-on_fail-does-and-when"),
        ("LL201: `initial` names no state", "ll201-initial-names-no-state"),
        ('"Cannot start": something', "cannot-start-something"),
        ("[A link](x.md) inside", "a-link-inside"),
    ],
)
def test_an_anchor_is_made_of_a_heading(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


def test_a_session_is_commands_with_what_they_print() -> None:
    text = "$ cat <<END\n> one\n> END\none\n$ true\n$ echo '> x'\n> x\n"
    assert commands(block(text)) == [
        Command("cat <<END\none\nEND", ("one",)),
        Command("true", ()),
        Command("echo '> x'\nx", ()),
    ]
    with pytest.raises(ValueError, match="begins with a command"):
        commands(block("printed\n"))


@pytest.mark.parametrize(
    ("line", "left"),
    [
        (
            "Loop completed: done (3 iterations, 2m 34s)",
            "Loop completed: done (3 iterations, TIME)",
        ),
        ("x runs (pid 4242); log: y", "x runs (pid N); log: y"),
        ("copy  ! interrupted 12s ago   pack", "copy  ! interrupted AGO  pack"),
        ("2026-11-15T21-55-45  ok", "STAMP  ok"),
        ("20261115T215545-0123abcd/3", "RUN/3"),
        ("    timeout 30m", "  timeout 30m"),
        ("3 measures", "3 measures"),
    ],
)
def test_what_differs_from_run_to_run_is_not_compared(line: str, left: str) -> None:
    assert normal(line) == left


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["a"], False),
        (["a"], ["a", "b"], False),
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a", "…", "d"], ["a", "d"], True),
        (["…"], [], True),
        (["…", "b"], ["a", "c"], False),
        (["took 1.2s"], ["took 45ms"], True),
    ],
)
def test_lines_are_compared(expected: list[str], printed: list[str], same: bool) -> None:
    assert matches(expected, printed) is same


def test_a_page_has_stand_ins_of_its_own() -> None:
    assert page_name("docs/howto/recover.md") == "howto-recover"
    assert page_name("README.md") == "readme"


def test_what_the_tutorial_has_typed_can_be_copied() -> None:
    """No prompt stands before a command, and no file has to be made out of a block by hand."""
    blocks = read_page("docs/tutorial.md").blocks
    assert [each.line for each in blocks if each.language == "console" and not each.not_run] == []
    assert [each.line for each in blocks if each.file is not None] == []
    assert sum(map(is_typed, blocks)) > 10


def test_a_typed_block_goes_on_where_the_one_before_left_the_shell(tmp_path: Path) -> None:
    stage = Stage(str(tmp_path), str(tmp_path / "props"))
    assert stage.run(Command("mkdir a; cd a; false", ())) == []
    assert stage.run(Command("echo $?; pwd", ())) == ["1", "/home/you/project/a"]
