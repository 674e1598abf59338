"""Filters in both engines mean what `matches` means, and hostile text stays text."""

from contextlib import closing

import pytest
from filter_support import (
    FIELDS,
    HOSTILE,
    METADATA,
    UNSTORABLE,
    VALUES,
    compares_parts_of_text,
    matches,
    orders_text,
    to_text,
    trees,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_support import SETTINGS, some_sets

from diverset.engines import create_store
from diverset.errors import DiversetError, OptionError
from diverset.index.filter_language import Compare
from diverset.index.filter_parser import parse


@pytest.fixture(scope="module")
def filled(postgres_address, tmp_path_factory):
    """Both engines with the same items; Qdrant's local engine whatever is in the environment."""
    addresses = {
        "postgres": postgres_address(),
        "qdrant": f"qdrant:{tmp_path_factory.mktemp('qdrant')}#filters",
    }
    stores = {name: create_store(address, SETTINGS) for name, address in addresses.items()}
    ids = [str(number) for number in range(len(METADATA))]
    for store in stores.values():
        store.add(ids, some_sets(len(ids)), METADATA)
    yield stores
    for store in stores.values():
        store.close()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees)
def test_filters_are_equivalent_to_matches(filled, tree):
    text = to_text(tree)
    expected = {number for number, item in enumerate(METADATA) if matches(parse(text), item)}
    if orders_text(tree, UNSTORABLE):
        with pytest.raises(OptionError, match="which PostgreSQL cannot"):
            filled["postgres"].count(text)
    else:
        assert filled["postgres"].count(text) == len(expected)
    if orders_text(tree) or compares_parts_of_text(tree):
        with pytest.raises(OptionError, match="which Qdrant cannot"):
            filled["qdrant"].count(text)
    else:
        assert filled["qdrant"].count(text) == len(expected)


@pytest.mark.parametrize("engine", ["postgres", "qdrant"])
@pytest.mark.parametrize("value", VALUES)
def test_every_value_is_found_by_equality(filled, engine, value):
    for field in FIELDS:
        text = to_text(Compare(field, "=", value))
        expected = {str(n) for n, item in enumerate(METADATA) if matches(parse(text), item)}
        hits = filled[engine].search(some_sets(1), len(METADATA), text)[0]
        assert {hit.id for hit in hits} == expected


@pytest.mark.parametrize("engine", ["postgres", "qdrant"])
@pytest.mark.parametrize("text", ["x = 1e999", f"x < {2**53 + 1}", f"x = {10**400}"])
def test_numbers_that_engines_cannot_represent_are_rejected(filled, engine, text):
    with pytest.raises(OptionError, match="as float64"):
        filled[engine].count(text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=30) | st.sampled_from(["1=1", "a = 1; DROP TABLE items", "a = 1 --"]))
def test_an_invalid_filter_is_rejected_before_the_engine(filled, text):
    for store in filled.values():
        try:
            parse(text)
        except DiversetError:
            with pytest.raises(OptionError):
                store.count(text)
        assert store.count() == len(METADATA)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
    | st.sampled_from([text for text in HOSTILE if text])
)
def test_ids_and_metadata_are_never_executed(filled, text):
    for store in filled.values():
        store.add([f"h{text}"], some_sets(1, seed=5), [{"text": text}])
        hit = store.search(some_sets(1, seed=5), 1)[0][0]
        assert (hit.id, hit.metadata) == (f"h{text}", {"text": text})
        assert store.delete([f"h{text}"]) == 1 and store.count() == len(METADATA)


@pytest.mark.parametrize("name", ['x"; DROP TABLE y; --', "", "a b", "1a", "ä", "x" * 51, "x\0"])
def test_names_that_need_quoting_are_rejected(postgres, tmp_path, name):
    from diverset.engines.postgres import PostgresStore
    from diverset.engines.qdrant import QdrantStore, connect_local

    for act in (PostgresStore.open, PostgresStore.exists):
        with pytest.raises(OptionError, match="the name of the table is"):
            act(postgres, name)
    with pytest.raises(OptionError, match="the name of the table is"):
        PostgresStore.create(postgres, name, SETTINGS)
    with closing(connect_local(":memory:")) as client:
        with pytest.raises(OptionError, match="the name of the collection is"):
            QdrantStore.create(client, "memory", name, SETTINGS)
    with pytest.raises(OptionError, match="table of settings"):
        PostgresStore.create(postgres, "diverset_settings", SETTINGS)
