"""CPU time of the extraction on hostile pages: ``python -m benchmarks.reader.hostile_pages [KIND …]``.

Each kind of page is extracted at its size and at twice its size. Work that is in proportion to the page takes
twice as long then, quadratic work four times as long.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.report import table

from tabane.reader.extraction.article import extract
from tabane.reader.plain_text import visible_text

_URL = "https://site.example/a/page"
_WORDS = "The station stood on the roof of the old mill for nine years, where nothing shaded it. "
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class HostileKind:
    """A kind of page that makes readers slow: ``page(size)`` is one, ``size`` its usual size."""

    page: Callable[[int], str]
    size: int


def _repeated(part: str, size: int, before: str = "", after: str = "") -> HostileKind:
    return HostileKind(lambda count: before + part * count + after, size)


def _numbered(part: str, size: int, before: str = "", after: str = "") -> HostileKind:
    return HostileKind(lambda count: before + "".join(part.format(n=n) for n in range(count)) + after, size)


def _table(rows: int, columns: int, cell: str = "<td>1") -> str:
    return "<table>" + ("<tr>" + cell * columns) * rows + "</table>"


def _deep(tag: str, count: int, inside: str = "deep") -> str:
    return f"<{tag}>" * count + inside + f"</{tag}>" * count


_P = f"<p>{_WORDS * 3}</p>"
_NOTE = (
    '<p>{n}<sup><a href="#fn{n}" id="r{n}">{n}</a></sup>'
    '<p id="fn{n}" class="footnote">x <a href="#r{n}">^</a>'
)

_ARTICLE = '{"@type": "NewsArticle", "articleBody": "'

KINDS: Mapping[str, HostileKind] = {
    "hidden articles": _repeated(f"<article hidden>{_WORDS}</article>", 4_000, _P),
    "hidden boxes with headings": _repeated(f"<div style='display:none'><h1>T</h1>{_WORDS}</div>", 3_000, _P),
    "nested hidden boxes": _repeated("<div hidden>x", 2_000, _P),
    "text of one colour": _repeated("<div><font color='white'>x</font>", 2_000, _P),
    "attributes on a tag": _numbered("a{n}=b ", 40_000, f"{_P}<p ", f">{_WORDS}"),
    "attributes on many tags": HostileKind(
        lambda count: ("<p " + " ".join(f"a{n}=b" for n in range(1000)) + f">{_WORDS}") * count, 40
    ),
    "one attribute": _repeated("x", 2_000_000, f"{_P}<p title='", f"'>{_WORDS}"),
    "one class": _repeated("toc nav ", 250_000, f"{_P}<p class='", f"'>{_WORDS}"),
    "one style": _repeated("color:red;", 200_000, f"{_P}<p style='", f"'>{_WORDS}"),
    "one noscript": _repeated(
        "<p>short words here", 20_000, "<body><div id=app></div><noscript>", "</noscript>"
    ),
    "many noscripts": _repeated("<noscript>enable javascript <img src=a></noscript>", 10_000, _P),
    "many scripts": _repeated("<script>x</script>", 20_000, _P),
    "linked data": _repeated(
        '{"@type":"Article"},', 20_000, f"{_P}<script type='application/ld+json'>[", "{}]</script>"
    ),
    "nested linked data": _repeated("[", 100_000, f"{_P}<script type='application/ld+json'>"),
    "deep boxes": _repeated("<div>", 100_000, _P, _WORDS),
    "deep bold": _repeated("<b>", 100_000, _P, _WORDS),
    "deep fonts": _repeated("<font size=1>", 100_000, _P, _WORDS),
    "boxes of depth 1,900": _repeated(_deep("div", 1_900, _WORDS), 20),
    "blocks in depth": _repeated("<p>word", 5_000, "<div>" * 1_900),
    "items in depth": _repeated("<li>word", 5_000, "<ul><li>" * 950),
    "quotations in depth": _repeated("<p>word", 4_000, "<blockquote>" * 1_900),
    "misnested links": _repeated("<a href=x><table><tr><td>x", 10_000, _P),
    "links in tables": _repeated("<table><a href=x>x", 10_000, _P),
    "unclosed formatting": _repeated("<p>word <b>bold <i>slanted", 10_000),
    "unclosed formatting without blocks": _repeated("<b>bold <i>slanted ", 10_000),
    "list items": _repeated("<li>word", 20_000, f"{_P}<ul>"),
    "list items with links": _numbered("<li><a href=/{n}>word {n}</a>", 10_000, f"{_P}<ul>"),
    "lists": _repeated("<ul><li>a</ul>", 10_000, _P),
    "nested lists": _repeated("<ul><li>a", 30_000, _P),
    "nested quotations": _repeated("<blockquote>a", 30_000, _P),
    "definitions": _repeated("<dt>a<dd>b", 10_000, f"{_P}<dl>"),
    "wrapped definitions": _repeated("<div><dt>a<dd>b</div>", 10_000, f"{_P}<dl>"),
    "siblings": _repeated("<span>a</span>", 40_000, _P),
    "siblings with text": _repeated("<span>a</span> b ", 30_000, _P),
    "empty siblings": _repeated("<span></span>", 60_000, _P),
    "hidden siblings": _repeated("<span hidden>a</span>", 20_000, _P),
    "silent siblings with text": _repeated("<object></object>tail ", 20_000, f"{_P}<p>"),
    "paragraphs": _repeated("<p>short", 15_000),
    "headings": _repeated("<h2>short</h2>", 15_000),
    "headings with text": _repeated("<h2>short</h2><p>text", 8_000),
    "breaks": _repeated("<br>", 100_000, _P),
    "text and breaks": _repeated("text<br>", 40_000, _P),
    "one text": _repeated("x", 5_000_000, _P),
    "one text of words": _repeated("word ", 200_000, f"{_P}<p>"),
    "one text of brackets": _repeated("[a](b) ", 60_000, f"{_P}<p>"),
    "one text of opening brackets": _repeated("[", 200_000, f"{_P}<p>"),
    "one text of marks": _repeated("*_`~$", 60_000, f"{_P}<p>"),
    "one text of backticks": _repeated("` `` ", 40_000, f"{_P}<p>"),
    "one text of dollars": _repeated("$$ \\( \\[ ", 20_000, f"{_P}<p>"),
    "one text of backslashes": _repeated("\\", 300_000, f"{_P}<p>"),
    "one text of entities": _repeated("&amp;x&nbsp;&bogus;", 60_000, f"{_P}<p>"),
    "one text of spaces": _repeated(" &nbsp;\n", 100_000, f"{_P}<p>a", "b"),
    "one text of Japanese": _repeated("日本語の文。\n", 60_000, f"{_P}<p>"),
    "one text of invisible characters": _repeated("a\u200b\u202e", 60_000, f"{_P}<p>"),
    "one text of digits": _repeated("2024-1-", 100_000, f"{_P}<span class=date>"),
    "lines of code": _repeated("line\n", 100_000, f"{_P}<pre>"),
    "elements of code": _repeated("<span>x</span> ", 30_000, f"{_P}<pre>"),
    "blocks of code": _repeated("<pre>x</pre>", 5_000, f"{_P}<div>"),
    "nested code": _repeated("<code>", 200, _P, "a\nb\n" * 200),
    "one word of code": _repeated("<code>x</code> ", 20_000, f"{_P}<p>"),
    "emphasis": _repeated("<b>x</b> ", 20_000, f"{_P}<p>"),
    "emphasis without spaces": _repeated("x<b>。</b>", 20_000, f"{_P}<p>"),
    "nested emphasis": _repeated(_deep("em", 80, "x"), 150, f"{_P}<p>"),
    "empty emphasis": _repeated("<b> </b>", 30_000, f"{_P}<p>"),
    "opening emphasis": _repeated("<em>x", 80, f"{_P}<p>" + "<b>y</b>" * 3_000),
    "inline formulas": _repeated("<math><mi>x</mi></math> ", 10_000, f"{_P}<p>"),
    "one formula": _repeated("<mi>x</mi>", 30_000, f"{_P}<p><math>", "</math>"),
    "deep formula": _repeated("<mrow><mi>x</mi>", 2_000, f"{_P}<p><math>", "</math>"),
    "formula scripts": _repeated(
        "<span class=MathJax></span><script type='math/tex'>x</script>", 8_000, f"{_P}<p>"
    ),
    "prose as formula": _repeated("word ", 40_000, f"{_P}<p><script type='math/tex'>", "</script>"),
    "letters as formula": _repeated("x", 400_000, f"{_P}<p><script type='math/tex'>", "</script>"),
    "ruby": _repeated("<ruby>漢<rt>かん</rt></ruby>", 10_000, f"{_P}<p>"),
    "exponents": _repeated("x<sup>2</sup>", 20_000, f"{_P}<p>"),
    "exponents after breaks": _repeated("<wbr><sup>2</sup>", 20_000, f"{_P}<p>"),
    "emphasized exponents": _repeated("<b></b><sup>2</sup>", 10_000, f"{_P}<p>"),
    "check boxes": _repeated("<li><input type=checkbox>task", 10_000, f"{_P}<ul>"),
    "check boxes in one item": _repeated("<input type=checkbox>task ", 15_000, f"{_P}<ul><li>"),
    "players": _repeated("<iframe src='https://www.youtube.com/embed/x'></iframe>", 10_000, _P),
    "videos with sources": _repeated("<source src=a.mp4>", 15_000, f"{_P}<video>", "</video>"),
    "nested objects": _repeated("<object data=x>", 200, _P, _WORDS * 20),
    "pictures": _repeated("<img src=a.png alt=x>", 20_000, _P),
    "sources of a picture": _repeated(
        "<source srcset='a.png 1x'>", 5_000, f"{_P}<picture>", "<img src=a.png></picture>"
    ),
    "images of a picture": _repeated(
        "<img src=b.png alt=x>", 3_000, f"{_P}<picture><source srcset=a.png>", "</picture>"
    ),
    "images and sources of a picture": _repeated(
        "<img src=b.png alt=x><source srcset='a.png 1x'>", 1_000, f"{_P}<picture>"
    ),
    "one set of sources": _repeated("a.png 1x, ", 50_000, f"{_P}<img alt=x srcset='", "'>"),
    "one set of letters": _repeated("a", 100_000, f"{_P}<img alt=x srcset='", "'>"),
    "one set of commas": _repeated("a,", 100_000, f"{_P}<img alt=x srcset='", "'>"),
    "images in figures": _repeated("<figure><img src=a.png><figcaption>x</figcaption></figure>", 6_000, _P),
    "links": _numbered("<a href=/{n}>word {n}</a> ", 20_000, f"{_P}<p>"),
    "ids": _numbered("<p id=i{n}>short", 15_000),
    "links to ids": _numbered("<p id=i{n}><a href=#i{n}>short</a>", 10_000),
    "footnotes": _numbered(_NOTE, 2_000, _P),
    "marks of one footnote": _repeated(
        "<sup><a href='#fn1'>1</a></sup>", 10_000, _P, "<p id=fn1 class=footnote>x"
    ),
    "same footnotes": _numbered(
        '<sup><a href="#fn{n}">1</a></sup><p id="fn{n}" class="footnote">x', 3_000, _P
    ),
    "links in one footnote": _repeated(
        "<a href='#x'>word</a> ", 10_000, f"{_P}<sup><a href='#fn1'>1</a></sup><p id=fn1>"
    ),
    "nested notes": _numbered('<div id="fn{n}"><sup><a href="#fn{n}">{n}</a></sup>', 200, _P),
    "cards": _repeated("<a href=x><h3>head</h3><p>text</p></a>", 5_000, _P),
    "table": HostileKind(lambda count: _P + _table(count, 100), 300),
    "wide table": HostileKind(lambda count: _P + _table(10, count), 3_000),
    "square table": HostileKind(lambda count: _P + _table(int(count**0.5), int(count**0.5)), 50_000),
    "spans of a table": HostileKind(
        lambda count: _P + _table(count, 10, "<td rowspan=1000000 colspan=1000000>1"), 300
    ),
    "tables": HostileKind(lambda count: _P + _table(2, 2) * count, 2_000),
    "tables in a table": HostileKind(lambda count: _P + _table(count, 1, "<td>" + _table(2, 2)), 1_500),
    "nested tables": _repeated("<table><tr><td>a<td>b<tr><td>", 80, _P, _WORDS * 50),
    "code cells": _repeated("<tr><td class=code><pre>x</pre>", 4_000, f"{_P}<table>"),
    "numbered lines": _repeated("<tr><td>1</td><td class=blob-code>x", 4_000, f"{_P}<table>"),
    "cells beside code": _repeated("<td>1</td>", 4_000, f"{_P}<table><tr>", "<td class=code>x"),
    "captions": _repeated("<caption>x</caption>", 5_000, f"{_P}<table><tr><td>1<td>2<tr><td>1<td>2"),
    "text in a table": _repeated("<div>x</div>", 10_000, f"{_P}<table><tr><td>1<td>2<tr><td>1<td>2"),
    "options": _repeated("<select><option>x</select>", 10_000, _P),
    "options of one select": _repeated("<option>x", 30_000, f"{_P}<select>", "</select>"),
    "inputs": _repeated("<input>", 50_000, _P),
    "forms": _repeated("<form><input><button>x</button></form>", 8_000, _P),
    "comments": _repeated("<!--x-->", 60_000, _P),
    "opening comments": _repeated("<!--", 200_000, _P),
    "empty comments": _repeated("<!-->", 100_000, _P),
    "templates": _repeated("<template><p>x</template>", 20_000, _P),
    "places of streamed parts": _numbered(
        "<template id='B:{n}'></template><div hidden id='S:{n}'>x</div>", 3_000, _P, "<script>'S:0'</script>"
    ),
    "nested streamed parts": _numbered("<div hidden id='S:{n}'><template id='B:{n}'></template>x", 200, _P),
    "graphics": _repeated("<svg><path d='M0'/><text>x</text></svg>", 10_000, _P),
    "unclosed graphics": _repeated("<svg>", 10_000, _P),
    "open angle brackets": _repeated("<", 200_000, _P),
    "open tags": _repeated("<p a='", 100_000, _P),
    "end tags": _repeated("</b></p></div>", 50_000, f"{_P}{'<div>' * 200}"),
    "unknown tags": _numbered("<x{n}>t</x{n}>", 15_000, _P),
    "classes": _numbered("<p class='c{n} post{n}'>short", 10_000),
    "buttons": _repeated("<button>x</button>", 15_000, _P),
    "switches": _repeated("<button aria-expanded=false>x</button><div hidden>word</div>", 6_000, _P),
    "panels": _numbered("<a href='#p{n}'>x</a><div hidden id=p{n}>word</div>", 6_000, _P),
    "anchors": _repeated("<h2>x<a class=anchor href=#x>#</a></h2>", 6_000, _P),
    "nested anchors": _repeated("<span class=anchor>x", 80, f"{_P}<p>", "word " * 2_000),
    "content in the head": _repeated("<article>x</article>", 10_000, "<head>"),
    "metadata": _numbered("<meta name=m{n} content=x>", 20_000, "<head>", _P),
    "times": _repeated("<time>x</time>", 15_000, _P),
    "bylines": _repeated("<span class=byline></span>", 15_000, _P),
    "long bylines": _repeated("<span class=author>", 80, _P, "word " * 3_000),
    "lazy listing items": _repeated("<div><li>x</div>", 8_000, f"{_P}<ul>"),
    "nested wrappers of items": _repeated("<div>", 200, f"{_P}<ul>", "<li>x" * 200),
    "sections": _repeated("<section><h2>x</h2><p>y</section>", 5_000, _P),
    "zeros": _repeated("\x00", 300_000, _P),
    "words in nested bylines": _repeated("word ", 100_000, "<span class=author>" * 1_900),
    "words in nested dates": _repeated("word ", 100_000, "<span class=date>" * 1_900),
    "elements in nested roots": _repeated("<b> </b>", 20_000, "<script></script>" + "<div id=app>" * 1_900),
    "elements in nested noscripts": _repeated("<b> </b>", 20_000, "<noscript>" * 1_900),
    "words in nested noscripts": _repeated("word ", 100_000, "<script></script>" + "<noscript>" * 1_900),
    "lists in linked data": _repeated(
        "[" + "[{}]," * 150 + "0],", 200, f"{_P}<script type='application/ld+json'>[", "0]</script>"
    ),
    "comments in linked data": _repeated(
        " ", 60_000, f"{_P}<script type='application/ld+json'>-->", "x</script>"
    ),
    "sentences in linked data": _repeated(
        "One two. ", 20_000, f"{_P}<script type='application/ld+json'>{_ARTICLE}", '"}</script><p>One two.'
    ),
    "elements in nested notes": HostileKind(
        lambda count: (
            "".join(f"<div id=fn{n}><sup><a href='#fn{n}'>{n}</a></sup>" for n in range(900))
            + "<b>x</b>" * count
        ),
        20_000,
    ),
    "links in nested boxes": _repeated(
        "<a href='#x'>^</a> ",
        20_000,
        "<sup><a href='#f'>1</a></sup>" + "<div>" * 1_900 + "<p id=f class=footnote>",
    ),
    "labels of footnotes": _numbered(
        "<sup><a href='#f{n}'>x</a></sup><p id=f{n} class=footnote>x", 4_000, _P
    ),
    "empty exponents": _repeated("<sup></sup>", 20_000, f"{_P}<p>"),
    "one set of letters and words": _repeated("a", 20_000, f"{_P}<img alt=x srcset='", " b c d'>"),
    "paragraphs of pictures": _repeated("<p><img src=a.png alt=x>", 8_000, _P),
    "hidden parts in nested spans": _repeated("<b hidden>xx</b>", 10_000, f"{_P}<p>{'<span>' * 1_900}"),
    "paragraphs in nested quotations": _repeated("<p>x", 8_000, "<blockquote>" * 59),
    "items of nested lists": _repeated("<li>x", 8_000, "<ul><li>" * 30 + "<ul>"),
    "digits in nested gutters": _repeated("1 ", 60_000, f"{_P}<pre>{'<span class=ln>' * 1_900}"),
    "cells in nested tables": _repeated("<td>x", 8_000, "<table><tr><td>" * 600),
    "elements in nested links": _repeated("<b>x</b> ", 10_000, "<a href='#f'><div>" * 900),
    "elements in nested headings": _repeated("<b>x</b> ", 10_000, "<h2><div>" * 900),
    "lines in nested code": _repeated("x\n", 60_000, "<code>" * 1_900),
    "words in nested exponents": _repeated("word ", 60_000, "<sup>" * 1_900),
    "words in nested formulas": _repeated("word ", 60_000, "<span class=katex>" * 1_900),
    "words in nested buttons": _repeated("word ", 60_000, "<button><div>" * 900),
    "words in nested anchors": _repeated("word ", 60_000, "<span class=anchor>" * 1_900),
    "words in nested emphasis": _repeated("word ", 60_000, "<em><b>" * 900),
    "colors in nested boxes": _repeated(
        "<i style='color:red'>x</i>", 4_000, "<div style='margin:0'>" * 1_900
    ),
    "tags without an end": _repeated("<wbr \"'", 40_000, _P),
    "quotes in tags": _repeated("<source a='\" <wbr '\"", 40_000, _P),
    "sources": _repeated("<picture><source srcset=a.webp><img src=a.png alt=x></picture>", 8_000, _P),
    "breaks of words": _repeated("word<wbr>", 40_000, f"{_P}<p>"),
    "link cards": _repeated("<iframe data-content='https%3A%2F%2Fa.test'></iframe>", 8_000, _P),
    "formulas between paragraphs": _repeated("<script type='math/tex'>x</script><p>x", 6_000, _P),
    "streams of everything": _repeated("<p>a<b>b<table><tr><td>c<ul><li>d<a href=e>f", 2_000),
}
"""Kinds of hostile pages by name."""


def seconds(kind: HostileKind, size: int) -> float:
    """Return the CPU time in seconds that the extraction of a page of this size takes."""
    page = kind.page(size)
    begun = time.process_time()
    extract(page, _URL)
    return time.process_time() - begun


def plain_seconds(kind: HostileKind, size: int) -> float:
    """Return the CPU time in seconds that the plain text of such a page takes."""
    page = kind.page(size)
    begun = time.process_time()
    visible_text(page)
    return time.process_time() - begun


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.hostile_pages", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="kinds of pages; all by default")
    names = parser.parse_args(arguments).kinds or list(KINDS)
    rows = []
    for name in names:
        kind = KINDS[name]
        once, twice = seconds(kind, kind.size), seconds(kind, 2 * kind.size)
        rows.append(
            (name, f"{kind.size:,}", f"{once:.3f}", f"{twice:.3f}", f"{twice / once:.1f}",
             f"{plain_seconds(kind, kind.size):.3f}")
        )  # fmt: skip
    heads = ("page", "size", "seconds at its size", "at twice", "ratio", "seconds as plain text")
    print(table(heads, rows))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
