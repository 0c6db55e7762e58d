"""`tabane posts`: the archive of a person's posts, likes and bookmarks."""

from __future__ import annotations

from tabane.cli.posts.commands import posts

__all__ = ["posts"]
