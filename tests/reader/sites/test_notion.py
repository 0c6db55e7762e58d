"""Pages of Notion: every kind of block, what lies within them, what is shared and what is not."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from tabane.errors import ReadError
from tabane.reader.sites.notion import NotionAdapter
from tests.reader.site import Answer, Asked, Site
from tests.reader.sites.service import read, said, tell

ID = "0123456789abcdef0123456789abcdef"
UUID = "01234567-89ab-cdef-0123-456789abcdef"
URL = f"https://www.notion.so/acme/A-page-{ID}"
_NUMBERS = count(1)


def way(site: Site, key: str | None = "secret") -> NotionAdapter:
    return NotionAdapter(lambda _: key, site.url("/notion"))


def words(text: str, **marks: Any) -> dict[str, Any]:
    """A run of rich text; ``href`` is its link."""
    href = marks.pop("href", None)
    styles = dict.fromkeys(("bold", "italic", "strikethrough", "underline", "code"), False) | marks
    content = {"content": text, "link": {"url": href} if href else None}
    return {
        "type": "text",
        "text": content,
        "annotations": styles | {"color": "default"},
        "plain_text": text,
        "href": href,
    }


def block(
    kind: str, text: str | list[Any] | None = None, inner: list[Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A block as the API gives it; ``inner`` is what it says of it when it is asked for its children."""
    runs = [words(text)] if isinstance(text, str) else text
    content = ({"rich_text": runs} if runs is not None else {}) | more
    id_ = f"{next(_NUMBERS):032x}"
    return {
        "object": "block",
        "id": id_,
        "type": kind,
        "has_children": bool(inner),
        kind: content,
        "inner": inner,
    }


def put(site: Site, blocks: list[dict[str, Any]], id_: str = UUID) -> None:
    """The blocks below ``id_``, a hundred at a time, and all within them."""

    def answering(asked: Asked) -> Answer:
        at = int(asked.target.partition("start_cursor=")[2] or 0)
        some = [
            {name: value for name, value in each.items() if name != "inner"} for each in blocks[at : at + 100]
        ]
        more = at + 100 < len(blocks)
        listing = {
            "object": "list",
            "results": some,
            "has_more": more,
            "next_cursor": str(at + 100) if more else None,
        }
        return Answer(body=json.dumps(listing).encode(), media_type="application/json")

    site.ask(f"/notion/v1/blocks/{id_}/children", answering)
    for each in blocks:
        if each["inner"]:
            put(site, each["inner"], each["id"])


def page(site: Site, *blocks: dict[str, Any], **properties: Any) -> None:
    title = {"Name": {"id": "title", "type": "title", "title": [words("A page")]}}
    tell(
        site,
        f"/notion/v1/pages/{UUID}",
        {
            "object": "page",
            "id": UUID,
            "url": URL,
            "public_url": None,
            "created_time": "2026-01-01T00:00:00.000Z",
            "last_edited_time": "2026-01-02T00:00:00.000Z",
            "properties": {**properties, **title},
        },
    )
    put(site, list(blocks))


def body(site: Site, *blocks: dict[str, Any]) -> str:
    page(site, *blocks)
    return read(site, URL, way(site)).markdown.removeprefix("# A page").removeprefix("\n\n")


def test_a_page_is_its_title_its_properties_and_its_blocks(site: Site) -> None:
    page(
        site,
        block("paragraph", "Hello."),
        Status={"type": "status", "status": {"name": "Done"}},
        Tags={"type": "multi_select", "multi_select": [{"name": "a"}, {"name": "b"}]},
        Due={"type": "date", "date": {"start": "2026-03-01", "end": None}},
        Count={"type": "number", "number": 0},
        Empty={"type": "select", "select": None},
        Sum={"type": "formula", "formula": {"type": "number", "number": 4}},
        Ok={"type": "checkbox", "checkbox": False},
        No={"type": "unique_id", "unique_id": {"prefix": "T", "number": 9}},
        Who={"type": "people", "people": [{"object": "user", "id": "1", "name": "Ann"}]},
    )
    found = read(site, URL, way(site))
    assert found.markdown == (
        "# A page\n\n- Status: Done\n- Tags: a, b\n- Due: 2026-03-01\n- Count: 0\n- Sum: 4\n"
        "- Ok: no\n- No: T-9\n- Who: Ann\n\nHello."
    )
    assert (found.title, found.way, found.site) == ("A page", "notion", "Notion")
    assert found.date == "2026-01-02T00:00:00.000Z"
    assert {asked.headers.get("authorization") for asked in site.asked} == {"Bearer secret"}
    assert {asked.headers.get("notion-version") for asked in site.asked} == {"2025-09-03"}


def test_text_keeps_its_marks_links_and_equations(site: Site) -> None:
    runs = [
        words("a "),
        words("b ", bold=True),
        words("c", bold=True),
        words(" d*", italic=True),
        words(" "),
        words("x`y", code=True),
        words(" gone", strikethrough=True),
        words(" "),
        words("site", href="https://a.test/"),
        words(" "),
        words("page", href=f"/{ID}"),
        words("\nnext "),
        {"type": "equation", "equation": {"expression": "x^2"}, "plain_text": "x^2", "annotations": {}},
        {
            "type": "mention",
            "mention": {"type": "user", "user": {}},
            "plain_text": " @Ann",
            "annotations": {},
        },
    ]
    assert body(site, block("paragraph", runs)) == (
        f"a **b c** *d\\** ``x`y`` ~~gone~~ [site](https://a.test/) [page](https://www.notion.so/{ID})  \n"
        "next $x^2$ @Ann"
    )


@pytest.mark.parametrize(
    ("blocks", "markdown"),
    [
        ([block("heading_1", "One"), block("heading_3", "Three")], "## One\n\n#### Three"),
        ([block("heading_2", "Fold", [block("paragraph", "in")], is_toggleable=True)], "### Fold\n\nin"),
        (
            [
                block("bulleted_list_item", "a", [block("bulleted_list_item", "b")]),
                block("bulleted_list_item", "c"),
            ],
            "- a\n  - b\n- c",
        ),
        (
            [
                block("numbered_list_item", "a", [block("paragraph", "more")]),
                block("numbered_list_item", "b"),
                block("paragraph", "-"),
                block("numbered_list_item", "c"),
            ],
            "1. a\n\n   more\n2. b\n\n\\-\n\n1. c",
        ),
        (
            [block("to_do", "a", checked=True), block("to_do", "b", [block("to_do", "c", checked=False)])],
            "- [x] a\n- [ ] b\n  - [ ] c",
        ),
        (
            [block("toggle", "more", [block("code", "x = 1", language="python")])],
            "- more\n\n  ```python\n  x = 1\n  ```",
        ),
        (
            [block("code", "a\n```\nb", language="plain text", caption=[words("cap")])],
            "````\na\n```\nb\n````\n\ncap",
        ),
        ([block("quote", "a", [block("paragraph", "b")])], "> a\n>\n> b"),
        ([block("callout", "Mind", icon={"type": "emoji", "emoji": "💡"})], "> 💡 Mind"),
        ([block("equation", expression="E = mc^2")], "$$\nE = mc^2\n$$"),
        ([block("divider"), block("breadcrumb"), block("table_of_contents")], "---"),
        (
            [
                block(
                    "table",
                    None,
                    [
                        block("table_row", cells=[[words("a|b")], [words("c")]]),
                        block("table_row", cells=[[words("1")], []]),
                    ],
                    has_column_header=True,
                    table_width=2,
                )
            ],
            "| a\\|b | c |\n| --- | --- |\n| 1 |  |",
        ),
        (
            [
                block(
                    "table",
                    None,
                    [block("table_row", cells=[[words("1")], [words("2")]])],
                    has_column_header=False,
                )
            ],
            "|  |  |\n| --- | --- |\n| 1 | 2 |",
        ),
        (
            [
                block(
                    "column_list",
                    None,
                    [
                        block("column", None, [block("paragraph", "left")]),
                        block("column", None, [block("paragraph", "right")]),
                    ],
                )
            ],
            "left\n\nright",
        ),
        (
            [
                block(
                    "image", type="external", external={"url": "https://a.test/i.png"}, caption=[words("it")]
                )
            ],
            "![it](<https://a.test/i.png>)",
        ),
        (
            [block("file", type="file", file={"url": "https://a.test/f?x=1"}, caption=[], name="f.zip")],
            "[f.zip](<https://a.test/f?x=1>)",
        ),
        ([block("bookmark", url="https://a.test/", caption=[])], "[https://a.test/](<https://a.test/>)"),
        ([block("new_kind", "words of it")], "words of it"),
        ([block("synced_block", None, [block("paragraph", "same")], synced_from=None)], "same"),
    ],
)
def test_each_kind_of_block_is_what_it_is_in_markdown(
    site: Site, blocks: list[dict[str, Any]], markdown: str
) -> None:
    assert body(site, *blocks) == markdown


def test_pages_and_databases_within_are_named_and_not_read(site: Site) -> None:
    inner = block("child_page", title="Inner") | {"id": UUID, "has_children": True}
    base = block("child_database", title="Base") | {"id": UUID}
    link = block("link_to_page", type="page_id", page_id=UUID)
    assert body(site, inner, base, link) == (
        f"📄 [Inner](https://www.notion.so/{ID})\n\n🗃 [Base](https://www.notion.so/{ID})\n\n"
        f"→ [page](https://www.notion.so/{ID})"
    )
    assert len(site.asked) == 2


def test_a_synced_block_is_read_from_its_original(site: Site) -> None:
    put(site, [block("paragraph", "the original")], "original")
    copy = block("synced_block", synced_from={"type": "block_id", "block_id": "original"}) | {
        "has_children": True
    }
    assert body(site, copy) == "the original"


def test_more_than_a_hundred_blocks_are_read_page_by_page(site: Site) -> None:
    found = body(site, *(block("paragraph", f"number {n}.") for n in range(250)))
    assert found.endswith("number 249.")
    assert found.count("number") == 250


def nested(depth: int) -> dict[str, Any]:
    return block("paragraph", f"level {depth}.", [nested(depth + 1)] if depth < 12 else None)


def test_blocks_deeper_than_ten_levels_are_left_out_with_a_word(site: Site) -> None:
    page(site, nested(1))
    found = read(site, URL, way(site))
    assert "level 10." in found.markdown
    assert "level 11." not in found.markdown
    assert "level 10" in said(found)


def test_a_page_of_too_many_parts_is_cut_with_a_word(site: Site) -> None:
    page(site, *(block("paragraph", f"{n}.", [block("paragraph", "inner")]) for n in range(150)))
    found = read(site, URL, way(site))
    assert found.markdown.count("inner") == 118
    assert "32 parts were left out" in said(found)
    assert len(site.asked) == 121


def test_a_part_that_cannot_be_read_leaves_the_rest(site: Site) -> None:
    broken = block("toggle", "fold") | {"has_children": True}
    page(site, broken, block("paragraph", "after"), block("unsupported"))
    found = read(site, URL, way(site))
    assert found.markdown.endswith("- fold\n\nafter")
    assert "1 part " in said(found)
    assert "1 block has a type" in said(found)


def test_a_database_is_its_columns_and_says_that_rows_are_not_read(site: Site) -> None:
    tell(site, f"/notion/v1/pages/{UUID}", {"object": "error", "code": "object_not_found"}, 404)
    tell(
        site,
        f"/notion/v1/databases/{UUID}",
        {
            "object": "database",
            "id": UUID,
            "title": [words("Tasks")],
            "description": [words("All of them")],
            "url": URL,
            "data_sources": [{"id": "src", "name": "Tasks"}],
        },
    )
    tell(
        site,
        "/notion/v1/data_sources/src",
        {
            "object": "data_source",
            "id": "src",
            "properties": {"Name": {"id": "title", "type": "title"}, "Due": {"id": "x", "type": "date"}},
        },
    )
    found = read(site, URL, way(site))
    assert found.markdown == "# Tasks\n\nAll of them\n\n## Columns\n\n- Name (title)\n- Due (date)"
    assert "rows" in said(found)


@pytest.mark.parametrize(
    "url",
    [
        URL,
        f"https://acme.notion.site/A-page-{ID}?pvs=4",
        f"https://notion.so/{ID}",
        f"https://www.notion.so/{UUID}",
        f"https://www.notion.so/acme/{'f' * 32}?v={'e' * 32}&p={ID}",
        f"https://app.notion.com/acme/{ID.upper()}/",
    ],
)
def test_every_address_of_a_page_leads_to_it(site: Site, url: str) -> None:
    page(site, block("paragraph", "Hello."))
    assert read(site, url, way(site)).markdown == "# A page\n\nHello."


@pytest.mark.parametrize(
    "url",
    [
        "https://www.notion.so/product",
        f"https://notnotion.so/{ID}",
        "https://acme.notion.site/about",
        f"https://a.test/{ID}",
        "https://www.notion.so/",
        "http://[notion.so",
    ],
)
def test_what_is_no_page_of_notion_is_left_to_the_general_way(site: Site, url: str) -> None:
    assert not way(site).takes(url)


def failure(site: Site, key: str | None = "secret") -> ReadError:
    with pytest.raises(ReadError) as raised:
        read(site, URL, way(site, key))
    return raised.value


def test_without_a_key_the_general_way_is_tried_and_the_key_named(site: Site) -> None:
    for key in (None, ""):
        error = failure(site, key)
        assert error.cause == "key"
        assert "NOTION_API_KEY" in str(error)
        assert "page: " in str(error)
    assert site.asked == []


def test_a_page_that_is_not_shared_says_how_to_share_it(site: Site) -> None:
    error = failure(site)
    assert error.status == 404
    assert "shared" in str(error)
    assert "connections" in str(error)


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_accepted_is_named(site: Site, status: int) -> None:
    tell(site, f"/notion/v1/pages/{UUID}", {"object": "error"}, status)
    error = failure(site)
    assert error.cause == "key"
    assert "NOTION_API_KEY" in str(error)


def test_a_limit_says_how_long_to_wait(site: Site) -> None:
    tell(site, f"/notion/v1/pages/{UUID}", {"object": "error"}, 429, Retry_After="30")
    error = failure(site)
    assert (error.cause, error.wait) == ("rate", 30.0)


@pytest.mark.parametrize("odd", [None, 3, "x", [], {"rich_text": 3}, {"rich_text": [3, None, {"type": 1}]}])
def test_blocks_of_odd_forms_are_no_crash(site: Site, odd: object) -> None:
    kinds = [
        "paragraph",
        "table",
        "image",
        "callout",
        "to_do",
        "code",
        "child_page",
        "link_to_page",
        "heading_1",
    ]
    blocks = [block(kind) | {kind: odd} for kind in kinds]
    assert body(site, *blocks, block("paragraph", "end")).endswith("end")
