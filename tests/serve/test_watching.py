"""What watchers see, what browsers are told, and a server that cannot answer."""

import threading
import time

import httpx
import pytest
from fastapi.testclient import TestClient
from library.making import make_model, make_picture, make_pictures
from serve.running import running
from serve.sending import HERE, LIMITS

from diverset.errors import IndexFileError
from diverset.library.indexing import index_folders
from diverset.library.library import Library
from diverset.serve.app import create_app

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def test_watching(client):
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"ready": True}
    assert client.get("/status").json()["pictures"] == 8
    said = client.get("/metrics").text
    assert "diverset_pictures 8.0" in said and 'path="/status"' in said
    assert "<title>diverset</title>" in client.get("/").text
    assert client.get("/openapi.json").json()["paths"]["/search"]


@pytest.mark.parametrize("path", ["/", "/docs", "/static/page.js", "/static/docs.js"])
def test_pages_name_no_other_server(client, path):
    assert "://" not in client.get(path).text
    assert client.get("/redoc").status_code == 404


def counted(client, path: str, status: int) -> float:
    wanted = {"path": path, "status": str(status)}
    registry = client.app.state.diverset.registry
    return registry.get_sample_value("diverset_requests_total", wanted) or 0.0


def test_refusals_and_failures_are_counted_too(library, monkeypatch, caplog):
    asked = TestClient(create_app(library, token="a-token-of-32-characters-or-so"), base_url=HERE)
    assert asked.get("/status").status_code == 401
    assert counted(asked, "other", 401) == 1
    asked = TestClient(create_app(library, limits=LIMITS), base_url=HERE)
    assert asked.get("/status", headers={"Host": "evil.example"}).status_code == 403
    assert asked.post("/search", content=bytes(2**21)).status_code == 413
    monkeypatch.setattr(asked.app.state.diverset, "status", lambda: 1 / 0)
    broken = asked.get("/status")
    assert broken.status_code == 500 and "log" in broken.json()["detail"]
    assert "division by zero" in caplog.text and "division" not in broken.text
    for n in range(5):
        assert asked.get(f"/made-up/{n}").status_code == 404
    found = [("other", 403), ("other", 413), ("/status", 500), ("other", 404)]
    assert [counted(asked, *one) for one in found] == [1, 1, 1, 5]
    paths = {
        one.labels["path"]
        for metric in asked.app.state.diverset.registry.collect()
        for one in metric.samples
        if "path" in one.labels
    }
    assert paths == {"other", "/status"}


@pytest.mark.parametrize("path", ["/", "/health", "/static/page.js", "/none", "/items/picture"])
def test_browsers_are_told_to_fetch_nothing_elsewhere(client, path):
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_watchers_do_not_wait_behind_questions(library):
    app = create_app(library)
    with running(app) as address:
        state = app.state.diverset
        with state._model:  # every question waits for it, and more come than there are threads
            body = {"words": "a dog"}
            some = [
                threading.Thread(target=httpx.post, args=(f"{address}/search",), kwargs=one)
                for one in [{"json": body, "timeout": 60}] * 60
            ]
            for one in some:
                one.start()
            time.sleep(1)
            assert httpx.get(f"{address}/health", timeout=5).status_code == 200
            assert httpx.get(f"{address}/ready", timeout=5).status_code == 200
        for one in some:
            one.join()


def test_a_server_that_is_not_ready_or_whose_index_is_damaged_says_503(library, monkeypatch):
    client = TestClient(create_app(library), base_url=HERE)  # whose model nobody loads
    assert client.get("/ready").status_code == 503
    assert client.get("/ready").json() == {"ready": False}

    def damaged(*_):
        raise IndexFileError("the index is damaged; build it again")

    monkeypatch.setattr(client.app.state.diverset.searcher, "search", damaged)
    answer = client.post("/search", json={"words": "a dog"})
    assert answer.status_code == 503 and "damaged" in answer.json()["detail"]


@pytest.mark.parametrize("way", ["rebuilt", "removed", "replaced"])
def test_a_library_that_is_another_now_is_not_answered_from(tmp_path, monkeypatch, way):
    monkeypatch.setattr("diverset.serve.state.LOOK", 0)
    photos, place = make_pictures(tmp_path / "photos", 2), tmp_path / "library"
    model, other = make_model(tmp_path / "model"), make_model(tmp_path / "other", seed=5)
    with Library.prepare(place, model) as library:
        index_folders(library, [photos])
        client = TestClient(create_app(library), base_url=HERE)
        client.app.state.diverset.load()
        asked = {"id": str(photos / "1.png")}
        assert client.get("/items/picture", params=asked).status_code == 200
        make_picture(photos / "new.png", 9)
        index_folders(library, [photos])  # more of the same is no other library
        assert client.get("/status").json()["pictures"] == 3
        if way != "rebuilt":
            place.rename(tmp_path / "trash")
        if way != "removed":
            with Library.prepare(place, model if way == "replaced" else other, rebuild=True):
                pass
        for answer in (
            client.get("/items/picture", params=asked),
            client.get("/similar", params=asked),
            client.post("/search", json={"words": "a dog"}),
            client.get("/status"),
        ):
            assert answer.status_code == 503
            assert "restart diverset serve" in answer.json()["detail"]
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200
