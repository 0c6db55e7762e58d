"""Bytes of any type that is read here, as a page."""

from __future__ import annotations

from tabane.reader.formats.dispatch import page_of, plain_page_of

__all__ = ["page_of", "plain_page_of"]
