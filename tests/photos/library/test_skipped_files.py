"""Files that are not searchable: all are listed, and no name acts on the terminal."""

import json
import os
import socket
import sys

import pytest
from photos.library_support import make_image, make_images, make_model

from diverset.cli import main

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names of arbitrary bytes")
ESCAPES = "\x1b[2J\x1b]0;owned\x07\nforged line.png"


@pytest.fixture
def indexed(tmp_path, capsys):
    photos = make_images(tmp_path / "photos", 2)
    for number in range(25):
        with open(os.fsencode(photos) + b"/odd%d\xff.png" % number, "wb") as file:
            file.write((photos / "0.png").read_bytes())
    os.mkfifo(photos / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(photos / "socket"))
    (photos / f"broken {ESCAPES}").write_bytes(b"not an image")
    make_image(photos / f"fine {ESCAPES}", 7)
    where = ["--library", str(tmp_path / "library")]
    assert main(["index", str(photos), "--model", make_model(tmp_path / "model"), *where]) == 0
    return photos, where, capsys.readouterr()


def test_status_lists_every_file_that_was_left_out(indexed, capsys):
    _, where, printed = indexed
    assert "28 skipped" in printed.out and "and 18 more" in printed.err
    assert main(["status", "--skipped", *where]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("\\udcff.png: the name is not UTF-8" in line for line in lines) == 25
    assert any("pipe.jpg: a named pipe, not a file" in line for line in lines)
    assert any("socket: a socket, not a file" in line for line in lines)
    assert main(["status", "--skipped", "--json", *where]) == 0
    assert len(json.loads(capsys.readouterr().out)["skipped"]) == 28


def test_a_file_that_is_fine_again_is_no_longer_listed(indexed, capsys):
    photos, where, _ = indexed
    (photos / "pipe.jpg").unlink()
    make_image(photos / "pipe.jpg", 9)
    assert main(["index", "--all", *where]) == 0
    capsys.readouterr()
    assert main(["status", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 27


def test_names_cannot_act_on_the_terminal(indexed, capsys):
    _, where, printed = indexed
    texts = [printed.out + printed.err]
    for command in (
        ["status", "--skipped"],
        ["search", "a dog", "-n", "5"],
        ["similar", f"/none/{ESCAPES}"],
        ["index", f"/none/{ESCAPES}"],
    ):
        main([*command, *where])
        captured = capsys.readouterr()
        texts.append(captured.out + captured.err)
    for text in texts:
        assert "\x1b" not in text and "\x07" not in text
        assert not any(line.startswith("forged line") for line in text.splitlines())
    assert r"fine \x1b[2J\x1b]0;owned\x07\nforged line.png" in texts[2]
