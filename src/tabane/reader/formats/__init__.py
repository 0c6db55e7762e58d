"""Formats: bytes of any supported type as a page."""

from __future__ import annotations

from tabane.reader.formats.dispatch import page_of, plain_page_of

__all__ = ["page_of", "plain_page_of"]
