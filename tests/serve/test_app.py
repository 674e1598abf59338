"""The server: answers to questions, and what it shows of pictures."""

import io
import threading
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from library.making import make_model, make_picture, make_pictures
from PIL import Image
from serve.sending import HERE, png, upload

from diverset.data.preprocess import Preprocess
from diverset.library.indexing import index_folders
from diverset.library.library import Library
from diverset.search.query import Asked
from diverset.serve.app import create_app

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def test_questions(client, photos):
    found = client.post("/search", json={"words": "a dog", "k": 3}).json()
    assert len(found["groups"][0]) == 3 and found["matches_well"]
    one = str(photos / "2.png")
    asked = {"words": "a dog", "like": one, "without": ["snow"], "groups": True}
    assert sum(map(len, client.post("/search", json=asked).json()["groups"])) == 8
    assert client.get("/similar", params={"id": one, "k": 2}).status_code == 200
    part = client.get("/similar", params={"id": one, "element": 2}).json()
    assert part["groups"][0][0]["id"] == one
    assert upload(client, png(), words="a dog", k=4).json()["groups"][0]
    few = client.post("/search", json={"words": "a dog", "filter": "name = '1.png'"}).json()
    assert [item["metadata"]["name"] for item in few["groups"][0]] == ["1.png"]
    why = client.get("/explain", params={"id": one, "words": "a dog"}).json()
    assert sum(part["share"] for part in why["elements"]) == pytest.approx(1)


def ranked(answer) -> list[tuple[str, float]]:
    assert answer.status_code == 200, answer.text
    return [(one["id"], one["score"]) for some in answer.json()["groups"] for one in some]


WISHES = [
    {"also": ["snow", "a cat"]},
    {"without": ["snow"]},
    {"coverage": True},
    {"weights": [1, 9]},
    {"filter": "name != '3.png' and not name in ('4.png')"},
    {"k": 2},
]


@pytest.mark.parametrize("wish", WISHES)
def test_wishes_count_for_words_and_for_words_beside_a_picture(client, library, photos, wish):
    """All ways to ask give what the searcher gives, which differs from what it gives without."""
    fields = {("where" if name == "filter" else name): value for name, value in wish.items()}
    searcher, one = client.app.state.diverset.searcher, photos / "2.png"
    stored, sent = searcher.of_picture(one), searcher.of_picture("sent", one.read_bytes())
    both, asked = {"words": "a dog runs", "balance": 0.8}, Asked("a dog runs", k=40, balance=0.8)
    for picture, ask in (
        (None, lambda **more: client.post("/search", json={"words": "a dog runs", **more})),
        (stored, lambda **more: client.post("/search", json={**both, "like": str(one), **more})),
        (sent, lambda **more: upload(client, one.read_bytes(), **{**both, **more})),
    ):
        expected = searcher.search(replace(asked, **fields), picture).matches
        found = ranked(ask(**wish))
        assert found == [(match.id, pytest.approx(match.score, abs=1e-4)) for match in expected]
        assert found != ranked(ask())


def test_balance_counts_beside_a_picture(client, photos):
    data = (photos / "2.png").read_bytes()
    near, far = (upload(client, data, words="snow", balance=share) for share in (0.0, 1.0))
    assert ranked(near) != ranked(far)
    assert ranked(near)[0][0] == str(photos / "2.png")
    assert ranked(upload(client, data)) != ranked(far)


@pytest.mark.parametrize("element", [{}, {"element": 2}])
def test_more_like_this_can_be_narrowed(client, photos, element):
    near = {"id": str(photos / "2.png"), **element}
    plain = ranked(client.get("/similar", params=near))
    searcher, place = client.app.state.diverset.searcher, 1 if element else None
    expected = searcher.similar(searcher.of_picture(near["id"]), 40, element=place).matches
    assert plain == [(match.id, pytest.approx(match.score, abs=1e-4)) for match in expected]
    for wish in ({"also": ["snow", "a cat"]}, {"without": ["snow"]}, {"filter": "name > '3'"}):
        assert ranked(client.get("/similar", params={**near, **wish})) != plain
    parts = client.get("/similar", params={**near, "groups": True, "k": 7}).json()["groups"]
    assert sum(map(len, parts)) == 7
    assert client.get("/similar", params={**near, "element": 4}).status_code == 422
    assert client.get("/similar", params={**near, "elemnt": 1}).status_code == 422


def test_filters_have_few_conditions(client, photos):
    long = " and ".join(["name > ''"] * 33)
    answers = [
        client.post("/search", json={"words": "a", "filter": long}),
        client.get("/similar", params={"id": str(photos / "2.png"), "filter": long}),
        upload(client, png(), filter=long),
    ]
    for answer in answers:
        assert answer.status_code == 422 and "32 conditions" in answer.json()["detail"]


def test_items_and_pictures(client, photos):
    listed = client.get("/items", params={"limit": 3, "offset": 1}).json()
    assert listed["total"] == 8 and len(listed["ids"]) == 3
    one = str(photos / "2.png")
    about = client.get("/items/about", params={"id": one}).json()
    assert (about["id"], about["parts"], about["metadata"]["width"]) == (one, 3, 40)
    assert client.get("/items/about", params={"id": "/etc/passwd"}).status_code == 404
    answer = client.get("/items/picture", params={"id": one})
    assert answer.headers["content-type"] == "image/jpeg"
    with Image.open(io.BytesIO(answer.content)) as picture:
        assert picture.size == (40, 30)
    layer = client.get("/items/map", params={"id": one, "element": 3})
    with Image.open(io.BytesIO(layer.content)) as picture:
        assert picture.mode == "RGBA"
        assert picture.size == (256, 192)  # the proportions of the picture, not the network's
        assert any(map(any, edges(picture)))
    assert client.get("/items/map", params={"id": one, "element": 9}).status_code == 422


def edges(layer: Image.Image) -> list[bytes]:
    """How opaque a layer is along its left and right edges."""
    alpha = layer.getchannel("A")
    return [alpha.crop((at, 0, at + 1, alpha.height)).tobytes() for at in (0, alpha.width - 1)]


def test_a_map_lies_where_the_network_looked(client, library, photos, monkeypatch):
    """A network that is shown the middle square has nothing to say of what lies beside it."""
    monkeypatch.setattr(library.encoder.network, "preprocess", Preprocess(16, crop="center"))
    layer = client.get("/items/map", params={"id": str(photos / "5.png"), "element": 1})
    with Image.open(io.BytesIO(layer.content)) as picture:
        assert picture.size == (256, 192)
        assert picture.getchannel("A").getbbox()[0] >= (256 - 192) // 2
        assert picture.getchannel("A").getbbox()[2] <= (256 + 192) // 2
        assert not any(map(any, edges(picture)))


def test_a_changed_picture_is_shown_anew(tmp_path):
    one = make_pictures(tmp_path / "photos", 1) / "0.png"
    with Library.prepare(tmp_path / "library", make_model(tmp_path / "model")) as library:
        index_folders(library, [one.parent])
        client = TestClient(create_app(library), base_url=HERE)
        for route, more in (("/items/picture", {"side": 256}), ("/items/map", {"element": 1})):
            asked = {"id": str(one), **more}
            before = client.get(route, params=asked)
            assert "no-cache" in before.headers["cache-control"]
            mark = {"If-None-Match": before.headers["etag"]}
            same = client.get(route, params=asked, headers=mark)
            assert same.status_code == 304 and same.content == b""
            make_picture(one, seed=len(route) + 50)
            index_folders(library, [one.parent])
            after = client.get(route, params=asked, headers=mark)
            assert after.status_code == 200 and after.content != before.content
            assert after.headers["etag"] != before.headers["etag"]
        side = client.get("/items/picture", params={"id": str(one), "side": 512})
        assert side.headers["etag"] != after.headers["etag"]
        assert client.get("/items/picture", params={"id": str(one), "side": 9}).status_code == 422


def test_large_uploads_are_decoded_while_the_network_is_busy(library):
    state = create_app(library).state.diverset
    state.load()
    decoded = threading.Event()
    opened = library.encoder.open

    def noted(*given):
        found = opened(*given)
        decoded.set()
        return found

    with pytest.MonkeyPatch.context() as patch, state._model:
        patch.setattr(library.encoder, "open", noted)
        asked = threading.Thread(target=state.uploaded, args=(png(),))
        asked.start()
        assert decoded.wait(30)
    asked.join(30)


def test_pictures_are_unpacked_two_at_a_time(library, photos):
    state = create_app(library).state.diverset
    with state._decoding, state._decoding:
        asked = threading.Thread(target=state.thumbnail, args=(state.known(f"{photos}/1.png"), 256))
        asked.start()
        asked.join(0.2)
        assert asked.is_alive()
    asked.join(30)
    assert not asked.is_alive()
