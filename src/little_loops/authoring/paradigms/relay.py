"""Paradigm `relay`: one plan, handed to fresh agents until it is implemented.

`prepare` clears the way for a turn and says where the plan is to be taken up, `turn` is the agent,
`settle` reads the metadata the agent left, commits and decides.  However the turn ended, by an
error, a timeout or a crash, `settle` looks at what it left: an exit code proves nothing.

Not here: what these built-in actions do (`relay.turns`), what metadata leads to (`relay.rules`).
"""

from __future__ import annotations

from little_loops.authoring.paradigms.assembly import Piece, document, step
from little_loops.authoring.yaml.nodes import Entry, List, Map, Node, Text, mapping, text

KEYS = ("agent", "metadata", "plan", "commit", "session")
DEFAULT_TURNS = 5
HANDED_OVER = (
    *("resume_phase", "phases_total", "handoff_path", "iteration"),
    *("session_id", "plan_path", "metadata_path"),
)
"""What a turn is told: as `key: value` lines for an agent, as `LL_KEY` for a command."""
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
    # After an interruption `prev` is still `prepare`, and `turn` may never have ended at all.
    "after": "${prev.state}",
    "exit": "${prev.exit_code}",
    "output": "${captured.turn.file:-}",
}
"""What `settle` is told of the turn: when it began, and how it ended."""
CONTRACT = (
    "before you end, write one JSON object to the file metadata_path: "
    '{"status": "partial", "requires_user_review": false, "reason": "", "partial_progress": '
    '{"stage": "", "phases_completed": 2, "phases_total": 4, "handoff_path": ""}, '
    '"artifacts": [], "summary_path": "", "errors": []}. '
    "status is implemented, partial, blocked or failed. requires_user_review is true only if a "
    "person has to decide something before anybody can go on; reason says what. When your context "
    "runs low, leave the work in a sound state, write a handoff file for your successor, name it in "
    "handoff_path and end with partial. The file counts, not what you print."
)


def expand(root: Map, stem: str) -> Map:
    """The native document that `root` stands for."""
    root = _with_default(root, "max_iterations", Text(str(DEFAULT_TURNS), "int", DEFAULT_TURNS))
    # A relay is there to go on with fresh agents; one that is full in mid-turn is no exception.
    root = _with_default(root, "on_handoff", text("continue", root))
    near = root.get("metadata")
    pieces = [_prepare(root), _turn(root.get("agent")), _settle(root), *_ends(near)]
    return document(root, KEYS, pieces, stem)


def _with_default(root: Map, name: str, value: Text) -> Map:
    if root.get(name) is not None:
        return root
    entry = Entry(text(name, root), value._replace(mark=root.mark))
    return root._replace(entries=(*root.entries, entry))


def _prepare(root: Map) -> Piece:
    return _builtin(root, "prepare", _inputs(root), {"ready": "turn"})


def _settle(root: Map) -> Piece:
    near = root.get("metadata")
    ended = {name: text(told, near) for name, told in ENDED.items()}
    return _builtin(root, "settle", {**_inputs(root), **ended}, WORDS)


def _builtin(root: Map, name: str, inputs: dict[str, Node], words: dict[str, str]) -> Piece:
    near = root.get("metadata")
    listed = List(tuple(text(word, near) for word in words), near.mark if near else None)
    condition = mapping({"type": text("verdict", near), "words": listed}, near)
    fields: list[tuple[str, Node]] = [
        ("action", text(f"relay.{name}", near)),
        ("action_type", text("builtin", near)),
        ("context", mapping(inputs, near)),
        ("condition", condition),
        *((f"on_{word}", text(target, near)) for word, target in words.items()),
    ]
    return Piece(name, mapping(fields, near), near)


def _inputs(root: Map) -> dict[str, Node]:
    """What the actions work with, as the author wrote it; `cwd` is where the agent works."""
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
    return inputs


def _as_template(node: Text) -> Text:
    """The text as a template that gives it back: `$${` would come out as `${`."""
    escaped = node.text.replace("$${", "$$${")
    return node if escaped == node.text else node._replace(text=escaped, value=escaped)


def _turn(agent: Node | None) -> Piece:
    timed = isinstance(agent, Map) and "timeout" in agent
    fields = ("next", "on_error", *(["on_timeout"] if timed else []), "on_interrupt")
    ways = dict.fromkeys(fields, "settle")
    piece = step("turn", agent, **ways)
    told = {name: f"${{captured.prepare.structured.{name}}}" for name in HANDED_OVER}
    # The engine's own `LL_ITERATION` is the number of the turn.
    env = {f"LL_{name.upper()}": at for name, at in told.items() if name != "iteration"}
    piece = _with_more(piece, "context", {**told, "return_metadata": CONTRACT})
    return _with_more(piece, "env", env)


def _with_more(piece: Piece, field: str, more: dict[str, str]) -> Piece:
    """The piece with more in one of its mappings; what the author wrote there comes first."""
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
    fields = Map((*kept, Entry(text(field, piece.near), whole)), piece.fields.mark)
    return piece._replace(fields=fields)


def _ends(near: Node | None) -> list[Piece]:
    ends = {
        "done": {"outcome": "success"},
        "review": {"outcome": "review", "next": "prepare"},
        "stopped": {"outcome": "failure"},
    }
    return [Piece(name, _end(near, fields), near) for name, fields in ends.items()]


def _end(near: Node | None, fields: dict[str, str]) -> Map:
    terminal = Text("true", "bool", True, near.mark if near is not None else None)
    said: list[tuple[str, Node]] = [
        ("action", text("relay.report", near)),
        ("action_type", text("builtin", near)),
        ("terminal", terminal),
    ]
    return mapping([*said, *((name, text(to, near)) for name, to in fields.items())], near)
