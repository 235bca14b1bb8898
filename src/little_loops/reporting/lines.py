r"""Render a run as plain text: the lines for each event.

These lines are an interface that scripts rely on, as in `grep '^\['`. The log, and any output that is not a terminal, get exactly these lines.

Not here: colours, live lines, widths (`terminal`), the time of an event (`reporter`); masking and escaping, which the caller has done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from little_loops.errors import OK
from little_loops.fsm.actions import action_of_event, is_builtin
from little_loops.fsm.colour_codes import without_colours
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    AgentWait,
    ChildEnd,
    ChildrenPlanned,
    ConditionEval,
    Cost,
    Cycle,
    Event,
    FinalEvent,
    Forked,
    GateAnswered,
    Handoff,
    HandoffDetected,
    HookRun,
    HostChosen,
    HostWait,
    Iteration,
    JudgeComplete,
    JudgeStart,
    KeepBest,
    LoopComplete,
    LoopError,
    LoopInterrupted,
    LoopPaused,
    LoopTimeout,
    NoteDelivered,
    NoteReceived,
    OutOfScope,
    PartialResult,
    Recheck,
    ReferenceMoved,
    Report,
    Restored,
    Resume,
    RetryWait,
    RunWarning,
    Sampled,
    StateEnter,
    Tampered,
    TransitionTaken,
    Tree,
    TreeUnread,
    WorktreeEvent,
    hook_failure,
    message_of,
)
from little_loops.fsm.extract import plain
from little_loops.fsm.path_text import listed_paths
from little_loops.fsm.schema import FSMLoop
from little_loops.fsm.state import Changed, Children, Result, Stage, WaitKind
from little_loops.fsm.values import duration_text
from little_loops.light_typing import Any, get_args
from little_loops.reporting.action_line import prompt_mark, running
from little_loops.reporting.amounts import count_text, money_text, times_text
from little_loops.reporting.held_end import Mark

INDENT = "       "
LONGEST = 200
ALREADY_REPORTED = ("exit_code", "verdict")
"""Condition types whose reason only repeats how the action ended."""
MAX_FILES = 8
FRAME_ROWS = 5
PAUSES = ("interrupted", "awaiting_continuation", "needs_review")
SHORT = 60
"""The maximum length of a final message that an earlier line shows in full."""


BRANCH_ENDS: Mapping[Stage, tuple[Mark, str]] = {
    "pass": ("good", "passed"),
    "fail": ("bad", "failed"),
    "error": ("bad", "ended with an error"),
    "timeout": ("bad", "timed out"),
    "stopped": ("neutral", "stopped: no longer needed"),
    "paused": ("neutral", "paused"),
    "review": ("neutral", "waiting for an answer"),
    "interrupted": ("neutral", "interrupted"),
    "waiting": ("neutral", "not started"),
    "running": ("neutral", "running"),
    "resumed": ("neutral", "continues"),
}
"""How a branch at each stage is described."""
OBVIOUS = ("terminal", "signal", "loop_timeout")
"""Reasons that are already part of how a branch's end is described."""


class PlainLines:
    """Converts events to lines; remembers only what the next line needs."""

    def __init__(
        self,
        loop: str,
        max_iterations: int,
        *,
        ascii_only: bool = False,
        commands: bool = False,
        detailed: bool = False,
        machinery: Collection[str] = (),
        name: str | None = None,
    ) -> None:
        """Set up for a run; `name` is the run's own, if it is not that of the loop.

        `commands` prints whole actions, `detailed` adds times and the reason for each verdict. For
        states in `machinery` only the result is printed, unless one of these is set.
        """
        self.loop = loop
        self._name = name or loop
        self._machinery = () if commands or detailed else machinery
        self.commands = commands
        self.detailed = detailed
        self.max_iterations = max_iterations
        self.iteration = 1
        self.check = ""
        self._count = self._next_count = ""
        self._tamperer = ""
        self._unread: TreeUnread | None = None
        self._committed: tuple[str, ...] = ()
        self.tree = ""
        self._is_after_kill = False
        self.reported: dict[str, None] = {}
        self.total = Changed()
        self._changed_since_pass = 0
        self.signs = _ASCII if ascii_only else _UTF8
        self._state = ""
        self._action: ActionStart | None = None
        self._shown = ""
        self._is_repeated = False
        self._kept: KeepBest | None = None
        self._at_start: float | None = None
        self._is_changing = False
        self.fallback = 0
        self._has_branches = False

    def lines(self, event: Event, mark: Mark | None = None) -> list[str]:
        """Return the lines for an event, without newlines; [] if it has none.

        `mark` is that of an action that it ends, if known.
        """
        if isinstance(event, ActionComplete):
            return self._action_complete(event, mark)
        handler = _HANDLERS.get(type(event))
        return [] if handler is None else handler(self, event)

    def _state_enter(self, event: StateEnter) -> list[str]:
        """Remember the iteration and the state; the first line comes with the action or the verdict."""
        self.iteration = event.iteration
        self._state, self._action, self._shown = event.state, None, ""
        return []

    def _action_start(self, event: ActionStart) -> list[str]:
        """Return the line about the action that is running, and the whole action if asked for."""
        self.check = _place_and_tree(event, self.tree, self.signs["neutral"])
        self._count, self._next_count = self._next_count, ""
        self._is_after_kill = False
        self._state, self._action, self._shown = event.state, event, ""
        self._is_changing = self._is_changing or not (event.is_check or event.terminal)
        is_repeated, self._is_repeated = self._is_repeated, False
        if event.state in self._machinery or (is_repeated and not self.commands):
            return []
        return [self._running(event), *(whole_command(event) if self.commands else [])]

    def is_machinery(self, state: str) -> bool:
        return state in self._machinery

    def _running(self, event: ActionStart) -> str:
        return f"{self._where} {self.signs['to']} {running(event)}"

    @property
    def _where(self) -> str:
        return f"[{self.iteration}/{self.max_iterations}] {self._state}"

    def _action_complete(self, event: ActionComplete, mark: Mark | None) -> list[str]:
        """Return the line about the end of an action, with its mark."""
        result = event.result
        if mark is None:
            mark = "good" if result.exit_code == 0 and result.agent in (None, "success") else "bad"
        took = f" in {duration_text(result.duration_ms)}" if self.detailed else ""
        self._shown = _how_it_ended(event)
        count = self._count if mark == "good" else ""
        line = f"{INDENT}{self.signs[mark]} {self._shown}{self.check}{count}{took}"
        if event.state not in self._machinery:
            return [line]
        if mark == "bad" and self._action is not None:
            return [self._running(self._action), line]
        return [line.removesuffix(f" ({_exit(OK)})")]

    def _child_end(self, event: ChildEnd) -> list[str]:
        """Return the line about the end of a branch, or about a child that was killed and continues;
        other children have lines of their own."""
        if self._has_branches:
            return [f"[{event.state}/{event.child}] {self._branch_end(event)}"]
        if event.stage == "interrupted" and event.reason == "crash":
            return [f"{INDENT}{self.signs['bad']} {event.child} was killed; resuming it"]
        return []

    def _children(self, event: ChildrenPlanned) -> list[str]:
        """Return how many branches there are, if they are branches."""
        self._has_branches = event.several
        count = len(event.names)
        return [f"{INDENT}{count} branch{'' if count == 1 else 'es'}"] if event.several else []

    def continues(self, children: Children) -> None:
        """Take the children that a resumed run continues: it does not say again how many they are."""
        self._has_branches = children.several

    def _branch_end(self, event: ChildEnd) -> str:
        """Return how a branch has ended, and after how long."""
        mark, words = BRANCH_ENDS[event.stage]
        is_plain = event.stage == "stopped" or event.reason in OBVIOUS
        why = "" if is_plain else event.message or event.reason.replace("_", " ")
        detail = f": {one_line(why)}" if why else ""
        return f"{self.signs[mark]} {words}{detail} ({duration_text(event.duration_ms)})"

    def _worktree(self, event: WorktreeEvent) -> list[str]:
        """Return the lines about a worktree, or about merging branches."""
        from little_loops.reporting.worktree_lines import worktree_lines  # few runs have worktrees

        return [f"{INDENT}{line}" for line in worktree_lines(event, self.signs["bad"])]

    def _condition_eval(self, event: ConditionEval) -> list[str]:
        """Return the reason for the verdict, unless the line above or the transition says it."""
        reason = one_line(event.reason)
        if self._action is None:  # a state without an action; version one did not record its name
            self._state = event.state or self._state
            return [f"{self._where} {self.signs['to']} {event.result}: {reason}"]
        if self.detailed or event.result == "error":
            self._shown = reason
            return [f"{INDENT}{event.result}: {reason}"]
        return [] if event.type in ALREADY_REPORTED else [f"{INDENT}{reason}"]

    def _judge_start(self, event: JudgeStart) -> list[str]:
        return [
            f"{INDENT}{self.signs['to']} judge {one_line(event.host)}: {one_line(event.question)}"
        ]

    def _judge_complete(self, event: JudgeComplete) -> list[str]:
        """Return the line about the answer of a judge, and about files that had to be restored."""
        mark = self.signs["good" if event.verdict == "pass" else "bad"]
        reason = f": {one_line(event.reason)}" if event.reason else ""
        lines = [f"{INDENT}{mark} judge: {event.verdict}{reason}"]
        if event.restored:
            paths = listed_paths(event.restored, len(event.restored))
            lines.append(f"{INDENT}! {paths} changed while the judge was working: restored")
        return lines

    def _sampled(self, event: Sampled) -> list[str]:
        """Remember that the action runs again for the same measurement."""
        self._is_repeated = True
        return []

    def _keep_best(self, event: KeepBest) -> list[str]:
        """Remember what is kept. Return a line about the files, unless the reason of the verdict or
        the next line says it."""
        if event.decision == "again":
            return [
                f"{INDENT}! the files changed while they were measured, so this measurement does not count"
            ]
        if event.decision == "moved":
            return [f"{INDENT}! someone else changed the files: measuring from a new baseline"]
        before, self._kept = self._kept, event
        self._is_changing = event.decision == "put_back"
        if event.decision == "start":
            self._at_start = event.value
        is_change = event.decision == "kept" and before is not None and before.tree != event.tree
        return [f"{INDENT}kept: tree {(event.tree or '')[:6]}"] if is_change else []

    def _cost(self, event: Cost) -> list[str]:
        """Return the line about an agent's turns, tokens and cost."""
        used = [f"{event.turns} turn{'' if event.turns == 1 else 's'}"] if event.turns else []
        used += [f"{count_text(event.tokens)} tokens"] if event.tokens else []
        used += [money_text(event.cost_usd)] if event.cost_usd else []
        used += ["estimated"] if event.estimated else []
        return [f"{INDENT}agent: {', '.join(used)}"]

    def _action_interrupted(self, event: ActionInterrupted) -> list[str]:
        """Return the line about an interrupted action; if the runs that it started paused or
        stopped by themselves, the ending says so."""
        if not event.started and event.cause != "stop":
            return []
        return [f"{INDENT}{self.signs['bad']} interrupted ({event.cause})"]

    def _transition(self, event: TransitionTaken) -> list[str]:
        """Return the line about a transition, unless it involves machinery."""
        if event.from_ in self._machinery or event.to in self._machinery:
            return []
        why = "" if event.reason == "next" else f" ({event.reason})"
        return [f"{INDENT}{self.signs['to']} {event.to}{why}"]

    def _iteration(self, event: Iteration) -> list[str]:
        return _wait(event.wait_ms, "the next iteration") if event.wait_ms else []

    def _cycle(self, event: Cycle) -> list[str]:
        return _wait(event.wait_ms, f"cycle {event.cycle}")

    def _retry_wait(self, event: RetryWait) -> list[str]:
        return _wait(event.wait_ms, f"attempt {event.attempt}")

    def _long_wait(self, event: HostWait | AgentWait) -> list[str]:
        left = "" if event.wait_ms is None else f" {duration_text(event.wait_ms)}"
        return [f"{INDENT}waiting{left}: {one_line(event.reason)}"]

    def _host_chosen(self, event: HostChosen) -> list[str]:
        """Return the line about an agent that takes over from another one."""
        before, self.fallback = self.fallback, event.fallback
        if before == event.fallback:
            return []
        return [f"{INDENT}{self.signs['to']} {one_line(event.host)} takes over"]

    def _handoff_detected(self, event: HandoffDetected) -> list[str]:
        """Return the line about a handoff, and about the wait after it."""
        text = one_line(event.continuation)
        lines = [f"{INDENT}{self.signs['to']} context handoff{': ' + text if text else ''}"]
        return lines + (_wait(event.wait_ms, "a fresh session") if event.wait_ms else [])

    def _hook(self, event: HookRun) -> list[str]:
        """Return the line about a hook that failed; in detail, also about one that did not."""
        if event.problem:
            sign = self.signs["bad"] if event.required else "!"
            return [f"{INDENT}{sign} {one_line(hook_failure(event))}"]
        took = duration_text(event.duration_ms)
        return [f"{INDENT}hook {event.hook} in {took}"] if self.detailed else []

    def _warning(self, event: RunWarning) -> list[str]:
        return [f"warning: {one_line(event.message)}"]

    def _tree(self, event: Tree) -> list[str]:
        """Remember the tree and the total changes."""
        self.tree, self._unread, self._committed = event.id, None, event.committed
        if event.compared:
            self.total = event.compared[0]
        if event.when == "end":
            # Since an agent's check passed; a shell check ran on the snapshot before this one.
            since_pass = event.compared[1] if len(event.compared) > 1 else event.changed
            self._changed_since_pass = since_pass.files
        return []

    def _tree_unread(self, event: TreeUnread) -> list[str]:
        """Remember a failed reading, for the ending: another attempt may follow."""
        self._unread = event
        return []

    def _tampered(self, event: Tampered) -> list[str]:
        """Return a warning about changed protected files, unless they will be restored."""
        self._tamperer = _TAMPERERS[event.by]
        return [] if event.tampering == "restore" else [f"{INDENT}! {self._tampering(event)}"]

    def _out_of_scope(self, event: OutOfScope) -> list[str]:
        """Return a warning about files outside the scope, unless they will be restored."""
        if event.beside:
            return [f"{INDENT}! {_changed_beside(event)}"]
        return [] if event.scope_writes == "enforce" else [f"{INDENT}! {_strayed(event)}"]

    def _restored(self, event: Restored) -> list[str]:
        """Return a line about restored files, and one for each that was not."""
        if event.of == "change":
            self._is_changing = False
            lines = [f"{INDENT}reverted: {self._put_back(event)}"] if event.paths else []
        else:
            what = _strayed(event) if event.of == "outside" else self._tampering(event)
            lines = [f"{INDENT}! {what}: restored"] if event.paths else []
            if lines and event.of == "protected" and self._is_after_kill and event.kept:
                lines += [f"{INDENT}{line}" for line in self._way_back(event, event.kept)]
        return [*lines, *(f"{INDENT}! not restored: {one_line(why)}" for why in event.failed)]

    def _put_back(self, event: Restored) -> str:
        """Return the files of a change that was not kept, and what is kept."""
        paths = listed_paths(event.paths, event.files)
        kept = self._kept
        if kept is None or kept.best is None:
            return paths
        return f"{paths} (best: {plain(kept.best)}, tree {(kept.tree or '')[:6]})"

    def _way_back(self, event: Restored, kept: str) -> list[str]:
        """Return how to undo a restoration after a kill: the change may have been the user's."""
        path = event.paths[0]
        is_plain = event.files == 1 and all(one.isalnum() or one in "._-/" for one in path)
        them = "it" if event.files == 1 else "them"
        return [
            f"If you changed {them} after the kill, this restores your version:",
            f"  ll-loop restore {self._name} {path if is_plain else 'PATH'} --tree {kept[:10]}",
        ]

    def _tampering(self, event: Tampered | Restored) -> str:
        paths = listed_paths(event.paths, event.files)
        return f"{paths} {_was(event.files)} changed{self._tamperer}"

    def _reference_moved(self, event: ReferenceMoved) -> list[str]:
        """Return a line about protected files whose change was accepted."""
        paths = listed_paths(event.paths, event.files)
        by = event.by if event.by.startswith("while") else f"by {event.by}"
        return [f"{INDENT}! {paths} changed {by}: accepted as the new baseline"]

    def _recheck(self, event: Recheck) -> list[str]:
        """Return a line about a check that is run again."""
        self._next_count = _count_of_passes(event, self.signs["neutral"])
        where = " in a clean copy" if event.place == "clean" else ""
        why = "" if event.place == "clean" else f": {event.why}"
        return [f"{INDENT}{self.signs['to']} {event.state} again{where}{why}"]

    def _report(self, event: Report) -> list[str]:
        return [f"{INDENT}| {line}" for line in event.text.splitlines()]

    def _resume(self, event: Resume) -> list[str]:
        """Return the lines about a resumed run."""
        self.iteration = event.iteration
        self._is_after_kill = True
        where = f"from state '{event.state}' (iteration {event.iteration})"
        lines = [f"Resuming loop '{self.loop}' {where}"]
        if event.again:
            lines.append("The run failed in this state, so the state will run again")
        if event.orphans:
            lines.append(
                f"Ended leftover processes of the action: {one_line(', '.join(event.orphans))}"
            )
        if event.continuation:
            lines.append(f"Continuation context: {one_line(event.continuation)}")
        if event.wait is not None:
            lines += _wait(event.wait_ms, _BEFORE[event.wait])
        return lines

    def _forked(self, event: Forked) -> list[str]:
        return [f"Forked from {event.parent_name} after step {event.step}"]

    def _gate_answered(self, event: GateAnswered) -> list[str]:
        """Return the line about the answer to a gate: verdict, chosen state and text."""
        answer = event.answer
        how = " by `ll-loop resume`" if answer.by == "resume" else ""
        to = f"; continuing in state '{answer.to}'" if answer.to is not None else ""
        text = f": {one_line(answer.text)}" if answer.text else ""
        return [f"State '{event.state}' was {answer.verdict}{how}{to}{text}"]

    def _note_received(self, event: NoteReceived) -> list[str]:
        return [f"{INDENT}note for the next agent: {one_line(event.text)}"]

    def _note_delivered(self, event: NoteDelivered) -> list[str]:
        return [f"{INDENT}note delivered to {event.state}"]

    def _last(self, event: FinalEvent) -> list[str]:
        """Return the lines at the end of a run."""
        last = last_line(event, SHORT if self._is_above(message_of(event)) else LONGEST)
        return ["", last, *self._kept_lines(event), *self._result_lines(event)]

    def _kept_lines(self, event: FinalEvent) -> list[str]:
        """Return the line about the best tree of a loop with `keep: best`; none for other loops."""
        kept = self._kept
        if kept is None or kept.best is None:
            return []
        what = f"tree {(kept.tree or '')[:6]} from step {kept.kept_step}, which measured {plain(kept.best)}"
        if self._at_start is not None:
            what = f"{what} (at the start: {plain(self._at_start)})"
        if self._is_changing and event.status in PAUSES:
            return [
                f"Best so far: {what}; the files contain a change that has not been measured yet"
            ]
        return [f"Kept: {what}"]

    def _result_lines(self, event: FinalEvent) -> list[str]:
        """Return the lines about changed files and evidence."""
        files = self._files_changed()
        if not isinstance(event, LoopComplete) or event.status != "completed":
            return files
        nothing = ["Nothing to do: the goal was already met"] if event.nothing_done else []
        proof = _PROOF.get(event.evidence or "")
        changed = _files_have_changed(self._changed_since_pass)
        shown = [proof.format(tree=self.tree[:6], run=self._name, changed=changed)] if proof else []
        paths = listed_paths(self._committed, len(self._committed))
        committed = (
            [f"The commit that is checked out still contains changes to {paths}"] if paths else []
        )
        return [*nothing, *files, *committed, *_to_review(event.to_review), *shown]

    def changed(self, paths: Iterable[str]) -> None:
        """Remember files that an agent's program reports as changed."""
        self.reported |= dict.fromkeys(paths)

    def _files_changed(self) -> list[str]:
        """Return the line about changed files: by the trees, or else by the agents' reports."""
        if self._unread is not None:
            files = "Files changed: unknown, because the run stopped before all files were read"
            protected = "Protected files were not compared; `ll-loop resume` does that"
            return [files] if self._unread.guard else [files, protected]
        if self.total.files:
            return [f"Files changed: {changed_text(self.total)}"]
        if self.tree or not self.reported:
            return []
        paths = tuple(self.reported)
        return [
            f"Files changed (as reported by the agents): {listed_paths(paths[:MAX_FILES], len(paths))}"
        ]

    def _is_above(self, message: str) -> bool:
        """Return whether the line about the action already shows the message."""
        text = one_line(message).rstrip("…")
        own = text.partition(": ")[2] if text.startswith("exit ") else text
        return bool(own) and self._shown.startswith(own)


def machinery_of(loop: FSMLoop) -> frozenset[str]:
    """Return the states with built-in actions, of which only the result is displayed."""
    return frozenset(
        name
        for name, state in loop.states.items()
        if is_builtin(action_of_event(state.action or "", state.action_type or ""))
    )


_PROOF = {
    "verified": "Verified on tree {tree}; for a receipt: ll-loop receipt {run}",
    "stale": "Not verified: {changed} since the last check passed",
    "merged": "Not verified: it was merged with later commits, and no `check` of the worktree ran",
    "failed": "Not verified: no check has passed",
    "off": "Not verified: evidence is off",
}


def _files_have_changed(count: int) -> str:
    return "1 file has changed" if count == 1 else f"{count} files have changed"


def changed_text(changed: Changed) -> str:
    """Describe changed files: `src/a.py and 2 more (+10 -3)`."""
    lines = f" (+{changed.added} -{changed.removed})" if changed.added or changed.removed else ""
    return f"{listed_paths(changed.paths, changed.files)}{lines}"


def _place_and_tree(event: ActionStart, tree: str, dot: str) -> str:
    """Return the place and tree that a check ran on; empty for other actions."""
    if not event.is_check:
        return ""
    return f"{f' {dot} clean copy' if event.place == 'clean' else ''} {dot} tree {tree[:6]}"


def _count_of_passes(event: Recheck, dot: str) -> str:
    """Return which of the passes that are needed the next one is; empty if one is enough, or if the
    earlier ones were on another tree."""
    # The passes are counted in the project; the clean copy then confirms them together.
    number = event.passes if event.place == "clean" else event.passes + 1
    return f" {dot} {number} of {event.needed}" if event.needed > 1 and number else ""


def _to_review(paths: tuple[str, ...]) -> list[str]:
    """Return the line about changed checks, because their passes may mean less than before."""
    if not paths:
        return []
    them = "it" if len(paths) == 1 else "them"
    return [
        f"Please review: {listed_paths(paths, len(paths))} changed, and the checks depend on {them}"
    ]


def _strayed(event: OutOfScope | Restored) -> str:
    return f"the agent changed {listed_paths(event.paths, event.files)} outside the scope"


def _changed_beside(event: OutOfScope) -> str:
    """Return a message that does not say who changed the files, because that is not known."""
    paths = listed_paths(event.paths, event.files)
    restored = "; nothing was restored" if event.scope_writes == "enforce" else ""
    patch = f"; {event.patch} has the difference" if event.patch else ""
    return (
        "since agents started to work in worktrees, files in the original project have changed"
        f" (their changes or yours): {paths}{restored}{patch}"
    )


_TAMPERERS = {
    "agent": " by the agent",
    "check": " while the check ran",
    "apart": " while agents worked in worktrees",
}


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _wait(wait_ms: int, before: str) -> list[str]:
    return [f"{INDENT}waiting {duration_text(wait_ms)} before {before}"]


_BEFORE: Mapping[WaitKind, str] = {
    "backoff": "the next iteration",
    "retry": "the next attempt",
    "maintain": "the next cycle",
    "host": "retrying the agent",
    "slot": "starting the agent",
    "budget": "starting the agent",
    "handoff": "a fresh session",
}
_WAITING = {"budget": "paused"}
_UTF8 = {"to": "→", "good": "✓", "bad": "✗", "neutral": "·"}
_ASCII = {"to": "->", "good": "ok", "bad": "FAIL", "neutral": "-"}

_HANDLERS: Mapping[type, Callable[[PlainLines, Any], list[str]]] = {
    StateEnter: PlainLines._state_enter,
    ActionStart: PlainLines._action_start,
    ActionInterrupted: PlainLines._action_interrupted,
    ChildrenPlanned: PlainLines._children,
    ChildEnd: PlainLines._child_end,
    **dict.fromkeys(get_args(WorktreeEvent), PlainLines._worktree),
    ConditionEval: PlainLines._condition_eval,
    Sampled: PlainLines._sampled,
    KeepBest: PlainLines._keep_best,
    Cost: PlainLines._cost,
    TransitionTaken: PlainLines._transition,
    Iteration: PlainLines._iteration,
    Cycle: PlainLines._cycle,
    RetryWait: PlainLines._retry_wait,
    HostWait: PlainLines._long_wait,
    HostChosen: PlainLines._host_chosen,
    JudgeStart: PlainLines._judge_start,
    JudgeComplete: PlainLines._judge_complete,
    AgentWait: PlainLines._long_wait,
    HandoffDetected: PlainLines._handoff_detected,
    RunWarning: PlainLines._warning,
    HookRun: PlainLines._hook,
    Tree: PlainLines._tree,
    TreeUnread: PlainLines._tree_unread,
    Tampered: PlainLines._tampered,
    OutOfScope: PlainLines._out_of_scope,
    Restored: PlainLines._restored,
    ReferenceMoved: PlainLines._reference_moved,
    Recheck: PlainLines._recheck,
    Report: PlainLines._report,
    Resume: PlainLines._resume,
    Forked: PlainLines._forked,
    GateAnswered: PlainLines._gate_answered,
    NoteReceived: PlainLines._note_received,
    NoteDelivered: PlainLines._note_delivered,
    LoopComplete: PlainLines._last,
    LoopError: PlainLines._last,
    LoopTimeout: PlainLines._last,
    LoopPaused: PlainLines._last,
    LoopInterrupted: PlainLines._last,
    Handoff: PlainLines._last,
}


def last_line(event: FinalEvent, most: int = LONGEST) -> str:
    """Return how the run ended on one line; it says "completed" only for a success state.

    `most` is the maximum length of the message in it.
    """
    about = [times_text(event.iterations), duration_text(event.duration_ms)]
    about += [money_text(event.cost_usd)] if event.cost_usd else []
    return f"{_ending(event, most)} ({', '.join(about)})"


def _ending(event: FinalEvent, most: int) -> str:
    """Return how the run ended, without its duration and cost."""
    state, text = event.final_state, one_line(message_of(event), most)
    because = f": {text}" if text and text != event.reason else ""
    match event.status, event.reason:
        case "completed", _:
            return f"Loop completed: {state}"
        case "failed", "terminal":
            return f"Loop failed: ended in state '{state}'{because}"
        case "failed", "loop_timeout":
            return f"Loop timed out in state '{state}'"
        case "failed", "max_iterations":
            return f"Loop reached its iteration limit in state '{state}'"
        case "failed", "max_cost" | "max_tokens":
            return f"Loop reached its limit{because}"
        case "failed", reason:
            how = "rejected" if reason == "rejected" else "failed"
            because = because or f": {reason.replace('_', ' ')}"
            return f"Loop {how} in state '{state}'{because}"
        case "stopped", _:
            return f"Loop stopped{because}" if because else f"Loop stopped in state '{state}'"
        case "interrupted", _:
            return f"Loop interrupted: {signal_of(event)} in state '{state}'"
        case "awaiting_continuation", _:
            return f"Loop paused: context handoff in state '{state}'{because}"
        case _:
            return f"Loop {_WAITING.get(event.reason, 'needs review')}: {text or state}"


def signal_of(event: FinalEvent) -> str:
    """Return the name of the signal that interrupted a run; `Ctrl-C` for SIGINT."""
    name = signal_name(event.signal if isinstance(event, LoopInterrupted) else 0)
    return "Ctrl-C" if name == "SIGINT" else name


def _how_it_ended(event: ActionComplete) -> str:
    """Return how an action ended, in a few words."""
    result = event.result
    if result.failure:
        return one_line(result.failure)
    if result.cut_by == "silence":
        return f"silent, ended after {duration_text(result.duration_ms)}"
    if result.cut_by != "none":
        return f"timed out after {duration_text(result.duration_ms)}"
    if event.signal_line is not None and event.signal_line.type == "error":
        # This reason decides the verdict, whatever the exit code.
        if reason := one_line(event.signal_line.payload):
            return reason
    # The text of a handoff has its own line.
    handed_off = event.signal_line is not None and event.signal_line.type == "handoff"
    message = "handed off" if handed_off else _message_of(result)
    if result.agent is not None:
        return one_line(message or result.reason or result.kind or "done")
    if result.child is not None or result.branches is not None:
        return one_line(result.reason or "")
    died = result.signal
    how = f"killed by {signal_name(died)}" if died else _exit(result.exit_code)
    return f"{message} ({how})" if message else f"({how})"


def _exit(code: int | None) -> str:
    return f"exit {code}{_NOT_RUN.get(code or 0, '')}"


_NOT_RUN = {126: ": not executable", 127: ": not found"}


def _message_of(result: Result) -> str:
    """Return the reason in a structured answer, or else the last line that is not a verdict."""
    match result.structured:
        case {"reason": str(reason)}:
            return one_line(reason)
        case _:
            pass
    text = output_of(result).rstrip()
    before, _, last = text.rpartition("\n")
    message = last_text_line(before if is_verdict(last) else text)
    return message or last_text_line(result.stderr)


def is_verdict(line: str) -> bool:
    """Return whether a line is a verdict for the machine, which is displayed elsewhere."""
    return line.startswith("VERDICT:")


def output_of(result: Result | PartialResult) -> str:
    """Return the output of an action, or the end of it; empty for an agent without an answer.

    The end of such an agent's output would be the protocol of its CLI.
    """
    if result.output is not None:
        return without_colours(result.output)
    return without_colours(result.tail or "") if isinstance(result, Result) else ""


def last_text_line(text: str | None) -> str:
    """Return the last non-blank line; for a table, the last row that is not part of its frame."""
    if not text:
        return ""
    lines = without_colours(text).rstrip().rsplit("\n", FRAME_ROWS)[-FRAME_ROWS:]
    worded = (line for line in reversed(lines) if any(char.isalnum() for char in line))
    return one_line(next(worded, lines[-1]))


def one_line(text: str, most: int = LONGEST) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def whole_command(event: ActionStart) -> list[str]:
    """Return all lines of an action, unless the line about it shows all of it."""
    lines = (event.filled or event.action).strip().splitlines()
    is_shown = event.label is None and len(lines) == 1 and lines[0].rstrip(" .:") in running(event)
    mark = prompt_mark(event)
    return [] if is_shown else [f"{INDENT}{mark} {line}".rstrip() for line in lines]


def signal_name(number: int) -> str:
    """Return the name of a signal, such as `SIGTERM`; `signal 99` if the number has none."""
    from signal import Signals  # loads `enum`, and signals are rare

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
