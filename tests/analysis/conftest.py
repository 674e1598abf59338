import pytest
import yaml

from diverset.analysis.bench import open_bench
from diverset.data.scenes import ScenesOptions, write_scenes

TINY = {
    "about": "tiny scenes",
    "model": {
        "dim": 8,
        "image": {
            "kind": "convolution",
            "backbone": "small_cnn",
            "backbone_size": 32,
            "trained_blocks": -1,
            "input_width": 256,
        },
        "text": {"kind": "bigru", "input_width": 8},
        "image_set": {"size": 4, "inner_width": 8, "iterations": 2},
        "text_set": {"size": 4, "inner_width": 8, "iterations": 2},
    },
    "data": {"file": "dataset_scenes.json", "images": "images", "min_count": 1},
    "loss": {"kind": "contrastive"},
    "train": {"epochs": 1, "batch_size": 6},
}


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with tiny scenes, a tiny recipe and room for the runs that all tests share."""
    folder = tmp_path_factory.mktemp("reproduce")
    write_scenes(folder / "scenes", train=6, val=6, test=6, options=ScenesOptions(size=32))
    (folder / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    return folder


@pytest.fixture
def bench(place, tmp_path):
    """A bench that trains in this process, two seeds, one epoch of one batch."""
    from dataclasses import replace

    found = open_bench(
        str(place / "tiny.yaml"),
        ["--data.root", str(place / "scenes")],
        place / "runs",
        tmp_path / "out",
        "val",
        place / "cache",
    )
    return replace(found, jobs=0, device="cpu")
