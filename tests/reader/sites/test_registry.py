"""The ways together: their order, and that they keep to their own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ReadError
from tabane.reader.sites.notion import block_of, markdown, named, title
from tabane.reader.sites.registry import all_site_adapters
from tabane.reader.sites.site_adapter import absolute
from tabane.settings.content import READER_SITES
from tests.reader.fakes import FakeFetcher, tools


def test_every_way_is_there_once_in_its_order_and_can_be_switched_off_by_its_name() -> None:
    assert tuple(way.name for way in all_site_adapters(lambda name: None)) == READER_SITES


def test_the_sample_of_a_site_is_one_of_its_own_pages() -> None:
    for site in all_site_adapters(lambda name: None):
        taking = [other.name for other in all_site_adapters(lambda _: None) if other.takes(site.sample.url)]
        assert taking == [site.name]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/octo/demo", "github"),
        ("https://acme.notion.site/A-0123456789abcdef0123456789abcdef", "notion"),
        ("https://ja.wikipedia.org/wiki/猫", "wikipedia"),
        ("https://stackoverflow.com/questions/7", "stackoverflow"),
        ("https://qiita.com/neko/items/0123456789abcdef0123", "qiita"),
        ("https://zenn.dev/neko/articles/abc", "zenn"),
        ("https://note.com/neko/n/n0123456789ab", "note"),
        ("https://arxiv.org/abs/2401.00001", "arxiv"),
        ("https://youtu.be/abcDEF-_123", "youtube"),
        ("https://example.com/", None),
        ("http://127.0.0.1:8080/github.com/octo/demo", None),
        ("not a url", None),
        ("https://", None),
        ("https://[", None),
    ],
)
def test_a_page_is_taken_by_the_way_of_its_own_site_alone(url: str, name: str | None) -> None:
    taking = [way.name for way in all_site_adapters(lambda _: None) if way.takes(url)]
    assert taking == ([name] if name else [])


KEYS = {
    "https://github.com/octo/demo": ("GITHUB_TOKEN", "api.github.com"),
    "https://github.com/octo/demo/blob/main/a.py": ("GITHUB_TOKEN", "raw.githubusercontent.com"),
    "https://acme.notion.site/A-0123456789abcdef0123456789abcdef": ("NOTION_API_KEY", "api.notion.com"),
    "https://stackoverflow.com/questions/7": ("STACKEXCHANGE_KEY", "api.stackexchange.com"),
    "https://qiita.com/neko/items/0123456789abcdef0123": ("QIITA_TOKEN", "qiita.com"),
}


@pytest.mark.parametrize("url", KEYS)
def test_a_key_goes_to_its_own_service_alone(url: str) -> None:
    fetcher, asked = FakeFetcher(), []

    def keys(name: str) -> str:
        asked.append(name)
        return f"the-{name}"

    way = next(way for way in all_site_adapters(keys) if way.takes(url))
    assert asked == []  # keys are looked up when a page is read, since they may change
    with suppress(ReadError):
        asyncio.run(way.read(url, tools(fetcher)))
    name, host = KEYS[url]
    assert set(asked) == {name}
    first, headers, _ = fetcher.asked[0]
    assert urlsplit(first).hostname == host
    assert f"the-{name}" in headers.get("authorization", "") + first
    allowed = {host, "api.github.com"} if name == "GITHUB_TOKEN" else {host}
    assert {urlsplit(each).hostname for each in fetcher.urls} <= allowed


@given(
    st.text()
    | st.text().map("https://github.com/o/r/{}".format)
    | st.text().map("https://youtu.be/{}".format)
)
def test_no_text_is_too_odd_to_be_asked_about(text: str) -> None:
    for way in all_site_adapters(lambda _: None):
        assert way.takes(text) in (True, False)


MARKS = st.sampled_from(
    ["[a](b)", "](", "`", "```", "\n", "[x]: y", 'src="', "~~~", "!", "word", " ", "<", '"']
)


@given(st.lists(MARKS, max_size=40).map("".join))
def test_links_that_are_whole_leave_the_text_as_it_is(text: str) -> None:
    assert absolute(text, lambda to: to) == text


NAMES_OF_JSON = st.sampled_from(
    [
        "type",
        "rich_text",
        "plain_text",
        "annotations",
        "href",
        "caption",
        "url",
        "icon",
        "cells",
        "title",
        "text",
        "equation",
        "expression",
        "language",
        "date",
        "start",
        "number",
        "name",
        "formula",
        "relation",
        "checked",
    ]
)
KINDS = [
    "paragraph",
    "code",
    "table",
    "image",
    "to_do",
    "callout",
    "equation",
    "child_page",
    "link_to_page",
    "odd",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES_OF_JSON, inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(KINDS), JSON, JSON)
def test_no_block_of_notion_is_too_odd_to_be_written(kind: str, content: Any, inner: Any) -> None:
    node = block_of(msgspec.json.encode({"type": kind, kind: content, "id": "3"}))
    node.inner.append(block_of(msgspec.json.encode({"type": "table_row", "table_row": inner})))
    assert isinstance(markdown([node]), str)
    assert isinstance(title(inner), str)
    assert all(value for _, value in named(inner))
