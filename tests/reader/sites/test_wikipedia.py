"""Articles of Wikipedia: what is kept of them, and what is not."""

from __future__ import annotations

import pytest

from tabane.errors import ReadError
from tabane.reader.sites.wikipedia import WikipediaAdapter
from tests.reader.site import Answer, Asked, Site
from tests.reader.sites.service import Shelf, read, said

URL = "https://en.wikipedia.org/wiki/Lake_(water)"
PATH = "/w/rest.php/v1/page/Lake_%28water%29/html"

ARTICLE = """<!DOCTYPE html><html prefix="dc: http://purl.org/dc/terms/" lang="en"><head>
<meta property="dc:modified" content="2026-01-02T03:04:05.000Z"/>
<link rel="dc:isVersionOf" href="//en.wikipedia.org/wiki/Lake"/><title>Lake</title>
<base href="//en.wikipedia.org/wiki/"/></head><body lang="en" class="mw-parser-output">
<section data-mw-section-id="0">
<div role="note" class="hatnote">For the town, see <a
rel="mw:WikiLink" href="./Lake_Town">Lake Town</a>.</div>
<table class="plainlinks metadata ambox"><tbody><tr><td>
This needs citations.</td></tr></tbody></table>
<table class="infobox"><tbody><tr><th colspan="2">Lake</th></tr>
<tr><th>Area</th><td>12&nbsp;km<sup>2</sup></td></tr></tbody></table>
<p>A <b>lake</b> is a body of <a rel="mw:WikiLink" href="./Water">water</a>.<sup class="mw-ref reference"
id="cite_ref-1"><a href="./Lake#cite_note-1"><span class="mw-reflink-text">[1]</span></a></sup>
It is still.<sup
class="mw-ref reference" id="cite_ref-a"><a
href="./Lake#cite_note-a" data-mw-group="lower-alpha"><span
class="mw-reflink-text">[a]</span></a></sup> Its depth is <span class="mwe-math-element"><span
class="mwe-math-mathml-inline mwe-math-mathml-a11y" style="display: none;">
<math><semantics><mi>d</mi>
<annotation encoding="application/x-tex">{\\displaystyle d^{2}}</annotation></semantics></math></span><img
src="//w.test/svg" class="mwe-math-fallback-image-inline" alt="d2"/></span>.</p></section>
<section data-mw-section-id="1"><h2 id="Kinds">Kinds<span class="mw-editsection">[edit]</span></h2>
<table class="wikitable"><tbody><tr><th>Name</th><th>Salt</th></tr><tr><td><span style="display:none"
class="sortkey">01</span>Salt lake</td><td>yes</td></tr></tbody></table></section>
<section data-mw-section-id="2"><h2 id="Notes">Notes</h2><div class="mw-references-wrap"><ol
class="mw-references references" data-mw-group="lower-alpha"><li id="cite_note-a"><span rel="mw:referencedBy"
class="mw-cite-backlink"><a href="./Lake#cite_ref-a">↑</a></span> <span
class="mw-reference-text">Mostly.</span></li>
</ol></div></section>
<section data-mw-section-id="3"><h2 id="References">References</h2><div class="mw-references-wrap"><ol
class="mw-references references"><li id="cite_note-1">A book of 1999.</li></ol></div></section>
<section data-mw-section-id="4"><h2>External links</h2>
<ul><li><a rel="mw:ExtLink" href="https://a.test/">A</a></li></ul>
<div class="navbox">Lakes of the world</div></section></body></html>"""


def way(site: Site) -> WikipediaAdapter:
    return WikipediaAdapter(lambda host: site.url(f"/{host}"))


def test_an_article_keeps_its_facts_tables_formulas_and_notes(site: Site) -> None:
    site.put(f"/en.wikipedia.org{PATH}", ARTICLE)
    page = read(site, URL, way(site))
    assert page.markdown == (
        "# Lake\n\nFor the town, see [Lake Town](https://en.wikipedia.org/wiki/Lake_Town).\n\n"
        "| Lake |  |\n| --- | --- |\n| Area | 12 km^2 |\n\n"
        "A **lake** is a body of [water](https://en.wikipedia.org/wiki/Water). It is still.[^a] "
        "Its depth is $d^{2}$.\n\n"
        "## Kinds\n\n| Name | Salt |\n| --- | --- |\n| Salt lake | yes |\n\n"
        "## Notes\n\n[^a]: Mostly.\n\n"
        "## External links\n\n- [A](https://a.test/)"
    )
    assert (page.title, page.way, page.lang) == ("Lake", "wikipedia", "en")
    assert (page.date, page.url) == ("2026-01-02T03:04:05.000Z", "https://en.wikipedia.org/wiki/Lake")


def test_a_redirect_leads_to_the_article(site: Site) -> None:
    site.redirect("/en.wikipedia.org/w/rest.php/v1/page/Loch/html", "../Lake_(water)/html", 307)
    site.put("/en.wikipedia.org/w/rest.php/v1/page/Lake_(water)/html", ARTICLE)
    assert read(site, "https://en.wikipedia.org/wiki/Loch", way(site)).title == "Lake"


def test_a_page_of_several_meanings_says_that_it_is_one(site: Site) -> None:
    html = "<title>Lake</title>"
    html += '<body><meta property="mw:PageProp/disambiguation"/><ul><li><a href="./A">A</a></ul>'
    site.put("/en.wikipedia.org/w/rest.php/v1/page/Lake/html", html)
    page = read(site, "https://en.wikipedia.org/wiki/Lake", way(site))
    assert "several meanings" in said(page)
    assert "- [A](https://en.wikipedia.org/wiki/A)" in page.markdown


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://ja.m.wikipedia.org/wiki/湖#水", "/ja.wikipedia.org/w/rest.php/v1/page/%E6%B9%96/html"),
        ("https://de.wiktionary.org/w/index.php?title=See", "/de.wiktionary.org/w/rest.php/v1/page/See/html"),
        (
            "https://www.mediawiki.org/wiki/API:Main_page",
            "/www.mediawiki.org/w/rest.php/v1/page/API%3AMain_page/html",
        ),
        ("https://en.wikipedia.org/wiki/AC/DC", "/en.wikipedia.org/w/rest.php/v1/page/AC%2FDC/html"),
    ],
)
def test_every_language_and_sister_is_asked_at_its_own_host(site: Site, url: str, path: str) -> None:
    site.put(path, "<title>It</title><body class=mw-body><p>Text.</p></body>")
    assert read(site, url, way(site)).markdown == "# It\n\nText."


@pytest.mark.parametrize(
    "url",
    ["https://en.wikipedia.org/", "https://en.wikipedia.org/wiki/Special:Search", "https://en.wikipedia.org/wiki/",
     "https://en.wikipedia.org/w/index.php?title=Lake&action=history", "https://wikipedia.org.evil.test/wiki/Lake",
     "https://en.wikipedia.org/wiki/Lake?oldid=5", "https://www.wikidata.org/wiki/Q1",
     "https://en.wikipedia.org/wiki/File:A.png", "https://a.test/wiki/Lake", "http://[en.wikipedia.org"],
)  # fmt: skip
def test_what_is_no_article_is_left_to_the_general_way(site: Site, url: str) -> None:
    assert not way(site).takes(url)


def test_an_article_is_asked_again_with_its_etag(site: Site) -> None:
    def tagged(asked: Asked) -> Answer:
        known = asked.headers.get("if-none-match") == '"7"'
        return Answer(304 if known else 200, b"" if known else ARTICLE.encode(), headers={"ETag": '"7"'})

    site.ask(f"/en.wikipedia.org{PATH}", tagged)
    assert read(site, URL, way(site), shelf=Shelf(), times=2).title == "Lake"
    assert [asked.headers.get("if-none-match") for asked in site.asked] == [None, '"7"']


def test_an_article_that_is_not_there_says_so(site: Site) -> None:
    with pytest.raises(ReadError) as raised:
        read(site, URL, way(site))
    assert raised.value.status == 404
