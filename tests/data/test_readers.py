from diverset import data


def test_every_reader_has_a_name():
    assert set(data.READERS) == {"karpathy", "coco", "precomp", "table"}
    for name, reader in data.READERS.items():
        assert reader is getattr(data, f"read_{name}")


def test_public_names_exist():
    assert all(hasattr(data, name) for name in data.__all__)
