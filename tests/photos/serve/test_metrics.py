"""Monitoring, security headers, and a server that is not ready."""

import threading
import time

import httpx
import pytest
from fastapi.testclient import TestClient
from photos.library_support import make_image, make_images, make_model
from photos.serve.server_support import LIMITS, LOCALHOST, running_server

from diverset.errors import IndexFileError
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.serve.app import create_app

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def test_health_status_and_metrics_are_reported(client):
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"ready": True}
    assert client.get("/status").json()["images"] == 8
    metrics = client.get("/metrics").text
    assert "diverset_images 8.0" in metrics and 'path="/status"' in metrics
    assert "<title>diverset</title>" in client.get("/").text
    assert client.get("/openapi.json").json()["paths"]["/search"]


@pytest.mark.parametrize("path", ["/", "/docs", "/static/page.js", "/static/docs.js"])
def test_pages_load_nothing_from_other_sites(client, path):
    assert "://" not in client.get(path).text
    assert client.get("/redoc").status_code == 404


def response_count(client, path: str, status: int) -> float:
    labels = {"path": path, "status": str(status)}
    registry = client.app.state.diverset.registry
    return registry.get_sample_value("diverset_requests_total", labels) or 0.0


def test_rejected_and_failed_requests_are_counted(library, monkeypatch, caplog):
    client = TestClient(
        create_app(library, token="a-token-of-32-characters-or-so"), base_url=LOCALHOST
    )
    assert client.get("/status").status_code == 401
    assert response_count(client, "other", 401) == 1
    client = TestClient(create_app(library, limits=LIMITS), base_url=LOCALHOST)
    assert client.get("/status", headers={"Host": "evil.example"}).status_code == 403
    assert client.post("/search", content=bytes(2**21)).status_code == 413
    monkeypatch.setattr(client.app.state.diverset, "status", lambda: 1 / 0)
    broken = client.get("/status")
    assert broken.status_code == 500 and "log" in broken.json()["detail"]
    assert "division by zero" in caplog.text and "division" not in broken.text
    for n in range(5):
        assert client.get(f"/made-up/{n}").status_code == 404
    labels = [("other", 403), ("other", 413), ("/status", 500), ("other", 404)]
    assert [response_count(client, *pair) for pair in labels] == [1, 1, 1, 5]
    paths = {
        sample.labels["path"]
        for metric in client.app.state.diverset.registry.collect()
        for sample in metric.samples
        if "path" in sample.labels
    }
    assert paths == {"other", "/status"}


@pytest.mark.parametrize("path", ["/", "/health", "/static/page.js", "/none", "/items/image"])
def test_every_response_has_security_headers(client, path):
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_health_checks_do_not_wait_for_searches(library):
    app = create_app(library)
    with running_server(app) as address:
        state = app.state.diverset
        with state._search_lock:  # every search waits for it, and there are more than threads
            options = {"json": {"text": "a dog"}, "timeout": 60}
            searches = [
                threading.Thread(target=httpx.post, args=(f"{address}/search",), kwargs=options)
                for _ in range(60)
            ]
            for search in searches:
                search.start()
            time.sleep(1)
            assert httpx.get(f"{address}/health", timeout=5).status_code == 200
            assert httpx.get(f"{address}/ready", timeout=5).status_code == 200
        for search in searches:
            search.join()


def test_a_server_that_is_loading_or_has_a_damaged_index_responds_with_503(library, monkeypatch):
    client = TestClient(create_app(library), base_url=LOCALHOST)  # its model is not loaded
    assert client.get("/ready").status_code == 503
    assert client.get("/ready").json() == {"ready": False}

    def damaged(*_):
        raise IndexFileError("the index is damaged; build it again")

    monkeypatch.setattr(client.app.state.diverset.searcher, "prepare", damaged)
    answer = client.post("/search", json={"text": "a dog"})
    assert answer.status_code == 503 and "damaged" in answer.json()["detail"]


@pytest.mark.parametrize("event", ["rebuilt", "removed", "replaced"])
def test_a_rebuilt_or_removed_library_is_not_served(tmp_path, monkeypatch, event):
    monkeypatch.setattr("diverset.photos.serve.state.CHECK_INTERVAL", 0)
    photos, folder = make_images(tmp_path / "photos", 2), tmp_path / "library"
    model, other = make_model(tmp_path / "model"), make_model(tmp_path / "other", seed=5)
    with Library.open_or_create(folder, model) as library:
        index_folders(library, [photos])
        client = TestClient(create_app(library), base_url=LOCALHOST)
        client.app.state.diverset.load()
        params = {"id": str(photos / "1.png")}
        assert client.get("/items/image", params=params).status_code == 200
        make_image(photos / "new.png", 9)
        index_folders(library, [photos])  # the same library with more images
        assert client.get("/status").json()["images"] == 3
        if event != "rebuilt":
            folder.rename(tmp_path / "trash")
        if event != "removed":
            with Library.open_or_create(
                folder, model if event == "replaced" else other, rebuild=True
            ):
                pass
        for response in (
            client.get("/items/image", params=params),
            client.get("/similar", params=params),
            client.post("/search", json={"text": "a dog"}),
            client.get("/status"),
        ):
            assert response.status_code == 503
            assert "restart diverset serve" in response.json()["detail"]
        assert client.get("/ready").status_code == 503
        assert client.get("/health").status_code == 200
