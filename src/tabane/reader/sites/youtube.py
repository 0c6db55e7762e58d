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
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, parse_qs, urlsplit

import msgspec

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import (
    ReadingTools,
    SiteApi,
    SitePages,
    SiteSample,
    UnexpectedAnswer,
    blocks,
    facts,
    one_line,
)

_Shape = TypeVar("_Shape")

PARAGRAPH = 60
"""Seconds of a paragraph of a transcript."""

_HOSTS = frozenset({"youtube.com", "m.youtube.com", "music.youtube.com", "youtube-nocookie.com"})
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


class VideoData(NamedTuple):
    """The data in a video's page: for its player, and of the chapters that it shows."""

    details: VideoDetails | None
    tracks: Sequence[CaptionTrack]
    chapters: Sequence[VideoChapter]
    published: str | None
    refusal: str


class YouTubeAdapter(SitePages[str]):
    """Title, description, chapters and, if YouTube gives it, the transcript of a video: two requests."""

    name, title = "youtube", "YouTube"
    sample = SiteSample("https://www.youtube.com/watch?v=jNQXAC9IVRw", "Me at the zoo", 20)

    def __init__(self, base: str = "https://www.youtube.com") -> None:
        self._base = base

    def place(self, host: str, parts: SplitResult) -> str | None:
        host = host.removeprefix("www.")
        if host == "youtu.be":
            found = parts.path.strip("/").partition("/")[0]
        elif host not in _HOSTS:
            return None
        elif parts.path.rstrip("/") == "/watch":
            found = parse_qs(parts.query).get("v", [""])[0]
        else:
            short = _PATH.fullmatch(parts.path)
            found = short[1] if short else ""
        return found if _ID.fullmatch(found) else None

    async def page(self, place: str, url: str, tools: ReadingTools) -> Page | None:
        fetched = await tools.fetcher.fetch(f"{self._base}/watch?v={place}", accept="text/html")
        video = await asyncio.to_thread(_parse_video_data, fetched)
        if video.details is None or not video.details.title:
            if video.refusal:
                refusal = say(
                    "YouTube does not show this video: {reason}", reason=one_line(video.refusal)[:200]
                )
            else:
                refusal = say(
                    "YouTube does not give programs data of this video: it asks for consent or a login."
                )
            raise ReadError(refusal, "empty")
        # Written captions before those that a machine heard; those in the language of the film first.
        heard = next((each.languageCode for each in video.tracks if each.kind == "asr"), "")
        track = min(
            video.tracks,
            key=lambda each: (bool(heard) and each.languageCode != heard, each.kind == "asr"),
            default=None,
        )
        events, warnings = await self._read_transcript(track, tools)
        return await asyncio.to_thread(_page_of, place, video, video.details, track, events, warnings)

    async def _read_transcript(
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
            words = await SiteApi(tools, where).get("", CaptionWords)
        except ReadError as error:
            if isinstance(error, UnexpectedAnswer):
                return [], (
                    say(
                        "YouTube gives the video's captions only to its own player, so there is no "
                        "transcript."
                    ),
                )
            return [], (say("The transcript could not be read: {reason}", reason=error.message),)
        return words.events, ()


def _parse_video_data(fetched: FetchedResource) -> VideoData:
    """Return the data of the page; what is not of the known form is left out."""
    text = fetched.body.decode("utf-8", "replace")[:_LARGEST]
    player = _script_value(text, _PLAYER)
    tracks = _value_at(player, "captions", "playerCaptionsTracklistRenderer", "captionTracks")
    return VideoData(
        _value_of_shape(_value_at(player, "videoDetails"), VideoDetails),
        _value_of_shape(tracks, list[CaptionTrack]) or (),
        list(_find_chapters(_script_value(text, _DATA))),
        _value_of_shape(_value_at(player, "microformat", "playerMicroformatRenderer", "publishDate"), str),
        _value_of_shape(_value_at(player, "playabilityStatus", "reason"), str) or "",
    )


def _value_of_shape(value: object, shape: type[_Shape]) -> _Shape | None:
    """Return the value, None if it is not of this shape."""
    try:
        return msgspec.convert(value, shape)
    except (msgspec.ValidationError, RecursionError):
        return None


def _script_value(text: str, name: re.Pattern[str]) -> Any:
    """Return the value that a script assigns to this name; None if it is missing or invalid."""
    found = name.search(text)
    if found is None:
        return None
    try:
        return json.JSONDecoder().raw_decode(text, found.end())[0]
    except (ValueError, RecursionError):
        return None


def _find_chapters(data: object) -> Iterator[VideoChapter]:
    bar = _value_at(
        data, "playerOverlays", "playerOverlayRenderer", "decoratedPlayerBarRenderer",
        "decoratedPlayerBarRenderer", "playerBar", "multiMarkersPlayerBarRenderer", "markersMap",
    )  # fmt: skip
    for marks in bar if isinstance(bar, list) else ():
        chapters = _value_at(marks, "value", "chapters")
        for each in chapters if isinstance(chapters, list) else ():
            start = _value_at(each, "chapterRenderer", "timeRangeStartMillis")
            title = _value_at(each, "chapterRenderer", "title", "simpleText")
            if isinstance(start, int) and isinstance(title, str):
                yield VideoChapter(start // 1000, one_line(title))


def _value_at(value: object, *names: str) -> object:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _page_of(
    id_: str,
    video: VideoData,
    details: VideoDetails,
    track: CaptionTrack | None,
    events: Sequence[CaptionEvent],
    warnings: tuple[Message, ...],
) -> Page:
    seconds = int(details.lengthSeconds[:9]) if details.lengthSeconds.isdecimal() else 0
    known = {
        "Channel": details.author,
        "Length": _clock_time(seconds) if seconds else "",
        "Published": video.published,
    }
    parts = [f"# {details.title}", facts(known), details.shortDescription.strip()]
    spoken = "\n\n".join(_paragraphs(events, video.chapters))
    if spoken:
        made = " (heard by a machine)" if track and track.kind == "asr" else ""
        parts += [f"## Transcript{made}", spoken]
    elif video.chapters:
        parts += [
            "## Chapters",
            "\n".join(f"- {_clock_time(each.start)} {each.title}" for each in video.chapters),
        ]
    return Page(
        f"https://www.youtube.com/watch?v={id_}",
        blocks(*parts),
        title=details.title,
        author=details.author or None,
        date=video.published,
        site=YouTubeAdapter.title,
        lang=track.languageCode if track and spoken else None,
        canonical=f"https://www.youtube.com/watch?v={id_}",
        way=YouTubeAdapter.name,
        share=1.0,
        warnings=warnings,
    )


def _paragraphs(events: Sequence[CaptionEvent], chapters: Sequence[VideoChapter]) -> Iterator[str]:
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
            yield _timed_paragraph(begin, words)
            words = []
        while left and at >= left[0].start:
            chapter = left.popleft()
            yield f"### {_clock_time(chapter.start)} {chapter.title}"
        begin = begin if words else at
        words.append(said)
    if words:
        yield _timed_paragraph(begin, words)


def _timed_paragraph(begin: int, words: Sequence[str]) -> str:
    return f"[{_clock_time(begin)}] {' '.join(' '.join(words).split())}"


def _clock_time(seconds: int) -> str:
    """Return seconds as 1:02:03 or 2:03."""
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
