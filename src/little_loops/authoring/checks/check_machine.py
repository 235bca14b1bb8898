"""Check the structure of a machine: every target exists, and each state's fields are consistent.

Not here: checks of a single state while it is read (`read_states`).
"""

from __future__ import annotations

from collections.abc import Iterator

from little_loops.authoring.checks.inspection import Inspection
from little_loops.authoring.messages import shown
from little_loops.authoring.texts import TRANSITIONS
from little_loops.errors import Problem
from little_loops.fsm.schema import AS_ERROR, CURRENT, StateConfig


def check_targets(of: Inspection) -> Iterator[Problem]:
    """Report transitions to states that do not exist."""
    loop = of.loop
    if of.gaps.in_loop("states"):
        return
    if loop.initial not in loop.states:
        yield from _target(of, loop.initial, "`initial`", ("initial",), "LL201")
    for field in ("on_error", "on_timeout", "on_interrupt"):
        yield from _target(of, getattr(loop, field), f"`{field}`", (field,))
    yield from _handler_that_starts_a_loop(of)
    yield from _states_of_hooks(of)
    for name, state in loop.states.items():
        for field in (*TRANSITIONS, "on_rejected", "on_interrupt", "on_maintain"):
            where = f"`{field}` of state `{name}`"
            yield from _target(of, getattr(state, field), where, ("states", name, field))
        for index, choice in enumerate(state.choices):
            where = f"`choices` of state `{name}`"
            yield from _target(of, choice, where, ("states", name, "choices", index))
        for word, target in state.on_words.items():
            where = f"`on_{word}` of state `{name}`"
            yield from _target(of, target, where, ("states", name, f"on_{word}"))
        for word, target in state.route.items():
            where = f"`route` of state `{name}`"
            yield from _target(of, target, where, ("states", name, "route", word))


def _handler_that_starts_a_loop(of: Inspection) -> Iterator[Problem]:
    """Report a loop's `on_timeout` that starts other runs when no time is left for them."""
    handler = of.loop.states.get(of.loop.on_timeout or "")
    if handler is not None and (handler.loop is not None or handler.branches is not None):
        starts = "another loop" if handler.branches is None else "branches"
        yield of.error(
            "LL221",
            f"state `{of.loop.on_timeout}` cannot handle the loop's timeout: it starts {starts}",
            "on_timeout",
            help="name a state with an action here, or set `on_timeout` on the states themselves",
        )


def _target(
    of: Inspection, target: str | None, where: str, path: tuple[str | int, ...], code: str = "LL202"
) -> Iterator[Problem]:
    """Report a target that is not a state."""
    if target is None or target in of.loop.states or target in (CURRENT, AS_ERROR):
        return
    if "${" in target:
        return  # `check_plain_texts` reports templates there
    message = f"{where} names a state that does not exist: `{shown(target)}`"
    yield of.error(code, message, *path, help=of.suggest_name(target, of.loop.states.keys()))


def check_recipients(of: Inspection) -> Iterator[Problem]:
    """Warn about addresses that are secrets: webhooks, and those with a password."""
    for index, each in enumerate(of.loop.notify):
        is_webhook = each.to.startswith(("http://", "https://"))
        has_password = each.to.startswith("ntfy://") and "@" in each.to
        if (is_webhook or has_password) and "${" not in each.to:
            yield of.warning(
                "LL319",
                "the URL of a webhook is a secret"
                if is_webhook
                else "this address contains a password",
                *("notify", index, "to"),
                help="put it in an environment variable: `to: ${env.NAME}`",
            )


def _states_of_hooks(of: Inspection) -> Iterator[Problem]:
    """Report states that a hook is for and that do not exist."""
    hooks = of.loop.hooks
    for field in ("before_state", "after_state") if hooks is not None else ():
        hook = getattr(hooks, field)
        for index, state in enumerate((hook and hook.states) or ()):
            yield from _target(of, state, f"`{field}`", ("hooks", field, "states", index))


def check_endings(of: Inspection) -> Iterator[Problem]:
    """Report terminal states with transitions, and other states with fields of terminal ones."""
    for name, state in of.loop.states.items():
        if state.terminal:
            yield from _transitions_of_terminal(of, name, state)
            yield from _answers_of_no_gate(of, name, state)
            continue
        if of.gaps.in_state(name, "terminal"):
            continue
        yield from _answers_of_no_gate(of, name, state)
        if state.on_maintain is not None:
            yield of.error(
                "LL204",
                f"`on_maintain` is set on state `{name}`, which does not end a cycle",
                *("states", name, "on_maintain"),
                help="move it to the terminal state that ends a cycle",
                part="key",
            )
        if state.outcome is not None:
            yield of.error(
                "LL205",
                f"`outcome` is set on state `{name}`, which is not terminal",
                *("states", name, "outcome"),
                help="add `terminal: true`, or remove `outcome`",
                part="key",
            )


def _transitions_of_terminal(of: Inspection, name: str, state: StateConfig) -> Iterator[Problem]:
    """Report each transition of a terminal state, which is never taken."""
    written = [field for field in TRANSITIONS if getattr(state, field) is not None]
    written += [f"on_{word}" for word in state.on_words]
    written += ["route"] if state.route else []
    for field in written:
        if field == "next" and (state.outcome == "review" or of.gaps.in_state(name, "outcome")):
            continue
        help = "remove it, or remove `terminal: true`"
        if field == "next":
            help += "; to wait for a review here, add `outcome: review`"
        yield of.error(
            "LL203",
            f"state `{name}` is terminal, so `{field}` has no effect",
            *("states", name, field),
            help=help,
            part="key",
        )


def _answers_of_no_gate(of: Inspection, name: str, state: StateConfig) -> Iterator[Problem]:
    """Report `on_rejected` and `choices` on a state that is not a gate."""
    if (state.terminal and state.outcome == "review") or of.gaps.in_state(name, "outcome"):
        return
    for field in ("on_rejected", "choices"):
        if getattr(state, field):
            yield of.error(
                "LL217",
                f"`{field}` is set on state `{name}`, which is not a gate",
                *("states", name, field),
                help=f"add `terminal: true` and `outcome: review`, or remove `{field}`",
                part="key",
            )


def check_capture_names(of: Inspection) -> Iterator[Problem]:
    """Report a capture with the name of another state."""
    for name, state in of.loop.states.items():
        if state.capture is not None and state.capture != name and state.capture in of.loop.states:
            yield of.error(
                "LL206",
                f"state `{name}` captures into `{state.capture}`, which is the name of another state",
                *("states", name, "capture"),
                help=f"choose another name: `captured.{state.capture}` is that state's result",
            )
