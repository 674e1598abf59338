"""Who may ask, through what, and how much they may send."""

import time

import pytest
from fastapi.testclient import TestClient
from library.making import make_model, make_pictures

from diverset.errors import OptionError
from diverset.library.indexing import index_folders
from diverset.library.library import Library
from diverset.serve.app import create_app
from diverset.serve.guard import Limits, check_binding

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
HERE, TOKEN = "http://localhost:8000", "a-token-of-32-characters-or-so"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    base = tmp_path_factory.mktemp("guarded")
    with Library.prepare(base / "library", make_model(base / "model")) as opened:
        index_folders(opened, [make_pictures(base / "photos", 3)])
        yield opened


@pytest.fixture(scope="module")
def client(library):
    return TestClient(create_app(library, limits=Limits(bytes=200_000)), base_url=HERE)


@pytest.fixture
def elsewhere(library):
    """As other machines see a server with a token."""
    return TestClient(create_app(library, token=TOKEN), base_url="http://photos.example")


def test_strangers_are_refused(elsewhere):
    assert elsewhere.get("/status").status_code == 401
    assert elsewhere.get("/").status_code == 401
    assert elsewhere.get("/?token=wrong", follow_redirects=False).status_code == 401
    assert elsewhere.get("/health").status_code == 200
    for wrong in (b"Bearer \xe9", b"Bearer ", b"", TOKEN[:-1].encode()):
        assert elsewhere.get("/status", headers={"Authorization": wrong}).status_code == 401
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert elsewhere.get("/status", headers=right).status_code == 200


def test_the_token_stays_in_a_cookie_that_scripts_and_other_sites_do_not_get(elsewhere):
    answer = elsewhere.get(f"/?token={TOKEN}", follow_redirects=False)
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    flags = {one.strip().lower() for one in answer.headers["set-cookie"].split(";")}
    assert {f"diverset_token={TOKEN}", "httponly", "samesite=strict", "path=/"} <= flags
    assert elsewhere.get("/status").status_code == 200  # the cookie is kept


@pytest.mark.parametrize("other", ['foo={"a":1}', "a b=c", "x[]=1", "\x01=1", "expires=1", "path"])
def test_cookies_of_others_do_not_hide_the_token(elsewhere, other):
    for cookie in (f"{other}; diverset_token={TOKEN}", f"diverset_token={TOKEN}; {other}"):
        assert elsewhere.get("/status", headers={"Cookie": cookie}).status_code == 200
    wrong = f"{other}; diverset_token={TOKEN[:-1]}"
    assert elsewhere.get("/status", headers={"Cookie": wrong}).status_code == 401


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]", "[::1]:8"])
def test_hosts_that_are_this_machine(client, host):
    assert client.get("/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "[::1]evil.example", "[::1].evil.example:80", "localhost.evil.example", "",
     "localhost:80@evil.example", "127.0.0.1:x", "[evil.example]", "192.168.1.2", "localhost:1:2"],
)  # fmt: skip
def test_hosts_that_are_not(client, host):
    assert client.get("/status", headers={"Host": host}).status_code == 403


CROSS, NEAR = {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}
LINK = {"Sec-Fetch-Mode": "navigate"}


@pytest.mark.parametrize(
    "headers",
    [CROSS, NEAR, {**CROSS, **LINK}, {"Origin": "https://evil.example"}, {"Origin": "null"},
     {"Origin": "http://localhost:3000"}, {"Origin": "http://localhost:8000.evil.example"},
     {"Origin": ""}, {**CROSS, "Origin": HERE}],
)  # fmt: skip
def test_pages_of_other_sites_get_nothing(client, elsewhere, headers):
    right = {"Authorization": f"Bearer {TOKEN}"}
    for asked, extra in ((client, {}), (elsewhere, right)):
        for path in ("/status", "/items", "/static/page.js", "/openapi.json"):
            assert asked.get(path, headers={**headers, **extra}).status_code == 403
        for path in ("/", "/search", "/similar"):
            assert asked.post(path, json={}, headers={**headers, **extra}).status_code == 403


def test_the_own_page_and_links_to_it_are_answered(client, elsewhere):
    own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert client.get("/status", headers=own).status_code == 200
    asked = client.post("/search", json={"words": "snow"}, headers={**own, "Origin": HERE})
    assert asked.status_code == 200
    for site in (CROSS, NEAR, {"Sec-Fetch-Site": "none"}):
        assert client.get("/", headers={**site, **LINK}).status_code == 200
    answer = elsewhere.get(f"/?token={TOKEN}", headers={**CROSS, **LINK}, follow_redirects=False)
    assert answer.status_code == 303


def test_questions_are_short_and_only_pictures_may_be_large(client, caplog):
    began = time.monotonic()
    large = b'{"words": "' + bytes(2**21) + b'"}'
    for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain"):
        answer = client.post("/search", content=large, headers={"Content-Type": kind})
        assert answer.status_code == 413
    assert client.post("/similar", content=large, headers=JSON).status_code == 413
    parts = (b"x" * 50_000 for _ in range(40))
    assert client.post("/search", content=parts, headers=JSON).status_code == 413
    assert time.monotonic() - began < 2
    assert "refused: more than 65536 bytes" in caplog.text
    sent = {"picture": ("p.png", bytes(150_000))}
    assert client.post("/similar", files=sent).status_code == 422  # read, and no picture
    sent = {"picture": ("p.png", bytes(300_000))}
    assert client.post("/similar", files=sent).status_code == 413


def test_who_has_the_token_has_limits_too(elsewhere):
    headers = {"Authorization": f"Bearer {TOKEN}", **JSON}
    assert elsewhere.post("/search", content=bytes(2**21), headers=headers).status_code == 413


def test_addresses_that_others_reach_need_a_token():
    check_binding("127.0.0.1", "")
    check_binding("0.0.0.0", TOKEN)
    for host, token in (("0.0.0.0", ""), ("192.168.1.2", "short")):
        with pytest.raises(OptionError, match="token"):
            check_binding(host, token)
