"""What the tests of the server send, and where to."""

import io

from PIL import Image

from diverset.serve.guard import Limits

LIMITS = Limits(bytes=200_000, pixels=1_000_000)
HERE = "http://localhost"


def upload(client, data: bytes, **fields):
    return client.post("/similar", files={"picture": ("p.png", data)}, data=fields)


def png(size=(40, 30)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, "red").save(stream, "PNG")
    return stream.getvalue()
