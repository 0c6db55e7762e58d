"""Text, Markdown, JSON, XML, feeds and rows as pages."""

from __future__ import annotations

import json

import pytest

from tabane.errors import ReadError
from tabane.reader.formats import page_of
from tabane.reader.page import Page

URL = "https://example.org/x"


def cause_of(body: bytes, media: str) -> str | None:
    """Why there is no page of it; None where there is one."""
    try:
        page_of(body, URL, media)
    except ReadError as error:
        return error.cause
    return None


def said(page: Page) -> list[str]:
    return [str(warning) for warning in page.warnings]


def test_plain_text_stands_as_it_is() -> None:
    page = page_of("一行目\r\n  * 二\fthree three three three\x00".encode("cp932"), URL, "text/plain")
    assert page == Page(
        URL, "一行目\n  * 二\n\nthree three three three", way="plain", media_type="text/plain"
    )


def test_source_code_is_a_listing() -> None:
    assert page_of(b"x = '```'\n", URL + ".py", "text/plain").markdown == "````python\nx = '```'\n````"


def test_long_text_is_cut_at_a_line_and_that_is_said() -> None:
    page = page_of(b"0123456789\n" * 500_000, URL, "text/plain")
    assert 3_600_000 < len(page.markdown) <= 4_000_000
    assert page.markdown.endswith("0123456789")
    assert said(page) == [f"Only the first {len(page.markdown)} of 5499999 characters are shown."]


def test_front_matter_becomes_the_page() -> None:
    text = (
        '---\ntitle: "A: b"\nauthors:\n  - X\n  - Y\ndate: 2024-01-02 # about\nlang: ja\ntags: '
        "[a, b]\n---\n\n# A\n"
    )
    page = page_of(text.encode(), URL, "text/markdown")
    assert (page.title, page.author, page.date, page.lang, page.markdown) == (
        "A: b",
        "X, Y",
        "2024-01-02",
        "ja",
        "# A",
    )


def test_the_first_heading_is_the_title() -> None:
    assert page_of(b"words\n\n# The *real* [title](x)\n", URL, "text/markdown").title == "The real title"


def test_a_rule_at_the_top_is_no_front_matter() -> None:
    assert page_of(b"---\n\nText", URL, "text/markdown").markdown == "---\n\nText"


def test_json_is_indented() -> None:
    page = page_of('{"name":"x","表":[1,{"a":null}]}'.encode(), URL, "application/json")
    assert (
        page.markdown
        == '```json\n{\n  "name": "x",\n  "表": [\n    1,\n    {\n      "a": null\n    }\n  ]\n}\n```'
    )
    assert page.title == "x"
    assert page.warnings == ()


def test_long_json_is_cut_by_its_structure_with_counts() -> None:
    rows = [{"id": nth, "text": "x" * 300, "more": list(range(200))} for nth in range(5000)]
    page = page_of(json.dumps({"rows": rows, "total": 5000}).encode(), URL, "application/json")
    assert len(page.markdown) < 210_000
    shown = json.loads(page.markdown.removeprefix("```json\n").removesuffix("\n```"))
    assert shown["total"] == 5000
    kept = len(shown["rows"]) - 1
    assert shown["rows"][-1] == f"… (+{5000 - kept})"
    assert shown["rows"][0]["more"][-1] == f"… (+{200 - kept})"
    assert "is long" in said(page)[0]


def test_json_that_is_none_is_shown_and_that_is_said() -> None:
    page = page_of(b"{'a': 1}", URL, "application/json")
    assert page.markdown == "```json\n{'a': 1}\n```"
    assert "not valid JSON" in said(page)[0]


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"a":' * 200_000, b"[" * 200_000 + b"]" * 200_000])
def test_json_without_a_bottom_is_an_answer(body: bytes) -> None:
    assert cause_of(body, "application/json") in (None, "broken")


def test_lines_of_json() -> None:
    assert page_of(b'{"a":1}\n\n[2]\n', URL, "application/x-ndjson").markdown == (
        '```json\n[\n  {\n    "a": 1\n  },\n  [\n    2\n  ]\n]\n```'
    )


def test_xml_is_shown_as_it_is_written() -> None:
    page = page_of(b"<a>\n  <b>x</b>\n</a>", URL, "application/xml")
    assert page.markdown == "```xml\n<a>\n  <b>x</b>\n</a>\n```"


def test_xml_on_one_line_is_indented() -> None:
    page = page_of(b"<a>" + b"<b><c>x</c></b>" * 50 + b"</a>", URL, "application/xml")
    assert page.markdown.startswith("```xml\n<a>\n  <b>\n    <c>x</c>\n  </b>\n")


def test_entities_of_xml_are_not_put_in() -> None:
    laughs = '<!DOCTYPE a [<!ENTITY a "ha">' + "".join(
        f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
    )
    for body in (
        f"{laughs}]><a>&j;</a>",
        '<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>',
        '<!DOCTYPE rss [<!ENTITY e SYSTEM "file:///etc/passwd">]><rss><channel><title>&e;</title>'
        "</channel></rss>",
    ):
        page = page_of(body.encode(), URL, "application/xml")
        assert "root:" not in page.markdown + str(page.title)
        assert len(page.markdown) < 2000


def test_a_site_map_is_its_addresses() -> None:
    body = (
        b'<urlset xmlns="x"><url><loc>https://e.org/1</loc></url><url><loc> https://e.org/2 </loc>'
        b"</url></urlset>"
    )
    assert page_of(body, URL, "text/xml").markdown == "- https://e.org/1\n- https://e.org/2"


RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:dc="d" xmlns:content="c"><channel>
<title>The feed</title><link>https://e.org/</link>
<description>About &amp; more</description><language>ja</language>
<item><title>一つ目 &lt;b&gt;x&lt;/b&gt;</title><link>https://e.org/1</link>
<dc:creator>A</dc:creator>
<pubDate>Mon, 06 May 2024 10:00:00 +0900</pubDate>
<description>&lt;p&gt;One &lt;a href="/y"&gt;y&lt;/a&gt;&lt;/p&gt;</description></item>
<item><title>Second</title><guid>https://e.org/2</guid>
<content:encoded><![CDATA[<ul><li>two</ul>]]></content:encoded></item>
</channel></rss>"""


def test_rss() -> None:
    page = page_of(RSS.encode(), URL, "application/rss+xml")
    assert page.markdown == (
        "About & more\n\n"
        "## [一つ目 x](https://e.org/1)\n\n2024-05-06T10:00:00+09:00 · A\n\nOne [y](https://e.org/y)\n\n"
        "## [Second](https://e.org/2)\n\n- two"
    )
    assert (page.title, page.lang, page.canonical, page.way) == ("The feed", "ja", "https://e.org/", "feed")


ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="en">
<title>F</title><updated>2024-01-02T03:04:05Z</updated>
<author><name>N</name></author><link rel="self" href="https://e.org/feed"/><link href="https://e.org/"/>
<entry><title type="html">T &amp;amp; U</title>
<link href="1.html"/><published>2024-01-01T00:00:00Z</published>
<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>Hello <b>you</b></p></div></content>
</entry></feed>"""


def test_atom() -> None:
    page = page_of(ATOM.encode(), "https://e.org/a/feed", "application/atom+xml")
    assert page.markdown == "## [T & U](https://e.org/a/1.html)\n\n2024-01-01T00:00:00Z\n\nHello **you**"
    assert (page.title, page.author, page.date, page.canonical) == (
        "F",
        "N",
        "2024-01-02T03:04:05Z",
        "https://e.org/",
    )


def test_hidden_markup_in_the_titles_of_feeds_is_left_out() -> None:
    inner = '<div xmlns="http://www.w3.org/1999/xhtml">Shown<b hidden="">ZEBRA</b></div>'
    title = f'<title type="xhtml">{inner}</title>'
    entry = f"<entry>{title}<content>text</content></entry>"
    feed = f'<feed xmlns="http://www.w3.org/2005/Atom">{title}{entry}</feed>'
    page = page_of(feed.encode(), URL, "application/atom+xml")
    assert (page.title, page.markdown) == ("Shown", "## Shown\n\ntext")


ENTRY = "<rss xmlns:content='c' xmlns:media='m' xmlns:itunes='i'><channel><item>{}</item></channel></rss>"
ATOM_ENTRY = "<feed xmlns='http://www.w3.org/2005/Atom'><entry>{}</entry></feed>"
HIDDEN = "&lt;p&gt;seen&lt;/p&gt;&lt;p style='display:none'&gt;ZEBRA&lt;/p&gt;"


@pytest.mark.parametrize(
    ("feed", "inside", "markdown"),
    [
        (
            ENTRY,
            "<description>short</description><content:encoded>&lt;p&gt;whole&lt;/p&gt;</content:encoded>",
            "whole",
        ),
        (ENTRY, "<content:encoded> </content:encoded><description>short</description>", "short"),
        (ENTRY, f"<description>{HIDDEN}</description>", "seen"),
        (
            ENTRY,
            "<enclosure url='/1.mp3' type='audio/mpeg' length='1234567'/>"
            "<itunes:duration>12:30</itunes:duration>",
            "- <https://example.org/1.mp3> (audio/mpeg, 1,234,567 bytes, 12:30)",
        ),
        (
            ENTRY,
            "<media:group><media:content url='https://e.org/v.mp4' fileSize='9000' duration='61'/>"
            "<media:description>A &lt;b&gt; film</media:description></media:group>",
            "A \\<b> film\n\n- <https://e.org/v.mp4> (9,000 bytes, 61 s)",
        ),
        (ENTRY, "<media:content url='javascript:alert(1)' type='x'/><description>d</description>", "d"),
        (
            ATOM_ENTRY,
            "<summary>short</summary><content type='html'>&lt;b&gt;whole&lt;/b&gt;</content>",
            "**whole**",
        ),
        (ATOM_ENTRY, "<content type='text'>a &lt;b&gt; c</content>", "a \\<b> c"),
        (
            ATOM_ENTRY,
            "<content src='https://e.org/x'/><summary>short</summary>",
            "short\n\n- <https://e.org/x>",
        ),
        (
            ATOM_ENTRY,
            "<link rel='enclosure' href='https://e.org/a.pdf' type='application/pdf' length='12'/>",
            "- <https://e.org/a.pdf> (application/pdf, 12 bytes)",
        ),
    ],
)
def test_an_entry_has_its_whole_text_and_its_files(feed: str, inside: str, markdown: str) -> None:
    assert page_of(feed.format(inside).encode(), URL, "text/xml").markdown == markdown


def test_rdf_has_entries_beside_its_channel() -> None:
    body = (
        "<rdf:RDF xmlns:rdf='r' xmlns='http://purl.org/rss/1.0/' xmlns:content='c'><channel><title>F</title>"
        "</channel><item><title>T</title><link>https://e.org/1</link><description>d</description>"
        "<content:encoded>&lt;i&gt;whole&lt;/i&gt;</content:encoded></item></rdf:RDF>"
    )
    page = page_of(body.encode(), URL, "application/rdf+xml")
    assert (page.title, page.markdown) == ("F", "## [T](https://e.org/1)\n\n*whole*")


def test_a_json_feed() -> None:
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "F",
        "home_page_url": "https://e.org/",
        "authors": [{"name": "N"}, 3],
        "items": [
            {
                "url": "https://e.org/1",
                "title": "T",
                "content_html": f"<b>bold</b>{HIDDEN.replace('&lt;', '<').replace('&gt;', '>')}",
                "date_published": "2024-01-01T00:00:00Z",
                "attachments": [{"url": "/a.mp3", "mime_type": "audio/mpeg", "size_in_bytes": 9.0}],
            },
            {"content_text": "1 < 2", "attachments": "none"},
            "no entry",
        ],
    }
    page = page_of(json.dumps(feed).encode(), URL, "application/feed+json")
    assert page.markdown == (
        "## [T](https://e.org/1)\n\n2024-01-01T00:00:00Z\n\n**bold**\n\nseen\n\n"
        "- <https://example.org/a.mp3> (audio/mpeg, 9 bytes)\n\n1 < 2"
    )
    assert (page.way, page.author, page.canonical) == ("feed", "N", "https://e.org/")
    assert said(page) == ["1 part that readers do not see was left out."]


def test_a_feed_that_is_a_little_broken_is_read() -> None:
    body = (
        b"<rss><channel><title>F</title><item><title>A & B</title><link>https://e.org/1</link>"
        b"</item></channel></rss>"
    )
    page = page_of(body, URL, "text/xml")
    assert page.way == "feed"
    assert "B](https://e.org/1)" in page.markdown


def test_many_entries_are_bounded_and_that_is_said() -> None:
    items = "".join(f"<item><title>t{nth}</title></item>" for nth in range(150))
    page = page_of(f"<rss><channel>{items}</channel></rss>".encode(), URL, "text/xml")
    assert page.markdown.count("## ") == 100
    assert said(page) == ["100 of 150 entries are shown."]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_rows_are_a_table(delimiter: str) -> None:
    text = f'name{delimiter}value\r\n"a{delimiter}b"{delimiter}"x\ny | z"\r\n\r\n東京{delimiter}2\r\n'
    page = page_of(text.encode("cp932"), URL, "text/csv")
    cell = f"a{delimiter}b".replace("|", "\\|").replace("\t", " ")
    assert page.markdown == f"| name | value |\n| --- | --- |\n| {cell} | x y \\| z |\n| 東京 | 2 |"


def test_many_rows_are_bounded_and_counted() -> None:
    text = "a,b\n" + "".join(f"{nth},x\n" for nth in range(5000))
    page = page_of(text.encode(), URL, "text/csv")
    assert page.markdown.endswith("| 999 | x |")
    assert said(page) == ["1000 of 5000 rows are shown."]


def test_many_columns_are_bounded_and_counted() -> None:
    text = ",".join(f"c{nth}" for nth in range(300)) + "\n" + ",".join("1" * 300)
    page = page_of(text.encode(), URL, "text/csv")
    assert "c99 |\n" in page.markdown
    assert said(page) == ["100 of 300 columns are shown."]
