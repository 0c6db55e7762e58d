"""What names of classes, ids and roles say of a part of a page."""

from __future__ import annotations

import re

KINDS: dict[str, str] = {
    "body": "content article post entry story text body prose markdown document description desc richtext rte"
    " copy wysiwyg read paragraph articlebody blog main editor",
    "talk": "comment comments reply replies thread message messages discussion topic answer answers question"
    " forum cooked disqus",
    "nav": "nav menu navbar breadcrumb breadcrumbs navigation toc pagination pager skip submenu megamenu"
    " dropdown sitemap links crumb pnavi",
    "head": "header masthead topbar head top logo brand",
    "foot": "footer foot copyright colophon legal bottom",
    "side": "sidebar aside rail side widget widgets complementary secondary",
    "more": "related recommend recommended recommendations recommendation more similar popular trending also"
    " next prev previous latest recent ranking pickup upsell crosssell",
    "share": "share sharing social follow tweet facebook twitter sns like likes vote votes bookmark",
    "ad": "ad ads advert advertisement advertising sponsor sponsored promo promotion banner adsense dfp gpt"
    " outbrain taboola",
    "consent": "cookie cookies consent gdpr ccpa privacy onetrust notice alert announcement toast",
    "form": "subscribe newsletter signup cta form login signin register modal popup dialog overlay search"
    " filter filters facet sort input field button btn contact",
    "meta": "meta byline author date time timestamp tags tag category categories info published posted credit"
    " avatar user username profile",
    "shop": "product price sku variant cart buy rating stars swatch quantity checkout wishlist shipping",
    "review": "review reviews testimonial testimonials ugc yotpo feedback",
    "card": "card cards grid item items list listing tile teaser feed loop results result archive collection"
    " row col column",
    "hidden": "hidden hide sr visually screenreader offscreen invisible closed",
    "image": "caption figcaption image gallery carousel slider slide hero slick swiper thumb thumbnail media",
    "fold": "accordion faq collapse collapsible toggle tab tabs panel details expand tabpanel",
    "title": "title heading headline subtitle lead intro summary excerpt",
}
"""Kinds of part, and the words in a name that speak for them."""

NAMES = tuple(KINDS)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_OF = {word: number for number, words in enumerate(KINDS.values()) for word in words.split()}
_LONGEST = 300


def kinds(name: str) -> frozenset[int]:
    """Numbers of the kinds that a class, id or role speaks for: ``post-body commentList`` for body, talk."""
    found = (_OF.get(word.lower()) for word in _WORD.findall(name[:_LONGEST]))
    return frozenset(number for number in found if number is not None)
