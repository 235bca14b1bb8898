"""Where a loop has texts, each with its path: those that are templates, and those used literally."""

from __future__ import annotations

from little_loops.authoring.texts import LocatedText, plain_texts, templates
from little_loops.fsm.schema import FSMLoop

EVERYTHING = FSMLoop.from_dict(
    {
        "name": "all",
        "description": "DESCRIPTION",
        "initial": "a",
        "on_error": "ERR",
        "on_timeout": "LATE",
        "on_interrupt": "STOP",
        "cwd": "DIR",
        "scope": ["SRC", "DOCS"],
        "context": {"one": "ONE", "deep": {"list": ["TWO", 2, {"three": "THREE"}]}},
        "env": {"A": "B"},
        "result": {"sum": "SUM"},
        "host": {"name": "HOST", "args": ["ARG"], "env": {"K": "V"}},
        "fallback": [{"name": "OTHER"}, {"model": "SMALL"}],
        "hooks": {
            "before_run": {"action": "BEFORE", "env": {"X": "Y"}},
            "events": {"loop_error": {"action": "NOTIFY"}},
        },
        "states": {
            "a": {
                "action": "ACTION",
                "context": {"own": "OWN"},
                "env": {"C": "D"},
                "cwd": "SUB",
                "capture": "CAPTURE",
                "condition": {
                    "type": "all",
                    "of": [
                        {"type": "output_contains", "pattern": "PATTERN", "source": "SOURCE"},
                        {
                            "type": "not",
                            "of": {"type": "output_json", "path": "PATH", "target": "GOAL"},
                        },
                    ],
                },
                "next": "NEXT",
                "on_pass": "PASS",
                "on_fail": "FAIL",
                "on_target": "TARGET",
                "on_progress": "PROGRESS",
                "on_stall": "STALL",
                "on_error": "ERROR",
                "on_timeout": "TIMEOUT",
                "on_tampered": "TAMPERED",
                "on_out_of_scope": "OUTSIDE",
                "on_flaky": "FLAKY",
                "on_stalled": "STALLED",
                "on_conflict": "CONFLICT",
                "on_rejected": "REJECTED",
                "on_interrupt": "INTERRUPT",
                "on_maintain": "MAINTAIN",
                "choices": ["CHOICE"],
                "on_words": {"blue": "BLUE"},
                "route": {"6": "ROUTE"},
                "before": {"action": "FIRST"},
                "after": {"action": "THEN"},
                "host": {"name": "MINE"},
                "fallback": [{"name": "YOURS"}],
            },
            "many": {"for_each": "ITEMS", "action": "EACH", "host": {"name": "${branch.who}"}},
            "fixed": {"for_each": ["FIXED"], "action": "EACH"},
            "sub": {
                "loop": {"name": "l", "initial": "x", "states": {"x": {"terminal": True}}},
                "with": {"given": "GIVEN"},
            },
        },
    }
)


def told(texts: list[LocatedText]) -> list[str]:
    """Each as a line, with the state it belongs to in front, and `later` if used after its action."""
    return [
        f"{each.state or 'loop'}{' later' if each.after else ''}"
        f" {'.'.join(map(str, each.path))}: {each.text}"
        for each in texts
    ]


def test_texts_that_may_be_templates():
    assert told([*templates(EVERYTHING)]) == [
        "loop context.one: ONE",
        "loop context.deep.list.0: TWO",
        "loop context.deep.list.2.three: THREE",
        "loop env.A: B",
        "loop result.sum: SUM",
        "a states.a.action: ACTION",
        "a states.a.context.own: OWN",
        "a states.a.env.C: D",
        "many states.many.action: EACH",
        "many states.many.for_each: ITEMS",
        "fixed states.fixed.action: EACH",
        "sub states.sub.action: l",
        "sub states.sub.with.given: GIVEN",
        "a later states.a.condition.of.0.source: SOURCE",
        "a later states.a.condition.of.0.pattern: PATTERN",
        "a later states.a.condition.of.1.of.target: GOAL",
        "a later states.a.condition.of.1.of.path: PATH",
    ]


def test_texts_that_are_used_literally():
    assert told([*plain_texts(EVERYTHING)]) == [
        "loop description: DESCRIPTION",
        "loop initial: a",
        "loop on_error: ERR",
        "loop on_timeout: LATE",
        "loop on_interrupt: STOP",
        "loop cwd: DIR",
        "loop scope.0: SRC",
        "loop scope.1: DOCS",
        "loop host.name: HOST",
        "loop host.args.0: ARG",
        "loop host.env.K: V",
        "loop fallback.0.name: OTHER",
        "loop fallback.1.model: SMALL",
        "loop hooks.before_run.action: BEFORE",
        "loop hooks.before_run.env.X: Y",
        "loop hooks.events.loop_error.action: NOTIFY",
        "a states.a.next: NEXT",
        "a states.a.on_pass: PASS",
        "a states.a.on_fail: FAIL",
        "a states.a.on_target: TARGET",
        "a states.a.on_progress: PROGRESS",
        "a states.a.on_stall: STALL",
        "a states.a.on_error: ERROR",
        "a states.a.on_timeout: TIMEOUT",
        "a states.a.on_tampered: TAMPERED",
        "a states.a.on_out_of_scope: OUTSIDE",
        "a states.a.on_flaky: FLAKY",
        "a states.a.on_stalled: STALLED",
        "a states.a.on_conflict: CONFLICT",
        "a states.a.on_rejected: REJECTED",
        "a states.a.on_interrupt: INTERRUPT",
        "a states.a.on_maintain: MAINTAIN",
        "a states.a.capture: CAPTURE",
        "a states.a.cwd: SUB",
        "a states.a.choices.0: CHOICE",
        "a states.a.before.action: FIRST",
        "a states.a.after.action: THEN",
        "a states.a.on_blue: BLUE",
        "a states.a.route.6: ROUTE",
        "a states.a.host.name: MINE",
        "a states.a.fallback.0.name: YOURS",
    ]
