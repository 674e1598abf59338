"""What `encode_images` and `encode_texts` accept, and how they reject the rest."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model.model_support import CAPTIONS, VOCABULARY, make_config, make_model

from diverset import Model
from diverset.errors import InputError, OptionError, ShapeError
from diverset.types import Padded


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 999))
def test_an_image_set_does_not_depend_on_the_other_images_of_its_batch(lengths, seed):
    torch.manual_seed(seed)
    model = make_model()
    regions = [torch.randn(n, 12) for n in lengths]
    together = model.encode_images(regions)
    alone = torch.cat([model.encode_images([image]) for image in regions])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)


def test_a_text_set_does_not_depend_on_the_other_texts_of_its_batch():
    model = make_model()
    together = model.encode_texts(CAPTIONS)
    alone = torch.cat([model.encode_texts([text]) for text in CAPTIONS])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)
    by_two = model.encode_texts(CAPTIONS, batch_size=2)
    torch.testing.assert_close(together, by_two, atol=1e-6, rtol=0)


def test_strings_word_ids_and_padded_ids_give_the_same_sets():
    model = make_model()
    ids = [VOCABULARY.encode(caption) for caption in CAPTIONS]
    padded = Padded.of([torch.tensor(text) for text in ids])
    expected = model.encode_texts(CAPTIONS)
    assert torch.equal(model.encode_texts(ids), expected)
    assert torch.equal(model.encode_texts(padded.values), expected)
    assert torch.equal(model.encode_texts(padded.values, padded.mask.sum(dim=1)), expected)


def test_lists_arrays_and_padded_regions_give_the_same_sets():
    model = make_model()
    regions = [torch.randn(n, 12) for n in (3, 5)]
    padded = Padded.of(regions)
    expected = model.encode_images(regions)
    assert torch.equal(model.encode_images([image.numpy() for image in regions]), expected)
    assert torch.equal(model.encode_images(padded.values, [3, 5]), expected)
    assert torch.equal(model.encode_images(padded.values.numpy(), np.array([3, 5])), expected)


def test_feature_maps_and_token_states_are_encoded():
    model = make_model(
        image={"kind": "convolution", "input_width": 5},
        text={"kind": "transformer", "input_width": 7},
    )
    assert model.encode_images(torch.randn(2, 5, 3, 3)).shape == (2, 3, 8)
    assert model.encode_images(list(torch.randn(2, 5, 3, 3))).shape == (2, 3, 8)
    assert model.encode_texts([torch.randn(4, 7), torch.randn(2, 7)]).shape == (2, 3, 8)


def test_invalid_images_are_rejected_by_index():
    model = make_model()
    with pytest.raises(ShapeError, match=r"\(2, 4, 11\).*12"):
        model.encode_images(torch.randn(2, 4, 11))
    with pytest.raises(ShapeError, match=r"images\[1\] has shape \(0, 12\)"):
        model.encode_images([torch.randn(3, 12), torch.randn(0, 12)])
    with pytest.raises(ShapeError, match=r"images\[1\] is 11 wide and images\[0\] 12"):
        model.encode_images([torch.randn(3, 12), torch.randn(3, 11)])
    with pytest.raises(InputError, match=r"images\[1\] holds NaN"):
        model.encode_images([torch.randn(3, 12), torch.full((3, 12), torch.nan)])
    with pytest.raises(InputError, match="sample 1 of the batch has no inputs"):
        model.encode_images(torch.randn(2, 4, 12), [4, 0])
    with pytest.raises(ShapeError, match="a length of 9 in a batch padded to 4"):
        model.encode_images(torch.randn(2, 4, 12), [4, 9])
    with pytest.raises(InputError, match="empty batch"):
        model.encode_images([])
    with pytest.raises(OptionError, match="batch_size is 0"):
        model.encode_images(torch.randn(2, 4, 12), batch_size=0)


def test_invalid_texts_are_rejected():
    model = make_model()
    with pytest.raises(InputError, match="the text '  ' has no words"):
        model.encode_texts(["a dog", "  "])
    with pytest.raises(InputError, match="word ids run from 1 to 99"):
        model.encode_texts([[1, 99, 2]])
    with pytest.raises(InputError, match="sample 0 of the batch has no inputs"):
        model.encode_texts(torch.zeros(1, 4, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"texts are torch.int64 \(2, 0\); give ids"):
        model.encode_texts(torch.zeros(2, 0, dtype=torch.long))


@pytest.mark.parametrize(
    "ids", [np.array([[1, 4, 2, 0], [1, 4, 5, 2]]), [[1, 4, 2, 0], [1, 4, 5, 2]]]
)
def test_trailing_zeros_of_word_ids_are_padding(ids):
    model = make_model()
    expected = model.encode_texts([[1, 4, 2], [1, 4, 5, 2]])
    torch.testing.assert_close(model.encode_texts(ids), expected, atol=1e-6, rtol=0)


def test_values_in_the_padding_do_not_matter():
    model = make_model(text={"kind": "transformer", "input_width": 7}, text_set={"kind": "pie_net"})
    states = torch.randn(2, 4, 7)
    clean = model.encode_texts(states, [4, 2])
    states[1, 2:] = torch.nan
    assert torch.equal(model.encode_texts(states, [4, 2]), clean)


def test_invalid_arrays_and_options_are_rejected():
    model = make_model()
    with pytest.raises(InputError, match="float32; give booleans"):
        Padded(torch.ones(1, 2, 12), torch.ones(1, 2))
    with pytest.raises(InputError, match="whole numbers"):
        model.encode_images(torch.randn(2, 4, 12), [1.5, 2.0])
    with pytest.raises(InputError, match="masked in the middle"):
        model.text_encoder(Padded(torch.tensor([[1, 4, 2]]), torch.tensor([[True, False, True]])))
    with pytest.raises(InputError, match=r"texts\[1\] is 'x'; give strings only"):
        model.encode_texts([[1, 2], "x"])
    with pytest.raises(InputError, match=r"texts\[0\] has no words"):
        model.encode_texts([[0, 0]])
    with pytest.raises(InputError, match="int64; features are floating point"):
        model.encode_images(torch.ones(2, 4, 12, dtype=torch.long))
    with pytest.raises(OptionError, match="batch_size is 1.5"):
        model.encode_images(torch.randn(2, 4, 12), batch_size=1.5)
    reads_maps = Model(make_config(image={"kind": "convolution", "input_width": 5}), VOCABULARY)
    for bad in ([], [torch.ones(5, 2, 2), torch.ones(5, 3, 3)], torch.ones(0, 5, 2, 2)):
        with pytest.raises(ShapeError, match="maps"):
            reads_maps.encode_images(bad)
    with pytest.raises(OptionError, match="lengths count regions"):
        reads_maps.encode_images(torch.randn(2, 5, 2, 2), [1, 1])
    with pytest.raises(OptionError, match="dim is 8 and heads 3; give a multiple"):
        make_model(image_set={"kind": "transformer", "heads": 3})


def test_a_single_string_gives_one_set():
    model = make_model()
    assert torch.equal(model.encode_texts("a dog"), model.encode_texts(["a dog"]))
