"""Posts from the entries of X's own archive; pure.

The format has changed over the years, so most members may be missing. A like has no date and no user: its
date is that of its id, which X assigned when the post was made.
"""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import tzinfo
from typing import Any

from tabane.messages import say
from tabane.posts.importing import post_ids
from tabane.posts.importing.import_report import UnusableRow
from tabane.posts.importing.twilog_csv import unescaped, user_of
from tabane.posts.post import Post
from tabane.posts.times import timestamp_of_id, timestamp_of_x, twilog_time

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
        note = _inner(entry, "noteTweet")
        core: dict[str, Any] = next((note[name] for name in _CORES if isinstance(note.get(name), dict)), {})
        text = _whole(core.get("text"))
        at = timestamp_of_x(_text(note.get("createdAt")))
        post = _id(note.get("tweetId"))
        if not text or (at is None and post is None):
            raise UnusableRow(say("a long post without text or date"))
        if len(text) > self._room:
            raise UnusableRow(say("there are more long posts than fit into memory"))
        self._room -= len(text)
        addresses = core.get("urls") or _dict(core.get("entitySet")).get("urls")
        text = _expanded(unescaped(text), [addresses], ("shortUrl", "url"), ("expandedUrl", "expanded_url"))
        if post is not None:
            self._of_post[post] = text
        elif at is not None:
            self._at[int(at)].append(text)

    def of(self, post: int, at: float | None, begin: str) -> str | None:
        """Return the long text of a post with this beginning, made in that second. None if there is none."""
        if post in self._of_post:
            return self._of_post[post]
        head = _plain(begin)
        for text in self._at.get(int(at), ()) if at is not None else ():
            if len(text) > len(head) and _plain(text)[:_LIKENESS] == head[:_LIKENESS]:
                return text
        return None


def posted(entry: Any, log_type: int, user: str, notes: LongPosts, zone: tzinfo) -> Post:
    """Return a post of the archive's owner. Raises :class:`UnusableRow`."""
    tweet = _inner(entry, "tweet")
    number = _numbered(tweet, "id_str", "id")
    created = _text(tweet.get("created_at"))
    at = timestamp_of_x(created) if created else timestamp_of_id(number)
    if at is None and created:
        raise UnusableRow(say("“{text}” is not a time", text=created[:40]), number)
    text = _text_of(tweet)
    long = notes.of(number, at, text)
    original = _dict(tweet.get("retweeted_status"))  # in archives until 2018, where the text is a part of its
    author = user_of_account(original.get("user"))
    if author and _text_of(original):
        text = f"RT @{author}: {_text_of(original)}"
    entities = [_dict(of.get(name)) for of in (tweet, original) for name in ("entities", "extended_entities")]
    lists = [each.get(kind) for each in entities for kind in ("urls", "media")]
    user = user or user_of_account(tweet.get("user"))
    return Post(
        post_id=number,
        content=long or _expanded(text, lists, ("url",), ("expanded_url",)),
        timestamp=_shown(at, zone),
        url=f"https://x.com/{user or 'i'}/status/{number}",
        user=user,
        log_type=log_type,
        at=at,
    )


def liked(entry: Any, log_type: int, zone: tzinfo) -> Post:
    """Return a post that was liked or bookmarked. Raises UnusableRow, also if X no longer has its text."""
    like = _inner(entry, "like", "bookmark")
    number = _numbered(like, "tweetId", "id_str", "id")
    text = unescaped(_whole(like.get("fullText")) or _whole(like.get("full_text")))
    if not text.strip():
        raise UnusableRow(say("the archive does not contain its text"), number)
    url = _text(like.get("expandedUrl")) or f"https://x.com/i/status/{number}"
    at = timestamp_of_id(number)
    return Post(
        post_id=number,
        content=text,
        timestamp=_shown(at, zone),
        url=url,
        user=user_of(url, number),
        log_type=log_type,
        at=at,
    )


def user_of_account(entry: Any) -> str:
    """Return the owner's name, empty if the entry has none."""
    try:
        owner = _inner(entry, "account")
    except UnusableRow:
        return ""
    name = _text(owner.get("username")) or _text(owner.get("screen_name"))
    return name if re.fullmatch(r"\w{1,50}", name, re.ASCII) else ""


_CORES = ("core", "noteTweetResults", "noteTweetContents")


def _text_of(tweet: dict[str, Any]) -> str:
    return unescaped(_whole(tweet.get("full_text")) or _whole(tweet.get("text")))


def _shown(at: float | None, zone: tzinfo) -> str:
    return "" if at is None else twilog_time(at, zone)


def _inner(entry: Any, *names: str) -> dict[str, Any]:
    """Return the object under one of the names, or the entry itself. Raises :class:`UnusableRow`."""
    if isinstance(entry, dict):
        entry = next((entry[name] for name in names if name in entry), entry)
    if not isinstance(entry, dict):
        raise UnusableRow(say("not an entry of an archive of X"))
    return entry


def _numbered(entry: dict[str, Any], *names: str) -> int:
    for name in names:
        number = _id(entry.get(name))
        if number is not None:
            return number
    raise UnusableRow(say("“{text}” is not a post_id", text=_text(entry.get(names[0]))[:40]))


def _id(value: Any) -> int | None:
    return post_ids.post_id(str(value)) if isinstance(value, str | int) else None


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> str:
    """Return the text with lone surrogates replaced by U+FFFD, because they cannot be stored."""
    return _HALVES.sub("\ufffd", value) if isinstance(value, str) else ""


def _plain(text: str) -> str:
    return " ".join(_TAILS.sub("", text).split())


def _expanded(text: str, lists: list[Any], short: tuple[str, ...], long: tuple[str, ...]) -> str:
    """Return the text with t.co URLs replaced by their targets."""
    known: dict[str, str] = {}
    for entries in lists:
        for entry in entries if isinstance(entries, list) else ():
            each = _dict(entry)
            found = next((_whole(each.get(name)) for name in long if each.get(name)), "")
            for name in short:
                if found and isinstance(each.get(name), str):
                    known.setdefault(each[name], found)
    return _SHORT.sub(lambda match: known.get(match[0], match[0]), text) if known else text
