import io
import json
import logging

import pytest
from fastapi.testclient import TestClient
from photos.serve.server_support import LOCALHOST, png, upload

from diverset.photos.serve import logs
from diverset.photos.serve.app import create_app

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def lines(monkeypatch):
    """The log of the server as `log_to_stderr` writes it."""
    stream = io.StringIO()
    logger = logging.getLogger("diverset.photos.serve")
    monkeypatch.setattr(
        logging, "basicConfig", lambda level, handlers: logger.addHandler(*handlers)
    )
    monkeypatch.setattr("sys.stderr", stream)
    logs.log_to_stderr()
    handler = logger.handlers[-1]
    yield lambda: stream.getvalue().splitlines()
    logger.removeHandler(handler)


def test_a_cause_is_logged_once_per_minute_with_the_number_of_the_others(lines, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("diverset.photos.serve.logs.time.monotonic", lambda: now)
    log = logging.getLogger("diverset.photos.serve")
    for number in range(5000):
        log.warning("rejected: host %r", f"evil-{number}.example")
    log.warning("another cause")
    assert len(lines()) == 2 and "evil-0.example" in lines()[0]
    now += 61
    log.warning("rejected: host %r", "last.example")
    assert lines()[2].endswith("rejected: host 'last.example' (and 4,999 more)")


def test_control_characters_in_the_log_are_escaped(lines):
    logging.getLogger("diverset.photos.serve").warning("a name: %s", "x\x1b[2J\nWARNING forged")
    assert lines()[0].endswith(r"a name: x\x1b[2J\nWARNING forged")


def test_an_unavailable_library_is_logged_once(lines, library, monkeypatch):
    app = create_app(library)
    app.state.diverset.outdated = True
    client = TestClient(app, base_url=LOCALHOST)
    for _ in range(50):
        assert client.get("/status").status_code == 503
    assert len(lines()) == 1 and "restart diverset serve" in lines()[0]


@pytest.mark.parametrize("queries", [False, True])
def test_the_access_log_has_one_line_per_request(library, tmp_path, queries):
    app = create_app(library, token="a-token-of-32-characters-or-so")
    app.add_middleware(logs.AccessLog, queries=queries)
    logs.open_access_log(str(tmp_path / "requests.log"))
    try:
        client = TestClient(app, base_url=LOCALHOST)
        client.get("/?token=a-token-of-32-characters-or-so&x=1")
        client.post("/search", json={"text": "my secret search"})
        client.get("/similar", params={"id": "/home/me/private.jpg"})
        upload(client, png())
    finally:
        logs.access.handlers.pop().close()
    text = (tmp_path / "requests.log").read_text()
    requests = [json.loads(line) for line in text.splitlines()]
    assert [(request["method"], request["path"], request["status"]) for request in requests] == [
        ("GET", "/", 303),
        ("GET", "/", 200),
        ("POST", "/search", 200),
        ("GET", "/similar", 404),
        ("POST", "/similar", 200),
    ]
    assert all(request["milliseconds"] >= 0 and "client" in request for request in requests)
    assert ("my secret search" in text) == ("private.jpg" in text) == queries
    assert "a-token-of" not in text and "PNG" not in text
