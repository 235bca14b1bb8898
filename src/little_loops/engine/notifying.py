"""Notify people about a run: a process per recipient, which the run does not wait for.

Each notification gets `WITHIN_S` seconds. What happens is decided from events (`fsm.notices`), and
an event leads to a notification in the process that recorded it, so it is sent at most once.

Not here: the HTTP request (`send_notice`), crashes (`crash_reports`).
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from little_loops.engine.action_process import inherited
from little_loops.engine.beside import LAST_S, LOOK_EACH_S, SideCommand
from little_loops.engine.hooks import exit_problem
from little_loops.errors import LittleLoopsError, UsageError
from little_loops.fsm.events import Cost, Entry
from little_loops.fsm.notices import (
    Due,
    Notice,
    channel_of,
    document_of,
    due,
    filled_address,
    recipients,
    shown_address,
    text_of,
)
from little_loops.fsm.schema import FSMLoop, Notify
from little_loops.fsm.state import LoopState
from little_loops.light_typing import TYPE_CHECKING
from little_loops.records import NamedTuple
from little_loops.reporting.masking import Masker
from little_loops.reporting.observers import Observer
from little_loops.runs.config_files import NOTIFY, mentions, read_mapping, user_config
from little_loops.system.clock import wall_ms
from little_loops.system.files import to_json
from little_loops.system.stops import StopFlag

if TYPE_CHECKING:
    from little_loops.engine.local_world import Services

WITHIN_S = LAST_S
SHORT_S = 1.0
"""How long a run that has ended waits for notifications that are still being sent."""


class NoticeTarget(NamedTuple):
    """Who is notified: an address whose variables are filled in, or a command."""

    to: str
    when: tuple[str, ...]

    @property
    def label(self) -> str:
        return shown_address(self.to)


class Sending(NamedTuple):
    """A notification that is being sent."""

    target: NoticeTarget
    process: SideCommand


Report = Callable[[NoticeTarget, str], None]
"""Receives the outcome of a notification: why it was not sent, or an empty string if it was."""


class Senders:
    """The processes that send notifications, all at the same time."""

    def __init__(self, shell: str, cwd: str, environ: Mapping[str, str], report: Report) -> None:
        self._shell = shell
        self._cwd = cwd
        self._environ = environ
        self._report = report
        self._running: list[Sending] = []

    def start(self, notice: Notice, targets: Sequence[NoticeTarget]) -> None:
        """Start to send a notification to those who want it."""
        for target in targets:
            if notice.occasion in target.when:
                try:
                    self._running.append(Sending(target, self._start_process(notice, target.to)))
                except OSError as error:
                    self._report(target, error.strerror or str(error))

    def _start_process(self, notice: Notice, to: str) -> SideCommand:
        """Start the process that sends a notification to an address, or the command that gets it.
        Raises `OSError`."""
        if channel_of(to) == "command":
            argv = [self._shell, "-c", to]
            text = to_json(document_of(notice, wall_ms())) + b"\n"
            environ = {**self._environ, "LL_NOTICE": text_of(notice)}
        else:
            # -P: a module in the project directory must not be imported instead of ours.
            argv = [sys.executable, "-P", "-m", "little_loops.engine.send_notice"]
            text = to_json({"to": to, "text": text_of(notice)})
            environ = dict(self._environ)
        return SideCommand(argv, text, environ, self._cwd, notice.run, WITHIN_S)

    def look(self) -> bool:
        """Report those that have ended or take too long. Return whether any is left."""
        for each in tuple(self._running):
            target, process = each
            if (ended := process.exited()) is not None:
                self._running.remove(each)
                self._report(target, _problem(target, *ended))
            elif process.is_late:
                self._running.remove(each)
                process.end()
                self._report(target, _late())
        return bool(self._running)

    def finish(self, stop: StopFlag | None, within_s: float = WITHIN_S) -> None:
        """Wait until all have ended or their time is over; not after a second stop."""
        until = time.monotonic() + within_s
        while self.look() and time.monotonic() < until:
            if stop is not None and stop.is_urgent:
                return
            self._running[0].process.wait(LOOK_EACH_S)

    def end(self) -> None:
        """End those that are left, and report them."""
        for target, process in self._running:
            process.end()
            self._report(target, "stopped")
        self._running.clear()


def _late() -> str:
    return f"no answer within {WITHIN_S:.0f} s"


def _problem(target: NoticeTarget, code: int, last_line: str) -> str:
    """Return why a notification was not sent; empty if it was."""
    if code == 0 or channel_of(target.to) == "command":
        return exit_problem(code, -code if code < 0 else None, last_line)
    if code == -signal.SIGALRM:
        return _late()
    return last_line or f"exit {code}"


class Notifier(Observer):
    """Sends the notifications of one run."""

    def __init__(
        self,
        loop: str,
        spent_usd: float,
        targets: Sequence[NoticeTarget],
        senders: Senders,
        stop: StopFlag | None,
    ) -> None:
        """`spent_usd` is what the run has cost so far."""
        self._loop = loop
        self._spent_usd = spent_usd
        self._targets = targets
        self._senders = senders
        self._stop = stop
        self._later: Due | None = None

    def record(self, entry: Entry) -> None:
        """Start what is due for an event, which is on disk now."""
        if isinstance(entry.event, Cost):
            self._spent_usd += entry.event.cost_usd
        self._later = due(self._loop, entry, self._spent_usd)
        self.tick()

    def tick(self) -> float | None:
        """Send what is due by now. Return the seconds until the next look."""
        if self._later is not None and self._later.at_ms <= wall_ms():
            self._senders.start(self._later.notice, self._targets)
            self._later = None
        if self._senders.look():
            return LOOK_EACH_S
        return None if self._later is None else (self._later.at_ms - wall_ms()) / 1000

    def drain(self) -> None:
        """Wait shortly for what is being sent, and end the rest: the run ends, and no server may
        hold that up."""
        self._senders.finish(self._stop, SHORT_S)
        self._senders.end()

    def close(self) -> None:
        """Wait for what is being sent, as long as its time allows, and end the rest."""
        self._senders.finish(self._stop)
        self._senders.end()


def notifier_for(
    loop: FSMLoop, run: LoopState, cwd: str, services: Services, masker: Masker
) -> Notifier | None:
    """Return who sends the notifications of a run; None if nobody wants any. A recipient that
    cannot be notified is a warning now, and not when it is too late."""

    def warn(text: str) -> None:
        services.warn(f"warning: {masker.mask(text)}")

    def report(target: NoticeTarget, problem: str) -> None:
        if problem:
            warn(f"the notification to {target.label} was not sent: {problem}")

    environ = services.environ
    try:
        of_user = user_recipients(environ)
    except LittleLoopsError as error:
        of_user = ()
        warn(f"no one in your config file is notified: {error.message}")
    targets = targets_of((*of_user, *loop.notify), environ, warn)
    if not targets:
        return None
    # An address is a secret, also where it is not in a variable that is called one.
    addresses = [each.to for each in targets if channel_of(each.to) != "command"]
    secrets = {f"{number}_SECRET": to for number, to in enumerate(addresses)}
    masker.learn(secrets)
    for each in services.onlookers:
        each.learn(secrets)
    senders = Senders(loop.shell, cwd, inherited({**environ, "LL_LOOP": loop.name}), report)
    spent_usd = sum(receipt.cost_usd for receipt in run.costs.values())
    return Notifier(loop.name, spent_usd, targets, senders, services.stop)


def targets_of(
    notify: Sequence[Notify], environ: Mapping[str, str], warn: Callable[[str], None]
) -> tuple[NoticeTarget, ...]:
    """Return each recipient, with its variables filled in; `warn` about those that have none."""
    found = []
    for each in notify:
        try:
            found.append(Notify(filled_address(each.to, environ), each.when))
        except ValueError as problem:
            warn(f"`notify`: {problem}")
    return tuple(NoticeTarget(*each) for each in recipients(found) if each.to)


def user_recipients(environ: Mapping[str, str]) -> tuple[Notify, ...]:
    """Return whom the user's config file names. Raises `UsageError` or `DefinitionError`."""
    path = user_config(environ)
    return read_recipients(read_mapping(path), path) if mentions(path, NOTIFY) else ()


def read_recipients(settings: Mapping[str, object], path: str) -> tuple[Notify, ...]:
    """Return the recipients in the settings of a config file. Raises `UsageError`."""
    if NOTIFY not in settings:
        return ()
    from little_loops.authoring.load import load_data  # few users have set any

    frame = {"name": "settings", "initial": "a", "states": {"a": {"terminal": True}}}
    read = load_data({**frame, NOTIFY: settings[NOTIFY]}, "settings")
    if read.loop is None:
        raise UsageError(f"`{path}`: {read.problems[0].message}", read.problems[0].help)
    return read.loop.notify
