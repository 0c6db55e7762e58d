"""APIs of sites: what is requested, what errors say, and where long answers are decoded."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import ClassVar

import msgspec
import pytest

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.sites.site_adapter import SiteApi, UnexpectedAnswer, parse_json
from tests.reader.fakes import FakeFetcher, answer, tools

BASE = "https://a.test/api"


class Entry(msgspec.Struct):
    """An entry of a list. It records in which thread it was decoded."""

    number: int
    filling: str = ""
    threads: ClassVar[set[int]] = set()

    def __post_init__(self) -> None:
        self.threads.add(threading.get_ident())


def entries(count: int, filling: str = "") -> str:
    return json.dumps([{"number": number, "filling": filling} for number in range(count)])


@pytest.mark.parametrize(("filling", "here"), [("", True), ("x" * 2_000, False)])
def test_a_long_answer_is_decoded_in_another_thread(filling: str, here: bool) -> None:
    Entry.threads.clear()
    fetched = answer(BASE, entries(100, filling), "application/json")
    found = asyncio.run(parse_json(fetched, list[Entry]))
    assert [each.number for each in found] == list(range(100))
    assert (threading.get_ident() in Entry.threads) == here


@pytest.mark.parametrize(
    "text", ["", "{", "<html>", "[1]", '[{"number": "1"}]', '{"number": 1}', "[" * 200_000]
)
@pytest.mark.parametrize("size", [0, 300_000])
def test_another_form_is_an_unexpected_answer_that_names_the_host(text: str, size: int) -> None:
    with pytest.raises(UnexpectedAnswer) as raised:
        asyncio.run(parse_json(answer(BASE, text + " " * size, "application/json"), list[Entry]))
    assert "a.test" in str(raised.value)


async def test_nothing_more_is_requested_once_the_answers_of_a_read_are_too_long() -> None:
    fetcher = FakeFetcher({f"{BASE}/list?page={page}": answer(BASE, entries(9)) for page in (1, 2)})
    api = SiteApi(tools(fetcher), BASE, most=200)
    assert len(await api.get("/list", list[Entry], page=1)) == 9
    with pytest.raises(ReadError) as raised:
        await api.get("/list", list[Entry], page=2)
    assert (raised.value.cause, len(fetcher.asked)) == ("large", 1)


def test_an_error_is_explained_with_its_status_and_time_to_wait() -> None:
    def explain(error: ReadError) -> tuple[Message, str] | None:
        return (say("Wait."), "rate") if error.status == 429 else None

    failure = ReadError(say("too many."), "status", status=429, wait=7)
    other = ReadError(say("gone."), "status", status=410)
    fetcher = FakeFetcher({f"{BASE}/a": failure, f"{BASE}/b": other})
    api = SiteApi(tools(fetcher), BASE, {"x-key": "1"}, explain)
    with pytest.raises(ReadError) as raised:
        asyncio.run(api.get("/a", Entry))
    assert (str(raised.value), raised.value.cause, raised.value.status, raised.value.wait) == (
        "Wait.",
        "rate",
        429,
        7,
    )
    with pytest.raises(ReadError) as unexplained:
        asyncio.run(api.get("/b", Entry, none=None))
    assert unexplained.value is other
    assert [headers for _, headers, _ in fetcher.asked] == [{"x-key": "1"}] * 2
