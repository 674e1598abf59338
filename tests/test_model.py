import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support import random_sets

from diverset import Model, ModelConfig, Vocabulary
from diverset.config import SET_KINDS, SIMILARITY_KINDS, from_dict, to_dict
from diverset.errors import InputError, OptionError, ShapeError
from diverset.losses import triplet
from diverset.types import Padded

WORDS = Vocabulary.build(["a dog runs over the green grass", "two cats sleep on a mat"], 1)
SMALL = {"size": 3, "inner_width": 16, "heads": 2}


def settings(**changes):
    plain = {
        "dim": 8,
        "image": {"input_width": 12},
        "text": {"input_width": 6},
        "image_set": SMALL,
        "text_set": SMALL,
    }
    return from_dict(ModelConfig, plain | changes)


def model(**changes):
    return Model(settings(**changes), WORDS).eval()


CAPTIONS = ["a dog", "two cats sleep on the green grass", "the mat"]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 999))
def test_an_image_does_not_depend_on_its_batch(lengths, seed):
    torch.manual_seed(seed)
    made = model()
    regions = [torch.randn(n, 12) for n in lengths]
    together = made.encode_images(regions)
    alone = torch.cat([made.encode_images([one]) for one in regions])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)


def test_a_text_does_not_depend_on_its_batch():
    made = model()
    together = made.encode_texts(CAPTIONS)
    alone = torch.cat([made.encode_texts([one]) for one in CAPTIONS])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)
    by_two = made.encode_texts(CAPTIONS, batch_size=2)
    torch.testing.assert_close(together, by_two, atol=1e-6, rtol=0)


def test_strings_ids_and_padded_ids_are_the_same():
    made = model()
    ids = [WORDS.encode(caption) for caption in CAPTIONS]
    padded = Padded.of([torch.tensor(one) for one in ids])
    expected = made.encode_texts(CAPTIONS)
    assert torch.equal(made.encode_texts(ids), expected)
    assert torch.equal(made.encode_texts(padded.values), expected)
    assert torch.equal(made.encode_texts(padded.values, padded.mask.sum(dim=1)), expected)


def test_lists_arrays_and_padded_regions_are_the_same():
    made = model()
    regions = [torch.randn(n, 12) for n in (3, 5)]
    padded = Padded.of(regions)
    expected = made.encode_images(regions)
    assert torch.equal(made.encode_images([one.numpy() for one in regions]), expected)
    assert torch.equal(made.encode_images(padded.values, [3, 5]), expected)
    assert torch.equal(made.encode_images(padded.values.numpy(), np.array([3, 5])), expected)


def test_encoding_leaves_the_mode_and_repeats():
    made = model().train()
    regions = torch.randn(2, 4, 12)
    assert torch.equal(made.encode_images(regions), made.encode_images(regions))
    assert made.training


@pytest.mark.parametrize("kind", [kind for kind in SET_KINDS if kind != "local"])
def test_every_set_module_in_a_model(kind):
    chosen = {"kind": kind, "size": 1 if kind == "pooled" else 3, "heads": 2, "inner_width": 16}
    words = {"input_width": 6}
    made = model(image_set=chosen, text_set=chosen, text=words)
    images, texts = made.encode_images(torch.randn(2, 4, 12)), made.encode_texts(CAPTIONS)
    assert images.shape == (2, chosen["size"], 8) and texts.shape == (3, chosen["size"], 8)
    assert made.similarity(images, texts).shape == (2, 3)


@pytest.mark.parametrize("kind", [*SIMILARITY_KINDS])
def test_scores_of_a_batch_and_of_a_collection_agree(kind):
    made = model(similarity={"kind": kind})
    images, texts = random_sets(4, 3, 8), random_sets(5, 3, 8, seed=1)
    torch.testing.assert_close(made.score(images, texts).detach(), made.similarity(images, texts))


def test_maps_and_token_states():
    made = model(
        image={"kind": "convolution", "input_width": 5},
        text={"kind": "transformer", "input_width": 7},
    )
    assert made.encode_images(torch.randn(2, 5, 3, 3)).shape == (2, 3, 8)
    assert made.encode_images(list(torch.randn(2, 5, 3, 3))).shape == (2, 3, 8)
    assert made.encode_texts([torch.randn(4, 7), torch.randn(2, 7)]).shape == (2, 3, 8)


def test_a_step_trains_every_weight():
    made = model(similarity={"kind": "match_probability"}).train()
    words = Padded.of([torch.tensor(WORDS.encode(caption)) for caption in CAPTIONS])
    images, texts = made(Padded.of([torch.randn(3, 12), torch.randn(4, 12)]), words)
    scores = made.score(images.elements, texts.elements)
    triplet(scores, torch.tensor([0, 0, 1]), margin=2.0).total.backward()
    still = [name for name, parameter in made.named_parameters() if parameter.grad is None]
    assert still == []


def test_attention_maps_of_every_iteration():
    found = model().image_encoder(Padded.of([torch.randn(3, 12)]), with_attention=True)
    assert [tuple(one.shape) for one in found.attention] == [(1, 2, 3, 3)] * 4


def test_the_fingerprint_names_the_weights():
    made = model()
    before = made.fingerprint()
    assert made.fingerprint() == before and len(before) == 16
    with torch.no_grad():
        made.image_encoder.features.fc.bias[0] += 1e-3
    assert made.fingerprint() != before


def test_settings_survive_a_round_trip():
    chosen = settings(similarity={"alpha": 8})
    assert from_dict(ModelConfig, to_dict(chosen)) == chosen


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dimm": 8}, "unknown option dimm"),
        ({"image_set": {"kind": "slot"}}, "set.kind is 'slot'; choose one of: slots, pie_net"),
        ({"image_set": {"kind": "pooled", "size": 4}}, "a pooled set has one element"),
        ({"image": {"kind": "resnet"}}, "image.kind is 'resnet'"),
        ({"text": {"kind": "bert"}}, "text.kind is 'bert'"),
        ({"text": 3}, "text is 3; give a mapping"),
        ({"dim": 0}, "dim is 0"),
        ({"dim": "8"}, "dim is '8'; give a int"),
        ({"similarity": {"alpha": -1}}, "similarity.alpha is -1"),
        ({"image": {"dropout": 1.0}}, "image.dropout is 1.0"),
        ({"image_set": {"heads": 3, "inner_width": 16}}, "16 cannot be split into 3 heads"),
    ],
)
def test_bad_settings_are_named(changes, says):
    with pytest.raises(OptionError, match=says):
        model(**changes)


def test_a_bigru_needs_words():
    with pytest.raises(OptionError, match="needs a vocabulary"):
        Model(settings())
    with pytest.raises(OptionError, match="vocabulary_size is 5"):
        model(text={"vocabulary_size": 5})
    made = Model(settings(text={"vocabulary_size": 20, "input_width": 6}))
    with pytest.raises(InputError, match="no vocabulary"):
        made.encode_texts(["a dog"])


def test_bad_images_are_named():
    made = model()
    with pytest.raises(ShapeError, match=r"\(2, 4, 11\).*12"):
        made.encode_images(torch.randn(2, 4, 11))
    with pytest.raises(ShapeError, match=r"images\[1\] has shape \(0, 12\)"):
        made.encode_images([torch.randn(3, 12), torch.randn(0, 12)])
    with pytest.raises(ShapeError, match=r"images\[1\] is 11 wide and images\[0\] 12"):
        made.encode_images([torch.randn(3, 12), torch.randn(3, 11)])
    with pytest.raises(InputError, match=r"images\[1\] holds NaN"):
        made.encode_images([torch.randn(3, 12), torch.full((3, 12), torch.nan)])
    with pytest.raises(InputError, match="sample 1 of the batch has no inputs"):
        made.encode_images(torch.randn(2, 4, 12), [4, 0])
    with pytest.raises(ShapeError, match="a length of 9 in a batch padded to 4"):
        made.encode_images(torch.randn(2, 4, 12), [4, 9])
    with pytest.raises(InputError, match="empty batch"):
        made.encode_images([])
    with pytest.raises(OptionError, match="batch_size is 0"):
        made.encode_images(torch.randn(2, 4, 12), batch_size=0)


def test_bad_texts_are_named():
    made = model()
    with pytest.raises(InputError, match="the text '  ' has no words"):
        made.encode_texts(["a dog", "  "])
    with pytest.raises(InputError, match="one string, 'a dog'"):
        made.encode_texts("a dog")
    with pytest.raises(InputError, match="word ids run from 1 to 99"):
        made.encode_texts([[1, 99, 2]])
    with pytest.raises(InputError, match="sample 0 of the batch has no inputs"):
        made.encode_texts(torch.zeros(1, 4, dtype=torch.long))


def test_sets_of_different_models_do_not_compare():
    with pytest.raises(ShapeError, match="8 wide and texts 6"):
        model().similarity(random_sets(2, 3, 8), random_sets(2, 3, 6))


@pytest.mark.parametrize(
    "ids", [np.array([[1, 4, 2, 0], [1, 4, 5, 2]]), [[1, 4, 2, 0], [1, 4, 5, 2]]]
)
def test_padding_of_ids_is_no_word_however_it_is_given(ids):
    made = model()
    expected = made.encode_texts([[1, 4, 2], [1, 4, 5, 2]])
    torch.testing.assert_close(made.encode_texts(ids), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_models_of_other_precisions_encode(dtype):
    made = model().to(dtype)
    assert made.encode_images(torch.randn(2, 4, 12)).dtype == dtype
    assert made.encode_texts(CAPTIONS).dtype == dtype
    maps = Model(settings(image={"kind": "convolution", "input_width": 5}), WORDS).to(dtype)
    assert maps.encode_images(np.random.default_rng(0).standard_normal((2, 5, 3, 3))).dtype == dtype


def test_encoding_leaves_every_part_in_its_mode():
    made = model().train()
    frozen = made.image_encoder.features.mlp[1].eval()
    made.encode_images(torch.randn(2, 4, 12))
    made.encode_texts(CAPTIONS)
    assert not frozen.training and made.text_encoder.training


def test_inputs_that_overflow_are_named():
    with pytest.raises(InputError, match="the set of item 1 is not finite"):
        model().encode_images([torch.ones(3, 12), torch.full((3, 12), 1e38)])


def test_padding_may_hold_anything():
    made = model(text={"kind": "transformer", "input_width": 7}, text_set={"kind": "pie_net"})
    states = torch.randn(2, 4, 7)
    clean = made.encode_texts(states, [4, 2])
    states[1, 2:] = torch.nan
    assert torch.equal(made.encode_texts(states, [4, 2]), clean)


def test_more_bad_inputs_are_named():
    made = model()
    with pytest.raises(InputError, match="float32; give booleans"):
        Padded(torch.ones(1, 2, 12), torch.ones(1, 2))
    with pytest.raises(InputError, match="whole numbers"):
        made.encode_images(torch.randn(2, 4, 12), [1.5, 2.0])
    with pytest.raises(InputError, match="masked in the middle"):
        made.text_encoder(Padded(torch.tensor([[1, 4, 2]]), torch.tensor([[True, False, True]])))
    with pytest.raises(InputError, match=r"texts\[1\] is 'x'; give strings only"):
        made.encode_texts([[1, 2], "x"])
    with pytest.raises(InputError, match=r"texts\[0\] has no words"):
        made.encode_texts([[0, 0]])
    with pytest.raises(InputError, match="int64; features are floating point"):
        made.encode_images(torch.ones(2, 4, 12, dtype=torch.long))
    with pytest.raises(OptionError, match="batch_size is 1.5"):
        made.encode_images(torch.randn(2, 4, 12), batch_size=1.5)
    maps = Model(settings(image={"kind": "convolution", "input_width": 5}), WORDS)
    for bad in ([], [torch.ones(5, 2, 2), torch.ones(5, 3, 3)], torch.ones(0, 5, 2, 2)):
        with pytest.raises(ShapeError, match="maps"):
            maps.encode_images(bad)
    with pytest.raises(OptionError, match="lengths count regions"):
        maps.encode_images(torch.randn(2, 5, 2, 2), [1, 1])
    with pytest.raises(OptionError, match="dim 8 cannot be split into 3 heads"):
        model(image_set={"kind": "transformer", "heads": 3})


def test_bfloat16_encodes_nearly_the_same():
    made = model()
    texts = made.encode_texts(CAPTIONS, precision="bfloat16")
    assert texts.dtype == torch.float32
    torch.testing.assert_close(texts, made.encode_texts(CAPTIONS), rtol=0.05, atol=0.05)
    torch.testing.assert_close(texts.norm(dim=-1), torch.ones(texts.shape[:2]))
    with pytest.raises(OptionError, match="precision is 'int8'; choose one of: float32, bfloat16"):
        made.encode_texts(CAPTIONS, precision="int8")


@pytest.mark.parametrize("trained", [0, -1])
def test_pictures_in_bfloat16_batches_read_ahead(trained):
    chance = np.random.default_rng(0)
    pictures = [
        Image.fromarray(chance.integers(0, 255, (40, 50, 3), dtype=np.uint8)) for _ in range(5)
    ]
    image = {"kind": "convolution", "backbone": "small_cnn", "backbone_size": 32}
    made = model(image=image | {"input_width": 256, "trained_blocks": trained}).eval()
    plain = made.encode_images(pictures)
    ahead = made.encode_images(pictures, batch_size=2)
    torch.testing.assert_close(ahead, plain, rtol=1e-4, atol=1e-5)
    network = made.picture_network()
    pixels = torch.stack([network.preprocess(one) for one in pictures])
    inputs = network(pixels) if trained == 0 else pixels
    with torch.no_grad():
        torch.testing.assert_close(made.image_encoder(inputs).elements, plain, rtol=1e-4, atol=1e-5)
    fast = made.encode_images(pictures, precision="bfloat16")
    torch.testing.assert_close(fast, plain, rtol=0.05, atol=0.05)
