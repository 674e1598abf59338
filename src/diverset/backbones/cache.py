"""Running a frozen backbone once over a dataset, into files that training maps.

The folder's name holds a key of all that decides the numbers: weights, preprocessing, precision,
the list of items, and for augmented views the seed. Whatever changes, changes the folder. Killed
at any moment, the same call goes on where it stopped. Training is not known here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diverset.backbones.base import PictureBackbone, TextBackbone
from diverset.backbones.cached import CachedMaps, CachedTokens
from diverset.backbones.decoding import Loaded, decoded
from diverset.backbones.store import DONE, FORMAT, Store
from diverset.data.preprocess import RandomResizedCrop
from diverset.errors import DataError, OptionError, a_few, check_choice
from diverset.types import Padded

Progress = Callable[[int, int], None]
"""Called with the items that are done and with all there are."""
PRECISIONS = ("bfloat16", "float32")


def cache_pictures(
    backbone: PictureBackbone,
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
    progress: Progress | None = None,
) -> CachedMaps:
    """The feature maps of pictures, extracted where they are not yet there.

    Pictures that cannot be read are left out and named in `CachedMaps.unreadable`.

    Args:
        backbone: used as it is now; a later change of its weights makes another cache.
        paths: the pictures, in the order of the indices of the result.
        folder: where caches live; each view becomes one folder in it.
        views: 1 for the plain picture only; more add random crops, each in its own folder, so
            that raising the number later keeps what is there.
        augmentation: how the other views are cropped and flipped.
        seed: of the other views; view, seed and place in the list decide a crop.
        precision: "bfloat16" computes two to three times faster on CPUs that have it; "float32".
        storage: "float16", "bfloat16" (for values above 65,504) or "float32".
        batch_size: pictures at once, and what is lost by a kill.
        workers: threads that decode pictures ahead.
        progress: called after every batch.
    """
    files = [Path(path) for path in paths]
    _check_counts(len(files), "paths", batch_size=batch_size, views=views, workers=workers)
    augmentation = augmentation or RandomResizedCrop()
    network, shape = _ready(backbone)
    header = _header("pictures", backbone, precision, storage, picture_list_key(files), len(files))
    total, folders = views * len(files), []
    for view in range(views):
        recipe = {} if view == 0 else {"seed": seed, "augmentation": repr(augmentation)}
        full = {**header, "view": view, **recipe}
        target = _folder(folder, full)
        folders.append(target)
        if not (target / DONE).exists():
            with Store.writing(target, full, (len(files), *shape)) as store:
                crop = augmentation if view else None
                todo = _batches(np.arange(len(files)), batch_size, store)
                for number, loaded in decoded(backbone, files, todo, crop, (seed, view), workers):
                    _extract(network, backbone, store, number, loaded, files, precision)
                    _report(progress, view * len(files) + _done(store), total)
                _finish_pictures(store, files)
        _report(progress, (view + 1) * len(files), total)
    return CachedMaps(folders)


def cache_texts(
    backbone: TextBackbone,
    texts: Sequence[str],
    folder: str | Path,
    *,
    precision: str = "bfloat16",
    storage: str = "float16",
    batch_size: int = 128,
    progress: Progress | None = None,
) -> CachedTokens:
    """The token states of texts, extracted where they are not yet there; see `cache_pictures`."""
    _check_counts(len(texts), "texts", batch_size=batch_size)
    digest = hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()[:16]
    header = _header("texts", backbone, precision, storage, digest, len(texts))
    target = _folder(folder, header)
    if not (target / DONE).exists():
        tokens = _tokens(backbone, texts)
        lengths = np.array([len(ids) for ids in tokens])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        network = backbone.for_inference()
        # Texts of one length in one batch: no time goes into padding.
        order = np.argsort(lengths, kind="stable")
        with Store.writing(target, header, (int(offsets[-1]), backbone.width)) as store:
            for number, places in _batches(order, batch_size, store):
                some = Padded.of([tokens[place] for place in places]).to(network.device)
                with torch.inference_mode(), _autocast(network.device, precision):
                    states = network(some).values.float().cpu()
                for place, state in zip(places, states, strict=True):
                    store.put(int(offsets[place]), state[: lengths[place]])
                store.commit(number, {"items": len(places)})
                _report(progress, _done(store), len(texts))
            store.finish({}, offsets)
    _report(progress, len(texts), len(texts))
    return CachedTokens(target)


def _tokens(backbone: TextBackbone, texts: Sequence[str], chunk: int = 1024) -> list[Tensor]:
    """Token ids text by text; all in one padded tensor would be as wide as the longest."""
    found: list[Tensor] = []
    for start in range(0, len(texts), chunk):
        some = backbone.tokenize(texts[start : start + chunk])
        lengths = some.mask.sum(dim=1).tolist()
        found += [ids[:length] for ids, length in zip(some.values, lengths, strict=True)]
    return found


def picture_list_key(paths: Sequence[Path]) -> str:
    """A short name of a list of pictures: their file names and sizes, in order."""
    digest = hashlib.sha256()
    for path in paths:
        size = path.stat().st_size if path.is_file() else -1
        digest.update(f"{path.name}\0{size}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def _ready(backbone: PictureBackbone) -> tuple[PictureBackbone, tuple[int, int, int]]:
    """A copy that runs fast, and the shape of one map as it is stored."""
    network = backbone.for_inference()
    with torch.inference_mode():
        _, channels, rows, columns = network(
            torch.zeros(1, 3, backbone.size, backbone.size, device=network.device)
        ).shape
    return network, (rows, columns, channels)


def _header(
    kind: str, backbone: PictureBackbone | TextBackbone, precision: str, storage: str, items: str,
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


def _batches(order: np.ndarray, size: int, store: Store) -> Iterator[tuple[int, np.ndarray]]:
    """Number and places of every batch that is not yet finished."""
    # The size of the first run stays, or the numbers in the journal would mean other items.
    size = next((int(notes["items"]) for n, notes in store.finished.items() if n == 0), size)
    for number, start in enumerate(range(0, len(order), size)):
        if number not in store.finished:
            yield number, order[start : start + size]


def _extract(
    network: PictureBackbone, backbone: PictureBackbone, store: Store, number: int,
    loaded: Loaded, files: Sequence[Path], precision: str,
) -> None:  # fmt: skip
    """Run one batch, write its maps and record it."""
    read = [(place, found) for place, found in loaded if isinstance(found, Tensor)]
    if read:
        pixels = backbone.preprocess.batch([found for _, found in read], network.device)
        with torch.inference_mode(), _autocast(network.device, precision):
            maps = network(pixels).float().permute(0, 2, 3, 1).cpu()
        for (place, _), one in zip(read, maps, strict=True):
            store.put(place, one[None])
    failed = [
        {"index": place, "path": str(files[place]), "reason": found}
        for place, found in loaded
        if isinstance(found, str)
    ]
    store.commit(number, {"items": len(loaded), "unreadable": failed})


def _finish_pictures(store: Store, files: Sequence[Path]) -> None:
    failed = [item for _, notes in sorted(store.finished.items()) for item in notes["unreadable"]]
    if len(failed) == len(files):
        named = a_few([item["path"] for item in failed])
        raise DataError(
            f"none of the {len(files)} pictures could be read: {named}; the first says: "
            f"{failed[0]['reason']}"
        )
    store.finish({"unreadable": failed})


def _done(store: Store) -> int:
    return sum(int(notes["items"]) for notes in store.finished.values())


def _report(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)


def _autocast(device: torch.device, precision: str) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def _check_counts(items: int, what: str, **counts: int) -> None:
    if not items:
        raise OptionError(f"{what} is empty; give at least one item to cache")
    for name, count in counts.items():
        if count < 1:
            raise OptionError(f"{name} is {count}; give 1 or more")
