"""Pages in the shapes of real ones, written for this project, and how much of them is read.

What a person would read on a page stands in elements that carry ``data-want``, which no reader looks at. So a
page is its own answer: its text, and its headings, items, rows, listings and links.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lxml.html import HtmlElement, HTMLParser, fromstring

from tabane.reader.extraction.article import extract
from tabane.reader.extraction.content import COLLAPSED

PAGES = Path(__file__).parent / "pages"
_WORDS = re.compile(r"[぀-ヿ㐀-鿿]|[^\W぀-ヿ㐀-鿿]+")
_FENCES = re.compile(r"^```[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]*)[^)]*\)")


@dataclass(frozen=True, slots=True)
class Reading:
    """How well one page was read: F1 over its words, and the share of its structure that is still that."""

    name: str
    f1: float
    structure: float
    missing: tuple[str, ...]


def measured() -> list[Reading]:
    """Every page of the corpus, read."""
    return [_reading(path) for path in sorted(PAGES.glob("*.html"))]


def digest() -> str:
    """The corpus in sixteen digits."""
    whole = b"".join(path.name.encode() + path.read_bytes() for path in sorted(PAGES.glob("*.html")))
    return hashlib.sha256(whole).hexdigest()[:16]


def f1(found: str, wanted: str) -> float:
    """The harmonic mean of precision and recall over words, counted as often as they occur."""
    one, other = Counter(words(found)), Counter(words(wanted))
    both = sum((one & other).values())
    return 2 * both / (one.total() + other.total()) if both else 0.0


def words(text: str) -> list[str]:
    """Words in lower case; characters of Japanese one by one."""
    return _WORDS.findall(text.lower())


def plain(markdown: str) -> str:
    """Markdown without the addresses of its links and the marks of collapsed parts, which are no words."""
    return _LINK.sub(r"\1", markdown.replace(COLLAPSED, ""))


def _reading(path: Path) -> Reading:
    html = path.read_text("utf-8")
    root = fromstring(html.encode(), parser=HTMLParser(encoding="utf-8"))
    for silent in root.xpath("//*[@aria-hidden='true' or @style='font-size:0']"):
        silent.drop_tree()
    wanted = root.xpath("//*[@data-want]")
    assert wanted, path
    markdown = extract(html, "https://site.example/page").markdown
    parts = [part for element in wanted for part in _parts(element)]
    missing = tuple(f"{kind}: {text}" for kind, text in parts if not _kept(markdown, kind, text))
    text = "\n".join(_text(element) for element in wanted)
    return Reading(path.stem, f1(plain(markdown), text), 1 - len(missing) / max(1, len(parts)), missing)


def _text(element: HtmlElement) -> str:
    return " ".join(str(text) for text in element.itertext())


def _parts(element: HtmlElement) -> Iterator[tuple[str, str]]:
    """The structure of a part that is wanted: kind and text of each piece of it."""
    for inner in element.iter("h1", "h2", "h3", "li", "tr", "pre", "a"):
        text = str(inner.text_content())
        if inner.tag in ("h1", "h2", "h3"):
            yield f"h{inner.tag[1]}", text
        elif inner.tag == "tr":
            yield "row", " ".join(str(cell.text_content()) for cell in inner)
        elif inner.tag == "pre":
            yield "code", text
        elif inner.tag == "a" and inner.get("href", "").startswith("http"):
            yield "link", f"[{text}]({inner.get('href')})"
        elif inner.tag == "li":
            yield "item", text


def _kept(markdown: str, kind: str, text: str) -> bool:
    if kind == "link":
        return text in markdown
    if kind == "code":
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return any(all(line in block for line in lines) for block in _FENCES.findall(markdown))
    begins = {"item": r"\s*(?:[-*+]|\d+[.)]) ", "row": r"\|"}.get(kind) or "#" * int(kind[1:]) + " "
    lines = [line for line in markdown.splitlines() if re.match(begins, line)]
    return words(text) in [words(plain(re.sub(r"^\s*\d+[.)]", "", line))) for line in lines]
