"""Kinds of page that a page declares itself to be, to machines: schema.org types and Open Graph's type."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

Element = Any

_TYPE = re.compile(r'"@type"\s{0,9}:\s{0,9}"([A-Za-z]{1,40})"')
_MOST = 40  # scripts of JSON-LD that are read
_LONGEST = 20_000  # characters of one
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
    properties = _properties(root)
    found = Counter(islice(_types(root), _TYPES))
    graph = properties.get("og:type", "")
    return [
        *(1.0 if any(name in kind for name in found) else 0.0 for kind in _KINDS),
        next((number for word, number in _GRAPH.items() if word in graph), 0.0),
        1.0 if "article:published_time" in properties else 0.0,
        float(min(10, found["Product"])),
    ]


_GRAPH = {"article": 1.0, "product": 2.0, "website": 3.0}


def _properties(root: Element) -> dict[str, str]:
    found: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = (meta.get("property") or meta.get("name") or "").lower()
        if name in ("og:type", "article:published_time"):
            found.setdefault(name, (meta.get("content") or "")[:100])
    return found


def _types(root: Element) -> Iterator[str]:
    scripts = (element for element in root.iter("script") if "ld+json" in (element.get("type") or ""))
    for script in islice(scripts, _MOST):
        for match in _TYPE.finditer((script.text or "")[:_LONGEST]):
            yield match.group(1)
