"""`diverset serve` as a process of its own."""

import contextlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from urllib.error import HTTPError

import pytest

from diverset.cli import main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGTERM")


@contextlib.contextmanager
def serving(library):
    command = [sys.executable, "-m", "diverset", "serve", "--port", "0"]
    command += ["--library", str(library.folder)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as run:
        try:
            link = run.stdout.readline().split()[0]
            wait_until_ready(link)
            yield run, link
        finally:
            run.kill()


def wait_until_ready(link: str) -> None:
    address = link.partition("/?")[0].rstrip("/")
    for _ in range(600):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{address}/ready", timeout=5).close()
            return
        time.sleep(0.1)
    raise AssertionError("not ready")


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def test_the_printed_link_has_a_token_and_stopping_waits_for_nobody(library):
    with serving(library) as (run, link):
        address, _, token = link.partition("?token=")
        assert len(token) >= 32
        assert status(f"{address}status") == 401
        jar = urllib.request.HTTPCookieProcessor()
        with urllib.request.build_opener(jar).open(link, timeout=30) as page:
            assert b"<title>diverset</title>" in page.read()
        port = int(address.rstrip("/").rpartition(":")[2])
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                half = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                half.sendall(b"POST /search HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            started = time.monotonic()
            run.send_signal(signal.SIGTERM)
            run.wait(15)
        assert time.monotonic() - started < 10
        errors = run.stderr.read()
        assert "Traceback" not in errors and len(errors) < 2000


def printed_link(monkeypatch, capsys, library, *options: str) -> str:
    """What `diverset serve` prints, without serving."""
    monkeypatch.setattr(
        "diverset.photos.serve.connections.BoundedServer.run", lambda *_, **__: None
    )
    assert main(["serve", "--port", "0", "--library", str(library.folder), *options]) == 0
    return capsys.readouterr().out.split()[0]


def test_the_token_can_be_switched_off_on_this_machine_only(library, monkeypatch, capsys):
    assert "token" not in printed_link(monkeypatch, capsys, library, "--no-token")
    assert main(["serve", "--no-token", "--host", "0.0.0.0"]) == 2
    assert "leave out --no-token" in capsys.readouterr().err


def test_a_chosen_token_is_not_printed(library, monkeypatch, capsys):
    monkeypatch.setenv("DIVERSET_TOKEN", "a-token-of-32-characters-or-so")
    assert printed_link(monkeypatch, capsys, library).endswith("/")
