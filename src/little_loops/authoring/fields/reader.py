"""Read the author's nodes according to the table of fields, and collect all problems.

Reading never stops at the first problem: a value that cannot be read is INVALID and is left out of
its mapping. The result is plain data with aliases resolved and times in seconds.

Not here: how a value of one kind is read (`read_values`, `read_conditions`, `read_states`), what
needs more than one state (`check`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from little_loops.authoring.fields import read_conditions as conditions
from little_loops.authoring.fields import read_states as states
from little_loops.authoring.fields import read_values as values
from little_loops.authoring.fields.gaps import ANYTHING
from little_loops.authoring.fields.kinds import (
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
from little_loops.authoring.fields.read_values import INVALID
from little_loops.authoring.fields.table import (
    COMMANDS,
    CONDITIONS,
    CONSTRAINT,
    EVIDENCE,
    HOST,
    LOOP,
    OR_AGAIN,
    OTHER_WORDS,
    OWN,
    RETRY,
    STATE,
    TRANSITIONS,
)
from little_loops.authoring.loop_files import NO_LIBRARY, Library
from little_loops.authoring.messages import listed, quoted, shown, suggest
from little_loops.authoring.yaml.nodes import Map, MapEntry, Mark, Node, Text
from little_loops.authoring.yaml.places import Source
from little_loops.errors import Problem
from little_loops.light_typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from little_loops.authoring.load import Definition

MOST_SUGGESTIONS = 120  # a hundred are printed; the rest is only counted
FEW_NAMES = 12
LONGEST_NAME = 100

READ: dict[type, Callable[..., Any]] = {
    Str: values.text,
    Plain: values.plain_text,
    Identifier: values.identifier,
    CodeKind: values.code,
    Codes: values.codes,
    Flag: values.flag,
    Whole: values.whole,
    Num: values.number,
    Time: values.time,
    OneOf: values.one_of,
    Name: values.name,
    TargetKind: values.target,
    InProject: values.in_project,
    PatternKind: values.pattern,
    AnyScalar: values.any_scalar,
    Variables: values.variables,
    Environment: values.environment,
    ListOf: values.list_of,
    Words: conditions.words,
    ConditionKind: conditions.condition,
    Route: states.route,
    HostKind: states.agent,
    PartKind: states.part,
    Proof: states.evidence,
    Protected: states.protected,
    ActionKind: states.command,
    Commands: states.commands,
    HookCommand: states.hook,
    EventCommands: states.event_hooks,
    Recipient: states.recipient,
    Machine: states.machine,
    SubLoop: states.sub_loop,
    ForEach: states.of_branches,
    Matrix: states.of_branches,
    Join: states.of_branches,
    BranchMap: states.of_branches,
    Resolver: states.of_branches,
    OwnTree: states.worktree,
    Ports: states.ports,
}


class Reader:
    """Reads one document and collects its problems."""

    kinds: ClassVar[Mapping[type, Callable[..., Any]]] = READ

    def __init__(self, source: Source, library: Library | None = None) -> None:
        """Start without problems; `source` is the file that they are in, and `library` has the
        loops that it names."""
        self.source = source
        self.library = library or NO_LIBRARY
        self.child: Definition | None = None
        """The loop that the current state starts, if it has been read."""
        self.children: dict[str, Definition] = {}
        """The loops that the states start, by the state's name, or by the names of state and branch."""
        self.state = ""
        """The name of the current state, and below whether it has branches."""
        self.has_branches = False
        self.items: Mapping[str, Sequence[str]] = {}
        """The values that each name can have in the current state's branches, if they are listed in the file."""
        self.problems: list[Problem] = []
        self.spoiled: set[str] = set()
        """Fields of the current mapping that are in the file but could not be read."""
        self.states: dict[str, set[str]] = {}
        """The same for each state that has problems."""
        self._suggested = 0
        self._field: Field | None = None

    def read(self, kind: Kind, node: Node, label: str) -> Any:
        """Read a node as a value of this kind; return INVALID if that fails."""
        return self.kinds[type(kind)](self, kind, node, label)

    def record(self, node: Node, table: Table, where: str) -> Any:
        """Read a mapping by its table, and return the fields that could be read; or INVALID."""
        if type(node) is not Map:
            return self.wrong(where, "a mapping of fields", node)
        outer, self.spoiled = self.spoiled, set()
        given = self.fields(node, table, where)
        self.spoiled = outer
        return given

    def fields(
        self, node: Map, table: Table, where: str, words: Collection[str] | None = ()
    ) -> dict[str, Any]:
        """Read a mapping by its table, and return the fields that could be read.

        The names of the others are added to `spoiled`, which the caller sets aside before. `words` may
        also be written as `on_<word>`; with None (they are not known), each `on_…` is checked, but left
        out of the result.
        """
        before, outer = len(self.problems), self._field
        given: dict[str, Any] = {}
        by_name = table.by_name
        for entry in node.entries:
            key, value = entry
            field = by_name.get(key.text)
            if field is None:
                if words is None and key.text.startswith("on_"):
                    self.read(OR_AGAIN, value, f"`{key.text}`")
                elif words and key.text[3:] in words and key.text.startswith("on_"):
                    given[key.text] = self.read(OR_AGAIN, value, f"`{key.text}`")
                elif key.kind == "broken":
                    self.spoiled.add(ANYTHING)
                elif not key.text.startswith("x-"):
                    self.unknown(key, table, where, words or (), node)
            elif field.name in given:
                self.twice(key, field)
            elif type(value) is Text and value.kind == "null" and type(field.kind) is not AnyScalar:
                given[field.name] = self.empty_value(f"`{key.text}`", entry, field)
            else:
                self._field = field
                given[field.name] = self.kinds[type(field.kind)](
                    self, field.kind, value, f"`{key.text}`"
                )
        self._field = outer
        self.missing(node, table, given, where)
        # Invalid YAML was reported before, so it adds no problem here.
        broken = any(value is INVALID for value in given.values())
        return self.without_invalid(given) if broken or len(self.problems) > before else given

    def without_invalid(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that could be read, and record the others as spoiled."""
        self.spoiled.update(name for name, value in given.items() if value is INVALID)
        return {name: value for name, value in given.items() if value is not INVALID}

    def report(self, code: str, message: str, at: Mark | None, help: str | None = None) -> Any:
        """Add a problem, by default with the help of the current field. Return INVALID, for the
        caller to return."""
        if help is None and self._field is not None:
            help = usual(self._field)
        self.problems.append(Problem(code, message, self.source.place(at), help))
        return INVALID

    def wrong(self, label: str, wants: str, node: Node, help: str | None = None) -> Any:
        """Report a value of the wrong type, unless its YAML was already reported. Return INVALID."""
        if isinstance(node, Text) and node.kind == "broken":
            return INVALID
        if isinstance(node, Text) and node.kind == "null":
            return self.report("LL107", f"{label} has no value", node.mark, help)
        found = described(node)
        return self.report("LL103", f"{label} must be {wants}, not {found}", node.mark, help)

    def not_text(self, label: str, node: Text, pattern: str | None = None) -> Any:
        """Report a scalar that YAML reads as another type where text is expected, or a name if
        there is a `pattern`. Return INVALID."""
        if not node.text or node.mark is None:
            return self.wrong(label, "text", node)
        what = f"the value of {label}" if label.startswith("`") else label
        words = {"bool": str(node.value).lower(), "null": "null"}
        reads = words.get(node.kind, "a number")
        help = f"quote it: {quoted(node.text)}"
        if pattern is not None and not values.fits(node.text, pattern):
            help = "use a name that begins with a letter"
            if values.fits(f"n{node.text}", pattern):
                help += f': "n{node.text}"'
        return self.report("LL121", f"YAML reads {what} as {reads}, not as text", node.mark, help)

    def empty_value(self, label: str, entry: MapEntry, field: Field) -> Any:
        """Report a field without a value. Return INVALID."""
        example = f", such as `{field.name}: {field.example}`" if field.example else ""
        help = f"write a value{example}, or remove the key"
        return self.report("LL107", f"{label} has no value", entry.key.mark, help)

    def missing(self, node: Map, table: Table, given: dict[str, Any], where: str) -> None:
        """Report required fields that are missing."""
        for field in table.fields:
            if field.required and field.name not in given and not self.hidden(field.name):
                self.report(
                    "LL101",
                    f"{where} has no `{field.name}`",
                    node.mark,
                    f"add `{field.name}: {_first_state(node, field) or field.example or '…'}`",
                )

    def hidden(self, *names: str) -> bool:
        """Return whether one of these fields may be among those that could not be read."""
        return ANYTHING in self.spoiled or not self.spoiled.isdisjoint(names)

    def twice(self, key: Text, field: Field) -> None:
        """Report a field that is given twice, by the same name or by an alias."""
        if key.text != field.name or field.aliases:
            names = listed((field.name, *field.aliases)).replace(" or ", " and ")
            self.report("LL108", f"{names} are the same field", key.mark, "keep one of them")
        else:
            message = f"the key `{shown(key.text)}` is given twice"
            self.report("LL012", message, key.mark, "keep one of them")

    def unknown(
        self, key: Text, table: Table, where: str, words: Collection[str], node: Map
    ) -> None:
        """Report a key that is not in the table or does not belong here, with the most likely
        meaning; a similar field then counts as unreadable."""
        name = key.text
        if is_command(table) and name in TRANSITIONS:
            help = "the paradigm decides the transitions; to decide them yourself, write `states`"
            self.report("LL118", f"`{name}` is not allowed in {where}", key.mark, help)
            return
        if table is LOOP and name not in STATE.by_name and (paradigm := owner(name)) is not None:
            self._other_paradigm(key, paradigm, node)
            return
        self.report(
            "LL102",
            f"unknown key `{shown(name)}` in {where}",
            key.mark,
            self._help_for_unknown(name, table, words),
        )

    def _other_paradigm(self, key: Text, paradigm: str, node: Map) -> None:
        """Report a field of a paradigm in a file that is the machine itself."""
        name, keys = key.text, {each.text for each, _ in node.entries}
        machine = [f"`{each}`" for each in ("initial", "states") if each in keys]
        if machine:
            message = f"`{name}` of paradigm `{paradigm}` cannot be combined with {machine[-1]}"
            help = f"remove {' and '.join(machine)} to let the paradigm write the states, or remove `{name}`"
        else:
            message = f"`{name}` belongs to paradigm `{paradigm}`, not to `fsm`"
            help = f"change the paradigm to `{paradigm}`, or remove `{name}`"
        self.report("LL112", message, key.mark, help)

    def suggest(self, name: str, names: Iterable[str]) -> str | None:
        """Return the help for an unknown word: the nearest name; None after too many suggestions."""
        self._suggested += 1
        if self._suggested > MOST_SUGGESTIONS:
            return None
        nearest = suggest(name[:LONGEST_NAME], names)
        return f"did you mean `{nearest}`?" if nearest is not None else None

    def _help_for_unknown(self, name: str, table: Table, words: Collection[str]) -> str | None:
        """Return the help for an unknown key: the known key that was probably meant, which is then not
        reported as missing (`spoiled`), or where the key belongs, or which keys there are. None after
        too many suggestions."""
        if self._suggested >= MOST_SUGGESTIONS:
            return None
        if name == "prompt" and "action_type" in table.by_name:
            self.spoiled.add("action")
            return "write `action: …` with `action_type: prompt`"
        usual = OTHER_WORDS.get(name.lower(), "")
        names = [*table.by_name, *(f"on_{word}" for word in words)]
        if (near := self.suggest(usual if usual in names else name, names)) is not None:
            self.spoiled.add(near.split("`")[1])
            return near
        if table is STATE and name.startswith("on_"):
            return f"a custom verdict needs a condition with `words: [{shown(name[3:])}, …]`"
        if name == "initial":
            return "`initial` belongs with `states`; a paradigm chooses its own start"
        if (home := elsewhere(name, table)) is not None:
            return f"`{name}` belongs in {home}"
        if len(table.fields) <= FEW_NAMES:
            return f"known here: {listed(field.name for field in table.fields)}"
        return "your own keys begin with `x-`"


def is_command(table: Table) -> bool:
    """Return whether a table is for commands, whose transitions the paradigm decides."""
    return any(table is each for each in COMMANDS.values())


def _first_state(node: Map, field: Field) -> str | None:
    """Return the first state, as a suggestion for a missing `initial`; None for other fields."""
    states = node.get("states") if field.name == "initial" else None
    if not isinstance(states, Map) or not states.entries:
        return None
    return shown(states.entries[0].key.text)


def usual(field: Field) -> str:
    """Return a default help for a field: its example, default or description."""
    if field.example is not None:
        return f"write, for example, `{field.name}: {field.example}`"
    if field.default is not None:
        return f"the default for `{field.name}` is {default_text(field.default)}"
    return f"`{field.name}`: {field.help}"


def default_text(default: str) -> str:
    """Return a default for prose: a value in backticks, a description as it is."""
    described = " " in default and default[0] not in "[{"
    return default if described or default == "none" else f"`{default}`"


_TYPES = {"str": "text", "bool": "a boolean", "int": "a number", "float": "a number"}


def described(node: Node) -> str:
    """Return what a node is, for a message."""
    if isinstance(node, Text):
        return _TYPES.get(node.kind) or f"a value of type `{node.text}`"
    return "a mapping" if isinstance(node, Map) else "a list"


def owner(name: str) -> str | None:
    """Return the paradigm that has a field of this name; None if there is none."""
    for paradigm, own in OWN.items():
        for field in own:
            if name in (field.name, *field.aliases):
                return paradigm
    return None


def elsewhere(name: str, table: Table) -> str | None:
    """Return the title of another kind of mapping that has a field of this name; None if there is
    none."""
    for other in (LOOP, STATE, HOST, RETRY, EVIDENCE, CONSTRAINT, *CONDITIONS.values()):
        if other is not table and name in other.by_name:
            return other.title
    paradigm = owner(name)
    return f"a loop of paradigm `{paradigm}`" if paradigm is not None else None
