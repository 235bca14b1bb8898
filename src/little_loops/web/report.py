"""A report about a run: the page, frozen in one file that asks no server.

The file contains the page's script and style, and the answers that the page would get from the
server, by their paths. All texts are masked like those of other reports. A policy in the file keeps
it from the network, and admits only the script and the style that are written here.

Not here: what the page looks like (`web/src/report` in the repository), a report in Markdown
(`terminal.markdown_report`).
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from html import escape
from urllib.parse import quote, urlencode

from little_loops.errors import LittleLoopsError
from little_loops.fsm.timestamps import timestamp
from little_loops.light_typing import Any, Final
from little_loops.receipts.gathering import make_receipt
from little_loops.sharing.run_record import RunRecord
from little_loops.system.files import to_json
from little_loops.terminal.durations import now_ms
from little_loops.web import charts, outputs, run_page, steps
from little_loops.web.errors import ApiError
from little_loops.web.questions import Query
from little_loops.web.security import Policy
from little_loops.web.site import Site

ASSETS: Final = os.path.join(os.path.dirname(__file__), "assets")
PAGE: Final = 100
"""How many steps the page requests at once."""
TIMELINE: Final = 500
OUTPUT: Final = 65_536
MOST_STEPS: Final = 200
"""The newest steps, which are in the report in full."""
PER_ITERATION: Final = 20_000
FEWEST_ITERATIONS: Final = 20
MAX_BYTES: Final = 4_000_000
"""A report has at most `PER_ITERATION` bytes for each iteration, and at most this many. Outputs and
diffs are cut until it fits, and then details of older steps are left out."""
MOST_DIFF: Final = 60_000
MOST_RECEIPT: Final = 60_000
SHORTEST_TEXT: Final = 100
HALF_OUTPUT: Final = 2_500
GAP: Final = "\n… the middle is left out …\n"

Ask = Callable[[Site, Query], Mapping[str, Any]]
Answers = dict[str, Any]


def html_report(record: RunRecord) -> bytes:
    """Return the file."""
    site = Site([record.view.files.root], Policy("", read_only=True), os.environ)
    key = site.projects[0].run_key(record.view)
    frozen, mask = _Frozen(site, key), record.secrets.mask_text
    answers = _hidden(dict(frozen.overview()), mask)
    answers[f"{frozen.path}/receipt"] = _hidden(_receipt(site, record), mask)
    title = mask(record.view.name)
    data = {"key": key, "made_at": f"{timestamp(now_ms())[:16].replace('T', ' ')} UTC"}
    run = answers[frozen.path]
    most = PER_ITERATION * max(FEWEST_ITERATIONS, run["run"]["iteration"])
    room = min(most, MAX_BYTES) - len(_file(title, data | {"answers": answers}))
    details = _fitting([_hidden(each, mask) for each in frozen.details(run["steps"])], room)
    return _file(title, data | {"answers": answers | details})


def _receipt(site: Site, record: RunRecord) -> dict[str, Any]:
    """Return the receipt of a run as text, or why it has none."""
    try:
        text = make_receipt(site.projects[0].runs, record.view, site.environ).decode()
    except LittleLoopsError as error:
        return {"schema": 1, "text": None, "reason": error.message}
    if len(text) > MOST_RECEIPT:
        name = record.view.name
        return {
            "schema": 1,
            "text": None,
            "reason": f"it is large: `ll-loop receipt {name}` prints it",
        }
    return {"schema": 1, "text": text, "reason": None}


class _Frozen:
    """The answers about one run, by the paths that the page asks for."""

    def __init__(self, site: Site, key: str) -> None:
        self.site, self.key = site, key
        self.path = f"/api/runs/{quote(key, safe='~()*!.' + chr(39))}"

    def overview(self) -> Iterator[tuple[str, Any]]:
        """Yield the paths with their answers that are about the run as a whole."""
        detail = self._ask(run_page.run_detail)
        yield self.path, detail
        yield f"{self.path}/machine", self._ask(run_page.CountCache().run_machine)
        timeline = urlencode({"limit": TIMELINE})
        yield f"{self.path}/timeline?{timeline}", self._ask(charts.timeline, limit=TIMELINE)
        yield f"{self.path}/charts", self._ask(charts.charts)
        yield f"{self.path}/steps?limit={PAGE}", self._ask(steps.steps, limit=PAGE)
        for after in range(0, detail["steps"] if detail["steps"] > PAGE else 0, PAGE):
            words = f"after={after}&limit={PAGE}"
            yield f"{self.path}/steps?{words}", self._ask(steps.steps, after=after, limit=PAGE)

    def details(self, steps: int) -> Iterator[Answers]:
        """Yield the answers about each of so many steps, the newest first."""
        for number in range(steps, max(steps - MOST_STEPS, 0), -1):
            yield dict(self._step(number))

    def _step(self, number: int) -> Iterator[tuple[str, Any]]:
        """Yield everything about one step."""
        path = f"{self.path}/steps/{number}"
        detail = dict(self._ask(steps.step_detail, step=number))
        detail["can"] = []
        detail["events"] = [_without_output(event) for event in detail["events"]]
        yield path, detail
        for attempt in detail["attempts"]:
            for stream in _streams(attempt):
                words = {"attempt": attempt["attempt"], "stream": stream, "offset": -1}
                asked = urlencode({**words, "limit": OUTPUT})
                yield f"{path}/output?{asked}", self._output(number, words)
        if (detail["step"]["changed"] or {}).get("files"):
            yield f"{path}/diff", self._diff(number)

    def _output(self, number: int, words: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the beginning and the end of what an action printed."""
        try:
            answer = dict(self._ask(outputs.output, step=number, **words, limit=HALF_OUTPUT))
            head = ""
            if answer["offset"] > 0:
                first = {**words, "offset": 0, "limit": HALF_OUTPUT}
                head = self._ask(outputs.output, step=number, **first)["text"] + GAP
        except (ApiError, LittleLoopsError):  # its files are gone
            return {"schema": 1, "text": "", "offset": 0, "next": 0, "size": 0, "done": True}
        size = answer["size"]
        return answer | {"text": head + answer["text"], "offset": 0, "next": size, "done": True}

    def _diff(self, number: int) -> Mapping[str, Any]:
        try:
            answer = self._ask(steps.diff, step=number)
        except (ApiError, LittleLoopsError) as error:  # the store was pruned
            return {
                "schema": 1,
                "first": number,
                "last": number,
                "text": str(error),
                "truncated": False,
            }
        text = answer["text"]
        return {**answer, "text": text[:MOST_DIFF], "truncated": len(text) > MOST_DIFF}

    def _ask(self, ask: Ask, **words: Any) -> Mapping[str, Any]:
        path = {"run": self.key}
        if "step" in words:
            path["step"] = str(words.pop("step"))
        return ask(self.site, Query(path, {name: str(word) for name, word in words.items()}, {}))


def _fitting(steps: list[Answers], room: int) -> Answers:
    """Return as much about these steps as there is room for, the first ones first."""
    longest = MOST_DIFF
    while longest > SHORTEST_TEXT and sum(map(_size, steps)) > room:
        longest //= 2
        steps = [_cut(each, longest) for each in steps]
    found: Answers = {}
    for each in steps:
        room -= _size(each)
        if room < 0:
            break
        found |= each
    return found


def _size(answers: Answers) -> int:
    """Return how many bytes answers take in the file."""
    return len(_as_script(answers).encode())


def _cut(answers: Answers, longest: int) -> Answers:
    """Return the answers about a step with shorter outputs and diffs."""
    return {path: _cut_text(path, answer, longest) for path, answer in answers.items()}


def _cut_text(path: str, answer: Any, longest: int) -> Any:
    """Return an output without its middle, or a diff without its end, if it is longer than that."""
    is_diff = path.endswith("/diff")
    if not (is_diff or "/output?" in path) or len(answer["text"]) <= longest:
        return answer
    text = answer["text"]
    if is_diff:
        return {**answer, "text": text[:longest], "truncated": True}
    half = longest // 2
    return {**answer, "text": f"{text[:half]}{GAP}{text[-half:]}"}


def _streams(attempt: Mapping[str, Any]) -> Iterator[str]:
    """Yield the outputs that the page shows for an attempt."""
    yield "stdout"
    if attempt["stderr_bytes"]:
        yield "stderr"
    if attempt["kind"] == "agent":
        yield "agent"


def _without_output(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event without the texts that are shown as the output of the step."""
    return {name: each for name, each in event.items() if name not in ("output", "stderr", "tail")}


def _hidden(value: Any, mask: Callable[[str], str]) -> Any:
    """Return a document with the secrets in all of its texts masked."""
    match value:
        case str():
            return mask(value)
        case Mapping():
            return {name: _hidden(each, mask) for name, each in value.items()}
        case list() | tuple():
            return [_hidden(each, mask) for each in value]
        case _:
            return value


def _file(title: str, data: Mapping[str, Any]) -> bytes:
    """Return the document with script, style and data inlined."""
    script = _asset("report.js").replace("</script", "<\\/script")
    style = _asset("report.css")
    text = _as_script(data)
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    document = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{escape(title)} · ll-loop</title>
<style>{style}</style>
</head>
<body>
<div id="app"><noscript>This report needs JavaScript.</noscript></div>
<script type="application/json" id="data">{text}</script>
<script>{script}</script>
</body>
</html>
"""
    return document.encode("utf-8", "replace")


def _as_script(data: Mapping[str, Any]) -> str:
    """Return data as JSON that cannot end a `script` element."""
    return to_json(data).decode().replace("<", "\\u003c")


def _asset(name: str) -> str:
    with open(os.path.join(ASSETS, name), encoding="utf-8") as file:
        return file.read()


def _hash(text: str) -> str:
    """Return what a policy calls an inline script or style."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
