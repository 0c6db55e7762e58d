"""Links of a repository's Markdown, made whole. Pure."""

from __future__ import annotations

from urllib.parse import quote, urljoin

from tabane.reader.sites.links import absolute

_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".avif", ".ico", ".mp4", ".webm")


def linked(text: str, repository: str, ref: str, folder: str, site: str) -> str:
    """Markdown of a repository with whole links: pictures lead to themselves, files to their pages."""
    place = quote(f"{folder}/" if folder else "", safe="/")

    def whole(to: str) -> str:
        raw = to.partition("?")[0].partition("#")[0].lower().endswith(_PICTURES)
        root = f"{site}/{repository}/{'raw' if raw else 'blob'}/{quote(ref, safe='/')}/"
        try:
            return root + to.lstrip("/") if to.startswith("/") else urljoin(root + place, to)
        except ValueError:
            return to

    return absolute(text, whole)
