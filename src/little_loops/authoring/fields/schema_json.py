"""The loop format as a JSON Schema, for completion, help and diagnostics in editors.

It is generated from the table of fields. It never rejects what the reader accepts; some of what the
reader rejects (unknown targets, contradictions) a schema cannot express. It is draft 2020-12, and
also works with tools that only know draft 07.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from little_loops.authoring.fields.kinds import (
    BRANCH_NAME,
    CODE_RANGE,
    DURATION,
    LARGEST_CODE,
    LONGEST_S,
    MOST_ITEMS,
    MOST_STATES,
    MOST_WORDS,
    STATE_NAME,
    VARIABLE_NAME,
    ActionKind,
    AnyScalar,
    BranchMap,
    CodeKind,
    Codes,
    Commands,
    ConditionKind,
    Environment,
    EventCommands,
    Field,
    Flag,
    ForEach,
    HookCommand,
    HostKind,
    Identifier,
    InProject,
    Join,
    Kind,
    ListOf,
    Machine,
    Matrix,
    Name,
    Num,
    OneOf,
    OtherKind,
    OwnTree,
    PartKind,
    PatternKind,
    Plain,
    Ports,
    Proof,
    Protected,
    Recipient,
    Resolver,
    Route,
    Str,
    SubLoop,
    Table,
    TargetKind,
    Time,
    Variables,
    Whole,
    Words,
)
from little_loops.authoring.fields.table import (
    BRANCH,
    CHECK_FIX,
    COMMAND,
    COMMANDS,
    COMMON,
    CONDITIONS,
    CONSTRAINT,
    EVIDENCE,
    EXISTING,
    GLOB,
    HOOK_TABLES,
    HOOKS,
    HOST,
    LIMITS,
    LOOP,
    NOTIFY,
    OR_AGAIN,
    PARADIGM_TABLES,
    RETRY,
    RUNS_ON,
    STATE,
    STEP,
    TASK,
    WORKSPACE,
    WORKTREE_TABLES,
)
from little_loops.fsm.events import HOOK_KINDS
from little_loops.fsm.schema import HOST_NAMES
from little_loops.light_typing import Any

Schema = dict[str, Any]

VERSION = 1
ID = f"urn:little-loops:loop:v{VERSION}"
OWN_KEYS = {"^x-": True}
TEMPLATE: Schema = {"type": "string", "pattern": r"\$\{"}
OLD_BOOLEAN: Schema = {
    "type": "string",
    "pattern": "^(?:[yY]es|YES|[nN]o|NO|[oO]n|ON|[oO]ff|OFF)$",
}
"""Booleans in YAML 1.1 and for us, but text in most editors, which do not suggest patterns."""
HOST_ITEM: Schema = {"type": "string", "pattern": r"^\$\{branch\.\w+\}$"}
CODE_TEXT: Schema = {"type": "string", "pattern": f"^{CODE_RANGE}$"}
NOT_BLANK: Schema = {"type": "string", "pattern": r"\S"}
SCALAR = ["string", "number", "boolean"]


def schema() -> Schema:
    """Return the whole schema, as plain data."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "a loop of little-loops",
        "type": "object",
        "oneOf": [_native(), _check_fix(), *(_paradigm(name) for name in PARADIGM_TABLES)],
        "$defs": {
            "state": _state(),
            "condition": _conditions(),
            "command": {
                "description": "a command: text, or a mapping with `action` and state fields",
                "anyOf": [NOT_BLANK, _record(COMMAND)],
            },
            "loop_command": {
                "description": "a command, or a mapping with `loop` and state fields",
                "anyOf": [NOT_BLANK, _record(COMMAND), _record(COMMANDS["loop command"])],
            },
            "step": {
                "description": "a step: text, or a mapping with `action` or `loop`, `name` and state"
                " fields",
                "anyOf": [NOT_BLANK, _record(STEP), _record(COMMANDS["loop step"])],
            },
            "host": {"anyOf": [{"enum": list(HOST_NAMES)}, HOST_ITEM, _record(HOST)]},
            "branch": _record(BRANCH),
            "resolver": {
                "description": "the name of a loop, or a mapping with `action` or `loop`",
                "anyOf": [NOT_BLANK, _record(BRANCH)],
            },
            "evidence": {"anyOf": [_kind(Flag()), _record(EVIDENCE)]},
            "protect": {"anyOf": [_kind(ListOf(PatternKind(), 1)), _record(EXISTING)]},
            "retry": _record(RETRY),
            "limits": _record(LIMITS),
            "constraint": _record(CONSTRAINT),
            "task": _record(TASK),
            "hooks": _record(HOOKS),
            "notify": _record(NOTIFY),
            "workspace": _record(WORKSPACE),
            "runs_on": _record(RUNS_ON),
            **{
                name: {"anyOf": [_kind(Flag()), _record(rows)]}
                for name, rows in WORKTREE_TABLES.items()
            },
            **{name: {"anyOf": [NOT_BLANK, _record(rows)]} for name, rows in HOOK_TABLES.items()},
            "duration": _duration({"exclusiveMinimum": 0}),
            "duration_or_zero": _duration({"minimum": 0}),
            "context": _named({}),
            "env": _named({"type": SCALAR}),
            **{_shared(field): _field(field) for field in _SHARED},
        },
    }


def test_schema() -> Schema:
    """Return the schema of test files."""
    from little_loops.authoring.loop_tests import FILE, TABLES  # loops need none of it

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:little-loops:test:v{VERSION}",
        "title": "tests of a loop of little-loops",
        **_record(FILE),
        "$defs": {
            **{name: _record(table) for name, table in TABLES.items() if table is not FILE},
            "duration_or_zero": _duration({"minimum": 0}),
        },
    }


def _native() -> Schema:
    """Return the schema for a file with `states`, whatever its `paradigm`."""
    return {"title": "fsm", **_record(LOOP)}


def _check_fix() -> Schema:
    return {"title": "check and fix", **_record(CHECK_FIX)}


def _paradigm(name: str) -> Schema:
    """Return the schema for a loop of this paradigm, which `paradigm` has to name."""
    schema = _record(PARADIGM_TABLES[name])
    schema["properties"]["paradigm"] = {"const": name, "description": f"paradigm `{name}`"}
    schema["required"] = ["paradigm", *schema["required"]]
    return {"title": name, **schema}


def _record(table: Table) -> Schema:
    """Return the schema for a mapping with the fields of a table, and the user's own `x-` keys."""
    properties = {
        name: _ref(_shared(field)) if field in _SHARED else _field(field)
        for field in table.fields
        for name in (field.name, *field.aliases)
    }
    found: Schema = {
        "type": "object",
        "properties": properties,
        "patternProperties": OWN_KEYS,
        "additionalProperties": False,
    }
    found["required"] = [f.name for f in table.fields if f.required and not f.aliases]
    choices = [
        {"oneOf": [{"required": [name]} for name in (field.name, *field.aliases)]}
        for field in table.fields
        if field.required and field.aliases
    ]
    if choices:
        found["allOf"] = choices
    return found


def _field(field: Field) -> Schema:
    """Return the schema for one field.

    Draft 07 ignores everything beside a `$ref`, so that is wrapped.
    """
    described: Schema = {"description": _description(field)}
    kind = _kind(field.kind)
    if "$ref" in kind:
        return {**described, "allOf": [kind]}
    return {**described, **kind}


def _description(field: Field) -> str:
    default = f" (default: {field.default})" if field.default is not None else ""
    example = f"; for example `{field.example}`" if field.example is not None else ""
    return f"{field.help}{default}{example}"


def _state() -> Schema:
    """Return the schema for a state; `on_<word>` is only allowed if its condition lists words."""
    plain = _record(STATE)
    with_words = {
        **plain,
        "patternProperties": {**OWN_KEYS, f"^on_{STATE_NAME}$": _target(OR_AGAIN)},
    }
    lists_words = {"required": ["words"]}
    has_words = {
        "anyOf": [
            {"required": [name], "properties": {name: lists_words}}
            for name in ("condition", "check_condition")
        ]
    }
    return {"if": has_words, "then": with_words, "else": plain}


def _conditions() -> Schema:
    """Return the schema for conditions, one alternative per type; `exit_code` needs no `type`."""
    found = []
    for name, table in CONDITIONS.items():
        schema = _record(table)
        schema["properties"]["type"] = {"const": name, "description": f"type `{name}`"}
        if name != "exit_code":
            schema["required"] = ["type", *schema["required"]]
        found.append({"title": name, **schema})
    return {"type": "object", "oneOf": found}


def _duration(bound: Schema) -> Schema:
    """Return the schema for a time in seconds, with this lower bound, or as text like `90s`."""
    return {
        "anyOf": [
            {"type": "number", **bound, "maximum": LONGEST_S},
            {"type": "string", "pattern": f"^{DURATION}$"},
        ]
    }


def _time(kind: Time) -> Schema:
    if kind.least:
        return _duration({"minimum": kind.least})
    return _ref("duration_or_zero" if kind.zero else "duration")


def _named(value: Schema) -> Schema:
    """Return the schema for a mapping of variable names to values; an empty `value` allows any."""
    return {
        "type": "object",
        "propertyNames": {"pattern": f"^{VARIABLE_NAME}$"},
        "additionalProperties": value or True,
    }


def _kind(kind: Kind) -> Schema:
    if isinstance(kind, OtherKind):
        return dict(kind.schema)
    return _KINDS[type(kind)](kind)


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _whole(kind: Whole) -> Schema:
    found: Schema = {"type": "integer", "minimum": kind.least, "maximum": kind.most}
    return {"anyOf": [found, TEMPLATE]} if kind.template else found


def _num(kind: Num) -> Schema:
    """Return the schema for a number, or a template or word if the kind allows one."""
    found: Schema = {"type": "number"}
    if kind.least is not None:
        found["exclusiveMinimum" if kind.above else "minimum"] = kind.least
    others = [TEMPLATE] if kind.template else []
    others += [{"enum": [*kind.words]}] if kind.words else []
    return {"anyOf": [found, *others]} if others else found


def _name(kind: Name) -> Schema:
    return {"type": "string", "pattern": f"^{kind.pattern}$"}


def _target(kind: TargetKind) -> Schema:
    """Return the schema for the name of a state, or one of the kind's special targets."""
    if not kind.special:
        return {"type": "string", "pattern": f"^{STATE_NAME}$"}
    special = "|".join(f"\\{each}" for each in kind.special)
    return {"type": "string", "pattern": f"^(?:{STATE_NAME}|{special})$"}


def _list(kind: ListOf) -> Schema:
    items = _kind(kind.item)
    return {"type": "array", "items": items, "minItems": kind.least, "maxItems": kind.most}


def _words(kind: Words) -> Schema:
    bounds = {"minItems": 1, "maxItems": MOST_WORDS, "uniqueItems": True}
    return {"type": "array", **bounds, "items": _name(_WORD)}


def _machine(kind: Machine) -> Schema:
    """Return the schema for `states`."""
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MOST_STATES,
        "propertyNames": {"pattern": f"^{STATE_NAME}$"},
        "additionalProperties": _ref("state"),
    }


def _for_each(kind: ForEach) -> Schema:
    """Return the schema for the items of branches."""
    return {"anyOf": [{"type": "array", "maxItems": MOST_ITEMS}, NOT_BLANK, _record(GLOB)]}


def _matrix(kind: Matrix) -> Schema:
    """Return the schema for names with lists of values."""
    values = {"type": "array", "minItems": 1, "maxItems": MOST_ITEMS}
    return {**_named(values), "minProperties": 1}


def _join(kind: Join) -> Schema:
    """Return the schema for how many branches have to pass."""
    percentage = {"type": "string", "pattern": "^([1-9][0-9]?|100)%$"}
    return {"anyOf": [{"enum": ["all", "any"]}, _whole(Whole(1, MOST_ITEMS)), percentage]}


def _branches(kind: BranchMap) -> Schema:
    """Return the schema for `branches`."""
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MOST_ITEMS,
        "propertyNames": {"pattern": f"^{BRANCH_NAME}$"},
        "additionalProperties": _ref("branch"),
    }


def _event_hooks(kind: EventCommands) -> Schema:
    """Return the schema for hooks by kind of event."""
    properties = {name: _ref("beside_hook") for name in HOOK_KINDS}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _command(kind: ActionKind) -> Schema:
    return _ref("loop_command" if kind.loops and kind.table == "command" else kind.table)


def _shared(field: Field) -> str:
    return f"{'loop' if field in COMMON else 'state'}_{field.name}"


# Fields that occur in several kinds of mapping, defined once.
_SHARED = (*COMMON, *(field for field in STATE.fields if field not in COMMON))
_WORD = Name("word", STATE_NAME)
_KINDS: Mapping[type, Callable[[Any], Schema]] = {
    Str: lambda kind: NOT_BLANK,
    Plain: lambda kind: NOT_BLANK,
    Identifier: lambda kind: {"anyOf": [{"type": "integer"}, NOT_BLANK]},
    CodeKind: lambda kind: {"anyOf": [_whole(Whole(0, LARGEST_CODE)), CODE_TEXT]},
    Codes: lambda kind: {"anyOf": [_list(ListOf(CodeKind())), CODE_TEXT]},
    Flag: lambda kind: {"anyOf": [{"type": "boolean"}, OLD_BOOLEAN]},
    Whole: _whole,
    Num: _num,
    Time: _time,
    OneOf: lambda kind: {"enum": [*kind.words, *kind.made]},
    Name: _name,
    TargetKind: _target,
    InProject: lambda kind: NOT_BLANK,
    PatternKind: lambda kind: NOT_BLANK,
    Protected: lambda kind: _ref("protect"),
    Proof: lambda kind: _ref("evidence"),
    Words: _words,
    Route: lambda kind: {"type": "object", "additionalProperties": _target(OR_AGAIN)},
    Variables: lambda kind: _ref("context"),
    Environment: lambda kind: _ref("env"),
    AnyScalar: lambda kind: {"type": [*SCALAR, "null"]},
    ListOf: _list,
    ConditionKind: lambda kind: _ref("condition"),
    HostKind: lambda kind: _ref("host"),
    PartKind: lambda kind: _ref(kind.table),
    ActionKind: _command,
    Commands: lambda kind: {
        "anyOf": [
            _command(ActionKind(loops=kind.loops)),
            _list(ListOf(ActionKind(loops=kind.loops), 1)),
        ]
    },
    HookCommand: lambda kind: _ref(kind.table),
    EventCommands: _event_hooks,
    Recipient: lambda kind: NOT_BLANK,
    Machine: _machine,
    ForEach: _for_each,
    Matrix: _matrix,
    Join: _join,
    BranchMap: _branches,
    Resolver: lambda kind: _ref("resolver"),
    SubLoop: lambda kind: {"anyOf": [NOT_BLANK, {"type": "object", "allOf": [{"$ref": "#"}]}]},
    OwnTree: lambda kind: _ref(kind.table),
    Ports: lambda kind: _named(_whole(Whole(1, 65_535))),
}
