"""Who may ask the server: every route against everything that is refused."""

from __future__ import annotations

import json

import pytest

from little_loops.web.routes import api_routes
from little_loops.web.security import Asked, Policy, content_policy, refusal
from little_loops.web.site import Site
from tests.project import Project
from tests.web.served import JSON, Served, serving

LOOP = """\
    name: quick
    initial: work
    states:
      work: {action: "echo '<b>hi</b>' \\"$API_TOKEN\\"", on_pass: done, on_fail: done}
      done: {terminal: true}
    """
READ = (
    "/api/server",
    "/api/loops",
    "/api/loops/quick.yaml",
    "/api/loops/quick.yaml/charts",
    "/api/loops/quick.yaml/source",
    "/api/fields",
    "/api/templates",
    "/api/runs",
    "/api/runs/quick",
    "/api/runs/quick/children",
    "/api/runs/quick/machine",
    "/api/runs/quick/timeline",
    "/api/runs/quick/steps",
    "/api/runs/quick/steps/1",
    "/api/runs/quick/steps/1/output",
    "/api/runs/quick/steps/1/search?text=hi",
    "/api/runs/quick/charts",
    "/api/runs/quick/events",
    "/api/runs/quick/report?format=markdown",
)
REFUSED = ("/api/runs/quick/diff", "/api/runs/quick/steps/1/diff", "/api/runs/quick/receipt")
STREAMS = ("/api/stream", "/api/runs/quick/stream")
CHANGES = (
    "/api/loops/quick.yaml/run",
    *(f"/api/runs/quick/{verb}" for verb in ("run", "stop", "resume", "approve", "reject")),
    *(f"/api/runs/quick/{verb}" for verb in ("tell", "fork", "undo")),
)
EDITS = (
    ("POST", "/api/loops"),
    ("POST", "/api/loops/quick.yaml/preview"),
    ("POST", "/api/loops/quick.yaml/convert"),
    ("PUT", "/api/loops/quick.yaml/source"),
)
EVERY = [
    *(("GET", path) for path in (*READ, *REFUSED, *STREAMS)),
    *(("POST", path) for path in CHANGES),
    *EDITS,
]
CANARY = "s3cr3t-canary-0123456789"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = Project(tmp_path_factory.mktemp("web"))
    made.loop("quick", LOOP)
    made.ll("run", "quick", env={"API_TOKEN": CANARY})
    yield made
    made.end_actions()


@pytest.fixture(scope="module")
def server(project):
    with serving(project, API_TOKEN=CANARY) as served:
        yield served


@pytest.fixture(scope="module")
def read_only(project):
    with serving(project, "--read-only") as served:
        yield served


@pytest.fixture(scope="module")
def editor(project):
    with serving(project, "--edit") as served:
        yield served


def sent(server: Served, method: str, path: str, **changed: str | None):
    """Send a request that is right but for some headers; None leaves one out."""
    headers = server.headers(**({} if method == "GET" else {"Content-Type": JSON}))
    headers |= {name.replace("_", "-"): text for name, text in changed.items() if text is not None}
    for name in [name for name, text in changed.items() if text is None]:
        headers.pop(name.replace("_", "-"))
    return server.send(method, path, headers, None if method == "GET" else b"{}")


WRONG = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None)


def refusals(server: Served, method: str, path: str) -> list[int]:
    """How a route answers requests of strangers."""
    return [
        sent(server, method, path, **wrong).status
        for wrong in (
            {"Authorization": None},
            {"Authorization": "Bearer wrong"},
            {"Authorization": f"Basic {server.token}"},
            {"Host": "evil.example"},
            {"Host": "127.0.0.1.evil.example"},
            {"Host": None},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": f"https://{server.host}"},
        )
    ]


@pytest.mark.parametrize(("method", "path"), EVERY)
def test_a_route_refuses_strangers(server, method, path):
    assert refusals(server, method, path) == [401, 401, 401, 421, 421, 400, 403, 403, 403]


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_is_refused_by_form_and_by_policy(server, read_only, path):
    assert [sent(server, "POST", path, Content_Type=kind).status for kind in WRONG] == [415] * 4
    reply = sent(read_only, "POST", path)
    assert (reply.status, reply.code) == (403, "read_only")


@pytest.mark.parametrize(("method", "path"), EDITS)
def test_an_edit_is_refused_by_form_and_by_policy(project, server, read_only, editor, method, path):
    before = loop_files(project)
    assert refusals(editor, method, path) == [401, 401, 401, 421, 421, 400, 403, 403, 403]
    assert [sent(editor, method, path, Content_Type=kind).status for kind in WRONG] == [415] * 4
    for other, code in ((server, "not_editable"), (read_only, "read_only")):
        reply = sent(other, method, path)
        assert (reply.status, reply.code) == (403, code)
    assert loop_files(project) == before


def loop_files(project: Project) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (project.root / ".loops").glob("*.yaml")}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("PUT", "quick.yaml/source", {}, 400, "bad_request"),
        ("PUT", "quick.yaml/source", {"text": 1}, 400, "bad_request"),
        ("PUT", "quick.yaml/source", {"text": "name: x"}, 409, "changed"),
        ("PUT", "quick.yaml/source", {"text": "name: x", "hash": "0" * 64}, 409, "changed"),
        ("PUT", "new.yaml/source", {"text": "name: new"}, 404, "unknown_loop"),
        ("PUT", "..%2fnew.yaml/source", {"text": "name: new"}, 404, "unknown_route"),
        ("PUT", "%2e%2e/source", {"text": "name: new"}, 404, "unknown_loop"),
        ("PUT", "--json/source", {"text": "name: new"}, 404, "unknown_loop"),
        ("POST", "quick.yaml/source", {"text": "name: x"}, 405, "wrong_method"),
        ("POST", "quick.yaml/preview", {"text": None}, 400, "bad_request"),
        ("POST", "quick.yaml/preview", {"text": "", "operations": 1}, 400, "bad_request"),
        ("POST", "new.yaml/preview", {"text": ""}, 404, "unknown_loop"),
        ("POST", "new.yaml/convert", {}, 404, "unknown_loop"),
        ("POST", "..%2fquick.yaml/convert", {}, 404, "unknown_route"),
    ],
)
def test_a_wrong_edit_changes_no_file(project, editor, method, path, body, status, code):
    before = loop_files(project)
    headers = editor.headers(**{"Content-Type": JSON})
    reply = editor.send(method, f"/api/loops/{path}", headers, json.dumps(body).encode())
    assert (reply.status, reply.code) == (status, code)
    assert loop_files(project) == before


def test_every_route_is_in_the_tables_above(project):
    """A new route has to be added to the tables, and so is tested."""
    site = Site([str(project.root)], Policy("token"), {})
    listed = [(method, path.partition("?")[0]) for method, path in EVERY]
    missing = [
        (method, each.path)
        for each in api_routes(site)
        for method in sorted((each.methods or set()) - {"HEAD"})
        if not any(method == known and each.path_regex.match(path) for known, path in listed)
    ]
    assert missing == []


def test_the_source_of_a_loop_is_served_as_it_is_written(project, server):
    """Not masked: an edit would write the mask into the file."""
    path = project.loop("noted", LOOP.replace("quick", "noted") + f"# {CANARY}\n")
    try:
        reply = server.get("/api/loops/noted.yaml/source")
        assert reply.json["text"] == path.read_text()
        assert CANARY in reply.json["text"]
    finally:
        path.unlink()


def test_loop_files_change_only_with_edit(server):
    reply = server.post("/api/loops", {"template": "empty"})
    assert (reply.status, reply.json["error"]) == (
        403,
        {
            "code": "not_editable",
            "message": "loop files cannot be changed here",
            "help": "start `ll-loop web --edit`",
        },
    )


@pytest.mark.parametrize("path", READ)
def test_a_route_answers_its_own_page(server, read_only, path):
    reply = server.get(path)
    assert reply.status == 200, reply.body
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert not {name for name in reply.headers if name.startswith("access-control")}
    assert "set-cookie" not in reply.headers
    assert CANARY.encode() not in reply.body
    assert sent(server, "GET", path, Origin=server.base).status == 200
    assert read_only.get(path).status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/runs/nope", 404),
        ("/api/runs/quick~2020-01-01T00-00-00", 404),
        ("/api/runs/quick,nope", 404),
        ("/api/runs/..%2f..%2fetc%2fpasswd", 404),
        ("/api/runs/..", 404),
        ("/api/runs/%00", 404),
        ("/api/runs/quick%0a", 404),
        ("/api/runs/other:quick", 404),
        ("/api/runs/" + "a" * 5000, 404),
        ("/api/loops/nope.yaml", 404),
        ("/api/loops/..%2fquick.yaml", 404),
        ("/api/loops/.running", 404),
        ("/api/loops/%2fetc%2fpasswd", 404),
        ("/api/runs/quick/steps/99", 404),
        ("/api/runs/quick/steps/-1", 404),
        ("/api/runs/quick/steps/1/output?attempt=9", 404),
        ("/api/runs/quick/steps/1/output?offset=x", 400),
        ("/api/runs/quick/steps/1/output?stream=../x", 400),
        ("/api/runs?status=nope", 400),
        ("/api/runs?day=yesterday", 400),
        ("/api/runs/quick/report?format=exe", 400),
        ("/api/nope", 404),
        ("/assets/..%2fsite.py", 404),
        ("/assets/../site.py", 404),
        ("/assets/index.html", 404),
        ("/etc/passwd", 404),
    ],
)
def test_a_path_never_reaches_the_file_system(server, path, status):
    assert server.get(path).status == status


def test_the_page_is_public_and_may_load_nothing_from_elsewhere(server):
    reply = server.send("GET", "/", {"Host": server.host})
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = reply.headers["content-security-policy"]
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert policy == content_policy(nonce)
    assert len(nonce) >= 16
    assert server.token.encode() not in reply.body
    again = server.send("GET", "/", {"Host": "localhost:80"})
    assert nonce not in again.headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:80", "127.0.0.1:65535", "[::1]", "[::1]:8080"]
)
def test_it_answers_to_each_name_of_this_computer(server, host):
    assert server.send("GET", "/", {"Host": host}).status == 200


def test_output_is_text_and_masked(server):
    reply = server.get("/api/runs/quick/steps/1/output")
    assert reply.headers["content-type"] == JSON
    assert reply.json["text"] == "<b>hi</b> ***\n"
    assert server.get(f"/api/runs/quick/steps/1/search?text={CANARY}").json["hits"] == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"not json", 400, "bad_request"),
        (b"[]", 400, "bad_request"),
        (b'{"nope": 1}', 400, "bad_request"),
        (b'{"max_iterations": "3"}', 400, "bad_request"),
        (b'{"max_iterations": true}', 400, "bad_request"),
        (b'{"context": {"a": 1}}', 400, "bad_request"),
        (b'{"id": "a\\u0000b"}', 400, "bad_request"),
        (b'{"context": {"nope": "--fresh"}}', 409, "refused"),
    ],
)
def test_a_wrong_body_is_refused(server, body, status, code):
    headers = server.headers(**{"Content-Type": JSON})
    reply = server.send("POST", "/api/loops/quick.yaml/run", headers, body)
    assert (reply.status, reply.code) == (status, code)


def test_too_large_a_body_is_refused_unread():
    asked = Asked(
        "POST",
        "/api/runs/quick/stop",
        {
            "host": "localhost",
            "authorization": "Bearer t",
            "content-type": JSON,
            "content-length": "5000000",
        },
    )
    found = refusal(Policy("t"), asked)
    assert found is not None
    assert (found.status, found.code) == (413, "too_large")
