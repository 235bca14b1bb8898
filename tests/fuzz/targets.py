"""What reads files that others may have written, and the law each of its readers keeps.

A target takes any bytes.  It may refuse them in words; it may not raise anything else, leave the
terminal a control character, or take more time and memory than a test gives it (`bounds`).
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from little_loops.authoring import graph
from little_loops.authoring.dump import dump
from little_loops.authoring.load import load
from little_loops.authoring.worst_case import pattern_readings, worst_case
from little_loops.cli.main import main
from little_loops.definitions.loading import load_loop
from little_loops.definitions.trust import trust_of
from little_loops.errors import INTERNAL, LittleLoopsError
from little_loops.fsm.schema import FSMLoop
from little_loops.hosts.base import TRANSITIONS, Request, host_named
from little_loops.relay import metadata, record
from little_loops.relay.contract import read_text
from little_loops.relay.rules import Metadata
from little_loops.runs.claims import alive
from little_loops.runs.layout import RunFiles
from little_loops.system.output import LineSplitter
from little_loops.terminal.problems import as_dict, render_all
from tests.recorded.playing import NAME, lay_out, play

TESTS = Path(__file__).parent.parent
CORPUS = Path(__file__).parent / "corpus"
RECORDED = {
    json.loads((path.parent / "d/run.json").read_text())["run"].encode(): path.parent
    for path in sorted(TESTS.glob("recorded/v*/*/story.json"))
}

Taste = Callable[[bytes, str, random.Random], object]
"""Reads the bytes, in a directory of its own, with a die for what else there is to choose."""


class Target(NamedTuple):
    name: str
    files: tuple[Path, ...]
    """Real ones, to begin with."""
    taste: Taste

    def corpus(self) -> list[Path]:
        """Those that once did harm, or might."""
        return sorted(path for path in (CORPUS / self.name).glob("*") if path.is_file())

    def seeds(self) -> list[bytes]:
        return [path.read_bytes() for path in (*self.files, *self.corpus())]


# ── definitions ────────────────────────────────────────────────────────────────────────────────


def definition(data: bytes, place: str, dice: random.Random) -> None:
    read = load(data, "x.yaml", "x")
    errors = [problem for problem in read.problems if problem.severity == "error"]
    assert (read.loop is None) == bool(errors)
    assert_harmless(render_all(read.problems))
    json.dumps([as_dict(problem) for problem in read.problems])
    if read.loop is not None:
        sound(read.loop)


def sound(loop: FSMLoop) -> None:
    """What was read can be written, drawn and read again."""
    assert FSMLoop.from_dict(json.loads(json.dumps(loop.to_dict()))) == loop
    again = load(dump(loop), "x.yaml", "x").loop
    assert again == loop
    assert_harmless(graph.as_text(loop) + graph.as_dot(loop) + graph.as_mermaid(loop))
    assert worst_case(loop)
    pattern_readings(loop)


def config(data: bytes, place: str, dice: random.Random) -> None:
    """The settings of a project, which a clone may bring along."""
    loops = os.path.join(place, ".loops")
    os.makedirs(loops)
    with open(os.path.join(loops, "x.yaml"), "w") as file:
        file.write("initial: a\nstates: {a: {terminal: true}}\n")
    with open(os.path.join(loops, ".config.yaml"), "wb") as file:
        file.write(data)
    with contextlib.suppress(LittleLoopsError):
        sound(load_loop("x", place).loop)


# ── the files of a run ─────────────────────────────────────────────────────────────────────────

PAGES = (("status",), ("status", "--json"), ("list", "--json"), ("history",), ("logs", NAME))
OF_ONE = (("status", NAME), ("logs", NAME, "--json"), ("history", NAME, "--json"))


def in_a_run(suffix: str) -> Taste:
    def taste(data: bytes, place: str, dice: random.Random) -> None:
        story = story_of(data, dice)
        lay_out(story, place)
        files = RunFiles(place, NAME)
        Path(files.log).write_text("[1/50] check → running\n")
        Path(files.path(suffix)).write_bytes(data)
        with contextlib.chdir(place):
            look(dice.sample((*PAGES, *OF_ONE), 2))
        go_on(place, story)

    return taste


def story_of(data: bytes, dice: random.Random) -> Path:
    """The recorded run it is a file of, so that all the others fit; any, if it is of none."""
    of = next((story for run, story in RECORDED.items() if run in data), None)
    return of or dice.choice(list(RECORDED.values()))


def claim(data: bytes, place: str, dice: random.Random) -> None:
    """The note of whoever holds a run; held, for else nobody reads it."""
    lay_out(dice.choice(list(RECORDED.values())), place)
    files = RunFiles(place, NAME)
    with open(files.pid, "wb") as file, contextlib.chdir(place):
        file.write(data)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        look([*dice.sample(PAGES, 2), ("list", "--running"), ("status", NAME)])
        assert play(place, []).error is not None
        str(alive(place, NAME))


def look(pages: list[tuple[str, ...]]) -> None:
    for words in pages:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(words))
        assert code != INTERNAL, (words, err.getvalue())
        assert_harmless(out.getvalue() + err.getvalue())


def go_on(place: str, story: Path) -> None:
    """Resume it: to an end, or refused in words; what would go on for ever is stopped."""
    kept = json.loads((story / "story.json").read_text())
    played = play(place, [*kept["then"], *[{}] * 9, "stop"], limits=kept["limits"])
    if played.error is not None:
        assert played.error.message
    else:
        assert played.ran is not None, "it died, and nobody killed it"


# ── the streams of agents ──────────────────────────────────────────────────────────────────────

REQUESTS = (
    Request("/go on", "slash", "/project", "ours", words=("pass", "fail")),
    Request("go", "prompt", "/project", "ours", command=("x", "{prompt}")),
)
ENDS: tuple[tuple[Any, ...], ...] = (
    *((0,), (1,), (143,), (None, 9), (0, None, "error: no"), (0, None, "", "stop")),
    *((None, 15, "", "action"), (1, None, "\x1b[1mError\x1b[0m: x")),
)


def stream_of(host: str) -> Taste:
    def taste(data: bytes, place: str, dice: random.Random) -> None:
        reader = host_named(host).reader(dice.choice(REQUESTS))
        lines = LineSplitter()
        for line in [
            *(one for part in cut(data, dice) for one in lines.feed(part)),
            *lines.close(),
        ]:
            for event in reader.feed(line):
                str(event).encode()  # no half characters: all of it can be written down
        outcome = reader.finish(*dice.choice(ENDS))
        assert "\n" not in outcome.reason
        str(outcome._replace(structured=None)).encode()
        assert outcome.kind in TRANSITIONS
        assert outcome.verdict != ""
        assert outcome.cost_usd is None or outcome.cost_usd >= 0
        assert min(outcome.tokens) >= 0

    return taste


def cut(data: bytes, dice: random.Random) -> Iterator[bytes]:
    """In pieces, as a pipe gives it."""
    while data:
        size = dice.choice((1, 100, 4096, 65536))
        yield data[:size]
        data = data[size:]


# ── what a relay reads ─────────────────────────────────────────────────────────────────────────


def return_metadata(data: bytes, place: str, dice: random.Random) -> None:
    path = os.path.join(place, ".return-meta.json")
    with open(path, "wb") as file:
        file.write(data)
    found = metadata.read_metadata(path, 0)
    told = found.reason if isinstance(found, Metadata) else found[0]
    assert "\n" not in told
    assert_harmless(told)
    metadata.was_printed(path)
    read_text(data.decode("utf-8", "replace"))


def relay_memory(data: bytes, place: str, dice: random.Random) -> None:
    for name in (record.MEMORY, record.GUARD, record.MARKER):
        with open(os.path.join(place, name), "wb") as file:
            file.write(data)
    with contextlib.suppress(LittleLoopsError):
        record.load(place)
    record.pending_at(os.path.join(place, ".return-meta.json"))


# ── what a user agreed to ──────────────────────────────────────────────────────────────────────


def consent(data: bytes, place: str, dice: random.Random) -> None:
    home = os.path.join(place, "little-loops")
    os.mkdir(home, 0o700)
    with open(os.path.join(home, "trust.json"), "wb") as file:
        file.write(data)
    with contextlib.suppress(LittleLoopsError):
        trust_of(place, {"XDG_STATE_HOME": place})


# ── all of them ────────────────────────────────────────────────────────────────────────────────


def assert_harmless(text: str) -> None:
    """Nothing in it drives a terminal."""
    text.encode()
    odd = {each for each in text if ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0} - {"\n", "\t"}
    assert not odd, odd


def found(*patterns: str) -> tuple[Path, ...]:
    return tuple(sorted(path for pattern in patterns for path in TESTS.parent.glob(pattern)))


TARGETS = (
    Target("definitions", found("examples/*.yaml", "tests/design/*.yaml"), definition),
    Target("config", (), config),
    Target("states", found("tests/recorded/v*/*/state.json"), in_a_run(".state.json")),
    Target("logs", found("tests/recorded/v*/*/events.jsonl"), in_a_run(".events.jsonl")),
    Target("machines", found("tests/recorded/v*/*/d/run.json"), in_a_run(".d/run.json")),
    Target("claims", (), claim),
    Target("sessions", (), in_a_run(".spawn.json")),
    Target("claude", found("tests/hosts/streams/claude/*.jsonl"), stream_of("claude")),
    Target("codex", found("tests/hosts/streams/codex/*.jsonl"), stream_of("codex")),
    Target("plain", found("tests/hosts/streams/*/success.jsonl"), stream_of("command")),
    Target("metadata", (), return_metadata),
    Target("relays", (), relay_memory),
    Target("consent", (), consent),
)


def tasted(target: Target, data: bytes, place: str, dice: random.Random) -> None:
    """In a directory of its own, which is gone afterwards."""
    os.makedirs(place)
    try:
        target.taste(data, place, dice)
    finally:
        shutil.rmtree(place)
