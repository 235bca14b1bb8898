"""Every wait of the engine has a deadline and hears a stop.

A child that never exits, the other end of a pipe, a lock somebody holds: whatever this program
waits for may never come.  So its source has no call that can wait for ever, but for those listed
here, each with the reason why that is right.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src"
SHORT_S = 1.0
"""A sleep of so long between two looks need not hear a stop."""

LISTED = {
    "cli/background.py main: read": "the process that starts it writes the request, and closes it",
    "cli/setup/demo.py _ll_loop: Popen": "the demo's own run; Ctrl-C ends it",
    "cli/setup/demo.py _ll_loop: wait": "the demo's own run; Ctrl-C ends it",
    "cli/setup/demo.py _end_child: wait": "it has been killed",
    "cli/setup/demo.py _let_read: readline": "a person reads; Ctrl-C ends it",
    "cli/setup/demo.py _let_read: sleep": "three seconds to read; Ctrl-C ends it",
    "cli/setup/doctor.py version_of: Popen": "`communicate` below it has a deadline",
    "cli/setup/init.py _ask: readline": "a question to a person; Ctrl-C ends it",
    "cli/setup/init.py _may_try: readline": "a question to a person; Ctrl-C ends it",
    "cli/until.py _proposed: readline": "a question to a person; Ctrl-C ends it",
    "spending/slots.py release: flock": "it unlocks, which does not wait",
    "cli/consent.py _ask: readline": "a question to a person; Ctrl-C ends it",
    "cli/run.py ask_to_resume: readline": "a question to a person; Ctrl-C ends it",
    "cli/stop_hook.py _read_request: read": "Claude Code gives its hooks a time, and ends them",
    "cli/relay.py main: sleep": "a verb of version one: an action, which ends with a stop",
    "engine/handoff_handler.py start_claude: Popen": "detached: nobody waits for it",
    "engine/spawn_session.py _start: Popen": "detached: nobody waits for it",
    "engine/child_run.py _stop_when_alone: sleep": "a thread that only ends its own process",
    "engine/children.py _fork: fork": "the parent polls its pipe, with a deadline and a stop",
    "engine/children.py _reap: waitpid": "its end of the pipe is closed: it is exiting",
    "engine/beside.py __init__: Popen": "it has a time, and the run ends it",
    "engine/beside.py exited: poll": "of a process: it asks, and does not wait",
    "engine/crash_reports.py report_crash: Popen": "detached: nobody waits for it",
    "sharing/exporting.py _write: open": "it makes a new file",
    "system/lock_files.py lock_within: sleep": "at most 20 ms",
    "engine/judging.py _fork: fork": "the parent reads until a deadline, then kills it",
    "engine/judging.py _reap: waitpid": "it has ended or was killed",
    "engine/judging.py _address_space: open": "a file of the kernel's",
    "cli/setup/checkup.py _kind_of_disk: open": "a file of the kernel's",
    "relay/call.py pause: sleep": "only where nobody can ask for a stop",
    "system/detached.py launch: Popen": "it says that it is ready, or ends; Ctrl-C ends it",
    "system/lock_files.py _take_guard: sleep": "at most 20 ms",
    "system/process_table.py _read: open": "a file of the kernel's",
    "system/process_tree.py reap: waitpid": "it has ended",
    "system/starting.py _spawn: posix_spawn": "`process` waits for it, with a deadline and a stop",
    "system/starting.py _popen: Popen": "`process` waits for it, with a deadline and a stop",
    "system/waiting.py wait_until: sleep": "only where nobody can ask for a stop",
    "fleet/channel.py receive: get": "a seat waits for its worker; `None` says that it is gone",
    "fleet/mirror.py _log: open": "a file of this process, in a new directory",
    "fleet/mirror.py hold: open": "a file of this process, in a new directory",
    "fleet/runtime.py _resume: result": "of a workflow: `_call` around it has a time",
    "fleet/runtime.py close: join": "its loop has been told to end",
    "fleet/seat.py _end_alone: sleep": "a thread that only ends its own process",
    "fleet/snapshots.py adopt: open": "a file that the worker wrote into its own directory",
    "fleet/worker.py : wait": "until somebody ends the worker; a seat ends when its input does",
    "fleet/workflow.py : result": "of a task that has ended",
    "fleet/workspace.py _clone: open": "a file that git wrote into a new clone",
    "fleet/workspace.py _keep_note: open": "a file in the worker's own directory",
    "web/commands.py queue_command: Popen": "it has a time, unless its run is queued: then nobody waits for it",
    "web/server.py : wait": "until somebody ends the server",
    "web/static_files.py _read: open": "a file of this package",
    "web/stream.py : wait": "`asyncio.wait` around it has a time, and the end of the server ends it",
    "terminal/pager.py paged: Popen": "a person reads, and ends it",
    "terminal/pager.py _wait: wait": "a person reads, and ends it",
}

CALM_FLAGS = ("O_NONBLOCK", "O_EXCL", "O_DIRECTORY")


class Call(NamedTuple):
    """A call as it is written, and the names of its module."""

    node: ast.Call
    names: Mapping[str, Any]

    def has(self, text: str) -> bool:
        return text in ast.unparse(self.node)

    def argument(self, number: int) -> str:
        given = [*self.node.args, *(each.value for each in self.node.keywords)]
        return ast.unparse(given[number]) if number < len(given) else ""


def always(call: Call) -> bool:
    return True


def never(call: Call) -> bool:
    return False


def without(*words: str) -> Callable[[Call], bool]:
    return lambda call: not any(map(call.has, words))


def without_time(call: Call) -> bool:
    return call.argument(0) in ("", "None")


def opens_path(call: Call) -> bool:
    """`open` of a descriptor does not wait, nor of the null device, nor making a new file."""
    path = call.node.args[0]
    is_open = isinstance(path, ast.Call) or ast.unparse(path) in ("descriptor", "fd")
    return not (is_open or call.argument(0) == "os.devnull" or call.argument(1) in ("'x'", "'xb'"))


def opens_without_calm_flags(call: Call) -> bool:
    if call.argument(0) == "os.devnull" or any(map(call.has, CALM_FLAGS)):
        return False
    named = [each.id for each in ast.walk(call.node.args[1]) if isinstance(each, ast.Name)]
    flags = [call.names.get(name) for name in named]
    calm = [getattr(os, flag) for flag in CALM_FLAGS]
    return not any(each & flag for each in flags if isinstance(each, int) for flag in calm)


def sleeps_long(call: Call) -> bool:
    seconds = call.node.args[0]
    value = seconds.value if isinstance(seconds, ast.Constant) else call.names.get(call.argument(0))
    return not isinstance(value, int | float) or value > SHORT_S


RULES: Mapping[str, Callable[[Call], bool]] = {
    "open": opens_path,
    "os.open": opens_without_calm_flags,
    **dict.fromkeys(["*.read_text", "*.read_bytes", "*.write_text", "*.write_bytes"], always),
    **dict.fromkeys(["os.system", "os.popen", "os.wait", "input"], always),
    **dict.fromkeys(["os.fork", "os.forkpty", "os.posix_spawn", "os.posix_spawnp"], always),
    **dict.fromkeys(["Popen", "subprocess.Popen"], always),
    **dict.fromkeys(["subprocess.run", "subprocess.call"], without("timeout=")),
    **dict.fromkeys(["subprocess.check_call", "subprocess.check_output"], without("timeout=")),
    **dict.fromkeys(["flock", "lockf", "*.flock", "*.lockf"], without("LOCK_NB")),
    **dict.fromkeys(["os.waitpid", "os.waitid", "os.wait3", "os.wait4"], without("WNOHANG")),
    **dict.fromkeys(["*.wait", "*.communicate", "*.join", "*.acquire"], without_time),
    **dict.fromkeys(["*.poll", "*.get", "*.result"], without_time),
    "select.poll": never,  # makes one, and does not wait for it
    "select.select": lambda call: not call.argument(3),
    **dict.fromkeys(["sleep", "time.sleep"], sleeps_long),
    **dict.fromkeys(["sys.stdin.read", "sys.stdin.readline", "sys.stdin.readlines"], always),
}
"""What may wait for ever, by the call: `*.` stands for whatever it is called on."""


def waits(tree: ast.AST, names: Mapping[str, Any]) -> Iterator[str]:
    """Each call that may wait for ever, as `function: call`; `names` are those of its module."""
    for function, node in calls(tree, ""):
        called = ast.unparse(node.func)
        word = called.rpartition(".")[2]
        rule = RULES.get(called) or RULES.get(f"*.{word}" if "." in called else "") or never
        if rule(Call(node, names)):
            yield f"{function}: {word}"


def calls(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef) else function
        if isinstance(child, ast.Call):
            yield inside, child
        yield from calls(child, inside)


def test_no_call_waits_for_ever_but_for_those_listed():
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE / "little_loops").as_posix()
        module = import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
        tree = ast.parse(path.read_text())
        found |= {f"{file} {wait}" for wait in waits(tree, vars(module))}
    assert sorted(found - LISTED.keys()) == []
    assert sorted(LISTED.keys() - found) == []


NAMES = {"CALM": 0o4000, "PLAIN": 0, "POLL_S": 0.1, "DAY_S": 86_400}

NEVER_ENDING = (
    *(
        "open(path)",
        "open(path, 'wb')",
        "open('/x', encoding='utf-8')",
        "os.open(path, os.O_RDONLY)",
    ),
    *("os.open(path, PLAIN)", "os.open(path, flags)", "path.read_text()", "path.write_bytes(b'')"),
    *("subprocess.run(argv)", "subprocess.check_output(argv)", "subprocess.Popen(argv)"),
    *("os.system('x')", "os.fork()", "os.posix_spawn('x', [], {})", "os.wait()"),
    *("os.waitpid(1, 0)", "flock(fd, LOCK_EX)", "fcntl.lockf(fd, LOCK_EX)"),
    *("child.wait()", "child.communicate()", "thread.join()", "lock.acquire()", "queue.get()"),
    *("poll.poll()", "poll.poll(None)", "stop.wait(None)", "select.select(a, b, c)"),
    *("sys.stdin.readline()", "input()", "time.sleep(DAY_S)", "time.sleep(left_s)"),
)
BOUNDED = (
    *("open(os.open(path, CALM))", "open(descriptor, 'rb')", "open(path, 'x')"),
    *("open(os.devnull)", "os.open(os.devnull, PLAIN)", "os.open(path, CALM | PLAIN)"),
    *("os.open(path, os.O_WRONLY | os.O_EXCL)", "folder.open('x', 0)", "stream.read()"),
    *("subprocess.run(argv, timeout=5)", "flock(fd, LOCK_EX | LOCK_NB)", "run(argv)"),
    *("os.waitpid(1, os.WNOHANG)", "child.wait(5)", "child.communicate(timeout=5)"),
    *("','.join(words)", "poll.poll(100)", "stop.wait(left_s)", "select.select(a, b, c, 1)"),
    *("time.sleep(POLL_S)", "time.sleep(0.1)", "names.get('x')"),
)


@pytest.mark.parametrize(
    ("call", "may_wait"),
    [(each, True) for each in NEVER_ENDING] + [(each, False) for each in BOUNDED],
)
def test_a_call_that_may_wait_for_ever_is_found(call, may_wait):
    assert bool([*waits(ast.parse(call), NAMES)]) == may_wait
