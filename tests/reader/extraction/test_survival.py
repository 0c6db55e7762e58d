"""All that the converter can write survives the extraction of an article."""

from __future__ import annotations

import pytest

from tabane.reader.extraction.article import extract
from tabane.reader.markdown import converter, inline
from tabane.reader.markdown.elements import HEADINGS, LISTS
from tabane.reader.markdown.formulas import SOURCES
from tabane.reader.markdown.wordless import EMPTY, WORDLESS

URL = "https://site.example/a/page"
PROSE = (
    "<p>The station stood on the roof of the old mill for nine years, where nothing shaded it and hardly"
    " anybody could reach it, until the roof began to leak.</p>"
    "<p>Then it was moved to the meadow behind the school, which is lower, wetter and far more sheltered, so"
    " that every reading has to be compared with care.</p>"
)
TABLE = (
    "<tr><th>Day</th><th>Wind</th></tr><tr><td>Monday</td><td>3 m/s</td></tr>"
    "<tr><td>Sunday</td><td></td></tr>"
)

DEEP = "The well behind the school is deep, and its water is as cold in the summer as in the winter."
FEATURES: dict[str, tuple[str, str]] = {
    # Blocks
    "a": (
        "<a href='/b'><h3>Readings of May</h3><p>They are lower.</p></a>",
        "[Readings of May](https://site.example/b)",
    ),
    **{
        tag: (
            f"<{tag}>Readings by day</{tag}><p>They are lower than those before.</p>",
            f"{'#' * level} Readings by day",
        )
        for tag, level in HEADINGS.items()
    },
    "pre": ("<pre>if wind:\n    stop()</pre>", "```\nif wind:\n    stop()\n```"),
    "listing": ("<listing>if wind:\n    stop()</listing>", "if wind:\n    stop()"),
    "xmp": ("<xmp>if wind:\n    stop()</xmp>", "if wind:\n    stop()"),
    "table": (f"<table>{TABLE}</table>", "| Monday | 3 m/s |\n| Sunday |  |"),
    "caption": (f"<table><caption>Wind by day</caption>{TABLE}</table>", "Wind by day"),
    "dl": ("<dl><dt>Gust</dt><dd>A short wind.</dd></dl>", "- **Gust**: A short wind."),
    "blockquote": (
        "<blockquote>It was a wet year for all of us.</blockquote>",
        "> It was a wet year for all of us.",
    ),
    "hr": ("<hr>", "\n\n---\n\n"),
    "ul": ("<ul><li>a thermometer</li><li>a rain gauge</li></ul>", "- a thermometer\n- a rain gauge"),
    "ol": (
        "<ol start=3><li>a thermometer</li><li>a rain gauge</li></ol>",
        "3. a thermometer\n4. a rain gauge",
    ),
    "menu": ("<menu><li>a thermometer</li><li>a rain gauge</li></menu>", "- a thermometer\n- a rain gauge"),
    "dir": ("<dir><li>a thermometer</li><li>a rain gauge</li></dir>", "- a thermometer\n- a rain gauge"),
    "li": ("<ul><li>a thermometer<ul><li>of glass</li></ul></li></ul>", "- a thermometer\n  - of glass"),
    "summary": (
        "<details><summary>How is it read?</summary><p>By the children, each morning.</p></details>",
        "**How is it read?**\n\n(collapsed on the page)\n\nBy the children, each morning.",
    ),
    "figcaption": (
        "<figure><img src=/mill.png alt='The mill'><figcaption>The mill in May, before the leak."
        "</figcaption></figure>",
        "![The mill](https://site.example/mill.png)\n\nThe mill in May, before the leak.",
    ),
    "role=heading": (
        "<div role=heading aria-level=3>Readings by day</div><p>They are lower.</p>",
        "### Readings by day",
    ),
    # Lines
    "strong": ("<p>It was <strong>very wet</strong> then.</p>", "**very wet**"),
    "b": ("<p>It was <b>very wet</b> then.</p>", "**very wet**"),
    "em": ("<p>It was <em>very wet</em> then.</p>", "*very wet*"),
    "i": ("<p>It was <i>very wet</i> then.</p>", "*very wet*"),
    "dfn": ("<p>A <dfn>gust</dfn> is a short wind.</p>", "*gust*"),
    "del": ("<p>It was <del>dry</del> wet then.</p>", "~~dry~~"),
    "s": ("<p>It was <s>dry</s> wet then.</p>", "~~dry~~"),
    "strike": ("<p>It was <strike>dry</strike> wet then.</p>", "~~dry~~"),
    "code": ("<p>Run <code>read --all</code> then.</p>", "`read --all`"),
    "kbd": ("<p>Press <kbd>Ctrl</kbd> then.</p>", "`Ctrl`"),
    "samp": ("<p>It prints <samp>21.5</samp> then.</p>", "`21.5`"),
    "tt": ("<p>It prints <tt>21.5</tt> then.</p>", "`21.5`"),
    "mark": ("<p>It was <mark>very wet</mark> then.</p>", "It was very wet then."),
    "img": (
        "<p>Here <img src=/mill.png alt='The mill'> it is.</p>",
        "![The mill](https://site.example/mill.png)",
    ),
    "br": ("<p>Old Mill Road<br>Millbrook</p>", "Old Mill Road  \nMillbrook"),
    "wbr": ("<p>It calls read<wbr>All once.</p><p>It waits.</p>", "It calls readAll once.\n\nIt waits."),
    "sup": ("<p>It is 10<sup>3</sup> m away.</p>", "10^3 m"),
    "sub": ("<p>The mean is x<sub>i</sub> there.</p>", "x_i there"),
    "rt": ("<p>It is called <ruby>風<rt>かぜ</rt></ruby> there.</p>", "風(かぜ)"),
    "rp": ("<p>It is called <ruby>風<rp>(</rp><rt>かぜ</rt><rp>)</rp></ruby> there.</p>", "風(かぜ)"),
    "q": ("<p>They say <q>it is wet</q> there.</p>", '"it is wet"'),
    "input": (
        "<ul><li><input type=checkbox checked disabled> Move the station</li>"
        "<li><input type=checkbox disabled> Repair the roof</li></ul>",
        "- [x] Move the station\n- [ ] Repair the roof",
    ),
    "noscript": (
        "<p>Here <img class=lazy alt='The mill'><noscript><img src=/mill.png alt='The mill'>"
        "</noscript> it is.</p>",
        "![The mill](https://site.example/mill.png)",
    ),
    "source": (
        "<picture><source srcset=/mill.webp><source srcset=/mill.avif>"
        "<img src=/mill.png alt='The mill'></picture>",
        "![The mill](https://site.example/mill.png)",
    ),
    "picture": (
        "<p>Here <picture><source srcset='/mill.webp 800w'><img alt='The mill'></picture> it is.</p>",
        "![The mill](https://site.example/mill.webp)",
    ),
    "iframe": (
        "<div class=video><iframe src='https://www.youtube.com/embed/x1'></iframe></div>",
        "<https://www.youtube.com/embed/x1>",
    ),
    "iframe of Vimeo": (
        "<iframe src='//player.vimeo.com/video/7' title='The mill in May'></iframe>",
        "[The mill in May](https://player.vimeo.com/video/7)",
    ),
    "iframe with a title": (
        "<p><iframe src='https://charts.example/7' title='Wind by day'></iframe></p>",
        "[Wind by day](https://charts.example/7)",
    ),
    "video": (
        "<video controls><source src=/mill.mp4>Not supported.</video>",
        "<https://site.example/mill.mp4>",
    ),
    "audio": ("<p><audio controls src=/mill.mp3></audio></p>", "<https://site.example/mill.mp3>"),
    "embed": (
        "<p>Here it is: <embed src=/mill.swf> and more of it.</p>",
        "<https://site.example/mill.swf> and more of it.",
    ),
    "object": (
        "<object data=/mill.pdf title='The plan'>None.</object>",
        "[The plan](https://site.example/mill.pdf)",
    ),
    "link card of Zenn": (
        "<span class='embed-block zenn-embedded zenn-embedded-card'><iframe id=zenn-embedded__1"
        " src='https://embed.zenn.studio/card#zenn-embedded__1' frameborder=0 scrolling=no loading=lazy"
        " data-content='https%3A%2F%2Fmill.example%2Fplan'></iframe></span>"
        ""
        "<a href='https://mill.example/plan' style='display:none' target=_blank>https://mill.example/plan</a>",
        "<https://mill.example/plan>",
    ),
    "link card of Hatena": (
        "<p><iframe class='embed-card embed-webcard' title='The plan of the mill'"
        " src='https://hatenablog-parts.com/embed?url=https%3A%2F%2Fmill.example%2Fplan'></iframe></p>",
        "[The plan of the mill](https://mill.example/plan)",
    ),
    # Formulas
    "math": ("<p>So <math><msup><mi>x</mi><mn>2</mn></msup></math> it is.</p>", "$x^{2}$"),
    "annotation": (
        "<p>So <span class=katex><span class=katex-mathml><math><semantics><mrow><mi>x</mi></mrow><annotation"
        " encoding='application/x-tex'>x^2</annotation></semantics></math></span><span class=katex-html"
        " aria-hidden=true>x2</span></span> it is.</p>",
        "So $x^2$ it is.",
    ),
    "formula of a wiki": (
        "<p>So <span class=mwe-math-element><span class='mwe-math-mathml-inline mwe-math-mathml-a11y'"
        " style='display: none;'><math><mi>x</mi></math></span><img src=/f.svg"
        " class=mwe-math-fallback-image-inline alt='{\\displaystyle x^2}'></span> it is.</p>",
        "So $x^2$ it is.",
    ),
    "formula of MathJax 3": (
        "<p>So <mjx-container class=MathJax><mjx-math aria-hidden=true><mjx-mi>x</mjx-mi></mjx-math>"
        "<mjx-assistive-mml><math><msup><mi>x</mi><mn>2</mn></msup></math></mjx-assistive-mml></mjx-container>"
        " it is.</p>",
        "So $x^{2}$ it is.",
    ),
    "script": (
        "<p>So <span class=MathJax_Preview></span><span class=MathJax>x2</span>"
        "<script type='math/tex'>x^2</script>"
        " it is.</p>",
        "So $x^2$ it is.",
    ),
    "script of a display": (
        "<div class=MathJax_Display>x2</div><script type='math/tex; mode=display'>x^2 &lt; 3</script>",
        "$$x^2",
    ),
    "data-tex": ("<p>So <span class=ztext-math data-tex='x^2'></span> it is.</p>", "So $x^2$ it is."),
    "image of a formula": ("<p>So <img class=latex src=/f.png alt='x^2'> it is.</p>", "So $x^2$ it is."),
    "math-container": ("<p>So <span class=math-container>$x^2$</span> it is.</p>", "So $x^2$ it is."),
    "text": ("<p>So \\(x^2\\) it is.</p>", "So $x^2$ it is."),
    # Notes
    "footnote": (
        "<p>It is wet<sup id=r1><a href='#fn1'>1</a></sup> there.</p><section class=footnotes><ol>"
        "<li id=fn1>More than 900 mm in a year. <a href='#r1'>↩</a></li></ol></section>",
        "It is wet[^1] there.\n\n[^1]: More than 900 mm in a year.",
    ),
    "language": (
        "<pre><code class=language-python>wind = 3\nread()</code></pre>",
        "```python\nwind = 3\nread()\n```",
    ),
    "code in a table": (
        "<table class=highlight><tr><td class=gutter><pre>1\n2</pre></td><td class=code>"
        "<pre>a = 1\nb = 2</pre></td>"
        "</tr></table>",
        "```\na = 1\nb = 2\n```",
    ),
    "depth": (
        "".join(
            f"<div><p>In the year {n} the wind came from the hills, as was written.</p>" for n in range(300)
        )
        + "<p>It is very deep, as nobody had thought before.</p>"
        + "</div>" * 300,
        "In the year 299 the wind came from the hills, as was written.\n\nIt is very deep, as nobody",
    ),
    "deep boxes": (
        "<div>" * 400 + f"<h2>Deep</h2><p>{DEEP}</p>" + "</div>" * 400,
        f"## Deep\n\n{DEEP}",
    ),
}
"""By feature: HTML amid an article, and the Markdown that must be there."""

_WITHOUT_TEXT = frozenset(("td", "th", "col", "colgroup"))  # of tables, which are one feature


def page(inside: str) -> str:
    return (
        "<html><head><title>The station</title></head><body><nav><a href='/'>Home</a>"
        "<a href='/b'>Other</a></nav>"
        f"<article><h1>The station</h1>{PROSE}{inside}{PROSE}</article><footer>© Mill</footer></body></html>"
    )


@pytest.mark.parametrize("feature", FEATURES)
def test_it_survives_the_extraction(feature: str) -> None:
    html, expected = FEATURES[feature]
    markdown = extract(page(html), URL).markdown
    assert "roof of the old mill" in markdown
    assert expected in markdown


@pytest.mark.parametrize("feature", ["annotation", "formula of a wiki", "formula of MathJax 3"])
def test_a_formula_in_two_forms_is_no_reason_for_a_warning(feature: str) -> None:
    assert extract(page(FEATURES[feature][0]), URL).warnings == ()


def test_every_feature_of_the_converter_has_a_case() -> None:
    written = {*converter.TAGS, *inline.TAGS, *HEADINGS, *LISTS, *SOURCES, *WORDLESS, *EMPTY}
    assert written - _WITHOUT_TEXT <= FEATURES.keys()
