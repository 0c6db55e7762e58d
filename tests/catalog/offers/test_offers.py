"""Catalogs of prompts and resources: names, addresses, templates, and the server of a URI."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from tabane.catalog.offers.prompts import PromptCatalog
from tabane.catalog.offers.resources import (
    MOST_SOURCES,
    ResourceCatalog,
    ResourceSource,
    UriTemplate,
    address,
    addressed,
    authority,
    renamed,
    template_address,
)
from tabane.catalog.tools.aliases import LONGEST, AliasMap, is_alias
from tabane.catalog.tools.listings import ListingsFile, listing_of
from tabane.servers.server import Server
from tabane.wire.era import Era
from tests.harness.cases import cases_beside
from tests.harness.patience import steps

CASES = cases_beside(__file__)

TEXT = st.text(st.characters(), max_size=40)
"""Any characters, half surrogate pairs too: servers write what they like."""


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def told_as(params: Raw, source: ResourceSource, uri: str) -> bytes:
    return bytes(renamed(params, source, uri))


def prompts(*names: Any) -> list[Raw]:
    return [raw({"name": name, "x-own": [1]}) for name in names]


def resources(*uris: Any) -> list[Raw]:
    return [raw({"uri": uri, "name": "n", "x-own": [1]}) for uri in uris]


def templates(*texts: Any) -> list[Raw]:
    return [raw({"uriTemplate": text, "name": "n"}) for text in texts]


# Addresses


@given(TEXT.filter(bool), TEXT.filter(bool))
def test_an_address_leads_back_to_its_server_and_uri(server: str, uri: str) -> None:
    spelled = address(server, uri)
    assert spelled.startswith("tabane://upstream/")
    assert spelled.isascii()
    assert addressed(spelled) == (server, uri)


KEPT = st.sampled_from(["ui://", "skill://", "UI://", "ui://tabane/", "ui://tabane/two/"])


@given(TEXT.filter(bool), KEPT, TEXT)
def test_an_address_that_keeps_its_scheme_leads_back_to_its_server_and_uri(
    server: str, start: str, rest: str
) -> None:
    for spelled in (address(server, start + rest), template_address(server, start + rest)):
        assert spelled.lower().startswith(start[:5].lower())
        assert addressed(spelled) == (server, start + rest)


def test_a_kept_address_does_not_depend_on_what_other_servers_list() -> None:
    catalog = ResourceCatalog()
    catalog.put("one", resources("ui://page", "memo://page"))
    alone = catalog.items()[0].shown
    catalog.put("two", resources("ui://page", "memo://page"))
    beside = next(item.shown for item in catalog.items() if item.server == "one")
    assert beside == alone == "ui://tabane/one/page"
    catalog.remove("one")
    assert catalog.items()[0].shown == "ui://tabane/two/page"
    assert catalog.find(alone) == ()


@given(st.sampled_from(["memo://", "https://h.example/", "urn:x:", "file:///"]), TEXT)
def test_what_a_template_made_stands_verbatim_in_an_address(start: str, rest: str) -> None:
    assert addressed(template_address("one", start + rest)) == ("one", start + rest)


@given(TEXT)
def test_no_text_breaks_the_reading_of_an_address(rest: str) -> None:
    found = addressed("tabane://upstream/" + rest)
    assert found is None or all(found)


@pytest.mark.parametrize(
    "uri", ["memo://one", "tabane://upstream/", "tabane://upstream/one", "tabane://documents/a"]
)
def test_other_uris_are_no_addresses(uri: str) -> None:
    assert addressed(uri) is None


def test_authorities_are_compared_without_case_and_path() -> None:
    assert authority("HTTPS://Host.Example/a?b") == "https://host.example"
    assert authority("urn:isbn:1") == "urn:"
    assert authority("no scheme") == ""


# Templates

NAME = st.sampled_from(["a", "path", "x_1", "file-path"])
VALUE = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def expansions(draw: st.DrawFn) -> tuple[str, str]:
    """A template and a URI that an honest client made of it (RFC 6570, levels 1 to 3)."""
    template, uri = "x://h", "x://h"
    for _ in range(draw(st.integers(0, 5))):
        literal = draw(st.sampled_from(["", "/", "-", "/v1/", "束", "a"]))
        template, uri = template + literal, uri + literal
        operator = draw(st.sampled_from(["", "+", "#", ".", "/", ";", "?", "&"]))
        names = draw(st.lists(NAME, min_size=1, max_size=3, unique=True))
        given = [(name, draw(VALUE)) for name in names if draw(st.booleans())]
        template += "{" + operator + ",".join(names) + "}"
        uri += _expanded(operator, given)
    return template, uri


def _expanded(operator: str, values: list[tuple[str, str]]) -> str:
    if not values:
        return ""
    safe = ":/?#[]@!$&'()*+,;=" if operator in ("+", "#") else ""
    named = operator in (";", "?", "&")
    parts = [
        f"{name}={quote(value, safe='')}" if named else quote(value, safe=safe) for name, value in values
    ]
    joint = {"": ",", "+": ",", "#": ",", "?": "&"}.get(operator, operator)
    return ("" if operator == "+" else operator) + joint.join(parts)


@given(expansions())
def test_a_template_matches_whatever_it_expands_to(made: tuple[str, str]) -> None:
    template, uri = made
    assert UriTemplate(template).matches(uri)


@pytest.mark.parametrize(("template", "uri", "matches"), CASES["templates_and_uris"])
def test_templates_and_uris(template: str, uri: str, matches: bool) -> None:
    assert UriTemplate(template).matches(uri) is matches


def test_a_template_made_to_be_slow_is_not() -> None:
    hostile = UriTemplate("{+a}x{+b}x{+c}x{d}x" * 8 + "y")
    assert not hostile.matches("x" * 2048)
    assert steps(lambda: hostile.matches("x" * 2048)) < 4 * steps(lambda: hostile.matches("x" * 1024))


@given(TEXT, TEXT)
def test_any_text_may_stand_for_a_template(template: str, uri: str) -> None:
    UriTemplate(template).matches(uri)


# Prompts


def catalog() -> PromptCatalog:
    return PromptCatalog(AliasMap())


def test_prompts_are_named_as_tools_are_and_nothing_else_of_them_is_touched() -> None:
    offered = catalog()
    assert offered.put(Server("one"), prompts("greet", "日本語"))
    assert offered.put(Server("bare", prefix=""), prompts("greet"))
    keys = [key for key, _ in offered.items()]
    assert keys[:2] == ["greet", "one__greet"]
    assert all(is_alias(key) for key in keys)
    assert [json.loads(definition) for _, definition in offered.items()] == [
        {"name": key, "x-own": [1]} for key in keys
    ]
    for name in ("one__greet", "one.greet"):
        found = offered.find(name)
        assert found is not None
        assert (found.server, found.name, found.alias) == ("one", "greet", "one__greet")
    japanese = offered.find("one.日本語")
    assert japanese is not None
    assert japanese.name == "日本語"
    assert offered.find("two__greet") is None


@given(st.dictionaries(st.sampled_from("abc"), st.lists(TEXT, max_size=6), max_size=3), st.randoms())
def test_prompts_have_different_names_whatever_server_lists_first(
    given: dict[str, list[str]], random: Any
) -> None:
    ordered = list(given)
    seen = []
    for _ in range(2):
        offered = catalog()
        for server in ordered:
            offered.put(Server(server), prompts(*given[server]))
        seen.append(offered.items())
        random.shuffle(ordered)
    keys = [key for key, _ in seen[0]]
    assert len(keys) == len(set(keys)) == sum(len(set(filter(None, names))) for names in given.values())
    assert all(is_alias(key) and len(key) <= LONGEST for key in keys)
    assert seen[0] == seen[1]


def test_a_list_says_whether_it_changed_and_junk_is_left_out() -> None:
    offered = catalog()
    server = Server("one")
    assert not offered.put(server, [])
    assert offered.has("one")
    junk = [raw(7), raw({}), raw({"name": 3}), raw({"name": ""}), raw({"name": "x" * 20_000})]
    assert offered.put(server, [*junk, *prompts("a", "a")])
    assert [key for key, _ in offered.items()] == ["one__a"]
    version = offered.version
    assert not offered.put(server, prompts("a"))
    assert offered.version == version
    assert offered.remove("one")
    assert offered.items() == ()
    assert not offered.has("one")


# Resources


def test_uris_are_unchanged_as_long_as_one_server_has_them() -> None:
    offered = ResourceCatalog()
    assert offered.put("one", resources("memo://one"), templates("memo://{n}"))
    assert json.loads(offered.items()[0][1]) == {"uri": "memo://one", "name": "n", "x-own": [1]}
    assert [item.shown for item in offered.template_items()] == ["memo://{n}"]
    assert offered.find("memo://one") == (ResourceSource("one", "memo://one", "memo://one"),)
    assert offered.find("memo://{n}") == (ResourceSource("one", "memo://{n}", "memo://{n}"),)


def test_those_that_collide_are_addressed_whatever_server_lists_first() -> None:
    seen = []
    for order in (("one", "two"), ("two", "one")):
        offered = ResourceCatalog()
        for server in order:
            offered.put(server, resources("memo://same", f"memo://{server}"), templates("memo://{n}"))
        seen.append((offered.items(), offered.template_items()))
    assert seen[0] == seen[1]
    shown = [item.shown for item in seen[0][0]]
    assert shown == [
        *("tabane://upstream/one/memo%3A%2F%2Fsame", "memo://one"),
        *("tabane://upstream/two/memo%3A%2F%2Fsame", "memo://two"),
    ]
    assert [json.loads(item.definition)["uri"] for item in seen[0][0]] == shown
    assert [json.loads(item.definition)["uriTemplate"] for item in seen[0][1]] == [
        "tabane://upstream/one/memo://{n}",
        "tabane://upstream/two/memo://{n}",
    ]
    for server in ("one", "two"):
        for uri in (address(server, "memo://same"), f"tabane://upstream/{server}/memo://same"):
            assert offered.find(uri) == (ResourceSource(server, "memo://same", uri),)
    assert [source.server for source in offered.find("memo://same")] == ["one", "two"]
    assert offered.remove("two")
    assert [item.shown for item in offered.items()] == ["memo://same", "memo://one"]


def test_a_server_cannot_pass_its_resources_off_as_anothers() -> None:
    offered = ResourceCatalog()
    offered.put("bank", resources("secret://key"))
    stolen = address("bank", "secret://key")
    offered.put("thief", resources(stolen, "TABANE://documents/one"))
    assert offered.find(stolen) == (ResourceSource("bank", "secret://key", stolen),)
    for shown, *_ in offered.items()[1:]:
        assert shown.startswith("tabane://upstream/thief/")
        assert [source.server for source in offered.find(shown)] == ["thief"]


def test_a_uri_that_nobody_lists_goes_to_templates_first_then_to_what_is_near() -> None:
    offered = ResourceCatalog()
    offered.put("a", [], [])
    offered.put("deaf", [], [], capable=False)
    offered.put("near", resources("memo://host/one"), [])
    offered.put("of_scheme", [], templates("memo://other/{n}"))
    offered.put("maker", [], templates("git://{+path}"))

    def servers(uri: str) -> list[str]:
        return [source.server for source in offered.find(uri)]

    assert servers("git://x/y") == ["maker"]
    assert servers("memo://host/two") == ["near", "of_scheme", "a", "maker"]
    assert servers("new:thing") == ["a", "maker", "near", "of_scheme"]
    assert offered.known("new:thing") == ()


def test_few_servers_are_asked_for_one_uri() -> None:
    offered = ResourceCatalog()
    for number in range(30):
        offered.put(f"s{number:02}", [], [])
    assert len(offered.find("any:thing")) == MOST_SOURCES


def test_resources_that_are_none_are_left_out_and_lists_come_one_by_one() -> None:
    offered = ResourceCatalog()
    assert offered.put("one", [raw(7), raw({"uri": 3}), *resources("a:b", "a:b")])
    assert offered.put("one", templates=[raw([]), *templates("a:{b}")])
    assert not offered.put("one", resources("a:b"), templates("a:{b}"))
    assert offered.counts("one") == (1, 1)
    assert offered.put("one", [])
    assert offered.counts("one") == (0, 1)


def test_an_update_is_told_under_the_clients_own_uri() -> None:
    shown = address("one", "memo://a")
    source = ResourceSource("one", "memo://a", shown)
    told = raw({"uri": "memo://a", "x": 1, "_meta": {"io.modelcontextprotocol/subscriptionId": 7, "k": 2}})
    assert json.loads(told_as(told, source, "memo://a")) == {"uri": shown, "x": 1, "_meta": {"k": 2}}
    below = raw({"uri": "memo://a/b"})
    assert json.loads(told_as(below, source, "memo://a/b")) == {"uri": address("one", "memo://a/b")}
    plain = ResourceSource("one", "memo://a", "memo://a")
    assert json.loads(told_as(below, plain, "memo://a/b")) == {"uri": "memo://a/b"}


# What is kept


def test_listings_are_kept_with_everything_a_server_offers(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    kept = listing_of("one", "f", Era.MODERN, "v", "about", b'{"resources":{}}', {})
    kept = kept.with_list("prompts", prompts("greet")).with_list("resources", resources("a:b"))
    listings = ListingsFile(path)
    listings.save(kept)
    listings.keep_aliases({"one__greet": ("one", "greet", "one")}, "prompts")
    listings.close()
    listings = ListingsFile(path)
    found = listings.load()["one"]
    assert found == kept
    assert found.has("resources")
    assert "tools" not in found.lists
    assert listings.aliases("prompts") == {"one__greet": ("one", "greet", "one")}
    assert listings.aliases() == {}
    listings.forget(["one"])
    assert listings.load() == {}
    listings.close()


def test_a_file_of_before_there_were_prompts_is_read(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.db"
    database = sqlite3.connect(path)
    database.executescript("""
        CREATE TABLE listing(
          server TEXT PRIMARY KEY, fingerprint TEXT, era TEXT, version TEXT, about TEXT, listed REAL,
          tools BLOB);
        CREATE TABLE alias(alias TEXT PRIMARY KEY, server TEXT, name TEXT, namespace TEXT);
        INSERT INTO listing VALUES ('one', 'f', 'legacy', 'v', 'about', 1.0, '[{"name":"t"}]');
        INSERT INTO alias VALUES ('one__t', 'one', 't', 'one');
    """)
    database.close()
    listings = ListingsFile(path)
    found = listings.load()["one"]
    assert {name: list(map(bytes, items)) for name, items in found.lists.items()} == {
        "tools": [b'{"name":"t"}']
    }
    assert listings.aliases() == {"one__t": ("one", "t", "one")}
    listings.close()
