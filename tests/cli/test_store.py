"""`diverset store` from end to end."""

import sqlite3

import numpy as np
import pytest
from index.index_support import make_index, make_sets

from diverset.cli import main
from diverset.index.item_database import FILE


@pytest.fixture
def folder(tmp_path):
    with make_index(tmp_path, 60) as index:
        index.delete(["id3"])
    return str(tmp_path / "index")


def test_info_compact_and_verify_an_index(folder, capsys):
    assert main(["store", "info", folder]) == 0
    output = capsys.readouterr().out
    assert "59 items of model model-a" in output
    assert "K = 3, D = 16, smooth_chamfer, alpha = 16" in output
    assert "not tuned" in output
    assert main(["store", "compact", folder]) == 0
    assert main(["store", "verify", folder]) == 0
    assert capsys.readouterr().out.endswith("59 items, no problems\n")


def test_verify_exits_with_1_for_a_damaged_index(folder, capsys):
    with sqlite3.connect(f"{folder}/{FILE}") as connection:
        connection.execute("DELETE FROM sets WHERE row = 8")
    connection.close()
    assert main(["store", "verify", folder]) == 1
    assert "rows 8 of items.sqlite are in items but not in sets" in capsys.readouterr().out


def test_tune_measures_recall_with_given_queries(folder, tmp_path, capsys):
    pytest.importorskip("faiss")
    np.save(tmp_path / "queries.npy", make_sets(20, seed=3))
    options = ["--queries", str(tmp_path / "queries.npy"), "--recall", "0.9", "--k", "3"]
    assert main(["store", "tune", folder, *options]) == 0
    assert "recall@3" in capsys.readouterr().out
    assert main(["store", "info", folder]) == 0
    assert "approximate search: recall@3" in capsys.readouterr().out


def test_unreadable_files_end_with_one_line(folder, tmp_path, capsys):
    assert main(["store", "info", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"diverset store info: {tmp_path} holds no index")
    assert f"it contains folders that do: {folder}" in message
    (tmp_path / "queries.npy").write_text("no array")
    assert main(["store", "tune", folder, "--queries", str(tmp_path / "queries.npy")]) == 2
    assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["info", "verify", "compact", "tune"])
def test_commands_of_the_embedded_index_reject_engine_addresses(command, capsys):
    for address in ("qdrant://db:6333/x", "postgresql://me:secret@db/x?table=t", "qdrant:a#b"):
        assert main(["store", command, address]) == 2
        output = capsys.readouterr().err
        assert output.startswith(f"diverset store {command}: this command needs an embedded index")
        assert "diverset store copy" in output
        assert "secret" not in output
    with pytest.raises(SystemExit):
        main(["store", command, "--help"])
    assert "embedded index" in capsys.readouterr().out
