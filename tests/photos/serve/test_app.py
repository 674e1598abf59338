"""The server: searches, and images of the library."""

import io
import shutil
import threading
from dataclasses import replace

import pytest
import torch
from fastapi.testclient import TestClient
from photos.library_support import make_image, make_images, make_model
from photos.serve.server_support import LOCALHOST, png, upload
from PIL import Image

from diverset.data.preprocess import Preprocess
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.search.query import SearchQuery
from diverset.photos.serve.app import create_app
from diverset.photos.serve.schemas import SearchResponse

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def test_searches_by_text_image_and_element_are_answered(client, photos):
    actual = client.post("/search", json={"text": "a dog", "k": 3}).json()
    assert len(actual["groups"][0]) == 3 and actual["confidence"] == "good"
    assert SearchResponse(**actual).model_dump() == actual  # all fields of the documented form
    path = str(photos / "2.png")
    query = {"text": "a dog", "image_id": path, "excluded": ["snow"], "groups": True}
    assert sum(map(len, client.post("/search", json=query).json()["groups"])) == 7
    assert client.get("/similar", params={"id": path, "k": 2}).status_code == 200
    similar = client.get("/similar", params={"id": path, "element": 2}).json()
    assert path not in [hit["id"] for hit in similar["groups"][0]]  # not among its own results
    assert similar["total"] == len(similar["groups"][0]) == 7
    assert upload(client, png(), text="a dog", k=4).json()["groups"][0]
    filtered = client.post("/search", json={"text": "a dog", "filter": "name = '1.png'"}).json()
    assert [item["metadata"]["name"] for item in filtered["groups"][0]] == ["1.png"]
    explanation = client.get("/explain", params={"id": path, "text": "a dog"}).json()
    assert sum(element["share"] for element in explanation["elements"]) == pytest.approx(1)


def ranked(response) -> list[tuple[str, float]]:
    assert response.status_code == 200, response.text
    return [(hit["id"], hit["score"]) for group in response.json()["groups"] for hit in group]


OPTIONS = [
    {"required": ["snow", "a cat"]},
    {"excluded": ["snow"]},
    {"coverage": True},
    {"weights": [1, 9]},
    {"filter": "name != '3.png' and not name in ('4.png')"},
    {"k": 2},
]


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_counts_for_text_and_for_text_beside_an_image(
    client, photos, option, tmp_path
):
    """Every route returns what the searcher returns, which differs from the plain search."""
    searcher, path = client.app.state.diverset.searcher, photos / "2.png"
    stored = searcher.encode_image(path)
    uploaded = searcher.encode_image(shutil.copy(path, tmp_path / "upload.png"))
    both, query = (
        {"text": "a dog runs", "balance": 0.8},
        SearchQuery("a dog runs", k=40, balance=0.8),
    )
    for image, send in (
        (None, lambda **more: client.post("/search", json={"text": "a dog runs", **more})),
        (
            stored,
            lambda **more: client.post("/search", json={**both, "image_id": str(path), **more}),
        ),
        (uploaded, lambda **more: upload(client, path.read_bytes(), **{**both, **more})),
    ):
        leave_out = str(path) if image is stored else None
        expected = searcher.search(replace(query, leave_out=leave_out, **option), image).hits
        actual = ranked(send(**option))
        assert actual == [(hit.id, pytest.approx(hit.score, abs=1e-4)) for hit in expected]
        assert actual != ranked(send())


def test_balance_weighs_the_text_against_the_image(client, photos):
    data = (photos / "2.png").read_bytes()
    near, far = (upload(client, data, text="snow", balance=share) for share in (0.0, 1.0))
    assert ranked(near) != ranked(far)
    assert ranked(near)[0][0] == str(photos / "2.png")
    assert ranked(upload(client, data)) != ranked(far)


@pytest.mark.parametrize("element", [{}, {"element": 2}])
def test_similar_images_can_be_narrowed(client, photos, element):
    params = {"id": str(photos / "2.png"), **element}
    plain = ranked(client.get("/similar", params=params))
    searcher, index = client.app.state.diverset.searcher, 1 if element else None
    image = searcher.encode_image(params["id"])
    query = SearchQuery(k=40, leave_out=params["id"])
    expected = searcher.search(query, image, index).hits
    assert plain == [(hit.id, pytest.approx(hit.score, abs=1e-4)) for hit in expected]
    for option in (
        {"required": ["snow", "a cat"]},
        {"excluded": ["snow"]},
        {"filter": "name > '3'"},
    ):
        assert ranked(client.get("/similar", params={**params, **option})) != plain
    groups = client.get("/similar", params={**params, "groups": True, "k": 7}).json()["groups"]
    assert sum(map(len, groups)) == 7
    assert client.get("/similar", params={**params, "element": 4}).status_code == 422
    assert client.get("/similar", params={**params, "elemnt": 1}).status_code == 422


def test_get_search_answers_like_post_search(client, photos):
    fields = {"text": "a dog", "required": ["snow", "a cat"], "excluded": ["a boat"], "k": 3}
    fields |= {"filter": "name != '1.png'", "offset": 1, "balance": 0.3, "weights": [1, 2]}
    fields |= {"image_id": str(photos / "2.png"), "groups": True, "min_probability": 0.1}
    posted = client.post("/search", json=fields).json()
    got = client.get("/search", params=fields).json()
    assert {**got, "milliseconds": 0} == {**posted, "milliseconds": 0}
    assert sum(map(len, got["groups"])) == 3 and got["total"] == 6


def test_pages_of_hits_follow_each_other(client):
    whole = ranked(client.get("/search", params={"text": "a dog"}))
    pages = [
        client.get("/search", params={"text": "a dog", "k": 3, "offset": offset})
        for offset in (0, 3, 6, 9)
    ]
    assert [hit for page in pages[:3] for hit in ranked(page)] == whole
    assert pages[3].json()["groups"] == [] and pages[3].json()["total"] == 8
    assert client.get("/search", params={"text": "a", "offset": 10_001}).status_code == 422


@pytest.mark.parametrize(
    ("method", "route", "params"),
    [
        ("GET", "/search", {"text": "a dog", "size": 3}),
        ("GET", "/similar", {"id": "x", "elemnt": 1}),
        ("GET", "/items", {"size": 3}),
        ("GET", "/items/info", {"id": "x", "size": 3}),
        ("GET", "/items/image", {"id": "x", "size": 512}),
        ("GET", "/items/overlay", {"id": "x", "element": 1, "size": 512}),
        ("GET", "/items/original", {"id": "x", "size": 512}),
        ("GET", "/items/elements", {"id": "x", "size": 512}),
        ("GET", "/explain", {"id": "x", "text": "a dog", "k": 3}),
        ("GET", "/status", {"k": 3}),
        ("POST", "/search", {"k": 3}),
        ("POST", "/similar", {"k": 3}),
    ],
)
def test_unknown_parameters_are_rejected_by_name(client, method, route, params):
    body = {"json": {"text": "a dog"}} if (method, route) == ("POST", "/search") else {}
    response = client.request(method, route, params=params, **body)
    assert response.status_code == 422
    unknown = f"query.{list(params)[-1]}"
    message = "unknown field; /docs lists the fields of every route"
    assert {"field": unknown, "message": message} in response.json()["detail"]


def test_the_original_file_is_opened_or_downloaded(client, photos):
    path = photos / "2.png"
    shown = client.get("/items/original", params={"id": str(path)})
    assert shown.content == path.read_bytes() and shown.headers["content-type"] == "image/png"
    assert shown.headers["content-disposition"] == "inline; filename*=UTF-8''2.png"
    saved = client.get("/items/original", params={"id": str(path), "download": True})
    assert saved.content == path.read_bytes()
    assert saved.headers["content-disposition"] == "attachment; filename*=UTF-8''2.png"
    assert client.get("/items/original", params={"id": "/etc/passwd"}).status_code == 404


def test_deleted_and_changed_files_are_reported(tmp_path):
    photos = make_images(tmp_path / "photos", 1)
    strange = make_image(photos / 'ä;\n"x.tif', 3)
    with Library.open_or_create(tmp_path / "library", make_model(tmp_path / "model")) as library:
        index_folders(library, [photos])
        client = TestClient(create_app(library), base_url=LOCALHOST)
        tiff = client.get("/items/original", params={"id": str(strange)})
        assert tiff.content == strange.read_bytes()  # browsers do not show TIFF
        disposition = "attachment; filename*=UTF-8''%C3%A4%3B%0A%22x.tif"
        assert tiff.headers["content-disposition"] == disposition
        routes = (("image", {}), ("overlay", {"element": 1}), ("original", {}))
        requests = [
            (f"/items/{name}", {"id": str(photos / "0.png"), **more}) for name, more in routes
        ]
        assert [client.get(route, params=params).status_code for route, params in requests] == [
            200
        ] * 3
        (photos / "0.png").write_bytes(b"a secret")  # not what was indexed
        changed = client.get(requests[2][0], params=requests[2][1])
        assert changed.status_code == 404 and "has changed" in changed.json()["detail"]
        (photos / "0.png").unlink()
        for route, params in requests:  # even if they were cached
            response = client.get(route, params=params)
            assert response.status_code == 404 and "deleted or moved" in response.json()["detail"]
        similar = client.get("/similar", params={"id": str(photos / "0.png")})
        assert similar.status_code == 200  # its set is still stored


def test_filters_with_many_conditions_are_rejected(client, photos):
    long = " and ".join(["name > ''"] * 33)
    responses = [
        client.post("/search", json={"text": "a", "filter": long}),
        client.get("/similar", params={"id": str(photos / "2.png"), "filter": long}),
        upload(client, png(), filter=long),
    ]
    for response in responses:
        assert response.status_code == 422 and "32 conditions" in response.json()["detail"]


def test_items_are_listed_described_and_shown(client, photos):
    listed = client.get("/items", params={"limit": 3, "offset": 1}).json()
    assert listed["total"] == 8 and len(listed["ids"]) == 3
    path = str(photos / "2.png")
    info = client.get("/items/info", params={"id": path}).json()
    assert (info["id"], info["elements"], info["metadata"]["width"]) == (path, 3, 40)
    assert client.get("/items/info", params={"id": "/etc/passwd"}).status_code == 404
    response = client.get("/items/image", params={"id": path})
    assert response.headers["content-type"] == "image/jpeg"
    with Image.open(io.BytesIO(response.content)) as image:
        assert image.size == (40, 30)
    response = client.get("/items/overlay", params={"id": path, "element": 3})
    with Image.open(io.BytesIO(response.content)) as overlay:
        assert overlay.mode == "RGBA"
        assert overlay.size == (256, 192)  # the proportions of the image, not the network's
        assert any(map(any, edges(overlay)))
    assert client.get("/items/overlay", params={"id": path, "element": 9}).status_code == 422


def test_elements_that_attend_to_the_whole_image_are_named(client, library, photos, monkeypatch):
    maps = torch.tensor([[[1.0, 1.0], [1.0, 0.9]], [[1.0, 0.0], [0.0, 0.0]], [[1, 1], [0.9, 0]]])
    monkeypatch.setattr(library.encoder, "element_maps", lambda image: maps)
    params = {"id": str(photos / "7.png")}
    found = client.get("/items/elements", params=params).json()
    assert found == {"areas": [1.0, 0.25, 0.75], "whole_image": [True, False, True]}
    monkeypatch.undo()
    assert client.get("/items/elements", params=params).json() == found  # cached


def edges(overlay: Image.Image) -> list[bytes]:
    """The opacity along the left and the right edge."""
    alpha = overlay.getchannel("A")
    return [alpha.crop((x, 0, x + 1, alpha.height)).tobytes() for x in (0, alpha.width - 1)]


def test_an_overlay_is_transparent_outside_of_the_centre_crop(client, library, photos, monkeypatch):
    monkeypatch.setattr(library.encoder, "preprocess", Preprocess(16, crop="center"))
    response = client.get("/items/overlay", params={"id": str(photos / "5.png"), "element": 1})
    with Image.open(io.BytesIO(response.content)) as overlay:
        assert overlay.size == (256, 192)
        assert overlay.getchannel("A").getbbox()[0] >= (256 - 192) // 2
        assert overlay.getchannel("A").getbbox()[2] <= (256 + 192) // 2
        assert not any(map(any, edges(overlay)))


def test_a_changed_image_gets_a_new_etag(tmp_path):
    path = make_images(tmp_path / "photos", 1) / "0.png"
    with Library.open_or_create(tmp_path / "library", make_model(tmp_path / "model")) as library:
        index_folders(library, [path.parent])
        client = TestClient(create_app(library), base_url=LOCALHOST)
        for route, more in (("/items/image", {"side": 256}), ("/items/overlay", {"element": 1})):
            params = {"id": str(path), **more}
            before = client.get(route, params=params)
            assert "no-cache" in before.headers["cache-control"]
            etag = {"If-None-Match": before.headers["etag"]}
            same = client.get(route, params=params, headers=etag)
            assert same.status_code == 304 and same.content == b""
            make_image(path, seed=len(route) + 50)
            index_folders(library, [path.parent])
            after = client.get(route, params=params, headers=etag)
            assert after.status_code == 200 and after.content != before.content
            assert after.headers["etag"] != before.headers["etag"]
        side = client.get("/items/image", params={"id": str(path), "side": 512})
        assert side.headers["etag"] != after.headers["etag"]
        assert client.get("/items/image", params={"id": str(path), "side": 9}).status_code == 422


def test_uploads_are_decoded_while_the_image_network_is_busy(library):
    state = create_app(library).state.diverset
    state.load()
    decoded = threading.Event()
    open_image = library.encoder.open

    def open_and_notify(*args):
        image = open_image(*args)
        decoded.set()
        return image

    with pytest.MonkeyPatch.context() as patch, state._image_lock:
        patch.setattr(library.encoder, "open", open_and_notify)
        thread = threading.Thread(target=state.encode_upload, args=(png(),))
        thread.start()
        assert decoded.wait(30)
    thread.join(30)


def test_at_most_two_images_are_decoded_at_a_time(library, photos):
    state = create_app(library).state.diverset
    with state._decoders, state._decoders:
        file = state.file(f"{photos}/1.png")
        thread = threading.Thread(target=state.thumbnail, args=(file, 256))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(30)
    assert not thread.is_alive()


def test_thumbnails_and_overlays_are_cached_up_to_a_number_of_bytes(library, photos, monkeypatch):
    calls = []

    def fake_thumbnail(path, side, data):
        calls.append(path)
        return bytes(40)

    monkeypatch.setattr("diverset.photos.serve.state.thumbnail", fake_thumbnail)
    monkeypatch.setattr("diverset.photos.serve.state.CACHE_BYTES", 100)
    state = create_app(library).state.diverset
    first, second, third = (state.file(f"{photos}/{number}.png") for number in (1, 2, 3))
    for file in (first, second, first, third, first, second):
        assert state.thumbnail(file, 256) == bytes(40)
    assert calls == [file.path for file in (first, second, third, second)]


def test_a_repeated_text_is_encoded_once_for_search_and_explain(client, library, photos):
    texts, encode = [], library.model.encode_texts

    def noted(batch, **options):
        texts.extend(batch)
        return encode(batch, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.model, "encode_texts", noted)
        for _ in range(2):
            client.post("/search", json={"text": "two birds"})
            client.get("/explain", params={"id": str(photos / "1.png"), "text": "two birds"})
    assert texts == ["two birds"]
