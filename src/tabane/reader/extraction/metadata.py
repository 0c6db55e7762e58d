"""Metadata of a page: title, author, date, site, language and canonical URL."""

from __future__ import annotations

import itertools
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

from tabane.reader.extraction.onward import base_of

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
    meta = _meta(root)
    things = [thing for thing in _linked(root) if _WRITTEN.search(_kind(thing))]
    things.sort(key=lambda thing: _kind(thing).lower() in ("webpage", "itempage", "collectionpage"))
    site = _said(meta, _SITES)
    return PageMetadata(
        title=_title(root, meta, things, site),
        author=_author(root, meta, things),
        date=_date(root, meta, things, url),
        site=site.lstrip("@") if site else _publisher(things),
        lang=_lang(root, meta),
        canonical=_canonical(root, meta, url),
        body=next(
            (text for thing in things if (text := _text(thing.get("articleBody") or thing.get("text")))), None
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


def _meta(root: Element) -> dict[str, str]:
    found: dict[str, str] = {}
    for element in root.iter("meta"):
        name = (
            element.get("property")
            or element.get("name")
            or element.get("itemprop")
            or element.get("http-equiv")
        )
        value = clean(element.get("content"))
        if name and value:
            found.setdefault(name.strip().lower(), value)
    return found


def _said(meta: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((meta[name] for name in names if name in meta), None)


def _linked(root: Element) -> Iterator[dict[str, Any]]:
    """Yield every object in JSON-LD, to a limited depth."""
    scripts = (at for at in root.iter("script") if "ld+json" in (at.get("type") or "").lower())
    for script in itertools.islice(scripts, _MOST):
        text = (script.text or "")[:_LONGEST]
        try:
            value = json.loads(
                _WRAPPED.sub("", text),
                strict=False,
            )
        except (ValueError, RecursionError):
            continue
        yield from itertools.islice(_things(value), 500)


def _things(value: Any) -> Iterator[dict[str, Any]]:
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


def _kind(thing: Mapping[str, Any]) -> str:
    kind = thing.get("@type")
    return str(kind[0] if isinstance(kind, list) and kind else kind)


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _title(
    root: Element, meta: Mapping[str, str], things: list[dict[str, Any]], site: str | None
) -> str | None:
    headings = [
        text for at in itertools.islice(root.iter("h1"), 5) if (text := clean("".join(at.itertext())))
    ]
    element = next((clean("".join(at.itertext())) for at in root.iter("title")), None)
    said = _said(meta, _TITLES) or next(
        (clean(_text(thing.get("headline"))) for thing in things if thing.get("headline")), None
    )
    whole = said or element
    if whole is None:
        return headings[0] if headings else None
    for heading in headings:
        if len(heading) > 3 and heading in whole and 2 * len(heading) > len(whole):
            return heading
    return _without_site(whole, site)


def _without_site(title: str, site: str | None) -> str:
    """Return a title without the name of its site behind it: "Trees | The Forest" of the site The Forest."""
    parts = [part for part in _SEPARATORS.split(title) if part]
    if site and len(parts) > 1 and parts[-1].strip().casefold() == site.lstrip("@").casefold():
        return title[: title.rindex(parts[-1])].rstrip(" |｜–—·•»:-") or title
    return title


def _author(root: Element, meta: Mapping[str, str], things: list[dict[str, Any]]) -> str | None:
    for thing in things:
        names = list(_names(thing.get("author") or thing.get("creator")))
        if names:
            return clean(", ".join(dict.fromkeys(names)), 200)
    if meta.get("twitter:label1", "").lower() not in ("written by", "author"):
        meta = {name: value for name, value in meta.items() if name != "twitter:data1"}
    for name in _AUTHORS:
        if (value := meta.get(name)) and "://" not in value:
            return _BY.sub("", value)[:200] or None
    return _byline(root)


def _names(value: Any) -> Iterator[str]:
    for at in value if isinstance(value, list) else [value]:
        name = at.get("name") if isinstance(at, dict) else at
        if isinstance(name, list):
            name = name[0] if name else None
        if isinstance(name, str) and name.strip() and "://" not in name:
            yield name.strip()


def _byline(root: Element) -> str | None:
    named = filter(_names_author, root.iter("a", "span", "address", "p", "div"))
    for element in itertools.islice(named, _MOST_NAMED):
        text = clean(beginning(element))
        if text and len(text) < 80:
            return _BY.sub("", text) or None
    return None


def _names_author(element: Element) -> bool:
    attributes = element.attrib
    if not attributes:
        return False
    prop = attributes.get("itemprop") or ""
    name = f" {attributes.get('class') or ''} {prop} ".lower()
    return attributes.get("rel") == "author" or "author" in prop or " byline " in name or " author " in name


def _publisher(things: list[dict[str, Any]]) -> str | None:
    return next((name for thing in things for name in _names(thing.get("publisher"))), None)


def _date(root: Element, meta: Mapping[str, str], things: list[dict[str, Any]], url: str) -> str | None:
    for key in ("datePublished", "uploadDate", "dateCreated", "dateModified"):
        for thing in things:
            if day := iso(_text(thing.get(key))):
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
    if match := _IN_URL.search(urlsplit(url).path if _splits(url) else ""):
        return _day(*match.groups())
    return _written(root)


def _written(root: Element) -> str | None:
    """Return the date in an element whose name says that it is one."""
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
        return _moment(*match.groups())
    if match := _NUMBERS.search(text):
        return _day(*match.groups())
    for match in _NAMED.finditer(text):
        first, month, second, year = match.groups()
        if month.lower() in _MONTHS and (first or second):
            return _day(year, str(_MONTHS.index(month.lower()) + 1), first or second)
    return None


def _day(year: str, month: str, day: str) -> str | None:
    try:
        return date(int(year), int(month), int(day)).isoformat()
    except ValueError:
        return None


def _moment(
    year: str,
    month: str,
    day: str,
    hour: str | None,
    minute: str | None,
    second: str | None,
    zone: str | None,
) -> str | None:
    whole = _day(year, month, day)
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


def _lang(root: Element, meta: Mapping[str, str]) -> str | None:
    said = (
        root.get("lang")
        or root.get("xml:lang")
        or meta.get("og:locale")
        or meta.get("content-language")
        or ""
    )
    match = re.match(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*", said.strip())
    return match.group().replace("_", "-") if match else None


def _canonical(root: Element, meta: Mapping[str, str], url: str) -> str | None:
    links = (
        at.get("href") for at in root.iter("link") if "canonical" in (at.get("rel") or "").lower().split()
    )
    said = next((link.strip() for link in links if link and link.strip()), None) or meta.get("og:url")
    try:
        whole = urljoin(base_of(root, url), said) if said else ""
        return whole if urlsplit(whole).scheme in ("http", "https") and urlsplit(whole).hostname else None
    except ValueError:
        return None


def _splits(url: str) -> bool:
    try:
        urlsplit(url)
    except ValueError:
        return False
    return True
