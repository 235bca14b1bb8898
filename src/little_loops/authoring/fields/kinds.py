"""The kinds of values that a field can have, and the types of fields and tables.

Not here: the fields themselves (`table`), how a value is read (`read_values`, `read_conditions`,
`read_states`) or described to an editor (`schema_json`).
"""

from __future__ import annotations

from collections.abc import Mapping

from little_loops.records import NamedTuple

MOST_STATES = 1_000
MOST_ITEMS = MOST_STATES
MOST_WORDS = 100
LOOP_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
BRANCH_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
STATE_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,99}"
VARIABLE_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
LABEL = r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}"
"""A label of a worker of a fleet."""
MOST_LABELS = 6
"""How many labels a worker can have: it listens for each combination of them."""
DURATION = (
    r"(?=[0-9])(?:[0-9]+(?:\.[0-9]+)?d)?(?:[0-9]+(?:\.[0-9]+)?h)?(?:[0-9]+(?:\.[0-9]+)?m)?"
    r"(?:[0-9]+(?:\.[0-9]+)?s)?"
)
LONGEST_S = 10 * 365 * 86_400
MOST = 1_000_000_000
LARGEST_CODE = 255
CODE_RANGE = r"[0-9]{1,3}-[0-9]{1,3}"


# Kinds without fields are plain classes, which are ten times cheaper to define.
class Str:
    """Non-empty text."""


class Plain:
    """Non-empty text without templates."""


class Identifier:
    """A whole number or text, used as text; without templates."""


class CodeKind:
    """An exit code, or a range of them such as `1-125`."""


class Codes:
    """A list of exit codes and ranges of them, or one range."""


class Flag:
    """true or false."""


class Whole(NamedTuple):
    """A whole number."""

    least: int
    most: int = MOST
    template: bool = False


class Num(NamedTuple):
    """A number, or one of `words`; `above` excludes `least` itself."""

    least: float | None = None
    above: bool = False
    template: bool = False
    words: tuple[str, ...] = ()


class Time(NamedTuple):
    """Seconds, or text like `90s`, `10m`, `2h`; at least `least`, and positive unless `zero`."""

    zero: bool = False
    least: int = 0


class OneOf(NamedTuple):
    """One of these words; only `compile` writes those in `made`."""

    words: tuple[str, ...]
    made: tuple[str, ...] = ()


class Name(NamedTuple):
    """A name that matches a pattern; `what` says what it names."""

    what: str
    pattern: str


class TargetKind(NamedTuple):
    """A state's name, or one of `special`."""

    special: tuple[str, ...] = ()


class InProject(NamedTuple):
    """A path inside the project."""

    globs: bool = False


class PatternKind:
    """A gitignore pattern for paths in the project."""


class Protected:
    """Patterns of protected paths, or `{existing: […]}` if new files are allowed."""


class Proof:
    """Evidence: true, false, or a mapping of settings."""


class Words:
    """The verdicts that a condition may give."""


class Route:
    """The words of a condition, and the states they lead to."""


class Variables:
    """The user's own names with any plain data."""


class Environment:
    """Names of environment variables with their values."""


class AnyScalar:
    """A number, text, true, false or null."""


class ListOf(NamedTuple):
    item: Kind
    least: int = 0
    most: int = MOST_ITEMS


class ConditionKind(NamedTuple):
    """A condition; `inside` another one, only pass and fail are allowed."""

    inside: bool = False


class HostKind:
    """A host: its name, or a mapping of options."""


class PartKind(NamedTuple):
    """A mapping with its own fields, by the name of its table."""

    table: str


class ActionKind(NamedTuple):
    """An action of a paradigm: text, or a mapping with the fields of this table. With `loops`, a
    mapping may have a loop instead of an action."""

    table: str = "command"
    loops: bool = False


class Commands(NamedTuple):
    """A command, or a list of them; with `loops`, they may be loops."""

    loops: bool = False


class HookCommand(NamedTuple):
    """A hook: its command as text, or a mapping with the fields of this table."""

    table: str


class EventCommands:
    """The kinds of events that have a hook, each with that hook."""


class Recipient:
    """Who is notified: an address, a template for one, or a command."""


class SubLoop:
    """A loop of the project, by its name or path, or a definition written in place."""


class ForEach:
    """The items that a state has branches for: a list, a text, or `{glob: …}`."""


class Matrix:
    """Names with a list of values each, whose combinations a state has branches for."""


class Join:
    """How many branches have to pass: `all`, `any`, a number, or a percentage."""


class BranchMap:
    """Branches by their names, each with what it runs."""


class OwnTree(NamedTuple):
    """Whether runs get worktrees of their own, or a mapping with the fields of this table."""

    table: str


class Resolver:
    """What resolves a branch that cannot be merged: the name of a loop, or a mapping as for a branch."""


class Ports:
    """Environment variables, each with the first number for it."""


class Machine:
    """The states of a loop by their names."""


class OtherKind:
    """The base of kinds that only other files than loops have; each describes itself.

    `words` is for people, `schema` for editors.
    """

    words = ""
    schema: Mapping[str, object] = {}


Kind = (
    Str
    | Plain
    | Identifier
    | CodeKind
    | Codes
    | Flag
    | Whole
    | Num
    | Time
    | OneOf
    | Name
    | TargetKind
    | InProject
    | PatternKind
    | Protected
    | Proof
    | Words
    | Route
    | Variables
    | Environment
    | AnyScalar
    | ListOf
    | ConditionKind
    | HostKind
    | PartKind
    | ActionKind
    | Commands
    | HookCommand
    | EventCommands
    | Recipient
    | Machine
    | SubLoop
    | ForEach
    | Matrix
    | Join
    | BranchMap
    | Resolver
    | OwnTree
    | Ports
    | OtherKind
)


class Field(NamedTuple):
    """A row of a table; `default` and `example` are YAML, as written after the colon."""

    name: str
    kind: Kind
    help: str
    default: str | None = None
    example: str | None = None
    required: bool = False
    aliases: tuple[str, ...] = ()


class Table(NamedTuple):
    """The fields of one kind of mapping, also by every name they have."""

    title: str
    fields: tuple[Field, ...]
    by_name: Mapping[str, Field]


def table(title: str, *fields: Field) -> Table:
    by_name = {name: field for field in fields for name in (field.name, *field.aliases)}
    return Table(title, fields, by_name)
