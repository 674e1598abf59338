import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from diverset.backbones import CachedMaps, CachedTokens, cache_images, cache_texts
from diverset.backbones.base import ImageBackbone, TextBackbone
from diverset.backbones.cache_files import DONE, HEADER, JOURNAL, ROWS, CacheWriter
from diverset.data import Preprocess, RandomResizedCrop, open_image
from diverset.errors import DataError, InputError, LockedError, OptionError
from diverset.types import Padded


class TinyImage(ImageBackbone):
    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.name, self.width = "tiny", 4
        self.preprocess = Preprocess(8, crop="squash")
        self.conv = nn.Conv2d(3, 4, 4, stride=4)
        nn.init.constant_(self.conv.weight, scale / 48)
        nn.init.constant_(self.conv.bias, 0.5)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.conv(pixels)

    def stages(self) -> list[nn.Module]:
        return [self.conv]


class TinyText(TextBackbone):
    def __init__(self) -> None:
        super().__init__()
        self.name, self.width = "tiny text", 3
        self.table = nn.Embedding(256, 3)
        nn.init.normal_(self.table.weight, generator=torch.Generator().manual_seed(0))

    def tokenize(self, texts) -> Padded:
        return Padded.of([torch.tensor([1, *text.encode()]) for text in texts])

    def forward(self, tokens: Padded) -> Padded:
        return Padded(self.table(tokens.values), tokens.mask)

    def settings(self) -> str:
        return "bytes"

    def stages(self) -> list[nn.Module]:
        return [self.table]


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    generator = np.random.default_rng(0)
    folder = tmp_path / "images"
    folder.mkdir()
    paths = []
    for number in range(7):
        noise = generator.integers(0, 255, (12, 16, 3), dtype=np.uint8)
        paths.append(folder / f"{number}.png")
        Image.fromarray(noise).save(paths[-1])
    return paths


def expected(backbone: ImageBackbone, paths: list[Path]) -> Tensor:
    with torch.no_grad():
        return backbone(torch.stack([backbone.preprocess(open_image(path)) for path in paths]))


@pytest.mark.parametrize(
    ("storage", "tolerance"), [("float32", 1e-6), ("float16", 1e-3), ("bfloat16", 1e-2)]
)
def test_cached_maps_equal_the_output_of_the_backbone(
    images, tmp_path: Path, storage: str, tolerance: float
):
    backbone = TinyImage()
    cached = cache_images(
        backbone, images, tmp_path / "c", precision="float32", storage=storage, batch_size=3
    )
    reference = expected(backbone, images)
    found = cached.maps([6, 0, 3])
    assert found.dtype == torch.float32 and cached.shape == (4, 2, 2) and len(cached) == 7
    torch.testing.assert_close(found, reference[[6, 0, 3]], rtol=tolerance, atol=tolerance)
    # The projection reads cells in the order of the file.
    assert found.flatten(2).transpose(1, 2).is_contiguous()
    assert cached.valid.all() and not cached.unreadable


def test_bfloat16_precision_is_close(images, tmp_path: Path):
    cached = cache_images(TinyImage(), images, tmp_path / "c")
    torch.testing.assert_close(
        cached.maps(range(7)), expected(TinyImage(), images), rtol=3e-2, atol=3e-2
    )


def test_changing_a_batch_does_not_change_the_cache(images, tmp_path: Path):
    cached = cache_images(TinyImage(), images, tmp_path / "c", storage="float32")
    before = cached.maps([0])
    cached.maps([0]).zero_()
    assert torch.equal(cached.maps([0]), before)
    texts = cache_texts(TinyText(), ["a", "b"], tmp_path / "t", storage="float32")
    kept = texts[0]
    texts[0].zero_()
    assert torch.equal(texts[0], kept)
    with pytest.raises(InputError, match="batch of texts is empty"):
        texts.padded([])


def test_second_call_extracts_nothing(images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = cache_images(TinyImage(), images, tmp_path / "c")
    monkeypatch.setattr(CacheWriter, "put", lambda *_: pytest.fail("extracted again"))
    again = cache_images(TinyImage(), images, tmp_path / "c")
    assert again.folders == first.folders
    assert torch.equal(again.maps([2]), first.maps([2]))


def test_every_relevant_change_uses_another_folder(images, tmp_path: Path):
    def folder(scale: float = 1.0, paths=images, **options) -> Path:
        return cache_images(TinyImage(scale), paths, tmp_path / "c", **options).folders[0]

    squeezed = TinyImage()
    squeezed.preprocess = Preprocess(8, crop="center")
    folders = {
        folder(),
        folder(scale=2.0),
        folder(paths=images[::-1]),
        folder(paths=images[:5]),
        folder(storage="float32"),
        folder(precision="float32"),
        cache_images(squeezed, images, tmp_path / "c").folders[0],
    }
    assert len(folders) == 7
    Image.new("RGB", (40, 40)).save(images[0])
    assert folder() not in folders  # another image under the same name


def test_unreadable_images_are_named_and_skipped(images, tmp_path: Path):
    images[1].write_bytes(b"no image")
    images[4].unlink()
    cached = cache_images(TinyImage(), images, tmp_path / "c", batch_size=2, precision="float32")
    assert cached.valid.tolist() == [True, False, True, True, False, True, True]
    assert set(cached.unreadable) == {str(images[1]), str(images[4])}
    assert "no image" in cached.unreadable[str(images[4])]
    good = np.flatnonzero(cached.valid)
    reference = expected(TinyImage(), [images[index] for index in good])
    torch.testing.assert_close(cached.maps(good), reference, rtol=1e-3, atol=1e-3)
    with pytest.raises(DataError, match="image 4 could not be read"):
        cached.maps([0, 4])


def test_no_readable_image_is_an_error(tmp_path: Path):
    with pytest.raises(DataError, match="none of the 2 images could be read: .*a.jpg"):
        cache_images(TinyImage(), [tmp_path / "a.jpg", tmp_path / "b.jpg"], tmp_path / "c")


def test_views_are_different_reproducible_and_can_be_added_later(images, tmp_path: Path):
    crop = RandomResizedCrop((0.2, 0.5))
    plain = cache_images(TinyImage(), images, tmp_path / "c")
    three = cache_images(TinyImage(), images, tmp_path / "c", views=3, augmentation=crop)
    assert three.views == 3 and three.folders[0] == plain.folders[0]
    assert torch.equal(three.maps([1], 0), plain.maps([1]))
    assert not torch.equal(three.maps([1], 1), three.maps([1], 2))
    mixed = three.maps([0, 1, 2], [2, 0, 1])
    assert torch.equal(mixed[0], three.maps([0], 2)[0])
    assert torch.equal(mixed[1], three.maps([1], 0)[0])
    elsewhere = cache_images(
        TinyImage(), images, tmp_path / "d", views=2, augmentation=crop, batch_size=2, workers=3
    )
    assert torch.equal(elsewhere.maps(range(7), 1), three.maps(range(7), 1))
    seeded = cache_images(TinyImage(), images, tmp_path / "c", views=2, augmentation=crop, seed=1)
    assert not torch.equal(seeded.maps([1], 1), three.maps([1], 1))
    with pytest.raises(OptionError, match="this cache has 3"):
        three.maps([0], 3)


def test_cached_states_equal_the_output_of_the_backbone(tmp_path: Path):
    texts = ["a dog", "a", "the long one of them", "cat"]
    calls: list[tuple[int, int]] = []
    cached = cache_texts(
        TinyText(), texts, tmp_path, precision="float32", storage="float32", batch_size=2,
        progress=lambda done, total: calls.append((done, total)),
    )  # fmt: skip
    assert len(cached) == 4 and cached.width == 3 and cached.lengths.tolist() == [6, 2, 21, 4]
    with torch.no_grad():
        reference = TinyText()(TinyText().tokenize(texts))
    for index in range(4):
        assert torch.equal(cached[index], reference.values[index][reference.mask[index]])
    batch = cached.padded([2, 0])
    assert batch.values.shape == (2, 21, 3) and batch.mask.sum(dim=1).tolist() == [21, 6]
    assert calls == [(2, 4), (4, 4), (4, 4)]
    assert torch.equal(CachedTokens(cached.folder)[3], cached[3])


KILLED = textwrap.dedent("""
    import sys, time
    sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    from test_extraction import TinyImage, cache_images
    slow = lambda done, total: (print(done, flush=True), time.sleep(0.5))
    cache_images(TinyImage(), sorted(Path(sys.argv[2]).iterdir()), sys.argv[3], batch_size=2,
                   precision="float32", progress=slow)
""")


def test_extraction_resumes_after_a_kill(images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(images[0].parent),
         str(tmp_path / "c")],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline().strip() == "2"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    (folder,) = (tmp_path / "c").iterdir()
    with pytest.raises(DataError, match="incomplete, 1 batches"):
        CachedMaps([folder])
    written: list[int] = []
    put = CacheWriter.put
    monkeypatch.setattr(
        CacheWriter, "put", lambda s, first, v: (written.append(first), put(s, first, v))
    )
    cached = cache_images(TinyImage(), images, tmp_path / "c", batch_size=5, precision="float32")
    assert written == [2, 3, 4, 5, 6]
    reference = expected(TinyImage(), images)
    torch.testing.assert_close(cached.maps(range(7)), reference, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("torn", [b'{"batch": 1, "ite', b"\x00\x00\x00\n", b'{"batch": 1}'])
def test_batch_of_an_incomplete_journal_line_is_computed_again(images, tmp_path: Path, torn: bytes):
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache_images(TinyImage(), images, tmp_path, batch_size=2, progress=stop)
    (folder,) = (path for path in tmp_path.iterdir() if path.name.startswith("images-"))
    whole = (folder / JOURNAL).read_bytes()
    (folder / JOURNAL).write_bytes(whole + torn)
    cached = cache_images(TinyImage(), images, tmp_path, batch_size=2)
    lines = (folder / JOURNAL).read_bytes().splitlines()
    assert [json.loads(line)["batch"] for line in lines] == [0, 1, 2, 3]
    assert cached.valid.all() and (cached.maps(range(7)) != 0).all()


def test_folder_without_header_is_extracted_from_the_start(images, tmp_path: Path):
    first = cache_images(TinyImage(), images, tmp_path / "c")
    reference = first.maps(range(7))
    folder = first.folders[0]
    for name in (HEADER, DONE):
        (folder / name).unlink()
    again = cache_images(TinyImage(), images, tmp_path / "c")
    assert torch.equal(again.maps(range(7)), reference)


def test_header_of_other_inputs_is_rejected_by_field(images, tmp_path: Path):
    cached = cache_images(TinyImage(), images, tmp_path / "c")
    folder = cached.folders[0]
    assert cached.header["fingerprint"] == TinyImage().fingerprint()
    header = json.loads((folder / HEADER).read_text())
    (folder / HEADER).write_text(json.dumps({**header, "items": "other"}))
    (folder / DONE).unlink()
    with pytest.raises(DataError, match="has items 'other'"):
        cache_images(TinyImage(), images, tmp_path / "c")
    with pytest.raises(DataError, match="has kind 'images', not 'texts'"):
        CachedTokens(folder)


def test_damaged_and_missing_files_are_named(images, tmp_path: Path):
    folder = cache_images(TinyImage(), images, tmp_path / "c").folders[0]
    (folder / ROWS).write_bytes((folder / ROWS).read_bytes()[:150])
    with pytest.raises(DataError, match=r"cannot map .*rows\.npy"):
        CachedMaps([folder])
    with pytest.raises(DataError, match="a feature cache is a folder"):
        CachedMaps([tmp_path / "nowhere"])


def test_second_writer_is_rejected(tmp_path: Path):
    header = {"storage": "float32"}
    with CacheWriter.open(tmp_path, header, (1, 1)):
        with pytest.raises(LockedError, match="another process is extracting"):
            with CacheWriter.open(tmp_path, header, (1, 1)):
                pass


def test_values_outside_the_storage_type_are_rejected(images, tmp_path: Path):
    with pytest.raises(OptionError, match="does not fit into float16.*bfloat16"):
        cache_images(TinyImage(1e6), images, tmp_path / "c")
    large = cache_images(TinyImage(1e6), images, tmp_path / "c", storage="bfloat16")
    assert large.maps([0]).abs().max() > 65504
    with pytest.raises(InputError, match="NaN"):
        cache_images(TinyImage(float("nan")), images, tmp_path / "c")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": 0}, "views is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"precision": "int8"}, "precision is 'int8'; choose one of: float32, bfloat16"),
        ({"storage": "int8"}, "storage is 'int8'"),
    ],
)
def test_invalid_options_are_rejected_by_name(images, tmp_path: Path, options: dict, message: str):
    with pytest.raises(OptionError, match=message):
        cache_images(TinyImage(), images, tmp_path / "c", **options)
    with pytest.raises(OptionError, match="paths is empty"):
        cache_images(TinyImage(), [], tmp_path / "c")


def test_indices_out_of_range_are_rejected(images, tmp_path: Path):
    cached = cache_images(TinyImage(), images, tmp_path / "c")
    with pytest.raises(OptionError, match="of a cache of 7"):
        cached.maps([7])
    with pytest.raises(OptionError, match="of a cache of 7"):
        cached.maps([-1])
    assert cached.maps(torch.tensor([1, 2])).shape == (2, 4, 2, 2)
