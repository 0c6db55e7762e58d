"""XML: feeds and site maps as what they list, anything else as it is written."""

from __future__ import annotations

from lxml import etree

from tabane.messages import Message, say
from tabane.reader.formats import xml
from tabane.reader.formats.made import LISTED, bounded, fence
from tabane.reader.page import Page

_ADDRESSES = 5000


def xml_page(text: str, url: str) -> Page:
    """A page of XML. Entities are not put in and nothing is fetched."""
    root = _root(text)
    if root is None:
        shown, warnings = bounded(text.strip(), LISTED)
        return Page(
            url,
            fence(shown, "xml"),
            way="xml",
            media_type="application/xml",
            warnings=(say("This is not well-formed XML."), *warnings),
        )
    name = xml.local_name(root)
    if name in xml.ROOTS:
        return xml.feed_page(root, url)
    if name in ("urlset", "sitemapindex"):
        return _site_map(root, url)
    shown, warnings = bounded(_indented(root, text), LISTED)
    return Page(url, fence(shown, "xml"), way="xml", media_type="application/xml", warnings=warnings)


def _root(text: str) -> etree._Element | None:
    """The root; of a feed that is a little broken too, since many are."""
    data = text.strip().encode("utf-8", "replace")
    for recover in (False, True):
        parser = etree.XMLParser(
            encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, recover=recover
        )
        try:
            root = etree.fromstring(data, parser)
        except etree.XMLSyntaxError:
            continue
        if root is not None and (not recover or xml.local_name(root) in xml.ROOTS):
            return root
    return None


def _indented(root: etree._Element, text: str) -> str:
    """The document on more than one line: as it is where it has lines."""
    if text.strip().count("\n") * 400 > len(text):
        return text.strip()
    etree.indent(root)
    return str(etree.tostring(root, encoding="unicode"))


def _site_map(root: etree._Element, url: str) -> Page:
    places = [" ".join((place.text or "").split()) for place in root.iter("{*}loc")]
    lines = "\n".join(f"- {place}" for place in places[:_ADDRESSES] if place)
    warnings: tuple[Message, ...] = ()
    if len(places) > _ADDRESSES:
        warnings = (say("{shown} of {all} addresses are shown.", shown=_ADDRESSES, all=len(places)),)
    return Page(url, lines, way="xml", media_type="application/xml", warnings=warnings)
