"""URLs that the guard allows and refuses, in every spelling."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ConfigurationError, ReadError
from tabane.reader.guard import Guard, address_of, fault

FULL = str.maketrans("0123456789.", "０１２３４５６７８９。")
RINGED = str.maketrans("123456789", "①②③④⑤⑥⑦⑧⑨")


def cause(guard: Guard, url: str) -> str | None:
    try:
        guard.target(url)
    except ReadError as error:
        return error.cause
    return None


@st.composite
def spellings(draw: st.DrawFn, address: IPv4Address) -> str:
    """Any of the ways in which somebody may write an IPv4 address into a URL."""
    number, parts = int(address), str(address).split(".")
    tail = draw(st.integers(1, 4))
    head, rest = parts[: tail - 1], number & (256 ** (5 - tail) - 1)
    each = [draw(st.sampled_from([f"{n}", f"0{n:o}", f"0x{n:x}", f"0X{n:X}", f"000{n:o}"]))
            for n in [*map(int, head), rest]]  # fmt: skip
    text = ".".join(each) + draw(st.sampled_from(["", "."]))
    way = draw(st.sampled_from(["plain", "full", "ringed", "encoded", "mapped", "hex"]))
    if way == "full":
        return text.translate(FULL)
    if way == "ringed":
        return text.translate(RINGED)
    if way == "encoded":
        return "".join(f"%{ord(c):02x}" if draw(st.booleans()) else c for c in text)
    if way == "mapped":
        return f"[::ffff:{address}]"
    if way == "hex":
        return f"[0:0:0:0:0:FFFF:{number >> 16:x}:{number & 0xFFFF:04X}]"
    return text


PRIVATE = st.sampled_from(
    ["127.0.0.0", "10.0.0.0", "192.168.0.0", "169.254.0.0", "100.64.0.0", "0.0.0.0"]
).flatmap(lambda base: st.integers(0, 0xFFFF).map(lambda low: IPv4Address(int(IPv4Address(base)) + low)))


@given(st.data(), PRIVATE)
def test_every_spelling_of_a_private_address_is_refused(data: st.DataObject, address: IPv4Address) -> None:
    url = f"http://{data.draw(spellings(address))}/"
    assert cause(Guard(), url) == "refused", url


@given(st.data(), st.ip_addresses(v=4))
def test_a_spelling_is_judged_as_the_address_it_writes(data: st.DataObject, address: IPv4Address) -> None:
    url = f"http://{data.draw(spellings(address))}/"
    assert cause(Guard(), url) == ("refused" if fault(address) else None), url


@given(st.lists(st.one_of(st.ip_addresses(), PRIVATE), max_size=4))
def test_what_it_lets_through_is_public(found: list[IPv4Address | IPv6Address]) -> None:
    texts = [str(one) for one in found]
    if any(fault(one) for one in found):
        with pytest.raises(ReadError):
            Guard().addresses("example.com", 443, texts)
    else:
        assert Guard().addresses("example.com", 443, texts) == found


LOCAL = ["localhost", "LOCALHOST.", "a.localhost", "printer", "nas.local", "x.internal",
                                  "metadata.google.internal", "router.home.arpa", "wiki.corp", "a.lan",
                                  "ｌｏｃａｌｈｏｓｔ"]  # fmt: skip


@pytest.mark.parametrize("host", LOCAL)
def test_names_of_local_networks_are_refused_before_they_are_looked_up(host: str) -> None:
    assert cause(Guard(), f"https://{host}/") == "refused"


def test_ports_are_those_of_the_policy() -> None:
    guard = Guard(ports=(80, 443, 8080))
    assert cause(guard, "https://example.com:8080/") is None
    assert cause(guard, "https://example.com:22/") == "refused"
    assert cause(guard, "http://8.8.8.8:6379/") == "refused"


ALLOWED = [
    ("wiki.lan", "https://wiki.lan/", True), ("wiki.lan", "http://wiki.lan:9000/", True),
    ("wiki.lan", "https://other.lan/", False), ("wiki.lan:9000", "http://wiki.lan/", False),
    ("wiki.lan:9000", "http://WIKI.lan.:9000/", True), ("*.lan", "http://a.b.lan/", True),
    ("*.lan", "http://lan/", False), ("*.lan", "http://notlan/", False),
    ("127.0.0.1", "http://127.0.0.1:1/", True), ("127.0.0.1:8000", "http://0x7f.1:8000/", True),
    ("127.0.0.1:8000", "http://127.0.0.1:8001/", False), ("127.0.0.1", "http://[::ffff:127.0.0.1]/", True),
    ("10.1.0.0/16", "http://10.1.2.3:5000/", True), ("10.1.0.0/16", "http://10.2.0.1/", False),
    ("10.1.0.0/16:80", "http://10.1.2.3/", True), ("10.1.0.0/16:80", "http://10.1.2.3:81/", False),
    ("[fd00::1]:8000", "http://[fd00::1]:8000/", True), ("[fd00::1]:8000", "http://[fd00::1]/", False),
    ("fd00::/8", "http://[fd12::3]/", True), ("[fd00::]/8:80", "http://[fd12::3]:81/", False),
    ("テスト.lan", "http://xn--zckzah.lan/", True),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "url", "reached"), ALLOWED)
def test_hosts_allowed_by_configuration_are_reached(entry: str, url: str, reached: bool) -> None:
    assert (cause(Guard([entry]), url) is None) is reached


def test_an_allowed_name_is_reached_at_whatever_address_it_has() -> None:
    assert Guard(["nas.lan:80"]).addresses("nas.lan", 80, ["192.168.1.5"])
    for host, port in (("nas.lan", 81), ("evil.example", 80)):
        with pytest.raises(ReadError):
            Guard(["nas.lan:80"]).addresses(host, port, ["192.168.1.5"])


def test_an_allowed_network_is_reached_by_whatever_name_at_its_port() -> None:
    guard = Guard(["192.168.1.0/24:8000"])
    assert guard.target("http://nas.lan:8000/")
    assert guard.addresses("nas.lan", 8000, ["192.168.1.5"])
    for port, address in ((80, "192.168.1.5"), (8000, "192.168.2.5"), (8000, "8.8.8.8")):
        with pytest.raises(ReadError):
            guard.addresses("nas.lan", port, [address])


def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    with pytest.raises(ReadError, match=r"10\.0\.0\.1") as caught:
        Guard().addresses("evil.example", 443, ["8.8.8.8", "10.0.0.1"])
    assert caught.value.cause == "refused"


def test_this_computer_and_its_neighbours_are_no_public_hosts() -> None:
    guard, home = Guard(), "2a00:1450:4001:800::"
    for address, source, refused in (
        ("93.184.216.34", "93.184.216.34", True), ("93.184.216.34", "93.184.216.35", False),
        (home + "1", home + "1", True), (home + "1", home + "abcd", True),
        (home + "1", "2a00:1450:4001:801::1", False), (home + "1", None, False),
    ):  # fmt: skip
        at, own = address_of(address), address_of(source) if source else None
        assert at is not None
        if refused:
            with pytest.raises(ReadError, match="own network"):
                guard.apart("site.example", at, 443, own)
            Guard(["site.example"]).apart("site.example", at, 443, own)
        else:
            guard.apart("site.example", at, 443, own)


def test_where_a_proxy_looks_names_up_an_allowed_network_opens_no_local_name() -> None:
    assert cause(Guard(["10.0.0.0/8"], resolves=True), "http://wiki.lan/") is None
    assert cause(Guard(["10.0.0.0/8"], resolves=False), "http://wiki.lan/") == "refused"


UNREADABLE = ["10.0.0.1/8", "http://x/", "a b", "x/y", "*.10.0.0.1", "user@host", "10.0.0.0/99",
                                   "host:port", "*"]  # fmt: skip


@pytest.mark.parametrize("entry", UNREADABLE)
def test_an_entry_that_cannot_be_read_is_named(entry: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a host that can be allowed"):
        Guard([entry])


def test_a_refusal_says_how_a_person_allows_it() -> None:
    with pytest.raises(ReadError, match=r"adding \[fd00::1\]:80 to the setting reader_allow"):
        Guard().target("http://[fd00::1]/")
