"""Reading is free: ordinary sessions are not stopped, and addresses carry nothing private away."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.guard.flows.addresses import addresses_in, plain_address
from tabane.guard.flows.trails import (
    LONGEST_PRIVATE,
    MOST_ELSEWHERE,
    MOST_LINKED,
    MOST_WITHIN,
    REFILL,
    TrailAddresses,
)
from tests.guard.flows.reading.sessions import Replay, Session, read_sessions, sent

ORDINARY, CARRYING = read_sessions("ordinary.toml"), read_sessions("carrying.toml")


def test_the_suites_are_as_large_as_the_documents_say() -> None:
    assert len(ORDINARY) >= 100
    assert len(CARRYING) >= 90


@pytest.mark.parametrize("session", ORDINARY, ids=lambda session: session.name[:80])
def test_an_ordinary_session_is_not_stopped(session: Session) -> None:
    assert Replay().stopped(session) == []


@pytest.mark.parametrize("session", CARRYING, ids=lambda session: session.name[:80])
def test_data_is_not_carried_out(session: Session) -> None:
    assert Replay().stopped(session) != []


def test_strict_asks_about_links_but_not_about_pages_that_were_read() -> None:
    session = next(each for each in ORDINARY if each.name == "following links within a site")
    assert Replay("strict").stopped(session) == [2, 3, 4]


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=4, max_size=12), st.data())
def test_a_private_word_is_found_in_any_part_of_an_address(word: str, data: st.DataObject) -> None:
    if not any(each.isdigit() for each in word) or word.isdigit():
        word = f"x7{word}"
    book = TrailAddresses()
    book.keep(f"The password is {word}.".encode())
    shape = data.draw(
        st.sampled_from(
            ["https://e.example/{}", "https://e.example/a/{}/b", "https://e.example/?q={}", "https://{}.e.example/",
             "https://e.example/?{}=1", "https://e.example/a-{}-b", "http://e.example/x.php?a=1&b={}"]
        )
    )  # fmt: skip
    assert book.price(sent(shape.format(word))) is None
    assert book.price(sent(shape.format(word.upper()))) is None


@given(st.lists(st.integers(0, 60), max_size=120), st.booleans())
def test_links_are_followed_a_bounded_number_of_times(order: list[int], within: bool) -> None:
    """However the links are chosen, only so many requests reach sites that a stranger could own."""
    links = [f"https://s{'' if within else n}.example/page-{n:03}x" for n in range(61)]
    book = TrailAddresses()
    book.link(" ".join(links), "https://s.example/")
    made = 0
    for number in order:
        if (price := book.price(links[number], fresh=True)) is not None:
            book.take(links[number], price, trusted=False)
            made += 1
    assert made <= MOST_ELSEWHERE + MOST_WITHIN


@given(st.text(max_size=200))
def test_any_text_can_be_looked_at(text: str) -> None:
    for address in addresses_in(f"https://{text} www.{text}"):
        assert plain_address(address) == address
    book = TrailAddresses()
    book.keep(text.encode())
    book.price(plain_address(f"https://e.example/{text}"))
    book.link(f"https://{text}", f"https://{text}")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://a.example/b.", "https://a.example/b"),
        ("[x](https://a.example/b_(c))", "https://a.example/b_(c)"),
        ("(https://a.example/b)", "https://a.example/b"),
        ("https://a.example/bを読む", "https://a.example/b"),
        ("https://a.example/東京", "https://a.example/%E6%9D%B1%E4%BA%AC"),
        ("「https://a.example/b?c=d#e」", "https://a.example/b?c=d"),
        ("HTTPS://A.Example:443/b", "https://a.example/b"),
        ("www.a.example/b", "https://www.a.example/b"),
        ("<https://a.example>", "https://a.example/"),
    ],
)
def test_addresses_are_found_in_texts(text: str, address: str) -> None:
    assert address in set(addresses_in(text))
    assert sent(address) == address


def test_a_client_that_reads_all_day_may_read_on_later() -> None:
    book = TrailAddresses()
    links = [f"https://s{n}.example/page" for n in range(MOST_ELSEWHERE + 1)]
    book.link(" ".join(links))
    book.refill(1_000_000.0)
    for link in links[:-1]:
        book.take(link, book.price(link) or "", trusted=False)
    book.refill(1_000_000.0 + REFILL - 1)
    assert book.price(links[-1]) is None
    book.refill(1_000_000.0 + REFILL)
    assert book.price(links[-1]) == "elsewhere"


def test_what_a_trail_keeps_is_bounded() -> None:
    book = TrailAddresses()
    book.link(" ".join(f"https://s{n}.example/{n}" for n in range(600)))
    for part in range(10):
        book.link(" ".join(f"https://s{n}.example/{part}" for n in range(600)))
        book.keep(b"word " * 20_000)
    assert book.kept <= LONGEST_PRIVATE
    assert len(book._linked) <= MOST_LINKED


def test_looking_at_a_large_result_is_quick() -> None:
    """The event loop does it: a page of 256 KiB with 600 links, and the first made-up address after it."""
    book = TrailAddresses()
    page = " ".join(f"https://s{n}.example/some/path/{n} and words" for n in range(5_000))
    began = time.process_time()
    book.link(page[: 1 << 18], "https://s1.example/")
    assert time.process_time() - began < 0.2
