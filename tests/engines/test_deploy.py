"""deploy/: the script that checks a store, and the compose files beside it."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from diverset.index import SetIndex

yaml = pytest.importorskip("yaml", reason="pip install 'diverset[train]'")
DEPLOY = Path(__file__).parents[2] / "deploy"


def run(monkeypatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["check_store.py", *words])
    runpy.run_path(str(DEPLOY / "check_store.py"), run_name="__main__")


def test_check_passes_on_an_intact_store(any_address, monkeypatch, capsys):
    address = any_address()
    run(monkeypatch, "fill", address, "--items", "120")
    run(monkeypatch, "check", address, "--items", "120", "--queries", "5")
    printed = capsys.readouterr().out
    assert "added 120 sets" in printed
    assert "120 of 120 items; 0 of 5 queries differ from brute force" in printed


def test_check_fails_if_items_are_lost(tmp_path, monkeypatch, capsys):
    address = str(tmp_path / "index")
    run(monkeypatch, "fill", address, "--items", "120")
    with SetIndex.open(address) as index:
        index.delete([f"item-{number:07d}" for number in range(60)])
    with pytest.raises(SystemExit, match="1"):
        run(monkeypatch, "check", address, "--items", "120", "--queries", "5")
    assert "60 of 120 items" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["qdrant", "postgres"])
def test_compose_file_publishes_on_loopback_and_keeps_no_password(name):
    content = yaml.safe_load((DEPLOY / name / "compose.yaml").read_text(encoding="utf-8"))
    assert len(content["services"]) == {"qdrant": 3, "postgres": 2}[name]
    published = [port for service in content["services"].values() for port in service["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert len(set(published)) == len(published)
    for service in content["services"].values():
        for variable, value in service.get("environment", {}).items():
            if re.search("KEY|PASSWORD", variable):
                assert value.startswith("${"), variable
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            known = (DEPLOY / name / source).exists() or source in content["volumes"]
            assert known, mount
