import asyncio

import httpx
import pytest
from photos.serve.server_support import running_server

from diverset.photos.serve.app import create_app
from diverset.photos.serve.limits import Limits

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_status_is_answered_while_searches_wait_and_too_many_are_told_to_come_back(library):
    limits = Limits(searches=2, waiting=10)
    app = create_app(library, limits=limits)

    async def run(address: str) -> list[int]:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            state = app.state.diverset
            with state._search_lock:  # every search waits for it
                searches = [
                    asyncio.create_task(client.post("/search", json={"text": f"a dog {number}"}))
                    for number in range(60)
                ]
                while sum(search.done() for search in searches) < 48:
                    await asyncio.sleep(0.01)
                answer = await asyncio.wait_for(client.get("/status"), 5)
                assert answer.status_code == 200
            answers = await asyncio.gather(*searches)
            for answer in answers:
                assert answer.status_code == 200 or answer.headers["retry-after"] == "2"
            return [answer.status_code for answer in answers]

    with running_server(app, limits) as address:
        statuses = asyncio.run(run(address))
    assert statuses.count(200) == 12 and statuses.count(503) == 48
