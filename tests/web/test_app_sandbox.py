"""The policy of an app: what it may load, whatever it names."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.web.headers import DOMAINS, MOST_DOMAINS, allowed_domains, domains_of, is_domain, policy

NOTHING = policy(domains_of(()))
PIECES = st.sampled_from(
    ["https://", "wss://", "a.example", "*.", ":8", "/", ";", " ", "'", ",", "\n", "@", "a"]
)


def test_an_app_without_origins_has_no_network() -> None:
    assert "connect-src 'none'" in NOTHING
    assert "frame-src 'none'" in NOTHING
    assert NOTHING.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in NOTHING
    assert "'self'" not in NOTHING.replace("frame-ancestors 'self'", "")


@given(st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=8).map("".join)))
def test_no_origin_adds_a_directive_or_another_source(text: str) -> None:
    found = allowed_domains({name: [text] for name in DOMAINS})
    made = policy(found)
    assert made.count(";") == NOTHING.count(";")
    if is_domain(text):
        assert not set(text) & set(" ;,'\"\n\r\t")
        assert urlsplit(text).scheme in ("https", "wss")
        assert len(made.split()) - len(NOTHING.split()) <= 8
    else:
        assert made == NOTHING


WRONG: list[object] = [None, [], "x", {"connectDomains": "https://a.example"}, {"connectDomains": [1]}]


@pytest.mark.parametrize("csp", WRONG, ids=str)
def test_what_is_no_list_of_origins_counts_as_absent(csp: object) -> None:
    assert policy(allowed_domains(csp)) == NOTHING


def test_an_app_gets_a_limited_number_of_origins() -> None:
    many = [f"https://{number}.example" for number in range(MOST_DOMAINS + 5)]
    found = allowed_domains({"connectDomains": many, "resourceDomains": many})
    assert sum(map(len, found.values())) == MOST_DOMAINS
    with pytest.raises(ValueError, match="origin"):
        domains_of([("connectDomains", domain) for domain in many])


@pytest.mark.parametrize("pair", [("connectDomains", "*"), ("other", "https://a.example")], ids=str)
def test_the_frame_takes_nothing_else_in_its_url(pair: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="origin"):
        domains_of([pair])
