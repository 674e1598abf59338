"""Every study from end to end, on tiny scenes."""

import json
from dataclasses import replace

import pytest
import torch

from diverset.analysis import noisy_correspondence
from diverset.analysis.attention import attention_maps, nearest_captions, overlap
from diverset.analysis.command import STUDIES, reproduce
from diverset.analysis.encoded import encode_run
from diverset.analysis.rows import Row, both_sets, changed
from diverset.errors import OptionError
from diverset.evaluation import evaluate_sets

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")
TRAINED = ["similarity", "architecture", "variance", "slot-attention", "comparison"]


def pages(bench, name):
    text = (bench.out / f"{name}.md").read_text()
    return text, json.loads((bench.out / f"{name}.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_study_writes_table_numbers_and_plot(name, bench, capsys):
    assert reproduce(name, bench) == 0
    text, numbers = pages(bench, name)
    assert all(len(row["values"]["rsum"]) == 2 for row in numbers["rows"])
    assert numbers["claims"] and all(one["claim"] in text for one in numbers["claims"])
    assert all(one["answer"] in text for one in numbers["claims"])
    assert f"]({name}.png)" in text
    for kind in ("png", "svg"):
        assert (bench.out / f"{name}.{kind}").stat().st_size > 5000
    assert str(bench.runs) not in text + json.dumps(numbers)
    capsys.readouterr()
    if name == "comparison":
        pairs = numbers["paired_bootstrap"]["SCAN"]
        assert [one["run_seed"] for one in pairs] == [0, 1] and len(numbers["ensembles"]) == 7
    assert reproduce(name, bench) == 0  # a second call trains nothing
    said = capsys.readouterr().out
    assert "starting" not in said and f"{len(STUDIES[name].runs(bench))} of them done" in said


@pytest.mark.slow
def test_hyperparameters_share_the_base_run(bench):
    bench = replace(bench, seeds=1)
    assert reproduce("hyperparameters", bench) == 0
    text, numbers = pages(bench, "hyperparameters")
    assert len(numbers["rows"]) == 6 + 6 + 7 and "500.8" in text
    assert len(STUDIES["hyperparameters"].runs(bench)) == 17  # K = 4, T = 2, alpha = 16: the recipe
    assert {one["answer"] for one in numbers["claims"]} == {"not decided"}  # one seed decides none
    assert (bench.out / "hyperparameters.png").exists()


def test_elements_alone_and_left_out(bench):
    assert reproduce("elements", bench) == 0
    text, numbers = pages(bench, "elements")
    assert len(numbers["rows"]) == 1 + 2 * (4 + 4)
    assert "| image element 4 alone | 309.6 |" in text
    alone = [row["mean"]["rsum"] for row in numbers["rows"][1:5]]
    assert alone == sorted(alone, reverse=True)  # ranked in each seed, so in the mean
    by_element = numbers["by_element"]
    assert len(by_element) == 2 and all(
        len(one["text"]["without"]) == 4 for one in by_element.values()
    )
    assert (bench.out / "elements.png").exists()
    single = replace(bench, recipe=changed(bench.recipe, both_sets(size=1)))
    with pytest.raises(OptionError, match="sets of two or more"):
        reproduce("elements", single)


def test_cost_has_the_papers_ratios_beside_ours(bench):
    assert reproduce("cost", bench) == 0
    text, numbers = pages(bench, "cost")
    assert "| ours (sets) | 16 | 16 |" in text and "| SCAN | 1,280 |" in text
    measured = numbers["measured"]
    assert measured["ours (sets)"]["pair_flops"] == 16 * measured["VSE-infinity"]["pair_flops"]
    assert measured["SCAN"]["pair_flops"] > measured["ours (sets)"]["pair_flops"]
    assert (bench.out / "cost.png").exists()


def test_attention_of_every_slot_in_every_iteration(bench):
    bench = replace(bench, images=(0, 3))
    assert reproduce("attention", bench) == 0
    text, numbers = pages(bench, "attention")
    assert len(numbers["nearest"]) == 2 * 4 and len(numbers["overlap_by_iteration"]) == 2
    assert all(one["caption"] in text for one in numbers["nearest"])
    assert (bench.out / "attention-0.png").exists() and "](attention-3.png)" in text
    with pytest.raises(OptionError, match=r"images is \[6\]; choose from 0 to 5"):
        reproduce("attention", replace(bench, images=(6,)))
    pooled = both_sets(kind="pooled", size=1)
    with pytest.raises(OptionError, match="attention is drawn over convolution maps"):
        reproduce("attention", replace(bench, recipe=changed(bench.recipe, pooled)))


def test_attention_maps_are_shares_and_matches_are_right(bench):
    reproduce("attention", bench)
    encoded = encode_run(bench, bench.run_of(Row("ours"), 0))
    maps = attention_maps(encoded, [0, 1])
    assert maps.shape[:3] == (2, 2, 4)
    torch.testing.assert_close(maps.sum(dim=2), torch.ones_like(maps[:, :, 0]))
    collection = encoded.split.collection
    for one in nearest_captions(encoded, 1):
        assert one.matching == (one.caption in collection.captions_of(1))
    same = torch.ones(1, 1, 3, 5)
    assert overlap(same) == pytest.approx([1.0])
    assert overlap(torch.eye(3)[None, None]) == pytest.approx([0.0])


@pytest.mark.slow
def test_tsne_colours_slots_and_shapes_modalities(bench):
    assert reproduce("tsne", bench) == 0
    text, numbers = pages(bench, "tsne")
    assert [row["name"] for row in numbers["rows"]] == ["MIL", "MP", "smooth-Chamfer"]
    assert all(0 <= share <= 100 for row in numbers["rows"] for share in row["values"]["same_slot"])
    assert (bench.out / "tsne.png").exists() and "t-SNE" in text


def test_noisy_correspondence_is_for_coco_only(bench, monkeypatch, tmp_path):
    with pytest.raises(OptionError, match="tiny is not on COCO"):
        reproduce("noisy-correspondence", bench)
    # What the annotations say is tested with the evaluation; here, that it gets into the table.
    scores = {name: {"i2t": 30.0, "t2i": 50.0} for name in noisy_correspondence.METRICS}
    report = evaluate_sets(*2 * [torch.eye(6).reshape(3, 2, 6)], owners=[0, 1, 2])
    report = replace(report, extras={noisy_correspondence.FOUND: scores})
    asked = []

    def judged(runs, how, **more):
        asked.append(how)
        return report

    monkeypatch.setattr(noisy_correspondence, "evaluate", judged)
    coco = replace(bench, file=tmp_path / "coco_tiny.yaml", cxc="annotations")
    assert reproduce("noisy-correspondence", coco) == 0
    text, numbers = pages(coco, "noisy-correspondence")
    assert "| ours (sets) | 36.0 | 30.0 ± 0.0 | 46.4 |" in text and "72.3" in text
    assert len(asked) == 4 and all(how.eccv and how.split == "test" for how in asked)
    assert asked[0].cxc == "annotations"
    assert {one["answer"] for one in numbers["claims"]} == {"not decided"}


def test_all_leaves_out_what_does_not_fit(bench, capsys):
    assert reproduce("all", replace(bench, seeds=1), dry_run=True) == 0
    said = capsys.readouterr().out
    assert "noisy-correspondence is left out: tiny is not on COCO" in said
    assert " runs, " in said and "SCAN, seed 0" in said
