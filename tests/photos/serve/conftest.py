"""A small library, and a client of its server."""

import pytest
from fastapi.testclient import TestClient
from photos.library_support import make_images, make_model
from photos.serve.server_support import LIMITS, LOCALHOST

from diverset.evaluation.calibration import Calibration
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.serve.app import create_app


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("photos"), 8)


@pytest.fixture(scope="module")
def library(tmp_path_factory, photos):
    base = tmp_path_factory.mktemp("base")
    with Library.open_or_create(base / "library", make_model(base / "model")) as opened:
        index_folders(opened, [photos])
        yield opened


@pytest.fixture(scope="module")
def client(library):
    app = create_app(library, limits=LIMITS)
    app.state.diverset.searcher.calibration = Calibration(1, 0)
    with TestClient(app, base_url=LOCALHOST) as opened:
        app.state.diverset.ready.wait(60)
        yield opened
