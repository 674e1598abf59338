"""What a search loads, and how results are rounded."""

import subprocess
import sys

import pytest
from photos.library_support import make_images, make_model

from diverset import Library, Model, Searcher, SearchQuery, index_folders
from diverset.errors import OptionError
from diverset.evaluation.calibration import Calibration


@pytest.fixture
def library(tmp_path):
    with Library.open_or_create(tmp_path / "library", make_model(tmp_path / "model")) as library:
        index_folders(library, [make_images(tmp_path / "photos", 12)])
    with Library.open(tmp_path / "library") as library:
        yield library


def test_a_text_search_does_not_load_the_image_backbone(library, monkeypatch):
    def fail(model):
        raise AssertionError("the image backbone was loaded")

    monkeypatch.setattr(Model, "image_backbone", fail)
    encoder = library.encoder
    result = Searcher(library).search(SearchQuery("a dog", required=["snow"]))
    assert len(result.hits) == 12
    with pytest.raises(AssertionError, match="was loaded"):
        encoder.open(library.folder.parent / "photos" / "0.png")


def test_a_text_search_builds_the_text_side_of_the_model_only(library):
    result = Searcher(library).search(SearchQuery("a dog"))
    assert len(result.hits) == 12 and "model" not in vars(library)
    assert not list(library.text_model.image_encoder.parameters())
    whole = Searcher(Library(library.folder, library.catalog))
    assert whole.library.encoder.model is whole.library.text_model  # not loaded a second time
    scores = [hit.score for hit in whole.search(SearchQuery("a dog")).hits]
    assert scores == [hit.score for hit in result.hits]


def test_loading_the_text_side_of_the_shipped_model_imports_nothing_that_takes_long():
    """torch's compiler, sympy and the transformers library take longer than a search."""
    program = (
        "import sys, torch; before = set(sys.modules); import diverset; "
        "diverset.load('photos', texts_only=True).encode_texts(['a dog']); "
        "print(*(name for name in set(sys.modules) - before if '.' not in name))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert not {"sympy", "transformers", "onnx", "faiss"} & set(done.stdout.decode().split())


def test_an_element_that_an_image_does_not_have_is_rejected(library):
    searcher = Searcher(library)
    image = searcher.encode_image(library.folder.parent / "photos" / "0.png")
    with pytest.raises(OptionError, match="there is no element 4; images have elements 1 to 3"):
        searcher.search(SearchQuery(), image, element=3)


def test_weak_hits_are_returned_with_a_note_and_cut_only_by_the_minimum_probability(library):
    searcher = Searcher(library, Calibration(-9, 0, thresholds=[[9] * 4] * 3))
    result = searcher.search(SearchQuery("a dog", k=5))
    assert len(result.hits) == 5 and result.confidence == "weak"
    assert result.note == "probably nothing like this here"
    assert searcher.search(SearchQuery("a dog", min_probability=0.5)).hits == []
    with pytest.raises(OptionError, match="the model has no calibration"):
        Searcher(library).search(SearchQuery("a dog", min_probability=0.5))
    with pytest.raises(OptionError, match="the minimum probability is 50"):
        SearchQuery("a dog", min_probability=50)


def test_contradictory_options_are_rejected():
    with pytest.raises(OptionError, match="weights have no effect"):
        SearchQuery("a dog", coverage=True, weights=[1, 2])
    with pytest.raises(OptionError, match="balance is 2"):
        SearchQuery("a dog", balance=2)
