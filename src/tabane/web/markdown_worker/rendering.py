"""Markdown as safe HTML; pure.

The output is written element by element from the tokens of the parser, so that only the elements and
attributes below can occur in it. From the text come only escaped characters and checked addresses of links.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tabane.web.markdown_worker import MarkdownRequest, MarkdownResult, OutlineEntry

LONGEST_HTML = 8_000_000
"""Characters of a result."""

MOST_HEADINGS = 500
"""Headings in an outline. More are rendered, without an id."""

_LONGEST_ENTRY = 200  # characters of a heading in the outline
_LONGEST_ADDRESS = 4_000

_LINK: Final = re.compile(r"(?:https?://[^\s/]|mailto:[^\s])", re.IGNORECASE)
_PICTURE: Final = re.compile(r"https?://[^\s/]", re.IGNORECASE)
_TASK: Final = re.compile(r"\[([ xX])\](?=\s)")
_TAG: Final = re.compile(r"<[^>]*>")
_ALIGNED: Final = {"text-align:right": "to-end", "text-align:center": "to-center"}

_SIMPLE: Final = {
    "blockquote": "blockquote", "bullet_list": "ul", "list_item": "li", "thead": "thead", "tbody": "tbody",
    "tr": "tr", "em": "em", "strong": "strong", "s": "s",
}  # fmt: skip
_BREAKS: Final = {"softbreak": "\n", "hardbreak": "<br>\n", "hr": "<hr>\n"}
_BLOCKS: Final = frozenset({"blockquote", "bullet_list", "list_item", "thead", "tbody", "tr"})


class TooLong(Exception):
    """The HTML is longer than LONGEST_HTML."""


def rendered(request: MarkdownRequest) -> MarkdownResult:
    """Return Markdown as HTML. Raises TooLong.

    HTML in the text is shown as text. Images become links. Links other than to the web and to mail addresses
    become text.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    tokens = parser.parse(request.text)
    if request.title and _first_heading(tokens) == " ".join(request.title.split()):
        del tokens[:3]
    writer = _HtmlWriter(request.top, request.start)
    writer.blocks(tokens)
    return MarkdownResult("".join(writer.html), writer.outline)


class _OpenLink(NamedTuple):
    """A link: its address if it was written, and the place in the HTML where its content begins."""

    address: str | None
    start: int


class _HtmlWriter:
    """Writes tokens as HTML. A token of an unknown kind is left out, and its text is escaped."""

    def __init__(self, top: int, start: int) -> None:
        self._start = start
        self.html: list[str] = []
        self.outline: list[OutlineEntry] = []
        self._length = 0
        self._top = max(2, min(top, 6))
        self._above: list[int] = []  # levels of the headings above, as the text counts them
        self._links: list[_OpenLink] = []
        self._handlers: dict[str, Callable[[Token], None]] = {
            "paragraph_open": self._paragraph, "paragraph_close": self._paragraph_end,
            "ordered_list_open": self._numbered, "ordered_list_close": lambda _: self._put("</ol>\n"),
            "table_open": lambda _: self._put('<div class="scroll" tabindex="0"><table class="table">\n'),
            "table_close": lambda _: self._put("</table></div>\n"),
            "th_open": self._cell, "th_close": lambda _: self._put("</th>\n"),
            "td_open": self._cell, "td_close": lambda _: self._put("</td>\n"),
            "code_block": self._code, "fence": self._code,
            "code_inline": lambda token: self._put(f"<code>{escape(token.content)}</code>"),
            "link_open": self._link, "link_close": self._link_end, "image": self._image,
        }  # fmt: skip

    def blocks(self, tokens: Sequence[Token]) -> None:
        """Write the blocks of a text."""
        closing = ""
        for place, token in enumerate(tokens):
            if token.type == "heading_open":
                closing = self._heading(token, tokens[place + 1])
            elif token.type == "heading_close":
                self._put(closing)
            elif token.type == "inline":
                self._inline(
                    token,
                    task=place >= 2
                    and tokens[place - 1].type == "paragraph_open"
                    and tokens[place - 2].type == "list_item_open",
                )
            else:
                self._token(token)

    def _inline(self, token: Token, *, task: bool) -> None:
        children = token.children or []
        if task and children and children[0].type == "text":
            found = _TASK.match(children[0].content)
            if found:
                mark = "\u2610" if found[1] == " " else "\u2611"
                self._put(f'<span class="task">{mark}</span>')
                self._put(escape(children[0].content[found.end() :]))
                children = children[1:]
        for child in children:
            self._token(child)
        while self._links:
            self._link_end(token)

    def _token(self, token: Token) -> None:
        handler = self._handlers.get(token.type)
        if handler is not None:
            handler(token)
        elif token.type in _BREAKS:
            self._put(_BREAKS[token.type])
        else:
            self._simple(token)

    def _simple(self, token: Token) -> None:
        name, _, side = token.type.rpartition("_")
        element = _SIMPLE.get(name)
        if element is None:
            self._put(escape(token.content))
            return
        end = "\n" if name in _BLOCKS else ""
        self._put(f"<{element}>" if side == "open" else f"</{element}>{end}")

    def _put(self, html: str) -> None:
        self._length += len(html)
        if self._length > LONGEST_HTML:
            raise TooLong
        self.html.append(html)

    def _paragraph(self, token: Token) -> None:
        if not token.hidden:
            self._put("<p>")

    def _paragraph_end(self, token: Token) -> None:
        self._put("\n" if token.hidden else "</p>\n")

    def _heading(self, token: Token, inline: Token) -> str:
        """Write the begin of a heading and return its end. No level is skipped on the way down."""
        level = int(token.tag[1:])
        while self._above and self._above[-1] >= level:
            self._above.pop()
        self._above.append(level)
        shown = min(self._top + len(self._above) - 1, 6)
        text = _plain(inline.children or [])[:_LONGEST_ENTRY].strip()
        if text and len(self.outline) < MOST_HEADINGS:
            anchor = f"part-{self._start + len(self.outline) + 1}"
            self.outline.append(OutlineEntry(shown, text, anchor))
            self._put(f'<h{shown} id="{anchor}">')
        elif text:
            self._put(f"<h{shown}>")
        else:  # a heading without text would confuse a screen reader
            self._put("<div>")
            return "</div>\n"
        return f"</h{shown}>\n"

    def _numbered(self, token: Token) -> None:
        start = token.attrGet("start")
        self._put(f'<ol start="{int(start)}">\n' if start is not None else "<ol>\n")

    def _cell(self, token: Token) -> None:
        name = "th" if token.type == "th_open" else "td"
        kind = _ALIGNED.get(str(token.attrGet("style") or ""))
        self._put(f'<{name} class="{kind}">' if kind else f"<{name}>")

    def _code(self, token: Token) -> None:
        self._put(f'<pre tabindex="0"><code>{escape(token.content)}</code></pre>\n')

    def _link(self, token: Token) -> None:
        address = None if self._in_link else _address(token.attrGet("href"), _LINK)
        if address is not None:
            self._put(_link_start(address))
        self._links.append(_OpenLink(address, len(self.html)))

    def _link_end(self, _token: Token) -> None:
        address, start = self._links.pop() if self._links else (None, 0)
        if address is not None:
            if not _TAG.sub("", "".join(self.html[start:])).strip():
                self._put(escape(address))  # a link without text cannot be seen
            self._put("</a>")

    @property
    def _in_link(self) -> bool:
        return any(link.address is not None for link in self._links)

    def _image(self, token: Token) -> None:
        address = _address(token.attrGet("src"), _PICTURE)
        text = escape(_plain(token.children or []).strip() or _file_name(address))
        if address is None or self._in_link:
            self._put(f'<span class="picture">{text}</span>')
        else:
            self._put(f'{_link_start(address)}<span class="picture">{text}</span></a>')


def _link_start(address: str) -> str:
    return f'<a href="{escape(address)}" rel="noreferrer noopener" target="_blank">'


def _first_heading(tokens: Sequence[Token]) -> str:
    """Return the text of a heading at the beginning; empty if there is none."""
    if len(tokens) < 3 or tokens[0].type != "heading_open":
        return ""
    return " ".join(_plain(tokens[1].children or []).split())


def _address(value: object, allowed: re.Pattern[str]) -> str | None:
    """Return an address that may be followed, None for any other."""
    address = str(value or "")
    return address if len(address) <= _LONGEST_ADDRESS and allowed.match(address) else None


def _plain(tokens: Sequence[Token]) -> str:
    """Return the text of inline tokens, without marks."""
    return "".join(
        _plain(token.children) if token.children else " " if token.type.endswith("break") else token.content
        for token in tokens
    )


def _file_name(address: str | None) -> str:
    try:
        parts = urlsplit(address or "")
    except ValueError:
        return ""
    return parts.path.rpartition("/")[2] or parts.netloc
