"""IMRAM, CAAN, SGRAF and NAAF against numbers of the published systems: values and gradients."""

import pytest
import torch
from baseline_fixtures import (
    GRADIENT_TOLERANCE,
    TOLERANCES,
    Fixture,
    gradients,
    hardest_triplet,
)
from torch import Tensor

from diverset.cross_attention import Caan, Imram, Naaf, Sgraf, imram
from diverset.cross_attention.blocks import Side

DTYPES = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)


def assert_equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCES[actual.dtype])


def assert_same_gradient(actual: Tensor, expected: Tensor) -> None:
    if actual.dtype == torch.float64:
        torch.testing.assert_close(actual, expected, rtol=0, atol=GRADIENT_TOLERANCE)


def load_imram(fixture: Fixture, mode: str, sharpness: float, normalize: bool) -> Imram:
    model = Imram(32, 3, sharpness, normalize, mode).to(fixture.dtype)
    weights = {}
    for side, direction in (("text", "t2i"), ("image", "i2t")):
        if mode in ("full", side):
            for part in ("linear", "gate"):
                for name in ("weight", "bias"):
                    weights[f"{side}_memory.{part}.{name}"] = fixture[
                        f"w/{part}_{direction}.{name}"
                    ]
    model.load_state_dict(weights)
    return model


@DTYPES
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("sharpness", [9, 11])
@pytest.mark.parametrize("mode", ["full", "text", "image"])
def test_imram_equals_the_published_code(
    dtype: torch.dtype, normalize: bool, sharpness: int, mode: str
):
    fixture = Fixture("imram", dtype)
    model = load_imram(fixture, mode, sharpness, normalize)
    tag = f"{'norm' if normalize else 'nonorm'}_lam{sharpness}"
    images = fixture["out/img_local"].requires_grad_()
    texts = fixture["out/cap_local"].requires_grad_()
    masks = fixture.region_mask(), fixture.word_mask()
    scores = model(images, masks[0], texts, masks[1])
    assert_equal(scores.detach(), fixture[f"out/{tag}/sims_{mode}"])
    with torch.no_grad():  # other kernels
        assert_equal(model(images, masks[0], texts, masks[1]), scores.detach())
    maps = model._maps()
    prepared = imram._prepare(Side(images, masks[0]), maps)
    steps = model._step_scores(prepared, Side(texts, masks[1]), maps)
    if mode != "full":
        assert_equal(steps.detach(), fixture[f"out/{tag}/{mode}_steps"])
    if tag == "nonorm_lam9":
        loss = hardest_triplet(scores)
        assert_equal(loss.detach(), fixture[f"out/loss_max_{mode}"])
        image_gradient, text_gradient = gradients(loss, images, texts)
        assert_same_gradient(image_gradient, fixture[f"grad/img_local_{mode}"])
        assert_same_gradient(text_gradient, fixture[f"grad/cap_local_{mode}"])
        varying = model(images, fixture.region_mask(varying=True), texts, masks[1])
        assert_equal(varying.detach(), fixture[f"var/{tag}/sims_{mode}"])


def test_gradients_of_the_weights_of_imram():
    fixture = Fixture("imram")
    model = load_imram(fixture, "full", 9, normalize=False)
    local = fixture["out/img_local"], fixture.region_mask(), fixture["out/cap_local"]
    hardest_triplet(model(*local, fixture.word_mask())).backward()
    for side, direction in (("text", "t2i"), ("image", "i2t")):
        for part in ("linear", "gate"):
            for name in ("weight", "bias"):
                parameter = model.get_parameter(f"{side}_memory.{part}.{name}")
                expected = fixture[f"grad/w.{part}_{direction}.{name}_full"]
                assert parameter.grad is not None
                assert_same_gradient(parameter.grad, expected)


@DTYPES
@pytest.mark.parametrize("tag", ["literal", "l2"])
def test_caan_equals_the_formulas_of_its_paper(dtype: torch.dtype, tag: str):
    fixture = Fixture("caan", dtype)
    model = Caan(32, 10).to(dtype)
    names = {"affinity": "K", "image_own": "Q1", "image_other": "Q2"}
    names |= {"text_own": "Q3", "text_other": "Q4"}
    weights = {ours: fixture[f"w/{theirs}"] for ours, theirs in names.items()}
    vectors = {"image_weight": fixture["w/Wv"][:, None], "text_weight": fixture["w/Wu"][:, None]}
    model.load_state_dict(weights | vectors)
    images = fixture[f"out/{tag}/img_local"].requires_grad_()
    texts = fixture[f"out/{tag}/cap_local"].requires_grad_()
    region_mask, word_mask = fixture.region_mask(), fixture.word_mask()
    regions, words = model._attention(
        model._prepare_images(Side(images, region_mask)), model._prepare_texts(texts, word_mask)
    )
    assert_equal(regions.detach(), fixture[f"out/{tag}/f"])
    assert_equal(words.detach(), fixture[f"out/{tag}/g"])
    image_vectors = regions.detach() @ fixture[f"out/{tag}/img_local"]
    text_vectors = torch.einsum("bcm,cmd->bcd", words.detach(), fixture[f"out/{tag}/cap_local"])
    assert_equal(image_vectors, fixture[f"out/{tag}/v_hat"])
    assert_equal(text_vectors, fixture[f"out/{tag}/u_hat"])
    scores = model(images, region_mask, texts, word_mask)
    assert_equal(scores.detach(), fixture[f"out/{tag}/sims"])
    with torch.no_grad():
        without_gradients = model(images, region_mask, texts, word_mask)
    assert_equal(without_gradients, fixture[f"out/{tag}/sims"])
    loss = hardest_triplet(scores)
    assert_equal(loss.detach(), fixture[f"out/{tag}/loss_max"])
    image_gradient, text_gradient = gradients(loss, images, texts)
    assert_same_gradient(image_gradient, fixture[f"grad/{tag}/img_local"])
    assert_same_gradient(text_gradient, fixture[f"grad/{tag}/cap_local"])
    varying = model(images, fixture.region_mask(varying=True), texts, word_mask)
    assert_equal(varying.detach(), fixture[f"var/{tag}/sims"])


def load_sgraf(fixture: Fixture, kind: str) -> Sgraf:
    model = Sgraf(kind, 32, max_regions=7, width=8, dropout=0.0).to(fixture.dtype)
    prefix = f"w/sim_enc_{kind.upper()}."
    names = {
        "local_comparison": "sim_tranloc_w",
        "global_comparison": "sim_tranglo_w",
        "score": "sim_eval_w",
        "image_vector.local_norm": "v_global_w.embedding_local.1",
        "image_vector.whole_norm": "v_global_w.embedding_global.1",
        "filtration.weight": "SAF_module.attn_sim_w",
        "filtration.norm": "SAF_module.bn",
    }
    for ours, theirs in (("image_vector", "v_global_w"), ("text_vector", "t_global_w")):
        names[f"{ours}.local"] = f"{theirs}.embedding_local.0"
        names[f"{ours}.whole"] = f"{theirs}.embedding_global.0"
        names[f"{ours}.weight"] = f"{theirs}.embedding_common.0"
    for step in range(3):
        for ours, theirs in (("query", "graph_query_w"), ("key", "graph_key_w")):
            names[f"graph.{ours}.{step}"] = f"SGR_module.{step}.{theirs}"
        names[f"graph.message.{step}"] = f"SGR_module.{step}.sim_graph_w"
    state = {}
    for name in model.state_dict():
        module, _, parameter = name.rpartition(".")
        if parameter != "num_batches_tracked":
            state[name] = fixture[f"{prefix}{names[module]}.{parameter}"]
    missing = model.load_state_dict(state, strict=False)
    assert all("num_batches_tracked" in name for name in missing.missing_keys)
    return model


@DTYPES
@pytest.mark.parametrize("kind", ["sgr", "saf"])
def test_sgr_and_saf_equal_the_published_code(dtype: torch.dtype, kind: str):
    fixture, key = Fixture("sgraf", dtype), kind.upper()
    model = load_sgraf(fixture, kind).eval()
    images = fixture["out/img_local"].requires_grad_()
    texts = fixture["out/cap_local"].requires_grad_()
    region_mask, word_mask = fixture.region_mask(), fixture.word_mask()
    assert_equal(model.image_vector(images, region_mask).detach(), fixture[f"out/{key}/img_global"])
    assert_equal(model.text_vector(texts, word_mask).detach(), fixture[f"out/{key}/txt_global"])
    scores = model(images, region_mask, texts, word_mask)
    assert_equal(scores.detach(), fixture[f"out/{key}/sims"])
    with torch.no_grad():
        without_gradients = model(images, region_mask, texts, word_mask)
    assert_equal(without_gradients, fixture[f"out/{key}/sims"])
    loss = hardest_triplet(scores)
    assert_equal(loss.detach(), fixture[f"out/{key}/loss_max"])
    image_gradient, text_gradient = gradients(loss, images, texts)
    assert_same_gradient(image_gradient, fixture[f"grad/{key}/img_local"])
    assert_same_gradient(text_gradient, fixture[f"grad/{key}/cap_local"])
    varying = model(images, fixture.region_mask(varying=True), texts, word_mask)
    assert_equal(varying.detach(), fixture[f"var/{key}/sims"])


@DTYPES
@pytest.mark.parametrize("memory", [2**29, 1])
@pytest.mark.parametrize("kind", ["sgr", "saf"])
def test_sgraf_in_training_mode_updates_running_statistics_once(dtype, memory: int, kind: str):
    fixture, key = Fixture("sgraf", dtype), kind.upper()
    model = load_sgraf(fixture, kind).train()
    model.max_memory = memory
    images = fixture["out/img_local"].requires_grad_()
    inputs = images, fixture.region_mask(), fixture["out/cap_local"], fixture.word_mask()
    scores = model(*inputs)
    assert_equal(scores.detach(), fixture[f"out/{key}_train_nodrop/sims"])
    hardest_triplet(scores).backward()  # recomputes the blocks
    modules = {
        "v_global_w.embedding_local.1": model.image_vector.local_norm,
        "v_global_w.embedding_global.1": model.image_vector.whole_norm,
    }
    if model.filtration is not None:
        modules["SAF_module.bn"] = model.filtration.norm
    for name, module in modules.items():
        for statistic in ("running_mean", "running_var"):
            expected = fixture[f"out/{key}_train_nodrop/after.{name}.{statistic}"]
            assert_equal(getattr(module, statistic), expected)


def test_mean_of_sgr_and_saf_is_sgraf():
    fixture = Fixture("sgraf")
    inputs = (
        fixture["out/img_local"], fixture.region_mask(),
        fixture["out/cap_local"], fixture.word_mask(),
    )  # fmt: skip
    with torch.no_grad():
        both = [load_sgraf(fixture, kind).eval()(*inputs) for kind in ("sgr", "saf")]
    assert_equal((both[0] + both[1]) / 2, fixture["out/SGRAF/sims"])


@DTYPES
@pytest.mark.parametrize("threshold", ["0.00", "0.15", "0.30"])
def test_naaf_in_evaluation_mode_equals_the_published_code(dtype: torch.dtype, threshold: str):
    fixture, model = Fixture("naaf", dtype), Naaf().eval()
    model.safe_threshold.fill_(float(threshold))
    images, texts, words = fixture["out/img_local"], fixture["out/cap_local"], fixture.word_mask()
    tag = f"test_thres{threshold}"
    assert_equal(model(images, fixture.region_mask(), texts, words), fixture[f"out/{tag}/sims"])
    with torch.no_grad():
        varying = model(images, fixture.region_mask(varying=True), texts, words)
    assert_equal(varying, fixture[f"var/{tag}/sims"])


@DTYPES
@pytest.mark.parametrize("threshold", ["0.00", "0.30"])
def test_naaf_in_training_mode_equals_the_published_code(dtype: torch.dtype, threshold: str):
    fixture, model = Fixture("naaf", dtype), Naaf().train()
    model.threshold.fill_(float(threshold))
    images = fixture["out/img_local"].requires_grad_()
    texts = fixture["out/cap_local"].requires_grad_()
    order = torch.arange(len(texts))
    scores = model(images, fixture.region_mask(), texts, fixture.word_mask(), order)
    tag = f"train_thres{threshold}"
    assert_equal(scores.detach(), fixture[f"out/{tag}/sims"])
    loss = hardest_triplet(scores)
    assert_equal(loss.detach(), fixture[f"out/{tag}/loss_max"])
    image_gradient, text_gradient = gradients(loss, images, texts)
    assert_same_gradient(image_gradient, fixture[f"grad/{tag}/img_local"])
    assert_same_gradient(text_gradient, fixture[f"grad/{tag}/cap_local"])
    after = [float(model.threshold), float(model.safe_threshold)]
    assert after == pytest.approx(fixture[f"out/{tag}/thres_after"].tolist())


@pytest.mark.parametrize("memory", [2**29, 1])
def test_threshold_of_naaf_adapts_in_a_large_batch(memory: int):
    fixture, model = Fixture("naaf"), Naaf(max_memory=memory).train()
    start = fixture["big/in/thres"]
    model.threshold.fill_(float(start[0]))
    model.safe_threshold.fill_(float(start[1]))
    images = fixture["big/in/img_local"].requires_grad_()
    texts = fixture["big/in/cap_local"].requires_grad_()
    words = fixture.mask("big/in/lengths", texts.shape[1])
    regions = torch.ones(images.shape[:2], dtype=torch.bool)
    scores = model(images, regions, texts, words, torch.arange(len(texts)))
    assert_equal(scores.detach(), fixture["big/out/sims"])
    loss = hardest_triplet(scores)
    assert_equal(loss.detach(), fixture["big/out/loss_max"])
    image_gradient, text_gradient = gradients(loss, images, texts)
    assert_same_gradient(image_gradient, fixture["big/grad/img_local"])
    assert_same_gradient(text_gradient, fixture["big/grad/cap_local"])
    after = [float(model.threshold), float(model.safe_threshold)]
    assert after == pytest.approx(fixture["big/out/thres_after"].tolist(), abs=1e-10)
    assert after == pytest.approx(fixture["big/out/thres_trace"][-1].tolist(), abs=1e-10)
    assert "threshold" in model.state_dict()
