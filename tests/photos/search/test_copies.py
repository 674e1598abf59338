"""Identical files are one hit, and the queried image is left out of its own results."""

import shutil

import pytest
from photos.library_support import make_image, make_images, make_model

from diverset.evaluation.calibration import Calibration
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.search.query import SearchQuery
from diverset.photos.search.searcher import Searcher


@pytest.fixture
def searcher(tmp_path):
    """Six images, of which two have copies: 0.png three times, 1.png twice."""
    photos = make_images(tmp_path / "photos", 6)
    for source, name in ((0, "a"), (0, "b"), (1, "c")):
        copy = photos / "copies" / f"{name}.png"
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(photos / f"{source}.png", copy)
    with Library.open_or_create(tmp_path / "library", make_model(tmp_path / "model")) as library:
        index_folders(library, [photos])
        yield Searcher(library)


def names(result) -> list[str]:
    return [hit.metadata["name"] for hit in result.hits]


def test_copies_are_one_hit_with_the_other_paths(searcher, tmp_path):
    result = searcher.search(SearchQuery("a dog", k=20))
    assert len(result.hits) == result.total == 6
    by_group = {frozenset([hit.id, *hit.copies]) for hit in result.hits}
    photos = tmp_path / "photos"
    zero = {str(photos / name) for name in ("0.png", "copies/a.png", "copies/b.png")}
    one = {str(photos / name) for name in ("1.png", "copies/c.png")}
    assert {frozenset(zero), frozenset(one)} < by_group
    assert sum(len(hit.copies) for hit in result.hits) == 3


@pytest.mark.parametrize("query", [{}, {"required": ["snow"]}, {"coverage": True}])
def test_pages_of_hits_join_to_the_whole_ranking(searcher, query):
    whole = names(searcher.search(SearchQuery("a dog", k=20, **query)))
    pages = [
        searcher.search(SearchQuery("a dog", k=2, offset=offset, **query))
        for offset in range(0, 8, 2)
    ]
    assert [name for page in pages for name in names(page)] == whole
    assert [len(page.hits) for page in pages] == [2, 2, 2, 0]
    assert {page.total for page in pages} == {6}


@pytest.mark.parametrize("query", [{}, {"required": ["snow"]}, {"coverage": True}])
def test_probabilities_fall_from_page_to_page(searcher, query):
    calibrated = Searcher(searcher.library, Calibration(-6.0, similarity=12.0))
    pages = [
        calibrated.search(SearchQuery("a dog", k=2, offset=offset, **query))
        for offset in range(0, 6, 2)
    ]
    probabilities = [hit.probability for page in pages for hit in page.hits]
    assert len(set(probabilities)) > 1
    assert probabilities == sorted(probabilities, reverse=True)


def test_only_copies_that_pass_the_filter_are_hits(searcher, tmp_path):
    folder = tmp_path / "photos" / "copies"
    result = searcher.search(SearchQuery("a dog", filter=f"folder under '{folder}'"))
    assert len(result.hits) == result.total == 2
    assert all("/copies/" in hit.id for hit in result.hits)


def test_the_queried_image_and_its_copies_are_left_out(searcher, tmp_path):
    for path in (tmp_path / "photos" / "0.png", tmp_path / "photos" / "copies" / "b.png"):
        query = SearchQuery(k=20, leave_out=str(path))
        result = searcher.search(query, searcher.encode_image(path))
        assert sorted(names(result), key=len)[0] != "0.png"
        assert len(result.hits) == result.total == 5
        assert not {"0.png", "a.png", "b.png"} & set(names(result))


def test_an_image_outside_of_the_library_finds_its_copy(searcher, tmp_path):
    outside = tmp_path / "outside.png"
    shutil.copy(tmp_path / "photos" / "3.png", outside)
    query = SearchQuery(k=1, leave_out=str(outside))
    assert names(searcher.search(query, searcher.encode_image(outside))) == ["3.png"]


def test_copies_are_noticed_while_the_library_is_open(searcher, tmp_path):
    photos = tmp_path / "photos"
    assert searcher.search(SearchQuery("a dog")).total == 6
    shutil.copy(photos / "4.png", photos / "new.png")
    make_image(photos / "copies" / "c.png", 77)  # no copy of 1.png any more
    index_folders(searcher.library, [photos])
    result = searcher.search(SearchQuery("a dog", k=20))
    assert result.total == len(result.hits) == 7
    assert sum(len(hit.copies) for hit in result.hits) == 3
