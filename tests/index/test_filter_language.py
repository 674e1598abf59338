"""Filters: parsing, and SQL that is equivalent to `matches`."""

import numpy as np
import pytest
from filter_support import matches
from hypothesis import given
from hypothesis import strategies as st
from index.index_support import make_index, make_sets

from diverset.errors import InputError, OptionError
from diverset.index.filter_language import TEXT_OPERATORS
from diverset.index.filter_parser import parse

NAMES = ["a", "b", "in_", "Order", "contains", "under"]
SIGNS = ["=", "!=", "<", "<=", ">", ">="]
TEXT = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4
) | st.sampled_from(["", "x", "1", "true", "'", "é", "\U0001f600", "\uffff", "A", "a"])
NUMBERS = (
    st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, 1, 1.0, -0.0, 0.1, 2**53, 2**53 + 1, float(2**53), 5e-324])
)
SCALARS = TEXT | NUMBERS | st.booleans()


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    with make_index(tmp_path_factory.mktemp("filters")) as made:
        yield made


def to_text(value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


@st.composite
def filters(draw, depth: int = 3) -> str:
    leaves = ["compare", "text", "between", "under"]
    form = draw(st.sampled_from([*leaves, "in", "not", "and", "or"] if depth else leaves))
    if form in ("text", "under"):
        sign = "under" if form == "under" else draw(st.sampled_from(TEXT_OPERATORS))
        word = draw(st.sampled_from(["", "not "])) + sign
        return f"{draw(st.sampled_from(NAMES))} {word} {to_text(draw(TEXT))}"
    if form == "between":
        low, high = (to_text(draw(SCALARS)) for _ in range(2))
        return f"{draw(st.sampled_from(NAMES))} between {low} and {high}"
    if form == "compare":
        name, sign = draw(st.sampled_from(NAMES)), draw(st.sampled_from(SIGNS))
        return f"{name} {sign} {to_text(draw(SCALARS))}"
    if form == "in":
        values = draw(st.lists(SCALARS, min_size=1, max_size=3))
        word = draw(st.sampled_from(["in", "not in"]))
        return f"{draw(st.sampled_from(NAMES))} {word} ({', '.join(map(to_text, values))})"
    if form == "not":
        return f"not ({draw(filters(depth - 1))})"
    return f"({draw(filters(depth - 1))}) {form} ({draw(filters(depth - 1))})"


@given(
    metadata=st.lists(
        st.dictionaries(st.sampled_from(NAMES), SCALARS | st.none()), min_size=1, max_size=8
    ),
    texts=st.lists(filters(), min_size=3, max_size=6),
    data=st.data(),
)
def test_sql_filters_are_equivalent_to_matches(index, metadata, texts, data):
    ids = [f"id{n}" for n in range(len(metadata))]
    index.delete([f"id{n}" for n in range(8)])
    index.add(ids, make_sets(len(ids)), metadata)
    used = [value for item in metadata for value in item.values() if value is not None]
    if used:  # values that are really there
        value = data.draw(st.sampled_from(used))
        if isinstance(value, str):
            part = to_text(value[: len(value) // 2 + 1])
            texts += [f"{name} {sign} {part}" for name in NAMES for sign in TEXT_OPERATORS]
        texts += [f"{name} {sign} {to_text(value)}" for name in NAMES for sign in SIGNS]
    for text in texts:
        tree = parse(text)  # as a tree, so that fields and kinds are not checked
        expected = {ids[n] for n, item in enumerate(metadata) if matches(tree, item)}
        hits = index.search(make_sets(1), k=20, filter=tree)[0]
        assert {hit.id for hit in hits} == expected, text
        assert index.count(filter=tree) == len(expected)


@pytest.mark.usefixtures("backend")
def test_filtered_search_is_exact_for_few_and_many_matches(tmp_path, monkeypatch):
    monkeypatch.setattr("diverset.index.torch_search.PRUNE_BATCH", 3)
    metadata = [{"n": n} for n in range(200)]
    with make_index(tmp_path, 200, metadata=metadata) as filtered:
        everything = [hit.id for hit in filtered.search(make_sets(1, seed=4), k=200)[0]]
        for text, matching in (
            ("n < 3", lambda n: n < 3),
            ("n >= 20", lambda n: n >= 20),
            ("n = -1", lambda n: False),
        ):
            hits = [hit.id for hit in filtered.search(make_sets(1, seed=4), k=9, filter=text)[0]]
            assert hits == [item for item in everything if matching(int(item[2:]))][:9]


def test_filters_do_not_match_replaced_metadata(tmp_path):
    with make_index(tmp_path) as index:
        index.add(["x"], make_sets(1), [{"year": 1}])
        index.add(["x"], make_sets(1), [{"year": 2}])
        assert (index.count(), index.count("year = 1"), index.count("year = 2")) == (1, 0, 1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "year",
        "year = ",
        "year = 1; DROP TABLE items",
        "year = 1) OR (1=1",
        "1 = 1",
        "year = (SELECT 1)",
        "year LIKE 'x'",
        "name contains 3",
        "name startswith true",
        "year between 1",
        "folder under 5",
        "year = 2020-07-04x",
        '"year" = 1',
        "year = 'open",
        "(" * 60 + "a = 1" + ")" * 60,
        "a = 1 or " * 3000 + "a = 1",
    ],
)
def test_an_invalid_filter_is_rejected_before_the_database(tmp_path, text):
    with make_index(tmp_path, 3) as index:
        with pytest.raises(OptionError, match="filter"):
            index.search(make_sets(1), filter=text)
        assert index.count() == 3


def test_text_that_looks_like_sql_is_not_executed(tmp_path):
    evil = "x'; DROP TABLE items; --"
    with make_index(tmp_path) as index:
        index.add(["a"], make_sets(1), [{"name": evil}])
        assert index.count("name = " + to_text(evil)) == 1
        assert index.count('name = "\' or 1=1 --"') == 0


def test_numbers_of_any_length_are_parsed(tmp_path):
    with make_index(tmp_path) as index:
        index.add(["a"], make_sets(1), [{"n": 2**62}])
        assert index.count("n < " + "9" * 5000) == 1
        assert index.count("n > -" + "9" * 5000) == 1


@pytest.mark.parametrize("value", [1234567890123456789, 2**63 - 1, -(2**63) + 1])
def test_64_bit_integers_compare_exactly(tmp_path, value):
    with make_index(tmp_path) as index:
        near = value - 1 if value > 0 else value + 1
        index.add(["a", "b"], make_sets(2), [{"n": value}, {"n": near}])
        assert [hit.id for hit in index.search(make_sets(1), filter=f"n = {value}")[0]] == ["a"]
        assert matches(parse(f"n = {value}"), {"n": value})


@pytest.mark.parametrize("count", [1100, 2000])
def test_long_lists_do_not_exceed_the_depth_limit_of_sqlite(tmp_path, count):
    with make_index(tmp_path, 3, metadata=[{"n": n} for n in range(3)]) as index:
        numbers = ",".join(str(1 + n) for n in range(count))
        assert index.count(f"n in ({numbers})") == 2
        assert index.count(" or ".join(["n=7"] * 1000 + ["n=1"])) == 1
        assert index.count(" and ".join(["n=1"] * 1000)) == 1


def test_half_a_surrogate_pair_is_rejected():
    with pytest.raises(OptionError, match="surrogate"):
        parse("name > '\ud800'")


def test_metadata_accepts_numpy_scalars(tmp_path):
    with make_index(tmp_path) as index:
        metadata = {"n": np.int64(3), "x": np.float32(0.5), "b": np.bool_(True), "t": np.str_("x")}
        index.add(["a"], make_sets(1), [metadata])
        assert index.count("n = 3 and x = 0.5 and b = true and t = 'x'") == 1
        (hit,) = index.search(make_sets(1))[0]
        assert hit.metadata == {"n": 3, "x": 0.5, "b": True, "t": "x"}


@pytest.mark.parametrize(
    "value", [2**63, "a\0b", "\ud800", float("nan"), [1], b"x"], ids=lambda value: type(value)
)
def test_metadata_that_no_database_can_store_is_rejected(tmp_path, value):
    with make_index(tmp_path) as index:
        with pytest.raises(InputError, match="'n'"):
            index.add(["a"], make_sets(1), [{"n": value}])
        with pytest.raises(InputError, match="plain name"):
            index.add(["a"], make_sets(1), [{"n.x": 1}])
        assert index.count() == 0


@pytest.mark.parametrize("form", ["a != 1", "a in (1)", "not (a > 1)"])
@pytest.mark.parametrize("word", [" and ", " or "])
def test_the_number_of_comparisons_can_be_limited(form, word):
    parse(word.join([form] * 32), max_comparisons=32)
    with pytest.raises(OptionError, match="more than 32 conditions; use fewer"):
        parse(word.join([form] * 33), max_comparisons=32)


def test_each_value_of_a_list_counts_as_a_comparison():
    parse(f"a in ({', '.join(map(str, range(32)))})", max_comparisons=32)
    with pytest.raises(OptionError, match="more than 32 conditions"):
        parse(f"a not in ({', '.join(map(str, range(33)))})", max_comparisons=32)
