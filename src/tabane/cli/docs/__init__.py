"""`tabane docs`: documents put, found, read, and kept in step with files."""

from __future__ import annotations

from tabane.cli.docs.commands import docs

__all__ = ["docs"]
