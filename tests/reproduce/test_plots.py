from diverset.reproduce.plots import plot_results
from diverset.reproduce.results import Result


def test_a_plot_without_its_base_is_omitted(tmp_path):
    results = [Result("a", {"rsum": [1.0]}), Result("b", {})]
    assert plot_results(tmp_path / "x.png", "Title", results, base="b") == []
    assert plot_results(tmp_path / "x.png", "Title", results, base="a") == ["x.png"]


def test_equal_numbers_give_equal_svg_files(tmp_path):
    results = [Result("a", {"rsum": [1.0]})]
    for name in ("x.png", "y.png"):
        plot_results(tmp_path / name, "Title", results, base="a")
    assert (tmp_path / "x.svg").read_bytes() == (tmp_path / "y.svg").read_bytes()


def test_a_logarithmic_axis_is_labelled(tmp_path):
    for name, outlier in (("near", 20.0), ("far", 500.0)):
        results = [Result("a", {"rsum": [1.0]}), Result("b", {"rsum": [outlier]})]
        plot_results(tmp_path / f"{name}.png", "Title", results, base="a")
    labelled = {
        file.stem: "logarithmic beyond" in file.read_text() for file in tmp_path.glob("*.svg")
    }
    assert labelled == {"near": False, "far": True}
