import json
from dataclasses import replace

import pytest

from diverset.errors import OptionError
from diverset.evaluation.extras import ECCV_COVERAGE, ECCV_SCORES
from diverset.reproduce.run_studies import run_studies
from diverset.reproduce.studies import STUDIES, noisy_correspondence

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


def test_other_datasets_than_coco_are_rejected(experiment):
    with pytest.raises(OptionError, match="tiny is not on COCO"):
        run_studies("noisy-correspondence", experiment)


def test_stored_scores_are_tabulated(experiment, tmp_path, read_page):
    """The scores themselves are tested with the evaluation; here the runs already have them."""
    coco = replace(experiment, recipe_file=tmp_path / "coco_tiny.yaml", runs=tmp_path / "runs")
    scores = {metric: {"i2t": 30.0, "t2i": 50.0} for metric in noisy_correspondence.METRICS}
    for run in STUDIES["noisy-correspondence"].runs(coco):
        run.folder.mkdir(parents=True)
        coverage = {"images": "4,407 of 5,000", "captions": "22,035 of 25,000"}
        stored = json.dumps({ECCV_SCORES: scores, ECCV_COVERAGE: coverage})
        (run.folder / "noisy-test.json").write_text(stored)
    assert run_studies("noisy-correspondence", coco) == 0
    text, numbers = read_page(coco, "noisy-correspondence")
    assert "| ours (sets) | 36.0 | 30.0 ± 0.0 | 46.4 |" in text and "72.3" in text
    assert "Measured on 4,407 of 5,000 images and 22,035 of 25,000 captions." in text
    assert "VSRN (not run here)" in text and numbers["split"] == "test"
    assert {claim["answer"] for claim in numbers["claims"]} == {"not decided"}
