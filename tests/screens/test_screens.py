"""Every screen looks as its picture in `snapshots`, and says the same on every other terminal.

The picture is that of 80 columns, colours and UTF-8.  Without colours a screen is the picture without
them; in ASCII each sign is replaced by its word; 50 and 120 columns show the same words in the same order,
and no row is too long.  `make test` plays the picture and the barest terminal (50 columns, no colours,
ASCII), and a few scenes on all twelve kinds; `make soak` plays all scenes on all kinds.

After an intended change: `python -m tools.screens --write`, then read the diff.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

import pytest

from little_loops.cli.commands import VERBS
from tests.screens.scenes import SCENES, Scene
from tools.screens import (
    BROKEN,
    KEPT,
    PICTURED,
    Variant,
    difference,
    is_same,
    path_of,
    played,
    variants,
    with_long_pids,
)

AGAIN = "\n\nif this is intended: python -m tools.screens --write "
# What is meant for programs, or for a clipboard, is not ours to break: a terminal does it.
AS_IT_IS = {
    "compile": "YAML",
    "diff": "what git prints",
    "logs": "what actions printed",
}
# Tables leave out columns, and long values are cut; every row of the picture is there.
SHORTENED = {
    "cost",
    "help-exit-codes",
    "history",
    "history-all",
    "list",
    "list-new",
    "run-branches",
    "run-invalid",
    "run-live",
    "status",
    "status-all",
    "validate",
}
# What the letters of a column mean is left out with the column.
LEGENDS = {"PATH:"}
# For programs, or in the scene of another verb.
NOT_SHOWN = {
    "schema": "JSON",
    "completion": "a script",
    "wait": "the last line of a run",
    "web": "a URL, compared by its own tests",
    "worker": "it serves a fleet; its lines are compared by the tests with a real one",
    "notify": "a line for each address, compared by its own tests",
    "worktrees": "three lines about each worktree, compared by its own tests",
    **dict.fromkeys(
        ("test", "simulate", "steps", "undo", "fork", "replay", "report"),
        "shown in the manual, and compared there",
    ),
}
ON_EVERY_TERMINAL = ("run", "list", "validate", "doctor")

# What a terminal without UTF-8 is shown instead.
IN_ASCII = {
    "✓ output: utf-8": "- output: ascii: symbols are shown as words\n"
    "    fix: LANG=C.UTF-8, or PYTHONIOENCODING=utf-8",
    "✓": "ok",
    "✗": "FAIL",
    "●": "*",
    "→": "->",
    "↑": "^",
    "·": "-",
    "–": "-",
    "…": "...",
    "█": "#",
    "×": "x",
    "▶": ">",
    "■": "#",
    "├": "|-",
    "└": "`-",
    "⠋": "|",
}
SPARKLINE = re.compile("[▁-█]+")
COLOUR = re.compile(r"\{(?:(?:bold|dim|red|green|yellow|cyan)[ \w]*|/)\}")
ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4})")
CUT = "..."
# A path that has no room is replaced by the command that prints the file.
ARCHIVED_LOG = re.compile(r"\.loops/\.history/([\w-]+)/\S+\.log")


@pytest.mark.parametrize("name", SCENES)
def test_a_screen_looks_as_it_is_kept(name):
    scene = SCENES[name]
    picture, *_, barest = variants(scene)
    now, bare = played(scene, [picture, barest])
    changed = difference(scene, now)
    assert not changed, changed + AGAIN + name
    assert list(problems(scene, picture, now, now)) == []
    assert list(problems(scene, barest, bare, now)) == []


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ON_EVERY_TERMINAL else pytest.mark.soak)
        for name in SCENES
    ],
)
def test_a_screen_is_the_same_on_every_terminal(name):
    scene = SCENES[name]
    picture, *others = kinds = variants(scene)
    shown = dict(zip(kinds, played(scene, kinds), strict=True))
    for kind in others:
        assert list(problems(scene, kind, shown[kind], shown[picture])) == []
        coloured = shown[kind._replace(colour=picture.colour)]
        assert is_same(without_colours(coloured), without_colours(shown[kind]))


def test_no_picture_is_kept_of_a_scene_that_is_no_more():
    wanted = {path_of(scene) for scene in SCENES.values()}
    assert {os.path.join(KEPT, name) for name in os.listdir(KEPT)} == wanted


def test_every_verb_has_a_screen():
    typed = " ".join(command for scene in SCENES.values() for command in scene.types)
    unseen = {verb for verb in VERBS if not re.search(rf"ll-loop {verb}\b", typed)}
    assert unseen == set(NOT_SHOWN)


def test_colours_are_sent_where_they_are_wanted():
    with open(path_of(SCENES["run"]), encoding="utf-8") as stream:
        assert "{green}" in stream.read()


# ── what follows from a picture ────────────────────────────────────────────────────────────────


def problems(scene: Scene, kind: Variant, text: str, picture: str) -> Iterator[str]:
    """Each rule that a screen breaks, with what breaks it."""
    rows = without_colours(text).splitlines()
    if not scene.piped:
        yield from (f"longer than {kind.width}: {row}" for row in rows if _is_long(row, kind))
    if scene.name not in AS_IT_IS:
        yield from (f"broken by the terminal: {row}" for row in rows if row.endswith(BROKEN))
    if not kind.colour:
        yield from (f"coloured: {row}" for row in text.splitlines() if COLOUR.search(row))
    if not kind.utf8:
        yield from (f"not ASCII: {row}" for row in rows if not _is_ascii(row))
    narrow, wide = (picture, text) if kind.width > PICTURED.width else (text, picture)
    if not _says_the_same(narrow, wide, scene):
        yield f"other words than in the picture: {text}"


def without_colours(text: str) -> str:
    """A blank at the end of a row is only seen where it has a colour."""
    return re.sub(f" +(?={BROKEN})", "", COLOUR.sub("", text))


def _is_long(row: str, kind: Variant) -> bool:
    return len(row.removesuffix(BROKEN)) > kind.width


def _is_ascii(row: str) -> bool:
    return row.removesuffix(BROKEN).isascii() and not ESCAPE.search(row)


def _in_ascii(text: str) -> str:
    text = ARCHIVED_LOG.sub(r"ll-loop logs \1", SPARKLINE.sub("->", text))
    for sign, word in IN_ASCII.items():
        text = text.replace(sign, word)
    return text


def _words(text: str, scene: Scene) -> Sequence[str]:
    """The words of a screen, whatever its signs; a dot between two parts is dropped at a row's end."""
    whole = with_long_pids(without_colours(text).replace(f"{BROKEN}\n", ""))
    words = _in_ascii(whole).split()
    named = ["warn" if word == "!" else word for word in words if word != IN_ASCII["·"]]
    # A terminal breaks rows inside of words, too.
    return ["".join(named)] if scene.name in AS_IT_IS else named


def _says_the_same(narrow: str, wide: str, scene: Scene) -> bool:
    few, many = _words(narrow, scene), _words(wide, scene)
    if scene.name not in SHORTENED:
        return few == many
    heads = [row[0] for each in wide.splitlines() if (row := _words(each, scene))]
    return _are_among(few, many) and _are_among([h for h in heads if h not in LEGENDS], few)


def _are_among(some: Sequence[str], more: Sequence[str]) -> bool:
    """Whether words are found in others in the same order."""
    rest = iter(more)
    return all(any(_is_cut_of(word, other) for other in rest) for word in some if word != CUT)


def _is_cut_of(word: str, other: str) -> bool:
    """Whether two words are the same as far as they are shown; either may be cut."""
    pairs = ((word, other), (other, word))
    return (
        word == other
        or any(one.endswith(CUT) and two.startswith(one[: -len(CUT)]) for one, two in pairs)
        or any(one.startswith(CUT) and two.endswith(one[len(CUT) :]) for one, two in pairs)
        or {*word, *other} == {"^"}  # the underline of what is cut
    )
