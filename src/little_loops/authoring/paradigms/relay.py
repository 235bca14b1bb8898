"""Paradigm `relay`: one plan, handed to fresh agents until it is implemented.

`prepare` sets up a turn and determines where to continue the plan, `turn` is the agent, `settle`
reads the metadata that the agent left, commits and decides. However the turn ended, by an error, a
timeout or a crash, `settle` reads what it left: an exit code proves nothing. If the author wrote a
`check`, it decides whether a plan that is reported as implemented really is.

Not here: what these built-in actions do (`relay.turns`), what metadata leads to (`relay.rules`).
"""

from __future__ import annotations

from little_loops.authoring.paradigms.assembly import Piece, document, flag, step, true
from little_loops.authoring.yaml.nodes import List, Map, MapEntry, Node, Text, mapping, text

KEYS = ("agent", "metadata", "plan", "check", "task", "commit", "session")
DEFAULT_TURNS = 5
TASK_KEYS = ("id", "state", "todo")
DEFAULT_METADATA = ".return-meta.json"
HANDED_OVER = (
    *("resume_phase", "phases_total", "handoff_path", "iteration"),
    *("session_id", "plan_path", "metadata_path"),
)
"""The values passed to a turn: as `key: value` lines to an agent, as `LL_KEY` variables to a command."""
FAILED_CHECK = ("check_output", "check_log")
"""The additional values if the relay has a check."""
LABELS = {
    "prepare": "the preparation of a turn",
    "settle": "the evaluation of the turn",
    "report": "the relay's report",
}
"""What screens show instead of the built-in actions' names."""
WORDS = {
    "implemented": "done",
    "partial": "prepare",
    "review": "review",
    "blocked": "stopped",
    "failed": "stopped",
    "invalid": "prepare",
}
ENDED = {
    "started_ns": "${captured.prepare.structured.started_ns:-}",
    # After an interruption, `prev` is still `prepare`, and `turn` may never have ended.
    "after": "${prev.state}",
    "exit": "${prev.exit_code}",
    "output": "${captured.turn.file:-}",
}
"""The inputs of `settle` about the turn: when it started, and how it ended."""
CONTRACT = (
    "before you end, write one JSON object to the file metadata_path: "
    '{"status": "partial", "requires_user_review": false, "reason": "", "partial_progress": '
    '{"stage": "", "phases_completed": 2, "phases_total": 4, "handoff_path": ""}, '
    '"artifacts": [], "summary_path": "", "errors": []}. '
    "status is implemented, partial, blocked or failed. requires_user_review is true only if a "
    "person has to decide something before anybody can continue; reason says what. After each phase "
    "add an entry to a summary file (summaries/implementation-summary.md beside the plan): the phase, "
    "what you changed, which checks you ran with what result; name the file in summary_path. When "
    "your context runs low, leave the work in a sound state, write a handoff file of about 40 lines "
    "for your successor (handoffs/phase-P.md beside the plan) that begins with a section "
    '"Immediate Next Action", name it in handoff_path and end with partial. '
    "Only the metadata file counts, not what you print."
)
ABOUT_CHECK = (
    " If check_output is not empty, the last turn reported implemented and the check failed: fix "
    "what it reports, whatever the phases say. check_log names the file with all of its output."
)


def expand(root: Map, stem: str) -> Map:
    """Rewrite a document of this paradigm into the native form."""
    root = _with_default(root, "max_iterations", Text(str(DEFAULT_TURNS), "int", DEFAULT_TURNS))
    # A relay continues with fresh agents, also if one runs out of context in the middle of a turn.
    root = _with_default(root, "on_handoff", text("continue", root))
    root = _with_default(root, "metadata", text(_beside(root.get("plan")), root.get("plan")))
    check = root.get("check")
    pieces = [_prepare(root), _turn(root.get("agent"), check is not None), _settle(root)]
    pieces += [] if check is None else [_check(check)]
    return document(root, KEYS, [*pieces, *_ends(_near(root))], stem)


def _near(root: Map) -> Node:
    """Return the node whose position the generated states get."""
    near = root.get("metadata")
    assert near is not None, "it has a default"
    return near


def _beside(plan: Node | None) -> str:
    """Return the default path of the metadata file, in the plan's directory."""
    folder = plan.text.rpartition("/")[0] if isinstance(plan, Text) else ""
    return f"{folder}/{DEFAULT_METADATA}" if folder else DEFAULT_METADATA


def _check(command: Node) -> Piece:
    """Return the state that confirms a plan; an error ends the run, because only a pass proves it."""
    return flag(step("check", command, on_pass="done", on_fail="prepare"), "check")


def _with_default(root: Map, name: str, value: Text) -> Map:
    """Return the document with a default value for a missing field."""
    if root.get(name) is not None:
        return root
    entry = MapEntry(text(name, root), value if value.mark else value._replace(mark=root.mark))
    return root._replace(entries=(*root.entries, entry))


def _prepare(root: Map) -> Piece:
    """Return the state before each turn; if there is a check, it gets the check's log."""
    near = _near(root)
    log = {"check_log": text("${captured.check.log_file:-}", near)}
    inputs = {**_inputs(root), **(log if "check" in root else {})}
    return _builtin(root, "prepare", inputs, {"ready": "turn"})


def _settle(root: Map) -> Piece:
    """Return the state after each turn, which decides what is next; if there is a check,
    implemented work is checked first."""
    near = _near(root)
    ended = {name: text(told, near) for name, told in ENDED.items()}
    if "check" not in root:
        return _builtin(root, "settle", {**_inputs(root), **ended}, WORDS)
    inputs = {**_inputs(root), "checked": true(near), **ended}
    return _builtin(root, "settle", inputs, {**WORDS, "implemented": "check"})


def _builtin(root: Map, name: str, inputs: dict[str, Node], words: dict[str, str]) -> Piece:
    """Return a state with a built-in action, its inputs, and a transition for each word."""
    near = _near(root)
    listed = List(tuple(text(word, near) for word in words), near.mark)
    condition = mapping({"type": text("verdict", near), "words": listed}, near)
    fields: list[tuple[str, Node]] = [
        ("action", text(f"relay.{name}", near)),
        ("action_type", text("builtin", near)),
        ("label", text(LABELS[name], near)),
        ("context", mapping(inputs, near)),
        ("condition", condition),
        *((f"on_{word}", text(target, near)) for word, target in words.items()),
    ]
    return Piece(name, mapping(fields, near), near)


def _inputs(root: Map) -> dict[str, Node]:
    """Return the inputs of the built-in actions, as the author wrote them; `cwd` is the agent's."""
    agent = root.get("agent")
    own = agent.get("cwd") if isinstance(agent, Map) else None
    written = {name: root.get(name) for name in ("metadata", "plan", "session")}
    written["cwd"] = own if own is not None else root.get("cwd")
    inputs: dict[str, Node] = {
        name: _as_template(node) for name, node in written.items() if isinstance(node, Text)
    }
    commit = root.get("commit")
    if isinstance(commit, Text) and commit.value is False:
        inputs["commit"] = commit._replace(text="false")
    return inputs | _task_inputs(root.get("task"))


def _task_inputs(task: Node | None) -> dict[str, Node]:
    """Return the inputs for the fields of `task`, as far as they are text."""
    entries = task.entries if isinstance(task, Map) else ()
    return {
        f"task_{key.text}": _as_template(value._replace(kind="str", value=value.text))
        for key, value in entries
        if key.text in TASK_KEYS and isinstance(value, Text)
    }


def _as_template(node: Text) -> Text:
    """Escape a text so that it is unchanged when it is filled in as a template."""
    escaped = node.text.replace("$${", "$$${")
    return node if escaped == node.text else node._replace(text=escaped, value=escaped)


def _turn(agent: Node | None, has_check: bool) -> Piece:
    """Return the agent's state, with the values for the turn in its context and environment."""
    timed = isinstance(agent, Map) and "timeout" in agent
    fields = ("next", "on_error", *(["on_timeout"] if timed else []), "on_interrupt")
    transitions = dict.fromkeys(fields, "settle")
    piece = step("turn", agent, **transitions)
    names = (*HANDED_OVER, *(FAILED_CHECK if has_check else ()))
    told = {name: f"${{captured.prepare.structured.{name}}}" for name in names}
    # The engine's own `LL_ITERATION` is the number of the turn.
    env = {f"LL_{name.upper()}": at for name, at in told.items() if name != "iteration"}
    contract = CONTRACT + ABOUT_CHECK if has_check else CONTRACT
    piece = _with_more(piece, "context", {**told, "return_metadata": contract})
    return _with_more(piece, "env", env)


def _with_more(piece: Piece, field: str, more: dict[str, str]) -> Piece:
    """Return the piece with more entries in one of its mappings; the author's come first."""
    written = piece.fields.get(field)
    if not isinstance(written, Map | None):
        return piece  # reported by the reader
    theirs = written.entries if written is not None else ()
    added = [(key, text(value, piece.near)) for key, value in more.items()]
    ours = mapping(
        [pair for pair in added if written is None or pair[0] not in written], piece.near
    )
    kept = tuple(entry for entry in piece.fields.entries if entry.key.text != field)
    whole = Map((*theirs, *ours.entries), written.mark if written is not None else ours.mark)
    fields = Map((*kept, MapEntry(text(field, piece.near), whole)), piece.fields.mark)
    return piece._replace(fields=fields)


def _ends(near: Node | None) -> list[Piece]:
    """Return the terminal states, which print the report."""
    ends = {
        "done": {"outcome": "success"},
        "review": {"outcome": "review", "next": "prepare"},
        "stopped": {"outcome": "failure"},
    }
    return [Piece(name, _end(near, fields), near) for name, fields in ends.items()]


def _end(near: Node | None, fields: dict[str, str]) -> Map:
    """Return the fields of a terminal state that prints the report."""
    said: list[tuple[str, Node]] = [
        ("action", text("relay.report", near)),
        ("action_type", text("builtin", near)),
        ("label", text(LABELS["report"], near)),
        ("terminal", true(near)),
    ]
    return mapping([*said, *((name, text(to, near)) for name, to in fields.items())], near)
