"""Run a frozen backbone once over a dataset and store its features for training.

The name of a cache folder contains a hash of everything that decides the numbers: weights,
preprocessing, precision, the list of items and, for augmented views, the seed. After a kill the
same call resumes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from diverset.backbones.base import ImageBackbone, TextBackbone
from diverset.backbones.cache_files import DONE, FORMAT, CacheWriter
from diverset.backbones.cached_features import CachedMaps, CachedTokens
from diverset.config import PRECISIONS
from diverset.data.preprocess import Preprocess, RandomResizedCrop
from diverset.errors import DataError, OptionError, a_few, check_choice, check_count
from diverset.runtime.prefetch import prefetch
from diverset.runtime.progress import TaskCallback
from diverset.types import Padded

DecodedBatch = list[tuple[int, Tensor | str]]
"""Index of each image, and its pixels or the reason why it could not be read."""


def cache_images(
    backbone: ImageBackbone,
    paths: Sequence[str | Path],
    folder: str | Path,
    *,
    views: int = 1,
    augmentation: RandomResizedCrop | None = None,
    seed: int = 0,
    precision: str = "bfloat16",
    storage: str = "float16",
    batch_size: int = 32,
    workers: int = 1,
    progress: TaskCallback | None = None,
) -> CachedMaps:
    """The feature maps of images, extracted if they are not cached yet.

    Images that cannot be read are left out and named in `CachedMaps.unreadable`.

    Args:
        backbone: in its current state; other weights use another cache.
        paths: the images, in the order of the indices of the result.
        folder: parent folder of the caches; each view is a folder in it.
        views: 1 for the plain image only; more add random crops. Existing views are reused if
            the number is raised later.
        augmentation: how the other views are cropped and flipped.
        seed: of the other views; seed, view and index in the list decide a crop.
        precision: "bfloat16" is two to three times faster on CPUs that support it; "float32".
        storage: "float16", "bfloat16" (for values above 65,504) or "float32".
        batch_size: images per batch; a kill loses at most one batch.
        workers: threads that decode the next images.
        progress: called after every batch.
    """
    files = [Path(path) for path in paths]
    _check_counts(len(files), "paths", batch_size=batch_size, views=views, workers=workers)
    augmentation, report = augmentation or RandomResizedCrop(), progress or _ignore
    network, shape = _prepare(backbone)
    header = _header("images", backbone, precision, storage, image_list_hash(files), len(files))
    total, folders = views * len(files), []
    for view in range(views):
        options = {} if view == 0 else {"seed": seed, "augmentation": repr(augmentation)}
        view_header = {**header, "view": view, **options}
        target = _folder(folder, view_header)
        folders.append(target)
        if not (target / DONE).exists():
            crop = augmentation if view else None
            decode = partial(_decode_batch, backbone.preprocess, files, crop, (seed, view))
            with CacheWriter.open(target, view_header, (len(files), *shape)) as writer:
                todo = _batches(np.arange(len(files)), batch_size, writer)
                for number, batch in prefetch(decode, todo, workers):
                    _extract_images(network, writer, number, batch, files, precision)
                    report(view * len(files) + _count_done(writer), total)
                _finish_images(writer, files)
        report((view + 1) * len(files), total)
    return CachedMaps(folders)


def cache_texts(
    backbone: TextBackbone,
    texts: Sequence[str],
    folder: str | Path,
    *,
    precision: str = "bfloat16",
    storage: str = "float16",
    batch_size: int = 128,
    progress: TaskCallback | None = None,
) -> CachedTokens:
    """The token states of texts, extracted if they are not cached yet; see `cache_images`."""
    _check_counts(len(texts), "texts", batch_size=batch_size)
    report = progress or _ignore
    digest = hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()[:16]
    header = _header("texts", backbone, precision, storage, digest, len(texts))
    target = _folder(folder, header)
    if not (target / DONE).exists():
        tokens = tokenize_in_chunks(backbone, texts)
        lengths = np.array([backbone.count_states(ids) for ids in tokens])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        network = backbone.for_inference()
        # Batches of texts of similar length waste no time on padding.
        order = np.argsort(lengths, kind="stable")
        with CacheWriter.open(target, header, (int(offsets[-1]), backbone.width)) as writer:
            for number, indices in _batches(order, batch_size, writer):
                batch = Padded.of([tokens[index] for index in indices]).to(network.device)
                states = network.extract(batch, precision).values.cpu()
                for index, state in zip(indices, states, strict=True):
                    writer.put(int(offsets[index]), state[: lengths[index]])
                writer.commit(number, {"items": len(indices)})
                report(_count_done(writer), len(texts))
            writer.finish({}, offsets)
    report(len(texts), len(texts))
    return CachedTokens(target)


def tokenize_in_chunks(
    backbone: TextBackbone, texts: Sequence[str], chunk: int = 1024
) -> list[Tensor]:
    """Token ids of each text; a single padded tensor would be as wide as the longest text."""
    tokens: list[Tensor] = []
    for start in range(0, len(texts), chunk):
        padded = backbone.tokenize(texts[start : start + chunk])
        lengths = padded.mask.sum(dim=1).tolist()
        tokens += [ids[:length] for ids, length in zip(padded.values, lengths, strict=True)]
    return tokens


def image_list_hash(paths: Sequence[Path]) -> str:
    """A hash of the names and sizes of image files, in order."""
    digest = hashlib.sha256()
    for path in paths:
        size = path.stat().st_size if path.is_file() else -1
        digest.update(f"{path.name}\0{size}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def _prepare(backbone: ImageBackbone) -> tuple[ImageBackbone, tuple[int, int, int]]:
    """A copy for inference, and the shape of a stored map."""
    network = backbone.for_inference()
    blank = backbone.preprocess.pixels(Image.new("RGB", (backbone.size, backbone.size)))
    pixels = backbone.preprocess.batch([blank], network.device)
    _, channels, rows, columns = network.extract(pixels).shape
    return network, (rows, columns, channels)


def _header(
    kind: str, backbone: ImageBackbone | TextBackbone, precision: str, storage: str, items: str,
    count: int,
) -> dict[str, Any]:  # fmt: skip
    check_choice("precision", precision, PRECISIONS)
    return {
        "format": FORMAT,
        "kind": kind,
        "backbone": backbone.name,
        "fingerprint": backbone.fingerprint(),
        "settings": backbone.settings(),
        "precision": precision,
        "storage": storage,
        "items": items,
        "count": count,
    }


def _folder(parent: str | Path, header: dict[str, Any]) -> Path:
    key = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:16]
    name = re.sub(r"[^\w.-]+", "_", header["backbone"])
    view = f"-view{header['view']}" if header.get("view") else ""
    return Path(parent) / f"{header['kind']}-{name}{view}-{key}"


def _batches(order: np.ndarray, size: int, writer: CacheWriter) -> Iterator[tuple[int, np.ndarray]]:
    """Number and indices of every batch that is not finished."""
    # A resumed extraction keeps the batch size of the first run, or batch numbers would not match.
    size = int(writer.finished.get(0, {"items": size})["items"])
    for number, start in enumerate(range(0, len(order), size)):
        if number not in writer.finished:
            yield number, order[start : start + size]


def _decode_batch(
    preprocess: Preprocess, files: Sequence[Path], crop: RandomResizedCrop | None,
    seeds: tuple[int, int], batch: tuple[int, np.ndarray],
) -> tuple[int, DecodedBatch]:  # fmt: skip
    """Decode the images of a batch (number, indices); seeds and index decide a random crop."""

    def pixels(index: int) -> Tensor | str:
        try:
            image = preprocess.open(files[index])
        except DataError as error:
            return str(error)
        if crop is None:
            return preprocess.pixels(image)
        return crop.pixels(image, preprocess, np.random.default_rng([*seeds, index]))

    number, indices = batch
    return number, [(index, pixels(index)) for index in indices.tolist()]


def _extract_images(
    network: ImageBackbone, writer: CacheWriter, number: int, batch: DecodedBatch,
    files: Sequence[Path], precision: str,
) -> None:  # fmt: skip
    """Run a batch, write its maps and record it."""
    pixels = {index: result for index, result in batch if isinstance(result, Tensor)}
    if pixels:
        inputs = network.preprocess.batch(list(pixels.values()), network.device)
        maps = network.extract(inputs, precision).permute(0, 2, 3, 1).cpu()
        for index, cells in zip(pixels, maps, strict=True):
            writer.put(index, cells[None])
    unreadable = [
        {"index": index, "path": str(files[index]), "reason": result}
        for index, result in batch
        if isinstance(result, str)
    ]
    writer.commit(number, {"items": len(batch), "unreadable": unreadable})


def _finish_images(writer: CacheWriter, files: Sequence[Path]) -> None:
    batches = sorted(writer.finished.items())
    unreadable = [item for _, notes in batches for item in notes["unreadable"]]
    if len(unreadable) == len(files):
        raise DataError(
            f"none of the {len(files)} images could be read: "
            f"{a_few([item['path'] for item in unreadable])}; the first error: "
            f"{unreadable[0]['reason']}"
        )
    writer.finish({"unreadable": unreadable})


def _count_done(writer: CacheWriter) -> int:
    return sum(int(notes["items"]) for notes in writer.finished.values())


def _ignore(done: int, total: int) -> None:
    """The progress callback where none is given."""


def _check_counts(items: int, name: str, **counts: int) -> None:
    if not items:
        raise OptionError(f"{name} is empty; give at least one item to cache")
    for option, count in counts.items():
        check_count(option, count)
