"""The verbs of the photo tool from end to end, with an untrained model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from photos.library_support import CAPTIONS, make_image, make_images, make_model
from PIL import Image

from diverset import load
from diverset.cli import main
from diverset.evaluation.calibration import CALIBRATION_FILE, Calibration
from diverset.photos.library.library import Library


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    base = tmp_path_factory.mktemp("made")
    model = make_model(base / "model")
    make_images(base / "photos", 12)
    (base / "texts.csv").write_text("caption\n" + "\n".join(CAPTIONS))
    sources = [str(base / "photos"), str(base / "texts.csv")]
    assert main(["index", *sources, "--library", str(base / "library"), "--model", model]) == 0
    return base


def calibrate(made, bias, similarity=0):
    """Give the model a calibration; a bias of 9 gives every hit a probability near 1."""
    fingerprint = load(made / "model").fingerprint()
    thresholds = [[9] * 4] * 3  # the note for every hit below one half
    fitted = Calibration(bias, similarity, thresholds=thresholds, fingerprint=fingerprint)
    fitted.save(made / "model")


@pytest.fixture
def run(made, capsys):
    calibrate(made, 9)

    def run_verb(*args, status=0):
        assert main([*args, "--library", str(made / "library")]) == status
        return capsys.readouterr().out

    return run_verb


def test_search_by_text_image_and_both(run, made):
    assert len(run("search", "a dog", "-n", "5").splitlines()) == 5
    paths = run("search", "a dog", "--paths").splitlines()
    assert sorted(paths) == sorted(str(path) for path in (made / "photos").iterdir())
    few = run("search", "a dog", "--filter", "name in ('3.png', '4.png')", "--paths").splitlines()
    assert {os.path.basename(path) for path in few} == {"3.png", "4.png"}
    for more in (["--not", "a cat"], ["--and", "snow", "--and", "a boat"], ["--coverage"],
                 ["--weights", "1", "0"], ["--image", str(made / "photos" / "1.png")]):  # fmt: skip
        result = json.loads(run("search", "a dog", *more, "--json", "-n", "3"))
        assert len(result["groups"][0]) == 3
        hit = result["groups"][0][0]
        assert hit["metadata"]["path"] == hit["id"] and 1 <= hit["element"] <= 3
        assert sum(hit["shares"]) == pytest.approx(1, abs=1e-3)
    only = ["--image", str(made / "photos" / "1.png"), "--paths"]
    assert len(run("search", *only).splitlines()) == 11  # without the queried image
    groups = json.loads(run("search", "a dog", "--groups", "--json"))["groups"]
    assert sum(map(len, groups)) == 12


def test_similar_finds_the_image_and_its_elements(run, made):
    copy = made / "copy.png"
    copy.write_bytes((made / "photos" / "7.png").read_bytes())  # not indexed
    assert len(run("similar", str(copy), "--paths").splitlines()) == 12
    others = run("similar", str(made / "photos" / "7.png"), "--paths").splitlines()
    assert len(others) == 11 and str(made / "photos" / "7.png") not in others
    for element in ("1", "3"):
        first, *_ = run("similar", str(copy), "--element", element, "--paths").splitlines()
        assert first == str(made / "photos" / "7.png")
    run("similar", str(copy), "--element", "9", status=2)


def test_captions_are_found_and_matches_are_drawn(run, made, tmp_path):
    lines = run("caption", str(made / "photos" / "2.png"), "-n", "2").splitlines()
    assert len(lines) == 2 and lines[0].split("  ")[1] in CAPTIONS
    assert len(json.loads(run("caption", str(made / "photos" / "2.png"), "--json"))) == 5
    out = tmp_path / "why.png"
    output = run("explain", "a dog", str(made / "photos" / "2.png"), "--out", str(out))
    assert "element 3:" in output
    with Image.open(out) as drawn:
        assert drawn.width > 4 * 280


def test_open_writes_a_page_of_hits(run, made, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = run("search", "a dog <b>", "--open", "-n", "4", "--groups").strip()
    text = Path(page).read_text(encoding="utf-8")
    assert text.count("<img") == 4 and "a dog &lt;b&gt;" in text
    assert opened and opened[0].startswith("file://")


def test_weak_hits_are_printed_under_a_note(made, capsys):
    calibrate(made, -9)
    args = ["search", "a dog", "-n", "7", "--library", str(made / "library")]
    assert main(args) == 0
    output = capsys.readouterr()
    assert "probably nothing like this here" in output.err and len(output.out.splitlines()) == 7
    assert main([*args, "--paths"]) == 0
    output = capsys.readouterr()
    assert len(output.out.splitlines()) == 7 and not output.err
    assert main([*args, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["confidence"] == "weak" and result["note"] and len(result["groups"][0]) == 7
    assert main([*args, "--min-probability", "0.5"]) == 1
    output = capsys.readouterr()
    assert not output.out and "no photo is as probable as 50%" in output.err


def test_a_model_without_calibration_shows_similarities(run, made):
    (made / "model" / CALIBRATION_FILE).unlink()
    result = json.loads(run("search", "a dog", "--json"))
    assert result["confidence"] is None and result["groups"][0][0]["probability"] is None
    image = str(made / "photos" / "1.png")
    for args in (["search", "a dog"], ["search", "a dog", "--and", "snow"], ["similar", image]):
        scores = [float(line.split()[0]) for line in run(*args).splitlines()]
        assert scores == sorted(scores, reverse=True) and len(scores) >= 11


def test_probabilities_of_composite_queries_have_the_order_of_the_hits(run, made):
    calibrate(made, -4, similarity=8)
    image = ["--image", str(made / "photos" / "1.png")]
    for more in (
        ["--and", "snow"],
        ["--not", "snow"],
        ["--weights", "1", "2"],
        ["--coverage"],
        image,
    ):
        [hits] = json.loads(run("search", "a dog", *more, "--json"))["groups"]
        probabilities = [hit["probability"] for hit in hits]
        assert len(hits) == (11 if more is image else 12) and None not in probabilities
        assert probabilities == sorted(probabilities, reverse=True)


def test_a_closed_pipe_is_not_an_error(made):
    command = f"{sys.executable} -m diverset search snow --library {made / 'library'} | head -1"
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=environment, check=True
    )
    assert len(done.stdout.splitlines()) == 1 and "pipe" not in done.stderr.lower()


def test_a_filter_does_not_change_the_probability_of_an_image(run, made):
    calibrate(made, -4, similarity=8)

    def probabilities(*more):
        [hits] = json.loads(run("search", "a dog", "--json", *more))["groups"]
        return {hit["metadata"]["name"]: hit["probability"] for hit in hits}

    everything = probabilities()
    assert len(set(everything.values())) > 3
    for names in (["5.png"], ["2.png", "7.png", "9.png"]):
        wanted = ", ".join(f"'{name}'" for name in names)
        filtered = probabilities("--filter", f"name in ({wanted})")
        assert filtered == {name: everything[name] for name in names}


def test_status_lists_photos_texts_and_skipped_files(made, capsys):
    where = ["--library", str(made / "library")]
    make_image(made / "photos" / "new.png", 99)
    (made / "photos" / "bad.jpg").write_bytes(b"?")
    (made / "texts.csv").write_text("caption\n" + "\n".join([*CAPTIONS[:2], "a boat"]))
    assert main(["index", "--all", *where]) == 0
    output = capsys.readouterr()
    assert "1 encoded" in output.out and "3 texts, 1 encoded" in output.out
    assert "bad.jpg" in output.err
    assert main(["status", "--skipped", *where]) == 0
    output = capsys.readouterr().out
    assert "photos    13" in output and "bad.jpg: " in output and "3 from " in output
    assert main(["status", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 1
    with Library.open(made / "library") as library:
        assert library.texts.count() == 3
    (made / "photos" / "new.png").unlink()
    (made / "photos" / "bad.jpg").unlink()
    main(["index", "--all", *where])


def test_errors_say_what_to_do_next(made, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    where = ["--library", str(made / "library")]
    for args, message in (
        (["search", "a dog"], "create one with: diverset index FOLDER"),
        (["search", "", *where], "give a text or an image"),
        (["search", "a", "--filter", "width >", *where], "it ends too early"),
        (
            ["search", "a", "--filter", "colour = 'red'", *where],
            "there is no field 'colour'",
        ),
        (["search", "a", "--filter", "taken > 'June'", *where], "taken is a date, 'June' is not"),
        (["search", "a", "--filter", "width > 9999", *where], "no photo passes the filter"),
        (["search", "a", "--coverage", "--weights", "1", "2", *where], "weights have no effect"),
        (
            ["similar", str(made / "photos" / "1.png"), "--element", "9", *where],
            "elements 1 to 3",
        ),
        (["similar", str(made / "photos"), *where], "is a folder"),
        (["explain", "a", str(made / "photos" / "1.png"), "--out", "x.txt", *where], "x.txt.png"),
        (["index", str(made / "photos" / "1.png"), *where], "1.png is a file"),
        (["watch"], "create one with"),
        (["serve", "--port", "99999", *where], "try another --port"),
        (["search", "a", "--image", "no.jpg", *where], "there is no image"),
        (["index", str(made / "photos"), "--model", "nothing"], "a shipped model (photos)"),
        (["index", "nowhere", *where], "there is no folder nowhere"),
        (["index", "--workers", "2", *where], "or --all"),
    ):
        assert main(args) == (1 if "passes" in message else 2)
        assert message in capsys.readouterr().err


def test_indexing_an_unchanged_folder_does_not_import_torch(made):
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
