"""Why an image matches a text."""

import numpy as np
import pytest
import torch

from diverset.model.overlays import attended_area
from diverset.photos.search.explanation import MatchExplanation, explain_match


def test_shares_sum_to_one_and_the_matching_element_has_the_largest():
    elements = np.eye(4, dtype=np.float32)
    explained = explain_match(elements[:1], elements[:3], alpha=16.0)
    assert explained.shares.sum() == pytest.approx(1) and explained.shares.argmax() == 0
    assert explained.cosines.tolist() == [1, 0, 0] and explained.areas is None


def test_an_element_that_attends_to_the_whole_image_says_so():
    everywhere, somewhere = torch.full((9, 9), 0.5), torch.zeros(9, 9)
    somewhere[3:6, 3:6] = 1
    areas = np.array([attended_area(everywhere), attended_area(somewhere)])
    explained = MatchExplanation(0.5, np.array([0.7, 0.3]), np.array([0.4, 0.2]), areas)
    assert explained.describe(0) == "70% of the match (whole image)"
    assert explained.describe(1) == "30% of the match"
