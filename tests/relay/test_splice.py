"""A task's status in the user's own texts: what changes, and that nothing else does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from little_loops.relay.splice import NoPlace, status_in_json, status_in_list

PRETTY = """\
{
  "next_project_number": 887,
  "active_projects": [
    {"project_number": 885, "status": "completed"},
    {
      "project_number": 886,
      "project_name": "a \\"quoted\\" {name}, [with] \\\\",
      "status": "planned",
      "artifacts": [
        {"type": "plan", "path": "specs/886/plan.md"}
      ]
    }
  ]
}
"""


@pytest.mark.parametrize(
    ("text", "artifacts", "expected"),
    [
        pytest.param('{"id":886,"status":"planned"}', [], '{"id":886,"status":"partial"}', id="the value is replaced"),
        pytest.param('{"id": 886}', [], '{"id": 886, "status": "partial"}', id="a member is added"),
        pytest.param('{"id":886,"a":1}', [], '{"id":886,"a":1,"status":"partial"}', id="a member is added, compact"),
        pytest.param('{\r\n\t"id": "886"\r\n}\r\n', ["a"], '{\r\n\t"id": "886",\r\n\t"status": "partial",\r\n\t"artifacts": ["a"]\r\n}\r\n', id="both are added, one to a line"),
        pytest.param('\ufeff[{"project_number": 886, "status": null}]', [], '\ufeff[{"project_number": 886, "status": "partial"}]', id="a byte order mark"),
        pytest.param('{"id": 886, "status": {"old": [1]}, "x": 1.50e3}', [], '{"id": 886, "status": "partial", "x": 1.50e3}', id="a status of another kind"),
        pytest.param('{"status": "a", "id": 886, "status": "b"}', [], '{"status": "a", "id": 886, "status": "partial"}', id="of a key that is there twice the last"),
        pytest.param('{"id": 886, "sub": {"id": 886, "status": "x"}}', [], '{"id": 886, "sub": {"id": 886, "status": "x"}, "status": "partial"}', id="the first object"),
        pytest.param('{"id": true, "sub": {"id": 88}, "x": [{"id": 886.0}, {"id": 886}]}', [], '{"id": true, "sub": {"id": 88}, "x": [{"id": 886.0}, {"id": 886, "status": "partial"}]}', id="no other value is the id"),
        pytest.param('{"id": 886, "status": "x", "artifacts": []}', ["a", "b", "a"], '{"id": 886, "status": "partial", "artifacts": ["a", "b"]}', id="into an empty list"),
        pytest.param('{"id": 886, "status": "x", "artifacts": null}', ["ä"], '{"id": 886, "status": "partial", "artifacts": ["ä"]}', id="instead of null"),
        pytest.param('{"artifacts": [ "a" ], "id": 886, "status": "x"}', ["a", "b"], '{"artifacts": [ "a", "b" ], "id": 886, "status": "partial"}', id="behind one that is there"),
        pytest.param('{"id": 886, "artifacts": ["a","b"], "status": "x"}', ["c", "d"], '{"id": 886, "artifacts": ["a","b","c","d"], "status": "partial"}', id="spaced like the others"),
        pytest.param('{"id": 886, "artifacts": ["a"], "status": "x"}', ["a"], '{"id": 886, "artifacts": ["a"], "status": "partial"}', id="none is new"),
    ],
)  # fmt: skip
def test_in_json(text, artifacts, expected):
    assert status_in_json(text, "886", "partial", artifacts) == expected


def test_spaced_like_the_first_two_of_many():
    text = '{"id": 886, "status": "x", "artifacts": ["a", "b",  "c"]}'
    assert status_in_json(text, "886", "x", ["d"]) == text.replace('"c"', '"c", "d"')


@pytest.mark.parametrize("value", ["null", "true", "1.5", "[]"])
def test_what_is_no_id(value):
    with pytest.raises(NoPlace):
        status_in_json(f'{{"id": {value}}}', str(json.loads(value)), "partial")


def test_in_a_file_as_people_keep_it():
    changed = status_in_json(PRETTY, "886", "implementing", ["src/a.py", "specs/886/plan.md"])
    assert changed == PRETTY.replace('"planned"', '"implementing"').replace(
        '"path": "specs/886/plan.md"}',
        '"path": "specs/886/plan.md"},\n        {"path": "src/a.py"}',
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("{", "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)", id="not JSON"),
        pytest.param("[" * 100_000, None, id="too deep"),
        pytest.param('[{"id": 885}, 886]', "has no object whose `id` or `project_number` is 886", id="not there"),
        pytest.param("886", "has no object whose `id` or `project_number` is 886", id="no object at all"),
        pytest.param('{"id": 886, "artifacts": "a"}', "has `artifacts` that are not a list", id="artifacts are a string"),
    ],
)  # fmt: skip
def test_no_place_in_json(text, why):
    with pytest.raises(NoPlace) as caught:
        status_in_json(text, "886", "partial")
    assert why is None or caught.value.message == why


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("# Tasks\n\n### 886. Relay [PLANNED]\n- 886\n", "# Tasks\n\n### 886. Relay [PARTIAL]\n- 886\n", id="a heading with a status"),
        pytest.param("see 886\n- [ ] task 886: relay\r\n", "see 886\n- [ ] task 886: relay [PARTIAL]\r\n", id="a list line without one"),
        pytest.param("886. relay  ", "886. relay [PARTIAL]  ", id="the number of a list"),
        pytest.param("* OC_886 the [API] [link](x) [DONE](y)", "* OC_886 the [API] [link](x) [DONE](y) [PARTIAL]", id="other brackets stay"),
        pytest.param("+ [TODO] 886", "+ [PARTIAL] 886", id="a status in front"),
        pytest.param("- 886 was [BLOCKED], is [IN PROGRESS] now", "- 886 was [BLOCKED], is [PARTIAL] now", id="the last status"),
        pytest.param("- 8860 and 1886\n  1) 886", "- 8860 and 1886\n  1) 886 [PARTIAL]", id="no part of a number"),
        pytest.param("```\n# 886 in code\n```\n# 886", "```\n# 886 in code\n```\n# 886 [PARTIAL]", id="no code"),
        pytest.param("#886 is no heading\n## 886\n", "#886 is no heading\n## 886 [PARTIAL]\n", id="a heading has a blank"),
        pytest.param("- 886\u2028[DONE]\x0b\n", "- 886\u2028[PARTIAL]\x0b\n", id="only a line feed ends a line"),
    ],
)  # fmt: skip
def test_in_a_list(text, expected):
    assert status_in_list(text, "886", "partial") == expected


@pytest.mark.parametrize("text", ["", "886", "- 88 6", "~~~\n- 886\n~~~"])
def test_no_place_in_a_list(text):
    with pytest.raises(NoPlace) as caught:
        status_in_list(text, "886", "partial")
    assert caught.value.message == "has no heading or list line with 886"


@pytest.mark.parametrize(
    "word",
    [
        *("IMPLEMENTING", "COMPLETED", "PARTIAL", "BLOCKED", "FAILED", "NOT STARTED", "TODO"),
        *("OPEN", "IN PROGRESS", "WIP", "DONE", "ABANDONED", "EXPANDED", "RESEARCHING"),
        *("RESEARCHED", "PLANNING", "PLANNED"),
    ],
)
def test_every_known_status_is_replaced(word):
    assert status_in_list(f"- 886 [{word}] x", "886", "blocked") == "- 886 [BLOCKED] x"


def test_an_id_is_no_pattern():
    with pytest.raises(NoPlace):
        status_in_list("- FEATx091", "FEAT.091", "partial")
    assert status_in_list("- FEAT.091", "FEAT.091", "failed") == "- FEAT.091 [FAILED]"


# ── laws ───────────────────────────────────────────────────────────────────────────────────────

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text('ab"\\{}[],: é', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab,", max_size=2), inner),
    max_leaves=8,
)
layouts = st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":")}, {"ensure_ascii": False}])


@given(values, values, layouts, st.lists(st.sampled_from(["a.py", "ä b.md"]), max_size=2))
def test_only_status_and_artifacts_of_the_task_change(before, after, layout, artifacts):
    document = {"x": before, "tasks": [{"y": after, "id": 886}], "z": after}
    changed = status_in_json(json.dumps(document, **layout), "886", "completed", artifacts)
    task = {"y": after, "id": 886, "status": "completed"}
    if artifacts:
        task["artifacts"] = list(dict.fromkeys(artifacts))
    assert json.loads(changed) == {**document, "tasks": [task]}
    assert status_in_json(changed, "886", "completed", artifacts) == changed


@given(st.text("- #886[]DONE\n\r`x", max_size=40))
def test_a_list_keeps_every_other_line(text):
    try:
        changed = status_in_list(text, "886", "failed")
    except NoPlace:
        return
    old, new = text.split("\n"), changed.split("\n")
    assert len(old) == len(new)
    assert sum(one != other for one, other in zip(old, new, strict=True)) <= 1
    assert status_in_list(changed, "886", "failed") == changed
