"""A running server, and requests of the server tests."""

import io
import socket
import threading
import time
from contextlib import contextmanager

from PIL import Image

from diverset.photos.serve.connections import BoundedServer
from diverset.photos.serve.limits import Limits

LIMITS = Limits(bytes=200_000, pixels=1_000_000)
LOCALHOST = "http://localhost"


@contextmanager
def running_server(app, limits=None):
    """Serve the app on a free port of the loopback interface; yields its address."""
    server = BoundedServer(app, limits or Limits())
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    app.state.diverset.ready.wait(60)
    app.state.server = server
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


def upload(client, data: bytes, **fields):
    return client.post("/similar", files={"image": ("p.png", data)}, data=fields)


def png(size=(40, 30)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, "red").save(stream, "PNG")
    return stream.getvalue()
