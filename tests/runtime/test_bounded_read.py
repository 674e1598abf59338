import os
import socket

import pytest

from diverset.errors import DataError
from diverset.runtime.bounded_read import read_file


def test_a_file_is_read_up_to_a_size(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    with pytest.raises(DataError, match="has more than 0 MiB"):
        read_file(path, 4)


def test_a_pipe_is_rejected_without_waiting_for_a_writer(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(DataError, match=r"pipe\.jpg is a named pipe"):
        read_file(tmp_path / "pipe.jpg", 10)


def test_devices_folders_sockets_and_missing_files_are_named(tmp_path):
    with pytest.raises(DataError, match="is a device"):
        read_file("/dev/zero", 10)
    with pytest.raises(DataError, match="is a folder"):
        read_file(tmp_path, 10)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "gone", 10)
    with pytest.raises(DataError, match="is not a path"):
        read_file("a\0b", 10)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises((DataError, OSError)):
            read_file(tmp_path / "socket", 10)
