"""A web server on the loopback interface that takes notifications, and answers as it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import NamedTuple


class Received(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: str


class Listener:
    """What a server has received; `answer` gives the status of the n-th request, or None for none.

    It does not answer before `may_answer` is set.
    """

    def __init__(self, port: int, answer: Callable[[int], int | None]) -> None:
        self.port = port
        self.received: list[Received] = []
        self.may_answer = Event()
        self.may_answer.set()
        self._answer = answer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/services/T0/very-secret-path"

    @property
    def ntfy(self) -> str:
        return f"ntfy://127.0.0.1:{self.port}/very-secret-topic?secure=false"

    def take(self, received: Received) -> int | None:
        self.received.append(received)
        self.may_answer.wait(60)
        return self._answer(len(self.received))


@contextmanager
def listening(answer: Callable[[int], int | None] = lambda _: 200) -> Iterator[Listener]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status = listener.take(Received(self.path, dict(self.headers), body))
            if status is None:
                self.close_connection = True
                return
            self.send_response(status, "very-secret-path")
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener = Listener(server.server_port, answer)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        listener.may_answer.set()
        server.shutdown()
        server.server_close()
