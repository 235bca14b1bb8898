"""Reports in Markdown: what they say, and that no printed text becomes markup or gives away a
secret."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from little_loops.reporting.escape import visible
from little_loops.terminal.markdown import MAX_SPAN, block, code, table
from little_loops.terminal.markdown_report import MAX_BYTES
from tests.cli.runs import COUNTDOWN, crashed, ran, under_way
from tests.project import Project
from tests.receipts.kept_run import KeptProject
from tests.sharing.test_secrets import COUNT, ENVIRONMENT, GONE
from tests.sharing.test_secrets import project as canaries  # noqa: F401 - a fixture

READER = MarkdownIt("commonmark").enable("table")
MARKUP = ["link_open", "image", "html_block", "html_inline", "em_open", "blockquote_open", "hr"]
TEXTS = st.text(
    st.one_of(st.sampled_from("`~|<>[]()!*_#@\\&\n\t \r-+:/"), st.characters(codec="utf-8")),
    max_size=60,
)
HOSTILE = [
    "plain",
    "```\n# not a heading\n```",
    "`````",
    "~~~\n<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[link](https://example.invalid) ![image](https://example.invalid/x.png)",
    "@everyone #1 https://example.invalid",
    "| a | b |\n| --- | --- |",
    "`code` ``more`` ``` even more ```",
    "\x1b[31mred\x1b[0m \x07 \u202eright to left",
    "&lt;b&gt; &amp; \\` \\\\",
    "- [ ] task\n> quote\n\n---",
]


def tokens(text: str) -> list[str]:
    found = []
    for token in READER.parse(text):
        found.append(token.type)
        found += [each.type for each in token.children or ()]
    return found


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_in_a_block_stays_text(text):
    (fence,) = READER.parse(block(text))
    assert fence.type == "fence"
    assert fence.content == visible(text).strip("\n") + "\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_in_a_span_stays_text(text):
    _, inline, _ = READER.parse(f"before {code(text)} after")
    kinds = [each.type for each in inline.children or ()]
    assert kinds == ["text", "code_inline", "text"]
    assert "\n" not in code(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_in_a_table_stays_in_its_cell(text):
    kinds = tokens(table(("a", "b"), [(code(text), "x")]))
    assert kinds.count("td_open") == 2
    assert not set(MARKUP) & set(kinds)


@given(TEXTS)
def test_no_text_becomes_markup(text):
    """In a block, in a span and in a table."""
    (fence,) = READER.parse(block(text))
    assert fence.type == "fence"
    assert fence.content.strip("\n") == visible(text).strip("\n")
    kinds = tokens(f"before {code(text)} after")
    assert not set(MARKUP) & set(kinds)
    assert kinds.count("paragraph_open") == 1
    cells = tokens(table(("a", "b"), [(code(text), "x"), ("y", code(text))]))
    assert cells.count("td_open") == 4


def test_a_long_text_is_cut_in_a_span():
    assert len(code("x" * 999)) == MAX_SPAN + 2


# ── whole reports ──────────────────────────────────────────────────────────────────────────────


def timeless(text: str) -> str:
    text = re.sub(r"\d{8}T\d{6}-[0-9a-f]{8}", "RUN", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "TIME", text)
    return re.sub(r"\b\d+(\.\d)?s\b", "0.1s", text)


METRIC = """\
## `countdown`: completed

`Loop completed: done (4 iterations, 0.1s)`

|  |  |
| --- | --- |
| loop | `countdown` |
| run | `RUN` |
| started | TIME |
| ran for | 0.1s, 4 iterations |

**Path:** `measure` → `apply` → `measure` → `apply` → `measure` → `apply` → `measure` → `done`

**Metric:** █▆▃▁ 4 measurements, from 3 to 0: 3, 2, 1, 0

### Steps

| step | iteration | state | verdict | files | time | cost |
| --- | --- | --- | --- | --- | --- | --- |
| 1 | 1 | `measure` | `progress` |  | 0.1s |  |
| 2 | 1 | `apply` | `pass` |  | 0.1s |  |
| 3 | 2 | `measure` | `progress` |  | 0.1s |  |
"""


def test_a_report_about_a_metric(tmp_path):
    project = Project(tmp_path)
    ran(project.root, COUNTDOWN)
    done = project.ll("report", "countdown", "--markdown")
    assert done.returncode == 0, done.stderr
    assert timeless(done.stdout).startswith(METRIC)
    assert not set(MARKUP) & set(tokens(done.stdout))


EVIDENCE = """\
### Files changed

| step | state | files | lines |
| --- | --- | --- | --- |
| 2 | `fix` | `code.py`, `tests/t.sh` | +2 −2 |

### Checks

| step | state | verdict | tree | place | reason |
| --- | --- | --- | --- | --- | --- |
| 1 | `evaluate` | `fail` | `TREE` | project | `exit 1` |
| 3 | `evaluate` | `pass` | `TREE` | project | `exit 0` |
| 3 | `evaluate` | `pass` | `TREE` | clean copy | `exit 0` |

### Notes

- `fix` changed protected files: `tests/t.sh`
- restored: `tests/t.sh`

Verified on tree `TREE`; `ll-loop receipt` writes a receipt.
"""


def test_a_report_about_evidence(tmp_path):
    project = KeptProject(tmp_path).fixed()
    path = tmp_path / "report.md"
    done = project.ll("report", "--markdown", "-o", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"wrote {path}\n")
    text = path.read_text()
    assert re.sub("`[0-9a-f]{6}`", "`TREE`", text).endswith(EVIDENCE)
    assert "Answer:\n\n```text\nfixing with ***\n```\n" in text
    told = json.loads(project.ll("report", "--markdown", "--json").stdout)
    assert told == {"schema": 1, "name": "fix", "markdown": text}


def test_runs_that_are_not_over(tmp_path):
    project = Project(tmp_path)
    crashed(project.root)
    text = project.ll("report", "crashed", "--markdown").stdout
    assert text.startswith("## `crashed`: interrupted\n\n`Loop interrupted (crashed)`\n")
    with under_way(project.root):
        assert project.ll("report", "slow", "--markdown").stdout.startswith("## `slow`: running\n")


def test_hostile_output_in_a_report(tmp_path):
    """Whatever commands print, the report has the headings that we wrote, and no markup of theirs."""
    project = Project(tmp_path)
    for number, text in enumerate(HOSTILE):
        (project.root / f"text{number}").write_text(text)
    states = {
        f"s{n}": {"action": f"cat text{n}; cat text{n} >&2; exit 1", "on_fail": f"s{n + 1}"}
        for n in range(len(HOSTILE))
    }
    states[f"s{len(HOSTILE)}"] = {"terminal": True}  # type: ignore[dict-item]
    ran(project.root, {"name": "hostile", "initial": "s0", "states": states})
    text = project.ll("report", "hostile", "--markdown").stdout
    kinds = tokens(text)
    assert not set(MARKUP) & set(kinds)
    assert kinds.count("heading_open") == 3
    assert kinds.count("fence") == 3 * len(HOSTILE)
    assert "\x1b" not in text


def test_a_report_is_small_enough(tmp_path):
    """A job summary may have 1 MiB; the last steps stay."""
    project = Project(tmp_path)
    line = "x" * 250
    states = {
        f"s{n}": {"action": f"yes {line} | head -200; exit 1", "on_fail": f"s{n + 1}"}
        for n in range(120)
    }
    states["s120"] = {"terminal": True}  # type: ignore[dict-item]
    ran(project.root, {"name": "long", "max_iterations": 999, "initial": "s0", "states": states})
    done = project.ll("report", "long", "--markdown")
    size = len(done.stdout.encode())
    assert MAX_BYTES // 2 < size <= MAX_BYTES
    assert re.search(r"The outputs of the first \d+ steps are left out\.", done.stdout)
    assert "**Step 120, `s119`:** exit 1" in done.stdout
    assert "**Step 1, `s0`:** exit 1" not in done.stdout


def test_no_canary_is_in_a_report(canaries, tmp_path):  # noqa: F811
    path = tmp_path / "report.md"
    done = canaries.ll("report", "canaries", "--markdown", "-o", str(path), env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    text = path.read_text()
    assert "### Outputs" in text
    seen = [number for number in range(1, COUNT + 1) if f"canary{number:02}" in text]
    assert seen == []
    assert "4f9a1c7e" not in text
    assert len(GONE) == 8


def test_what_is_refused(tmp_path: Path):
    project = Project(tmp_path)
    done = project.ll("report", "--markdown")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        "error: this project has no runs yet",
    )
