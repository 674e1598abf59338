import json
from dataclasses import replace

import pytest
import yaml

from diverset.reproduce.experiment import open_experiment
from diverset.reproduce.scenes import ScenesOptions, write_scenes

TINY = {
    "about": "tiny scenes",
    "model": {
        "dim": 8,
        "image": {
            "kind": "convolution",
            "backbone": "small_cnn",
            "backbone_size": 32,
            "trainable_blocks": -1,
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
def workspace(tmp_path_factory):
    """A folder with tiny scenes and a tiny recipe; all tests share its runs."""
    folder = tmp_path_factory.mktemp("reproduce")
    write_scenes(folder / "scenes", train=6, val=6, test=6, options=ScenesOptions(size=32))
    (folder / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    return folder


@pytest.fixture
def experiment(workspace, tmp_path):
    """Two seeds, one epoch of one batch, trained in this process."""
    opened = open_experiment(
        str(workspace / "tiny.yaml"),
        ["--data.root", str(workspace / "scenes")],
        workspace / "runs",
        tmp_path / "out",
        "val",
        workspace / "cache",
    )
    return replace(opened, jobs=0, device="cpu")


@pytest.fixture
def read_page():
    """Reads the Markdown text and the JSON content of a study."""

    def read(experiment, study):
        text = (experiment.out / f"{study}.md").read_text()
        return text, json.loads((experiment.out / f"{study}.json").read_text())

    return read
