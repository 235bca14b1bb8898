"""Paradigm `relay`: one plan, handed to fresh agents until it is implemented.

`prepare` clears the way for a turn and says where the plan is to be taken up, `turn` is the agent,
`settle` reads the metadata the agent left, commits and decides.  However the turn ended, by an
error, a timeout or a crash, `settle` looks at what it left: an exit code proves nothing.

Not here: what the two hidden verbs do (`relay.turns`), what metadata leads to (`relay.rules`).
"""

from __future__ import annotations

import shlex

from little_loops.authoring.paradigms.assembly import Piece, document, items, step
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
SHOW_REPORT = 'cat "$LL_RUN_DIR/relay-report.txt"'
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
    options = [*_option(root, "session"), *_turns_cwd(root)]
    action = " ".join(["ll-loop relay prepare", *_common(root), *options])
    return _verb(root, "prepare", action, {"ready": "turn"})


def _settle(root: Map) -> Piece:
    scope = [f"--scope={_quoted(path)}" for path in _texts(root.get("scope"))]
    # After an interruption `prev` is still `prepare`, and `turn` may never have ended at all.
    ended = "--after=${prev.state} --exit=${prev.exit_code} --output=${captured.turn.file:-}"
    action = " ".join(["ll-loop relay settle", *_common(root), *_turns_cwd(root), *scope, ended])
    return _verb(root, "settle", action, WORDS)


def _verb(root: Map, name: str, action: str, words: dict[str, str]) -> Piece:
    near = root.get("metadata")
    listed = List(tuple(text(word, near) for word in words), near.mark if near else None)
    condition = mapping({"type": text("verdict", near), "words": listed}, near)
    fields: list[tuple[str, Node]] = [("action", text(action, near)), ("condition", condition)]
    fields += [(f"on_{word}", text(target, near)) for word, target in words.items()]
    if "cwd" in root:  # the paths are the project's, wherever the agent works
        fields.append(("cwd", text(".", near)))
    return Piece(name, mapping(fields, near), near)


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
    said: list[tuple[str, Node]] = [("action", text(SHOW_REPORT, near)), ("terminal", terminal)]
    return mapping([*said, *((name, text(to, near)) for name, to in fields.items())], near)


# ── the verbs' options ─────────────────────────────────────────────────────────────────────────


def _common(root: Map) -> list[str]:
    commit = root.get("commit")
    off = isinstance(commit, Text) and commit.value is False
    return [
        *_option(root, "metadata"),
        *_option(root, "plan"),
        *(["--no-commit"] if off else []),
    ]


def _option(root: Map, name: str) -> list[str]:
    written = root.get(name)
    return [f"--{name}={_quoted(written)}"] if isinstance(written, Text) else []


def _quoted(path: Text) -> str:
    """The text as one word of a script, where `$${` would come out as `${`."""
    return shlex.quote(path.text).replace("$${", "$$${")


def _turns_cwd(root: Map) -> list[str]:
    """Where the agent works, if not in the project's own directory."""
    agent = root.get("agent")
    own = agent.get("cwd") if isinstance(agent, Map) else None
    cwd = own if own is not None else root.get("cwd")
    return [f"--cwd={_quoted(cwd)}"] if isinstance(cwd, Text) else []


def _texts(node: Node | None) -> list[Text]:
    return [item for item in items(node) if isinstance(item, Text)]
