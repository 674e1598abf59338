"""Hubness correction against a naive loop, and that it helps where there is a hub."""

import numpy as np
import pytest
import torch
from support import random_sets

from diverset.errors import OptionError
from diverset.evaluation import Bank, Member, choose_weight, evaluate_corrected, evaluate_sets
from diverset.evaluation.protocols import Protocol
from diverset.similarity import MatchProbability, smooth_chamfer

OWNERS = np.array([0, 0, 1, 2, 2, 3])


def member(**options) -> Member:
    return Member(random_sets(4, 2, 8, seed=1), random_sets(6, 3, 8, seed=2), **options)


def bank(**options) -> Bank:
    return Bank(random_sets(7, 2, 8, seed=3), random_sets(9, 3, 8, seed=4), 3, **options)


def test_biases_and_ranks_are_those_of_a_loop():
    one, queries = member(options={"alpha": 4.0}), bank(weight=0.7)
    scores = smooth_chamfer(one.images, one.texts, 4.0).numpy().astype(np.float64)
    against_texts = smooth_chamfer(one.images, queries.texts, 4.0).numpy()
    against_images = smooth_chamfer(queries.images, one.texts, 4.0).numpy()
    image_bias = [np.sort(row)[-3:].mean() for row in against_texts]
    text_bias = [np.sort(column)[-3:].mean() for column in against_images.T]
    found = queries.biases(one)
    np.testing.assert_allclose(found[0], image_bias, rtol=1e-5)
    np.testing.assert_allclose(found[1], text_bias, rtol=1e-5)
    for_texts = scores - 0.7 * np.array(image_bias)[:, None]
    for_images = scores - 0.7 * np.array(text_bias)
    text_ranks = [
        1 + sum(for_texts[i, t] >= for_texts[OWNERS[t], t] for i in range(4) if i != OWNERS[t])
        for t in range(6)
    ]
    image_ranks = []
    for image in range(4):
        best = max(for_images[image, t] for t in range(6) if OWNERS[t] == image)
        image_ranks.append(
            1 + sum(for_images[image, t] >= best for t in range(6) if OWNERS[t] != image)
        )
    report = evaluate_corrected([one], [queries], OWNERS)
    assert report.ranks.text_to_image.tolist() == text_ranks
    assert report.ranks.image_to_text.tolist() == image_ranks


@pytest.mark.parametrize("similarity", ["smooth_chamfer", "mil", MatchProbability(2.0, 0.0)])
def test_a_weight_of_0_corrects_nothing(similarity):
    one = member(similarity=similarity)
    plain = evaluate_sets(one.images, one.texts, OWNERS, similarity)
    report = evaluate_corrected([one, one], [bank(weight=0.0)] * 2, OWNERS)
    assert report.image_to_text == plain.image_to_text
    assert report.text_to_image == plain.text_to_image
    halves = Protocol("halves", fold_size=2)
    assert evaluate_corrected([one], [bank()], OWNERS, halves).protocol == "halves"


def test_a_hub_is_taken_back():
    """A picture near to every caption wins them all, until training captions say so."""
    chance = torch.Generator().manual_seed(0)
    common = torch.zeros(16)
    common[0] = 1.0
    own = torch.nn.functional.normalize(torch.randn(8, 16, generator=chance), dim=-1)

    def texts(centres):
        return torch.nn.functional.normalize(0.8 * centres + common, dim=-1)[:, None]

    images = torch.nn.functional.normalize(own + 0.3 * common, dim=-1)
    images[0] = torch.nn.functional.normalize(own[0] + 4 * common, dim=0)
    one = Member(images[:, None], texts(own), "mil")
    plain = evaluate_sets(one.images, one.texts, np.arange(8), "mil")
    others = torch.nn.functional.normalize(torch.randn(20, 16, generator=chance), dim=-1)
    queries = Bank(others[:, None], texts(others), 5)
    chosen = choose_weight(one, queries, np.arange(8))
    corrected = evaluate_corrected([one], [chosen], np.arange(8))
    assert chosen.weight > 0 and corrected.text_to_image.r1 > plain.text_to_image.r1


def test_more_neighbours_than_queries():
    with pytest.raises(OptionError, match="8 neighbours of a bank of 7"):
        Bank(random_sets(7, 2, 8), random_sets(9, 2, 8), 8)
