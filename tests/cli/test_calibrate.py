"""`diverset calibrate` with a tiny untrained model and generated images."""

import json

import pytest
from photos.library_support import CAPTIONS, make_image, make_model

from diverset import load
from diverset.cli import main
from diverset.evaluation.calibration import CALIBRATION_FILE, load_calibration


@pytest.fixture
def data(tmp_path):
    lines = ["image,caption,split"]
    for number in range(110):
        make_image(tmp_path / "images" / f"{number}.png", number)
        split = "train" if number < 50 else "val"
        caption = f"{CAPTIONS[number % 4]} near the {'dog' if number % 3 else 'boat'}"
        lines.append(f"{number}.png,{caption},{split}")
    (tmp_path / "captions.csv").write_text("\n".join(lines))
    return tmp_path


def test_sixty_images_calibrate_a_model(data, tmp_path, capsys):
    model = make_model(tmp_path / "model")
    assert main(["calibrate", model, "--data", str(data), "--dry-run"]) == 0
    assert not (tmp_path / "model" / CALIBRATION_FILE).exists()
    assert main(["calibrate", model, "--data", str(data)]) == 0
    output = capsys.readouterr().out
    assert "best hit wrong" in output and "fitted on captions/val: 48 images" in output
    fitted = load_calibration(model, load(model).fingerprint())
    assert fitted is not None and fitted.similarity >= 0 and fitted.words["dog"] > 20
    json.loads((tmp_path / "model" / CALIBRATION_FILE).read_text(), parse_constant=pytest.fail)


def test_a_dataset_without_a_training_split_gives_half_of_its_images(data, tmp_path, capsys):
    text = (data / "captions.csv").read_text().replace(",train", ",val")
    (data / "captions.csv").write_text(text)
    assert main(["calibrate", make_model(tmp_path / "model"), "--data", str(data)]) == 0
    assert "fitted on captions/val: 44 images" in capsys.readouterr().out


def test_too_few_images_are_rejected(data, tmp_path, capsys):
    rows = (data / "captions.csv").read_text().splitlines()
    (data / "captions.csv").write_text("\n".join(rows[:90]))
    assert main(["calibrate", make_model(tmp_path / "model"), "--data", str(data)]) == 2
    assert "has 39 images; give 50 or more" in capsys.readouterr().err
