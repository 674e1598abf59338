"""Half-sent requests, stalled uploads and too many connections, over real sockets."""

import contextlib
import http.client
import socket
import time

import pytest
from photos.serve.server_support import png, running_server

from diverset.photos.serve.app import create_app
from diverset.photos.serve.connections import max_open_files
from diverset.photos.serve.limits import Limits

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
QUICK = Limits(
    uploads=2, connections=20, head_seconds=1, body_seconds=1, idle_seconds=1, shutdown_seconds=1
)
HEAD = b"GET /status HTTP/1.1\r\nHost: localhost\r\n"
UPLOAD = (
    b"POST /similar HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
)


@pytest.fixture(scope="module")
def server(library):
    with running_server(create_app(library, limits=QUICK), QUICK) as address:
        yield "127.0.0.1", int(address.rpartition(":")[2])


@contextlib.contextmanager
def opened(server, data: bytes, count: int = 1):
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(server, timeout=10))
            connection.sendall(data)
            made.append(connection)
        yield made


def status(server) -> int:
    connection = http.client.HTTPConnection(*server, timeout=10)
    connection.request("GET", "/status")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def is_closed_within(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        while connection.recv(10_000):
            pass
        return True
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("start", [b"", b"G", HEAD])
def test_a_connection_that_sends_no_whole_request_is_closed(server, start):
    with opened(server, start) as [connection]:
        assert is_closed_within(connection, 5)


def test_sending_slowly_does_not_extend_the_deadline(server):
    with opened(server, HEAD) as [connection]:
        started = time.monotonic()
        with contextlib.suppress(OSError):
            for number in range(50):
                connection.sendall(b"X-%d: 1\r\n" % number)
                time.sleep(0.1)
        assert time.monotonic() - started < 4.5


def whole_answer(connection) -> bytes:
    """Head and JSON body, which may arrive one after the other."""
    answer = connection.recv(10_000)
    while not answer.endswith(b"}"):
        answer += connection.recv(10_000)
    return answer


def test_a_connection_is_kept_open_between_requests_but_not_for_long(server):
    with opened(server, HEAD + b"\r\n") as [connection]:
        assert b"200 OK" in whole_answer(connection)
        connection.sendall(HEAD + b"\r\n")
        assert b"200 OK" in whole_answer(connection)
        assert is_closed_within(connection, 5)


def test_a_body_that_stalls_is_answered_with_408(server):
    with opened(server, UPLOAD) as [connection]:
        connection.settimeout(5)
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


def test_more_uploads_than_allowed_are_told_to_come_back(server):
    with opened(server, UPLOAD, 2), opened(server, UPLOAD) as [third]:
        answer = third.recv(1000).lower()
        assert answer.startswith(b"http/1.1 503 ") and b"retry-after: 2" in answer
        assert status(server) == 200


def test_half_sent_requests_make_room_for_whole_ones(server):
    with opened(server, HEAD, 100) as strangers:
        assert [status(server) for _ in range(30)] == [200] * 30
        closed = sum(is_closed_within(connection, 0.01) for connection in strangers[:50])
        assert closed >= 50  # the oldest


def test_connections_that_are_in_use_stay_open_under_half_sent_requests(server):
    kept = http.client.HTTPConnection(*server, timeout=10)
    for _ in range(5):
        with opened(server, HEAD, 30):
            kept.request("GET", "/status")
            assert kept.getresponse().read()
    kept.close()


def test_small_answers_on_an_open_connection_are_not_delayed(library):
    """Without TCP_NODELAY each takes 40 ms: the second packet waits for an acknowledgement."""
    app = create_app(library, limits=QUICK)
    with running_server(app, QUICK) as address:
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=10)
        connection.request("GET", "/health")
        assert connection.getresponse().read()
        [protocol] = app.state.server.server_state.connections
        accepted = protocol.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.close()


def test_an_upload_in_pieces_is_received(server):
    body = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\n'
    body += png() + b"\r\n--x--\r\n"
    connection = http.client.HTTPConnection(*server, timeout=10)
    connection.putrequest("POST", "/similar")
    connection.putheader("Content-Type", "multipart/form-data; boundary=x")
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    for start in range(0, len(body), 100):
        connection.send(body[start : start + 100])
        time.sleep(0.02)
    assert connection.getresponse().status == 200
    connection.close()


def test_the_number_of_connections_leaves_room_for_files():
    assert max_open_files() > 256
