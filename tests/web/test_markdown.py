"""Untrusted Markdown as HTML: only listed elements and attributes, links to the web, headings in order."""

from __future__ import annotations

import asyncio
import os
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as some

from tabane.web.markdown import LONGEST_MARKDOWN, MarkdownRenderer, RenderedMarkdown
from tabane.web.markdown_worker import MarkdownRequest, MarkdownResult
from tabane.web.markdown_worker.rendering import rendered as rendered_request


def rendered(text: str, top: int = 2, start: int = 0, title: str = "") -> MarkdownResult:
    return rendered_request(MarkdownRequest(text, top, start, title))


ALLOWED: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("p", "ul", "li", "blockquote", "strong", "em", "s", "code", "table", "thead", "tbody", "tr", "br"),
        frozenset(),
    ),
    **dict.fromkeys(("h2", "h3", "h4", "h5", "h6"), frozenset({"id"})),
    **dict.fromkeys(("th", "td", "span", "table"), frozenset({"class"})),
    "hr": frozenset(),
    "ol": frozenset({"start"}),
    "pre": frozenset({"tabindex"}),
    "div": frozenset({"class", "tabindex"}),
    "a": frozenset({"href", "rel", "target"}),
}
CLASSES = {"scroll", "table", "to-end", "to-center", "task", "picture"}


class _Checked(HTMLParser):
    """Raises for anything that is not allowed, and collects links and headings."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.headings: list[int] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= ALLOWED[tag], (tag, attrs)
        values = dict(attrs)
        assert values.get("class", "scroll") in CLASSES
        assert (values.get("id") or "part-1").removeprefix("part-").isdecimal()
        assert values.get("tabindex", "0") == "0"
        if tag == "a":
            assert "a" not in self._open
            assert (values["rel"], values["target"]) == ("noreferrer noopener", "_blank")
            self.links.append(values["href"] or "")
        if tag.startswith("h") and tag != "hr":
            self.headings.append(int(tag[1]))
        if tag not in ("br", "hr"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_pi(self, data: str) -> None:
        raise AssertionError(data)


def checked(text: str, top: int = 2) -> _Checked:
    html = rendered(text, top).html
    assert html is not None
    found = _Checked(html)
    assert all(link.lower().startswith(("http://", "https://", "mailto:")) for link in found.links)
    last = top - 1
    for level in found.headings:
        assert level <= last + 1
        last = level
    return found


PIECES = some.sampled_from([
    "# ", "## ", "###### ", "- ", "- [x] ", "1. ", "> ", "\n", "\n\n", "    ", "```", "```js onclick=x\n",
    "~~~", "|", "|--:|:-:|\n", "**", "_", "~~", "`", "[", "](", ")", "![", "<", ">", "<script>", "</script>",
    "<!--", '<img src=x onerror="x">', "<a href=javascript:x>", "javascript:alert(1)",
    "https://example.com/?a=1&b=\"'", "mailto:a@b", "data:text/html,x", '"', "'", "&lt;", "&#0;", "&", "\\",
    "\0", "\u202e", "\x1b", "---", "===", "[a]: https://x 'y'\n", "[a]", "word", "hx-get", "style=", "束ね",
])  # fmt: skip


@settings(max_examples=50, deadline=None)
@given(some.lists(PIECES | some.text(max_size=8), max_size=40).map("".join), some.integers(2, 4))
def test_only_listed_elements_and_attributes_occur_whatever_the_text(text: str, top: int) -> None:
    checked(text, top)


def test_scripts_and_their_links_are_text() -> None:
    found = checked(
        '<script>alert(1)</script> [x](javascript:alert(1)) [y](data:text/html,z) [z](/etc/x "t")'
    )
    assert "<script>alert(1)</script>" in found.text
    assert found.links == []


def test_images_are_links_with_their_text() -> None:
    html = rendered("![a *tree*](https://example.com/tree.png) ![](https://example.com/b/c.png)").html or ""
    assert "<img" not in html
    assert checked("![a tree](https://example.com/t.png)").links == ["https://example.com/t.png"]
    assert ">a tree<" in html
    assert ">c.png<" in html


def test_a_link_without_text_shows_its_address() -> None:
    assert checked("[](https://example.com/x)").text.strip() == "https://example.com/x"


def test_headings_come_below_the_title_of_the_page_without_gaps() -> None:
    result = rendered("# One\n\n#### Deep\n\n## *Two* `x`\n\n# Three", 3)
    assert [(each.level, each.text) for each in result.outline] == [
        (3, "One"), (4, "Deep"), (4, "Two x"), (3, "Three"),
    ]  # fmt: skip
    for each in result.outline:
        assert f'<h{each.level} id="{each.anchor}">' in (result.html or "")


def test_a_title_that_is_shown_already_is_left_out() -> None:
    result = rendered("# How  *rivers*\n\nwind\n\n## Part", title="How rivers", start=1_000)
    assert result.html == '<p>wind</p>\n<h2 id="part-1001">Part</h2>\n'
    assert [each.text for each in result.outline] == ["Part"]
    assert "rivers" in (rendered("# How rivers wind", title="How rivers").html or "")


def test_tasks_and_tables_are_shown() -> None:
    html = rendered("- [ ] open\n- [X] done\n- [x]no\n\n| a | b |\n|--:|---|\n| 1 | 2 |\n").html or ""
    assert '<span class="task">\u2610</span> open' in html
    assert '<span class="task">\u2611</span> done' in html
    assert "[x]no" in html
    assert '<td class="to-end">1</td>' in html


def through_a_process(*texts: str, **limits: float) -> list[RenderedMarkdown]:
    async def run() -> list[RenderedMarkdown]:
        renderer = MarkdownRenderer(dict(os.environ), **limits)  # type: ignore[arg-type]
        try:
            assert renderer.pids == []
            return [await renderer.html(text) for text in texts]
        finally:
            await renderer.close()
            assert renderer.pids == []

    return asyncio.run(run())


def test_a_text_is_rendered_in_a_process_of_its_own() -> None:
    (found,) = through_a_process("# Hello\n\n*world* \ud800")
    assert '<h2 id="part-1">Hello</h2>\n<p><em>world</em> ?</p>' in found.html
    assert found.outline[0].text == "Hello"
    assert found.note is None


def test_a_text_that_is_too_long_is_shown_as_it_is() -> None:
    (found,) = through_a_process("*a* <b>" + "x" * LONGEST_MARKDOWN)
    assert found.html.startswith('<pre class="plain" tabindex="0">*a* &lt;b&gt;')
    assert found.note is not None


def test_after_a_text_that_takes_too_long_the_next_one_is_rendered() -> None:
    slow, next_one = through_a_process("![[" * 300_000, "*b*", seconds=0.5)
    assert slow.html.startswith("<pre")
    assert slow.note is not None
    assert next_one.html == "<p><em>b</em></p>\n"
