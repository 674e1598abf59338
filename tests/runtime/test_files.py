from pathlib import Path

import pytest

from diverset.errors import DataError
from diverset.runtime import files
from diverset.runtime.files import (
    delete_unused,
    read_json_object,
    read_lines,
    write_durably,
    write_json,
)


def test_failed_write_leaves_the_old_content(tmp_path, monkeypatch):
    target = tmp_path / "a.txt"
    write_durably(target, b"old")

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_durably(target, b"new")
    assert target.read_bytes() == b"old"


def test_json_is_read_back(tmp_path):
    write_json(tmp_path / "a.json", {"a": [1, 2]})
    assert read_json_object(tmp_path / "a.json") == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "not complete JSON .* at line 1"), ("[]", "holds a list, not a JSON object")],
)
def test_json_errors_name_the_file_and_the_next_step(tmp_path, content, message):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=rf"a\.json.*{message}.*; extract again"):
        read_json_object(tmp_path / "a.json", "extract again")


def test_lines_are_split_at_newlines_only(tmp_path):
    (tmp_path / "a.txt").write_text("one\u2028two \nthree\n\n", encoding="utf-8")
    assert read_lines(tmp_path / "a.txt") == ["one\u2028two", "three"]


def test_a_file_in_use_is_left_to_the_next_sweep(tmp_path, monkeypatch):
    (tmp_path / "used").write_text("x")
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(PermissionError()))
    delete_unused(tmp_path / "used")
    assert (tmp_path / "used").exists()
