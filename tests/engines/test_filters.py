"""Filters in both engines mean what `matches` means, and hostile text stays text."""

from contextlib import closing

import pytest
from filter_support import (
    FIELDS,
    HOSTILE,
    METADATA,
    UNSTORABLE,
    VALUES,
    orders_text,
    trees,
    written,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_support import SETTINGS, some_sets

from diverset.engines import create_store
from diverset.errors import DiversetError, OptionError
from diverset.index.where import Compare, matches, parse


@pytest.fixture(scope="module")
def filled(postgres_address, tmp_path_factory):
    """Both engines with the same items; Qdrant's local engine whatever is in the environment."""
    places = {
        "postgres": postgres_address(),
        "qdrant": f"qdrant:{tmp_path_factory.mktemp('qdrant')}?candidates=0#filters",
    }
    stores = {name: create_store(place, SETTINGS) for name, place in places.items()}
    ids = [str(number) for number in range(len(METADATA))]
    for store in stores.values():
        store.add(ids, some_sets(len(ids)), METADATA)
    yield stores
    for store in stores.values():
        store.close()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees)
def test_filters_mean_what_they_say(filled, tree):
    text = written(tree)
    wanted = {number for number, one in enumerate(METADATA) if matches(parse(text), one)}
    if orders_text(tree, UNSTORABLE):
        with pytest.raises(OptionError, match="which PostgreSQL cannot"):
            filled["postgres"].count(text)
    else:
        assert filled["postgres"].count(text) == len(wanted)
    if orders_text(tree):
        with pytest.raises(OptionError, match="which Qdrant cannot"):
            filled["qdrant"].count(text)
    else:
        assert filled["qdrant"].count(text) == len(wanted)


@pytest.mark.parametrize("engine", ["postgres", "qdrant"])
@pytest.mark.parametrize("value", VALUES)
def test_every_kind_of_value_is_found_by_itself(filled, engine, value):
    for field in FIELDS:
        text = written(Compare(field, "=", value))
        wanted = {str(n) for n, one in enumerate(METADATA) if matches(parse(text), one)}
        hits = filled[engine].search(some_sets(1), len(METADATA), text)[0]
        assert {hit.id for hit in hits} == wanted


@pytest.mark.parametrize("engine", ["postgres", "qdrant"])
@pytest.mark.parametrize("text", ["x = 1e999", f"x < {2**53 + 1}", f"x = {10**400}"])
def test_numbers_that_engines_cannot_compare_are_refused(filled, engine, text):
    with pytest.raises(OptionError, match="as float64"):
        filled[engine].count(text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=30) | st.sampled_from(["1=1", "a = 1; DROP TABLE items", "a = 1 --"]))
def test_what_does_not_parse_reaches_no_engine(filled, text):
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
    | st.sampled_from([one for one in HOSTILE if one])
)
def test_hostile_ids_are_only_ids(filled, text):
    for store in filled.values():
        store.add([f"h{text}"], some_sets(1, seed=5), [{"text": text}])
        hit = store.search(some_sets(1, seed=5), 1)[0][0]
        assert (hit.id, hit.metadata) == (f"h{text}", {"text": text})
        assert store.delete([f"h{text}"]) == 1 and store.count() == len(METADATA)


@pytest.mark.parametrize("name", ['x"; DROP TABLE y; --', "", "a b", "1a", "ä", "x" * 51, "x\0"])
def test_hostile_names_of_tables_and_collections_are_refused(postgres, tmp_path, name):
    from diverset.engines.postgres import PostgresStore
    from diverset.engines.qdrant import QdrantStore, connect_locally

    for act in (PostgresStore.open, PostgresStore.exists):
        with pytest.raises(OptionError, match="the table is called"):
            act(postgres, name)
    with pytest.raises(OptionError, match="the table is called"):
        PostgresStore.create(postgres, name, SETTINGS)
    with closing(connect_locally(":memory:")) as client:
        with pytest.raises(OptionError, match="the collection is called"):
            QdrantStore.create(client, "memory", name, SETTINGS)
    with pytest.raises(OptionError, match="table of settings"):
        PostgresStore.create(postgres, "diverset_settings", SETTINGS)
