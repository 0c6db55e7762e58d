"""The pace of requests: quick answers make it faster, slow ones and timeouts slower."""

from __future__ import annotations

import asyncio

from tabane.search.embedding.embedding_service import COMFORTABLE, FIRST_TEXTS, RequestPace


def test_a_quick_server_gets_the_most_after_a_few_answers() -> None:
    pace = RequestPace(32, 4, 120)
    answers = 0
    while (pace.texts, pace.requests) != (32, 4):
        pace.answered(pace.texts, 0.1)
        answers += 1
    assert answers <= 4


def test_a_slow_server_gets_as_much_as_it_answers_in_time() -> None:
    pace = RequestPace(32, 4, 120)
    for _ in range(20):
        pace.answered(pace.texts, 0.5 * pace.texts)
    assert (pace.texts, pace.requests) == (int(COMFORTABLE / 0.5), 1)


def test_a_timeout_halves_and_the_way_up_is_slow() -> None:
    pace = RequestPace(32, 4, 120)
    for _ in range(4):
        pace.answered(pace.texts, 0.1)
    pace.timed_out(32)
    assert (pace.texts, pace.requests, pace.unanswered) == (16, 1, 1)
    pace.answered(16, 0.1)
    assert (pace.texts, pace.unanswered) == (17, 0)


def test_one_text_is_the_least() -> None:
    pace = RequestPace(32, 4, 120)
    for size in (FIRST_TEXTS, 2, 1, 1):
        pace.timed_out(size)
    assert pace.texts == 1
    pace.answered(1, 100.0)
    assert pace.texts == 1


async def test_requests_wait_for_room_and_more_room_wakes_them() -> None:
    pace = RequestPace(32, 2, 120)
    inside, let_go = asyncio.Queue[int](), asyncio.Event()

    async def request(number: int) -> None:
        async with pace.request():
            inside.put_nowait(number)
            if number == 0:
                pace.answered(FIRST_TEXTS, 0.0)
            await let_go.wait()

    tasks = [asyncio.create_task(request(number)) for number in range(3)]
    assert await inside.get() == 0
    for _ in range(10):
        await asyncio.sleep(0)
    let_go.set()
    await asyncio.gather(*tasks)
    assert inside.qsize() == 2
