"""Read conditions: the type, the fields of that type, and contradictions between them."""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.fields import read_values as values
from little_loops.authoring.fields.kinds import MOST_WORDS, STATE_NAME, ConditionKind, Str, Words
from little_loops.authoring.fields.read_values import INVALID, fits
from little_loops.authoring.fields.table import CONDITIONS
from little_loops.authoring.messages import listed, shown
from little_loops.authoring.yaml.nodes import List, Map, Mark, Node, Text
from little_loops.fsm.conditions import is_listed
from little_loops.fsm.schema import FAIL, JUDGE, PASS, PROOF_VERDICTS, REJECTED, RESERVED_WORDS
from little_loops.light_typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from little_loops.authoring.fields.reader import Reader

_SYNONYMS_OF_PASS_AND_FAIL = ("met", "unmet")
_ORDER = ("lt", "le", "gt", "ge")
_STR = Str()


def condition(reader: Reader, kind: ConditionKind, node: Node, label: str) -> Any:
    """Read a condition as a dict for `condition_from_dict`, without fields that could not be read.

    Returns INVALID if a required field is missing then.
    """
    if type(node) is not Map:
        named = node.text if isinstance(node, Text) and node.text in CONDITIONS else "…"
        help = f"write it as a mapping: {{type: {named}}}"
        return reader.wrong(label, "a mapping with `type`", node, help)
    before = len(reader.problems)
    type_name = _type_name(reader, node, label)
    if type_name is INVALID:
        return INVALID
    table = CONDITIONS[type_name]
    outer, reader.spoiled = reader.spoiled, set()
    given = reader.fields(node, table, label)
    whole, reader.spoiled = not reader.spoiled, outer
    _check_contradictions(reader, type_name, given, node)
    if not kind.inside and _has_misplaced_judge(reader, type_name, node):
        reader.spoiled.add("condition")
        return INVALID
    if kind.inside:
        _check_only_pass_or_fail(reader, type_name, given, node)
    if not whole or len(reader.problems) > before:
        reader.spoiled.add("condition")
        if any(field.required and field.name not in given for field in table.fields):
            return INVALID
    return {**given, "type": type_name}


def words(reader: Reader, kind: Words, node: Node, label: str) -> Any:
    """Read the verdicts that a condition may give, which may include `pass` and `fail`."""
    if type(node) is not List:
        return reader.wrong(label, "a list of words", node, "write it as a list: [pass, fail]")
    if not node.items:
        return reader.report("LL111", f"{label} is empty", node.mark)
    if len(node.items) > MOST_WORDS:
        message = f"{label} has {len(node.items):,} items; at most {MOST_WORDS} are allowed"
        return reader.report("LL123", message, node.items[MOST_WORDS].mark, "remove some of them")
    found: list[str] = []
    for item in node.items:
        word = values.text(reader, _STR, item, f"an item in {label}")
        if word is not INVALID:
            _add_word(reader, word, item, found)
    return found


def written_words(node: Node | None) -> tuple[str, ...] | None:
    """Return the `words` of a condition, without reporting problems; None if they are not a list."""
    if node is None:
        return ()
    listed_words = node.get("words") if isinstance(node, Map) else node
    if listed_words is None:
        return ()
    if not isinstance(listed_words, List):
        return None
    first = listed_words.items[:MOST_WORDS]
    return tuple(item.text for item in first if isinstance(item, Text))


def has_source(given: dict[str, Any]) -> bool:
    """Return whether a condition, or all conditions inside it, name their source."""
    if "source" in given:
        return True
    of = given.get("of", ())
    inner = [of] if isinstance(of, dict) else of
    return bool(inner) and all(has_source(each) for each in inner)


def has_judge(given: dict[str, Any]) -> bool:
    """Return whether a condition is a judge, or a list that ends with one."""
    last = given["of"][-1] if given.get("type") == "all" else given
    return bool(last.get("type") == JUDGE)


def _type_name(reader: Reader, node: Map, label: str) -> Any:
    """Return the condition's type, `exit_code` by default; INVALID if there is no such type."""
    written = node.get("type")
    if written is None:
        return _implied(reader, node, label)
    type_name = values.text(reader, _STR, written, "`type`")
    if type_name is INVALID or type_name in CONDITIONS:
        return type_name
    help = reader.suggest(type_name, CONDITIONS) or f"one of {listed(CONDITIONS)}"
    message = f"unknown condition type `{shown(type_name)}`"
    return reader.report("LL105", message, written.mark, help)


def _implied(reader: Reader, node: Map, label: str) -> Any:
    """Return `exit_code` for a condition without `type`; report fields that belong to other types."""
    known = CONDITIONS["exit_code"].by_name
    for entry in node.entries:
        name = entry.key.text
        if name in known or name.startswith("x-"):
            continue
        types = [each for each, table in CONDITIONS.items() if name in table.by_name]
        if types:
            message = f"{label} has no `type`, and `exit_code`, the default, has no `{name}`"
            return reader.report("LL101", message, entry.key.mark, f"add `type: {types[0]}`")
    return "exit_code"


def _add_word(reader: Reader, word: str, item: Node, found: list[str]) -> None:
    """Add a word to `found`, or report why it is not a valid verdict."""
    reserved = [each for each in RESERVED_WORDS if each not in (PASS, FAIL)]
    if not fits(word, STATE_NAME):
        help = "letters, digits, `_` and `-`, beginning with a letter or `_`"
        reader.report("LL106", f"`{shown(word)}` is not a valid verdict", item.mark, help)
    elif word in reserved or word in _SYNONYMS_OF_PASS_AND_FAIL:
        message = f"`{word}` is reserved and cannot be one of your verdicts"
        reader.report("LL116", message, item.mark, _other_word(word))
    elif word in found:
        reader.report("LL116", f"the word `{word}` is listed twice", item.mark, "keep one of them")
    else:
        found.append(word)


def _other_word(word: str) -> str:
    """Return the help for a reserved word; say how to rename one that was reserved later."""
    if word not in (*PROOF_VERDICTS, REJECTED):
        return "choose another word"
    return f"rename it here and in `on_{word}` or `route`, for example to `is_{word}`"


def _check_contradictions(reader: Reader, type_name: str, given: dict[str, Any], node: Map) -> None:
    """Report fields that contradict each other."""
    target = given.get("target", 0)
    fails = given.get("fail", ())
    if type_name == "exit_code" and isinstance(target, int) and is_listed(target, fails):
        message = f"exit code {target} cannot be both a pass and a failure"
        help = "remove it from `fail`, or change `target`"
        reader.report("LL120", message, _mark_of(node, "fail"), help)
    if "min_gain" in given and "keep" not in given:
        message = "`min_gain` has no effect without `keep: best`"
        help = "add `keep: best`, or remove `min_gain`"
        reader.report("LL120", message, _mark_of(node, "min_gain"), help)
    if type_name == "output_json" and given.get("operator") in _ORDER:
        if target is None or isinstance(target, bool):
            word = "null" if target is None else str(target).lower()
            message = f"`{given['operator']}` needs two numbers or two strings, not {word}"
            reader.report("LL120", message, _mark_of(node, "target"), "use `eq` or `ne`")


def _has_misplaced_judge(reader: Reader, type_name: str, node: Map) -> bool:
    """Report each judge inside a condition that is not the last one of `all`, where its veto would
    not count. Return whether there is one."""
    of = node.get("of")
    last = of.items[-1] if type_name == "all" and isinstance(of, List) and of.items else None
    misplaced = [each for each in _judges_in(of) if each is not last]
    for each in misplaced:
        message = f"a `judge` cannot be used inside `{type_name}`: it can only veto a pass"
        help = "use it alone, or as the last condition of `all`"
        reader.report("LL120", message, each.mark, help)
    return bool(misplaced)


def _judges_in(node: Node | None) -> Iterator[Map]:
    """Yield the judges in a condition, or in a list of them."""
    if isinstance(node, List):
        for item in node.items:
            yield from _judges_in(item)
    elif isinstance(node, Map):
        written = node.get("type")
        if isinstance(written, Text) and written.text == JUDGE:
            yield node
        yield from _judges_in(node.get("of"))


def _check_only_pass_or_fail(
    reader: Reader, type_name: str, given: dict[str, Any], node: Map
) -> None:
    """Report a condition inside `all`, `any` or `not` that gives more than pass and fail."""
    own_words = set(given.get("words", ())) - {PASS, FAIL}
    if type_name == "convergence" or own_words:
        what = "`convergence`" if type_name == "convergence" else "its own `words`"
        message = f"a condition with {what} cannot be combined with others, because it has more verdicts than pass and fail"
        reader.report("LL120", message, node.mark, "give it its own state")


def _mark_of(node: Map, field: str) -> Mark | None:
    found = node.get(field)
    return found.mark if found is not None else node.mark
