"""The verbs of one's own pictures from end to end, with a model that nobody trained."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from library.making import WORDS, make_model, make_picture, make_pictures
from PIL import Image

from diverset import load
from diverset.cli import main
from diverset.library.library import Library
from diverset.search.calibration import FILE, Calibration, reach


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    base = tmp_path_factory.mktemp("made")
    model = make_model(base / "model")
    make_pictures(base / "photos", 12)
    (base / "texts.csv").write_text("caption\n" + "\n".join(WORDS))
    sources = [str(base / "photos"), str(base / "texts.csv")]
    assert main(["index", *sources, "--library", str(base / "library"), "--model", model]) == 0
    return base


def believe(made, bias, reach=0):
    """Give the model a calibration; a bias of 9 believes everything."""
    fingerprint = load(made / "model").fingerprint()
    Calibration(bias, 0, 0, reach, fingerprint=fingerprint).save(made / "model")


@pytest.fixture
def ask(made, capsys):
    believe(made, 9)

    def run(*given, status=0):
        assert main([*given, "--library", str(made / "library")]) == status
        return capsys.readouterr().out

    return run


def test_words_pictures_and_both(ask, made):
    assert len(ask("search", "a dog", "-n", "5").splitlines()) == 5
    paths = ask("search", "a dog", "--paths").splitlines()
    assert sorted(paths) == sorted(str(path) for path in (made / "photos").iterdir())
    few = ask("search", "a dog", "--filter", "name in ('3.png', '4.png')", "--paths").splitlines()
    assert {os.path.basename(path) for path in few} == {"3.png", "4.png"}
    for more in (["--not", "a cat"], ["--and", "snow", "--and", "a boat"], ["--coverage"],
                 ["--weights", "1", "0"], ["--image", str(made / "photos" / "1.png")]):  # fmt: skip
        found = json.loads(ask("search", "a dog", *more, "--json", "-n", "3"))
        assert len(found["groups"][0]) == 3 and found["matches_well"]
        one = found["groups"][0][0]
        assert one["metadata"]["path"] == one["id"] and 1 <= one["element"] <= 3
        assert sum(one["elements"]) == pytest.approx(1, abs=1e-3)
    only = ["--image", str(made / "photos" / "1.png"), "--paths", "-n", "1"]
    assert ask("search", *only).strip() == str(made / "photos" / "1.png")
    groups = json.loads(ask("search", "a dog", "--groups", "--json"))["groups"]
    assert sum(map(len, groups)) == 12


def test_similar_and_parts(ask, made):
    twin = made / "twin.png"
    twin.write_bytes((made / "photos" / "7.png").read_bytes())  # not indexed
    assert len(ask("similar", str(twin), "--paths").splitlines()) == 12
    others = ask("similar", str(made / "photos" / "7.png"), "--paths").splitlines()
    assert len(others) == 11 and str(made / "photos" / "7.png") not in others
    for part in ("1", "3"):
        first, *_ = ask("similar", str(twin), "--part", part, "--paths").splitlines()
        assert first == str(made / "photos" / "7.png")
    ask("similar", str(twin), "--part", "9", status=2)


def test_captions_and_explanations(ask, made, tmp_path):
    said = ask("caption", str(made / "photos" / "2.png"), "-n", "2").splitlines()
    assert len(said) == 2 and said[0].split("  ")[1] in WORDS
    assert len(json.loads(ask("caption", str(made / "photos" / "2.png"), "--json"))) == 5
    out = tmp_path / "why.png"
    said = ask("explain", "a dog", str(made / "photos" / "2.png"), "--out", str(out))
    assert "element 3:" in said
    with Image.open(out) as drawn:
        assert drawn.width > 4 * 280


def test_a_page_of_results(ask, made, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    page = ask("search", "a dog <b>", "--open", "-n", "4", "--groups").strip()
    text = Path(page).read_text(encoding="utf-8")
    assert text.count("<img") == 4 and "a dog &lt;b&gt;" in text
    assert shown and shown[0].startswith("file://")


def test_nothing_matches_well(made, capsys):
    believe(made, -9)
    given = ["search", "a dog", "--library", str(made / "library")]
    assert main(given) == 1
    said = capsys.readouterr()
    assert "nothing matches well; these are the nearest" in said.err and said.out
    assert main([*given, "--paths"]) == 1
    assert capsys.readouterr().out == ""
    assert json.loads((main([*given, "--json"]), capsys.readouterr().out)[1])["groups"][0]


def test_a_model_without_calibration_claims_nothing(ask, made):
    (made / "model" / FILE).unlink()
    found = json.loads(ask("search", "a dog", "--json"))
    assert found["matches_well"] and found["groups"][0][0]["probability"] is None
    assert "%" not in ask("search", "a dog")


def test_several_things_are_ranked_not_rated(ask, made):
    believe(made, 9)
    assert "%" in ask("search", "a dog")
    found = json.loads(ask("search", "a", "dog", "--and", "snow", "--json"))
    assert not found["by_probability"] and found["groups"][0][0]["probability"] > 0.9
    lines = ask("search", "a dog", "--and", "snow", "-n", "3").splitlines()
    assert [line.split()[0] for line in lines] == ["1.", "2.", "3."]


def test_whoever_reads_has_seen_enough(made):
    command = f"{sys.executable} -m diverset.cli search snow --library {made / 'library'} | head -1"
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, check=True
    )
    assert len(done.stdout.splitlines()) == 1 and "pipe" not in done.stderr.lower()


def test_a_filter_is_a_smaller_collection(ask, made):
    believe(made, 0, reach=-1)

    def probability(*more, cutoff=0.28):
        found = json.loads(ask("search", "a dog", "--json", *more))
        assert found["cutoff"] == pytest.approx(cutoff)  # lower where ten are as good as the best
        return found["groups"][0][0]["probability"]

    def expected(items):
        return pytest.approx(1 / (1 + math.exp(reach(items))), abs=1e-3)

    assert probability() == probability("--not", "a cat") == expected(12)
    six = "name in ('1.png', '2.png', '3.png', '4.png', '5.png', '6.png')"
    assert probability("--filter", six, cutoff=0.4) == expected(6)


def test_status_and_tables_again(made, capsys):
    where = ["--library", str(made / "library")]
    make_picture(made / "photos" / "new.png", 99)
    (made / "photos" / "bad.jpg").write_bytes(b"?")
    (made / "texts.csv").write_text("caption\n" + "\n".join([*WORDS[:2], "a boat"]))
    assert main(["index", "--all", *where]) == 0
    said = capsys.readouterr()
    assert "1 encoded" in said.out and "3 texts, 1 encoded" in said.out
    assert "bad.jpg" in said.err
    assert main(["status", "--skipped", *where]) == 0
    said = capsys.readouterr().out
    assert "pictures  13" in said and "bad.jpg: " in said and "3 of " in said
    assert main(["status", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 1
    with Library.open(made / "library") as library:
        assert library.texts.count() == 3
    (made / "photos" / "new.png").unlink()
    (made / "photos" / "bad.jpg").unlink()
    main(["index", "--all", *where])


def test_mistakes(made, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    where = ["--library", str(made / "library")]
    for given, words in (
        (["search", "a dog"], "make one with: diverset index FOLDER"),
        (["search", "", *where], "give words or a picture"),
        (["search", "a", "--filter", "width >", *where], "cannot be read to its end"),
        (
            ["search", "a", "--filter", "colour = 'red'", *where],
            "no picture has the field 'colour'",
        ),
        (["search", "a", "--filter", "taken > 2018", *where], "write for example: taken > '2020'"),
        (["search", "a", "--filter", "width > 9999", *where], "no picture passes the filter"),
        (["search", "a", "-n", "0", *where], "ask for 1 or more"),
        (["search", "a", "--coverage", "--weights", "1", "2", *where], "weights do nothing"),
        (["similar", str(made / "photos" / "1.png"), "--part", "9", *where], "has 1 to 3"),
        (["similar", str(made / "photos"), *where], "is a folder"),
        (["explain", "a", str(made / "photos" / "1.png"), "--out", "x.txt", *where], "x.txt.png"),
        (["index", str(made / "photos" / "1.png"), *where], "1.png is a file"),
        (["watch"], "make one with"),
        (["serve", "--port", "99999", *where], "try another --port"),
        (["search", "a", "--image", "no.jpg", *where], "there is no picture"),
        (["index", str(made / "photos"), "--model", "nothing"], "no shipped model is called so"),
        (["index", "nowhere", *where], "there is no folder nowhere"),
        (["index", "--workers", "2", *where], "or --all"),
    ):
        assert main(given) == (1 if "passes" in words else 2)
        assert words in capsys.readouterr().err


def test_an_unchanged_folder_needs_no_torch(made):
    code = (
        "import sys; from diverset.cli import main; "
        f"main(['index', {str(made / 'photos')!r}, '--library', {str(made / 'library')!r}]); "
        "print('torch' in sys.modules)"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.stdout.splitlines()[-1] == "False", done.stdout + done.stderr
