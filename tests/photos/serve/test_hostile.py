"""Hostile requests: path traversal, decompression bombs, polyglots, invalid JSON, fuzzing."""

import io
import os
import socket
import zipfile
import zlib
from pathlib import Path

import pytest
from photos.serve.server_support import png, running_server, upload
from PIL import Image

from diverset.errors import NotFoundError
from diverset.photos.library.catalog import INDEXED, SKIPPED, FileRecord

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def test_only_indexed_files_can_be_read(client, photos, tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(png())
    (photos / "notes.txt").write_text("private")
    inside = f"{photos}/../{photos.name}/1.png"
    for path in ("/etc/passwd", str(secret), inside, str(photos / "notes.txt"), "1.png", "\0", ""):
        for route in ("/items/image", "/similar"):
            assert client.get(route, params={"id": path}).status_code == 404, path


def test_a_record_in_the_catalog_is_not_enough_to_read_a_file(client, library, photos, tmp_path):
    """It may lie outside of the indexed folders, directly or by a "..", or be skipped."""
    for folder in (tmp_path, photos):
        (folder / "more.png").write_bytes(png())
    outside = f"{photos}/../{photos.name}/more.png"
    rows = [
        (str(tmp_path / "more.png"), INDEXED),
        (outside, INDEXED),
        (f"{photos}/more.png", SKIPPED),
    ]
    library.catalog.put_files(FileRecord(path, 1, 1, "0" * 32, status) for path, status in rows)
    try:
        for path, _ in rows:
            for route in ("/items/image", "/similar"):
                assert client.get(route, params={"id": path}).status_code == 404, path
    finally:
        library.catalog.remove_files(path for path, _ in rows)
        (photos / "more.png").unlink()


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/..\\app.py",
     "/static//../../app.py", "/../app.py", "/static/../../../../../../../../etc/passwd"],
)  # fmt: skip
def test_static_files_outside_of_the_folder_are_not_served(client, path):
    """Over a socket: HTTP clients normalise such paths before they send them."""
    with running_server(client.app) as address:
        host = ("127.0.0.1", int(address.rpartition(":")[2]))
        with socket.create_connection(host, timeout=30) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert connection.recv(1000).startswith(b"HTTP/1.1 404 ")


def bomb(side: int) -> bytes:
    """A PNG whose header claims this size."""
    data = bytearray(png())
    data[16:24] = 2 * side.to_bytes(4)
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4)
    return bytes(data)


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)


def inflating() -> bytes:
    """A small PNG whose text chunks decompress to 200 MB."""
    start, end = png()[:33], png()[33:]
    text = chunk(b"zTXt", b"note\0\0" + zlib.compress(bytes(50_000_000)))
    return start + 4 * text + end


def frames() -> bytes:
    """A GIF of many frames, of which only the first should be decoded."""
    stream = io.BytesIO()
    first, *others = [Image.new("P", (300, 300), shade) for shade in range(200)]
    first.save(stream, "GIF", save_all=True, append_images=others)
    return stream.getvalue()


def archive() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive_file:
        archive_file.writestr("../../evil.py", "x")
    return stream.getvalue()


def everything_below(*folders: Path) -> set[str]:
    return {str(path) for folder in folders for path in folder.rglob("*")}


def test_uploads_are_only_read_as_images_and_never_stored(client, library, photos):
    """Also images that are archives or scripts as well, and names with paths."""
    before = everything_below(library.folder, photos)
    for data in (png() + archive(), png() + b"<script>alert(1)</script>", frames()):
        assert upload(client, data).status_code == 200
    for name in ("../../evil.png", "/etc/cron.d/evil", "a\\..\\b.png", "x" * 5000, "p.html", "\0"):
        response = client.post("/similar", files={"image": (name, png(), "text/html")})
        assert response.status_code in (200, 400, 422), name
        assert response.headers["content-type"] == "application/json"
    assert everything_below(library.folder, photos) == before


def test_requests_of_a_wrong_type_are_rejected(client):
    assert client.post("/similar", json={"image": "x"}).status_code == 422
    assert client.post("/similar", data={"image": "no file"}).status_code == 422
    assert client.post("/similar", files={"image": ("p.zip", archive())}).status_code == 422
    broken = {"Content-Type": "multipart/form-data; boundary=x"}
    assert client.post("/similar", content=b"--x\r\nnonsense", headers=broken).status_code in (
        400,
        422,
    )
    for body in (b"", b"[", b"[1]", b'{"text": ' + b"[" * 5000, b'{"text": {"a": 1}}', b"\xff"):
        response = client.post(
            "/search", content=body, headers={"Content-Type": "application/json"}
        )
        assert response.status_code in (400, 422), body[:20]
    assert upload(client, png()).status_code == 200


def test_hostile_uploads_are_rejected_and_logged(client, caplog):
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
        response = upload(client, data)
        assert response.status_code == 422, name
        assert response.json()["detail"]
    assert upload(client, os.urandom(300_000)).status_code == 413
    streamed = client.post("/search", content=(b"x" * 50_000 for _ in range(10)))
    assert streamed.status_code == 413
    assert "rejected" in caplog.text and "7000 x 7000" in caplog.text
    assert upload(client, png()).status_code == 200


INVALID = [
    '{"text": "a", "weights": [NaN, 1]}',
    '{"text": "a", "weights": [Infinity, 1]}',
    '{"text": "a", "weights": [-Infinity, 1]}',
    '{"text": "a", "balance": NaN}',
    '{"text": "a", "balance": 1e400}',
    '{"text": "a", "k": 1e400}',
    '{"text": "a", "k": NaN}',
    '{"text": NaN}',
    '{"text": "\\ud800"}',
    '{"text": "a", "required": ["\\udfff"]}',
    '{"text": "a", "excluded": ["\\udfff"]}',
    '{"text": "a", "image_id": "\\ud800"}',
    '{"text": "a", "filter": "name = \'\\ud800\'"}',
    '{"text": "a", "\\ud800": 1}',
    '{"text": "a", "private text": "secret"}',
]


@pytest.mark.parametrize("body", INVALID)
def test_invalid_values_are_rejected_and_not_repeated(client, body):
    response = client.post("/search", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    [error] = response.json()["detail"]
    assert set(error) == {"field", "message"} and error["field"].startswith("body")
    assert "secret" not in response.text


def test_only_the_first_errors_of_a_request_are_listed(client):
    response = client.post("/search", json={f"{n:05}{'x' * 500}": n for n in range(50)})
    assert len(response.json()["detail"]) == 8 and len(response.content) < 2000


def test_unknown_images_are_not_found(client, photos):
    text, element = {"text": "a dog"}, {"element": 1}
    for route, more in {"image": {}, "info": {}, "overlay": element}.items():
        params = {"id": str(photos / "none.png"), **more}
        assert client.get(f"/items/{route}", params=params).status_code == 404
    for route, more in {"/similar": element, "/explain": text}.items():
        response = client.get(route, params={"id": str(photos / "none.png"), **more})
        assert response.status_code == 404 and "no such image" in response.json()["detail"]
    response = client.post("/search", json={"image_id": "gone.png"})
    assert response.status_code == 404


@pytest.mark.slow
def test_random_requests_cause_no_internal_error(client):
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings

    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    with running_server(client.app) as address:
        for operation in schema.get_all_operations():

            @settings(max_examples=10, suppress_health_check=list(HealthCheck), deadline=None)
            @given(case=operation.ok().as_strategy())
            def send(case):
                response = case.call(base_url=address)
                assert response.status_code < 500, response.text

            send()


def test_a_file_that_was_replaced_is_never_served(client, library, photos):
    """Neither after it was replaced by another image, nor by a link to one."""
    path, kept = photos / "3.png", photos.parent / "kept.png"
    other = photos.parent / "other.png"
    other.write_bytes(png((50, 50)))
    file = client.app.state.diverset.file(str(path))  # checked before it is replaced
    os.rename(path, kept)
    try:
        for replace in (lambda: path.write_bytes(png((50, 50))), lambda: path.symlink_to(other)):
            replace()
            for side in (256, 512):
                assert (
                    client.get("/items/image", params={"id": str(path), "side": side}).status_code
                    == 404
                )
            for show in (client.app.state.diverset.thumbnail, client.app.state.diverset.overlay):
                with pytest.raises(NotFoundError):
                    show(file, 1)
            path.unlink()
    finally:
        os.rename(kept, path)
    assert client.get("/items/image", params={"id": str(path)}).status_code == 200


def test_a_link_that_is_exchanged_while_it_is_resolved_is_no_internal_error(
    client, photos, monkeypatch
):
    def exchanged(*_, **__):
        raise OSError(22, "Invalid argument")  # of readlink, for what is a file by now

    monkeypatch.setattr("diverset.photos.library.library.os.path.realpath", exchanged)
    response = client.get("/items/image", params={"id": str(photos / "1.png")})
    assert response.status_code == 404
