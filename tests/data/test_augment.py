import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diverset.data import drop_inputs, drop_words
from diverset.errors import OptionError
from diverset.features import ConvolutionalFeatures
from diverset.types import Maps

WORDS = range(4, 1000)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_share_of_kept_inputs_is_keep():
    mask = torch.ones(200, 50, dtype=torch.bool)
    assert abs(drop_inputs(mask, rng()).float().mean() - 0.8) < 0.01


@given(st.integers(0, 2**32), st.floats(0, 1), st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_padding_is_never_kept_and_one_input_always_is(seed: int, keep: float, lengths: list[int]):
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    kept = drop_inputs(mask, rng(seed), keep)
    assert not (kept & ~mask).any()
    assert kept.any(dim=1).all()


def test_keep_of_zero_keeps_one_input_and_the_given_mask():
    mask = torch.tensor([[True, True, True], [True, False, False]])
    assert drop_inputs(mask, rng(), keep=0.0).sum(dim=1).tolist() == [1, 1]
    assert mask.sum(dim=1).tolist() == [3, 1]


def test_dropped_cells_do_not_reach_the_pooled_feature():
    features = ConvolutionalFeatures(8, 4)
    maps = torch.randn(2, 4, 3, 3)
    mask = drop_inputs(torch.ones(2, 9, dtype=torch.bool), rng(), keep=0.5)
    changed = maps.flatten(2).masked_fill(~mask[:, None], 99.0).view_as(maps)
    torch.testing.assert_close(
        features(Maps(maps, mask)).pooled, features(Maps(changed, mask)).pooled
    )


def test_shares_of_masked_replaced_and_deleted_words():
    ids = list(range(100_000, 150_000))
    found = drop_words(ids, rng(), mask_id=3, words=WORDS)
    masked = found.count(3) / len(ids)
    replaced = sum(number in WORDS for number in found) / len(ids)
    deleted = 1 - len(found) / len(ids)
    assert abs(masked - 0.1) < 0.01 and abs(replaced - 0.02) < 0.005 and abs(deleted - 0.08) < 0.01


@given(st.integers(0, 2**32), st.floats(0, 1), st.lists(st.integers(2000, 2050), max_size=6))
def test_start_end_and_at_least_one_word_are_kept(seed: int, rate: float, caption: list[int]):
    found = drop_words([1, *caption, 2], rng(seed), mask_id=3, words=WORDS, rate=rate)
    assert found[0] == 1 and found[-1] == 2
    assert not caption or set(found) & set(caption)


def test_rate_of_zero_changes_nothing():
    assert drop_words([1, 5, 6, 2], rng(), mask_id=3, words=WORDS, rate=0.0) == [1, 5, 6, 2]


def test_other_tokens_can_be_protected():
    found = drop_words(
        [101, 7, 8, 102], rng(), mask_id=103, words=WORDS, protected=(0, 101, 102), rate=1.0
    )
    assert found[0] == 101 and found[-1] == 102 and ({7, 8} & set(found))


def test_same_seed_drops_the_same_words():
    runs = [drop_words(range(50, 90), rng(4), mask_id=3, words=WORDS) for _ in range(2)]
    assert runs[0] == runs[1]


def test_invalid_probabilities_are_rejected_by_name():
    with pytest.raises(OptionError, match="keep is 1.5"):
        drop_inputs(torch.ones(1, 1, dtype=torch.bool), rng(), keep=1.5)
    with pytest.raises(OptionError, match="rate is -1"):
        drop_words([1, 2], rng(), mask_id=3, words=WORDS, rate=-1)
    with pytest.raises(OptionError, match="empty"):
        drop_words([1, 2], rng(), mask_id=3, words=range(4, 4))
