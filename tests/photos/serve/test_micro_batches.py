"""Searches that arrive together are computed together, with the answers of single ones."""

import asyncio
import threading

import httpx
import pytest
from photos.serve.server_support import running_server

from diverset.errors import NotFoundError
from diverset.photos.search.query import SearchQuery
from diverset.photos.search.result import SearchResult
from diverset.photos.search.search_together import Search
from diverset.photos.serve.app import create_app
from diverset.photos.serve.micro_batches import MAX_BATCH, MicroBatches

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Recorder:
    """Computes nothing, but after it was allowed to; records the texts of every batch."""

    def __init__(self):
        self.batches, self.started, self.go = [], threading.Event(), threading.Event()

    def __call__(self, searches):
        self.batches.append([search.query.text for search in searches])
        self.started.set()
        assert self.go.wait(30)
        return [
            NotFoundError(f"no {search.query.text}")
            if search.query.text.startswith("missing")
            else SearchResult([], note=search.query.text)
            for search in searches
        ]


def texts(*numbers):
    return [Search(SearchQuery(f"text {number}")) for number in numbers]


async def search_while_the_first_is_computed(recorder, searches):
    """Results or errors of searches that arrive while another one is computed."""
    batches = MicroBatches(recorder)
    first = asyncio.create_task(batches.search(Search(SearchQuery("first"))))
    await asyncio.to_thread(recorder.started.wait, 30)
    tasks = [asyncio.create_task(batches.search(search)) for search in searches]
    await asyncio.sleep(0)  # all of them wait now
    return batches, first, tasks


def test_searches_that_wait_form_one_batch_and_each_gets_its_own_answer():
    async def run():
        recorder = Recorder()
        searches = [*texts(1, 2), Search(SearchQuery("missing")), *texts(3)]
        _, first, tasks = await search_while_the_first_is_computed(recorder, searches)
        recorder.go.set()
        answers = await asyncio.gather(first, *tasks, return_exceptions=True)
        notes = [getattr(answer, "note", str(answer)) for answer in answers]
        assert notes == ["first", "text 1", "text 2", "no missing", "text 3"]
        assert recorder.batches == [["first"], ["text 1", "text 2", "missing", "text 3"]]

    asyncio.run(run())


def test_batches_are_bounded_and_keep_the_order():
    async def run():
        recorder, numbers = Recorder(), range(MAX_BATCH + 5)
        _, first, tasks = await search_while_the_first_is_computed(recorder, texts(*numbers))
        recorder.go.set()
        answers = await asyncio.gather(first, *tasks)
        assert [answer.note for answer in answers[1:]] == [f"text {number}" for number in numbers]
        assert [len(batch) for batch in recorder.batches] == [1, MAX_BATCH, 5]

    asyncio.run(run())


def test_a_cancelled_search_is_not_computed_and_others_are_answered():
    async def run():
        recorder = Recorder()
        batches, first, tasks = await search_while_the_first_is_computed(recorder, texts(1, 2))
        tasks[0].cancel()
        first.cancel()  # in work: its answer is dropped
        await asyncio.sleep(0)
        recorder.go.set()
        assert (await tasks[1]).note == "text 2"
        assert recorder.batches == [["first"], ["text 2"]]
        assert (await batches.search(texts(3)[0])).note == "text 3"

    asyncio.run(run())


def test_an_unexpected_error_reaches_every_search_of_its_batch_only():
    def fail_once(searches, failed=[]):  # noqa: B006
        if not failed:
            failed.append(True)
            raise RuntimeError("boom")
        return [SearchResult([]) for _ in searches]

    async def run():
        batches = MicroBatches(fail_once)
        with pytest.raises(RuntimeError, match="boom"):
            await batches.search(texts(1)[0])
        assert (await batches.search(texts(2)[0])).hits == []

    asyncio.run(run())


def test_many_clients_get_the_answers_of_single_searches(library, photos):
    app = create_app(library)
    received = record_searches(app)
    path = str(photos / "2.png")
    queries = [{"text": f"a dog {number}", "k": 1 + number % 4} for number in range(20)]
    queries += [
        {"text": "a dog", "excluded": ["snow"]},
        {"text": "a dog", "filter": "name = '1.png'"},
        {"text": "a dog", "filter": "size = 'x'"},
        {"text": "a dog", "image_id": path, "required": ["snow"]},
        {"text": "a dog", "image_id": path + "x"},
        {"text": " "},
        {"text": "a dog", "groups": True},
    ]

    def content(answer):
        body = answer.json()
        body.pop("milliseconds", None)
        return answer.status_code, body

    async def together(address):
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            with app.state.diverset._search_lock:  # the first batch waits, the others form one
                tasks = [asyncio.create_task(client.post("/search", json=q)) for q in queries]
                await until(lambda: len(received) == len(queries))
            return [content(answer) for answer in await asyncio.gather(*tasks)]

    with running_server(app) as address:
        answers = asyncio.run(together(address))
    with running_server(create_app(library)) as address, httpx.Client(base_url=address) as client:
        alone = [content(client.post("/search", json=query)) for query in queries]
    assert [status for status, _ in alone[-7:]] == [200, 200, 422, 200, 404, 422, 200]
    for (status, body), (expected_status, expected) in zip(answers, alone, strict=True):
        assert status == expected_status
        assert_same(body, expected)


def record_searches(app):
    """A list that grows with every search that the server receives."""
    received, batches = [], app.state.diverset.batches
    search = batches.search

    def record(given):
        received.append(given)
        return search(given)

    batches.search = record
    return received


async def until(condition):
    """Wait for a condition; the time limit of tests ends a wait in vain."""
    while not condition():
        await asyncio.sleep(0.01)


def assert_same(actual, expected):
    """Equal, where numbers may differ by the rounding of other batch sizes."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(actual[key], value)
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for pair in zip(actual, expected, strict=True):
            assert_same(*pair)
    else:
        number = isinstance(expected, float)
        assert actual == (pytest.approx(expected, abs=2e-4) if number else expected)


def test_a_search_whose_client_is_gone_is_not_computed(library, monkeypatch):
    app, computed = create_app(library), []
    received, batches = record_searches(app), app.state.diverset.batches
    prepare = app.state.diverset.searcher.prepare

    def record(query, *args):
        computed.append(query.text)
        return prepare(query, *args)

    monkeypatch.setattr(app.state.diverset.searcher, "prepare", record)

    async def run(address):
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            with app.state.diverset._search_lock:
                first = asyncio.create_task(client.post("/search", json={"text": "first"}))
                await until(lambda: received and not batches._waiting)
                gone = asyncio.create_task(client.post("/search", json={"text": "gone"}))
                last = asyncio.create_task(client.post("/search", json={"text": "last"}))
                await until(lambda: len(batches._waiting) == 2)
                gone.cancel()  # closes its connection
                await until(lambda: any(future.cancelled() for _, future in batches._waiting))
            return (await first).status_code, (await last).status_code

    with running_server(app) as address:
        assert asyncio.run(run(address)) == (200, 200)
    assert computed == ["first", "last"]
