"""XML: feeds by their own reader, site maps as lists, other documents as source."""

from __future__ import annotations

from lxml import etree

from tabane.messages import Message, say
from tabane.reader.formats.feeds import ROOTS, feed_page, local_name
from tabane.reader.formats.text import LISTED, bounded, fence
from tabane.reader.page import Page

_ADDRESSES = 5000


def xml_page(text: str, url: str) -> Page:
    """Return a page of XML. Entities are not put in and nothing is fetched."""
    root = _parse_root(text)
    if root is None:
        shown, warnings = bounded(text.strip(), LISTED)
        return Page(
            url,
            fence(shown, "xml"),
            way="xml",
            media_type="application/xml",
            warnings=(say("This is not well-formed XML."), *warnings),
        )
    name = local_name(root)
    if name in ROOTS:
        return feed_page(root, url)
    if name in ("urlset", "sitemapindex"):
        return _site_map(root, url)
    if text.strip().count("\n") * 400 > len(text):
        indented = text.strip()
    else:
        etree.indent(root)
        indented = str(etree.tostring(root, encoding="unicode"))
    shown, warnings = bounded(indented, LISTED)
    return Page(url, fence(shown, "xml"), way="xml", media_type="application/xml", warnings=warnings)


def _parse_root(text: str) -> etree._Element | None:
    """Return the root; of a feed that is a little broken too, since many are."""
    data = text.strip().encode("utf-8", "replace")
    for recover in (False, True):
        parser = etree.XMLParser(
            encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, recover=recover
        )
        try:
            root = etree.fromstring(data, parser)
        except etree.XMLSyntaxError:
            continue
        if root is not None and (not recover or local_name(root) in ROOTS):
            return root
    return None


def _site_map(root: etree._Element, url: str) -> Page:
    places = [" ".join((place.text or "").split()) for place in root.iter("{*}loc")]
    lines = "\n".join(f"- {place}" for place in places[:_ADDRESSES] if place)
    warnings: tuple[Message, ...] = ()
    if len(places) > _ADDRESSES:
        warnings = (
            say("{shown} of {all} {all:address is|addresses are} shown.", shown=_ADDRESSES, all=len(places)),
        )
    return Page(url, lines, way="xml", media_type="application/xml", warnings=warnings)
