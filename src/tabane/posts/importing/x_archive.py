"""Reader of X's own archive: posts and likes from the zip, or from the folder where it was unpacked.

Files are scripts that assign a list: ``window.YTD.tweets.part0 = [{"tweet": {…}}, …]``. In archives of 2012
to 2018 each month has one: ``Grailbird.data.tweets_2013_05 = [{…}, …]``. They are unpacked
and read entry by entry, because the list may be too long for memory. Nothing is written to the disk. A list
that unpacks to far more than posts can is rejected on the way.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import tzinfo
from typing import IO, Any

import msgspec

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.posts.importing import import_report
from tabane.posts.importing.import_report import RejectedRow, UnusableRow
from tabane.posts.importing.twilog_csv import unescaped, user_of
from tabane.posts.post import BOOKMARK, LIKE, POST, Post, timestamp_of_id, timestamp_of_x, twilog_time

MOST_NOTES = 64_000_000  # characters of long posts that are held while the posts are read

_SHORT = re.compile(r"https?://t\.co/\w+", re.ASCII)
_LIKENESS = 20  # characters that a post and its long text must share at the beginning
_TAILS = re.compile(r"(?:\s*https?://t\.co/\w+)+\s*$|…", re.ASCII)
_HALVES = re.compile("[\ud800-\udfff]")


class LongPosts:
    """Texts of long posts. The lists of posts contain only their beginnings, mostly without a reference."""

    def __init__(self) -> None:
        self._of_post: dict[int, str] = {}
        self._at: defaultdict[int, list[str]] = defaultdict(list)
        self._room = MOST_NOTES

    def add(self, entry: Any) -> None:
        """Add an entry of note-tweet.js. Raises :class:`UnusableRow`."""
        note = _unwrap(entry, "noteTweet")
        core: dict[str, Any] = next((note[name] for name in _CORES if isinstance(note.get(name), dict)), {})
        text = _without_surrogates(core.get("text"))
        at = timestamp_of_x(_text(note.get("createdAt")))
        post = _id(note.get("tweetId"))
        if not text or (at is None and post is None):
            raise UnusableRow(say("a long post without text or date"))
        if len(text) > self._room:
            raise UnusableRow(say("there are more long posts than fit into memory"))
        self._room -= len(text)
        addresses = core.get("urls") or _dict(core.get("entitySet")).get("urls")
        text = _expand_urls(
            unescaped(text), [addresses], ("shortUrl", "url"), ("expandedUrl", "expanded_url")
        )
        if post is not None:
            self._of_post[post] = text
        elif at is not None:
            self._at[int(at)].append(text)

    def of(self, post: int, at: float | None, begin: str) -> str | None:
        """Return the long text of a post with this beginning, made in that second. None if there is none."""
        if post in self._of_post:
            return self._of_post[post]
        head = _without_urls(begin)
        for text in self._at.get(int(at), ()) if at is not None else ():
            if len(text) > len(head) and _without_urls(text)[:_LIKENESS] == head[:_LIKENESS]:
                return text
        return None


def posted(entry: Any, log_type: int, user: str, notes: LongPosts, zone: tzinfo) -> Post:
    """Return a post of the archive's owner. Raises :class:`UnusableRow`."""
    tweet = _unwrap(entry, "tweet")
    number = _post_number(tweet, "id_str", "id")
    created = _text(tweet.get("created_at"))
    at = timestamp_of_x(created) if created else timestamp_of_id(number)
    if at is None and created:
        raise UnusableRow(say("“{text}” is not a time", text=created[:40]), number)
    text = _unescaped_text(tweet)
    long = notes.of(number, at, text)
    original = _dict(tweet.get("retweeted_status"))  # in archives until 2018, where the text is a part of its
    author = user_of_account(original.get("user"))
    if author and _unescaped_text(original):
        text = f"RT @{author}: {_unescaped_text(original)}"
    entities = [_dict(of.get(name)) for of in (tweet, original) for name in ("entities", "extended_entities")]
    lists = [each.get(kind) for each in entities for kind in ("urls", "media")]
    user = user or user_of_account(tweet.get("user"))
    return Post(
        post_id=number,
        content=long or _expand_urls(text, lists, ("url",), ("expanded_url",)),
        timestamp=_timestamp(at, zone),
        url=f"https://x.com/{user or 'i'}/status/{number}",
        user=user,
        log_type=log_type,
        at=at,
    )


def liked(entry: Any, log_type: int, zone: tzinfo) -> Post:
    """Return a post that was liked or bookmarked. Raises UnusableRow, also if X no longer has its text."""
    like = _unwrap(entry, "like", "bookmark")
    number = _post_number(like, "tweetId", "id_str", "id")
    text = unescaped(_without_surrogates(like.get("fullText")) or _without_surrogates(like.get("full_text")))
    if not text.strip():
        raise UnusableRow(say("the archive does not contain its text"), number)
    url = _text(like.get("expandedUrl")) or f"https://x.com/i/status/{number}"
    at = timestamp_of_id(number)
    return Post(
        post_id=number,
        content=text,
        timestamp=_timestamp(at, zone),
        url=url,
        user=user_of(url, number),
        log_type=log_type,
        at=at,
    )


def user_of_account(entry: Any) -> str:
    """Return the owner's name, empty if the entry has none."""
    try:
        owner = _unwrap(entry, "account")
    except UnusableRow:
        return ""
    name = _text(owner.get("username")) or _text(owner.get("screen_name"))
    return name if re.fullmatch(r"\w{1,50}", name, re.ASCII) else ""


_CORES = ("core", "noteTweetResults", "noteTweetContents")


def _unescaped_text(tweet: dict[str, Any]) -> str:
    return unescaped(_without_surrogates(tweet.get("full_text")) or _without_surrogates(tweet.get("text")))


def _timestamp(at: float | None, zone: tzinfo) -> str:
    return "" if at is None else twilog_time(at, zone)


def _unwrap(entry: Any, *names: str) -> dict[str, Any]:
    """Return the object under one of the names, or the entry itself. Raises :class:`UnusableRow`."""
    if isinstance(entry, dict):
        entry = next((entry[name] for name in names if name in entry), entry)
    if not isinstance(entry, dict):
        raise UnusableRow(say("not an entry of an archive of X"))
    return entry


def _post_number(entry: dict[str, Any], *names: str) -> int:
    for name in names:
        number = _id(entry.get(name))
        if number is not None:
            return number
    raise UnusableRow(say("“{text}” is not a post_id", text=_text(entry.get(names[0]))[:40]))


def _id(value: Any) -> int | None:
    return import_report.post_id(str(value)) if isinstance(value, str | int) else None


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _without_surrogates(value: Any) -> str:
    """Return the text with lone surrogates replaced by U+FFFD, because they cannot be stored."""
    return _HALVES.sub("\ufffd", value) if isinstance(value, str) else ""


def _without_urls(text: str) -> str:
    return " ".join(_TAILS.sub("", text).split())


def _expand_urls(text: str, lists: list[Any], short: tuple[str, ...], long: tuple[str, ...]) -> str:
    """Return the text with t.co URLs replaced by their targets."""
    targets: dict[str, str] = {}
    for entries in lists:
        for entry in entries if isinstance(entries, list) else ():
            each = _dict(entry)
            target = next((_without_surrogates(each.get(name)) for name in long if each.get(name)), "")
            for name in short:
                if target and isinstance(each.get(name), str):
                    targets.setdefault(each[name], target)
    return _SHORT.sub(lambda match: targets.get(match[0], match[0]), text) if targets else text


LONGEST = 1_048_576  # bytes of an element
_READ = 65_536
_LONGEST_HEAD = 1000
_HEAD = re.compile(rb"\s*;?\s*(?:(?:var\s+|let\s+|const\s+)?[\w.\[\]\"']+\s*=\s*)?(?=\[)")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:(")|\\?\Z)|[{}\[\]]', re.DOTALL)


class _ElementCutter:
    """Cuts a JSON array into its elements. ``start`` is the start of one; None if it is too long to keep."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.line = 1
        self.depth = 0
        self.at = 0  # everything before it was examined
        self.start: int | None = None
        self.began = 1  # line of the element
        self.ended = False

    def elements(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield the complete elements so far: line, and bytes or None if they are too long."""
        counted = 0
        while not self.ended and (token := _TOKEN.search(self.buffer, self.at)):
            first = self.buffer[token.start()]
            if first == 0x22 and token[1] is None:
                self.at = token.start()  # the rest of the string is still to come
                break
            self.at = token.end()
            if first in b"{[":
                if self.depth == 1:
                    self.line += self.buffer.count(b"\n", counted, token.start())
                    counted = self.start = token.start()
                    self.began = self.line
                self.depth += 1
            elif first in b"}]":
                self.depth -= 1
                self.ended = self.depth == 0
                if self.depth == 1:
                    yield self.began, None if self.start is None else bytes(self.buffer[self.start : self.at])
                    self.start = None
        else:
            self.at = len(self.buffer)
        keep = self.at if self.start is None else self.start
        if len(self.buffer) - keep > LONGEST:
            if self.at <= keep:  # a string of that length: its end cannot be found without keeping it
                raise UnusableRow(say("longer than {most} {most:byte|bytes}", most=LONGEST))
            keep, self.start = self.at, None
        self.line += self.buffer.count(b"\n", counted, keep)
        del self.buffer[:keep]
        self.at = max(0, self.at - keep)
        if self.start is not None:
            self.start -= keep


def elements(stream: IO[bytes]) -> Iterator[tuple[int, Any]]:
    """Yield the line and value of each element. The value is an :class:`UnusableRow` if it is not JSON.

    Raises :class:`UnusableRow` if the file does not contain such an array, or ends before its end.
    """
    cut = _ElementCutter()
    cut.buffer += stream.read(_READ).removeprefix(b"\xef\xbb\xbf")
    head = _HEAD.match(cut.buffer, 0, _LONGEST_HEAD)
    if head is None:
        raise UnusableRow(say("it contains no list of entries"))
    cut.at, cut.depth = head.end() + 1, 1
    while True:
        for line, element in cut.elements():
            yield line, _decode_element(element)
        if cut.ended:
            while stream.read(_READ):
                pass  # zipfile checks the CRC at the end
            return
        more = stream.read(_READ)
        if not more:
            raise UnusableRow(say("it ends in the middle of an entry"))
        cut.buffer += more


def _decode_element(element: bytes | None) -> Any:
    if element is None:
        return UnusableRow(say("longer than {most} {most:byte|bytes}", most=LONGEST))
    try:
        return msgspec.json.decode(element)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:  # the standard library accepts lone surrogates, which Node emits when it cuts an emoji
        return json.loads(element.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        return UnusableRow(say("not JSON: {error}", error=str(error)))


MOST_UNPACKED = 8_000_000_000  # bytes of one list
LARGEST_RATIO = 200  # of unpacked to packed: posts as JSON come to some 20
_ANY_RATIO = 10_000_000  # bytes that are allowed at any ratio
LARGEST_DIRECTORY = 400_000_000  # bytes of a zip's table of contents: some four million files
_ACCOUNT = 1_048_576

_LISTS = re.compile(
    r"(?:^|/)(?:data/)?(account|note-tweet|tweets?|community-tweet|likes?|liked-tweets|bookmarks?)(?:-part\d+)?\.js$"
    r"|(?:^|/)(?:data/)?js/(user_details|tweets/\d{4}_\d\d)\.js$"  # until 2018
)
_FOLDERS = ("", "data/", "js/", "js/tweets/", "data/js/", "data/js/tweets/")
_OBJECT = re.compile(rb"\s*;?\s*(?:var\s+)?[\w.]+\s*=\s*(\{.*\})\s*;?\s*", re.DOTALL)
_OWNERS = ("account", "user_details")
_LOG_TYPES = {"like": LIKE, "likes": LIKE, "liked-tweets": LIKE, "bookmark": BOOKMARK, "bookmarks": BOOKMARK}
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


class _CountedFile:
    """A list while it is unpacked. Counts the bytes read, and raises UnusableRow if they are too many."""

    def __init__(self, file: IO[bytes], packed: int) -> None:
        self._file, self._packed = file, packed
        self.read_so_far = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.read_so_far += len(data)
        allowed = min(MOST_UNPACKED, max(_ANY_RATIO, LARGEST_RATIO * self._packed))
        if self.read_so_far > allowed:
            raise UnusableRow(
                say(
                    "it unpacks to more than {most} {most:byte|bytes}, too many for a list of posts",
                    most=allowed,
                )
            )
        return data


class XArchive:
    """An open archive. ``done`` of ``size`` packed bytes are read. Iterate once.

    ``whole`` is False if a list could not be read to its end. Raises
    :class:`~tabane.errors.BadArguments` if the file is not such an archive, OSError if it cannot be read.
    """

    def __init__(self, path: str, zone: tzinfo) -> None:
        self.path = path
        self.done = 0
        self.whole = True
        self.user = ""
        self._zone = zone
        self._notes = LongPosts()
        self._zip = None if os.path.isdir(path) else _open_zip(path)
        try:
            self._lists = self._find_lists()
            self.size = sum(packed for _, _, packed in self._lists)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Post | RejectedRow]:
        yield from self._read_account()
        for kind, name, packed in self._lists:
            before = self.done
            if kind not in _OWNERS:
                for line, value in self._entries(name, packed):
                    try:
                        if isinstance(value, UnusableRow):
                            raise value
                        if kind == "note-tweet":
                            self._notes.add(value)
                        elif kind in _LOG_TYPES:
                            yield liked(value, _LOG_TYPES[kind], self._zone)
                        else:
                            yield posted(value, POST, self.user, self._notes, self._zone)
                    except UnusableRow as unfit:
                        yield self._rejected(name, line, unfit)
            self.done = before + packed

    def close(self) -> None:
        """Close the zip."""
        if self._zip is not None:
            self._zip.close()

    # Contents

    def _find_lists(self) -> list[tuple[str, str, int]]:
        """Return kind, name and packed size of the lists. Lists that others need come first."""
        files = (
            _files_of(self.path)
            if self._zip is None
            else ((each.filename, each.compress_size) for each in self._zip.infolist())
        )
        lists = [
            (match[1] or match[2], name, max(packed, 1))
            for name, packed in files
            if (match := _LISTS.search(name))
        ]
        order = (*_OWNERS, "note-tweet")
        if all(kind in order for kind, _, _ in lists):
            raise BadArguments(
                say(
                    "{path} is not an archive of X: it has no data/tweets.js, no data/like.js and no "
                    "data/js/tweets/YEAR_MONTH.js.",
                    path=self.path,
                ),
                "files",
            )
        return sorted(lists, key=lambda each: (each[0] not in order, each[0] in _LOG_TYPES, each[1]))

    def _open_list(self, name: str) -> IO[bytes]:
        if self._zip is not None:
            return self._zip.open(name)
        return open(os.path.join(self.path, name), "rb")

    def _entries(self, name: str, packed: int) -> Iterator[tuple[int, Any]]:
        """Yield line and value of each entry. Raises UnusableRow if one is no entry or the list is cut."""
        before = self.done
        try:
            with self._open_list(name) as file:
                size = max(1, self._zip.getinfo(name).file_size if self._zip else packed)
                counted = _CountedFile(file, packed)
                for line, value in elements(counted):  # type: ignore[arg-type]
                    self.done = before + min(packed, packed * counted.read_so_far // size)
                    yield line, value
        except UnusableRow as unfit:
            self.whole = False
            yield 0, unfit
        except _DAMAGED as error:
            self.whole = False
            yield (
                0,
                UnusableRow(say("damaged from here on: {error}", error=str(error) or type(error).__name__)),
            )

    # The lists

    def _read_account(self) -> Iterator[RejectedRow]:
        for kind, name, packed in self._lists:
            if kind == "user_details" and not self.user:
                with self._open_list(name) as file:  # of archives until 2018
                    assigned = _OBJECT.fullmatch(file.read(_ACCOUNT).removeprefix(b"\xef\xbb\xbf"))
                self.user = user_of_account(_decode_element(assigned[1]) if assigned else None)
            elif kind == "account":
                for line, value in self._entries(name, packed):
                    self.user = self.user or user_of_account(value)
                    if isinstance(value, UnusableRow):
                        yield self._rejected(name, line, value)

    def _rejected(self, name: str, line: int, unfit: UnusableRow) -> RejectedRow:
        return RejectedRow(f"{self.path}:{name}", line, unfit.reason, unfit.post_id)


def _files_of(folder: str) -> Iterator[tuple[str, int]]:
    """Yield name and size of each file where lists may be."""
    for part in _FOLDERS:
        if os.path.isdir(os.path.join(folder, part)):
            for entry in os.scandir(os.path.join(folder, part)):
                if entry.is_file():
                    yield part + entry.name, entry.stat().st_size


def has_lists(folder: str) -> bool:
    """Return whether the folder is an archive: it has a list of posts, likes or bookmarks."""
    kinds = (match[1] or match[2] for name, _ in _files_of(folder) if (match := _LISTS.search(name)))
    return any(kind not in (*_OWNERS, "note-tweet") for kind in kinds)


def _open_zip(path: str) -> zipfile.ZipFile:
    """Open the zip, after checking the size of its table of contents. Raises BadArguments."""
    try:
        with open(path, "rb") as file:
            # The size of the table is a 32-bit number at the end, or a 64-bit number in a record before it.
            size = file.seek(0, 2)
            file.seek(max(0, size - 66_000))
            tail = file.read()
            end, end64 = tail.rfind(b"PK\5\6"), tail.rfind(b"PK\6\6")
            length = int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0
            if length == 0xFFFFFFFF and end64 >= 0:
                length = int.from_bytes(tail[end64 + 40 : end64 + 48], "little")
            if length > LARGEST_DIRECTORY:
                raise BadArguments(
                    say("{path} has too many files to be an archive of X.", path=path), "files"
                )
        archive = zipfile.ZipFile(path)
    except _DAMAGED as error:
        raise BadArguments(
            say("{path} is damaged or not a zip file: {error}", path=path, error=str(error)), "files"
        ) from None
    if any(each.flag_bits & 1 and _LISTS.search(each.filename) for each in archive.infolist()):
        archive.close()
        raise BadArguments(say("{path} is encrypted. Unpack it, and give the folder.", path=path), "files")
    return archive
