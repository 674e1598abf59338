"""The gradient of two processes equals that of one on the same batch (gloo)."""

import socket
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from diverset import Model, ModelConfig, Padded, SetConfig
from diverset.config import ImageConfig, SimilarityConfig, TextConfig
from diverset.training.gather import gather_owners, gather_sets
from diverset.training.objective import Objective
from diverset.training.settings import LossConfig

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


def gradients(model, wrapped, maps, texts, owners):
    objective = Objective(LossConfig(margin=1.0, contrastive=1.0))
    images, words = wrapped(maps, Padded.of(texts))
    owners = gather_owners(owners, len(maps))
    images, words = gather_sets(images), gather_sets(words)
    sum(objective(model, images, words, owners, epoch=0).values()).backward()
    return {name: one.grad.clone() for name, one in model.named_parameters()}


def part(rank, file, results):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", f"file://{file}", timedelta(seconds=60), rank=rank, world_size=2
    )
    model, maps, texts = make()
    first = sum(CAPTIONS[:2])
    mine = texts[:first] if rank == 0 else texts[first:]
    owners = torch.tensor([0, 0, 1] if rank == 0 else [0, 0, 0, 1, 1])
    wrapped = DistributedDataParallel(model)
    found = gradients(model, wrapped, maps[2 * rank : 2 * rank + 2], mine, owners)
    torch.save(found, f"{results}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_have_the_gradient_of_one(tmp_path, monkeypatch):
    for _, name in socket.if_nameindex():
        if name.startswith("lo"):  # what a host's own name resolves to may not be reachable
            monkeypatch.setenv("GLOO_SOCKET_IFNAME", name)
    mp.spawn(part, args=(str(tmp_path / "meeting"), str(tmp_path)), nprocs=2)
    model, maps, texts = make()
    owners = torch.arange(4).repeat_interleave(torch.tensor(CAPTIONS))
    expected = gradients(model, model, maps, texts, owners)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-4, msg=name)
