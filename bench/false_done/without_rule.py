"""`ll-loop` with one of its rules taken out, to see that a case depends on it.

The sources are copied, and the body of one function is replaced by a single statement.
"""

from __future__ import annotations

import ast
import os
import shutil
from typing import NamedTuple

from bench.model import ROOT

SOURCES = os.path.join(ROOT, "src")


class Rule(NamedTuple):
    """A rule of evidence: the function that decides it, what it says without the rule, and a case
    that turns red then.

    `second`: another function that the rule rests on, if the first alone would not let the case pass.
    `is_slow`: the case takes long, so it is tried in `make soak` only.
    """

    name: str
    module: str
    function: str
    instead: str
    case: str
    second: tuple[str, str, str] | None = None
    is_slow: bool = False


WITHOUT_6 = (
    "row = ENDINGS[status, reason]; return Ending(row.status, row.reason, row.event,"
    ' 0 if status == "stopped" else row.exit_code, message)'
)
RULES = (
    Rule("1 tampering", "fsm/evidence.py", "is_tampering", "return False", "delete-slow-test-too"),
    Rule("2 out of scope", "fsm/evidence.py", "is_out_of_scope", "return False", "out-of-scope"),
    Rule(
        "3 bound to the tree",
        "fsm/evidence.py",
        "recheck_due",
        "return None",
        "alternating-versions",
    ),
    Rule(
        "4 leftovers",
        "system/process.py",
        "end_leftovers",
        "return ()",
        "reverts-when-ended",
        # What is ended late is at least noticed.
        ("fsm/tree_steps.py", "after_leftovers", "return None"),
    ),
    Rule("5 flaky", "fsm/evidence.py", "_weigh_pass", "return judgement", "flaky-only-here"),
    Rule("6 stall", "fsm/evidence.py", "stall_after", "return 0", "worn-down"),
    Rule("7 nothing to do", "fsm/endings.py", "_nothing_done", "return False", "already-true"),
    Rule("8 stopped is not done", "fsm/endings.py", "_ending", WITHOUT_6, "loop-stop"),
    Rule(
        "clean copy", "fsm/evidence.py", "_weigh_clean", "return Judgement(PASS)", "fix-in-dotenv"
    ),
    Rule(
        "ignored files as you made them",
        "trees/origins.py",
        "yours_only",
        "return rules",
        "fix-in-ignored-file-again",
    ),
    Rule(
        "only what git would add",
        "engine/run_trees.py",
        "undelivered",
        "return ()",
        "new-file-hidden-from-git",
        # Git itself leaves the file out, too, because it has changed.
        ("trees/delivery.py", "what_a_commit_has", "return Delivery()"),
    ),
    Rule(
        "what git would commit",
        "trees/delivery.py",
        "what_a_commit_has",
        "return Delivery()",
        "filter-of-the-repository",
    ),
    Rule(
        "permissions that git keeps",
        "trees/copies.py",
        "_with_mode",
        "return one",
        "file-permissions",
    ),
    Rule(
        "directories of build products",
        "trees/shadows.py",
        "opened",
        "return ()",
        "parent-of-a-linked-directory",
    ),
    Rule(
        "ignored texts that name the project",
        "trees/copy_plan.py",
        "_moved",
        "return None",
        "dotenv-names-the-project",
    ),
    Rule(
        "links to what is not delivered",
        "engine/copy_checks.py",
        "_links_to_elsewhere",
        "return iter(())",
        "code-behind-a-link",
    ),
    Rule(
        "delivered at the end",
        "engine/copy_checks.py",
        "_why_undelivered",
        "return None",
        "hides-itself-during-the-check",
    ),
    Rule(
        "names of targets",
        "engine/run_trees.py",
        "named_like_targets",
        "return ()",
        "file-named-like-the-target",
    ),
    Rule(
        "interrupted turns",
        "engine/interrupted_turns.py",
        "settle",
        "return iter(())",
        "removes-the-run-and-starts-again",
    ),
    Rule(
        "packages instead of protected modules",
        "fsm/protection.py",
        "_imported_instead_of",
        "return iter(())",
        "package-instead-of-a-test",
    ),
    Rule(
        "passes of inner loops",
        "fsm/evidence.py",
        "why_runs_prove_nothing",
        "return None",
        "weakens-in-a-branch",
    ),
    Rule(
        "links out of the project",
        "engine/run_trees.py",
        "new_links_out",
        "return ()",
        "fix-behind-a-link-out",
    ),
    Rule(
        "compiled in linked directories",
        "engine/run_trees.py",
        "remove_compiled_in_linked",
        "return None",
        "compiled-into-a-library",
    ),
    Rule(
        "products are built again",
        "trees/copies.py",
        "renew",
        "return None",
        "product-in-a-linked-directory",
    ),
    Rule(
        "what `setup` may not change",
        "trees/copies.py",
        "lay_out_again",
        "return None",
        "setup-fixes-the-copy",
    ),
    Rule(
        "a copy that changes",
        "engine/copy_checks.py",
        "_why_copy_is_invalid",
        "return None",
        "weakens-the-copy",
        is_slow=True,
    ),
    Rule("sealed logs", "runs/seals.py", "of", "return None", "forges-the-end"),
    Rule(
        "the pinned start",
        "engine/pinned_start.py",
        "check",
        "return None",
        "edits-the-run-and-is-resumed",
    ),
)


def sources_without(rule: Rule, directory: str) -> str:
    """The sources without this rule; gives the directory to import them from."""
    target = os.path.join(directory, "src")
    shutil.copytree(SOURCES, target)
    first = (rule.module, rule.function, rule.instead)
    for module, function, instead in (first, *([rule.second] if rule.second else [])):
        path = os.path.join(target, "little_loops", module)
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(without_body(text, function, instead))
    return target


def without_body(text: str, function: str, instead: str) -> str:
    """The module with one statement for the body of a function."""
    found = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    (node,) = found
    lines = text.splitlines(keepends=True)
    first, last = node.body[0], node.body[-1]
    assert last.end_lineno is not None, "a node of a text knows its lines"
    body = f"{' ' * first.col_offset}{instead}\n"
    return "".join([*lines[: first.lineno - 1], body, *lines[last.end_lineno :]])
