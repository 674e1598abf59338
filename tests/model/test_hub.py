"""Models on the Hugging Face hub: the cache, uploads and downloads, with a server of our own."""

import pytest
import torch
from hub_server import COMMIT, hub_server
from model.model_support import CAPTIONS, make_model

from diverset import Model, load
from diverset.errors import CheckpointError, OptionError

constants = pytest.importorskip("huggingface_hub.constants", reason="pip install 'diverset[hub]'")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the hub, and a working folder without models."""
    folder = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return folder


@pytest.fixture
def server(monkeypatch):
    with hub_server() as (address, repositories):
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setenv("HF_TOKEN", "hf_of_the_test")
        yield repositories


def store_in_cache(cache, name: str, model: Model, commit: str, branch: str = "main") -> None:
    """A model in the layout of the hub's cache: refs/BRANCH names a folder of snapshots/."""
    repository = cache / f"models--{name.replace('/', '--')}"
    model.save_pretrained(repository / "snapshots" / commit)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / branch).write_text(commit)


def test_from_pretrained_finds_a_hub_name_in_the_cache(cache):
    model = make_model()
    store_in_cache(cache, "someone/sets", model, "a" * 40)
    for read in (Model.from_pretrained("someone/sets"), load("someone/sets")):
        assert read.fingerprint() == model.fingerprint()
        assert torch.equal(read.encode_texts(CAPTIONS), model.encode_texts(CAPTIONS))


def test_revision_selects_a_branch_of_the_cache(cache):
    first, second = make_model(), make_model()
    store_in_cache(cache, "someone/sets", first, "a" * 40)
    store_in_cache(cache, "someone/sets", second, "b" * 40, branch="next")
    assert first.fingerprint() != second.fingerprint()
    read = Model.from_pretrained("someone/sets", revision="next")
    assert read.fingerprint() == second.fingerprint()


def test_a_local_folder_takes_precedence_over_the_hub(cache, tmp_path):
    store_in_cache(cache, "runs/sets", make_model(), "a" * 40)
    local = make_model()
    local.save_pretrained("runs/sets")
    assert Model.from_pretrained("runs/sets").fingerprint() == local.fingerprint()
    with pytest.raises(OptionError, match="revision is 'next', but runs/sets is a folder"):
        Model.from_pretrained("runs/sets", revision="next")


def test_a_model_outside_the_cache_is_not_downloaded(cache, server):
    make_model().push_to_hub("someone/sets")
    with pytest.raises(CheckpointError, match="hf download someone/sets"):
        Model.from_pretrained("someone/sets")


def test_a_pushed_model_is_downloaded_and_equal(cache, server):
    model = make_model()
    address = model.push_to_hub("someone/sets", card="# mine\n", private=True)
    assert address.endswith(f"/someone/sets/commit/{COMMIT}")
    assert server["someone/sets"]["README.md"] == b"# mine\n"
    read = Model.from_pretrained("someone/sets", allow_download=True)
    assert read.fingerprint() == model.fingerprint()
    assert Model.from_pretrained("someone/sets").fingerprint() == model.fingerprint()  # cached


def test_pushing_to_a_bad_name_or_without_a_server_is_explained(cache, monkeypatch):
    with pytest.raises(OptionError, match="'sets' is not a name on the hub; give OWNER/NAME"):
        make_model().push_to_hub("sets")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_test")
    with pytest.raises(CheckpointError, match="cannot upload someone/sets .*hf auth whoami"):
        make_model().push_to_hub("someone/sets")
