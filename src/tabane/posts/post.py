"""Posts as values and as records of a collection; pure."""

from __future__ import annotations

import hashlib
import re

import msgspec

from tabane import posts
from tabane.search.records import Field, Kind, Record, Shape, TextField

DOMAIN = posts.DOMAIN

SPACES = ("content", "reasoning", "summary")
"""The texts of a post that have vectors, each in its own space. Weights come in this order."""

DUPLICATE_FIELD = "twin"
"""The stored field of :func:`duplicate_key`. Existing archives have it under this name."""

SHAPE = Shape(
    posts.COLLECTION,
    (TextField("content"), TextField("reasoning"), TextField("summary")),
    (
        Field("user", Kind.STRING),
        Field("name", Kind.STRING),
        Field("at", Kind.DATE),
        Field("log_type", Kind.NUMBER),
        Field("tags", Kind.STRINGS),
        Field(DUPLICATE_FIELD, Kind.STRING),
        Field("has", Kind.STRINGS),
    ),
)
"""``user`` is :func:`comparable_user`, ``name`` the spelling of the user.

``has`` names the non-empty texts.
"""

POST, LIKE, BOOKMARK = 1, 2, 3
"""Values of ``log_type``. If two rows have the same post, the larger value is kept."""


class Post(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One post. ``timestamp`` is kept as given; ``at`` is the same time in seconds since 1970 UTC.

    ``user`` is spelled as in the URL of the post, and empty if the URL has none. A model wrote
    ``reasoning``, ``summary`` and ``tags`` for search.
    """

    post_id: int
    content: str
    timestamp: str = ""
    url: str = ""
    user: str = ""
    log_type: int = POST
    at: float | None = None
    reasoning: str = ""
    summary: str = ""
    tags: tuple[str, ...] = ()


class _PostPayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a post's record: the parts that are not texts or fields."""

    timestamp: str = ""
    url: str = ""
    user: str = ""


def comparable_user(user: str) -> str:
    """Return a user name for comparison: without a leading @, and case-folded."""
    return user.removeprefix("@").casefold()


def duplicate_key(post: Post) -> str:
    """Return the same key for posts of one user with the same content, and for no others."""
    text = f"{comparable_user(post.user)}\0{post.content}".encode("utf-8", "replace")
    return hashlib.blake2b(text, digest_size=12).hexdigest()


def record_of(post: Post, vectors: dict[str, bytes] | None = None) -> Record:
    """Return the post as a record of :data:`SHAPE`. ``vectors``: space → float32, little-endian."""
    texts = {"content": post.content, "reasoning": post.reasoning, "summary": post.summary}
    return Record(
        key=str(post.post_id),
        texts=texts,
        fields={
            "user": comparable_user(post.user),
            "name": post.user,
            "log_type": post.log_type,
            "tags": post.tags,
            DUPLICATE_FIELD: duplicate_key(post),
            "has": tuple(name for name in SPACES if texts[name]),
            **({} if post.at is None else {"at": post.at}),
        },
        payload=msgspec.json.encode(_PostPayload(post.timestamp, post.url, post.user)),
        vectors=vectors or {},
    )


def post_of(record: Record) -> Post:
    """Return the post of a record."""
    rest = msgspec.json.decode(record.payload, type=_PostPayload)
    fields, texts = record.fields, record.texts
    at, tags, log_type = fields.get("at"), fields.get("tags"), fields.get("log_type")
    return Post(
        post_id=int(record.key),
        content=texts.get("content", ""),
        timestamp=rest.timestamp,
        url=rest.url,
        user=rest.user,
        log_type=int(log_type) if isinstance(log_type, int | float) else POST,
        at=at if isinstance(at, int | float) else None,
        reasoning=texts.get("reasoning", ""),
        summary=texts.get("summary", ""),
        tags=tags if isinstance(tags, tuple) else (),
    )


# A URL ends at the first non-ASCII character, because Japanese text follows without a space.
_ADDRESS = re.compile(r"(?:https?://|(?<![\w.])www\.)(?:[!-~]+|\S+)", re.IGNORECASE)
# After a letter, a digit or one of these characters, an @ belongs to an e-mail address.
_MENTION = re.compile(r"(?<![A-Za-z0-9_.%+/@＠-])[@＠][A-Za-z0-9_]+(?:@[A-Za-z0-9_.-]+)?")


def cleaned(text: str) -> str:
    """Return the text without URLs and @names, and with single spaces. #tags stay.

    If the result is empty, there is nothing to embed.
    """
    return " ".join(_MENTION.sub(" ", _ADDRESS.sub(" ", text)).split())
