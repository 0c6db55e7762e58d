r"""Queries of the post archive: the typed form ``V|T``, its terms, modes and weights, and filters; pure.

``cats and dogs|kitten -puppy`` finds posts similar to "cats and dogs" that contain "kitten" and do not
contain "puppy". A backslash makes the next character literal: ``\|`` is a bar, ``\-`` begins a term with a
dash. Parsing never fails.

A mode compares posts in one vector space, in three spaces at once, or by keywords too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import tzinfo
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct, field

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.operations.parameter_errors import decoder_message
from tabane.posts.post import BOOKMARK, LIKE, POST, SPACES, comparable_user
from tabane.search.analysis import normalize
from tabane.search.engine import Combination, VectorQuery
from tabane.search.records import EVERYTHING, And, Contains, Filter, In, Not, Range
from tabane.search.source import Keywords
from tabane.search.typed_query import is_program
from tabane.text.time_zones import bound

Source = Literal["content", "reasoning", "summary"]
Mode = Literal[
    "content", "reasoning", "summary", "average", "maximum", "minimum", "product", "weighted", "hybrid"
]
MODES: tuple[Mode, ...] = get_args(Mode)
SOURCES: tuple[Source, ...] = get_args(Source)

USUAL_WEIGHTS = (0.7, 0.2, 0.1)
"""Of content, reasoning and summary, in mode weighted."""

_WEIGHING = ("average", "weighted")
_COMBINATIONS: Mapping[str, Combination] = {
    "average": Combination.AVERAGE,
    "weighted": Combination.AVERAGE,
    "maximum": Combination.MAXIMUM,
    "minimum": Combination.MINIMUM,
    "product": Combination.PRODUCT,
}


def spaces_of(mode: Mode) -> tuple[str, ...]:
    """Return the spaces that a mode searches. It does not find posts that lack a vector in one of them."""
    if mode == "hybrid":
        return ("content",)
    return SPACES if mode in _COMBINATIONS else (mode,)


def source_of(mode: Mode) -> Source:
    """Return the text in which terms are searched: that of a single space's mode, otherwise the content."""
    return mode if mode in ("content", "reasoning", "summary") else "content"


def available(spaces: Sequence[str]) -> list[Mode]:
    """Return the modes that work with these spaces. Keyword search always works."""
    return [mode for mode in MODES if mode == "hybrid" or set(spaces_of(mode)) <= set(spaces)]


def checked_weights(mode: Mode, weights: Sequence[float] | None) -> tuple[float, ...] | None:
    """Return the weights of content, reasoning and summary, with sum 1. None if the mode has no weights.

    Raises :class:`BadArguments`.
    """
    if weights is None:
        return _normalize_weights(USUAL_WEIGHTS) if mode == "weighted" else None
    if mode not in _WEIGHING:
        raise BadArguments(
            say("weights can be used with mode average or weighted, not with {mode}", mode=mode), "weights"
        )
    fit = len(weights) == len(SPACES) and all(0 <= weight < math.inf for weight in weights)
    if not fit or not any(weights):
        raise BadArguments(
            say(
                "weights must be {count} {count:number|numbers}, for content, reasoning and summary: at "
                "least 0, and not all 0",
                count=len(SPACES),
            ),
            "weights",
        )
    return _normalize_weights(weights)


def _normalize_weights(weights: Sequence[float]) -> tuple[float, ...]:
    # Divide by the largest first: the sum of very large or very small weights would overflow or be 0.
    largest = max(weights)
    shares = [weight / largest for weight in weights]
    return tuple(share / sum(shares) for share in shares)


def vector_query(mode: Mode, weights: tuple[float, ...] | None, vectors: Mapping[str, bytes]) -> VectorQuery:
    """Return the query for the engine.

    ``vectors``: one for each space of the mode; ``weights`` are checked.
    """
    factors = {} if weights is None else dict(zip(SPACES, weights, strict=True))
    return VectorQuery(vectors, _COMBINATIONS.get(mode, Combination.AVERAGE), factors, whole=True)


_HALVES = re.compile(r"((?:\\.|[^\\|])*)\|(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\|])")
_ANY = re.compile(r"\\(.)", re.DOTALL)

# A term begins after white space, or after the closing quote of the term before it.
_TERM = re.compile(
    r"""-(?:\s|\Z)
      | (?P<minus>-)?
        (?: "(?P<phrase>(?:\\.|[^"\\]|\\\Z)*)(?:"|\Z)
          | (?P<word>(?:\\.|[^\s\\]|\\\Z)+) )""",
    re.DOTALL | re.VERBOSE,
)


LONGEST_QUERY = 100_000
"""Characters of a query that are read. A longer one is cut."""


class PostTerms(Struct, frozen=True):
    """The strings that a text must contain, and those that it must not. Without any, every text matches."""

    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.includes or self.excludes)

    def filter(self, source: str) -> Filter:
        """Return the filter for records whose text ``source`` matches, as substrings are compared."""
        includes = (Contains(term, (source,)) for term in self.includes if normalize(term))
        excludes = (Not(Contains(term, (source,))) for term in self.excludes if normalize(term))
        return And((*includes, *excludes))


class PostQuery(Struct, frozen=True):
    """``meaning`` is the text that posts are compared with; it may be empty. ``terms`` must match."""

    meaning: str
    terms: PostTerms


def parsed(text: str) -> PostQuery:
    """Parse the query ``V|T``: it is cut at the first bar that is not escaped.

    Without a bar, all of it is V.
    """
    halves = _HALVES.match(text)
    if halves is None:
        return PostQuery(_unescape_meaning(text.strip()), PostTerms())
    return PostQuery(_unescape_meaning(halves[1].strip()), terms(halves[2]))


# Signs that a bar belongs to a shell command, to code or to a table, and does not begin terms.
_OF_PIPES = "awk cut egrep fgrep grep head jq less more sed sort tail tee tr uniq wc xargs"
_FILTERS = frozenset(_OF_PIPES.split())
_CODE_IN_TERMS = re.compile(r"(?<!\S)--[A-Za-z]|&&|;(?:\s|\Z)|(?<!\S)[<>]{1,2}(?:\s|\Z)|[\r\n]")
_TABLE_ROW = re.compile(r"\|[^|]*(?:\|[^|]*)+\|")


def bar_is_text(text: str) -> bool:
    """Return whether the first bar of a query is one of a shell, of code or of a table: no terms follow it.

    >>> bar_is_text("cat x.log | grep -i error"), bar_is_text("cats|kitten -puppy")
    (True, False)
    """
    text = text.strip()
    halves = _HALVES.match(text)
    if halves is None:
        return False
    if halves[2].startswith("|") or _TABLE_ROW.fullmatch(text) or _CODE_IN_TERMS.search(halves[2]):
        return True
    before, behind = halves[1].split(maxsplit=1), halves[2].split(maxsplit=1)
    return bool(before and behind) and is_program(before[0]) and behind[0] in _FILTERS


def terms(text: str) -> PostTerms:
    """Parse the terms of T or of a ``search_term``. A quote may be unclosed; a single dash is ignored."""
    includes: list[str] = []
    excludes: list[str] = []
    for match in _TERM.finditer(text):
        text_of_term = match["word"] if match["phrase"] is None else match["phrase"]
        term = _ANY.sub(r"\1", text_of_term or "")
        if term:
            (excludes if match["minus"] else includes).append(term)
    return PostTerms(tuple(includes), tuple(excludes))


def escaped_meaning(text: str) -> str:
    """Escape the text as V of a query. :func:`parsed` then returns it, without white space at its ends."""
    return re.sub(r"([\\|])", r"\\\1", text)


def _unescape_meaning(text: str) -> str:
    """Remove backslashes before a bar or a backslash only, because V may be a path."""
    return _ESCAPED.sub(r"\1", text)


MOST_NAMES = 1_000
LONGEST_NAME = 200

_unknown = re.compile(r"unknown field `(.*)`", re.DOTALL).search

Name = Annotated[str, Meta(max_length=LONGEST_NAME)]
Names = Annotated[list[Name], Meta(max_length=MOST_NAMES)]
Count = Annotated[int, Meta(ge=0)]
LogType = Literal["post", "like", "bookmark", 1, 2, 3]

LOG_TYPES: Mapping[str | int, int] = {
    "post": POST, "like": LIKE, "bookmark": BOOKMARK, POST: POST, LIKE: LIKE, BOOKMARK: BOOKMARK,
}  # fmt: skip


class UserFilter(Struct, frozen=True, forbid_unknown_fields=True):
    """Whose posts. ``excludes`` counts without ``includes`` alone; thresholds are of posts in the archive."""

    includes: Names | None = None
    excludes: Names | None = None
    threshold_min: Count | None = None
    threshold_max: Count | None = None


class DateFilter(Struct, frozen=True, forbid_unknown_fields=True, rename={"since": "from", "until": "to"}):
    """Posts of when, both ends included."""

    since: Annotated[str, Meta(max_length=LONGEST_NAME)] | None = None
    until: Annotated[str, Meta(max_length=LONGEST_NAME)] | None = None


class PostFilters(Struct, frozen=True):
    """Filters of a search. ``shared`` has the same result for duplicates, ``own`` may differ between them."""

    shared: Filter = EVERYTHING
    own: Filter = EVERYTHING

    @property
    def all(self) -> Filter:
        return And((self.shared, self.own))

    def narrowed(self, *, shared: Filter = EVERYTHING, own: Filter = EVERYTHING) -> PostFilters:
        return PostFilters(And((self.shared, shared)), And((self.own, own)))


class PostConditions(Struct, frozen=True):
    """Conditions on posts, as they were requested."""

    users: UserFilter = field(default_factory=UserFilter)
    dates: DateFilter = field(default_factory=DateFilter)
    tags: tuple[str, ...] = ()
    log_types: tuple[LogType, ...] = ()


class PostSearchOptions(Struct, frozen=True):
    """The requested ranking of posts: mode, weights, and filter.

    ``mode_is_default``: the caller did not choose the mode. Then keywords take part while some posts have
    no vector. With ``keywords``, the mode has no effect. ``exact``: a phrase that no post has is not
    given up.
    """

    mode: Mode = "content"
    weights: tuple[float, ...] | None = None
    conditions: PostConditions = field(default_factory=PostConditions)
    mode_is_default: bool = False
    keywords: Keywords | None = None
    exact: bool = False


T = TypeVar("T", bound=Struct)


def read(kind: type[T], members: Mapping[str, Any] | None, parameter: str) -> T:
    """Convert a filter to its struct. Raises :class:`BadArguments` that names the path."""
    try:
        return msgspec.convert(members or {}, kind)
    except msgspec.ValidationError as error:
        # msgspec ends its messages with " - at `$.path`". They name an unknown member.
        detail, _, path = str(error).partition(" - at `$")
        member = _unknown(detail)
        whole = parameter + path.rstrip("`") + (f".{member[1][:LONGEST_NAME]}" if member else "")
        message = say("{parameter}: {detail}", parameter=whole, detail=decoder_message(detail))
        raise BadArguments(message, whole) from None


def by_user(users: UserFilter, counts: Mapping[str, int]) -> Filter:
    """Select posts of those users. ``counts``: number of posts of each in the archive, by folded name.

    For thresholds, a post without a user belongs to a user with 0 posts.
    """
    parts: list[Filter] = []
    if users.includes:
        parts.append(In("user", tuple(dict.fromkeys(map(comparable_user, users.includes)))))
    elif users.excludes:
        parts.append(Not(In("user", tuple(dict.fromkeys(map(comparable_user, users.excludes))))))
    if users.threshold_min is not None or users.threshold_max is not None:
        least = users.threshold_min or 0
        most = max(counts.values(), default=0) if users.threshold_max is None else users.threshold_max
        fits = {name for name, count in counts.items() if least <= (count if name else 0) <= most}
        parts.append(among("user", fits, counts))
    return And(tuple(parts))


def among(field: str, chosen: Collection[str], values: Collection[str]) -> Filter:
    """Select records whose value is in ``chosen``, or exclude the other ``values`` values if they are fewer.

    A record without the field, or with a value added meanwhile, may match or not.
    """
    if 2 * len(chosen) <= len(values):
        return In(field, tuple(chosen))
    return Not(In(field, tuple(value for value in values if value not in chosen)))


def by_date(dates: DateFilter, zone: tzinfo) -> Filter:
    """Select posts of that period, without posts of unknown time. Raises :class:`BadArguments`."""
    since, until = dates.since, dates.until
    low = None if since is None else bound(since, zone, "date_filter.from", end=False)
    high = None if until is None else bound(until, zone, "date_filter.to", end=True)
    return EVERYTHING if low is None and high is None else Range("at", low, high)


def by_tags(tags: Collection[str] | None) -> Filter:
    """Select posts that have one of the tags."""
    return In("tags", tuple(tags)) if tags else EVERYTHING


def by_log_type(kinds: Collection[LogType] | None) -> Filter:
    """Select posts, likes or bookmarks."""
    return In("log_type", tuple(sorted({LOG_TYPES[kind] for kind in kinds}))) if kinds else EVERYTHING
