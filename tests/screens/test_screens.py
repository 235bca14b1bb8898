"""Every screen looks as it is kept in `snapshots`, and fits its terminal.

After a change that is wanted: `python -m tools.screens --write`, then read the diff.
"""

from __future__ import annotations

import os
import re

import pytest

from little_loops.cli.commands import VERBS
from tests.screens.scenes import SCENES
from tools.screens import BROKEN, KEPT, PIPES, TERMINALS, differences, path_of, variants

AGAIN = "\n\nif this is as it should be: python -m tools.screens --write "
# What is meant for programs, or for a clipboard, is not ours to break: a terminal does it.
AS_IT_IS = {"compile": "YAML", "logs": "what actions printed", "status-failed": "a path"}
# For programs, or in the scene of another verb.
NOT_SHOWN = {"schema": "JSON", "completion": "a script", "wait": "the last line of a run"}


@pytest.mark.parametrize("name", SCENES)
def test_a_screen_looks_as_it_is_kept(name):
    found = differences(SCENES[name])
    assert not found, "\n\n".join(found) + AGAIN + name


def test_no_picture_is_kept_of_a_scene_that_is_no_more():
    wanted = {path_of(scene, kind) for scene in SCENES.values() for kind in variants(scene)}
    assert {os.path.join(KEPT, name) for name in os.listdir(KEPT)} == wanted


def test_every_verb_has_a_screen():
    typed = " ".join(command for scene in SCENES.values() for command in scene.types)
    unseen = {verb for verb in VERBS if not re.search(rf"ll-loop {verb}\b", typed)}
    assert unseen == set(NOT_SHOWN)


PICTURES = [
    pytest.param(scene.name, kind, id=f"{scene.name}.{kind.name}")
    for scene in SCENES.values()
    for kind in variants(scene)
]


@pytest.mark.parametrize(("name", "kind"), PICTURES)
def test_it_fits(name, kind):
    """Nothing broken but what must be, no sign a terminal lacks, no colour where none is wanted."""
    with open(path_of(SCENES[name], kind), encoding="utf-8") as stream:
        text = stream.read()
    rows = [re.sub(r"\{[a-z ]+\}|\{/\}", "", row) for row in text.splitlines()]
    broken = [row for row in rows if row.endswith(BROKEN)]
    assert name in AS_IT_IS or broken == []
    assert kind in PIPES or max(len(row.removesuffix(BROKEN)) for row in rows) <= kind.width
    assert kind.utf8 or "".join(rows).replace(BROKEN, "").isascii()
    assert kind.utf8 or not re.search(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4})", text)
    assert kind.colour or not re.search(r"\{/\}", text)


def test_colours_are_sent_where_they_are_wanted():
    kinds = [kind for kind in TERMINALS if kind.colour]
    for kind in kinds:
        with open(path_of(SCENES["run"], kind), encoding="utf-8") as stream:
            assert "{green}" in stream.read()
