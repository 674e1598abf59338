import json
from dataclasses import replace

from diverset.reproduce.claims import Verdict
from diverset.reproduce.page import Page, write_page

PAGE = Page("Title", "About.", ["table"], [Verdict("a > b", "holds", "1 - 0")])
COMMAND = "diverset reproduce similarity --recipe tiny.yaml --seeds 2"


def test_a_page_gives_its_command_without_local_paths(experiment):
    for overrides, written in (
        (("--train.epochs", "3", "--data.root", "/x"), "--train.epochs 3 --data.root DATA"),
        (("--data.root=/x", "--optim.lr=0.1"), "--data.root DATA --optim.lr=0.1"),
    ):
        changed = replace(experiment, overrides=overrides)
        text = write_page(changed, "similarity", PAGE).read_text()
        assert f"`{COMMAND} {written}`" in text and "/x" not in text


def test_the_command_names_another_split_than_validation(experiment):
    text = write_page(
        replace(experiment, split="test", overrides=()), "similarity", PAGE
    ).read_text()
    assert f"`{COMMAND} --split test`" in text


def test_verdicts_are_in_the_page_and_in_the_json_file(experiment):
    file = write_page(experiment, "similarity", PAGE)
    assert "| a > b | **holds** | 1 - 0 |" in file.read_text()
    stored = json.loads(file.with_suffix(".json").read_text())
    assert stored["claims"] == [{"claim": "a > b", "answer": "holds", "numbers": "1 - 0"}]
