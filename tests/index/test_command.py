"""`diverset index` from end to end."""

import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from index.making import make_index, make_sets

from diverset.cli import main
from diverset.index.truth import FILE


@pytest.fixture
def folder(tmp_path):
    with make_index(tmp_path, 60) as index:
        index.delete(["id3"])
    return str(tmp_path / "index")


def test_info_verify_and_compact(folder, capsys):
    assert main(["index", "info", folder]) == 0
    said = capsys.readouterr().out
    assert "59 items of model model-a" in said
    assert "K = 3, D = 16, smooth_chamfer, alpha = 16" in said
    assert "not tuned" in said
    assert main(["index", "compact", folder]) == 0
    assert main(["index", "verify", folder]) == 0
    assert capsys.readouterr().out.endswith("59 items, all well\n")


def test_verify_has_a_status(folder, capsys):
    with sqlite3.connect(f"{folder}/{FILE}") as connection:
        connection.execute("DELETE FROM sets WHERE row = 8")
    connection.close()
    assert main(["index", "verify", folder]) == 1
    assert "rows 8 are in items and not in sets" in capsys.readouterr().out


def test_tune_with_queries(folder, tmp_path, capsys):
    pytest.importorskip("faiss")
    np.save(tmp_path / "queries.npy", make_sets(20, seed=3))
    asked = ["--queries", str(tmp_path / "queries.npy"), "--recall", "0.9", "--k", "3"]
    assert main(["index", "tune", folder, *asked]) == 0
    assert "recall@3" in capsys.readouterr().out
    assert main(["index", "info", folder]) == 0
    assert "fast mode: recall@3" in capsys.readouterr().out


def test_mistakes(folder, tmp_path, capsys):
    assert main(["index", "info", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"diverset index: {tmp_path} holds no index")
    (tmp_path / "queries.npy").write_text("no array")
    assert main(["index", "tune", folder, "--queries", str(tmp_path / "queries.npy")]) == 2
    assert "give query sets as .npy" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["info", "verify", "compact", "tune"])
def test_commands_of_the_embedded_index_refuse_engines(command, capsys):
    for address in ("qdrant://db:6333/x", "postgresql://me:secret@db/x?table=t", "qdrant:a#b"):
        assert main(["index", command, address]) == 2
        said = capsys.readouterr().err
        assert f"{command} is for the embedded index" in said and "diverset index copy" in said
        assert "secret" not in said
    with pytest.raises(SystemExit):
        main(["index", command, "--help"])
    assert "embedded index" in capsys.readouterr().out


def test_help_needs_no_torch():
    code = "import sys, diverset.cli; print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
