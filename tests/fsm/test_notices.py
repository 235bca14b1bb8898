"""Which events lead to a notification, what it says, and which addresses there are."""

from __future__ import annotations

import pytest

from little_loops.engine.drive import new_run
from little_loops.fsm.commands import Ending
from little_loops.fsm.endings import ENDINGS, EndingKind, final_event
from little_loops.fsm.events import AgentWait, Entry, Event, HostWait, Iteration, LoopComplete
from little_loops.fsm.notices import (
    LONG_WAIT_MS,
    Due,
    channel_of,
    crash,
    document_of,
    due,
    filled_address,
    recipients,
    shown_address,
    text_of,
    wrong_address,
)
from little_loops.fsm.schema import OCCASIONS, FSMLoop, Notify, StateConfig
from little_loops.fsm.timestamps import Moment

NOW = 1_790_000_000_000
LOOP = FSMLoop("fix", "a", {"a": StateConfig(terminal=True)})


def entry(event: Event) -> Entry:
    return Entry(event, NOW, 0, "run-1", 7)


def of_ending(row: EndingKind) -> Due | None:
    run = new_run(LOOP, "run-1", Moment(0, NOW))
    ending = Ending(row.status, row.reason, row.event, row.exit_code, "secret output")
    return due("fix", entry(final_event(LOOP, run, ending, 0)), 0.0)


@pytest.mark.parametrize("row", ENDINGS.values(), ids=lambda row: f"{row.status} {row.reason}")
def test_every_ending_leads_to_one_notification_without_output(row):
    found = of_ending(row)
    assert found is not None
    assert found.at_ms == NOW
    waits = row.status in ("needs_review", "awaiting_continuation")
    expected = "completed" if row.status == "completed" else "waits" if waits else "failed"
    assert found.notice.occasion == expected
    assert "secret" not in repr(document_of(found.notice, NOW))


@pytest.mark.parametrize(
    ("event", "text", "after_ms"),
    [
        pytest.param(
            HostWait("a", "limit: secret", NOW + LONG_WAIT_MS + 1),
            "Loop fix waits: agent limit until 2026-09-21T14:23:20.001Z ($0.40)",
            0,
            id="a long wait",
        ),
        pytest.param(HostWait("a", "limit", NOW + LONG_WAIT_MS), None, 0, id="a short wait"),
        pytest.param(
            AgentWait("a", "launches", "30 an hour", NOW + 2 * LONG_WAIT_MS),
            "Loop fix waits: agent launches until 2026-09-21T14:33:20.000Z ($0.40)",
            0,
            id="a long wait for the next launch",
        ),
        pytest.param(
            AgentWait("a", "slot", "by other in shop"),
            "Loop fix waits: agent slot ($0.40)",
            LONG_WAIT_MS,
            id="a wait for others, when it has become long",
        ),
        pytest.param(Iteration(2), None, 0, id="anything else"),
    ],
)
def test_only_long_waits_are_worth_one(event, text, after_ms):
    found = due("fix", entry(event), 0.4)
    assert (None if found is None else text_of(found.notice)) == text
    assert found is None or found.at_ms - NOW == after_ms


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [
        ("completed", "terminal", "Loop fix completed ($0.00)"),
        ("failed", "max_iterations", "Loop fix failed: max iterations ($0.00)"),
        ("needs_review", "budget", "Loop fix waits: budget ($0.00)"),
        ("interrupted", "signal", "Loop fix interrupted: signal ($0.00)"),
    ],
)
def test_the_text(status, reason, text):
    found = of_ending(ENDINGS[status, reason])
    assert found is not None
    assert text_of(found.notice) == text


def test_a_crash_is_a_failure():
    notice = crash("fix", "run-1", 1.204)
    assert (notice.occasion, text_of(notice)) == ("failed", "Loop fix interrupted: crash ($1.20)")


def test_what_a_command_gets():
    found = due("fix", entry(LoopComplete("completed", "terminal", "a", 1, 5, cost_usd=0.4)), 0)
    assert found is not None
    until = found.notice._replace(until_ms=NOW)
    assert document_of(until, NOW)["until"] == "2026-09-21T14:13:20.000Z"
    assert document_of(found.notice, NOW) == {
        "occasion": "completed",
        "loop": "fix",
        "run": "run-1",
        "ending": "completed",
        "reason": "terminal",
        "cost_usd": 0.4,
        "until": None,
        "ts": "2026-09-21T14:13:20.000Z",
        "text": "Loop fix completed ($0.40)",
    }


@pytest.mark.parametrize(
    ("to", "channel", "shown"),
    [
        ("ntfy://ntfy.example.org/loops", "ntfy", "ntfy.example.org"),
        ("ntfy://me:pass@host:8080/loops?secure=false", "ntfy", "host:8080"),
        ("https://hooks.example.org/T0/B0/secret", "webhook", "hooks.example.org"),
        ("http://127.0.0.1:80", "webhook", "127.0.0.1:80"),
        (
            "https://hooks.example.org/${env.HOOK}",
            "webhook",
            "`https://hooks.example.org/${env.HOOK}`",
        ),
        (
            'notify-send ll-loop "$LL_NOTICE"\nexit 0',
            "command",
            '`notify-send ll-loop "$LL_NOTICE"`',
        ),
        ("echo ${HOME}", "command", "`echo ${HOME}`"),
        ("x" * 50, "command", f"`{'x' * 40}`"),
        ("${env.LL_NTFY:-}", "command", "`${env.LL_NTFY:-}`"),
    ],
)
def test_addresses_that_are_right(to, channel, shown):
    assert (wrong_address(to), channel_of(to), shown_address(to)) == (None, channel, shown)


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("ntfy://topic", "this address is not complete"),
        ("ntfy:///topic", "this address is not complete"),
        ("ntfy://server/a/b", "this address is not complete"),
        ("https://", "this address is not complete"),
        ("https://host/a b", "this address is not complete"),
        ("slack://team/channel", "notifications cannot be sent to `slack://`"),
        ("https://host/${context.x}/${loop.name}", "`${context.x}` is not filled in here"),
        ("https://host/${env.X", "`${env.X` has no closing brace"),
        ("https://host/${enf.X}", "unknown namespace `enf`"),
        ("./tell.sh ${env.X}", "`${env.X}` is not filled in here"),
    ],
)
def test_addresses_that_are_wrong(to, message):
    found = wrong_address(to)
    assert found is not None
    assert found[0] == message
    assert found[1]


@pytest.mark.parametrize(
    ("to", "help"),
    [
        ("https://host/${env.X", "close it with `}`, or write `$${` for a literal `${`"),
        ("https://host/${context.x}", "in an address, only `${env.NAME}` is filled in"),
        ("./tell.sh ${env.X}", "a command reads variables itself: `$X`"),
    ],
)
def test_how_a_wrong_address_is_corrected(to, help):
    assert (wrong_address(to) or ("", ""))[1] == help


@pytest.mark.parametrize(
    ("to", "environ", "filled"),
    [
        ("./tell.sh", {}, "./tell.sh"),
        ("${env.N}", {"N": " ntfy://host/topic\n"}, "ntfy://host/topic"),
        ("${env.N:-ntfy://host/other}", {}, "ntfy://host/other"),
        ("${env.N:-}", {}, ""),
        ("https://host/${env.N}/$${x}", {"N": "${env.M}"}, "https://host/${env.M}/${x}"),
    ],
)
def test_variables_are_filled_in_once(to, environ, filled):
    assert filled_address(to, environ) == filled


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "the variable N is not set"),
        ({"N": "rm -rf /"}, "`${env.N}` is not the address of an ntfy topic or a webhook"),
        ({"N": "ntfy://secret"}, "`${env.N}` is not the address of an ntfy topic or a webhook"),
    ],
)
def test_a_variable_is_an_address_and_never_a_command(environ, message):
    with pytest.raises(ValueError, match=r".") as refused:
        filled_address("${env.N}", environ)
    assert str(refused.value) == message


def test_a_recipient_is_notified_once_however_often_it_is_named():
    named = [Notify("a", ("waits",)), Notify("b", OCCASIONS), Notify("a", ("failed", "waits"))]
    assert recipients(named) == (Notify("a", ("waits", "failed")), Notify("b", OCCASIONS))


def test_recipients_are_written_and_read():
    loop = LOOP._replace(notify=(Notify("a"), Notify("b", ("waits",))))
    assert loop.to_dict()["notify"] == [{"to": "a"}, {"to": "b", "when": ["waits"]}]
    assert FSMLoop.from_dict(loop.to_dict()) == loop
