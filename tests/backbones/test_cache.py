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

from diverset.backbones import cache_pictures, cache_texts, open_maps, open_tokens
from diverset.backbones.base import PictureBackbone, TextBackbone
from diverset.backbones.store import DONE, HEADER, JOURNAL, ROWS, Store
from diverset.data import Preprocess, RandomResizedCrop, open_picture
from diverset.errors import DataError, InputError, OptionError, ShapeError
from diverset.types import Padded


class TinyPicture(PictureBackbone):
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
def pictures(tmp_path: Path) -> list[Path]:
    generator = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    paths = []
    for number in range(7):
        noise = generator.integers(0, 255, (12, 16, 3), dtype=np.uint8)
        paths.append(folder / f"{number}.png")
        Image.fromarray(noise).save(paths[-1])
    return paths


def expected(backbone: PictureBackbone, paths: list[Path]) -> Tensor:
    with torch.no_grad():
        return backbone(torch.stack([backbone.preprocess(open_picture(path)) for path in paths]))


@pytest.mark.parametrize(
    ("storage", "tolerance"), [("float32", 1e-6), ("float16", 1e-3), ("bfloat16", 1e-2)]
)
def test_maps_are_what_the_backbone_gives(pictures, tmp_path: Path, storage: str, tolerance: float):
    backbone = TinyPicture()
    cached = cache_pictures(
        backbone, pictures, tmp_path / "c", precision="float32", storage=storage, batch_size=3
    )
    wanted = expected(backbone, pictures)
    found = cached.maps([6, 0, 3])
    assert found.dtype == torch.float32 and cached.shape == (4, 2, 2) and len(cached) == 7
    torch.testing.assert_close(found, wanted[[6, 0, 3]], rtol=tolerance, atol=tolerance)
    # The order on disk is the one in which the projection reads cells.
    assert found.flatten(2).transpose(1, 2).is_contiguous()
    assert cached.valid.all() and not cached.unreadable


def test_bfloat16_precision_is_close(pictures, tmp_path: Path):
    cached = cache_pictures(TinyPicture(), pictures, tmp_path / "c")
    torch.testing.assert_close(
        cached.maps(range(7)), expected(TinyPicture(), pictures), rtol=3e-2, atol=3e-2
    )


def test_memory_of_a_batch_can_be_used_again(pictures, tmp_path: Path):
    cached = cache_pictures(TinyPicture(), pictures, tmp_path / "c")
    old = cached.maps([0, 1, 2])
    found = cached.maps([5, 6], out=old)
    assert found.data_ptr() == old.data_ptr() and torch.equal(found, cached.maps([5, 6]))
    with pytest.raises(ShapeError, match="out is torch.float32"):
        cached.maps([0, 1, 2, 3], out=old)


def test_what_is_handed_out_is_not_the_file(pictures, tmp_path: Path):
    cached = cache_pictures(TinyPicture(), pictures, tmp_path / "c", storage="float32")
    before = cached.maps([0])
    cached.maps([0]).zero_()
    assert torch.equal(cached.maps([0]), before)
    texts = cache_texts(TinyText(), ["a", "b"], tmp_path / "t", storage="float32")
    kept = texts[0]
    texts[0].zero_()
    assert torch.equal(texts[0], kept)
    with pytest.raises(InputError, match="empty batch"):
        texts.padded([])


def test_second_call_runs_nothing(pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = cache_pictures(TinyPicture(), pictures, tmp_path / "c")
    monkeypatch.setattr(Store, "put", lambda *_: pytest.fail("extracted again"))
    again = cache_pictures(TinyPicture(), pictures, tmp_path / "c")
    assert again.folders == first.folders
    assert torch.equal(again.maps([2]), first.maps([2]))


def test_whatever_changes_changes_the_folder(pictures, tmp_path: Path):
    def folder(scale: float = 1.0, paths=pictures, **options) -> Path:
        return cache_pictures(TinyPicture(scale), paths, tmp_path / "c", **options).folders[0]

    squeezed = TinyPicture()
    squeezed.preprocess = Preprocess(8, crop="center")
    folders = {
        folder(),
        folder(scale=2.0),
        folder(paths=pictures[::-1]),
        folder(paths=pictures[:5]),
        folder(storage="float32"),
        folder(precision="float32"),
        cache_pictures(squeezed, pictures, tmp_path / "c").folders[0],
    }
    assert len(folders) == 7
    Image.new("RGB", (40, 40)).save(pictures[0])
    assert folder() not in folders  # another picture under the same name


def test_unreadable_pictures_are_named_and_skipped(pictures, tmp_path: Path):
    pictures[1].write_bytes(b"no picture")
    pictures[4].unlink()
    cached = cache_pictures(
        TinyPicture(), pictures, tmp_path / "c", batch_size=2, precision="float32"
    )
    assert cached.valid.tolist() == [True, False, True, True, False, True, True]
    assert set(cached.unreadable) == {str(pictures[1]), str(pictures[4])}
    assert "no picture" in cached.unreadable[str(pictures[4])]
    good = np.flatnonzero(cached.valid)
    wanted = expected(TinyPicture(), [pictures[place] for place in good])
    torch.testing.assert_close(cached.maps(good), wanted, rtol=1e-3, atol=1e-3)
    with pytest.raises(DataError, match="picture 4 of the cache could not be read"):
        cached.maps([0, 4])


def test_nothing_readable_is_an_error(tmp_path: Path):
    with pytest.raises(DataError, match="none of the 2 pictures could be read: .*a.jpg"):
        cache_pictures(TinyPicture(), [tmp_path / "a.jpg", tmp_path / "b.jpg"], tmp_path / "c")


def test_views_differ_repeat_and_can_be_added_later(pictures, tmp_path: Path):
    crop = RandomResizedCrop((0.2, 0.5))
    plain = cache_pictures(TinyPicture(), pictures, tmp_path / "c")
    three = cache_pictures(TinyPicture(), pictures, tmp_path / "c", views=3, augmentation=crop)
    assert three.views == 3 and three.folders[0] == plain.folders[0]
    assert torch.equal(three.maps([1], 0), plain.maps([1]))
    assert not torch.equal(three.maps([1], 1), three.maps([1], 2))
    mixed = three.maps([0, 1, 2], [2, 0, 1])
    assert torch.equal(mixed[0], three.maps([0], 2)[0])
    assert torch.equal(mixed[1], three.maps([1], 0)[0])
    elsewhere = cache_pictures(
        TinyPicture(), pictures, tmp_path / "d", views=2, augmentation=crop, batch_size=2, workers=3
    )
    assert torch.equal(elsewhere.maps(range(7), 1), three.maps(range(7), 1))
    seeded = cache_pictures(
        TinyPicture(), pictures, tmp_path / "c", views=2, augmentation=crop, seed=1
    )
    assert not torch.equal(seeded.maps([1], 1), three.maps([1], 1))
    with pytest.raises(OptionError, match="this cache has 3"):
        three.maps([0], 3)


def test_texts_are_what_the_backbone_gives(tmp_path: Path):
    texts = ["a dog", "a", "the long one of them", "cat"]
    calls: list[tuple[int, int]] = []
    cached = cache_texts(
        TinyText(), texts, tmp_path, precision="float32", storage="float32", batch_size=2,
        progress=lambda done, total: calls.append((done, total)),
    )  # fmt: skip
    assert len(cached) == 4 and cached.width == 3 and cached.lengths.tolist() == [6, 2, 21, 4]
    with torch.no_grad():
        wanted = TinyText()(TinyText().tokenize(texts))
    for place in range(4):
        assert torch.equal(cached[place], wanted.values[place][wanted.mask[place]])
    batch = cached.padded([2, 0])
    assert batch.values.shape == (2, 21, 3) and batch.mask.sum(dim=1).tolist() == [21, 6]
    assert calls == [(2, 4), (4, 4), (4, 4)]
    assert torch.equal(open_tokens(cached.folder)[3], cached[3])


KILLED = textwrap.dedent("""
    import sys, time
    sys.path.insert(0, sys.argv[1])
    from pathlib import Path
    from test_cache import TinyPicture, cache_pictures
    slow = lambda done, total: (print(done, flush=True), time.sleep(0.5))
    cache_pictures(TinyPicture(), sorted(Path(sys.argv[2]).iterdir()), sys.argv[3], batch_size=2,
                   precision="float32", progress=slow)
""")


def test_goes_on_after_kill_9(pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(pictures[0].parent),
         str(tmp_path / "c")],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline().strip() == "2"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    (folder,) = (tmp_path / "c").iterdir()
    with pytest.raises(DataError, match="not complete, 1 batches"):
        open_maps(folder)
    written: list[int] = []
    put = Store.put
    monkeypatch.setattr(Store, "put", lambda s, first, v: (written.append(first), put(s, first, v)))
    cached = cache_pictures(
        TinyPicture(), pictures, tmp_path / "c", batch_size=5, precision="float32"
    )
    assert written == [2, 3, 4, 5, 6]
    wanted = expected(TinyPicture(), pictures)
    torch.testing.assert_close(cached.maps(range(7)), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("torn", [b'{"batch": 1, "ite', b"\x00\x00\x00\n", b'{"batch": 1}'])
def test_a_torn_line_of_the_journal_is_done_again(pictures, tmp_path: Path, torn: bytes):
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache_pictures(TinyPicture(), pictures, tmp_path, batch_size=2, progress=stop)
    (folder,) = (path for path in tmp_path.iterdir() if path.name.startswith("pictures-"))
    whole = (folder / JOURNAL).read_bytes()
    (folder / JOURNAL).write_bytes(whole + torn)
    cached = cache_pictures(TinyPicture(), pictures, tmp_path, batch_size=2)
    lines = (folder / JOURNAL).read_bytes().splitlines()
    assert [json.loads(line)["batch"] for line in lines] == [0, 1, 2, 3]
    assert cached.valid.all() and (cached.maps(range(7)) != 0).all()


def test_killed_before_the_header_starts_anew(pictures, tmp_path: Path):
    first = cache_pictures(TinyPicture(), pictures, tmp_path / "c")
    wanted = first.maps(range(7))
    folder = first.folders[0]
    for name in (HEADER, DONE):
        (folder / name).unlink()
    again = cache_pictures(TinyPicture(), pictures, tmp_path / "c")
    assert torch.equal(again.maps(range(7)), wanted)


def test_a_foreign_header_is_refused_by_name(pictures, tmp_path: Path):
    cached = cache_pictures(TinyPicture(), pictures, tmp_path / "c")
    folder = cached.folders[0]
    with pytest.raises(DataError, match="has fingerprint '.*', not 'another'"):
        open_maps(folder, expected={"fingerprint": "another"})
    assert open_maps(folder, expected={"fingerprint": TinyPicture().fingerprint()}).valid.all()
    header = json.loads((folder / HEADER).read_text())
    (folder / HEADER).write_text(json.dumps({**header, "items": "other"}))
    (folder / DONE).unlink()
    with pytest.raises(DataError, match="has items 'other'"):
        cache_pictures(TinyPicture(), pictures, tmp_path / "c")
    with pytest.raises(DataError, match="has kind 'pictures', not 'texts'"):
        open_tokens(folder)


def test_damaged_and_absent_files_are_named(pictures, tmp_path: Path):
    folder = cache_pictures(TinyPicture(), pictures, tmp_path / "c").folders[0]
    (folder / ROWS).write_bytes((folder / ROWS).read_bytes()[:150])
    with pytest.raises(DataError, match=r"cannot map .*rows\.npy"):
        open_maps(folder)
    with pytest.raises(DataError, match="a cache is a folder"):
        open_maps(tmp_path / "nowhere")


def test_two_writers_are_refused(tmp_path: Path):
    header = {"storage": "float32"}
    with Store.writing(tmp_path, header, (1, 1)):
        with pytest.raises(DataError, match="another process is extracting"):
            with Store.writing(tmp_path, header, (1, 1)):
                pass


def test_numbers_that_do_not_fit_are_refused(pictures, tmp_path: Path):
    with pytest.raises(OptionError, match="does not fit into float16.*bfloat16"):
        cache_pictures(TinyPicture(1e6), pictures, tmp_path / "c")
    large = cache_pictures(TinyPicture(1e6), pictures, tmp_path / "c", storage="bfloat16")
    assert large.maps([0]).abs().max() > 65504
    with pytest.raises(InputError, match="NaN"):
        cache_pictures(TinyPicture(float("nan")), pictures, tmp_path / "c")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": 0}, "views is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"precision": "int8"}, "precision is 'int8'; choose one of: bfloat16, float32"),
        ({"storage": "int8"}, "storage is 'int8'"),
    ],
)
def test_wrong_options_are_named(pictures, tmp_path: Path, options: dict, message: str):
    with pytest.raises(OptionError, match=message):
        cache_pictures(TinyPicture(), pictures, tmp_path / "c", **options)
    with pytest.raises(OptionError, match="paths is empty"):
        cache_pictures(TinyPicture(), [], tmp_path / "c")


def test_places_outside_are_named(pictures, tmp_path: Path):
    cached = cache_pictures(TinyPicture(), pictures, tmp_path / "c")
    with pytest.raises(OptionError, match="of a cache of 7"):
        cached.maps([7])
    with pytest.raises(OptionError, match="of a cache of 7"):
        cached.maps([-1])
    assert cached.maps(torch.tensor([1, 2])).shape == (2, 4, 2, 2)
