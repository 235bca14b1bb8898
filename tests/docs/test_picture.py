"""The picture in the README is of a session that can be had again."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tools.picture import PICTURE, TEXT, Screen, session, svg
from tools.reference import current
from tools.sessions import normal


def as_told(lines: list[str]) -> list[str]:
    return [normal(line) for line in lines if line]


def test_the_session_goes_as_it_is_shown() -> None:
    assert as_told(session().text()) == as_told((current(TEXT) or "").splitlines())


def test_the_picture_shows_that_session() -> None:
    root = ElementTree.fromstring(current(PICTURE) or "")
    texts = (text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text"))
    shown = "".join("".join(texts).split())
    assert shown == "".join((current(TEXT) or "").split())


def test_the_picture_asks_the_network_for_nothing() -> None:
    links = re.findall(r"https?://[^\"' )]+", current(PICTURE) or "")
    assert set(links) == {"http://www.w3.org/2000/svg"}


def test_a_screen_obeys_what_our_own_screens_send() -> None:
    screen = Screen()
    screen.write("one\r\ntwo\r\n\x1b[1Athree\x1b[2K\rf\x1b[1mo\x1b[0mur\r\nfive\rxy\x1b[K")
    assert screen.text() == ["one", "four", "xy"]
    assert screen.lines()[1] == "f\x1b[1mo\x1b[0mur"
    assert "<svg" in svg(screen)
