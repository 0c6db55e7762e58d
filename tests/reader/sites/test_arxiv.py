"""Papers of arXiv."""

from __future__ import annotations

import pytest

from tabane.errors import ReadError
from tabane.reader.sites.arxiv import ArxivAdapter, paper_of
from tests.reader.site import Site
from tests.reader.sites.service import read, said

ENTRY = """<entry><id>http://arxiv.org/abs/2401.00001v2</id><updated>2026-02-01T00:00:00Z</updated>
<published>2026-01-01T00:00:00Z</published><title>On
  Cats</title><summary>  We look at
cats &amp; dogs.  </summary><author><name>Ann Ant</name></author><author><name>Bob Bee</name></author>
<arxiv:comment xmlns:arxiv="http://arxiv.org/schemas/atom">9 pages</arxiv:comment>
<arxiv:journal_ref xmlns:arxiv="http://arxiv.org/schemas/atom">J. Cats 1</arxiv:journal_ref>
<arxiv:doi xmlns:arxiv="http://arxiv.org/schemas/atom">10.1000/cats</arxiv:doi>
<arxiv:primary_category xmlns:arxiv="http://arxiv.org/schemas/atom" term="cs.CL"/>
<category term="cs.AI"/><category term="cs.CL"/></entry>"""
FEED = f'<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom">{ENTRY}</feed>'
HEAD = (
    "# On Cats\n\n- Authors: Ann Ant, Bob Bee\n- Published: 2026-01-01T00:00:00Z\n- Updated: "
    "2026-02-01T00:00:00Z\n"
    "- Categories: cs.CL, cs.AI\n- Comment: 9 pages\n- Journal: J. Cats 1\n- DOI: https://doi.org/10.1000/cats\n"
    "- Text: https://arxiv.org/html/2401.00001 (HTML, if any), https://arxiv.org/pdf/2401.00001 (PDF)\n\n"
    "## Abstract\n\nWe look at cats & dogs."
)
LONG = "All that there is to say about cats, at some length and with care. " * 12
HTML = (
    f"<html><body><nav>Menu</nav><article class=ltx_document><h1>On Cats</h1><section><h2>1 "
    f"Begin</h2><p>{LONG}"
    '<math alttext="c^{2}" display="inline"><mi>c</mi></math>.</p></section></article></body></html>'
)
NONE = "<feed xmlns='http://www.w3.org/2005/Atom'></feed>"


def way(site: Site) -> ArxivAdapter:
    return ArxivAdapter(site.url("/arxiv"), site.url("/export"))


def known(site: Site) -> None:
    site.put("/export/api/query", FEED, "application/atom+xml; charset=utf-8")


def test_a_paper_is_what_is_known_of_it_and_its_abstract(site: Site) -> None:
    known(site)
    page = read(site, "https://arxiv.org/abs/2401.00001", way(site))
    assert page.markdown == HEAD
    assert (page.title, page.author, page.way) == ("On Cats", "Ann Ant, Bob Bee", "arxiv")
    assert (page.date, page.canonical) == ("2026-01-01T00:00:00Z", "https://arxiv.org/abs/2401.00001")
    assert site.paths == ["/export/api/query?id_list=2401.00001&max_results=1"]


@pytest.mark.parametrize("kind", ["pdf/2401.00001", "pdf/2401.00001.pdf", "html/2401.00001"])
def test_the_text_of_a_paper_is_that_of_its_html_where_there_is_some(site: Site, kind: str) -> None:
    known(site)
    site.put("/arxiv/html/2401.00001", HTML)
    page = read(site, f"https://arxiv.org/{kind}", way(site))
    assert page.markdown.startswith(HEAD)
    assert "$c^{2}$" in page.markdown
    assert "Menu" not in page.markdown


def test_without_html_the_text_is_that_of_the_pdf(site: Site) -> None:
    known(site)
    site.put("/arxiv/pdf/2401.00001v1", _pdf(), "application/pdf")
    page = read(site, "https://arxiv.org/pdf/2401.00001v1", way(site))
    assert page.markdown.startswith("# On Cats\n\n- Authors:")
    assert "Cats of the PDF" in page.markdown
    assert page.warnings == ()


def _pdf() -> bytes:
    """The smallest PDF that says something."""
    text = b"BT /F1 24 Tf 72 700 Td (Cats of the PDF) Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
    return body + end % (table, len(body))


def test_a_text_of_which_nothing_else_is_known_is_given_with_a_word(site: Site) -> None:
    site.put("/arxiv/html/2401.00001", HTML)
    page = read(site, "https://arxiv.org/html/2401.00001", way(site))
    assert "at some length" in page.markdown
    assert "could not be read" in said(page)


def test_a_paper_that_is_not_there_says_so(site: Site) -> None:
    site.put("/export/api/query", NONE, "application/atom+xml")
    with pytest.raises(ReadError) as raised:
        read(site, "https://arxiv.org/abs/2401.00001", way(site))
    assert raised.value.status == 404


def test_feeds_that_are_none_are_no_paper() -> None:
    error = ENTRY.replace("http://arxiv.org/abs/2401.00001v2", "http://arxiv.org/api/errors#x")
    bomb = f'<!DOCTYPE x [<!ENTITY a "aa">]>{FEED.partition("?>")[2]}'
    for body in (NONE, FEED.replace(ENTRY, error), FEED.replace("On\n  Cats", "")):
        assert paper_of(body.encode()) is None
    for body in ("", "<p>", "<p/>", bomb, FEED + " " * 1_000_000):
        with pytest.raises(ValueError, match=r"."):
            paper_of(body.encode())
    with pytest.raises(ValueError, match="UTF-8"):
        paper_of(bomb.encode("utf-16"))  # in which no declaration is found as bytes


@pytest.mark.parametrize(
    ("url", "takes"),
    [
        ("https://arxiv.org/abs/hep-th/9901001v3", True),
        ("https://www.arxiv.org/abs/math.GT/0309136", True),
        ("https://export.arxiv.org/pdf/2401.00001v12.pdf", True),
        ("https://arxiv.org/list/cs.CL/new", False),
        ("https://arxiv.org/", False),
        ("https://arxiv.org/abs/../etc", False),
        ("https://a.test/abs/2401.00001", False),
        ("http://[arxiv.org", False),
    ],
)
def test_papers_are_told_by_their_address(url: str, takes: bool) -> None:
    assert ArxivAdapter().takes(url) is takes
