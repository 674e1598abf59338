import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import random_sets

from diverset.errors import InputError, OptionError
from diverset.evaluation import Member, top_ranked
from diverset.evaluation.top import stable_top
from diverset.similarity import similarity_matrix


@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 8), st.integers(0, 1000))
def test_ties_keep_the_order_of_the_collection(count, depth, distinct, seed):
    scores = torch.randint(distinct, (4, count), generator=torch.Generator().manual_seed(seed))
    values, items = stable_top(scores.float(), depth)
    expected = np.argsort(-scores.numpy(), axis=1, kind="stable")[:, :depth]
    assert items.tolist() == expected.tolist()
    assert torch.equal(values, scores.float().gather(1, items))


def test_blocks_equal_a_stable_sort_of_all_scores():
    # Few numbers, all of them exact in every order of summation, so that there are many ties.
    corners = torch.tensor([[a, b, c, d] for a in (1, -1) for b in (1, -1) for c in (1, -1)
                            for d in (1, -1)]) / 2  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    images = corners[torch.randint(16, (300, 2), generator=generator)]
    texts = corners[torch.randint(16, (700, 2), generator=generator)]
    scores = similarity_matrix(images, texts, "mil").numpy()
    result = top_ranked([Member(images, texts, "mil")], texts=25, images=9, max_memory=2**20)
    assert np.array_equal(result.image_to_text, np.argsort(-scores, 1, "stable")[:, :25])
    assert np.array_equal(result.text_to_image, np.argsort(-scores.T, 1, "stable")[:, :9])


def test_small_collections_give_short_rankings():
    member = Member(random_sets(3, 2, 8), random_sets(4, 2, 8))
    result = top_ranked([member], texts=10, images=10)
    assert result.image_to_text.shape == (3, 4) and result.text_to_image.shape == (4, 3)


def test_bad_input_is_rejected():
    images, texts = random_sets(3, 2, 8), random_sets(4, 2, 8)
    with pytest.raises(OptionError, match="texts is 0"):
        top_ranked([Member(images, texts)], texts=0)
    scores = torch.zeros(3, 4)
    scores[1, 2] = torch.nan
    with pytest.raises(InputError, match="image 1 and text 2 score nan"):
        top_ranked([Member(images, texts, lambda a, b: scores)])
