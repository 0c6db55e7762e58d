"""Declarations of a page about itself: metadata, kinds, further addresses, its text. Pure.

The metadata are title, author, date, site, language and canonical URL. The kinds are types of schema.org and
Open Graph.

Addresses that a browser loads without a click are marked by how they are used: ``refresh URL``,
``frame URL``, or ``elsewhere URL`` for a frame of another site, which is not read.

JSON-LD's articleBody is a text that no reader of the page sees, so its author could address models only. It
never replaces visible text, unless the page shows the beginning of the same text and then stops, or shows
nothing. Of 344 pages of seven kinds (WCXB's dev split and others), 9 have a long text of this kind, and none
needs it.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urldefrag, urljoin, urlsplit

from tabane.messages import Message, say

REFRESH, FRAME, ELSEWHERE = "refresh ", "frame ", "elsewhere "

_MOST_FRAMES = 8
_SOON = 5.0  # seconds: a page that stays for longer is there to be read
_LONGEST_REFRESH = 4_000
_LITTLE = 120  # letters and digits: a page with less around a frame is that frame
_UNSHOWN = frozenset(("script", "style", "noscript", "template", "head", "title", "iframe", "noframes"))
_NOT_SHOWN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|(?<![-\w])(?:width|height)\s*:\s*[01](?![.\d%])"
)
_SECOND_LEVEL = re.compile(r"(?:ac|co|com|ed|edu|go|gov|gr|lg|ne|net|or|org)\.[a-z]{2}")
_CONTENT = re.compile(
    r"""\s*(\d{0,6}(?:\.\d{0,6})?)\s*[;,\s]\s*(?:url\s*=\s*)?(?:"([^"]*)"|'([^']*)'|(\S.*))\s*""",
    re.IGNORECASE | re.DOTALL,
)


def onward_addresses(root: Element, url: str) -> tuple[str, ...]:
    """Return the marked addresses that a browser would load, absolute: a refresh, else the frames of a
    frameset, or of a page that shows next to nothing else.
    """
    base = base_of(root, url)
    for element in root.iter("meta"):
        if (element.get("http-equiv") or "").strip().lower() != "refresh" or any(
            above.tag == "noscript" for above in element.iterancestors()
        ):
            continue
        to = refreshed(element.get("content") or "", base, url)
        return (REFRESH + to,) if to else ()
    framed = next(root.iter("frameset"), None) is not None
    elements = root.iter("frame") if framed else _only_frames(root)
    found = (_absolute_address(base, element.get("src") or "") for element in elements)
    frames = dict.fromkeys(address for address in found if address and not _is_same_page(address, url))
    marks = (FRAME if framed or _is_one_site(address, url) else ELSEWHERE for address in frames)
    return tuple(mark + address for mark, address in zip(marks, frames, strict=True))[:_MOST_FRAMES]


def open_documents(root: Element, parsed: Callable[[str], Element]) -> None:
    """Put the documents of ``srcdoc`` frames in their place, on a page that shows next to nothing else."""
    for frame in _only_frames(root):
        if source := frame.get("srcdoc"):
            inner = parsed(source)
            frame.tag = "div"
            for name in ("srcdoc", "width", "height"):
                frame.attrib.pop(name, None)
            frame[:] = [each for part in inner for each in part if each.tag not in ("title", "base", "meta")]
            frame.text = next((part.text for part in inner if part.tag == "body"), None)


def _only_frames(root: Element) -> list[Element]:
    """Return the visible frames of a page without other text; none if it has some."""
    frames = [frame for frame in root.iter("iframe") if _is_shown(frame)][:_MOST_FRAMES]
    if not frames:
        return []
    letters, todo = 0, [root]
    while todo and letters < _LITTLE:
        element = todo.pop()
        if isinstance(element.tag, str) and element.tag not in _UNSHOWN and "hidden" not in element.attrib:
            letters += sum(map(str.isalnum, element.text or ""))
            todo.extend(element)
        letters += sum(map(str.isalnum, element.tail or ""))
    return frames if letters < _LITTLE else []


def _is_shown(frame: Element) -> bool:
    """Return whether a frame is as large as one that shows a page."""
    if any("hidden" in at.attrib or at.tag == "noscript" for at in (frame, *frame.iterancestors())):
        return False
    sizes = ((frame.get(name) or "").strip().removesuffix("px") for name in ("width", "height"))
    return not any(size in ("0", "1") for size in sizes) and not _NOT_SHOWN.search(frame.get("style") or "")


def _is_one_site(address: str, url: str) -> bool:
    """Return whether two addresses have one host, or hosts of one domain."""
    one, other = (urlsplit(each).hostname or "" for each in (address, url))
    if one == other or one.endswith("." + other) or other.endswith("." + one):
        return bool(one)
    above = one.partition(".")[2]
    named = "." in above and not _SECOND_LEVEL.fullmatch(above) and not above.replace(".", "").isdigit()
    return named and above == other.partition(".")[2]


def refreshed(value: str, base: str, url: str) -> str | None:
    """Return the address of a refresh (of a header or a meta element), absolute against ``base``.

    None if it comes late, or leads to the page itself.
    """
    match = _CONTENT.fullmatch(value[:_LONGEST_REFRESH])
    if match is None:
        return None
    to = _absolute_address(base, (match[2] or match[3] or match[4] or "").strip())
    try:
        soon = float(match[1] or 0) <= _SOON
    except ValueError:
        return None
    return to if soon and to and not _is_same_page(to, url) else None


def base_of(root: Element, url: str) -> str:
    """Return the address that relative ones begin at: that of the first ``<base href>``, else of the page."""
    element = root.find(".//base[@href]")
    return (_absolute_address(url, element.get("href")) or url) if element is not None else url


def _absolute_address(base: str, to: str) -> str | None:
    """Return an absolute address of the web; None for others, such as about:blank."""
    try:
        address = urljoin(base, to.strip()) if to.strip() else ""
    except ValueError:
        return None
    return address if address[:8].lower().startswith(("http://", "https://")) else None


def _is_same_page(address: str, url: str) -> bool:
    return urldefrag(address)[0] == urldefrag(url)[0]


Element = Any

_MOST = 40  # scripts of JSON-LD that are read
_LONGEST = 2_000_000  # characters of one
_DEEPEST = 12
_TITLES = ("og:title", "twitter:title", "dc.title", "dcterms.title", "citation_title", "parsely-title")
_AUTHORS = (
    "author", "article:author_name", "dc.creator", "dcterms.creator", "citation_author", "parsely-author",
    "sailthru.author", "byl", "article:author", "og:article:author", "twitter:data1",
)  # fmt: skip
_DATES = (
    "article:published_time", "og:article:published_time", "og:published_time", "datepublished", "date",
    "dc.date", "dcterms.date", "dc.date.issued", "dcterms.created", "citation_publication_date",
    "citation_date", "pubdate", "publishdate", "publish-date", "publish_date",
    "parsely-pub-date", "sailthru.date", "article.published",
    "article:modified_time", "og:updated_time", "last-modified", "dcterms.modified",
)  # fmt: skip
_SITES = ("og:site_name", "application-name", "dc.publisher", "twitter:site")
_WRITTEN = re.compile(
    r"(?:article|posting|newsarticle|blogposting|report|review|recipe|webpage|product|discussionforumposting"
    r"|qapage|question|video|creativework|scholarlyarticle|techarticle|howto|book|podcast)", re.IGNORECASE
)  # fmt: skip
_ISO = re.compile(
    r"^\s*(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?"
)
_NUMBERS = re.compile(r"\b((?:19|20)\d{2})\s*[/.年-]\s*(\d{1,2})\s*[/.月-]\s*(\d{1,2})(?!\d)")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMED = re.compile(
    r"\b(?:(\d{1,2})(?:st|nd|rd|th)?\.?\s+)?([A-Z][a-z]{2})[a-z]*\.?\s+"
    r"(?:(\d{1,2})(?:st|nd|rd|th)?,?\s+)?((?:19|20)\d{2})\b"
)
_IN_URL = re.compile(r"/((?:19|20)\d{2})[/-](\d{1,2})[/-](\d{1,2})(?:/|-|$)")
_BY = re.compile(
    r"^\s*(?:by|written by|author|posted by|von|par|por|文|著者?|執筆者?|筆者|投稿者|記事)"
    r"(?:\s*[:：]\s*|\s+)",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"\s+[|｜–—·•»:-]\s+|[|｜]|\s*-\s*(?=[^-]*$)")
_DATED = re.compile(r"date|publish|posted|(?<![a-z])time(?!line)", re.IGNORECASE)
_MOST_NAMED = 500  # elements whose names say that they are a byline or a date
_SPACE = re.compile(r"\s+")
_WRAPPED = re.compile(r"^\s*(?:<!--|/\*.*?\*/|//\s*<!\[CDATA\[)|(?:-->|//\s*+\]\]>)\s*+;?+\s*+$")
"""Comment and CDATA marks around JSON-LD, which old browsers needed."""


@dataclass(frozen=True, slots=True)
class PageMetadata:
    """Metadata of a page; None for what the page does not say. ``body`` is the text in its JSON-LD."""

    title: str | None = None
    author: str | None = None
    date: str | None = None
    site: str | None = None
    lang: str | None = None
    canonical: str | None = None
    body: str | None = None
    closed: bool = False


def metadata(root: Element, url: str) -> PageMetadata:
    """Read the metadata of a page, best source first: JSON-LD, meta elements, then the page's elements."""
    meta: dict[str, str] = {}
    for element in root.iter("meta"):
        name = (
            element.get("property")
            or element.get("name")
            or element.get("itemprop")
            or element.get("http-equiv")
        )
        value = clean(element.get("content"))
        if name and value:
            meta.setdefault(name.strip().lower(), value)
    things = [thing for thing in _linked_objects(root) if _WRITTEN.search(_type_of(thing))]
    things.sort(key=lambda thing: _type_of(thing).lower() in ("webpage", "itempage", "collectionpage"))
    site = _first_meta(meta, _SITES)
    publishers = (name for thing in things for name in _names_in(thing.get("publisher")))
    declared_lang = (
        root.get("lang")
        or root.get("xml:lang")
        or meta.get("og:locale")
        or meta.get("content-language")
        or ""
    )
    lang = re.match(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*", declared_lang.strip())
    return PageMetadata(
        title=_page_title(root, meta, things, site),
        author=_page_author(root, meta, things),
        date=_page_date(root, meta, things, url),
        site=site.lstrip("@") if site else next(publishers, None),
        lang=lang.group().replace("_", "-") if lang else None,
        canonical=_canonical_url(root, meta, url),
        body=next(
            (
                text
                for thing in things
                if (text := _text_value(thing.get("articleBody") or thing.get("text")))
            ),
            None,
        ),
        closed=any(str(thing.get("isAccessibleForFree")).lower() == "false" for thing in things),
    )


def clean(text: str | None, most: int = 500) -> str | None:
    """Return a text in one line, cut if it is too long for its field; None if it is empty."""
    line = _SPACE.sub(" ", text or "").strip()
    return line[:most] or None


def beginning(element: Element, most: int = 2_000) -> str:
    """Return the text of an element, without its end if it is longer than ``most`` characters.

    Elements of the same kind may be nested, so that the text of each would be most of the page.
    """
    parts: list[str] = []
    length = 0
    for text in element.itertext():
        parts.append(text)
        length += len(text)
        if length > most:
            break
    return "".join(parts)[: most + 1]


def _first_meta(meta: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((meta[name] for name in names if name in meta), None)


def _linked_objects(root: Element) -> Iterator[dict[str, Any]]:
    """Yield every object in JSON-LD, to a limited depth."""
    scripts = (at for at in root.iter("script") if "ld+json" in (at.get("type") or "").lower())
    for script in itertools.islice(scripts, _MOST):
        text = (script.text or "")[:_LONGEST]
        try:
            value = json.loads(_WRAPPED.sub("", text), strict=False)
        except (ValueError, RecursionError):
            continue
        yield from itertools.islice(_objects_in(value), 500)


def _objects_in(value: Any) -> Iterator[dict[str, Any]]:
    todo = deque([(value, 0)])
    while todo:
        at, depth = todo.popleft()
        if depth > _DEEPEST:
            continue
        if isinstance(at, list):
            todo += [(inner, depth + 1) for inner in at[:200]]
        elif isinstance(at, dict):
            if "@type" in at:
                yield at
            todo += [
                (at[key], depth + 1) for key in ("@graph", "mainEntity", "mainEntityOfPage") if key in at
            ]


def _type_of(thing: Mapping[str, Any]) -> str:
    kind = thing.get("@type")
    return str(kind[0] if isinstance(kind, list) and kind else kind)


def _text_value(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _page_title(
    root: Element, meta: Mapping[str, str], things: list[dict[str, Any]], site: str | None
) -> str | None:
    headings = [
        text for at in itertools.islice(root.iter("h1"), 5) if (text := clean("".join(at.itertext())))
    ]
    element = next((clean("".join(at.itertext())) for at in root.iter("title")), None)
    said = _first_meta(meta, _TITLES) or next(
        (clean(_text_value(thing.get("headline"))) for thing in things if thing.get("headline")), None
    )
    whole = said or element
    if whole is None:
        return headings[0] if headings else None
    for heading in headings:
        if len(heading) > 3 and heading in whole and 2 * len(heading) > len(whole):
            return heading
    # The name of the site behind a title is left out: "Trees | The Forest" of the site The Forest.
    parts = [part for part in _SEPARATORS.split(whole) if part]
    if site and len(parts) > 1 and parts[-1].strip().casefold() == site.lstrip("@").casefold():
        return whole[: whole.rindex(parts[-1])].rstrip(" |｜–—·•»:-") or whole
    return whole


def _page_author(root: Element, meta: Mapping[str, str], things: list[dict[str, Any]]) -> str | None:
    for thing in things:
        names = list(_names_in(thing.get("author") or thing.get("creator")))
        if names:
            return clean(", ".join(dict.fromkeys(names)), 200)
    if meta.get("twitter:label1", "").lower() not in ("written by", "author"):
        meta = {name: value for name, value in meta.items() if name != "twitter:data1"}
    for name in _AUTHORS:
        if (value := meta.get(name)) and "://" not in value:
            return _BY.sub("", value)[:200] or None
    named = filter(_names_author, root.iter("a", "span", "address", "p", "div"))
    for element in itertools.islice(named, _MOST_NAMED):
        text = clean(beginning(element))
        if text and len(text) < 80:
            return _BY.sub("", text) or None
    return None


def _names_in(value: Any) -> Iterator[str]:
    for at in value if isinstance(value, list) else [value]:
        name = at.get("name") if isinstance(at, dict) else at
        if isinstance(name, list):
            name = name[0] if name else None
        if isinstance(name, str) and name.strip() and "://" not in name:
            yield name.strip()


def _names_author(element: Element) -> bool:
    attributes = element.attrib
    if not attributes:
        return False
    prop = attributes.get("itemprop") or ""
    name = f" {attributes.get('class') or ''} {prop} ".lower()
    return attributes.get("rel") == "author" or "author" in prop or " byline " in name or " author " in name


def _page_date(root: Element, meta: Mapping[str, str], things: list[dict[str, Any]], url: str) -> str | None:
    for key in ("datePublished", "uploadDate", "dateCreated", "dateModified"):
        for thing in things:
            if day := iso(_text_value(thing.get(key))):
                return day
    for name in _DATES:
        if day := iso(meta.get(name)):
            return day
    times = itertools.islice(root.iter("time"), 20)
    marked = sorted(
        times,
        key=lambda at: at.get("pubdate") is None and "publish" not in (at.get("itemprop") or "").lower(),
    )
    for element in marked:
        if day := iso(element.get("datetime") or "".join(element.itertext())):
            return day
    if match := _IN_URL.search(urlsplit(url).path if _is_parseable(url) else ""):
        return _iso_day(*match.groups())
    named = filter(_names_date, root.iter("span", "p", "div", "li", "td", "small"))
    for element in itertools.islice(named, _MOST_NAMED):
        text = clean(beginning(element))
        if text and len(text) < 100 and (day := iso(text)):
            return day
    return None


def _names_date(element: Element) -> bool:
    attributes = element.attrib
    if not attributes:
        return False
    name = f"{attributes.get('class') or ''} {attributes.get('id') or ''} {attributes.get('itemprop') or ''}"
    return _DATED.search(name) is not None


def iso(text: str | None) -> str | None:
    """Return a date as ISO 8601, with its time if the text has one; None if there is no valid date.

    >>> iso("2024年3月9日"), iso("March 9th, 2024"), iso("2024-03-09T10:00:00.000+0900") ('2024-03-09',
    '2024-03-09', '2024-03-09T10:00:00+09:00')
    """
    if not text:
        return None
    if match := _ISO.match(text):
        return _iso_moment(*match.groups())
    if match := _NUMBERS.search(text):
        return _iso_day(*match.groups())
    for match in _NAMED.finditer(text):
        first, month, second, year = match.groups()
        if month.lower() in _MONTHS and (first or second):
            return _iso_day(year, str(_MONTHS.index(month.lower()) + 1), first or second)
    return None


def _iso_day(year: str, month: str, day: str) -> str | None:
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None


def _iso_moment(year: str, month: str, day: str, *time: str | None) -> str | None:
    hour, minute, second, zone = time
    whole = _iso_day(year, month, day)
    if whole is None or hour is None:
        return whole
    if zone and zone != "Z" and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    moment = f"{whole}T{hour}:{minute}:{second or '00'}{zone or ''}"
    try:
        datetime.fromisoformat(moment)
    except ValueError:
        return whole
    return moment


def _canonical_url(root: Element, meta: Mapping[str, str], url: str) -> str | None:
    links = (
        at.get("href") for at in root.iter("link") if "canonical" in (at.get("rel") or "").lower().split()
    )
    said = next((link.strip() for link in links if link and link.strip()), None) or meta.get("og:url")
    try:
        whole = urljoin(base_of(root, url), said) if said else ""
        return whole if urlsplit(whole).scheme in ("http", "https") and urlsplit(whole).hostname else None
    except ValueError:
        return None


def _is_parseable(url: str) -> bool:
    try:
        urlsplit(url)
    except ValueError:
        return False
    return True


SHORT = 250
"""Characters below which a text for machines is at most a summary."""

TIMES = 3
"""Factor by which it must be longer than the content to contain something that was not found."""

_SEEN = 0.8
"""Share of its word sequences that are visible above which it was written for readers."""

_BEGINS = 0.5
"""Share of the content's word sequences that it contains above which it is the same text."""

_NOTHING = 5  # words: "Loading …"
_LONG = 4  # words of a sequence
_MOST_COMPARED = 400_000  # characters that are compared

_WORDS = re.compile(
    "[\u3040-\u30ff\u3400-\u9fff\uff66-\uff9f\uac00-\ud7af]|[^\\W\u3040-\u30ff\u3400-\u9fff\uff66-\uff9f\uac00-\ud7af]+"
)
_SENTENCES = re.compile(r"(?<=[.!?。！？])(?:\s+|(?<=[。！？]))|\n+")
_ENDS_OPEN = re.compile(r"(?:…|\.\.\.|・・・)[\s\]\)」』]*$")
_GOES_ON = re.compile(
    r"\b(?:read (?:more|on|the (?:full|rest|whole))|continue reading|keep reading|full (?:article|story)"
    r"|to (?:continue|keep) reading|subscrib\w+ to|(?:sign|log) ?in to|(?:subscribers|members) only"
    r"|weiterlesen|lire la suite|seguir leyendo)\b"
    r"|続きを(?:読|見)|続きは|続きをお読み|全文を(?:読|見)|会員限定|有料会員|会員登録|残り\s*[\d,]+\s*文字|阅读全文",
    re.IGNORECASE,
)


class MachineTextChoice(NamedTuple):
    """The use of the text: ``text`` None leaves the content unchanged; ``warning`` says what was done."""

    text: str | None
    warning: Message


def used(
    body: str, visible: Sequence[str], kept: Sequence[bool], *, closed: bool
) -> MachineTextChoice | None:
    """Decide how to use the text for machines; None if it only repeats the content.

    ``visible`` are the page's blocks of text in order, ``kept`` says which of them are content. ``closed``
    is whether the page says that only a part of it is free.
    """
    content = " ".join(text for text, keep in zip(visible, kept, strict=True) if keep)
    if len(body) <= SHORT or len(body) <= TIMES * len("".join(content.split())):
        return None
    page = " ".join(visible)
    if len(_WORDS.findall(page[:_MOST_COMPARED])) <= _NOTHING:
        return MachineTextChoice(
            body,
            say(
                "The page shows no text. This text comes from its metadata (JSON-LD), which is "
                "written for programs."
            ),
        )
    sequences, shown = _word_sequences(body), _word_sequences(page)
    if _shared_part(sequences, shown) >= _SEEN:
        return MachineTextChoice(
            _visible_part(body, page, shown),
            say(
                "The text was taken from the metadata of the page (JSON-LD), but only the parts "
                "that the page shows."
            ),
        )
    if _shared_part(_word_sequences(content), sequences) >= _BEGINS and (closed or _is_cut(visible, kept)):
        return MachineTextChoice(
            body,
            say(
                "The page shows only a part of this text. The rest comes from its metadata "
                "(JSON-LD), which readers do not see."
            ),
        )
    return MachineTextChoice(
        None,
        say(
            "The metadata of the page (JSON-LD) contains a longer text that readers do not "
            "see. It was left out."
        ),
    )


def overlaps(text: str, other: str) -> bool:
    """Return whether ``other`` contains most of ``text`` in the same words."""
    return _shared_part(_word_sequences(text), _word_sequences(other)) >= _BEGINS


def _word_sequences(text: str, length: int = _LONG) -> frozenset[tuple[str, ...]]:
    words = _WORDS.findall(text[:_MOST_COMPARED].lower())
    return frozenset(tuple(words[at : at + length]) for at in range(max(1, len(words) - length + 1)) if words)


def _shared_part(part: frozenset[tuple[str, ...]], whole: frozenset[tuple[str, ...]]) -> float:
    return len(part & whole) / len(part) if part else 0.0


def _visible_part(body: str, page: str, shown: frozenset[tuple[str, ...]]) -> str:
    """Return the sentences of a text that are visible on the page, with its paragraphs."""
    short = frozenset().union(*(_word_sequences(page, length) for length in range(1, _LONG)))
    paragraphs = (
        " ".join(one.strip() for one in _SENTENCES.split(part) if _is_on_page(one, short, shown))
        for part in body[:_MOST_COMPARED].split("\n")
    )
    return "\n\n".join(part for part in paragraphs if part)


def _is_on_page(sentence: str, short: frozenset[tuple[str, ...]], shown: frozenset[tuple[str, ...]]) -> bool:
    """Return whether most word sequences of a sentence are shown, or all of a sentence that is too short."""
    words = _WORDS.findall(sentence.lower())
    if len(words) < _LONG:
        return tuple(words) in short
    return _shared_part(_word_sequences(sentence), shown) >= _SEEN


def _is_cut(visible: Sequence[str], kept: Sequence[bool]) -> bool:
    """Return whether the content is cut off, or asks the reader to go elsewhere, to pay or to sign in."""
    last = max((number for number, keep in enumerate(kept) if keep), default=0)
    ends = (text for text, keep in zip(visible, kept, strict=True) if keep and len(text) > 20)
    after = visible[last : last + 4]
    return any(_ENDS_OPEN.search(text) for text in ends) or any(
        len(text) < 300 and _GOES_ON.search(text) for text in after
    )


_TYPE = re.compile(r'"@type"\s{0,9}:\s{0,9}"([A-Za-z]{1,40})"')
_LONGEST_JSON_LD = 20_000  # characters of one
_TYPES = 50  # of one page
_KINDS = tuple(
    frozenset(names.split())
    for names in (
        "Product",
        "ItemList CollectionPage OfferCatalog",
        "Article NewsArticle BlogPosting ReportageNewsArticle TechArticle LiveBlogPosting",
        "DiscussionForumPosting QAPage Question",
        "FAQPage",
        "WebSite Organization LocalBusiness SoftwareApplication Service",
        "BreadcrumbList",
        "Review AggregateRating",
    )
)
COUNT = len(_KINDS) + 3
"""Numbers that a page's declarations are."""


def declared(root: Element) -> list[float]:
    """Return numbers for what a page declares: a flag for each kind, and how many products it names.

    They are read from the page's head and its JSON-LD without parsing that, and are at most a hint: no page
    is read differently for one of them alone.
    """
    properties: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = (meta.get("property") or meta.get("name") or "").lower()
        if name in ("og:type", "article:published_time"):
            properties.setdefault(name, (meta.get("content") or "")[:100])
    found = Counter(islice(_declared_types(root), _TYPES))
    graph = properties.get("og:type", "")
    return [
        *(1.0 if any(name in kind for name in found) else 0.0 for kind in _KINDS),
        next((number for word, number in _GRAPH.items() if word in graph), 0.0),
        1.0 if "article:published_time" in properties else 0.0,
        float(min(10, found["Product"])),
    ]


_GRAPH = {"article": 1.0, "product": 2.0, "website": 3.0}


def _declared_types(root: Element) -> Iterator[str]:
    scripts = (element for element in root.iter("script") if "ld+json" in (element.get("type") or ""))
    for script in islice(scripts, _MOST):
        for match in _TYPE.finditer((script.text or "")[:_LONGEST_JSON_LD]):
            yield match.group(1)
