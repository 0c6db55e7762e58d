"""Parts of an Office Open XML file: its trees, relations and metadata."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from lxml import etree

from tabane.messages import say
from tabane.reader.formats.archive import bounded_tree, member, said, tree
from tabane.reader.formats.office.drawing_colors import local

DOCUMENT = say("document")
_RELATIONS = 50_000
_SMALL = 600_000  # tags of a part that describes: styles, numbering, notes


class Relation(NamedTuple):
    """A relation to another part (``target`` is its name in the archive) or to an address."""

    kind: str
    target: str
    external: bool


class OfficePackage:
    """The archive of a document, with its parts by name. ``seconds`` of CPU time may be used to read it."""

    def __init__(self, archive: zipfile.ZipFile, seconds: float) -> None:
        self.archive, self.seconds = archive, seconds
        self._names = frozenset(archive.namelist())
        self.cut = False
        """Whether a part was read as far as its limit only."""

    def has(self, name: str) -> bool:
        return name in self._names

    def root(self, name: str) -> etree._Element:
        """Return the tree of a part that must be there. Raises ReadError, ``broken``."""
        found = bounded_tree(member(self.archive, name, DOCUMENT), DOCUMENT)
        self.cut |= found.cut
        return found.root

    def part(self, name: str | None) -> etree._Element | None:
        """Return the tree of a part; None if there is no such part."""
        if name is None or name not in self._names:
            return None
        found = bounded_tree(member(self.archive, name, DOCUMENT), DOCUMENT, _SMALL)
        self.cut |= found.cut
        return found.root

    def relations(self, name: str) -> Mapping[str, Relation]:
        """Return the relations of a part by their ids; "" for those of the package."""
        folder, file = posixpath.split(name)
        listed = self.part(posixpath.join(folder, "_rels", f"{file}.rels"))
        found: dict[str, Relation] = {}
        for entry in listed[:_RELATIONS] if listed is not None else ():
            target, kind = entry.get("Target") or "", (entry.get("Type") or "").rpartition("/")[2]
            external = entry.get("TargetMode") == "External"
            if not external:
                target = posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
            found[entry.get("Id") or ""] = Relation(kind, target, external)
        return found

    def main(self, usual: str) -> str:
        """Return the name of the main part: the usual one, or else the one that the package names."""
        named = self.first(self.relations(""), "officeDocument")
        return named if named is not None and named in self._names else usual

    def first(self, relations: Mapping[str, Relation], kind: str) -> str | None:
        """Return the name of the first part that is related in this way."""
        return next((each.target for each in relations.values() if each.kind == kind), None)

    def about(self) -> dict[str, Any]:
        """Return the metadata of the document, as fields of a page."""
        if not self.has("docProps/core.xml"):
            return {}
        core = tree(member(self.archive, "docProps/core.xml", DOCUMENT), DOCUMENT)
        return {
            "title": said(core, "title"),
            "author": said(core, "creator"),
            "date": said(core, "modified") or said(core, "created"),
            "lang": said(core, "language"),
        }


def attribute(node: etree._Element, name: str) -> str | None:
    """Return an attribute by its local name, whatever its namespace."""
    for key in node.attrib:  # its items() takes quadratic time
        if str(key).rpartition("}")[2] == name:
            return node.get(key)
    return None


def named_child(node: etree._Element | None, name: str) -> etree._Element | None:
    """Return the first child with this local name."""
    for each in node if node is not None else ():
        if local(each) == name:
            return each
    return None
