"""Results of a model for posts (reasoning, summary, tags), and the merging of posts and results.

A file has one JSON object a line: ``{"key": id, "reasoning": …, "summary": …, "tags": […]}``. Gemini's
batches have the same object as a text within ``response.candidates``.

Merging never removes a value: an empty value in one source keeps the value of another. If two sources
differ, the larger log_type wins, then the earlier source of the same import. Over values of an earlier
import, this import wins. Importing the same sources again therefore changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import IO, Any, NamedTuple

import msgspec

from tabane.errors import BadArguments
from tabane.messages import say
from tabane.posts.importing.import_report import PostIdTable, RejectedRow, UnusableRow, post_id
from tabane.posts.post import SPACES, Post, cleaned
from tabane.search.records import LONGEST_STRING, MOST_STRINGS

LONGEST_LINE = 1_048_576  # bytes
_TRIED = 20
_BITS = 44  # of the place in a file: 17 TB; above them the file's number
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


class ModelResult(NamedTuple):
    """Results for one post. Unknown members are empty."""

    reasoning: str
    summary: str
    tags: tuple[str, ...]


class ModelResults:
    """Files of results: :meth:`index` finds the line of each post, :meth:`of` reads it.

    If several lines are about one post, the last one counts. Raises BadArguments if a file has another
    format, OSError if it cannot be read.
    """

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self.places = PostIdTable()
        self.done = 0
        self._files: list[IO[bytes]] = []
        try:
            for path in paths:
                self._files.append(open(path, "rb"))  # noqa: SIM115  (closed by close)
                self._check_format(path, self._files[-1])
            self.sizes = [file.seek(0, 2) for file in self._files]
        except BaseException:
            self.close()
            raise

    def index(self, number: int) -> Iterator[int | RejectedRow]:
        """Read a file. Yield the id of each valid line, and each unusable line."""
        file, line = self._files[number], 0
        file.seek(0)
        while True:
            start = file.tell()
            read = rest = file.readline(LONGEST_LINE)
            self.done += len(read)
            while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
                # Skip the rest of a line that is too long.
                rest = file.readline(LONGEST_LINE)
                self.done += len(rest)
            line += 1
            if not read:
                return
            if not read.strip():
                continue
            try:
                key, _ = parsed(read)
                self.places[key] = number << _BITS | start
                yield key
            except UnusableRow as unfit:
                yield RejectedRow(self.paths[number], line, unfit.reason, unfit.post_id)

    def of(self, post: int) -> ModelResult | None:
        """Return the result for a post, None if there is none."""
        place = self.places.get(post, -1)
        if place < 0:
            return None
        file = self._files[place >> _BITS]
        file.seek(place & (1 << _BITS) - 1)
        try:
            return parsed(file.readline(LONGEST_LINE))[1]
        except UnusableRow:
            return None  # the file was written to since

    def number(self, post: int) -> int:
        """Return the number of the file with the line about a post, 0 if there is none."""
        return self.places.get(post, 0) >> _BITS

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()

    def _check_format(self, path: str, file: IO[bytes]) -> None:
        """Raise BadArguments if none of the first lines is a result, with the problem of the first line."""
        reason = say("it is empty")
        first = True
        for _ in range(_TRIED):
            line = file.readline(LONGEST_LINE)
            if not line.strip():
                continue
            try:
                parsed(line)
                return
            except UnusableRow as unfit:
                if unfit.post_id:
                    return  # a result, although an unusable one
                if first:
                    reason, first = unfit.reason, False
        raise BadArguments(
            say(
                "{path} has no results: {why}. It must be a UTF-8 file with lines such as {example}",
                path=path,
                why=reason,
                example='{"key":"1234567890123456789","reasoning":"…","summary":"…","tags":["…"]}',
            ),
            "files",
        )


def parsed(line: bytes) -> tuple[int, ModelResult]:
    """Parse a line of either form into id and result. Raises :class:`UnusableRow`."""
    if len(line) >= LONGEST_LINE:
        raise UnusableRow(say("longer than {most} {most:byte|bytes}", most=LONGEST_LINE))
    entry = _read_object(line.removeprefix(b"\xef\xbb\xbf"))
    key = entry.get("key")
    number = post_id(str(key)) if isinstance(key, str | int) else None
    if "request" in entry and "response" not in entry:
        raise UnusableRow(say("a request to a model, not its answer"))
    if number is None:
        raise UnusableRow(say("“{text}” is not a post_id", text=str(key)[:40]))
    try:
        return number, _result_of(_model_answer(entry))
    except UnusableRow as unfit:
        raise UnusableRow(unfit.reason, number) from None


def _read_object(text: bytes | str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnusableRow(say("not JSON: {error}", error=str(error))) from None
    if not isinstance(found, dict):
        raise UnusableRow(say("not a JSON object"))
    return found


def _model_answer(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the result: the entry itself, or the text in a model's response."""
    if "response" not in entry:
        if "error" in entry:
            raise UnusableRow(
                say("the model answered with an error: {error}", error=str(entry["error"])[:200])
            )
        return entry
    response = entry["response"]
    blocked = _member_at(response, "promptFeedback", "blockReason")
    if blocked:
        raise UnusableRow(say("the model refused it: {reason}", reason=str(blocked)[:200]))
    parts = _member_at(response, "candidates", 0, "content", "parts")
    texts = [part.get("text") for part in parts or () if isinstance(part, dict) and not part.get("thought")]
    text = "".join(each for each in texts if isinstance(each, str))
    if not text:
        raise UnusableRow(say("the model's response is empty"))
    fenced = _FENCE.fullmatch(text)
    return _read_object(fenced[1] if fenced else text)


def _member_at(value: Any, *path: str | int) -> Any:
    for step in path:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and len(value) > step else None
    return value


def _result_of(answer: dict[str, Any]) -> ModelResult:
    reasoning, summary, tags = (answer.get(name) for name in ("reasoning", "summary", "tags"))
    for name, value in (("reasoning", reasoning), ("summary", summary)):
        if value is not None and not isinstance(value, str):
            raise UnusableRow(say("{field} is not text", field=name))
    if tags is not None and not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
        raise UnusableRow(say("{field} is not a list of texts", field="tags"))
    kept = tuple(tag.strip() for tag in tags or () if tag.strip())
    if len(kept) > MOST_STRINGS or any(len(tag.encode()) > LONGEST_STRING for tag in kept):
        raise UnusableRow(say("there are too many tags, or they are too long"))
    if not (reasoning or summary or kept):
        raise UnusableRow(say("neither reasoning nor summary nor tags"))
    return ModelResult(reasoning or "", summary or "", kept)


def merged(stored: Post | None, given: Post, level: int) -> Post:
    """Merge the stored post and the post of a row.

    ``level`` is the largest log_type of the post in this import so far, 0 before the first row.
    """
    if stored is None:
        return given
    wins = given.log_type > level and given.log_type >= stored.log_type
    return _fill_from(given, stored) if wins else _fill_from(stored, given)


def _fill_from(first: Post, second: Post) -> Post:
    """Return the first post, with empty members filled from the second."""
    dated = first if first.timestamp or not second.timestamp else second
    signed = first if first.user or not second.user else second  # the URL belongs to the user it names
    return msgspec.structs.replace(
        first,
        content=first.content or second.content,
        timestamp=dated.timestamp,
        at=dated.at,
        url=signed.url or first.url or second.url,
        user=signed.user,
        log_type=max(first.log_type, second.log_type),
        reasoning=first.reasoning or second.reasoning,
        summary=first.summary or second.summary,
        tags=first.tags or second.tags,
    )


def enriched(post: Post, result: ModelResult | None) -> Post:
    """Return the post with the results of a model."""
    if result is None:
        return post
    return msgspec.structs.replace(
        post,
        reasoning=result.reasoning or post.reasoning,
        summary=result.summary or post.summary,
        tags=result.tags or post.tags,
    )


def unchanged_vectors(before: Post, after: Post, vectors: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the vectors whose embedded text has not changed."""
    same = {
        space
        for space in SPACES
        if (old := getattr(before, space)) == (new := getattr(after, space)) or cleaned(old) == cleaned(new)
    }
    return {space: vector for space, vector in vectors.items() if space in same}
