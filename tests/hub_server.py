"""A server with the few requests of the Hugging Face hub that uploading and downloading a small
model take, for tests of the real client without a network."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" + "0" * 34


class HubServer(BaseHTTPRequestHandler):
    """Repositories in memory: {"owner/name": {"file": content}}."""

    repositories: dict[str, dict[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
            self.repositories.setdefault(name, {})
            self._json({"url": f"{self._address()}/{name}"})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            self._json({"files": [_regular(file["path"]) for file in files]})
        elif "/commit/" in self.path:
            name = self.path.removeprefix("/api/models/").split("/commit/")[0]
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.repositories[name][line["value"]["path"]] = content
            url = f"{self._address()}/{name}/commit/{COMMIT}"
            self._json({"commitUrl": url, "commitOid": COMMIT, "success": True})
        elif self.path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        else:
            self._json({"error": f"unknown request {self.path}"}, 404)

    def do_GET(self) -> None:
        if "/resolve/" in self.path:
            self._file(with_content=True)
            return
        path = self.path.partition("?")[0].removeprefix("/api/models/")
        name = "/".join(path.split("/")[:2])
        if name not in self.repositories:
            self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        elif "/tree/" in path:
            files = self.repositories[name].items()
            self._json([_entry(file, content) for file, content in files])
        else:
            files = [{"rfilename": file} for file in self.repositories[name]]
            self._json({"id": name, "modelId": name, "sha": COMMIT, "siblings": files})

    def do_HEAD(self) -> None:
        self._file(with_content=False)

    def _file(self, with_content: bool) -> None:
        name, _, rest = self.path.lstrip("/").partition("/resolve/")
        content = self.repositories[name][rest.partition("/")[2]]
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def _json(self, content: object, status: int = 200, headers: dict[str, str] | None = None):
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def _address(self) -> str:
        host, port = self.server.server_address[:2]
        return f"http://{host}:{port}"

    def log_message(self, *words: object) -> None:
        pass


def _regular(path: str) -> dict[str, object]:
    """The hub's answer for a file that is sent inside the commit."""
    return {"path": path, "uploadMode": "regular", "shouldIgnore": False, "oid": None}


def _entry(path: str, content: bytes) -> dict[str, object]:
    oid = hashlib.sha1(content).hexdigest()
    return {"type": "file", "path": path, "size": len(content), "oid": oid}


@contextmanager
def hub_server() -> Iterator[tuple[str, dict[str, dict[str, bytes]]]]:
    """A running server: its address, and its repositories."""
    repositories: dict[str, dict[str, bytes]] = {}
    handler = type("Handler", (HubServer,), {"repositories": repositories})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", repositories
        finally:
            server.shutdown()
            thread.join()
