"""The gradient of two processes equals that of one on the same batch (gloo)."""

import torch
from torch.nn.parallel import DistributedDataParallel
from two_processes import run_in_two_processes

from diverset import Model, ModelConfig, Padded, SetConfig
from diverset.config import ImageConfig, SimilarityConfig, TextConfig
from diverset.losses import Captioner
from diverset.recipe.config import LossConfig
from diverset.training.auxiliary_targets import BatchTargets
from diverset.training.gather import gather_image_index, gather_sets
from diverset.training.objective import Objective

CAPTIONS = [2, 1, 3, 2]  # of the four images: processes get different numbers


def make():
    torch.manual_seed(0)
    sets = SetConfig(size=2, inner_width=8, dropout=0.0)
    model = Model(
        ModelConfig(
            dim=8,
            image=ImageConfig(kind="convolution", input_width=5, dropout=0.0),
            text=TextConfig(kind="transformer", input_width=6, dropout=0.0),
            image_set=sets,
            text_set=sets,
            similarity=SimilarityConfig(kind="match_probability"),
        )
    )
    maps = torch.randn(4, 5, 2, 2)
    texts = [torch.randn(3 + n % 2, 6) for n in range(sum(CAPTIONS))]
    return model, maps, texts


def gradients(model, wrapped, maps, texts, image_index):
    objective = Objective(LossConfig(margin=1.0, contrastive=1.0))
    images, words = wrapped(maps, Padded.of(texts))
    image_index = gather_image_index(image_index, len(maps))
    images, words = gather_sets(images), gather_sets(words)
    sum(objective(model, images, words, image_index, epoch=0).values()).backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


def gradients_of_process(rank):
    model, maps, texts = make()
    first = sum(CAPTIONS[:2])
    own_texts = texts[:first] if rank == 0 else texts[first:]
    image_index = torch.tensor([0, 0, 1] if rank == 0 else [0, 0, 0, 1, 1])
    wrapped = DistributedDataParallel(model)
    return gradients(model, wrapped, maps[2 * rank : 2 * rank + 2], own_texts, image_index)


def test_two_processes_have_the_gradient_of_one(tmp_path, monkeypatch):
    results = run_in_two_processes(gradients_of_process, tmp_path, monkeypatch)
    model, maps, texts = make()
    image_index = torch.arange(4).repeat_interleave(torch.tensor(CAPTIONS))
    expected = gradients(model, model, maps, texts, image_index)
    for result in results:
        for name, gradient in expected.items():
            torch.testing.assert_close(result[name], gradient, atol=1e-6, rtol=1e-4, msg=name)


def local_gradients(wrapped, model, regions, texts, image_index):
    """Of IMRAM with a captioning loss: items have different numbers of regions and words."""
    torch.manual_seed(1)
    captioner = Captioner(8, 9, hidden=6, word_width=4, dropout=0.0)
    objective = Objective(
        LossConfig(margin=1.0, mmd=0.0, diversity=0.0, captioning=0.5), None, captioner
    )
    images, words = wrapped(Padded.of(regions), Padded.of(texts))
    image_index = gather_image_index(image_index, len(regions))
    images, words = gather_sets(images, with_features=True), gather_sets(words)
    captions = [[1, 4 + row % 5, *[3] * (row % 3), 2] for row in range(sum(CAPTIONS))]
    losses = objective(model, images, words, image_index, 0, BatchTargets(captions=captions))
    sum(losses.values()).backward()
    weights = [*model.named_parameters(), *captioner.named_parameters()]
    return {name: weight.grad.clone() for name, weight in weights}


def make_local():
    torch.manual_seed(0)
    local = SetConfig(kind="local")
    model = Model(
        ModelConfig(
            dim=8,
            image=ImageConfig(input_width=5, mlp_reads="nothing", dropout=0.0),
            text=TextConfig(kind="transformer", input_width=6, dropout=0.0),
            image_set=local,
            text_set=local,
            similarity=SimilarityConfig(kind="imram"),
        )
    )
    regions = [torch.randn(count, 5) for count in (3, 2, 4, 1)]
    texts = [torch.randn(2 + n % 4, 6) for n in range(sum(CAPTIONS))]
    return model, regions, texts


def local_gradients_of_process(rank):
    model, regions, texts = make_local()
    first = sum(CAPTIONS[:2])
    own_texts = texts[:first] if rank == 0 else texts[first:]
    image_index = torch.tensor([0, 0, 1] if rank == 0 else [0, 0, 0, 1, 1])
    own_regions = regions[2 * rank : 2 * rank + 2]
    wrapped = DistributedDataParallel(model)
    return local_gradients(wrapped, model, own_regions, own_texts, image_index)


def test_two_processes_have_the_gradient_of_one_with_cross_attention(tmp_path, monkeypatch):
    results = run_in_two_processes(local_gradients_of_process, tmp_path, monkeypatch)
    model, regions, texts = make_local()
    image_index = torch.arange(4).repeat_interleave(torch.tensor(CAPTIONS))
    expected = local_gradients(model, model, regions, texts, image_index)
    for result in results:
        for name, gradient in expected.items():
            torch.testing.assert_close(result[name], gradient, atol=1e-6, rtol=1e-4, msg=name)
