"""What strangers send: ways out, bombs, polyglots, unfit questions, and schemathesis's."""

import io
import os
import socket
import zipfile
import zlib
from pathlib import Path

import pytest
from PIL import Image
from serve.running import running
from serve.sending import png, upload

from diverset.library.catalog import INDEXED, SKIPPED, File

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def test_paths_stay_inside(client, photos, tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(png())
    (photos / "notes.txt").write_text("private")
    inside = f"{photos}/../{photos.name}/1.png"
    for path in ("/etc/passwd", str(secret), inside, str(photos / "notes.txt"), "1.png", "\0", ""):
        for route in ("/items/picture", "/similar"):
            assert client.get(route, params={"id": path}).status_code == 404, path


def test_a_row_of_the_catalog_alone_does_not_show_a_file(client, library, photos, tmp_path):
    """Outside of the indexed folders, by a way out of them, or not indexed."""
    for folder in (tmp_path, photos):
        (folder / "more.png").write_bytes(png())
    way_out = f"{photos}/../{photos.name}/more.png"
    rows = [
        (str(tmp_path / "more.png"), INDEXED),
        (way_out, INDEXED),
        (f"{photos}/more.png", SKIPPED),
    ]
    library.catalog.put(File(path, 1, 1, "0" * 32, status) for path, status in rows)
    try:
        for path, _ in rows:
            for route in ("/items/picture", "/similar"):
                assert client.get(route, params={"id": path}).status_code == 404, path
    finally:
        library.catalog.forget(path for path, _ in rows)
        (photos / "more.png").unlink()


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
