"""One small library, and a client of its server."""

import pytest
from fastapi.testclient import TestClient
from library.making import make_model, make_pictures
from serve.sending import HERE, LIMITS

from diverset.library.indexing import index_folders
from diverset.library.library import Library
from diverset.search.calibration import Calibration
from diverset.serve.app import create_app


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_pictures(tmp_path_factory.mktemp("photos"), 8)


@pytest.fixture(scope="module")
def library(tmp_path_factory, photos):
    base = tmp_path_factory.mktemp("base")
    with Library.prepare(base / "library", make_model(base / "model")) as opened:
        index_folders(opened, [photos])
        yield opened


@pytest.fixture(scope="module")
def client(library):
    app = create_app(library, limits=LIMITS)
    app.state.diverset.searcher.calibration = Calibration(9, 0, 0)
    with TestClient(app, base_url=HERE) as opened:
        app.state.diverset.ready.wait(60)
        yield opened
