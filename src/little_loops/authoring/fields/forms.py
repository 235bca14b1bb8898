"""Describe the fields of loop files for forms.

The table of fields says what there is; here, each kind of value gets a control. What no control
fits is edited as YAML. Rules about values are not repeated: whatever a form sets, the file is checked.
"""

from __future__ import annotations

from little_loops.authoring.fields.kinds import (
    ActionKind,
    ConditionKind,
    Environment,
    Field,
    Flag,
    HookCommand,
    HostKind,
    Identifier,
    InProject,
    Kind,
    ListOf,
    Name,
    Num,
    OneOf,
    OwnTree,
    PartKind,
    PatternKind,
    Plain,
    Proof,
    Recipient,
    Str,
    Table,
    TargetKind,
    Time,
    Variables,
    Whole,
)
from little_loops.authoring.fields.table import (
    COMMANDS,
    CONDITIONS,
    EVIDENCE,
    FORM_TABLES,
    HOOK_TABLES,
    HOST,
    LOOP,
    PARTS,
    STATE,
    TRANSITIONS,
    WORKTREE_TABLES,
)
from little_loops.light_typing import Any

Description = dict[str, Any]
_LONG_TEXTS = ("action", "setup", "question")
_DRAWN = ("initial", "states")
"""Fields of the loop that the drawing edits."""


def forms() -> Description:
    """Return the fields of all mappings that a form can edit, by the names that controls use."""
    conditions = {f"condition {name}": rows for name, rows in CONDITIONS.items()}
    tables: dict[str, Table] = {
        "loop": LOOP,
        "state": STATE,
        "host": HOST,
        "evidence": EVIDENCE,
        **{f"paradigm {name}": rows for name, rows in FORM_TABLES.items()},
        **conditions,
        **PARTS,
        **{name: rows for name, rows in COMMANDS.items() if not name.startswith("loop")},
        **HOOK_TABLES,
        **WORKTREE_TABLES,
    }
    return {name: [_field(each, name) for each in rows.fields] for name, rows in tables.items()}


def _field(field: Field, table: str) -> Description:
    return {
        "name": field.name,
        "help": field.help,
        "default": field.default,
        "example": field.example,
        "required": field.required,
        "group": _group(field, table),
        "control": _control(field),
    }


def _group(field: Field, table: str) -> str:
    """Return which part of a form a field belongs to."""
    if table == "loop" and field.name in _DRAWN:
        return "drawn"
    if table == "state" and field.name in TRANSITIONS and field.name not in ("terminal", "outcome"):
        return "transitions"
    return "fields"


def _control(field: Field) -> Description:
    if isinstance(field.kind, (Str, Plain)) and field.name in _LONG_TEXTS:
        return {"type": "lines"}
    return control_of(field.kind)


def control_of(kind: Kind) -> Description:
    """Return the control for a kind of value."""
    match kind:
        case Flag():
            return {"type": "flag"}
        case OneOf(words):
            return {"type": "choice", "words": list(words)}
        case TargetKind(special):
            return {"type": "target", "words": list(special)}
        case Whole() | Num():
            return {"type": "number", "words": list(getattr(kind, "words", ()))}
        case Time():
            return {"type": "time"}
        case ListOf(item) if control_of(item)["type"] in ("text", "target", "choice"):
            return {"type": "list", "item": control_of(item)}
        case Variables() | Environment():
            return {"type": "variables"}
        case ConditionKind():
            names = {name: f"condition {name}" for name in CONDITIONS}
            return {"type": "variant", "key": "type", "default": "exit_code", "tables": names}
        case _:
            return _record_or_text(kind)


def _record_or_text(kind: Kind) -> Description:
    """Return the control for a mapping with fields of its own, or a text; else for YAML."""
    match kind:
        case PartKind(table):
            return {"type": "record", "table": table}
        case HookCommand(table) | ActionKind(table):
            return {"type": "record", "table": table, "short": "action"}
        case HostKind():
            return {"type": "record", "table": "host", "short": "name"}
        case Proof():
            return {"type": "record", "table": "evidence", "flag": True}
        case OwnTree(table):
            return {"type": "record", "table": table, "flag": True}
        case Str() | Plain() | Name() | InProject() | PatternKind() | Recipient() | Identifier():
            return {"type": "text"}
        case _:
            return {"type": "yaml"}
