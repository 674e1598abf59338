import numpy as np
import pytest
import torch

from diverset.data import CaptionDataset
from diverset.recipe.splits import SplitData
from diverset.reproduce.demo.showcase import QUERIES, found_first, showcase


@pytest.fixture
def split():
    """Eight images with two captions each."""
    captions = tuple(f"caption {number}" for number in range(16))
    ids = tuple(f"image {number}" for number in range(8))
    dataset = CaptionDataset("pairs", ids, captions, np.repeat(np.arange(8), 2))
    return SplitData(dataset, images=None, texts=None)  # type: ignore[arg-type]


def test_queries_are_the_first_captions_of_the_first_images_whatever_the_scores(split):
    for seed in range(3):
        scores = torch.randn(8, 16, generator=torch.Generator().manual_seed(seed))
        queries = showcase(split, scores)
        assert [query.caption for query in queries] == [0, 2, 4, 6, 8, 10]
        assert [query.image for query in queries] == list(range(QUERIES))


def test_a_query_is_right_if_its_own_image_has_the_highest_score(split):
    scores = torch.zeros(8, 16)
    scores[torch.arange(8), 2 * torch.arange(8)] = 1.0  # every image first for its first caption
    assert found_first(showcase(split, scores)) == QUERIES
    scores[7, 2], scores[6, 2] = 3.0, 2.0  # two others are better for the query of image 1
    queries = showcase(split, scores)
    assert queries[1].rank == 3 and queries[1].hits == (7, 6, 1)
    assert found_first(queries) == QUERIES - 1
