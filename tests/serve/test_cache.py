"""Small files are kept up to a number of bytes."""

from hypothesis import given
from hypothesis import strategies as st

from diverset.serve.cache import Cache


def test_what_was_not_asked_for_longest_goes_first():
    made: list[str] = []
    cache = Cache(10)

    def get(key: str) -> None:
        assert cache.get(key, lambda: made.append(key) or key.encode() * 4) == key.encode() * 4

    for key in "abacab":
        get(key)
    assert made == ["a", "b", "c", "b"]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=40))
def test_no_more_bytes_are_kept_than_allowed(asked):
    cache = Cache(20)
    for key in asked:
        assert cache.get(key, lambda: bytes(key[1])) == bytes(key[1])  # noqa: B023
        assert cache.taken == sum(map(len, cache._kept.values())) <= 20
