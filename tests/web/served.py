"""A real server on the loopback interface, and requests to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.project import DEADLINE_S, Project

JSON = "application/json"


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


class Served:
    """A server that runs; `ask` sends it a request as its own page would."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.base, _, self.token = url.partition("/#token=")
        self.host = self.base.removeprefix("http://")
        self.process = process

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Reply:
        """Send a request with exactly these headers."""
        connection = http.client.HTTPConnection(self.host, timeout=DEADLINE_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def headers(self, **more: str) -> dict[str, str]:
        return {"Host": self.host, "Authorization": f"Bearer {self.token}", **more}

    def get(self, path: str) -> Reply:
        return self.send("GET", path, self.headers())

    def post(self, path: str, body: Any = None) -> Reply:
        data = json.dumps({} if body is None else body).encode()
        return self.send("POST", path, self.headers(**{"Content-Type": JSON}), data)

    @contextmanager
    def stream(self, path: str) -> Iterator[Iterator[Any]]:
        """The items of a stream, as they come."""
        connection = http.client.HTTPConnection(self.host, timeout=DEADLINE_S)
        try:
            connection.request("GET", path, headers=self.headers())
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield (json.loads(line) for line in answer)
        finally:
            connection.close()


@contextmanager
def serving(project: Project, *words: str, **env: str) -> Iterator[Served]:
    """Start `ll-loop web`, and end it; its project's runs go on."""
    process = subprocess.Popen(
        project.argv("web", "--json", "--no-open", *words),
        cwd=project.root,
        env=project.environ(**env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield Served(json.loads(line)["url"], process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
