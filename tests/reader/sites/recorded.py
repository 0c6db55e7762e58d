"""Answers of each site as its documentation gives them: all that the read of one page asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tabane.reader.sites.arxiv import ArxivAdapter
from tabane.reader.sites.japanese_articles import NoteAdapter, ZennAdapter
from tabane.reader.sites.site_adapter import SiteAdapter
from tabane.reader.sites.youtube import YouTubeAdapter
from tests.reader.site import Site
from tests.reader.sites import (
    test_arxiv,
    test_japanese_sites,
    test_notion,
    test_stackoverflow,
    test_wikipedia,
)
from tests.reader.sites.github import hub
from tests.reader.sites.github.hub import REPO

HUB = "https://github.com/octo/demo"
ATOM = "application/atom+xml; charset=utf-8"


@dataclass(frozen=True)
class RecordedPage:
    """A page of a site: ``answers`` by path are JSON values, or text of a type of its own."""

    url: str
    site: Callable[[Site], SiteAdapter]
    answers: Mapping[str, Any]
    media_type: str = "application/json"

    def body(self, path: str) -> bytes:
        found = self.answers[path]
        return found.encode() if isinstance(found, str) else json.dumps(found).encode()


def _notion_blocks() -> list[dict[str, Any]]:
    words, block = test_notion.words, test_notion.block
    kinds = [
        block("paragraph", [words("a "), words("b", bold=True, href="https://a.test/")]),
        block("heading_2", "Head"),
        block("bulleted_list_item", "Item"),
        block("to_do", "Do", checked=True),
        block("code", "x = 1", language="python", caption=[]),
        block("equation", expression="c^2"),
        block("callout", "Note", icon={"type": "emoji", "emoji": "!"}),
        block("image", type="external", external={"url": "https://a.test/i.png"}, caption=[]),
        block("child_page", title="Below"),
        block("link_to_page", type="page_id", page_id=test_notion.UUID),
        block("table_row", cells=[[words("1")], [words("2")]]),
    ]
    return [{name: value for name, value in each.items() if name != "inner"} for each in kinds]


def _notion_page() -> dict[str, Any]:
    properties = {
        "Name": {"id": "title", "type": "title", "title": [test_notion.words("A page")]},
        "Status": {"type": "status", "status": {"name": "Done"}},
        "Sum": {"type": "formula", "formula": {"type": "number", "number": 4}},
        "Due": {"type": "date", "date": {"start": "2026-03-01", "end": None}},
    }
    times = {"created_time": "2026-01-01T00:00:00.000Z", "last_edited_time": "2026-01-02T00:00:00.000Z"}
    return {
        "object": "page",
        "id": test_notion.UUID,
        "url": test_notion.URL,
        "properties": properties,
    } | times


def _listing(results: list[Any]) -> dict[str, Any]:
    return {"object": "list", "results": results, "has_more": False, "next_cursor": None}


_PLAYER = {
    "playabilityStatus": {"status": "OK"},
    "videoDetails": {
        "title": "Cats",
        "author": "Ann",
        "lengthSeconds": "3725",
        "shortDescription": "About cats.",
        "isLive": False,
    },
    "microformat": {"playerMicroformatRenderer": {"publishDate": "2026-01-02"}},
    "captions": {
        "playerCaptionsTracklistRenderer": {
            "captionTracks": [
                {"baseUrl": "https://www.youtube.com/api/timedtext?v=1", "languageCode": "en", "kind": "asr"}
            ]
        }
    },
}
_CHAPTER = {"chapterRenderer": {"title": {"simpleText": "Begin"}, "timeRangeStartMillis": 1000}}
_BAR = {"multiMarkersPlayerBarRenderer": {"markersMap": [{"value": {"chapters": [_CHAPTER]}}]}}
_VIDEO = (
    f"<html><script>var ytInitialPlayerResponse = {json.dumps(_PLAYER)};</script><script>var ytInitialData = "
    + json.dumps(
        {
            "playerOverlays": {
                "playerOverlayRenderer": {
                    "decoratedPlayerBarRenderer": {"decoratedPlayerBarRenderer": {"playerBar": _BAR}}
                }
            }
        }
    )
    + ";</script></html>"
)


def _github(path: str, answers: Mapping[str, Any]) -> RecordedPage:
    return RecordedPage(HUB + path, hub.way, {f"{REPO}{under}": value for under, value in answers.items()})


_COMMENT = hub.comment("bob", "I see it too.", author_association="MEMBER", reactions={"+1": 3, "-1": 1})
_NOTE = hub.comment("bob", "Here.", id=4, path="a.py", line=3, diff_hunk="@@ -1 +1 @@\n-a\n+b")
_COMMIT = hub.commit(stats={"additions": 1, "deletions": 1}, files=[hub.changed("a.py")])
_RELEASE = {
    "tag_name": "v1",
    "name": "One",
    "body": "New.",
    "html_url": f"{HUB}/releases/tag/v1",
    "published_at": "2026-01-01T00:00:00Z",
    "author": hub.user("ann"),
    "assets": [{"name": "a.whl", "size": 1234, "download_count": 5, "browser_download_url": f"{HUB}/a.whl"}],
}
_GIST = {
    "id": "0123456789abcdef0123",
    "html_url": "https://gist.github.com/ann/0123456789abcdef0123",
    "description": "A gist",
    "owner": hub.user("ann"),
    "created_at": "2026-01-01T00:00:00Z",
    "files": {"a.py": {"filename": "a.py", "size": 5, "language": "Python", "content": "x = 1\n"}},
    "comments": 1,
}

RECORDED: Mapping[str, RecordedPage] = {
    "repository": _github(
        "", {"": hub.repository(), "/contents": [hub.entry("src", kind="dir"), hub.entry("a")]}
    ),
    "issue": _github("/issues/7", {"/issues/7": hub.issue(comments=1), "/issues/7/comments": [_COMMENT]}),
    "pull": _github(
        "/pull/8/files",
        {
            "/pulls/8": hub.pull(comments=1, review_comments=1),
            "/pulls/8/files": [hub.changed("a.py")],
            "/issues/8/comments": [_COMMENT],
            "/pulls/8/reviews": [
                {"user": hub.user("eve"), "body": "Fine.", "state": "APPROVED", "submitted_at": "2026-01-04"}
            ],
            "/pulls/8/comments": [_NOTE],
        },
    ),
    "commit": _github("/commit/ccc", {"/commits/ccc": _COMMIT}),
    "commits": _github("/commits/main", {"/commits": [_COMMIT]}),
    "compare": _github(
        "/compare/a...b",
        {"/compare/a...b": {"status": "ahead", "ahead_by": 1, "total_commits": 1, "commits": [_COMMIT]}},
    ),
    "release": _github("/releases/tag/v1", {"/releases/tags/v1": _RELEASE}),
    "releases": _github("/releases", {"/releases": [_RELEASE]}),
    "tags": _github("/tags", {"/tags": [{"name": "v1", "commit": {"sha": "a" * 40}}]}),
    "folder": _github(
        "/tree/main/src", {"/contents/src": [hub.entry("src/a.py"), hub.entry("src/b", kind="dir")]}
    ),
    "file": _github("/blob/odd/a.py", {"/contents/a.py": hub.whole("a.py", b"x = 1\n")}),
    "issues": RecordedPage(
        f"{HUB}/issues", hub.way, {"/api/search/issues": {"total_count": 1, "items": [hub.issue()]}}
    ),
    "gist": RecordedPage(
        "https://gist.github.com/ann/0123456789abcdef0123",
        hub.way,
        {"/api/gists/0123456789abcdef0123": _GIST, "/api/gists/0123456789abcdef0123/comments": [_COMMENT]},
    ),
    "notion": RecordedPage(
        test_notion.URL,
        test_notion.way,
        {
            f"/notion/v1/pages/{test_notion.UUID}": _notion_page(),
            f"/notion/v1/blocks/{test_notion.UUID}/children": _listing(_notion_blocks()),
        },
    ),
    "stackoverflow": RecordedPage(
        test_stackoverflow.URL,
        test_stackoverflow.way,
        {
            "/se/2.3/questions/7": test_stackoverflow.wrapped(test_stackoverflow.question()),
            "/se/2.3/questions/7/answers": test_stackoverflow.wrapped(test_stackoverflow.answer(8, 9)),
            "/se/2.3/posts/7;8/comments": test_stackoverflow.wrapped(test_stackoverflow.comment(7, "Why?")),
        },
    ),
    "qiita": RecordedPage(
        test_japanese_sites.QIITA,
        test_japanese_sites.qiita,
        {
            f"/qiita/api/v2/items/{test_japanese_sites.ID}": test_japanese_sites.item(),
            f"/qiita/api/v2/items/{test_japanese_sites.ID}/comments": [
                {"body": "なるほど", "created_at": "2026-01-03", "user": {"id": "inu", "name": ""}}
            ],
        },
    ),
    "zenn": RecordedPage(
        test_japanese_sites.ZENN,
        lambda site: ZennAdapter(site.url("/zenn")),
        {"/zenn/api/articles/a-b_c0123456789": {"article": test_japanese_sites.article()}},
    ),
    "note": RecordedPage(
        test_japanese_sites.NOTE,
        lambda site: NoteAdapter(site.url("/note")),
        {"/note/api/v3/notes/n0123456789ab": {"data": test_japanese_sites.note()}},
    ),
    "youtube": RecordedPage(
        "https://www.youtube.com/watch?v=abcDEF-_123",
        lambda site: YouTubeAdapter(site.url("/yt")),
        {
            "/yt/watch": _VIDEO,
            "/yt/api/timedtext": {"events": [{"tStartMs": 1000, "segs": [{"utf8": "Hello"}]}]},
        },
    ),
    "arxiv": RecordedPage(
        "https://arxiv.org/abs/2401.00001",
        lambda site: ArxivAdapter(site.url("/arxiv"), site.url("/export")),
        {"/export/api/query": test_arxiv.FEED},
        ATOM,
    ),
    "wikipedia": RecordedPage(
        test_wikipedia.URL,
        test_wikipedia.way,
        {f"/en.wikipedia.org{test_wikipedia.PATH}": test_wikipedia.ARTICLE},
        "text/html",
    ),
}
