"""The server: answers, refusals, limits, hostile uploads, and whatever schemathesis thinks of."""

import io
import os
import socket
import threading
import time
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient
from library.making import make_model, make_picture, make_pictures
from PIL import Image
from serve.running import running

from diverset.data.preprocess import Preprocess
from diverset.errors import IndexFileError
from diverset.library.catalog import INDEXED, SKIPPED, File
from diverset.library.indexing import index_folders
from diverset.library.library import Library
from diverset.search.calibration import Calibration
from diverset.search.query import Asked
from diverset.serve.app import create_app
from diverset.serve.guard import Limits

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
LIMITS = Limits(bytes=200_000, pixels=1_000_000)
HERE = "http://localhost"


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_pictures(tmp_path_factory.mktemp("photos"), 8)


@pytest.fixture(scope="module")
def library(tmp_path_factory, photos):
    base = tmp_path_factory.mktemp("base")
    with Library.prepare(base / "library", make_model(base / "model")) as opened:
        index_folders(opened, [photos])
        yield opened


@pytest.fixture(scope="module")
def client(library):
    app = create_app(library, limits=LIMITS)
    app.state.diverset.searcher.calibration = Calibration(9, 0, 0)
    with TestClient(app, base_url=HERE) as opened:
        app.state.diverset.ready.wait(60)
        yield opened


def upload(client, data: bytes, **fields):
    return client.post("/similar", files={"picture": ("p.png", data)}, data=fields)


def png(size=(40, 30)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, "red").save(stream, "PNG")
    return stream.getvalue()


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


def test_paths_stay_inside(client, photos, tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(png())
    (photos / "notes.txt").write_text("private")
    inside = f"{photos}/../{photos.name}/1.png"
    for path in ("/etc/passwd", str(secret), inside, str(photos / "notes.txt"), "1.png", "\0", ""):
        for route in ("/items/picture", "/similar"):
            assert client.get(route, params={"id": path}).status_code == 404, path


def test_what_is_known_but_under_no_indexed_folder_is_not_shown(client, library, tmp_path):
    """The catalog alone is not believed: a row of it could name any file."""
    outside = tmp_path / "secret.png"
    outside.write_bytes(png())
    library.catalog.put([File(str(outside), 1, 1, "0" * 32, INDEXED)])
    skipped = tmp_path / "skipped.png"
    library.catalog.put([File(str(skipped), 1, 1, "0" * 32, SKIPPED)])
    try:
        for path in (outside, skipped):
            for route in ("/items/picture", "/similar"):
                assert client.get(route, params={"id": str(path)}).status_code == 404
    finally:
        library.catalog.forget([str(outside), str(skipped)])


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/..\\app.py",
     "/static//../../app.py", "/../app.py", "/static/../../../../../../../../etc/passwd"],
)  # fmt: skip
def test_assets_stay_inside(client, path):
    """Over a bare socket: clients for people tidy such paths up before they send them."""
    with running(client.app) as address:
        place = ("127.0.0.1", int(address.rpartition(":")[2]))
        with socket.create_connection(place, timeout=30) as wire:
            wire.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert wire.recv(1000).startswith(b"HTTP/1.1 404 ")


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


def bomb(side: int) -> bytes:
    """A PNG that says it has so many pixels."""
    data = bytearray(png())
    data[16:24] = 2 * side.to_bytes(4)
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4)
    return bytes(data)


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)


def inflating() -> bytes:
    """A small PNG of few pixels whose texts unpack to 200 MB."""
    start, end = png()[:33], png()[33:]
    text = chunk(b"zTXt", b"note\0\0" + zlib.compress(bytes(50_000_000)))
    return start + 4 * text + end


def frames() -> bytes:
    """A GIF of many frames, of which only the first may cost anything."""
    stream = io.BytesIO()
    some = [Image.new("P", (300, 300), shade) for shade in range(200)]
    some[0].save(stream, "GIF", save_all=True, append_images=some[1:])
    return stream.getvalue()


def archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        made.writestr("../../evil.py", "x")
    return stream.getvalue()


def everything_below(*folders: Path) -> set[str]:
    return {str(path) for folder in folders for path in folder.rglob("*")}


def test_polyglots_and_names_with_paths_are_pictures_and_nothing_else(client, library, photos):
    """What is a picture and something else as well is read as a picture, and never kept."""
    before = everything_below(library.folder, photos)
    for data in (png() + archive(), png() + b"<script>alert(1)</script>", frames()):
        assert upload(client, data).status_code == 200
    for name in ("../../evil.png", "/etc/cron.d/evil", "a\\..\\b.png", "x" * 5000, "p.html", "\0"):
        answer = client.post("/similar", files={"picture": (name, png(), "text/html")})
        assert answer.status_code in (200, 400, 422), name
        assert answer.headers["content-type"] == "application/json"
    assert everything_below(library.folder, photos) == before


def test_wrong_types_are_refused(client):
    assert client.post("/similar", json={"picture": "x"}).status_code == 422
    assert client.post("/similar", data={"picture": "no file"}).status_code == 422
    assert client.post("/similar", files={"picture": ("p.zip", archive())}).status_code == 422
    broken = {"Content-Type": "multipart/form-data; boundary=x"}
    assert client.post("/similar", content=b"--x\r\nnonsense", headers=broken).status_code in (
        400,
        422,
    )
    for body in (b"", b"[", b"[1]", b'{"words": ' + b"[" * 5000, b'{"words": {"a": 1}}', b"\xff"):
        answer = client.post("/search", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), body[:20]
    assert upload(client, png()).status_code == 200


def test_hostile_uploads_are_refused_logged_and_survived(client, caplog):
    hostile = {
        "nothing": b"",
        "noise": os.urandom(1000),
        "large": bomb(7_000),
        "a bomb": bomb(30_000),
        "cut off": png((300, 300))[:200],
        "a script": b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>",
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        "a gif that lies": b"GIF89a\xff\xff\xff\xff\x00\x00\x00",
        "texts that inflate": inflating(),
        "a gif that is a script": b"GIF89a/*" + bytes(20) + b"*/=1;alert(1)",
        "an archive": archive(),
        "a program": b"\x7fELF" + bytes(200),
        "a page": b"<!doctype html><script>alert(1)</script>",
    }
    for name, data in hostile.items():
        answer = upload(client, data)
        assert answer.status_code == 422, name
        assert answer.json()["detail"]
    assert upload(client, os.urandom(300_000)).status_code == 413
    streamed = client.post("/search", content=(b"x" * 50_000 for _ in range(10)))
    assert streamed.status_code == 413
    assert "refused" in caplog.text and "7000 x 7000" in caplog.text
    assert upload(client, png()).status_code == 200


UNFIT = [
    '{"words": "a", "weights": [NaN, 1]}',
    '{"words": "a", "weights": [Infinity, 1]}',
    '{"words": "a", "weights": [-Infinity, 1]}',
    '{"words": "a", "balance": NaN}',
    '{"words": "a", "balance": 1e400}',
    '{"words": "a", "k": 1e400}',
    '{"words": "a", "k": NaN}',
    '{"words": NaN}',
    '{"words": "\\ud800"}',
    '{"words": "a", "also": ["\\udfff"]}',
    '{"words": "a", "without": ["\\udfff"]}',
    '{"words": "a", "like": "\\ud800"}',
    '{"words": "a", "filter": "name = \'\\ud800\'"}',
    '{"words": "a", "\\ud800": 1}',
    '{"words": "a", "private words of mine": "secret"}',
]


@pytest.mark.parametrize("body", UNFIT)
def test_what_json_cannot_hold_is_refused_and_not_repeated(client, body):
    answer = client.post("/search", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    [mistake] = answer.json()["detail"]
    assert set(mistake) == {"where", "message"} and mistake["where"].startswith("body")
    assert "secret" not in answer.text


def test_many_mistakes_are_named_in_part(client):
    answer = client.post("/search", json={f"{n:05}{'x' * 500}": n for n in range(50)})
    assert len(answer.json()["detail"]) == 8 and len(answer.content) < 2000


def test_what_is_asked_for_and_not_there(client, photos):
    words, part = {"words": "a dog"}, {"element": 1}
    for route, more in {"picture": {}, "map": part}.items():
        asked = {"id": str(photos / "none.png"), **more}
        assert client.get(f"/items/{route}", params=asked).status_code == 404
    for route, more in {"/similar": part, "/explain": words}.items():
        answer = client.get(route, params={"id": str(photos / "none.png"), **more})
        assert answer.status_code == 404 and "no such picture" in answer.json()["detail"]
    answer = client.post("/search", json={"like": "gone.png"})
    assert answer.status_code == 404


@pytest.mark.slow
def test_no_question_breaks_it(client):
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings

    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    with running(client.app) as address:
        for operation in schema.get_all_operations():

            @settings(max_examples=10, suppress_health_check=list(HealthCheck), deadline=None)
            @given(case=operation.ok().as_strategy())
            def ask(case):
                answer = case.call(base_url=address)
                assert answer.status_code < 500, answer.text

            ask()
