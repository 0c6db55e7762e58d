"""Videos of YouTube: their description and transcript, from the data of their pages.

Captions are requested as the page offers them. YouTube gives many of them only to its own player, and an
empty response to other clients: then a warning says so, and there is no transcript.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools, fetch_json

PARAGRAPH = 60
"""Seconds of a paragraph of a transcript."""

_ID = re.compile(r"[A-Za-z0-9_-]{11}")
_PATH = re.compile(r"/(?:shorts|live|embed|v)/([A-Za-z0-9_-]{11})(?:/.*)?")
_PLAYER = re.compile(r"\bytInitialPlayerResponse\s*=\s*(?=\{)")
_DATA = re.compile(r"\bytInitialData\s*=\s*(?=\{)")
_LARGEST = 10_000_000  # characters of a page in which something is looked for


class VideoDetails(msgspec.Struct, frozen=True):
    title: str = ""
    author: str = ""
    shortDescription: str = ""
    lengthSeconds: str = "0"
    isLive: bool = False


class CaptionTrack(msgspec.Struct, frozen=True):
    baseUrl: str
    languageCode: str = ""
    kind: str = ""


class CaptionTracks(msgspec.Struct, frozen=True):
    captionTracks: list[CaptionTrack] = []


class VideoCaptions(msgspec.Struct, frozen=True):
    playerCaptionsTracklistRenderer: CaptionTracks | None = None


class VideoPlayability(msgspec.Struct, frozen=True):
    status: str = ""
    reason: str = ""


class VideoMicroformat(msgspec.Struct, frozen=True):
    publishDate: str | None = None


class VideoMicroformats(msgspec.Struct, frozen=True):
    playerMicroformatRenderer: VideoMicroformat | None = None


class VideoPlayer(msgspec.Struct, frozen=True):
    videoDetails: VideoDetails | None = None
    captions: VideoCaptions | None = None
    playabilityStatus: VideoPlayability | None = None
    microformat: VideoMicroformats | None = None


class CaptionSegment(msgspec.Struct, frozen=True):
    utf8: str = ""


class CaptionEvent(msgspec.Struct, frozen=True):
    tStartMs: int = 0
    segs: list[CaptionSegment] = []


class CaptionWords(msgspec.Struct, frozen=True):
    events: list[CaptionEvent] = []


class VideoChapter(NamedTuple):
    """``start`` in seconds."""

    start: int
    title: str


class YouTubeAdapter:
    """Title, description, chapters and, if YouTube gives it, the transcript of a video: two requests."""

    name = "youtube"

    def __init__(self, base: str = "https://www.youtube.com") -> None:
        self._base = base

    def takes(self, url: str) -> bool:
        return _id_of(url) is not None

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        id_ = _id_of(url)
        if id_ is None:
            return None
        fetched = await tools.fetcher.fetch(f"{self._base}/watch?v={id_}", accept="text/html")
        player, chapters = await asyncio.to_thread(_carried, fetched)
        details = player.videoDetails
        if details is None or not details.title:
            raise ReadError(_refusal(player), "empty")
        track = _track(player)
        events, warnings = await self._words(track, tools)
        return _page_of(id_, player, details, chapters, track, events, warnings)

    async def _words(
        self, track: CaptionTrack | None, tools: ReadingTools
    ) -> tuple[list[CaptionEvent], tuple[Message, ...]]:
        """Return the transcript of the video, or the reason why it is missing."""
        if track is None:
            return [], (say("The video has no captions, so there is no transcript."),)
        parts = urlsplit(track.baseUrl)
        if parts.path != "/api/timedtext":
            return [], (say("The video's captions are at an address that the reader does not use."),)
        # Only at YouTube's own host: other hosts that the page names are not requested.
        where = f"{self._base}{parts.path}?{parts.query}&fmt=json3"
        try:
            words = await fetch_json(tools, where, CaptionWords)
        except ReadError as error:
            if error.cause == "broken":
                return [], (
                    say(
                        "YouTube gives the video's captions only to its own player, so there is no "
                        "transcript."
                    ),
                )
            return [], (say("The transcript could not be read: {reason}", reason=error.message),)
        return words.events, ()


def _id_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:
        return None
    if host == "youtu.be":
        found = parts.path.strip("/").partition("/")[0]
    elif host not in ("youtube.com", "m.youtube.com", "music.youtube.com", "youtube-nocookie.com"):
        return None
    elif parts.path.rstrip("/") == "/watch":
        found = parse_qs(parts.query).get("v", [""])[0]
    else:
        short = _PATH.fullmatch(parts.path)
        found = short[1] if short else ""
    return found if _ID.fullmatch(found) else None


def _carried(fetched: FetchedResource) -> tuple[VideoPlayer, list[VideoChapter]]:
    """Return the data of the page for its player, and the chapters that it shows."""
    text = fetched.body.decode("utf-8", "replace")[:_LARGEST]
    found = _json(text, _PLAYER)
    try:
        player = msgspec.convert(found, VideoPlayer) if found is not None else VideoPlayer()
    except msgspec.ValidationError:
        player = VideoPlayer()
    return player, list(_chapters(_json(text, _DATA)))


def _json(text: str, name: re.Pattern[str]) -> Any:
    """Return the value that a script assigns to this name; None if it is missing or invalid."""
    found = name.search(text)
    if found is None:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, found.end())[0]
    except (ValueError, RecursionError):
        return None


def _chapters(data: object) -> Iterator[VideoChapter]:
    bar = _at(
        data, "playerOverlays", "playerOverlayRenderer", "decoratedPlayerBarRenderer",
        "decoratedPlayerBarRenderer", "playerBar", "multiMarkersPlayerBarRenderer", "markersMap",
    )  # fmt: skip
    for marks in bar if isinstance(bar, list) else ():
        chapters = _at(marks, "value", "chapters")
        for each in chapters if isinstance(chapters, list) else ():
            start = _at(each, "chapterRenderer", "timeRangeStartMillis")
            title = _at(each, "chapterRenderer", "title", "simpleText")
            if isinstance(start, int) and isinstance(title, str):
                yield VideoChapter(start // 1000, " ".join(title.split()))


def _at(value: object, *names: str) -> object:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _refusal(player: VideoPlayer) -> Message:
    status = player.playabilityStatus
    if status is not None and status.reason:
        return say("YouTube does not show this video: {reason}", reason=" ".join(status.reason.split())[:200])
    return say("YouTube does not give programs data of this video: it asks for consent or a login.")


def _track(player: VideoPlayer) -> CaptionTrack | None:
    """Captions that somebody wrote before those that a machine heard; the film's own first."""
    renderer = player.captions.playerCaptionsTracklistRenderer if player.captions else None
    tracks = renderer.captionTracks if renderer else []
    heard = next((each.languageCode for each in tracks if each.kind == "asr"), "")
    return min(
        tracks,
        key=lambda each: (bool(heard) and each.languageCode != heard, each.kind == "asr"),
        default=None,
    )


def _page_of(
    id_: str,
    player: VideoPlayer,
    details: VideoDetails,
    chapters: Sequence[VideoChapter],
    track: CaptionTrack | None,
    events: Sequence[CaptionEvent],
    warnings: tuple[Message, ...],
) -> Page:
    seconds = int(details.lengthSeconds[:9]) if details.lengthSeconds.isdecimal() else 0
    date = player.microformat.playerMicroformatRenderer if player.microformat else None
    published = date.publishDate if date else None
    facts = {"Channel": details.author, "Length": _clock(seconds) if seconds else "", "Published": published}
    lines = "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)
    parts = [f"# {details.title}", lines, details.shortDescription.strip()]
    spoken = "\n\n".join(_spoken(events, chapters))
    if spoken:
        made = " (heard by a machine)" if track and track.kind == "asr" else ""
        parts += [f"## Transcript{made}", spoken]
    elif chapters:
        parts += ["## Chapters", "\n".join(f"- {_clock(each.start)} {each.title}" for each in chapters)]
    return Page(
        f"https://www.youtube.com/watch?v={id_}",
        "\n\n".join(filter(None, parts)),
        title=details.title,
        author=details.author or None,
        date=published,
        site="YouTube",
        lang=track.languageCode if track and spoken else None,
        canonical=f"https://www.youtube.com/watch?v={id_}",
        way=YouTubeAdapter.name,
        share=1.0,
        warnings=warnings,
    )


def _spoken(events: Sequence[CaptionEvent], chapters: Sequence[VideoChapter]) -> Iterator[str]:
    """Yield paragraphs of a minute with the time that each begins at, under the headings of chapters."""
    left = deque(chapters)
    words: list[str] = []
    begin = 0
    for event in events:
        said = "".join(segment.utf8 for segment in event.segs).strip()
        at = event.tStartMs // 1000
        if not said:
            continue
        opened = bool(left) and at >= left[0].start
        if words and (opened or at - begin >= PARAGRAPH):
            yield _paragraph(begin, words)
            words = []
        while left and at >= left[0].start:
            chapter = left.popleft()
            yield f"### {_clock(chapter.start)} {chapter.title}"
        begin = begin if words else at
        words.append(said)
    if words:
        yield _paragraph(begin, words)


def _paragraph(begin: int, words: Sequence[str]) -> str:
    return f"[{_clock(begin)}] {' '.join(' '.join(words).split())}"


def _clock(seconds: int) -> str:
    """Return seconds as 1:02:03 or 2:03."""
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
