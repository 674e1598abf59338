"""Hubness correction against a naive loop, and that it helps where there is a hub."""

import numpy as np
import pytest
import torch
from support import random_sets

from diverset.errors import OptionError
from diverset.evaluation import Member, QueryBank, choose_weight, evaluate_corrected, evaluate_sets
from diverset.evaluation.sets import Protocol
from diverset.similarity import MatchProbability, smooth_chamfer

IMAGE_INDEX = np.array([0, 0, 1, 2, 2, 3])


def member(**options) -> Member:
    return Member(random_sets(4, 2, 8, seed=1), random_sets(6, 3, 8, seed=2), **options)


def bank(**options) -> QueryBank:
    return QueryBank(random_sets(7, 2, 8, seed=3), random_sets(9, 3, 8, seed=4), 3, **options)


def test_biases_and_ranks_equal_a_naive_loop():
    model, queries = member(options={"alpha": 4.0}), bank(weight=0.7)
    scores = smooth_chamfer(model.images, model.texts, 4.0).numpy().astype(np.float64)
    to_texts = smooth_chamfer(model.images, queries.texts, 4.0).numpy()
    to_images = smooth_chamfer(queries.images, model.texts, 4.0).numpy()
    image_bias = [np.sort(row)[-3:].mean() for row in to_texts]
    text_bias = [np.sort(column)[-3:].mean() for column in to_images.T]
    biases = queries.biases(model)
    np.testing.assert_allclose(biases[0], image_bias, rtol=1e-5)
    np.testing.assert_allclose(biases[1], text_bias, rtol=1e-5)
    for_texts = scores - 0.7 * np.array(image_bias)[:, None]
    for_images = scores - 0.7 * np.array(text_bias)
    text_ranks = [
        1
        + sum(
            for_texts[i, t] >= for_texts[IMAGE_INDEX[t], t] for i in range(4) if i != IMAGE_INDEX[t]
        )
        for t in range(6)
    ]
    image_ranks = []
    for image in range(4):
        best = max(for_images[image, t] for t in range(6) if IMAGE_INDEX[t] == image)
        image_ranks.append(
            1 + sum(for_images[image, t] >= best for t in range(6) if IMAGE_INDEX[t] != image)
        )
    report = evaluate_corrected([model], [queries], IMAGE_INDEX)
    assert report.ranks.text_to_image.tolist() == text_ranks
    assert report.ranks.image_to_text.tolist() == image_ranks


@pytest.mark.parametrize("similarity", ["smooth_chamfer", "mil", MatchProbability(2.0, 0.0)])
def test_weight_0_changes_nothing(similarity):
    model = member(similarity=similarity)
    plain = evaluate_sets(model.images, model.texts, IMAGE_INDEX, similarity)
    report = evaluate_corrected([model, model], [bank(weight=0.0)] * 2, IMAGE_INDEX)
    assert report.image_to_text == plain.image_to_text
    assert report.text_to_image == plain.text_to_image
    halves = Protocol("halves", fold_size=2)
    corrected = evaluate_corrected([model], [bank()], IMAGE_INDEX, halves)
    assert corrected.protocol == "halves (mean of 2 folds)"


def test_correction_helps_against_a_hub():
    """An image similar to every caption wins all queries until it is corrected."""
    rng = torch.Generator().manual_seed(0)
    common = torch.zeros(16)
    common[0] = 1.0
    own = torch.nn.functional.normalize(torch.randn(8, 16, generator=rng), dim=-1)

    def texts(centres):
        return torch.nn.functional.normalize(0.8 * centres + common, dim=-1)[:, None]

    images = torch.nn.functional.normalize(own + 0.3 * common, dim=-1)
    images[0] = torch.nn.functional.normalize(own[0] + 4 * common, dim=0)
    model = Member(images[:, None], texts(own), "mil")
    plain = evaluate_sets(model.images, model.texts, np.arange(8), "mil")
    others = torch.nn.functional.normalize(torch.randn(20, 16, generator=rng), dim=-1)
    queries = QueryBank(others[:, None], texts(others), 5)
    tuned = choose_weight(model, queries, np.arange(8))
    corrected = evaluate_corrected([model], [tuned], np.arange(8))
    assert tuned.weight > 0 and corrected.text_to_image.r1 > plain.text_to_image.r1


def test_more_neighbours_than_queries_are_rejected():
    with pytest.raises(OptionError, match="8 neighbours of a bank of 7"):
        QueryBank(random_sets(7, 2, 8), random_sets(9, 2, 8), 8)
