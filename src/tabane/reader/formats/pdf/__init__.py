"""PDF: its visible text in paragraphs, headings, lists, listings and tables, as PDFium reads it."""

from __future__ import annotations

from tabane.reader.formats.pdf.document import pdf_page

__all__ = ["pdf_page"]
