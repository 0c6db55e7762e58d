"""Parts of a document that are read piece by piece, because a tree of them would be too large."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator

from lxml import etree

from tabane.reader.formats.office.package import DOCUMENT
from tabane.reader.formats.text import broken
from tabane.reader.formats.zip_index import UNREADABLE_MEMBER


class PartStream:
    """Elements of a part in the order of their ends. ``cut`` is whether it ended before the part did."""

    def __init__(self, archive: zipfile.ZipFile, name: str, *, most: int, tags: int) -> None:
        self._archive, self._name = archive, name
        self._room, self.tags_left = most, tags
        self.cut = False

    def elements(self, *names: str) -> Iterator[etree._Element]:
        """Yield the elements with these local names; each is emptied after it was used.

        Raises ReadError, ``broken``, if nothing can be read.
        """
        found = 0
        wanted = [f"{{*}}{name}" for name in names]
        try:
            with self._archive.open(self._name) as file:
                self._file = file
                events = etree.iterparse(
                    self,
                    events=("end",),
                    tag=wanted,
                    resolve_entities=False,
                    no_network=True,
                    load_dtd=False,
                    remove_comments=True,
                    remove_pis=True,
                )
                for _, node in events:
                    found += 1
                    yield node
                    node.clear(keep_tail=False)
                    while (before := node.getprevious()) is not None:
                        before.getparent().remove(before)  # type: ignore[union-attr]
        except etree.XMLSyntaxError as error:
            if not (found or self.cut):
                raise broken(DOCUMENT, error) from None
            self.cut = True
        except UNREADABLE_MEMBER as error:
            raise broken(DOCUMENT, error) from None

    def read(self, size: int = 65_536) -> bytes:
        """Return the next bytes; none after the limit of bytes or tags."""
        if self._room <= 0 or self.tags_left <= 0:
            self.cut = True
            return b""
        data = self._file.read(min(size, self._room))
        self._room -= len(data)
        self.tags_left -= data.count(b"<")
        return data
