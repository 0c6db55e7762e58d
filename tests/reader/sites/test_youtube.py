"""Films of YouTube: what is said of them, and in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tabane.errors import ReadError
from tabane.reader.sites.youtube import YouTubeAdapter
from tests.reader.site import Site
from tests.reader.sites.service import read, said, tell

URL = "https://www.youtube.com/watch?v=abcDEF-_123"
TRACK = "https://www.youtube.com/api/timedtext?v=abcDEF-_123&lang="


def way(site: Site) -> YouTubeAdapter:
    return YouTubeAdapter(site.url("/yt"))


def film(site: Site, chapters: list[tuple[int, str]] | None = None, **changes: Any) -> None:
    player: dict[str, Any] = {
        "playabilityStatus": {"status": "OK"},
        "videoDetails": {
            "videoId": "abcDEF-_123",
            "title": "Cats; all of them",
            "author": "Ann's channel",
            "lengthSeconds": "3725",
            "shortDescription": "About cats.\nSee https://a.test/",
            "isLiveContent": False,
        },
        "microformat": {"playerMicroformatRenderer": {"publishDate": "2026-01-02T00:00:00-08:00"}},
        "captions": {
            "playerCaptionsTracklistRenderer": {
                "captionTracks": [
                    {"baseUrl": f"{TRACK}fr", "languageCode": "fr"},
                    {"baseUrl": f"{TRACK}en&kind=asr", "languageCode": "en", "kind": "asr"},
                    {"baseUrl": f"{TRACK}en", "languageCode": "en", "name": {"simpleText": "English"}},
                ]
            }
        },
    }
    marks = [
        {"chapterRenderer": {"title": {"simpleText": title}, "timeRangeStartMillis": at * 1000}}
        for at, title in chapters or []
    ]
    bar = {
        "multiMarkersPlayerBarRenderer": {
            "markersMap": [{"key": "DESCRIPTION_CHAPTERS", "value": {"chapters": marks}}]
        }
    }
    inner = {"decoratedPlayerBarRenderer": {"playerBar": bar}}
    data = {"playerOverlays": {"playerOverlayRenderer": {"decoratedPlayerBarRenderer": inner}}}
    site.put(
        "/yt/watch?v=abcDEF-_123",
        (
            f"<html><script>var ytInitialPlayerResponse = {json.dumps(player | changes)};var meta = "
            "1;</script>"
            f"<script>var ytInitialData = {json.dumps(data)};</script></html>"
        ),
    )


def words(site: Site, query: str, *events: tuple[int, str]) -> None:
    segments = [{"tStartMs": at * 1000, "dDurationMs": 900, "segs": [{"utf8": text}]} for at, text in events]
    tell(site, f"/yt/api/timedtext?v=abcDEF-_123&{query}&fmt=json3", {"events": [{"id": 1}, *segments]})


def test_a_film_is_its_description_chapters_and_transcript(site: Site) -> None:
    film(site, [(0, "Begin"), (70, "Cats")])
    words(site, "lang=en", (1, "Hello"), (4, "there,\nall."), (65, "Now"), (71, "cats."), (140, "The end."))
    page = read(site, URL, way(site))
    assert page.markdown == (
        "# Cats; all of them\n\n- Channel: Ann's channel\n- Length: 1:02:05\n- Published: "
        "2026-01-02T00:00:00-08:00\n\n"
        "About cats.\nSee https://a.test/\n\n## Transcript\n\n### 0:00 Begin\n\n[0:01] Hello there, "
        "all.\n\n[1:05] Now\n\n"
        "### 1:10 Cats\n\n[1:11] cats.\n\n[2:20] The end."
    )
    assert (page.title, page.author, page.lang) == ("Cats; all of them", "Ann's channel", "en")
    assert (page.way, page.url, page.warnings) == ("youtube", URL, ())


def test_a_transcript_that_a_machine_heard_says_so(site: Site) -> None:
    tracks = [{"baseUrl": f"{TRACK}ja&kind=asr", "languageCode": "ja", "kind": "asr"}]
    film(site, captions={"playerCaptionsTracklistRenderer": {"captionTracks": tracks}})
    words(site, "lang=ja&kind=asr", (0, "猫です。"))
    assert "## Transcript (heard by a machine)\n\n[0:00] 猫です。" in read(site, URL, way(site)).markdown


def test_captions_that_youtube_keeps_are_said_to_be_missing(site: Site) -> None:
    film(site, [(0, "Begin"), (70, "Cats")])
    site.put("/yt/api/timedtext", b"", "text/html")
    page = read(site, URL, way(site))
    assert page.markdown.endswith("## Chapters\n\n- 0:00 Begin\n- 1:10 Cats")
    assert "own player" in said(page)


def test_captions_that_cannot_be_had_leave_the_rest(site: Site) -> None:
    film(site)
    page = read(site, URL, way(site))
    assert page.markdown.endswith("See https://a.test/")
    assert "transcript could not be read" in said(page)


def test_a_film_without_captions_says_so(site: Site) -> None:
    film(site, captions=None)
    assert "no captions" in said(read(site, URL, way(site)))


def test_captions_are_asked_for_at_youtube_alone(site: Site) -> None:
    for address in (site.url("/elsewhere?x=1"), "https://evil.test/steal"):
        film(site, captions={"playerCaptionsTracklistRenderer": {"captionTracks": [{"baseUrl": address}]}})
        assert "does not use" in said(read(site, URL, way(site)))
    film(
        site,
        captions={
            "playerCaptionsTracklistRenderer": {
                "captionTracks": [
                    {"baseUrl": "https://evil.test/api/timedtext?v=abcDEF-_123&lang=en", "languageCode": "en"}
                ]
            }
        },
    )
    words(site, "lang=en", (0, "Ours."))
    assert "Ours." in read(site, URL, way(site)).markdown


@pytest.mark.parametrize(
    "page",
    ["<html>consent</html>", "ytInitialPlayerResponse = {", 'ytInitialPlayerResponse = {"videoDetails": 3};'],
)
def test_a_page_that_carries_nothing_is_a_failure_with_its_reason(site: Site, page: str) -> None:
    site.put("/yt/watch?v=abcDEF-_123", page)
    with pytest.raises(ReadError) as raised:
        read(site, URL, way(site))
    assert "consent" in str(raised.value)


def test_a_film_that_is_not_shown_says_why(site: Site) -> None:
    film(
        site,
        videoDetails=None,
        playabilityStatus={"status": "LOGIN_REQUIRED", "reason": "Sign in to confirm"},
    )
    with pytest.raises(ReadError) as raised:
        read(site, URL, way(site))
    assert "Sign in to confirm" in str(raised.value)


@pytest.mark.parametrize(
    ("url", "takes"),
    [
        ("https://youtu.be/abcDEF-_123?t=5", True),
        ("https://m.youtube.com/watch?list=x&v=abcDEF-_123", True),
        ("https://www.youtube.com/shorts/abcDEF-_123", True),
        ("https://www.youtube.com/live/abcDEF-_123?x", True),
        ("https://www.youtube-nocookie.com/embed/abcDEF-_123", True),
        ("https://www.youtube.com/@ann", False),
        ("https://www.youtube.com/watch?v=short", False),
        ("https://www.youtube.com/playlist?list=x", False),
        ("https://youtube.com.evil.test/watch?v=abcDEF-_123", False),
        ("http://[youtu.be", False),
    ],
)
def test_films_are_told_by_their_address(url: str, takes: bool) -> None:
    assert YouTubeAdapter().takes(url) is takes
