"""What each event changes in a run.

A run is the sum of its events. `advance` decides which events happen, and this module applies them;
a resume applies the events of the log in the same way. Nothing else changes a `LoopState`, so a
damaged snapshot can always be rebuilt.

Not here: whether an event may happen (`machine`), files (`runs.journal`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from little_loops.fsm.endings import is_final, is_gate
from little_loops.fsm.events import (
    ActionComplete,
    ActionInterrupted,
    ActionStart,
    AgentWait,
    CheckResult,
    ChildEnd,
    ChildrenHalted,
    ChildrenJoined,
    ChildrenPlanned,
    ChildStart,
    ConditionEval,
    Cost,
    Cycle,
    Entry,
    Event,
    FinalEvent,
    Forked,
    GateAnswered,
    Handoff,
    HandoffDetected,
    HookRun,
    HostChosen,
    HostUnavailable,
    HostWait,
    Iteration,
    JudgeComplete,
    JudgeStart,
    KeepBest,
    LoopStart,
    LoopTimeout,
    NoteDelivered,
    NoteReceived,
    OutOfScope,
    Recheck,
    ReferenceMoved,
    Report,
    Restored,
    Resume,
    RetryWait,
    RunWarning,
    Sampled,
    SignalFound,
    StateEnter,
    Tampered,
    TransitionTaken,
    Tree,
    TreeUnread,
    UnknownEvent,
    WorktreeEvent,
    hook_failure,
    message_of,
)
from little_loops.fsm.plain import WrongShape
from little_loops.fsm.schema import ERROR, FAIL
from little_loops.fsm.state import (
    FORK,
    Children,
    Fork,
    Hosts,
    Judgement,
    LoopState,
    Metric,
    Move,
    Note,
    Ruling,
    Sample,
    Spending,
    Trees,
    Veto,
    WaitFor,
    WaitKind,
)
from little_loops.fsm.timestamps import timestamp
from little_loops.light_typing import Any, assert_never


def first_state(start: Entry, context: Mapping[str, Any]) -> LoopState:
    """Return the run after its first event: about to enter its initial state. Raises `WrongShape`
    if that event is not `loop_start`."""
    event, now = start.event, timestamp(start.wall_ms)
    if not isinstance(event, LoopStart):
        raise WrongShape("the first event is not `loop_start`")
    return LoopState(
        run=start.run,
        loop=event.loop,
        current_state=event.initial,
        started_at=now,
        updated_at=now,
        scope=event.scope,
        context=context,
        move=Move(event.initial, "initial"),
        limits=event.limits,
        trees=_first_trees(event.evidence),
        metered=event.metered,
    )


def _first_trees(evidence: str | None) -> Trees | None:
    if evidence is None:
        return None
    return Trees() if evidence == "on" else Trees(off=evidence)


def evolve(run: LoopState, entry: Entry) -> LoopState:
    """Return the run after an event. Nothing else changes a run."""
    return stamped(apply(run, entry, run.seq + 1), entry.wall_ms, entry.ran_ms, run.seq + 1)


def stamped(run: LoopState, wall_ms: int, ran_ms: int, seq: int) -> LoopState:
    """Return the run with what every event updates; `seq` is the number of the last event."""
    return run._replace(updated_at=timestamp(wall_ms), ran_ms=ran_ms, seq=seq)


def apply(run: LoopState, entry: Entry, seq: int) -> LoopState:
    """Return the run after the event with this number, before it is `stamped`: for several events
    at one moment, that is done once, because it takes as long as applying one of them."""
    event, trees = entry.event, run.trees
    if trees is not None and trees.off is None:
        from little_loops.fsm.evolve_trees import evolve_trees  # loops without agents pay nothing

        trees = evolve_trees(run, trees, event)
    run = _changed(run, event, entry, seq)
    if trees is None and not run.owes and run.session_id is None:
        return run  # no agent is at work, as in most runs
    return run._replace(owes=_has_unrecorded_cost(run, event), trees=trees)


def _has_unrecorded_cost(run: LoopState, event: Event) -> bool:
    """Return whether an agent's turn has ended and its cost is not recorded yet.

    The next event records it, if there is any; only a crash can come between the two.
    """
    match event:
        case ActionComplete() | ActionInterrupted(started=True) | JudgeComplete():
            return run.session_id is not None
        case Resume() | GateAnswered() | NoteReceived():
            return run.owes
        case _:
            return False


def replay(run: LoopState, entries: Iterable[Entry]) -> LoopState:
    for entry in entries:
        run = evolve(run, entry)
    return run


def _changed(run: LoopState, event: Event, entry: Entry, seq: int) -> LoopState:
    """Return the run after an event, without what it changes for agents and their files."""
    match event:  # the events of most steps come first
        case StateEnter() | TransitionTaken():
            return _moved(run, event)
        case ActionStart() | ActionComplete() | ActionInterrupted() | HookRun():
            return _action(run, event)
        case Iteration() | Cycle() | RetryWait() | HostWait() | AgentWait() | HandoffDetected():
            return _waiting(run, event, entry)
        case ConditionEval() | CheckResult() | Recheck() | Sampled() | KeepBest():
            return _judging(run, event)
        case ChildrenPlanned() | ChildStart() | ChildEnd() | ChildrenJoined() | ChildrenHalted():
            from little_loops.fsm.evolve_children import evolve_children  # few runs have children

            return evolve_children(run, event)
        case Cost() | HostUnavailable() | HostChosen() | JudgeStart() | JudgeComplete():
            return _agent(run, event)
        case Resume() | Forked() | GateAnswered() | NoteReceived() | NoteDelivered():
            return _by_people(run, event, entry)
        case LoopStart() | SignalFound() | RunWarning() | Report() | UnknownEvent():
            return run
        case Tree() | TreeUnread() | Tampered() | OutOfScope() | Restored() | ReferenceMoved():
            return run  # applied by `evolve_trees`
        case _:
            return _ended_or_merged(run, event, seq)


def _ended_or_merged(run: LoopState, event: FinalEvent | WorktreeEvent, seq: int) -> LoopState:
    """Apply the end of a run, or an event of its worktrees."""
    if isinstance(event, FinalEvent):
        return _final(run, event, seq)
    from little_loops.fsm.evolve_worktrees import evolve_worktrees  # few runs have worktrees

    return evolve_worktrees(run, event)


def _moved(run: LoopState, event: StateEnter | TransitionTaken) -> LoopState:
    return _state_enter(run, event) if isinstance(event, StateEnter) else _transition(run, event)


def _state_enter(run: LoopState, event: StateEnter) -> LoopState:
    """Enter a state. The same step again is a retry, and keeps counting attempts."""
    again = event.step == run.step
    return run._replace(
        phase="entered",
        current_state=event.state,
        iteration=event.iteration,
        step=event.step,
        attempt=run.attempt if again else 0,
        hooks_done=run.hooks_done if again else _without(run.hooks_done, STATE_HOOKS),
        retries=run.retries + 1 if again else 0,
        visited=_add_state(run.visited, event.state),
        at_limit=event.at_limit,
        entered_by=event.reason,
        move=None,
        wait=None,
        judgement=None,
        signal_line=None,
        samples=(),
        ruling=None,
    )


RUN_HOOKS = ("before_run", "after_run")
AFTER_ACTION = ("after", "after_state")
STATE_HOOKS = ("before_state", "before", *AFTER_ACTION)


def _without(done: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in done if name not in names) if done else done


def _hook_run(run: LoopState, event: HookRun) -> LoopState:
    """Remember that a hook has run. A required one that failed runs again before an action; after
    one, its failure becomes the verdict."""
    failed = event.problem and event.required
    if failed and event.hook not in AFTER_ACTION:
        return run
    run = run._replace(hooks_done=(*run.hooks_done, event.hook))
    return (
        run._replace(phase="judged", judgement=Judgement(ERROR, hook_failure(event)))
        if failed
        else run
    )


def _add_state(visited: tuple[str, ...], state: str) -> tuple[str, ...]:
    return visited if state in visited else (*visited, state)


def _action(
    run: LoopState, event: ActionStart | ActionComplete | ActionInterrupted | HookRun
) -> LoopState:
    """Apply the start, end or interruption of an action, or a hook around it. At the start of an
    agent, its notes get the number of the step."""
    match event:
        case ActionStart(attempt=attempt, session_id=session):
            notes = run.notes
            if notes and session is not None:
                notes = tuple(note._replace(step=run.step) for note in notes)
            if run.veto is not None and run.veto.state == event.state:
                run = run._replace(veto=None)
            return run._replace(
                phase="running",
                attempt=attempt,
                session_id=session,
                notes=notes,
                wait=None,
                spawns=False,
                late=False,
                ruling=None,
            )
        case ActionComplete():
            return _action_complete(run, event)
        case ActionInterrupted():
            run = run._replace(phase="interrupted" if event.started else "entered")
            return run if run.children is None else _with_interrupted_children(run)
        case HookRun():
            return _hook_run(run, event)
        case _:
            assert_never(event)


def _with_interrupted_children(run: LoopState) -> LoopState:
    """Return the run with its children interrupted."""
    from little_loops.fsm.evolve_children import interrupted_children  # few runs have children

    assert run.children is not None, "only a run with children has any to interrupt"
    return run._replace(children=interrupted_children(run.children))


def _action_complete(run: LoopState, event: ActionComplete) -> LoopState:
    """Store the result under the names of the state and its capture. Unless the agent needs another
    turn, mark its notes as received and forget what its turns shared."""
    result, line = event.result, event.signal_line
    stored = {event.state: result}
    if event.capture:
        stored[event.capture] = result
    run = run._replace(
        phase="judging",
        captured={**run.captured, **stored},
        prev_state=event.state,
        signal_line=line,
        judgement=None,
        children=None if run.own_children is not None else run.children,
        train=None if run.own_children is not None else run.train,
    )
    handed_off = line is not None and line.type == "handoff"
    # A turn that asks for another one has not finished the state.
    waits = handed_off or result.agent == "wait" or event.gives_way
    is_over = result.cut_by != "none" or not waits
    return _with_turns_over(_with_notes_delivered(run)) if is_over else run


def _with_notes_delivered(run: LoopState) -> LoopState:
    """Mark the notes that the agent of this step received; unchanged if no agent ran."""
    if not run.notes or run.session_id is None:
        return run
    notes = (note._replace(heard=True) if note.step == run.step else note for note in run.notes)
    return run._replace(notes=tuple(notes))


def _with_turns_over(run: LoopState) -> LoopState:
    """Forget what the turns of one action share: the prompt and number of handoffs, the waits for a
    host, and which agents were passed over."""
    run = _none_passed(run)
    counted = run.continuations or run.handoff_waits or run.host_waits or run.host_waited_ms
    if not counted and run.continuation_prompt is None:
        return run  # as in most steps, which saves a copy
    return run._replace(
        continuation_prompt=None,
        continuations=0,
        handoff_waits=0,
        host_waits=0,
        host_waited_ms=0,
    )


def _judging(
    run: LoopState, event: ConditionEval | CheckResult | Recheck | Sampled | KeepBest
) -> LoopState:
    """Apply a verdict, the result of a check, its rerun, or a decision about what it measured."""
    match event:
        case ConditionEval():
            return _condition_eval(run, event)
        case CheckResult():
            return run._replace(phase="judged", judgement=_judgement_of(run, event))
        case Recheck():
            return _run_again(run)._replace(current_state=event.state, move=None)
        case Sampled():
            samples = (*run.samples, Sample(event.value, event.tree))
            return _run_again(run)._replace(samples=samples)
        case KeepBest(decision="start" | "again"):
            return _run_again(run)
        case KeepBest():
            return run  # applied by `evolve_trees`
        case _:
            assert_never(event)


def _ruling(run: LoopState, event: JudgeStart | JudgeComplete) -> LoopState:
    """Remember that a judge is asked, or what it has answered: a veto, which agents are told of, or
    that there is none any more."""
    before = run.ruling
    errors = 0 if before is None else before.errors
    if isinstance(event, JudgeStart):
        ruling = Ruling(event.step, event.attempt, event.number, errors, question=event.question)
        return run._replace(ruling=ruling, session_id=event.session_id, wait=None)
    assert before is not None, "only a judge that is running can answer"
    errors += event.verdict in ("error", "lost")
    answer = before._replace(errors=errors, verdict=event.verdict, reason=event.reason)
    veto = Veto(event.state, event.reason) if event.verdict == FAIL else None
    return run._replace(ruling=answer, veto=veto)


def _condition_eval(run: LoopState, event: ConditionEval) -> LoopState:
    """Store the verdict and, for convergence, the best number so far."""
    metrics, metric = run.metrics, None
    if event.best is not None:
        metric = Metric(event.best, event.stalled or 0, event.min_gain)
        metrics = {**metrics, run.current_state: metric}
    judgement = Judgement(event.result, event.reason, metric, event.value)
    return run._replace(phase="judged", judgement=judgement, metrics=metrics, samples=())


def _judgement_of(run: LoopState, event: CheckResult) -> Judgement:
    """Return the judgement of the condition, or of the default condition, which is not logged."""
    return run.judgement or Judgement(event.verdict, event.reason)


def _run_again(run: LoopState) -> LoopState:
    """Let the check run again, without a new step."""
    return run._replace(phase="entered", judgement=None, signal_line=None, samples=(), ruling=None)


def _transition(run: LoopState, event: TransitionTaken) -> LoopState:
    """Set the next state. Clear the wait, the gate and the target of a resume."""
    return _none_passed(run)._replace(
        phase="moving",
        move=Move(event.to, event.reason, event.retry, event.passed),
        wait=None,
        host_waits=0,
        host_waited_ms=0,
        timed_out_in=event.loop_timeout,
        resume_to=None,
        gate=None,
        children=(kept := _kept_children(run, event)),
        train=run.train if kept is not None else None,
    )


def _kept_children(run: LoopState, event: TransitionTaken) -> Children | None:
    """Return the children that a resume continues after the loop's timeout, if it has more time.
    `resume --from` begins with new ones, also in the same state."""
    children = run.children
    if children is None or event.loop_timeout is not None:
        return children
    continues = event.reason == "resume" and run.resume_to is None
    return children if continues and event.to == children.state else None


def _waiting(
    run: LoopState,
    event: Iteration | Cycle | RetryWait | HostWait | AgentWait | HandoffDetected,
    entry: Entry,
) -> LoopState:
    """Apply an event that may start a wait. A new iteration clears the visited states; a new cycle
    also clears the metrics and starts at iteration 1."""
    match event:
        case Iteration():
            wait = _wait("backoff", event.wait_ms, entry)
            return run._replace(iteration=event.iteration, visited=(), wait=wait)
        case Cycle():
            wait = _wait("maintain", event.wait_ms, entry)
            run = run._replace(cycle=event.cycle, iteration=1, at_limit=False, visited=())
            return run._replace(metrics={}, wait=wait)
        case RetryWait():
            return run._replace(wait=_wait("retry", event.wait_ms, entry))
        case HostWait():
            return _host_wait(run, event, entry)
        case AgentWait():
            return run._replace(wait=_agent_wait(event))
        case HandoffDetected():
            return _handoff_detected(run, event, entry)
        case _:
            assert_never(event)


def _wait(kind: WaitKind, wait_ms: int, entry: Entry) -> WaitFor | None:
    return WaitFor(kind, until_ran_ms=entry.ran_ms + wait_ms) if wait_ms else None


def _host_wait(run: LoopState, event: HostWait, entry: Entry) -> LoopState:
    """Wait for the host before the action runs again, and count the wait and its length."""
    wait = WaitFor("host", until_wall_ms=event.until_wall_ms, why=event.reason)
    if event.least_ms is not None:  # an earlier version used only the wall clock
        wait = wait._replace(
            until_ran_ms=entry.ran_ms + (event.wait_ms or 0),
            least_ran_ms=entry.ran_ms + event.least_ms,
        )
    return _none_passed(run)._replace(
        phase="entered",
        wait=wait,
        host_waits=run.host_waits + 1,
        host_waited_ms=run.host_waited_ms + (event.wait_ms or 0),
    )


def _none_passed(run: LoopState) -> LoopState:
    """Return the run with all agents to be tried again that are not limited any more."""
    hosts = run.hosts
    return run if hosts is None else run._replace(hosts=hosts._replace(passed=()))


def _agent(
    run: LoopState, event: Cost | HostUnavailable | HostChosen | JudgeStart | JudgeComplete
) -> LoopState:
    """Apply what a turn cost, which agent takes it, or that one could not, so that the state acts
    again; or the start or answer of a judge."""
    if isinstance(event, Cost):
        return _cost(run, event)
    if isinstance(event, JudgeStart | JudgeComplete):
        return _ruling(run, event)
    hosts = run.hosts or Hosts()
    if isinstance(event, HostChosen):
        state, step, attempt, _, fallback = event
        chosen = hosts._replace(state=state, step=step, attempt=attempt, fallback=fallback)
        return run._replace(hosts=chosen)
    limited = {**hosts.limited, event.host: event.until_wall_ms}
    hosts = hosts._replace(limited=limited, passed=(*hosts.passed, event.host))
    return run._replace(phase="entered", hosts=hosts, signal_line=None)


def _after_resume(hosts: Hosts | None) -> Hosts | None:
    """Return what is known of agents when a run is resumed: limits with a time."""
    if hosts is None:
        return None
    limited = {name: until_ms for name, until_ms in hosts.limited.items() if until_ms is not None}
    return hosts._replace(attempt=0, limited=limited, passed=())


def _agent_wait(event: AgentWait) -> WaitFor:
    """Return what an agent waits for; without a time, it waits for turns of others to end."""
    kind: WaitKind = "slot" if event.wait_for == "slot" else "budget"
    return WaitFor(kind, until_wall_ms=event.until_wall_ms, why=event.reason)


def _handoff_detected(run: LoopState, event: HandoffDetected, entry: Entry) -> LoopState:
    """Store the continuation for the next session, and count it; unchanged if the handoff ends the
    run."""
    if event.ends_run:  # a resume before the final event must also end the run
        return run
    return run._replace(
        phase="entered",
        continuation_prompt=event.continuation,
        continuations=run.continuations + 1,
        spawns=event.spawn,
        handoff_waits=run.handoff_waits + 1 if event.wait_ms else 0,
        wait=_wait("handoff", event.wait_ms, entry),
        signal_line=None,
    )


def _cost(run: LoopState, event: Cost) -> LoopState:
    """Add the cost of a turn to that of its state."""
    so_far = run.costs.get(event.state, Spending())
    spent = Spending(
        so_far.tokens + event.tokens,
        so_far.cost_usd + event.cost_usd,
        so_far.turns + event.turns,
        so_far.estimated_usd + (event.cost_usd if event.estimated else 0.0),
    )
    run = run._replace(costs={**run.costs, event.state: spent})
    if event.child is None or run.children is None:
        return run
    from little_loops.fsm.evolve_children import with_counted  # few runs have children

    return run._replace(children=with_counted(run.children, event.child, event))


def _forked(run: LoopState, event: Forked, entry: Entry) -> LoopState:
    """Turn the state of another run, which the copied events gave, into that of the new one: counts,
    costs and results stay. The new run has not run itself; a resume starts it, with a fresh
    session."""
    return run._replace(
        status="interrupted",
        reason=FORK,
        error=None,
        started_at=timestamp(entry.wall_ms),
        context={**run.context, **event.context},
        session_id=None,
        spawns=False,
        fork=Fork(event.parent, event.parent_name, event.step),
    )


def _by_people(
    run: LoopState,
    event: Resume | Forked | GateAnswered | NoteReceived | NoteDelivered,
    entry: Entry,
) -> LoopState:
    """Apply an event that a person caused: a resume, a fork, an answer or a note."""
    match event:
        case Resume():
            return _resume(run, event)
        case Forked():
            return _forked(run, event, entry)
        case GateAnswered(answer=answer):
            return run._replace(gate=answer.gate, answer=answer)
        case NoteReceived():
            return run._replace(notes=(*run.notes, Note(event.id, event.text)))
        case NoteDelivered():
            return run._replace(notes=tuple(note for note in run.notes if note.id != event.id))
        case _:
            assert_never(event)


def _resume(run: LoopState, event: Resume) -> LoopState:
    """Continue the run with the new limits and context. `again` discards the verdict and the waits,
    so that the state runs again; a new `max_continuations` resets the count of handoffs."""
    was_over = run.status == "failed"
    run = run._replace(
        status="running",
        reason=None,
        error=None,
        limits=run.limits.under(event.limits),
        context={**run.context, **event.context},
        spawns=False,  # whoever resumes replaces the session that was to be started
        late=run.phase == "judging",
        wait=None if run.status == "awaiting_continuation" else run.wait,
        resume_to=event.to,
        metered=event.metered,
        hosts=_after_resume(run.hosts),
        hooks_done=_without(run.hooks_done, RUN_HOOKS),
        samples=(),  # the files may have changed since
    )
    if was_over and run.workspace is not None:  # there may be more work to commit
        space = run.workspace._replace(commit=None, is_committed=False)
        run = run._replace(workspace=space, train=run.train if run.children else None)
    if run.children is not None:
        from little_loops.fsm.evolve_children import resumed_children  # few runs have children

        run = run._replace(children=resumed_children(run.children, event.answered))
    if event.limits.max_continuations is not None:
        run = run._replace(continuations=0, handoff_waits=0)
    if event.again:
        run = run._replace(phase="entered", judgement=None, signal_line=None, wait=None)
        return run._replace(host_waits=0, host_waited_ms=0)
    return run


def _final(run: LoopState, event: FinalEvent, seq: int) -> LoopState:
    """Store the ending, and the gate that it opens, named by the number of this event. The phase becomes `ended` only if a resume has
    nothing to continue."""
    run = run._replace(status=event.status, reason=event.reason, error=message_of(event) or None)
    # With children, the gate is one of theirs.
    at_gate = is_gate(event.status, event.reason) and run.own_children is None
    run = run._replace(gate=seq if at_gate else None, result=event.result)
    if isinstance(event, Handoff):
        run = run._replace(wait=None, spawns=False)  # that wait is over
    is_over = is_final(event.status, event.reason) or _is_after_handler(run, event)
    if run.own_children is not None:
        return run  # they continue
    return run._replace(phase="ended") if is_over else run


def _is_after_handler(run: LoopState, event: FinalEvent) -> bool:
    """Return whether the `on_timeout` state has had its chance; a resume needs more time."""
    return isinstance(event, LoopTimeout) and run.timed_out_in is not None
