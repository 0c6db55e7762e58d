"""GitHub on the local site, with answers of the form that its documentation gives."""

from __future__ import annotations

import base64
from typing import Any

from tabane.reader.sites.github import GitHubAdapter
from tabane.reader.sites.github.api import GitHubEndpoints
from tests.reader.site import Site
from tests.reader.sites.service import tell

NOW = 1_800_000_000.0
REPO = "/api/repos/octo/demo"


def way(site: Site, token: str | None = None) -> GitHubAdapter:
    ends = GitHubEndpoints(site.url("/api"), site.url("/raw"), site.url("/media"))
    return GitHubAdapter(lambda _: token, ends, clock=lambda: NOW)


def repository(**changes: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "id": 1,
        "full_name": "octo/demo",
        "html_url": "https://github.com/octo/demo",
        "description": "A demonstration",
        "default_branch": "main",
        "archived": False,
        "pushed_at": "2026-01-02T03:04:05Z",
        "owner": {"login": "octo", "type": "User"},
        "license": None,
    }
    return known | changes


def entry(path: str, size: int = 10, kind: str = "file", **changes: Any) -> dict[str, Any]:
    url = f"https://raw.githubusercontent.com/octo/demo/main/{path}" if kind == "file" else None
    known = {
        "name": path.rpartition("/")[2],
        "path": path,
        "sha": "0123456789abcdef0123456789abcdef01234567",
        "size": size if kind == "file" else 0,
        "type": kind,
        "download_url": url,
    }
    return known | changes


def whole(path: str, body: bytes) -> dict[str, Any]:
    """A file as the contents API gives it alone: base64 in lines."""
    return entry(path, len(body), encoding="base64", content=base64.encodebytes(body).decode())


def missing(site: Site, path: str) -> None:
    tell(site, path, {"message": "Not Found", "status": "404"}, 404)


def user(name: str) -> dict[str, Any]:
    return {"login": name, "id": 1}


def issue(number: int = 7, **changes: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "number": number,
        "title": "It breaks",
        "state": "open",
        "state_reason": None,
        "html_url": f"https://github.com/octo/demo/issues/{number}",
        "user": user("ann"),
        "body": "When I call it:\r\n\r\n```python\nx = 1\n```",
        "labels": [{"id": 1, "name": "bug", "color": "f00"}, {"id": 2, "name": "help wanted"}],
        "assignees": [],
        "milestone": None,
        "comments": 0,
        "created_at": "2026-01-01T00:00:00Z",
        "closed_at": None,
        "locked": False,
        "reactions": {"total_count": 0, "+1": 0, "-1": 0},
    }
    return known | changes


def comment(name: str, body: str, day: int = 2, **changes: Any) -> dict[str, Any]:
    known = {"id": day, "user": user(name), "body": body, "created_at": f"2026-01-{day:02}T00:00:00Z"}
    return known | {"author_association": "NONE", **changes}


def pull(number: int = 8, **changes: Any) -> dict[str, Any]:
    known = issue(number) | {
        "title": "Mend it",
        "html_url": f"https://github.com/octo/demo/pull/{number}",
        "draft": False,
        "merged": False,
        "merged_at": None,
        "merged_by": None,
        "head": {"label": "ann:fix", "ref": "fix", "sha": "a" * 40},
        "base": {"label": "octo:main", "ref": "main", "sha": "b" * 40},
        "review_comments": 0,
        "commits": 2,
        "additions": 12,
        "deletions": 3,
        "changed_files": 1,
    }
    return known | changes


def changed(name: str, patch: str | None = "@@ -1 +1 @@\n-a\n+b", **changes: Any) -> dict[str, Any]:
    known = {"filename": name, "status": "modified", "additions": 1, "deletions": 1, "changes": 2}
    return known | ({"patch": patch} if patch is not None else {}) | changes


def commit(sha: str = "c" * 40, message: str = "Say why\n\nBecause.", **changes: Any) -> dict[str, Any]:
    signature = {"name": "Ann", "email": "ann@example.test", "date": "2026-01-03T00:00:00Z"}
    known: dict[str, Any] = {
        "sha": sha,
        "html_url": f"https://github.com/octo/demo/commit/{sha}",
        "commit": {"message": message, "author": signature, "committer": signature, "comment_count": 0},
        "author": user("ann"),
        "parents": [{"sha": "d" * 40}],
    }
    return known | changes
