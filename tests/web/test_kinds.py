"""The closed sets of words: the page knows each member, and there is none that it cannot show."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

from little_loops.fsm.codec import to_record
from little_loops.fsm.events import FINAL_KINDS, KINDS, Entry
from little_loops.fsm.limit_kinds import LIMITS, LimitKind
from little_loops.fsm.schema import ERROR, PROOF_VERDICTS, SOFT_VERDICTS, TIMEOUT, Outcome
from little_loops.fsm.state import Status
from little_loops.runs.layout import RunFiles
from little_loops.runs.view import RunView
from little_loops.system.watching import Kind as Live
from little_loops.terminal.next_step import higher_limits, next_commands
from little_loops.terminal.tables import SignName
from little_loops.web import actions, charts, kinds, run_list, run_page, steps
from little_loops.web.abilities import CHECKS
from little_loops.web.questions import Query
from little_loops.web.rows import GROUPS, group_of, limits, page_word, row, tone_of
from little_loops.web.security import Policy
from little_loops.web.site import Site
from tests.entries import entry
from tests.recorded.playing import NAME, lay_out
from tests.recorded.test_recorded import RECORDED

SOURCES = Path(__file__).parents[2] / "web/src"
OUTSIDE = {"queued", "damaged", "newer"}
"""What `RunView` knows beside the statuses of a run."""
UNION = re.compile(r'^export type (\w+) =((?:\s*\|?\s*"\w+")+);', re.MULTILINE)


def unions() -> dict[str, set[str]]:
    """The types of the page that are nothing but words."""
    text = (SOURCES / "api.ts").read_text()
    return {name: set(re.findall(r'"(\w+)"', words)) for name, words in UNION.findall(text)}


OURS: dict[str, set[str]] = {
    "Tone": set(get_args(kinds.Tone)),
    "Group": set(get_args(kinds.Group)),
    "StateKind": set(get_args(kinds.StateKind)),
    "MarkKind": set(get_args(kinds.MarkKind)),
    "Verb": set(get_args(kinds.Verb)),
    "OutputStream": set(get_args(kinds.OutputStream)),
    "Status": {*get_args(Status), *OUTSIDE},
    "Outcome": set(get_args(Outcome)),
    "Place": {"here", "clean"},
    "Live": set(get_args(Live)),
    "Filter": set(run_list.FILTERS) - {""},
    "LimitName": set(actions.LIMITS),
}


def test_the_page_knows_the_same_words_as_the_server():
    assert unions() == OURS


def test_each_set_is_used_as_a_whole():
    assert set(GROUPS) == OURS["Group"]
    assert {*CHECKS, "run", "edit", "create"} == OURS["Verb"]
    assert {*get_args(SignName), "queued"} == OURS["Tone"]


def test_a_button_waits_for_events_that_exist():
    text = (SOURCES / "components/actions.tsx").read_text()
    found = {
        name: set(re.findall(r'"(\w+)"', words))
        for name, words in re.findall(r"^const (\w+)[^=]* = [\[{]([^;]*);", text, re.MULTILINE)
    }
    assert found["FINAL"] == FINAL_KINDS.keys()
    assert found["ACKNOWLEDGED_BY"] <= KINDS.keys()


# ── limits ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.field)
def test_each_limit_is_named_shown_and_can_be_raised(limit: LimitKind):
    view = RunView(RunFiles("", "fix"), "failed", limit.reason)
    assert page_word(view) == limit.name
    raised = higher_limits(limit.reason, iteration=3, ran_ms=90_000, cost_usd=0.2, tokens=50)
    [(name, _)] = (raised or {}).items()
    assert actions.LIMITS[name].option == limit.flag
    [command] = next_commands("fix", "failed", limit.reason, iteration=3, ran_ms=90_000)
    assert command.startswith(f"ll-loop resume fix {limit.flag} ")


def test_each_limit_has_a_field_in_the_dialogs_and_a_value_in_the_answers(site):
    assert {field.option for field in actions.LIMITS.values()} == {each.flag for each in LIMITS}
    project, view = site.run(NAME)
    machine = project.runs.machine(view)
    names = {each.field for each in LIMITS} - {"timeout"} | {"timeout_s", "max_continuations"}
    assert limits(view, machine).keys() == names


# ── endings and verdicts ───────────────────────────────────────────────────────────────────────

REASONS = (
    *(None, "terminal", "error", "handoff", "review", "budget", "crash", "fork", "signal", "stop"),
    *(limit.reason for limit in LIMITS),
    *PROOF_VERDICTS,
)


@pytest.mark.parametrize("status", sorted(OURS["Status"]))
@pytest.mark.parametrize("reason", REASONS)
def test_each_ending_has_a_row(site, status, reason):
    project, view = site.run(NAME)
    ended = view._replace(status=status, reason=reason)
    for shown in (ended, ended._replace(summary=None), ended._replace(path="each/db")):
        found = row(site.policy, project, shown)
        assert found["word"]
        check(found)
        assert found["group"] == group_of(shown)


PAUSED = ("handoff", "review")
VERDICTS = (*SOFT_VERDICTS, ERROR, TIMEOUT, *PROOF_VERDICTS, "approved", "rejected", "interrupted")


def test_each_verdict_has_a_tone():
    good = {verdict for verdict in VERDICTS if tone_of(verdict) == "good"}
    assert good == {"pass", "target", "progress", "approved"}
    assert {tone_of(verdict) for verdict in VERDICTS} == {"good", "bad"}
    assert {tone_of(verdict) for verdict in PAUSED} == {"waiting"}
    assert (tone_of(None), tone_of("a_word_of_the_loop")) == ("running", "none")


# ── events ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", get_args(Status))
@pytest.mark.parametrize("reason", ["error", *(limit.reason for limit in LIMITS)])
def test_an_ending_within_a_step_is_a_bar_of_it(site, status, reason):
    write_log(site, entry("loop_complete", status=status, reason=reason), entry("resume"))
    shown = ask(site, charts, "/api/runs/{run}/timeline")
    check(shown)
    assert len(shown["rows"][0]["bars"]) == 3  # the first step's two parts, and the third step


@pytest.mark.parametrize("kind", [*KINDS, "of_a_newer_version"])
def test_each_kind_of_event_is_shown(site, kind):
    answer = {"verdict": "approved", "by": "approve"} if kind == "gate_answered" else {}
    write_log(site, entry(kind, **answer))
    shown = answers(site)
    assert kind in [each["event"] for each in shown["/api/runs/{run}/events"]["events"]]
    assert len(shown["/api/runs/{run}/steps"]["steps"]) >= 4


@pytest.mark.parametrize("story", RECORDED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_each_recorded_run_is_shown(tmp_path, story):
    assert answers(site_of(story, tmp_path)).keys() >= {"/api/runs/{run}", "/api/runs/{run}/steps"}


NOT_ASKED = ("/receipt", "/report", "/diff", "/output", "/search")
"""Downloads, and what needs files that not every run has."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A project with a recorded run."""
    [completed] = (story for story in RECORDED if story.name == "completed")
    return site_of(completed, tmp_path)


def site_of(story: Path, place: Path) -> Site:
    root = os.path.realpath(place)
    lay_out(story, root)
    return Site([root], Policy("token", edit=True), {})


def write_log(site: Site, *found: Entry) -> None:
    """Let the run have recorded these events in its first step, after its action had ended."""
    log = Path(RunFiles(site.projects[0].root, NAME).events)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    events = [*lines[:4], *map(to_record, found), *lines[4:]]
    for seq, each in enumerate(events, 1):
        each |= {"seq": seq, "run": lines[0]["run"]}
    log.write_text("".join(json.dumps(each) + "\n" for each in events))


def ask(site: Site, table: ModuleType, path: str) -> Mapping[str, Any]:
    [handler] = (each.handler for each in table.questions() if each.path == path)
    answer = handler(site, Query({"run": NAME, "step": "1"}, {}, {}))
    assert isinstance(answer, Mapping)
    return answer


def answers(site: Site) -> dict[str, Mapping[str, Any]]:
    """What the server says about the run, by the paths; all words in it are known to the page."""
    found = {}
    for table in (run_page, steps, charts):
        for question in table.questions():
            if not question.path.endswith(NOT_ASKED):
                found[question.path] = ask(site, table, question.path)
    for answer in found.values():
        check(answer)
    return found


WORDS: Mapping[str, AbstractSet[object]] = {
    "tone": OURS["Tone"],
    "group": OURS["Group"],
    "verb": OURS["Verb"],
    "outcome": {*OURS["Outcome"], None},
    "place": {*OURS["Place"], None},
    "kind": {*OURS["StateKind"], *OURS["MarkKind"], "state", "branch"},
    "status": OURS["Status"],
}


def check(answer: object) -> None:
    """Fail if an answer has a word that the page does not know; events are shown as they are."""
    if isinstance(answer, Mapping):
        for name, value in answer.items():
            if name in WORDS:
                assert value in WORDS[name], (name, value)
            elif name != "events":
                check(value)
    elif isinstance(answer, list):
        for item in answer:
            check(item)
