"""A reader never raises, and never takes half a stream for a success."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.hosts.base import HOST_NAMES, TRANSITIONS, Request, host_named
from tests.hosts.recorded import endings, lines, request

SCENES = [(host, scene) for host in ("claude", "codex") for scene in endings(host)]
EVENTS = {
    host: [json.loads(line) for scene in endings(host) for line in lines(host, scene)]
    for host in ("claude", "codex")
}
REQUESTS = [
    Request("/go on", "slash", "/project", "ours", words=("pass", "fail")),
    Request("go", "prompt", "", "", command=("x", "{prompt}")),
]
ENDS = st.tuples(
    st.none() | st.integers(-300, 300),
    st.none() | st.integers(1, 64),
    st.text(max_size=20),
    st.sampled_from(["none", "action", "loop", "stop", "host"]),
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, host: str) -> str:
    """A real event in which some values are other ones, or gone."""
    event = json.loads(json.dumps(draw(st.sampled_from(EVENTS[host]))))
    for _ in range(draw(st.integers(0, 3))):
        place = event
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
                place = place[key]
                continue
            if draw(st.booleans()):
                place[key] = draw(JSON)
            else:
                del place[key]
            break
    return json.dumps(event)


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[bytes | str]]:
    host = draw(st.sampled_from(HOST_NAMES))
    line: st.SearchStrategy[bytes | str] = st.binary(max_size=40) | st.text(max_size=40)
    line |= st.builds(json.dumps, JSON)
    if host in EVENTS:
        line |= damaged(host)
    return host, draw(st.lists(line, max_size=12))


@given(streams(), st.sampled_from(REQUESTS), ENDS)
def test_a_reader_takes_anything(stream, asked, ended):
    host, said = stream
    reader = host_named(host).reader(asked)
    for line in said:
        for event in reader.feed(line):
            str(event).encode()  # no half characters: all of it can be written down
    outcome = reader.finish(*ended)
    str(outcome._replace(structured=None)).encode()
    assert "\n" not in outcome.reason
    assert outcome.kind in TRANSITIONS
    assert outcome.verdict != ""
    assert outcome.cost_usd is None or outcome.cost_usd >= 0
    assert min(outcome.tokens) >= 0


@pytest.mark.parametrize(("host", "scene"), SCENES)
def test_a_stream_that_was_cut_is_never_a_success(host, scene):
    last = "result" if host == "claude" else "turn.completed"
    for length, line in enumerate(lines(host, scene)):
        if json.loads(line)["type"] == last:
            return
        reader = host_named(host).reader(request(host, scene))
        for earlier in lines(host, scene)[:length]:
            reader.feed(earlier)
        reader.feed(line[: len(line) // 2])
        for ended in ((0, None), (1, None), (None, 9)):
            assert reader.finish(*ended).kind != "success"
