import pytest

from diverset.reproduce.run_studies import run_studies

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


@pytest.mark.slow
def test_three_similarities_are_plotted_and_measured(experiment, read_page):
    assert run_studies("tsne", experiment) == 0
    text, numbers = read_page(experiment, "tsne")
    assert [variant["name"] for variant in numbers["variants"]] == ["MIL", "MP", "smooth-Chamfer"]
    for variant in numbers["variants"]:
        assert all(0 <= share <= 100 for share in variant["values"]["same_slot"])
    assert (experiment.out / "tsne.png").exists() and "t-SNE" in text
