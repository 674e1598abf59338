"""Access control: token, host, origin, and the size of requests."""

import time

import pytest
from fastapi.testclient import TestClient
from photos.library_support import make_images, make_model

from diverset.errors import OptionError
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.serve.app import create_app
from diverset.photos.serve.guard import check_binding
from diverset.photos.serve.limits import Limits

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
LOCALHOST, TOKEN = "http://localhost:8000", "a-token-of-32-characters-or-so"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    base = tmp_path_factory.mktemp("guarded")
    with Library.open_or_create(base / "library", make_model(base / "model")) as opened:
        index_folders(opened, [make_images(base / "photos", 3)])
        yield opened


@pytest.fixture(scope="module")
def client(library):
    return TestClient(create_app(library, limits=Limits(bytes=200_000)), base_url=LOCALHOST)


@pytest.fixture
def elsewhere(library):
    """A client on another machine, of a server with a token."""
    return TestClient(create_app(library, token=TOKEN), base_url="http://photos.example")


def test_requests_without_the_token_are_rejected(elsewhere):
    assert elsewhere.get("/status").status_code == 401
    assert elsewhere.get("/").status_code == 401
    assert elsewhere.get("/?token=wrong", follow_redirects=False).status_code == 401
    assert elsewhere.get("/health").status_code == 200
    for wrong in (b"Bearer \xe9", b"Bearer ", b"", TOKEN[:-1].encode()):
        assert elsewhere.get("/status", headers={"Authorization": wrong}).status_code == 401
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert elsewhere.get("/status", headers=right).status_code == 200


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
def test_the_scheme_of_the_header_is_bearer_in_any_case(elsewhere, scheme):
    """RFC 6750; a token without a scheme, or of another one, is none."""
    assert elsewhere.get("/status", headers={"Authorization": f"{scheme} {TOKEN}"}).is_success
    for wrong in (TOKEN, f"Token {TOKEN}", f"{scheme.strip()}{TOKEN}", f"{scheme} {TOKEN} x"):
        response = elsewhere.get("/status", headers={"Authorization": wrong})
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == 'Bearer realm="diverset"'
    response = elsewhere.get("/status", headers={"Authorization": f"{scheme} wrong"})
    assert 'error="invalid_token"' in response.headers["www-authenticate"]


def session_cookie(client) -> str:
    response = client.get(f"/?token={TOKEN}", follow_redirects=False)
    assert response.status_code == 303 and response.headers["location"] == "/"
    return response.headers["set-cookie"]


def test_a_link_with_the_token_gives_a_cookie_that_is_not_the_token(elsewhere):
    cookie = session_cookie(elsewhere)
    flags = {flag.strip().lower() for flag in cookie.split(";")}
    assert {"httponly", "samesite=strict", "path=/", "max-age=604800"} <= flags
    assert TOKEN not in cookie and "secure" not in flags
    assert cookie.startswith("diverset_session_80=")  # browsers send cookies to every port
    assert elsewhere.get("/status").status_code == 200  # the cookie is kept


def test_the_cookie_is_only_sent_over_tls_where_there_is_tls(library):
    client = TestClient(create_app(library, token=TOKEN), base_url="https://photos.example")
    assert "secure" in session_cookie(client).lower()


def test_forged_and_outdated_cookies_are_rejected(elsewhere, library, monkeypatch):
    cookie = session_cookie(elsewhere).partition(";")[0]
    elsewhere.cookies.clear()
    name, _, value = cookie.partition("=")
    until, _, signature = value.partition(".")
    longer = f"{int(until) + 1}.{signature}"
    for wrong in (TOKEN, "", "1", f"{until}.", f".{signature}", longer, value[:-1], "9" * 400):
        headers = {"Cookie": f"{name}={wrong}"}
        assert elsewhere.get("/status", headers=headers).status_code == 401
    other = TestClient(create_app(library, token=TOKEN), base_url="http://photos.example")
    assert other.get("/status", headers={"Cookie": cookie}).status_code == 401  # another start
    assert elsewhere.get("/status", headers={"Cookie": cookie}).status_code == 200
    later = time.time() + 8 * 24 * 3600
    monkeypatch.setattr("diverset.photos.serve.session.time.time", lambda: later)
    assert elsewhere.get("/status", headers={"Cookie": cookie}).status_code == 401


@pytest.mark.parametrize("other", ['foo={"a":1}', "a b=c", "x[]=1", "\x01=1", "expires=1", "path"])
def test_malformed_cookies_do_not_hide_the_session(elsewhere, other):
    session = session_cookie(elsewhere).partition(";")[0]
    elsewhere.cookies.clear()
    for cookie in (f"{other}; {session}", f"{session}; {other}"):
        assert elsewhere.get("/status", headers={"Cookie": cookie}).status_code == 200
    wrong = f"{other}; {session[:-1]}"
    assert elsewhere.get("/status", headers={"Cookie": wrong}).status_code == 401


def test_an_address_with_many_wrong_tokens_is_blocked_for_a_minute(elsewhere):
    session = session_cookie(elsewhere).partition(";")[0]
    elsewhere.cookies.clear()
    wrong, right = {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {TOKEN}"}
    statuses = [elsewhere.get("/status", headers=wrong).status_code for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    response = elsewhere.get("/status", headers=right)  # or the limit would not slow down guesses
    assert response.status_code == 429 and response.headers["retry-after"] == "60"
    assert elsewhere.get("/status").status_code == 401  # no token, so none that is wrong
    assert elsewhere.get("/status", headers={"Cookie": session}).status_code == 200
    far = TestClient(elsewhere.app, base_url="http://photos.example", client=("192.0.2.7", 1))
    assert far.get("/status", headers=right).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]", "[::1]:8"])
def test_loopback_hosts_are_accepted(client, host):
    assert client.get("/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "[::1]evil.example", "[::1].evil.example:80", "localhost.evil.example", "",
     "localhost:80@evil.example", "127.0.0.1:x", "[evil.example]", "192.168.1.2", "localhost:1:2"],
)  # fmt: skip
def test_other_hosts_are_rejected(client, host):
    assert client.get("/status", headers={"Host": host}).status_code == 403


CROSS, NEAR = {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}
LINK = {"Sec-Fetch-Mode": "navigate"}


@pytest.mark.parametrize(
    "headers",
    [CROSS, NEAR, {**CROSS, **LINK}, {"Origin": "https://evil.example"}, {"Origin": "null"},
     {"Origin": "http://localhost:3000"}, {"Origin": "http://localhost:8000.evil.example"},
     {"Origin": ""}, {**CROSS, "Origin": LOCALHOST}],
)  # fmt: skip
def test_requests_of_other_sites_are_rejected(client, elsewhere, headers):
    right = {"Authorization": f"Bearer {TOKEN}"}
    for sender, extra in ((client, {}), (elsewhere, right)):
        for path in ("/status", "/items", "/static/page.js", "/openapi.json"):
            assert sender.get(path, headers={**headers, **extra}).status_code == 403
        for path in ("/", "/search", "/similar"):
            assert sender.post(path, json={}, headers={**headers, **extra}).status_code == 403


def test_requests_of_the_own_page_and_links_to_it_are_accepted(client, elsewhere):
    own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert client.get("/status", headers=own).status_code == 200
    response = client.post("/search", json={"text": "snow"}, headers={**own, "Origin": LOCALHOST})
    assert response.status_code == 200
    for site in (CROSS, NEAR, {"Sec-Fetch-Site": "none"}):
        assert client.get("/", headers={**site, **LINK}).status_code == 200
    response = elsewhere.get(f"/?token={TOKEN}", headers={**CROSS, **LINK}, follow_redirects=False)
    assert response.status_code == 303


def test_only_uploaded_images_may_be_large(client, caplog):
    started = time.monotonic()
    large = b'{"text": "' + bytes(2**21) + b'"}'
    for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain"):
        response = client.post("/search", content=large, headers={"Content-Type": kind})
        assert response.status_code == 413
    assert client.post("/similar", content=large, headers=JSON).status_code == 413
    parts = (b"x" * 50_000 for _ in range(40))
    assert client.post("/search", content=parts, headers=JSON).status_code == 413
    assert time.monotonic() - started < 2
    assert "rejected: more than 65536 bytes" in caplog.text
    files = {"image": ("p.png", bytes(150_000))}
    assert client.post("/similar", files=files).status_code == 422  # read, but not an image
    files = {"image": ("p.png", bytes(300_000))}
    assert client.post("/similar", files=files).status_code == 413


def test_limits_apply_to_requests_with_the_token_as_well(elsewhere):
    headers = {"Authorization": f"Bearer {TOKEN}", **JSON}
    assert elsewhere.post("/search", content=bytes(2**21), headers=headers).status_code == 413


def test_servers_on_other_interfaces_need_a_token():
    check_binding("127.0.0.1", None)
    check_binding("0.0.0.0", TOKEN)
    for host, token in (("0.0.0.0", None), ("192.168.1.2", "short"), ("127.0.0.1", "a b" * 9)):
        with pytest.raises(OptionError, match="token"):
            check_binding(host, token)
