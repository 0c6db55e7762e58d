"""Each structure of a page, in Markdown: one case for one rule."""

from __future__ import annotations

import pytest
from lxml import html

from tabane.reader.markdown import markdown

BASE = "https://example.org/a/page.html"


def written(source: str, *, links: bool = True) -> str:
    tree = html.document_fromstring(f"<body>{source}</body>")
    body = tree.find("body")
    assert body is not None
    return markdown([body], BASE, links=links)


BLOCKS = {
    "headings have their levels": (
        "<h1>One</h1><h3>Three</h3><p>Text</p><h6>Six</h6>",
        "# One\n\n### Three\n\nText\n\n###### Six",
    ),
    "a heading is not bold, and without the mark that links to it": (
        '<h2><strong>Use</strong> it<a class="headerlink" href="#use">¶</a></h2>',
        "## Use it",
    ),
    "a heading by its role": ('<div role="heading" aria-level="3">Role</div>', "### Role"),
    "text beside blocks is a paragraph": ("<div>one<p>two</p>three</div>", "one\n\ntwo\n\nthree"),
    "blocks within inline elements": (
        "<span><p>one</p><b>two</b><p>three</p></span>",
        "one\n\n**two**\n\nthree",
    ),
    "lines and paragraphs by br": ("<p>one<br>two<br><br>three</p>", "one  \ntwo\n\nthree"),
    "white space as a browser shows it": (
        "<p> one \n  <b> two </b>three\xa0four </p>",
        "one **two** three four",
    ),
    "a quotation": ("<blockquote><p>one</p><ul><li>two</ul></blockquote>", "> one\n>\n> - two"),
    "a listing indented as a quotation": ("<blockquote><pre>a\nb</pre></blockquote>", "```\na\nb\n```"),
    "a quotation with a listing": (
        "<blockquote><p>one</p><pre>a\nb</pre></blockquote>",
        "> one\n>\n> ```\n> a\n> b\n> ```",
    ),
    "a rule": ("<p>a</p><hr><p>b</p>", "a\n\n---\n\nb"),
    "details with their summary": (
        "<details><summary>More</summary><p>Hidden</p></details>",
        "**More**\n\nHidden",
    ),
    "a figure with its caption": (
        '<figure><img src="/x.png" alt="A cat"><figcaption>The cat</figcaption></figure>',
        "![A cat](https://example.org/x.png)\n\nThe cat",
    ),
    "scripts, styles and comments say nothing": (
        "<p>a<script>x()</script><style>y{}</style><!-- z -->b</p>",
        "ab",
    ),
    "the sea of a page's wrappers": ("<div>" * 200 + "deep" + "</div>" * 200, "deep"),
}
LISTS = {
    "nested lists": (
        "<ul><li>one<ul><li>two<ol><li>three</ol></ul><li>four</ul>",
        "- one\n  - two\n    1. three\n- four",
    ),
    "a list right within a list": ("<ul><li>one</li><ul><li>two</li></ul></ul>", "- one\n  - two"),
    "numbers as they are said": (
        '<ol start="9"><li>a</li><li>b</li><li value="20">c</li></ol>',
        "9. a\n10. b\n20. c",
    ),
    "numbers downwards": ("<ol reversed><li>a</li><li>b</li></ol>", "2. a\n1. b"),
    "paragraphs and code in items": (
        "<ol><li><p>one</p><p>two</p><pre>x\n  y</pre></li><li>three</li></ol>",
        "1. one\n\n   two\n\n   ```\n   x\n     y\n   ```\n\n2. three",
    ),
    "tasks": (
        '<ul><li><input type="checkbox" checked> done<li><input type="checkbox"> open</ul>',
        "- [x] done\n- [ ] open",
    ),
    "lists beside each other stay two": ("<ul><li>a</ul><ul><li>b</ul>", "- a\n\n* b"),
    "cards are sections, not items": (
        '<ul><li><a href="/1"><h3>One</h3><p>Text</p></a></li></ul>',
        "### [One](https://example.org/1)\n\nText",
    ),
    "items that say nothing are none": ("<ul><li></li><li>a</li><li> </li></ul>", "- a"),
    "terms and their definitions": (
        "<dl><dt>HTTP<dd>A protocol<dt>URL<dd>An address</dl>",
        "- **HTTP**: A protocol\n- **URL**: An address",
    ),
    "long definitions": (
        "<dl><dt>HTTP<dd><p>A</p><p>B</p></dl>",
        "**HTTP**\n\nA\n\nB",
    ),
}
INLINE = {
    "emphasis": ("<p><em>a</em> <strong>b</strong> <del>c</del></p>", "*a* **b** ~~c~~"),
    "emphasis around Japanese words": ("<p>これは<b>重要</b>です</p>", "これは**重要**です"),
    "emphasis beside Japanese punctuation holds": (
        "<p>これは<b>「重要」</b>です。<b>注意。</b>次</p>",
        "これは「**重要**」です。**注意**。次",
    ),
    "emphasis that could not hold is left out": ("<p>実行<b><code>x</code></b>する</p>", "実行`x`する"),
    "a bold link": ('<p><b><a href="/x">go</a></b></p>', "[**go**](https://example.org/x)"),
    "marks within their like": ("<p><b>a <strong>b</strong> c</b></p>", "a **b** c"),
    "a line of Japanese that was cut in the source": (
        "<p>これは\n  日本語\n  text です</p>",
        "これは日本語 text です",
    ),
    "inline code with backticks": ("<p><code>a `b` c</code> <kbd>Ctrl</kbd></p>", "``a `b` c`` `Ctrl`"),
    "links are absolute": (
        '<p><a href="../b?c=1#d">x</a> <a href="//e.org/">y</a></p>',
        "[x](https://example.org/b?c=1#d) [y](https://e.org/)",
    ),
    "links that open nothing are their text": (
        '<p><a href="javascript:x()">a</a> <a href="#top">b</a> <a href="data:text/html,x">c</a> <a>'
        "d</a></p>",
        "a b c d",
    ),
    "addresses fit between parentheses": (
        '<p><a href="/a(b)">x</a> <a href="/a)b">y</a> <a href="/a b">z</a></p>',
        "[x](https://example.org/a(b)) [y](https://example.org/a%29b) [z](https://example.org/a%20b)",
    ),
    "brackets in the text of a link": ('<p><a href="/x">a] b</a></p>', "[a\\] b](https://example.org/x)"),
    "links without a space stay apart": (
        '<p><a href="/1">a</a><a href="/2">b</a></p>',
        "[a](https://example.org/1) [b](https://example.org/2)",
    ),
    "sub and sup": (
        "<p>H<sub>2</sub>O, x<sub>i</sub>, 10<sup>3</sup>, 1<sup>st</sup>, e<sup>x+1</sup></p>",
        "H2O, x_i, 10^3, 1st, e^(x+1)",
    ),
    "ruby": ("<p><ruby>漢字<rp>（</rp><rt>かんじ</rt><rp>）</rp></ruby>を読む</p>", "漢字(かんじ)を読む"),
    "wbr, soft hyphens and zero width": (
        "<p>long<wbr>word soft\xadhyphen zero\u200bwidth</p>",
        "longword softhyphen zerowidth",
    ),
    "quotations in a line": ("<p>He said <q>no</q>.</p>", 'He said "no".'),
}
ESCAPED = {
    "what would be marks": (
        "<p>*a* _b_ `c` [d](e) &lt;div&gt; f\\*g</p>",
        "\\*a\\* \\_b\\_ \\`c\\` \\[d](e) \\<div> f\\\\\\*g",
    ),
    "what would begin a line": (
        "<p># a</p><p>- b</p><p>1. c</p><p>&gt; d</p>",
        "\\# a\n\n\\- b\n\n1\\. c\n\n\\> d",
    ),
    "and nothing else": (
        "<p>snake_case, 2 * 3 * 4, C#, a < b & c, 1.5 - 2, [x], (y), a|b, ~1</p>",
        "snake_case, 2 * 3 * 4, C#, a < b & c, 1.5 - 2, [x], (y), a|b, ~1",
    ),
}
CODE = {
    "language by class": (
        '<pre><code class="language-python">x = 1\ny = 2</code></pre>',
        "```python\nx = 1\ny = 2\n```",
    ),
    "language of GitHub": (
        '<div class="highlight highlight-source-js"><pre>a()</pre></div>',
        "```js\na()\n```",
    ),
    "language of Sphinx": (
        '<div class="highlight-python notranslate"><div class="highlight"><pre>a</pre></div></div>',
        "```python\na\n```",
    ),
    "language of highlight.js": ('<pre><code class="hljs rust">fn</code></pre>', "```rust\nfn\n```"),
    "no language where none is said": ('<pre class="wp-block-code"><code>a</code></pre>', "```\na\n```"),
    "white space is kept": ("<pre>\n\n  a\n\n    b\t c  \n\n</pre>", "```\n  a\n\n    b\t c\n```"),
    "fences longer than what is inside": ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
    "gutters are left out": (
        '<pre><span class="lineno">1</span>a\n<span class="lineno">2</span>b</pre>',
        "```\na\nb\n```",
    ),
    "a gutter in a table": (
        '<table class="highlighttable"><tr><td class="linenos"><pre>1\n2</pre></td>'
        '<td class="code"><div class="highlight"><pre>a\n b</pre></div></td></tr></table>',
        "```\na\n b\n```",
    ),
    "the button to copy": (
        '<div><button class="copy-btn">Copy</button><pre>a</pre></div>',
        "```\na\n```",
    ),
    "lines that are elements": (
        '<pre><code><span class="line">a</span><span class="line">b</span></code></pre>',
        "```\na\nb\n```",
    ),
    "lines by br": ("<pre>a<br>b</pre>", "```\na\nb\n```"),
    "a listing without pre": ("<div><code>a = 1\nb = 2</code></div>", "```\na = 1\nb = 2\n```"),
    "marks in code are letters": ("<pre>*a* &lt;b&gt; [c](d)</pre>", "```\n*a* <b> [c](d)\n```"),
}
TABLES = {
    "a table": (
        "<table><tr><th>a<th>b<tr><td>1<td>2</table>",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    "bars and code in cells": (
        "<table><tr><th>a<th>b<tr><td>x|y<td><code>p|q</code></table>",
        "| a | b |\n| --- | --- |\n| x\\|y | `p\\|q` |",
    ),
    "a cell over columns and rows": (
        '<table><tr><th>a<th>b<th>c<tr><td rowspan="2">x<td colspan="2">y<tr><td>1<td>2</table>',
        "| a | b | c |\n| --- | --- | --- |\n| x | y |  |\n| x | 1 | 2 |",
    ),
    "two rows of heads": (
        '<table><thead><tr><th rowspan="2">a<th colspan="2">b<tr><th>c<th>d</thead><tr><td>1<td>2<td>'
        "3</table>",
        "| a | b / c | b / d |\n| --- | --- | --- |\n| 1 | 2 | 3 |",
    ),
    "heads at the left": (
        "<table><tr><th>a<td>1<tr><th>b<td>2</table>",
        "|  |  |\n| --- | --- |\n| a | 1 |\n| b | 2 |",
    ),
    "the caption": (
        "<table><caption>Prices</caption><tr><th>a<th>b<tr><td>1<td>2</table>",
        "Prices\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    "lists and lines in cells": (
        "<table><tr><th>a<th>b<tr><td><ul><li>1<li>2</ul><td>x<br>y</table>",
        "| a | b |\n| --- | --- |\n| 1 • 2 | x y |",
    ),
    "a foot comes last": (
        "<table><thead><tr><th>a<th>b</thead><tfoot><tr><td>sum<td>3</tfoot><tbody><tr><td>x<td>3</table>",
        "| a | b |\n| --- | --- |\n| x | 3 |\n| sum | 3 |",
    ),
    "a layout is what is in it": (
        "<table><tr><td><h2>Left</h2><p>one</p></td><td><p>two</p></td></tr></table>",
        "## Left\n\none\n\ntwo",
    ),
    "a layout by its role": (
        '<table role="presentation"><tr><td>a<td>b<tr><td>c<td>d</table>',
        "a\n\nb\n\nc\n\nd",
    ),
    "tables within tables": (
        "<table><tr><td><table><tr><th>a<th>b<tr><td>1<td>2</table></td></tr></table>",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    "empty rows and columns are none": (
        "<table><tr><th>a<th><th>b<tr><td><td><td><tr><td>1<td><td>2</table>",
        "| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
}
IMAGES = {
    "alt and address": ('<p><img src="i.png" alt="A [b]"></p>', "![A [b]](https://example.org/a/i.png)"),
    "lazy ones": (
        '<p><img src="data:image/gif;base64,R0" data-src="/l.jpg" alt="l"></p>',
        "![l](https://example.org/l.jpg)",
    ),
    "the widest that is not too wide": (
        '<p><img alt="s" srcset="/a.jpg 400w, /b.jpg 1200w, /c.jpg 4000w"></p>',
        "![s](https://example.org/b.jpg)",
    ),
    "pictures": (
        '<picture><source srcset="/p.webp"><img src="data:image/gif;base64,R0" alt="p"></picture>',
        "![p](https://example.org/p.webp)",
    ),
    "pixels that count": ('<p>a<img src="/t.gif" width="1" height="1" alt="x"></p>', "a"),
    "icons without words": ('<p>a <img src="/i.png" width="16"> b</p>', "a b"),
    "in a link": (
        '<a href="/x"><img src="/i.png" alt="i"></a>',
        "[![i](https://example.org/i.png)](https://example.org/x)",
    ),
    "emoji": ('<p>ok <img class="emoji" alt="👍" src="/u.png"></p>', "ok 👍"),
}
FORMULAS = {
    "KaTeX": (
        '<p>so <span class="katex"><span class="katex-mathml"><math><semantics><mrow><mi>x</mi></mrow>'
        '<annotation encoding="application/x-tex">x^2</annotation></semantics></math></span>'
        '<span class="katex-html" aria-hidden="true">x2</span></span>.</p>',
        "so $x^2$.",
    ),
    "KaTeX on its own line": (
        '<p>so<span class="katex-display"><span class="katex"><span class="katex-mathml"><math><semantics>'
        '<annotation encoding="application/x-tex">a*b*c</annotation></semantics></math></span></span>'
        "</span>then</p>",
        "so\n\n$$a*b*c$$\n\nthen",
    ),
    "MathJax": (
        '<p>a <span class="MathJax_Preview">?</span><script type="math/tex">E=mc^2</script></p>',
        "a $E=mc^2$",
    ),
    "TeX in the text": ("<p>a \\(x_1 * y_1\\) b</p>", "a $x_1 * y_1$ b"),
    "Wikipedia": (
        '<span class="mwe-math-element"><span style="display:none"><math alttext="{\\displaystyle '
        'a+b}"><mi>a</mi>'
        '</math></span><img class="mwe-math-fallback-image-inline" alt="{\\displaystyle a+b}" '
        'src="/m.svg"></span>',
        "$a+b$",
    ),
    "MathML alone": (
        "<math><mfrac><mi>a</mi><msup><mi>b</mi><mn>2</mn></msup></mfrac></math>",
        "$\\frac{a}{b^{2}}$",
    ),
    "images of formulas": ('<p><img class="latex" alt="x^2" src="/x.png"></p>', "$x^2$"),
}
NOTES = {
    "footnotes": (
        '<p>Text<sup id="r1"><a href="#fn1">1</a></sup>.</p>'
        '<section class="footnotes"><ol><li id="fn1"><p>The note. <a href="#r1">↩</a></p></li></ol>'
        "</section>",
        "Text[^1].\n\n[^1]: The note.",
    ),
    "references of Wikipedia": (
        '<p>Text<sup class="reference" id="cite_ref-1"><a href="#cite_note-1">[1]</a></sup></p>'
        '<ol class="references"><li id="cite_note-1"><span>^ <a href="#cite_ref-1">a</a></span> A '
        "book</li></ol>",
        "Text[^1]\n\n[^1]: ^ A book",
    ),
    "a mark whose note is elsewhere is its text": ('<p>Text<sup><a href="#fn1">[1]</a></sup></p>', "Text[1]"),
}
ALL = {
    f"{kind}: {name}": case
    for kind, cases in (
        ("blocks", BLOCKS),
        ("lists", LISTS),
        ("inline", INLINE),
        ("escaped", ESCAPED),
        ("code", CODE),
        ("tables", TABLES),
        ("images", IMAGES),
        ("formulas", FORMULAS),
        ("notes", NOTES),
    )
    for name, case in cases.items()
}


@pytest.mark.parametrize(("source", "expected"), ALL.values(), ids=ALL.keys())
def test_structure(source: str, expected: str) -> None:
    assert written(source) == expected


def test_without_links_the_text_stays() -> None:
    assert written('<p><a href="/x">go</a> <img src="/i.png" alt="cat"></p>', links=False) == "go ![cat]()"


def test_several_elements_stand_below_each_other_without_their_tails() -> None:
    tree = html.fragment_fromstring("<div><p>one</p>tail<ul><li>two</ul>more</div>")
    assert markdown(list(tree), BASE) == "one\n\n- two"


def test_the_tree_is_left_as_it_is() -> None:
    source = (
        '<div><h2>a<a class="headerlink" href="#a">#</a></h2><pre><span class="lineno">1</span>x</pre></div>'
    )
    tree = html.fragment_fromstring(source)
    before = html.tostring(tree)
    markdown([tree], BASE)
    assert html.tostring(tree) == before
