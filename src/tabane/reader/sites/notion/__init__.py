"""Notion by its API: pages with all their blocks, and what a database is made of."""

from tabane.reader.sites.notion.way import NotionWay

__all__ = ["NotionWay"]
