"""Pages with what people read on them: a folder of ``NAME.jsonl.gz``, a page in each line.

A line has id, url, type, and html or html_b64 (base64 of the bytes as they were served); ``text`` is what a
person marked as content. Lines of ``structure*.jsonl.gz`` have E instead: what of the page's structure is
content. A line with ``package`` is a page of documentation from that package. WCXB (Web Content Extraction
Benchmark, CC-BY-4.0) and the fixtures of postlight/parser (MIT) are had so.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Gold:
    """A page and what a person found on it. ``structure`` is by kind: code, table, head, li, link.

    ``package`` is the package of documentation that a page is from, if it was not marked by a person: its
    text is that of its main container.
    """

    name: str
    url: str
    kind: str
    html: str | bytes
    text: str = ""
    structure: dict[str, list[Any]] = field(default_factory=dict)
    package: str = ""

    @property
    def site(self) -> str:
        """What pages of one house have in common: they are trained on or judged, never both."""
        if self.package:
            return self.package
        return ".".join((urlsplit(self.url).hostname or self.name).split(".")[-2:])


def pages(path: Path) -> Iterator[Gold]:
    """Every page of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            html = base64.b64decode(row["html_b64"]) if "html_b64" in row else row["html"]
            package = row.get("package", "")
            kind = "manual" if package else row["type"]
            yield Gold(row["id"], row["url"], kind, html, row.get("text", ""), row.get("E", {}), package)
