import gc

import pytest

from diverset.runtime.garbage import collection_paused


def test_collection_is_paused_in_the_block_and_leaves_out_later_what_was_created_in_it():
    frozen = gc.get_freeze_count()
    try:
        with collection_paused():
            assert not gc.isenabled()
            created = [[] for _ in range(1000)]
        assert gc.isenabled() and gc.get_freeze_count() > frozen + len(created)
        with pytest.raises(ValueError, match="boom"), collection_paused():
            raise ValueError("boom")
        assert gc.isenabled()
    finally:
        gc.unfreeze()
