"""Models of every kind: options, sets, scores, gradients, fingerprints."""

import pytest
import torch
from model.model_support import CAPTIONS, VOCABULARY, make_config, make_model
from support import random_sets

from diverset import Model
from diverset.config import CROSS_ATTENTION, SET_KINDS, SIMILARITY_KINDS
from diverset.errors import InputError, OptionError, ShapeError
from diverset.losses import triplet
from diverset.types import Padded

LOCAL = {
    "image_set": {"kind": "local"},
    "text_set": {"kind": "local"},
    "text": {"input_width": 6, "local": "states"},
}


@pytest.mark.parametrize("kind", [kind for kind in SET_KINDS if kind != "local"])
def test_models_with_every_set_module_encode_and_compare(kind):
    sets = {"kind": kind, "size": 1 if kind == "pooled" else 3, "heads": 2, "inner_width": 16}
    model = make_model(image_set=sets, text_set=sets)
    images, texts = model.encode_images(torch.randn(2, 4, 12)), model.encode_texts(CAPTIONS)
    assert images.shape == (2, sets["size"], 8) and texts.shape == (3, sets["size"], 8)
    assert model.similarity(images, texts).shape == (2, 3)


@pytest.mark.parametrize("kind", [*SIMILARITY_KINDS])
def test_score_of_a_batch_equals_similarity_of_collections(kind):
    sets = LOCAL if kind in CROSS_ATTENTION else {}
    model = make_model(similarity={"kind": kind}, **sets)
    images, texts = random_sets(4, 3, 8), random_sets(5, 3, 8, seed=1)
    scores = model.score(images, texts).detach()
    torch.testing.assert_close(scores, model.similarity(images, texts))
    # During training, too, collections are compared without dropout and batch statistics.
    torch.testing.assert_close(scores, model.train().similarity(images, texts))
    assert all(module.training for module in model.modules())


def test_every_weight_gets_a_gradient():
    model = make_model(similarity={"kind": "match_probability"}).train()
    tokens = Padded.of([torch.tensor(VOCABULARY.encode(caption)) for caption in CAPTIONS])
    images, texts = model(Padded.of([torch.randn(3, 12), torch.randn(4, 12)]), tokens)
    scores = model.score(images.elements, texts.elements)
    triplet(scores, torch.tensor([0, 0, 1]), margin=2.0).backward()
    without = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert without == []


def test_the_fingerprint_changes_with_the_weights():
    model = make_model()
    before = model.fingerprint()
    assert model.fingerprint() == before and len(before) == 16
    with torch.no_grad():
        model.image_encoder.features.fc.bias[0] += 1e-3
    assert model.fingerprint() != before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dimm": 8}, "unknown option dimm"),
        ({"image_set": {"kind": "slot"}}, "set.kind is 'slot'; choose one of: slots, pie_net"),
        ({"image_set": {"kind": "pooled", "size": 4}}, "a pooled set has one element"),
        ({"image": {"kind": "resnet"}}, "image.kind is 'resnet'"),
        ({"text": {"kind": "bert"}}, "text.kind is 'bert'"),
        ({"text": 3}, "text is 3; give a mapping"),
        ({"dim": 0}, "dim is 0"),
        ({"dim": "8"}, "dim is '8'; its type is int"),
        ({"similarity": {"alpha": -1}}, "similarity.alpha is -1"),
        ({"image": {"dropout": 1.0}}, "image.dropout is 1.0"),
        (
            {"image_set": {"heads": 3, "inner_width": 16}},
            "inner_width is 16 and heads 3; give a multiple",
        ),
    ],
)
def test_invalid_options_are_rejected_by_name(changes, message):
    with pytest.raises(OptionError, match=message):
        make_model(**changes)


def test_a_bigru_needs_a_vocabulary():
    with pytest.raises(OptionError, match="needs a vocabulary"):
        Model(make_config())
    with pytest.raises(OptionError, match="vocabulary_size is 5"):
        make_model(text={"vocabulary_size": 5})
    model = Model(make_config(text={"vocabulary_size": 20, "input_width": 6}))
    with pytest.raises(InputError, match="no vocabulary"):
        model.encode_texts(["a dog"])


def test_sets_of_different_dimensions_cannot_be_compared():
    with pytest.raises(ShapeError, match="8 wide and texts 6"):
        make_model().similarity(random_sets(2, 3, 8), random_sets(2, 3, 6))


@pytest.mark.parametrize("kind", CROSS_ATTENTION)
def test_cross_attention_scores_survive_saving(kind, tmp_path):
    torch.manual_seed(0)
    model = make_model(similarity={"kind": kind}, **LOCAL).train()
    regions = Padded.of([torch.randn(3, 12), torch.randn(4, 12), torch.randn(2, 12)])
    tokens = Padded.of([torch.tensor(VOCABULARY.encode(caption)) for caption in CAPTIONS])
    images, texts = model(regions, tokens)
    scores = model.score(images.elements, texts.elements, image_index=torch.arange(3))
    scores.sum().backward()
    if kind == "naaf":
        model.cross_attention.safe_threshold.fill_(0.123)
    model.eval().save_pretrained(tmp_path)
    loaded = Model.from_pretrained(tmp_path)
    inputs = [torch.randn(5, 12), torch.randn(2, 12)]
    before, after = (
        m.similarity(m.encode_images(inputs), m.encode_texts(CAPTIONS)) for m in (model, loaded)
    )
    assert torch.equal(before, after)


@pytest.mark.parametrize(
    "changes",
    [{"similarity": {"kind": "imram"}}, {"image_set": {"kind": "local"}}, LOCAL],
    ids=["slots", "one side", "smooth-Chamfer"],
)
def test_cross_attention_and_local_sets_need_each_other(changes):
    with pytest.raises(OptionError, match="need each other"):
        make_config(**changes)


@pytest.mark.parametrize("variant", ["coco", "f30k"])
@pytest.mark.parametrize("corrected", [False, True])
def test_vsrn_encodes_regions_and_cells_alike(variant, corrected):
    sets = {"kind": "pooled", "size": 1}
    graph = {"input_width": 12, "graph": variant, "graph_corrected": corrected}
    torch.manual_seed(0)
    model = make_model(image=graph, image_set=sets, text_set=sets)
    maps = make_model(image=graph | {"kind": "convolution"}, image_set=sets, text_set=sets)
    maps.load_state_dict(model.state_dict())
    cells = torch.randn(2, 12, 2, 3)
    expected = model.encode_images(cells.flatten(2).transpose(1, 2))
    torch.testing.assert_close(maps.encode_images(cells), expected)


def test_a_graph_has_no_pooling_and_only_maps_have_a_grid():
    with pytest.raises(OptionError, match=r"set image\.pooling to null"):
        make_config(image={"graph": "coco", "pooling": "max"})
    with pytest.raises(OptionError, match="only maps have a grid"):
        make_config(image={"grid": 3})
